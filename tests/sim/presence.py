"""The check of when an instance is called gone: an account of its own beside the pool's."""

from __future__ import annotations

from dataclasses import dataclass, field

from longshore.dispatcher.scheduler.placement.fleet import SlotKind
from longshore.drivers.interface import CLUSTER_TAG, Existence
from longshore.pool.messages import (
    AttemptExited,
    Destroyed,
    DestroyFailed,
    InstanceFound,
    Listed,
    PoolEvent,
    ProbeFailed,
    ProbeSucceeded,
    SessionLost,
)
from longshore.pool.model import Worker, WorkerState
from tests.sim.hosts import Host
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import Truth, expect

LEAST_LISTINGS = 3
SLACK = 1e-6


@dataclass(slots=True, kw_only=True)
class _Sight:
    """What one process was told of an instance.

    `lacking` are when the listings in a row began that lack it; `heard_at` is when it was last
    heard of, `tried_at` when a probe last found nobody there. What was heard of its destroy last is
    in `destroy`, None for nothing or a failure; `ended` says that the cloud called it gone.
    """

    appeared_at: float
    shown_at: float | None = None
    lacking: list[float] = field(default_factory=list)
    heard_at: float = 0.0
    tried_at: float | None = None
    destroy: Destroyed | None = None
    accepted: bool = False
    ended: bool = False
    proven: bool = False
    remembered: bool = False
    state: WorkerState = WorkerState.UNKNOWN
    addressed: bool = False


class Presence:
    """Looks at one process: what it was told of instances, and whom it gave up after what."""

    def __init__(
        self,
        process: DispatcherProcess,
        timeline: Timeline,
        truth: Truth,
        hosts: dict[str, Host],
    ) -> None:
        self._process = process
        self._pool = process.engine.pool
        self._timeline = timeline
        self._truth = truth
        self._hosts = hosts
        self._sights: dict[str, _Sight] = {}
        # What the last process had not written is lost.
        truth.shown_at = dict(truth.surely_shown_at)

    def heard(self, event: PoolEvent) -> None:
        """Look at an event before the engine gets it."""
        match event:
            case Listed():
                self._on_listed(event)
            case InstanceFound():
                sight = self._sights.get(event.instance_id)
                if sight is not None and event.existence is Existence.GONE:
                    sight.ended = True
                if sight is not None and event.existence is Existence.PRESENT:
                    sight.lacking.clear()
            case Destroyed() | DestroyFailed():
                self._on_destroy(event)
            case ProbeSucceeded() | ProbeFailed() | SessionLost() | AttemptExited():
                self._on_contact(event)
            case _:
                pass

    def _on_listed(self, event: Listed) -> None:
        present = {seen.id for seen in event.instances}
        self._note_shown(event)
        for worker_id, sight in self._sights.items():
            if worker_id in present:
                sight.shown_at = max(sight.shown_at or 0.0, event.began_at)
                sight.lacking.clear()
            elif event.began_at > max(sight.heard_at, sight.shown_at or 0.0):
                sight.lacking.append(event.began_at)

    def _note_shown(self, event: Listed) -> None:
        """Note whom a listing shows that the pool takes in, for what is made of it in the end."""
        if event.op_id != self._pool.listing_op:
            return
        if self._truth.store.caught_up:
            self._truth.surely_shown_at = dict(self._truth.shown_at)
        for seen in event.instances:
            if dict(seen.tags).get(CLUSTER_TAG) == self._pool.cluster:
                self._truth.shown_at[seen.id] = event.began_at

    def _on_destroy(self, event: Destroyed | DestroyFailed) -> None:
        sight = self._sights.get(event.instance_id)
        if sight is None:
            return
        if isinstance(event, DestroyFailed):
            sight.destroy = None
            return
        sight.destroy = event
        sight.accepted = sight.accepted or event.known

    def _on_contact(
        self, event: ProbeSucceeded | ProbeFailed | SessionLost | AttemptExited
    ) -> None:
        sight, now = self._sights.get(event.worker_id), self._process.now()
        if sight is None:
            return
        match event:
            case ProbeFailed():
                sight.tried_at = now
                if event.proven:
                    sight.lacking.clear()
            case SessionLost() if sight.state is WorkerState.SHUTDOWN:
                # It waited for residents, and is destroyed now.
                pass
            case SessionLost():
                sight.heard_at = min(event.last_contact, now)
            case ProbeSucceeded():
                sight.proven = True
                sight.heard_at = max(sight.heard_at, event.began_at)
                sight.lacking.clear()
            case AttemptExited():
                sight.heard_at = max(sight.heard_at, now)

    def look(self) -> None:
        """Look at who is not there any more after an event, and who is new."""
        workers = self._pool.workers
        fleet_sync = self._process.engine.scheduling.fleet_sync
        for worker_id in sorted(self._sights.keys() - workers.keys()):
            self._expect_gone(worker_id, self._sights.pop(worker_id))
        for worker_id, worker in workers.items():
            sight = self._sights.get(worker_id)
            if sight is None:
                sight = _Sight(appeared_at=worker.appeared_at)
                sight.shown_at = worker.cloud.listed_at if worker.cloud.listed else None
                sight.remembered = worker.cloud.remembered
                if worker.cloud.remembered and worker.cloud.absence is not None:
                    sight.lacking.append(worker.cloud.absence.since)
                self._sights[worker_id] = sight
            if worker_id not in fleet_sync.changes.pending:
                self._expect_its_place(worker)
            sight.state = worker.state
            sight.proven = sight.proven or bool(worker.link.host_key)
            sight.addressed = bool(worker.cloud.address)
            if worker.cloud.listed and sight.shown_at is None:
                sight.shown_at = worker.cloud.listed_at

    def _expect_its_place(self, worker: Worker) -> None:
        """Expect that the planner sees what is missing not at all, and what is reached as ready."""
        slot = self._process.engine.scheduling.fleet_sync.fleet.slots.get(worker.id)
        if slot is None:
            return
        expect(not worker.cloud.unseen, "what listings lack gets no work", worker.id)
        reached = worker.link.session_up and worker.state in (WorkerState.IDLE, WorkerState.RUNNING)
        ready = slot.kind is SlotKind.READY
        expect(ready or not reached, "who is reached serves its claims", worker.id)

    def _expect_gone(self, worker_id: str, sight: _Sight) -> None:
        """Expect that the cloud said so, that it was asked to end it, or that all was tried."""
        settings, lacking = self._pool.settings, sight.lacking
        expect(bool(lacking), "who is gone is not listed", worker_id, sight)
        if sight.ended or sight.accepted:
            return
        ending = sight.state is WorkerState.SHUTDOWN
        tried = sight.tried_at is not None and sight.tried_at >= lacking[0] - SLACK
        silent = sight.destroy is not None if ending else tried or not sight.addressed
        expect(silent, "who is gone was asked for in vain", worker_id, sight)
        if sight.shown_at is None:
            old = lacking[-1] >= sight.appeared_at + settings.boot_timeout_s - SLACK
            expect(old, "who is too new for listings is not gone", worker_id, sight)
            if not sight.proven and not sight.remembered:
                return
        long_s = lacking[-1] - lacking[0]
        enough = len(lacking) >= LEAST_LISTINGS and long_s >= settings.gone_after_s - SLACK
        expect(enough, "who is gone was missing for long", worker_id, sight)

    def expect_few(self, most: int) -> None:
        """Expect that what was created with an id counts as long as it is there, known or not.

        What is ended, or was asked to end, is left out. Whose key is not proven counts while it may
        be too new for listings: it could not be told from another at its address.
        """
        there = []
        for record in self._truth.store.instances.values():
            host = self._hosts.get(record.id)
            if host is None or host.machine.ended or host.machine.ending:
                continue
            machine, now = host.machine, self._timeline.now
            listed = now >= machine.created_at + machine.fate.listed_after_s
            young = now < machine.created_at + self._pool.settings.boot_timeout_s
            if young or (listed and record.host_key):
                there.append(machine.id)
        expect(len(there) <= most, "max_instances of what is there", f"{there}: at most {most}")
