"""The check of what admins are told: it is confirmed once a restart would know of it."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.pool.model import BehaviorNote, IdleBehavior, Worker, WorkerState
from tests.sim.process import DispatcherProcess
from tests.sim.truth import Truth, expect


class Steering:
    """Numbers what admins ask, and looks at the store when they are answered."""

    def __init__(self, truth: Truth) -> None:
        self._stored = truth.store.instances
        self._asked: list[BehaviorRequested | InstanceKillRequested] = []

    def behavior(
        self, worker_id: str, behavior: IdleBehavior, note: BehaviorNote | None
    ) -> BehaviorRequested:
        """Return what asks for an idle behavior, and for an answer."""
        event = BehaviorRequested(worker_id=worker_id, behavior=behavior, note=note)
        self._asked.append(event)
        return replace(event, asked=len(self._asked))

    def kill(self, worker_id: str, reason: str) -> InstanceKillRequested:
        """Return what asks for an instance's end, and for an answer."""
        event = InstanceKillRequested(worker_id=worker_id, reason=reason)
        self._asked.append(event)
        return replace(event, asked=len(self._asked))

    def confirmed(
        self, process: DispatcherProcess, asked: int
    ) -> BehaviorRequested | InstanceKillRequested:
        """Look at what is stored when somebody is answered, and return what was asked."""
        event = self._asked[asked - 1]
        worker = process.engine.pool.workers.get(event.worker_id)
        if worker is not None:
            self._expect_stored(worker, event)
        return event

    def _expect_stored(
        self, worker: Worker, event: BehaviorRequested | InstanceKillRequested
    ) -> None:
        stored = self._stored.get(event.worker_id)
        if isinstance(event, InstanceKillRequested):
            known = stored is not None and stored.killed is not None
        elif worker.state is WorkerState.SHUTDOWN:
            return
        else:
            known = stored is not None and stored.behavior == event.behavior.value
            known = known and stored is not None and stored.note == event.note
        expect(known, "what is answered is stored", f"{event}: {stored}")
