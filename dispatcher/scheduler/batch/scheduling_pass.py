"""One planning pass: what the planner sees of the pool, and how its plan is carried out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from math import inf

from longshore.dispatcher.domain.containers import (
    ContainerState,
    WaitReason,
)
from longshore.dispatcher.domain.messages import PublishFailedPass
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement import plan_check, wait_reasons
from longshore.dispatcher.scheduler.placement.create_limits import create_limits
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind
from longshore.dispatcher.scheduler.placement.parts import PlacementParts
from longshore.dispatcher.scheduler.placement.preemptible_market import PreemptibleMarket
from longshore.dispatcher.scheduler.placement.snapshot import (
    Budget,
    Ceiling,
    ClassPlacement,
    Limits,
    Plan,
    Snapshot,
)
from longshore.dispatcher.scheduler.placement.spend import PassBudget
from longshore.dispatcher.scheduler.placement.start import AttemptStarter
from longshore.dispatcher.scheduler.placement.workload import WorkloadSchedulers
from longshore.dispatcher.state.history import History
from longshore.dispatcher.state.queue import ClassKey, Order, RequestClass
from longshore.dispatcher.state.restarts import returns_at
from longshore.dispatcher.state.spend_limits import payer_of
from longshore.drivers.errors import BugError
from longshore.drivers.interface import InstanceType
from longshore.pool.model import Payer

PASS_EVERY_S = 5.0
PAUSE_AFTER_FAILURE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Locks:
    """Who of a class has a claim."""

    #: The version of the class for which this is so.
    version: int
    #: How many have a claim: the first ones.
    number: int
    #: Those that are locked: the first of them, all but some whose instance may be refused.
    ids: frozenset[str]

    def is_of(self, version: int, number: int, locked: int) -> bool:
        """Return whether these are the first `number`, of whom `locked` are, of that version."""
        return (self.version, self.number, len(self.ids)) == (version, number, locked)

    @property
    def unlocked_until(self) -> int:
        """Return up to which position of the class there are claims, 0 where all are locked."""
        return self.number if len(self.ids) < self.number else 0


class SchedulingPass:
    """Runs passes; keeps who holds a claim and why everybody else waits."""

    def __init__(
        self,
        parts: PlacementParts,
        *,
        workloads: WorkloadSchedulers,
        market: PreemptibleMarket,
    ) -> None:
        """Make what plans with `parts`.

        `workloads` do their part of each pass first; `market` is what is known of preemptible
        types.
        """
        self.pool = parts.pool
        self.table = parts.table
        self.settings = parts.settings
        self.concurrency = parts.concurrency
        self.rules = parts.rules
        self.spend = parts.spend
        self.evictions = parts.evictions
        self.fleet_sync = parts.fleet_sync
        self.workloads = workloads
        self._reservations = parts.reservations
        self._market = market
        self._starter = AttemptStarter(parts.pool, parts.table)
        self.waiting: dict[ClassKey, WaitReason] = {}
        self.history = History()
        self.passes = 0
        self.failures = 0
        self.failure: Exception | None = None
        self.at_quota = False
        self._locks: dict[ClassKey, _Locks] = {}
        self._loose: set[str] = set()
        self._uncertain: set[str] = set()
        self._last_pass_at = -inf

    @property
    def locked(self) -> set[str]:
        """Return the ids of the waiting containers that are locked; a copy."""
        return self._loose.union(*(locks.ids for locks in self._locks.values()))

    def restore(self, container_id: str) -> None:
        """Note that a container was locked by an earlier process; the next pass decides."""
        self._loose.add(container_id)

    def allocatable_left(self, type_: InstanceType) -> InstanceType:
        """Return a type as batch work finds a new instance of it, as of the latest pass.

        That is without what others take of it, and with the share of its use that was lost.
        """
        return self._reservations.allocatable_left(type_)

    def next_pass(self, *, wanted: bool) -> float | None:
        """Return when the next pass is due, None for not at all.

        After one that failed it is 1 s later. Else one that is wanted is due at once, and the
        others come every 5 s while something waits.
        """
        if not self.pool.listed_once:
            return None
        if self.failure is not None:
            return self._last_pass_at + PAUSE_AFTER_FAILURE_S
        if wanted:
            return self._last_pass_at
        return self._last_pass_at + PASS_EVERY_S if len(self.table.queue) else None

    def run(self, now: float) -> None:
        """Plan once and carry the plan out; a plan that cannot be made changes nothing."""
        self.passes += 1
        self._last_pass_at = now
        try:
            self._let_others_place(now)
            classes = self.refresh(now)
            budget = self._budget(classes)
            view = self._view(classes, budget, now)
            decided = plan(view)
            plan_check.check(view, decided)
        except Exception as error:  # noqa: BLE001 - a bug in there must not end the dispatcher
            self._survive(error)
            return
        self.failure = None
        self._carry_out(decided, now)
        self.evictions.evict(decided, self.fleet_sync.fleet.slots, budget, now)

    def _let_others_place(self, now: float) -> None:
        are_others_scarce = self._market.update(now)
        self.workloads.place(now)
        types = [self.pool.types[name] for name in sorted(self.pool.types)]
        slots = self.fleet_sync.fleet.slots.keys() | self.pool.workers.keys()
        if self._reservations.update(self.workloads, types, slots) or are_others_scarce:
            self._renew_classes()

    def _renew_classes(self) -> None:
        """Let each class have the types that it may run on now, and no claims on any other."""
        fleet = self.fleet_sync.fleet
        for request_class in self.table.queue.renew():
            for slot_id, number in sorted(fleet.claims.get(request_class.key, {}).items()):
                slot = fleet.slots[slot_id]
                if slot.type.name not in request_class.needs:
                    fleet.unclaim(request_class.key, slot, number)

    def _survive(self, error: Exception) -> None:
        """Tell of a pass that failed; what it has put into the fleet by then is thrown away.

        The claims are too: those who are locked stay so, and the next pass finds them room again.
        All that is counted is looked at again, since it may have failed half-way through that.
        """
        self.failures += 1
        self.failure = error
        self.fleet_sync.begin_anew()
        counted = self.spend.workers if self.spend is not None else frozenset()
        for worker_id in counted.union(self.pool.workers):
            self.pool.touch(worker_id)
        self.table.publish(PublishFailedPass(error=error))

    def _payer(self, decided: Plan, slot: Slot) -> Payer:
        """Return for whom an instance is created: the most important to be placed on it."""
        line = decided.bought_for[slot.id]
        container = self.table.containers.get(line.first_on(slot))
        job = self.table.jobs.job(container.job_id) if container is not None else None
        return payer_of(container, job)

    def _carry_out(self, decided: Plan, now: float) -> None:
        for slot in decided.creates:
            payer = self._payer(decided, slot)
            type_ = self.pool.types[slot.type.name]
            is_uncertain = self.pool.may_be_refused(type_, now)
            token = self.pool.launch(type_, payer, now)
            self._uncertain |= {slot.id, token} if is_uncertain else set()
            self.fleet_sync.launched(slot, token)
            if self.spend is not None:
                self.spend.launched(token)
        for line in decided.lines:
            for container_id, slot in line.starts:
                self._start(container_id, line, slot, now)
        self._lock(decided)
        fleet = self.fleet_sync.fleet
        coming = (s for s in fleet.claimed() if fleet.slots[s].kind is SlotKind.COMING)
        claimed_workers = self.workloads.claimed_workers().union(coming, decided.withheld)
        self.pool.set_awaited(claimed_workers, now)
        for worker_id in decided.unwanted:
            self.pool.release(worker_id, now)
        self.waiting = decided.waiting
        self.history.waits(decided.waiting, now)
        closed = decided.stopped or bool(decided.closed)
        self.at_quota = closed or self.pool.is_quota_reached(now)
        self.pool.after_pass(wait=decided.tokens_short, served=bool(decided.creates), now=now)

    def concurrency_limit(self) -> int | None:
        """Return how many containers run or have a place, while a quota lets no more be created.

        None while none does. It counts containers, not instances: packing goes on at a quota.
        """
        if not self.at_quota:
            return None
        return self.table.placed + sum(each.number for each in self._locks.values())

    # ---- what a pass decides from ------------------------------------------------------------

    def refresh(self, now: float) -> list[RequestClass]:
        """Bring the fleet up to date with the pool and the queue; return who waits, by class."""
        self.evictions.settle()
        self.fleet_sync.update(now)
        classes = self.table.queue.classes()
        keys = {request_class.key for request_class in classes}
        fleet = self.fleet_sync.fleet
        for key in [key for key in fleet.claims if key not in keys]:
            for slot_id, number in sorted(fleet.claims[key].items()):
                fleet.unclaim(key, fleet.slots[slot_id], number)
        fleet.forget_classes(keys)
        return classes

    def view(self, now: float) -> Snapshot:
        """Return what the planner would decide from, as of the latest `refresh`; it stays so."""
        classes = self.table.queue.classes()
        return self._view(classes, self._budget(classes), now)

    def _view(self, classes: list[RequestClass], budget: Budget | None, now: float) -> Snapshot:
        resting = self.fleet_sync.resting
        return Snapshot(
            classes=classes,
            fleet=self.fleet_sync.fleet,
            limits=self._limits(budget, now),
            returns_at=lambda container_id: self._returns_at(container_id, now),
            resting=[resting[worker_id] for worker_id in sorted(resting)],
            leaving=self.pool.leaving(now),
            now=now,
        )

    def _returns_at(self, container_id: str, now: float) -> float:
        container = self.table.containers.get(container_id)  # None: it is only thought of
        return returns_at(container, now) if container is not None else inf

    def _budget(self, classes: list[RequestClass]) -> PassBudget | None:
        if self.spend is None:
            return None
        return self.spend.budget(classes, self.fleet_sync.fleet)

    def _limits(self, budget: Budget | None, now: float) -> Limits:
        pool = self.pool
        limit = self.concurrency.limit(now)
        placed = self.table.placed
        spoken_for = placed + self.workloads.reserved_count()
        instances = len(pool.workers) + self.fleet_sync.expected_launches + self.fleet_sync.unlisted
        supervisors = self.concurrency.supervisors(limit)
        return replace(
            create_limits(pool, self.settings, instances=instances, budget=budget, now=now),
            containers_left=_left(limit, spoken_for),
            as_new=self.allocatable_left,
            as_found=pool.as_found,
            supervisors_left=_left(supervisors, self.table.supervisors_placed),
            ceilings=self._ceilings(instances, now),
            supervisor_fraction=self.settings.supervisor_fraction,
            supervisors_on=self.table.supervisors_on(),
        )

    def _ceilings(self, instances: int, now: float) -> tuple[Ceiling, ...]:
        """Return the limits of how many instances there may be, while any supervisor waits.

        Limits of our own are none while less than half of them is used up.
        """
        if not any(each.key.supervisor for each in self.table.queue.classes()):
            return ()
        known = self.pool.known_quotas(now)
        found = [Ceiling(covers=covers, left=left) for covers, left in known]
        left = max(0, self.settings.max_instances - instances)
        if left <= instances:
            found.append(Ceiling(covers=None, left=left))
        prices = [type_.price_usd_per_hour for type_ in self.pool.types.values()]
        limit = None if self.spend is None else self.spend.limits.cluster
        if self.spend is not None and limit is not None and min(prices, default=0):
            money = max(Decimal(0), limit - self.spend.total)
            if money <= self.spend.total:
                found.append(Ceiling(covers=None, left=int(money / min(prices))))
        return tuple(found)

    # ---- carrying it out -----------------------------------------------------------------------

    def _lock(self, decided: Plan) -> None:
        """Lock who has a claim now and unlock who has none any more, but for the next in line."""
        before, loose = self._locks, self._loose
        self._locks = {}
        unlocked = self._claims_that_wait(decided)
        now_locked: set[str] = set()
        gone: set[str] = set()
        for line in decided.lines:
            old = before.pop(line.key, None)
            number, version = line.claimed, line.request_class.version
            locked = number - unlocked[line.number]
            if old is not None and old.is_of(version, number, locked):
                self._locks[line.key] = old
                continue
            ids = frozenset(c for _, c in line.request_class.span(0, locked))
            if number:
                self._locks[line.key] = _Locks(version=version, number=number, ids=ids)
            now_locked |= ids
            gone |= (old.ids if old is not None else frozenset()) - ids
        # None of these is in locks that stay: who waits does in one class, the loose in no locks.
        gone = gone.union(loose, *(locks.ids for locks in before.values())) - now_locked
        for container_id in sorted(now_locked):
            if self.table.containers[container_id].state is ContainerState.QUEUED:
                self.table.lock(container_id)
        self._unlock(gone, kept=gone.intersection(decided.next_in_line))

    def _claims_that_wait(self, decided: Plan) -> Counter[int]:
        """Return how many claims of each line are not locked until a create is answered.

        A quota may refuse the instance: only the first of those who are to go there is locked for
        it, or all of them would be unlocked again each time that it is tried.
        """
        found: Counter[int] = Counter()
        launches = self.pool.launches
        expected_launches = {
            t for t in self._uncertain if t in launches and not launches[t].instance_id
        }
        firsts: dict[str, tuple[Order, int]] = {}
        for line in decided.lines if self._uncertain else ():
            position = 0
            for slot, number in line.claims:
                first = line.request_class.at(position)
                position += number
                is_new = slot.kind is SlotKind.NEW or slot.id in expected_launches
                if slot.id in self._uncertain and is_new and first is not None:
                    found[line.number] += number
                    mine = (first[0], line.number)
                    firsts[slot.id] = min(mine, firsts.get(slot.id, mine))
        found.subtract(Counter(number for _, number in firsts.values()))
        self._uncertain = expected_launches
        return found

    def _unlock(self, ids: set[str], kept: set[str]) -> None:
        self._loose = {container_id for container_id in kept if container_id in self.table.queue}
        for container_id in sorted(ids - kept):
            container = self.table.containers.get(container_id)
            if container is None or container.has_open_attempt:
                continue
            # One that was locked by an earlier process may be held back by now.
            if container.state is ContainerState.LOCKED:
                self.table.unlock(container_id)

    def _start(self, container_id: str, line: ClassPlacement, slot: Slot, now: float) -> None:
        worker = self.pool.workers[slot.id]
        self._starter.start(container_id, worker, line.request_class.need(slot.type), now)

    # ---- why somebody waits ----------------------------------------------------------------------

    def reason(self, container_id: str) -> WaitReason | None:
        """Return why a container waits, None when it does not wait or no pass has seen it."""
        container = self.table.containers.get(container_id)
        if container is None or container.has_open_attempt:
            return None
        if container.priority == 0:
            return self.table.why_not_begin(container)
        claimed = self.claimed_slot(container_id)
        place = _claim(claimed) if claimed is not None else self.evictions.reason(container_id)
        if place is not None:
            return place
        if not self.pool.listed_once:
            return wait_reasons.not_listed(self.pool.listing_problem)
        request_class = self.table.queue.class_of(container_id)
        if request_class is None:
            return None
        return wait_reasons.PASS_FAILED if self.failure is not None else self._why(container_id)

    def _why(self, container_id: str) -> WaitReason | None:
        """Return what the last pass said of one that waits without a place."""
        request_class = self.table.queue.class_of(container_id)
        why = self.waiting.get(request_class.key) if request_class is not None else None
        if why is None or container_id not in self._loose:
            return why
        return replace(why, message=f"next in line: {why.message}")

    @property
    def next_in_line(self) -> set[str]:
        """Return who is locked and has no place: the first to get one, at a quota or a shortage."""
        return {each for each in self._loose if each in self.table.queue}

    def create_failed(self, token: str, error: str, now: float) -> None:
        """Note for whom the instance was that could not be created, before that is forgotten."""
        pending = self.pool.launches.get(token)
        if pending is None:
            return
        claims = self.fleet_sync.fleet.claims
        keys = [key for key, by_slot in claims.items() if token in by_slot]
        self.history.refused(keys, pending.launch.type_name, error, now)

    def place_lost(self, worker_id: str, why: str, now: float) -> None:
        """Note for whom an instance was that gets no work any more, before that is forgotten."""
        fleet = self.fleet_sync.fleet
        keys = [key for key, by_slot in fleet.claims.items() if worker_id in by_slot]
        if keys:
            self.history.place_lost(keys, worker_id, fleet.slots[worker_id].type.name, why, now)

    def claimed_slot(self, container_id: str) -> Slot | None:
        """Return where a waiting container has a claim, None when it has none."""
        request_class = self.table.queue.class_of(container_id)
        if request_class is None:
            return None
        locks = self._locks.get(request_class.key)
        position = request_class.before(request_class.order_of(container_id))
        if locks is None or not (container_id in locks.ids or position < locks.unlocked_until):
            return None
        fleet = self.fleet_sync.fleet
        by_slot = fleet.claims.get(request_class.key, {})
        for slot in sorted((fleet.slots[s] for s in by_slot), key=lambda s: (s.kind, s.id)):
            position -= by_slot[slot.id]
            if position < 0:
                return slot
        return None

    def check(self) -> None:
        """Raise `BugError` when the fleet is not what the pool is, or the last pass failed.

        Tests call it after events.
        """
        if self.failure is not None:
            raise BugError("the last pass failed") from self.failure
        self.fleet_sync.check()
        if self.spend is not None:
            self.spend.check()


def _left(limit: int | None, taken: int) -> int | None:
    return None if limit is None else max(0, limit - taken)


def _claim(slot: Slot) -> WaitReason:
    if slot.kind is SlotKind.COMING:
        message = f"it has a place on {slot.id} ({slot.type.name}), which is not ready yet"
        return WaitReason(code="instance_coming", message=message)
    message = f"it has a place on a new {slot.type.name} that is being created"
    return WaitReason(code="instance_creating", message=message)
