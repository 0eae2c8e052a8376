"""The checks of what comes of a cloud's word that an instance is stopped: not too soon or late."""

from __future__ import annotations

from longshore.drivers.interface import Power
from longshore.pool.messages import Listed, PoolEvent, ProbeSucceeded, SessionLost
from longshore.pool.model import IdleBehavior, WorkerState
from longshore.pool.transitions import Trigger
from tests.sim.process import DispatcherProcess
from tests.sim.truth import expect

LEAST_LISTINGS = 2


class Conditions:
    """Looks at one process: how many listings in a row called an instance stopped."""

    def __init__(self, process: DispatcherProcess) -> None:
        self._pool = process.engine.pool
        self._said: dict[str, int] = {}
        self._attached: set[str] = set()
        self._due: set[str] = set()
        self._ended: set[str] = set()

    def heard(self, event: PoolEvent) -> None:
        """Look at an event before the engine gets it."""
        match event:
            case Listed() if event.op_id == self._pool.listing_op:
                self._on_listed(event)
            case ProbeSucceeded():
                worker = self._pool.workers.get(event.worker_id)
                if worker is not None and worker.link.probe_op == event.op_id:
                    self._attached.add(event.worker_id)
            case SessionLost():
                self._attached.discard(event.worker_id)
            case _:
                pass

    def _on_listed(self, event: Listed) -> None:
        powers = {seen.id: seen.power for seen in event.instances}
        for instance_id, power in powers.items():
            before = self._said.get(instance_id, 0)
            self._said[instance_id] = before + 1 if power is Power.STOPPED else 0
        said_enough = {id_ for id_ in powers if self._said[id_] >= LEAST_LISTINGS}
        self._due = said_enough - self._attached

    def look(self) -> None:
        """Look at who was ended for that after an event, and who should have been."""
        workers, due = self._pool.workers, self._due
        self._due = set()
        for gone in self._said.keys() - workers.keys():
            del self._said[gone]
        self._ended &= workers.keys()
        self._attached &= workers.keys()
        for worker_id, worker in workers.items():
            if worker.state is WorkerState.SHUTDOWN:
                self._expect_said(worker_id, worker.shutdown.reason)
                continue
            held = worker.behavior is IdleBehavior.HOLD or worker.cloud.remembered
            spared = held or worker.link.session_up or self._pool.stalled
            expect(spared or worker_id not in due, "what is stopped is ended", worker_id)

    def _expect_said(self, worker_id: str, end_reason: str) -> None:
        """Look at who is being shut down, once: what is heard of it later changes nothing."""
        if worker_id in self._ended:
            return
        self._ended.add(worker_id)
        if end_reason.startswith(Trigger.STOPPED.value):
            said = self._said.get(worker_id, 0)
            right = said >= LEAST_LISTINGS and worker_id not in self._attached
            what = f"{worker_id}: {said} listings in a row, attached: {sorted(self._attached)}"
            expect(right, "no instance is ended for a word", what)
