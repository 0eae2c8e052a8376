"""The check of trials: an instance that is on trial has its verdict by the next answer but one."""

from __future__ import annotations

from longshore.pool.messages import PoolEvent, ProbeSucceeded
from longshore.pool.model import Worker, WorkerState
from longshore.pool.timers import TimerKind
from tests.sim.process import DispatcherProcess
from tests.sim.truth import expect

MOST_ANSWERS = 2
"""The probe that was on its way when the trial was called for, and the one that is the trial."""


class Verdicts:
    """Looks at one process: how often an instance has answered since it is on trial."""

    def __init__(self, process: DispatcherProcess) -> None:
        self._pool = process.engine.pool
        self._answers: dict[str, int] = {}

    def heard(self, event: PoolEvent) -> None:
        """Count an answer to the probe that is awaited of an instance which is on trial."""
        if not isinstance(event, ProbeSucceeded) or event.worker_id not in self._answers:
            return
        worker = self._pool.workers.get(event.worker_id)
        if worker is not None and worker.link.probe_op == event.op_id:
            self._answers[event.worker_id] += 1

    def look(self) -> None:
        """Look at who is on trial after an event, and who has been for too long."""
        tried = {id_: each for id_, each in self._pool.workers.items() if _is_tried(each)}
        self._answers = {id_: self._answers.get(id_, 0) for id_ in tried}
        for worker_id, worker in tried.items():
            answers = self._answers[worker_id]
            few = answers < MOST_ANSWERS
            expect(few, "a trial has its verdict", f"{worker_id} has answered {answers} times")
            due = self._pool.timers.due(TimerKind.PROBE, worker_id) is not None
            due = due or bool(worker.link.probe_op) or worker_id in self._pool.probe_gate
            due = due or not worker.link.session_up
            expect(due, "a trial has its verdict", f"no probe of {worker_id} is due")


def _is_tried(worker: Worker) -> bool:
    return worker.health.on_trial and worker.state is not WorkerState.SHUTDOWN
