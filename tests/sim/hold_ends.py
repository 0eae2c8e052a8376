"""The check of holds that have an end: an account of when that is, beside the dispatcher's own."""

from __future__ import annotations

from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from tests.sim.process import DispatcherProcess
from tests.sim.truth import expect

SLACK_S = 1.0


class HoldEnds:
    """Knows of each instance what was asked of it last, and, once it is confirmed, its end.

    It outlives processes, as the ends do; their clocks agree in runs with such holds.
    """

    def __init__(self) -> None:
        self._last: dict[str, int | None] = {}
        self._until: dict[str, float] = {}
        """Ends that were asked for: a process may have kept one and crashed before it said so."""
        self._confirmed: set[str] = set()
        self._process: DispatcherProcess | None = None
        self._known_since: dict[str, float] = {}

    def asked(self, event: BehaviorRequested) -> None:
        """Note what is asked of an instance: what was asked before may count no more."""
        self._last[event.worker_id] = event.asked
        self._until.pop(event.worker_id, None)
        self._confirmed.discard(event.worker_id)
        if event.note is not None and event.note.until is not None:
            self._until[event.worker_id] = event.note.until

    def meddled(self, worker_id: str) -> None:
        """Note that somebody has written other tags: what counts is open."""
        self._last.pop(worker_id, None)
        self._until.pop(worker_id, None)
        self._confirmed.discard(worker_id)

    def confirmed(self, event: BehaviorRequested, asked: int) -> None:
        """Note the end of a hold, from when on a restart would know of it."""
        if event.worker_id in self._until and self._last.get(event.worker_id) == asked:
            self._confirmed.add(event.worker_id)

    def is_over(self, worker_id: str, now: float) -> bool:
        """Return whether the end of a hold has come."""
        return now >= self._until.get(worker_id, now + SLACK_S)

    def look(self, process: DispatcherProcess) -> None:
        """Look at those whose hold has an end."""
        pool, now = process.engine.pool, process.now()
        if process is not self._process:
            self._process, self._known_since = process, {}
        known = {id_: w for id_, w in pool.workers.items() if not w.cloud.remembered}
        self._known_since = {id_: self._known_since.get(id_, now) for id_ in known}
        for worker_id in sorted(self._confirmed):
            until = self._until[worker_id]
            worker = known.get(worker_id)
            if worker is None or worker.state is WorkerState.SHUTDOWN:
                continue
            # What was remembered only is looked at again within a sync_interval.
            known_at = self._known_since[worker_id] + pool.settings.sync_interval_s
            if now < until - SLACK_S:
                self._expect(worker, until, held=True)
            elif now > max(until, known_at) + SLACK_S:
                self._expect(worker, until, held=False)

    def _expect(self, worker: Worker, until: float, *, held: bool) -> None:
        right = (worker.behavior is IdleBehavior.HOLD) is held
        what = f"{worker.id}: {worker.behavior.value}, held until {until:.1f}"
        expect(right, "a hold is as long as it is to be", what)
