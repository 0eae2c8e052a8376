"""What room elastic jobs see: the instances that take work, without what others have there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.jobs import JobType
from longshore.dispatcher.scheduler.elastic.allocation import slot_in
from longshore.dispatcher.scheduler.elastic.model import ElasticNode
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.fleet_sync import FleetSync, slot_of
from longshore.dispatcher.scheduler.placement.workload import (
    NOTHING,
    NewInstances,
    WorkloadScheduler,
)
from longshore.drivers.interface import Resources
from longshore.pool.charging import charge, clamped
from longshore.pool.model import Worker
from longshore.pool.port import PoolPort


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """An instance as it will be once those that are told to end have ended."""

    node: ElasticNode
    #: The room that those still take.
    going: Resources = NOTHING


class CapacityView:
    """The instances that elastic jobs may use, brought up to date from pass to pass."""

    def __init__(
        self,
        *,
        pool: PoolPort,
        table: ContainerPort,
        daemons: WorkloadScheduler,
        new: NewInstances,
        fleet_sync: FleetSync,
        reserved: Container[str],
    ) -> None:
        """Know nothing yet.

        `daemons` keep room, and take some of each of the `new` instances; `fleet_sync` has what
        batch work has claimed where. What is `reserved` takes no work.
        """
        self._pool = pool
        self._changes = pool.follow()
        self._table = table
        self._daemons = daemons
        self._new = new
        self._fleet_sync = fleet_sync
        self._reserved = reserved
        self._bases: dict[str, NodeCapacity] = {}
        self._leaving: dict[str, frozenset[str]] = {}
        self._others: Mapping[str, Resources] = {}
        self._whole = True

    @property
    def bases(self) -> Mapping[str, NodeCapacity]:
        """Return the instances by id, as of the latest `update`; not a copy."""
        return self._bases

    @property
    def leaving(self) -> frozenset[str]:
        """Return the containers that are told to end, wherever they run, as of that `update`."""
        return frozenset().union(*self._leaving.values())

    def kept_by_others(self, slot_id: str) -> Resources:
        """Return what other workload schedulers keep of an instance."""
        return self._others.get(slot_id, NOTHING)

    def forget(self) -> None:
        """Forget all; the next `update` looks at everything."""
        self._bases = {}
        self._leaving = {}
        self._whole = True
        self._changes.drain()

    def update(self, now: float) -> bool:
        """Take in what has changed in the pool; return whether anything did for these jobs."""
        pool = self._pool
        others = dict(self._daemons.reservations)
        ids = others.keys() | self._others.keys()
        stale = {i for i in ids if others.get(i) != self._others.get(i)}
        stale |= self._changes.drain()
        self._others = others
        if self._whole:
            stale |= pool.workers.keys()
            self._whole = False
        # What is claimed on those that come changes without a word.
        stale |= {id_ for id_, b in self._bases.items() if b.node.kind is not SlotKind.READY}
        fresh = dict(self._bases)
        for slot_id in stale:
            fresh.pop(slot_id, None)
            self._leaving.pop(slot_id, None)
        for worker_id in sorted(stale & pool.workers.keys()):
            leaving = self._leaving_on(pool.workers[worker_id])
            if leaving:
                self._leaving[worker_id] = frozenset(leaving)
            base = self._of_worker(pool.workers[worker_id], leaving.values(), now)
            if base is not None:
                fresh[worker_id] = base
        for pending in pool.expected_launches():
            launching = self._of_launch(pending.launch.token, pending.launch.type_name)
            if launching is not None:
                fresh[pending.launch.token] = launching
        changed = fresh != self._bases
        self._bases = fresh
        return changed

    def _leaving_on(self, worker: Worker) -> dict[str, str]:
        """Return the attempts of an instance that are told to end, by their containers."""
        going = (each for each in sorted(worker.load.attempts) if self._is_going(each))
        return {self._table.open_attempts[attempt_id]: attempt_id for attempt_id in going}

    def _of_worker(self, worker: Worker, leaving: Iterable[str], now: float) -> NodeCapacity | None:
        if worker.id in self._reserved or not self._pool.takes_work(worker, now):
            return None
        slot = slot_of(worker)
        slot.free = slot.free.minus(self._others.get(worker.id, NOTHING))
        if slot.kind is not SlotKind.READY:
            self._leave_to_newcomers(slot)
        self._leave_to_claims(slot, worker.id)
        if worker.token:
            self._leave_to_claims(slot, worker.token)
        before = slot.free
        for attempt_id in leaving:
            slot.release(worker.load.attempts[attempt_id])
        # What is going beside them is not ours to count on: nor is the cpu that they share.
        killed = (id_ for id_ in worker.load.sharing if self._is_killed(id_))
        slot.on_shared_cpu -= sum(not self._is_going(id_) for id_ in killed)
        going = slot.free.minus(before)
        return NodeCapacity(node=node_of(slot), going=going)

    def _of_launch(self, token: str, type_name: str) -> NodeCapacity | None:
        type_ = self._pool.types.get(type_name)
        if type_ is None:
            return None
        slot = empty_slot(SlotKind.LAUNCHING, token, self._pool.as_found(type_))
        slot.free = slot.free.minus(self._others.get(token, NOTHING))
        self._leave_to_newcomers(slot)
        self._leave_to_claims(slot, token)
        return NodeCapacity(node=node_of(slot))

    def _leave_to_newcomers(self, slot: Slot) -> None:
        slot.free = slot.free.minus(self._new.daemon_overhead(slot.type))

    def _leave_to_claims(self, slot: Slot, slot_id: str) -> None:
        """Leave what batch work has claimed on an instance that was created for it."""
        for need, number in self._fleet_sync.fleet.claimed_on(slot_id):
            slot.assign(need, number)

    def _is_killed(self, attempt_id: str) -> bool:
        attempt = self._pool.attempt(attempt_id)
        return attempt is not None and attempt.is_to_end

    def _is_going(self, attempt_id: str) -> bool:
        """Return whether an attempt of an elastic job was told to end."""
        container_id = self._table.open_attempts.get(attempt_id)
        if container_id is None:
            return False
        container = self._table.containers[container_id]
        if self._table.jobs.type_of(container.job_id) is not JobType.ELASTIC:
            return False
        return container.cancel_requested or container.attempts[-1].intended_outcome is not None


def node_of(slot: Slot) -> ElasticNode:
    """Return a slot as elastic jobs see it."""
    return ElasticNode(
        id=slot.id,
        type=slot.type,
        free=slot.free,
        kind=slot.kind,
        count=slot.count,
        on_shared_cpu=slot.on_shared_cpu,
        last_busy=slot.last_busy,
    )


def with_members(
    node: ElasticNode, needs: Iterable[Resources]
) -> tuple[ElasticNode, Sequence[bool]]:
    """Return a room with some more members in it, and for each whether it fits.

    One that had a place may not: somebody with a better right may have taken the room meanwhile.
    """
    slot = slot_in(node)
    fitting = []
    for need in needs:
        fits = charge(need, on_shared_cpu=slot.on_shared_cpu).fits_in(slot.free)
        fitting.append(fits)
        if fits:
            slot.assign(need)
    return node_of(slot), fitting


def kept_of(base: NodeCapacity, needs: Iterable[Resources]) -> Resources:
    """Return how much of an instance's free room is to be kept for some members.

    Room of those that are told to end need not be kept: they still hold it, so that nobody else
    gets it.
    """
    slot = slot_in(base.node)
    for need in needs:
        slot.assign(need)
    return clamped(base.node.free.minus(slot.free).minus(base.going))
