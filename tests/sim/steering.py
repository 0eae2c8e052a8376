"""The check of what admins are told: it is confirmed once a restart would know of it."""

from __future__ import annotations

from dataclasses import replace

from dispatcher.messages import BehaviorRequested, InstanceKillRequested
from drivers.interface import IDLE_BEHAVIOR_TAG
from pool.model import IdleBehavior, WorkerState
from tests.sim.hosts import Host
from tests.sim.process import DispatcherProcess
from tests.sim.truth import Truth, expect


class Steering:
    """Numbers what admins ask; `wanted` is the latest of each instance that nothing overrode."""

    def __init__(
        self, truth: Truth, hosts: dict[str, Host], wanted: dict[str, IdleBehavior]
    ) -> None:
        self._stored = truth.store.instances
        self._hosts = hosts
        self._wanted = wanted
        self._asked: list[BehaviorRequested | InstanceKillRequested] = []

    def behavior(self, worker_id: str, behavior: IdleBehavior) -> BehaviorRequested:
        """Return what asks for an idle behavior, and for an answer."""
        event = BehaviorRequested(worker_id=worker_id, behavior=behavior)
        self._asked.append(event)
        return replace(event, asked=len(self._asked))

    def kill(self, worker_id: str, reason: str) -> InstanceKillRequested:
        """Return what asks for an instance's end, and for an answer."""
        event = InstanceKillRequested(worker_id=worker_id, reason=reason)
        self._asked.append(event)
        return replace(event, asked=len(self._asked))

    def confirmed(self, process: DispatcherProcess, asked: int) -> None:
        """Look at what is stored when somebody is answered."""
        event = self._asked[asked - 1]
        worker = process.engine.pool.workers.get(event.worker_id)
        if worker is None:
            return
        stored = self._stored.get(event.worker_id)
        if isinstance(event, InstanceKillRequested):
            known = stored is not None and stored.killed is not None
        else:
            latest = self._wanted.get(event.worker_id) is event.behavior
            if not latest or worker.state is WorkerState.SHUTDOWN:
                return
            host = self._hosts.get(event.worker_id)
            tag = host.machine.tags.get(IDLE_BEHAVIOR_TAG) if host is not None else None
            known = event.behavior.value in (stored.behavior if stored is not None else "", tag)
        expect(known, "what is answered is stored", f"{event}: {stored}")
