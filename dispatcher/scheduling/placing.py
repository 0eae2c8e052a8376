"""One planning pass: what the planner sees of the pool, and how its plan is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from dispatcher.accounts import Account, SpendLimits, payer_of
from dispatcher.ledger.history import History
from dispatcher.ledger.ledger import Ledger
from dispatcher.messages import PublishFailedPass
from dispatcher.model import ContainerState, InstanceRecord, SchedulerSettings, WaitReason
from dispatcher.planner import plan_check, reasons
from dispatcher.planner.batch import plan
from dispatcher.planner.limits import Budget, Limits, Line, Plan, View
from dispatcher.planner.room import Rules, Slot, SlotKind
from dispatcher.queueing.queue import ClassKey, RequestClass
from dispatcher.scheduling.concurrency import Concurrency
from dispatcher.scheduling.create_limits import create_limits
from dispatcher.scheduling.evictions import Evictions
from dispatcher.scheduling.kept_room import Kept
from dispatcher.scheduling.placers import Placers
from dispatcher.scheduling.roster import Roster
from dispatcher.scheduling.spend import InstanceSpend, PassBudget
from dispatcher.scheduling.starter import Starter
from drivers.errors import BugError
from drivers.interface import InstanceType
from pool import idle, launching
from pool.core import PoolCore

PASS_EVERY_S = 5.0
PAUSE_AFTER_FAILURE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Locks:
    """The containers of a class that are locked: its first `number`, as of a `version` of it."""

    version: int
    number: int
    ids: frozenset[str]


class Placing:
    """Runs passes; keeps who holds a claim and why everybody else waits."""

    def __init__(
        self,
        *,
        pool: PoolCore,
        ledger: Ledger,
        settings: SchedulerSettings,
        records: Mapping[str, InstanceRecord],
        placers: Placers,
        kept: Kept,
    ) -> None:
        """Make what plans for a pool; `records` has what instances were bought for.

        `placers` do their part of each pass first; `kept` is what room they keep.
        """
        self.pool = pool
        self.ledger = ledger
        self.settings = settings
        self.concurrency = Concurrency(
            max_containers=settings.max_containers,
            supervisor_fraction=settings.supervisor_fraction,
        )
        self.rules = Rules(
            placement=settings.placement,
            profile=settings.profile,
            max_containers=settings.max_containers_per_instance,
        )
        limits = SpendLimits(settings)
        self.spend = InstanceSpend(pool, records, limits) if limits.exist else None
        self.evictions = Evictions(pool, ledger, settings)
        self.placers = placers
        self._kept = kept
        self._starter = Starter(pool, ledger)
        self.roster = self._new_roster()
        self.waiting: dict[ClassKey, WaitReason] = {}
        self.history = History()
        self.passes = 0
        self.failures = 0
        self.failure: Exception | None = None
        self.at_quota = False
        self._locks: dict[ClassKey, _Locks] = {}
        self._loose: set[str] = set()
        self._last_pass_at = -inf

    def _new_roster(self) -> Roster:
        return Roster(self.pool, self.rules, self.spend, self.evictions.reserved, self._kept)

    @property
    def locked(self) -> set[str]:
        """Return the ids of the waiting containers that are locked; a copy."""
        return self._loose.union(*(locks.ids for locks in self._locks.values()))

    def restore(self, container_id: str) -> None:
        """Note that a container was locked by an earlier process; the next pass decides."""
        self._loose.add(container_id)

    def left_of(self, type_: InstanceType) -> InstanceType:
        """Return a type as batch work finds a new instance of it, as of the latest pass."""
        return self._kept.left_of(type_)

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
        return self._last_pass_at + PASS_EVERY_S if len(self.ledger.queue) else None

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
        payers = budget.payers if budget is not None else {}
        self._carry_out(decided, payers, now)
        self.evictions.evict(decided, self.roster.fleet.slots, budget, now)

    def _let_others_place(self, now: float) -> None:
        self.placers.place(now)
        types = [self.pool.types[name] for name in sorted(self.pool.types)]
        slots = self.roster.fleet.slots.keys() | self.pool.workers.keys()
        if self._kept.update(self.placers, types, slots):
            self._renew_classes()

    def _renew_classes(self) -> None:
        """Let each class have the types that it may run on now, and no claims on any other."""
        fleet = self.roster.fleet
        for request_class in self.ledger.queue.renew():
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
        self.roster = self._new_roster()
        self.pool.touched.update(self.pool.workers)
        if self.spend is not None:
            self.pool.touched.update(self.spend.workers)
        self.ledger.published.append(PublishFailedPass(error=error))

    def _carry_out(self, decided: Plan, payers: Mapping[str, Account], now: float) -> None:
        for slot in decided.creates:
            payer = payer_of(payers.get(slot.id, ()))
            type_ = self.pool.types[slot.type.name]
            token = launching.request_launch(self.pool, type_, payer, now)
            self.roster.launched(slot, token)
            if self.spend is not None:
                self.spend.launched(token)
        for line in decided.lines:
            for container_id, slot in line.starts:
                self._start(container_id, line, slot, now)
        self._lock(decided)
        fleet = self.roster.fleet
        coming = (s for s in fleet.claimed() if fleet.slots[s].kind is SlotKind.COMING)
        awaited = self.placers.awaited().union(coming, decided.withheld)
        idle.set_awaited(self.pool, awaited, now)
        for worker_id in decided.unwanted:
            idle.on_unwanted(self.pool, self.pool.workers[worker_id], now)
        self.waiting = decided.waiting
        self.history.waits(decided.waiting, now)
        closed = decided.stopped or bool(decided.closed)
        self.at_quota = closed or launching.at_quota(self.pool, now)
        launching.after_pass(
            self.pool, wait=decided.tokens_short, served=bool(decided.creates), now=now
        )

    def concurrency_limit(self) -> int | None:
        """Return how many containers run or have a place, while a quota lets no more be created.

        None while none does. It counts containers, not instances: packing goes on at a quota.
        """
        if not self.at_quota:
            return None
        return self.ledger.placed + sum(each.number for each in self._locks.values())

    # ---- what a pass decides from ------------------------------------------------------------

    def refresh(self, now: float) -> list[RequestClass]:
        """Bring the fleet up to date with the pool and the queue; return who waits, by class."""
        self.evictions.settle()
        self.roster.update(now)
        classes = self.ledger.queue.classes()
        keys = {request_class.key for request_class in classes}
        fleet = self.roster.fleet
        for key in [key for key in fleet.claims if key not in keys]:
            for slot_id, number in sorted(fleet.claims[key].items()):
                fleet.unclaim(key, fleet.slots[slot_id], number)
        fleet.forget_classes(keys)
        return classes

    def view(self, now: float) -> View:
        """Return what the planner would decide from, as of the latest `refresh`; it stays so."""
        classes = self.ledger.queue.classes()
        return self._view(classes, self._budget(classes), now)

    def _view(self, classes: list[RequestClass], budget: Budget | None, now: float) -> View:
        resting = self.roster.resting
        return View(
            classes=classes,
            fleet=self.roster.fleet,
            limits=self._limits(budget, now),
            resting=[resting[worker_id] for worker_id in sorted(resting)],
            leaving=idle.leaving(self.pool, now),
            now=now,
        )

    def _budget(self, classes: list[RequestClass]) -> PassBudget | None:
        if self.spend is None:
            return None
        return self.spend.budget(self.ledger.spend, classes, self.roster.fleet)

    def _limits(self, budget: Budget | None, now: float) -> Limits:
        pool = self.pool
        limit = self.concurrency.limit(now)
        placed = self.ledger.placed
        spoken_for = placed + self.placers.promised()
        instances = len(pool.workers) + self.roster.hoped_for + self.roster.missing
        most = limit
        if launching.at_quota(pool, now) or instances >= self.settings.max_instances:
            # Nothing more can be had for those that supervisors wait for.
            here = placed + sum(each.number for each in self._locks.values())
            most = here if limit is None else min(limit, here)
        supervisors = self.concurrency.supervisors(most)
        return replace(
            create_limits(
                pool,
                instances=instances,
                max_instances=self.settings.max_instances,
                budget=budget,
                now=now,
            ),
            containers_left=_left(limit, spoken_for),
            as_new=self.left_of,
            supervisors_left=_left(supervisors, self.ledger.supervisors_placed),
        )

    # ---- carrying it out -----------------------------------------------------------------------

    def _lock(self, decided: Plan) -> None:
        """Lock who has a claim now and unlock who has none any more, but for the next in line."""
        before, loose = self._locks, self._loose
        self._locks = {}
        now_locked: set[str] = set()
        gone: set[str] = set()
        for line in decided.lines:
            old = before.pop(line.key, None)
            number, version = line.claimed, line.request_class.version
            if old is not None and (old.version, old.number) == (version, number):
                self._locks[line.key] = old
                continue
            ids = frozenset(c for _, c in line.request_class.span(0, number))
            if ids:
                self._locks[line.key] = _Locks(version=version, number=number, ids=ids)
            now_locked |= ids
            gone |= (old.ids if old is not None else frozenset()) - ids
        # None of these is in locks that stay: who waits does in one class, the loose in no locks.
        gone = gone.union(loose, *(locks.ids for locks in before.values())) - now_locked
        for container_id in sorted(now_locked):
            if self.ledger.containers[container_id].state is ContainerState.QUEUED:
                self.ledger.lock(container_id)
        self._unlock(gone, kept=gone.intersection(decided.next_in_line))

    def _unlock(self, ids: set[str], kept: set[str]) -> None:
        self._loose = {container_id for container_id in kept if container_id in self.ledger.queue}
        for container_id in sorted(ids - kept):
            container = self.ledger.containers.get(container_id)
            if container is None or container.has_open_attempt:
                continue
            # One that was locked by an earlier process may be held back by now.
            if container.state is ContainerState.LOCKED:
                self.ledger.unlock(container_id)

    def _start(self, container_id: str, line: Line, slot: Slot, now: float) -> None:
        worker = self.pool.workers[slot.id]
        self._starter.start(container_id, worker, line.request_class.need(slot.type), now)

    # ---- why somebody waits ----------------------------------------------------------------------

    def reason(self, container_id: str) -> WaitReason | None:
        """Return why a container waits, None when it does not wait or no pass has seen it."""
        container = self.ledger.containers.get(container_id)
        if container is None or container.has_open_attempt:
            return None
        if container.priority == 0:
            return WaitReason(code="held", message="held back: its priority is 0")
        claimed = self.claimed_slot(container_id)
        place = _claim(claimed) if claimed is not None else self.evictions.reason(container_id)
        if place is not None:
            return place
        if not self.pool.listed_once:
            return reasons.not_listed(self.pool.listing_problem)
        request_class = self.ledger.queue.class_of(container_id)
        if request_class is not None and self.failure is not None:
            return reasons.PASS_FAILED
        return self.waiting.get(request_class.key) if request_class is not None else None

    def claimed_slot(self, container_id: str) -> Slot | None:
        """Return where a waiting container has a claim, None when it has none."""
        request_class = self.ledger.queue.class_of(container_id)
        if request_class is None:
            return None
        locks = self._locks.get(request_class.key)
        if locks is None or container_id not in locks.ids:
            return None
        fleet = self.roster.fleet
        by_slot = fleet.claims.get(request_class.key, {})
        position = request_class.before(request_class.order_of(container_id))
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
        self.roster.check()
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
