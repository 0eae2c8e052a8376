"""Keeps the planner's fleet in line with the pool, worker by worker."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from longshore.dispatcher.scheduler.placement.fleet import (
    Fleet,
    PackingPolicy,
    Slot,
    SlotKind,
    empty_slot,
)
from longshore.dispatcher.scheduler.placement.spend import InstanceSpend
from longshore.dispatcher.scheduler.placement.workload import (
    NOTHING,
    NewInstances,
    WorkloadSchedulers,
)
from longshore.drivers.errors import BugError
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.model import IdleBehavior, PendingLaunch, Worker, WorkerState
from longshore.pool.port import PoolPort

# ---- what room of which instance is kept for jobs that never queue -------------------------------


class Reservations:
    """The room that batch work does not get, as of the latest `update`.

    `renewed` are the slots of which other room is kept than before; whoever has heard clears it.
    """

    def __init__(self, new: NewInstances) -> None:
        """Keep nothing yet; `new` tells what is taken of new instances."""
        self._new = new
        self._by_slot: Mapping[str, Resources] = {}
        self._left: dict[str, InstanceType] = {}
        self._taken: dict[str, Resources] = {}
        self.renewed: set[str] = set()

    def of_ready(self, worker_id: str) -> Resources:
        """Return what is kept of an instance that is ready."""
        return self._by_slot.get(worker_id, NOTHING)

    def of_coming(self, slot_id: str, type_: InstanceType) -> Resources:
        """Return what is kept of one on its way, with what is taken as soon as it is there."""
        taken = self._taken.get(type_.name, NOTHING)
        return self._by_slot.get(slot_id, NOTHING).plus(taken)

    def allocatable_left(self, type_: InstanceType) -> InstanceType:
        """Return a type as batch work finds a new instance of it."""
        return self._left.get(type_.name, type_)

    def update(
        self, workloads: WorkloadSchedulers, types: Iterable[InstanceType], slot_ids: Iterable[str]
    ) -> bool:
        """Take in what workload schedulers keep now; `slot_ids` are all that there are.

        Returns whether other room than before is left of new instances of some type.
        """
        by_slot = workloads.reservations()
        ids = by_slot.keys() | self._by_slot.keys()
        self.renewed |= {i for i in ids if by_slot.get(i) != self._by_slot.get(i)}
        self._by_slot = by_slot
        left = {type_.name: self._new.allocatable_left(type_) for type_ in types}
        if left == self._left:
            return False
        self._left = left
        self._taken = {type_.name: self._new.daemon_overhead(type_) for type_ in types}
        self.renewed.update(slot_ids)
        return True


# ---- keeping the planner's fleet in line with the pool, worker by worker -------------------------


class FleetSync:
    """The fleet, and what keeps it up to date; `resting` are idle workers without a session.

    The latter get no work, and use up a quota. `changes` has those that it has not looked at yet.
    """

    def __init__(
        self,
        pool: PoolPort,
        rules: PackingPolicy,
        spend: InstanceSpend | None,
        reserved: Container[str],
        kept: Reservations,
    ) -> None:
        """Make an empty fleet; `spend` is told of launches too, None without limits of it.

        What is `reserved` takes no work, whatever else is true of it; who changes that touches it.
        `kept` is what room others keep.
        """
        self._reserved = reserved
        self._reservations = kept
        self._rules = rules
        self._spend = spend
        self._pool = pool
        self.changes = pool.follow()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all; the next `update` takes in what has changed in the pool from now on."""
        self.fleet = Fleet(self._rules)
        self.resting: dict[str, Slot] = {}
        self.expected_launches = 0
        self.unlisted = 0
        self._launches: set[str] = set()
        self._updated_at = 0.0

    def update(self, now: float) -> None:
        """Take in what has changed in the pool since the last time."""
        self._updated_at = now
        changed = self.changes.drain()
        if self._reservations.renewed:
            changed |= self._reservations.renewed & self._pool.workers.keys()
            for token in sorted(self._reservations.renewed & self._launches):
                type_ = self.fleet.slots[token].type
                self.fleet.put(self._launching(token, self._pool.types.get(type_.name, type_)))
            self._reservations.renewed.clear()
        for worker_id in sorted(changed):
            self._update_worker(worker_id, now)
        self._update_launches()

    def check(self) -> None:
        """Raise `BugError` when a slot is not what its worker was when it was last looked at."""
        now = self._updated_at
        fleet, expected = self.fleet, set()
        for worker in self._pool.workers.values():
            if worker.id in self.changes.pending:
                expected |= {worker.id} & fleet.slots.keys()
            elif self._takes_work(worker, now):
                expected.add(worker.id)
                fleet.expect(self._slot_of(worker))
        launching = {s.id for s in fleet.slots.values() if s.kind is SlotKind.LAUNCHING}
        gone = self.changes.pending - self._pool.workers.keys()
        known = fleet.slots.keys() - launching - gone
        if known != expected - launching:
            raise BugError(f"the fleet has {sorted(known ^ expected)} wrong")

    def _update_worker(self, worker_id: str, now: float) -> None:
        worker = self._pool.workers.get(worker_id)
        self.resting.pop(worker_id, None)
        if worker is None or not self._takes_work(worker, now):
            self.fleet.remove(worker_id)
            if worker is not None and self._rests(worker, now):
                self.resting[worker_id] = slot_of(worker)
            return
        slot = self._slot_of(worker)
        if worker.token in self._launches:
            self._launches.discard(worker.token)
            self.fleet.rename(worker.token, slot)
        else:
            self.fleet.put(slot)

    def _takes_work(self, worker: Worker, now: float) -> bool:
        return worker.id not in self._reserved and self._pool.takes_work(worker, now)

    def _rests(self, worker: Worker, now: float) -> bool:
        offline = self._pool.is_offline(worker, now)
        # Who is held makes way for nobody; of who is only remembered `slot_of` tells that.
        may_go = worker.behavior is IdleBehavior.RUN
        return worker.state is WorkerState.IDLE and offline and may_go

    def _update_launches(self) -> None:
        expected_launches = self._pool.expected_launches()
        self.expected_launches = len(expected_launches)
        self.unlisted = self._pool.number_unlisted_beside(expected_launches)
        if self._spend is not None:
            self._spend.update(expected_launches)
        tokens = set()
        for pending in expected_launches:
            tokens.add(pending.launch.token)
            if pending.launch.token not in self._launches:
                self._add_launch(pending)
        for token in sorted(self._launches - tokens):
            self._launches.discard(token)
            self.fleet.remove(token)

    def _add_launch(self, pending: PendingLaunch) -> None:
        type_ = self._pool.types.get(pending.launch.type_name)
        if type_ is None:
            return
        token = pending.launch.token
        self._launches.add(token)
        self.fleet.put(self._launching(token, type_))

    def launched(self, slot: Slot, token: str) -> None:
        """Note that what a pass thought of is being created, under a token, with its claims."""
        self._launches.add(token)
        self.fleet.rename(slot.id, self._launching(token, self._pool.types[slot.type.name]))

    def _launching(self, token: str, type_: InstanceType) -> Slot:
        slot = empty_slot(SlotKind.LAUNCHING, token, type_)
        room = self._pool.as_found(type_).allocatable
        slot.free = room.minus(self._reservations.of_coming(token, type_))
        return slot

    def _slot_of(self, worker: Worker) -> Slot:
        slot = slot_of(worker)
        slot.on_shared_cpu = self._pool.staying_on_shared_cpu(worker)
        if slot.kind is SlotKind.READY:
            slot.free = slot.free.minus(self._reservations.of_ready(worker.id))
        else:
            slot.free = slot.free.minus(self._reservations.of_coming(worker.id, worker.type))
        return slot


def slot_of(worker: Worker) -> Slot:
    """Return a worker as the planner sees it."""
    booted_s = worker.state_since - worker.link.boots_since
    return Slot(
        kind=SlotKind.READY if worker.is_ready else SlotKind.COMING,
        id=worker.id,
        type=worker.type,
        free=worker.load.free,
        count=len(worker.load.attempts) - len(worker.load.resident),
        last_busy=worker.load.last_busy,
        idle=worker.state is WorkerState.IDLE
        and not worker.load.unreleased
        and not worker.cloud.remembered,
        on_shared_cpu=worker.load.on_shared_cpu,
        spared_until=0.0 if worker.load.last_busy else worker.state_since + booted_s,
    )
