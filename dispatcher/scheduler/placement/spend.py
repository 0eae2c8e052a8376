"""Spending: what instances and attempts cost an hour, kept up to date, and a pass's budget of it.

An account is charged for its attempts what the ledger books (`state.attempt_spend`), and in full
for an instance that was created for it until that is ready: the launch's journal says for whom. All
amounts are in US dollars an hour.

**May somebody have room?** What it would come to depends on who else is on the instance: company
makes it cheaper, and may leave at any time, or be evicted for just this room. So room is asked for
at its most: what an account has there and wants there costs as if it were alone, and so at most the
whole instance; less what is counted for it there now. To ask takes the same time however many are
there. Once an attempt is open it counts as in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import (
    InstanceRecord,
    Placement,
)
from longshore.dispatcher.scheduler.placement.fleet import Fleet, Slot
from longshore.dispatcher.scheduler.placement.snapshot import BudgetDenial
from longshore.dispatcher.state.attempt_spend import (
    _NOTHING,
    SHARE_UNITS,
    AttemptSpend,
    Occupied,
    _add,
    part_usd_per_hour,
    share_units,
)
from longshore.dispatcher.state.instance_records import price_of
from longshore.dispatcher.state.queue import RequestClass
from longshore.dispatcher.state.spend_limits import (
    SpendLimits,
    SpendSubject,
    SpendSubjects,
)
from longshore.drivers.errors import BugError
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.model import PendingLaunch, Worker
from longshore.pool.port import PoolPort


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCharge:
    """An instance that is not ready yet: for whom it was created, and what it costs an hour."""

    account: SpendSubjects
    price_usd_per_hour: Decimal


class InstanceSpend:
    """What all instances cost an hour; `charges` are those that are not ready, by their slot."""

    def __init__(
        self,
        pool: PoolPort,
        records: Mapping[str, InstanceRecord],
        limits: SpendLimits,
        attempts: AttemptSpend,
    ) -> None:
        """Count nothing yet; `records` has what instances were bought for, and is not copied.

        `attempts` is told what instances cost.
        """
        self.limits = limits
        self._attempts = attempts
        self.charges: dict[str, LaunchCharge] = {}
        self._pool = pool
        self._changes = pool.follow()
        self._records = records
        self._prices: dict[str, Decimal] = {}
        self._of_workers = _NOTHING
        self._of_launches = _NOTHING

    @property
    def total(self) -> Decimal:
        """Return what all instances cost, with those that may yet come and those still missing."""
        unlisted = (self._records.get(instance_id) for instance_id in self._pool.unlisted())
        prices = (record.price_usd_per_hour for record in unlisted if record is not None)
        return self._of_workers + self._of_launches + sum(prices, _NOTHING)

    @property
    def workers(self) -> frozenset[str]:
        """Return the ids of the workers that are counted; a copy."""
        return frozenset(self._prices)

    def update(self, launches: Iterable[PendingLaunch]) -> None:
        """Take in the workers that have changed since the last time, and `launches`.

        Those are the ones that may yet bring an instance, in place of those of before.
        """
        for worker_id in sorted(self._changes.drain()):
            self._see(worker_id)
        self._expect(launches)

    def _see(self, worker_id: str) -> None:
        """Take in a worker that has changed, is new, or is gone."""
        self._of_workers -= self._prices.pop(worker_id, _NOTHING)
        worker = self._pool.workers.get(worker_id)
        if worker is None:
            self.charges.pop(worker_id, None)
            self._attempts.priced(worker_id, None)
            return
        price = self._prices[worker_id] = self._price(worker)
        self._attempts.priced(worker_id, price)
        self._of_workers += price
        charge = self.charges.pop(worker_id, None) or self._charge_of(worker.token)
        if charge is not None and not worker.is_ready:
            self.charges[worker_id] = replace(charge, price_usd_per_hour=price)

    def _expect(self, launches: Iterable[PendingLaunch]) -> None:
        """Take in launches; what came of one and is missing is counted as such."""
        pool = self._pool
        unlisted = set(pool.unlisted().values())
        expected = [p.launch for p in launches if p.launch.token not in unlisted]
        prices = (pool.type_of(launch).price_usd_per_hour for launch in expected)
        self._of_launches = sum(prices, _NOTHING)
        charges = {id_: charge for id_, charge in self.charges.items() if id_ in self._prices}
        for token, pending in pool.launches.items():
            charge = self._charge_of(token)
            counts = pending.counted or token in unlisted
            if charge is not None and counts and not pending.instance_id:
                charges[token] = charge
        self.charges = charges

    def _charge_of(self, token: str) -> LaunchCharge | None:
        """Return what is charged for a launch, None when that is nobody's, or it needs no journal.

        The latter when the key of its instance is proven.
        """
        pending = self._pool.launches.get(token)
        if pending is None:
            return None
        account = self.limits.account_for(pending.launch.payer)
        price = self._pool.type_of(pending.launch).price_usd_per_hour
        return LaunchCharge(account=account, price_usd_per_hour=price) if account else None

    def subjects(self) -> list[SpendSubject]:
        """Return who has a limit of their own and spends something, sorted."""
        return sorted(self._attempts.by_subject)

    def budget(self, classes: Iterable[RequestClass], fleet: Fleet) -> PassBudget:
        """Return the budget of the next pass; the fleet has the claims that are kept so far."""
        budget = PassBudget(
            limits=self.limits,
            placement=fleet.rules.placement,
            cluster=self.total,
            by_subject=self._attempts.by_subject,
            occupied=self._attempts.occupied,
            prices=self._prices,
        )
        budget.begin(self.charges, classes, fleet)
        return budget

    def launched(self, token: str) -> None:
        """Take in a launch that has just been made."""
        launch = self._pool.launches[token].launch
        self._of_launches += self._pool.type_of(launch).price_usd_per_hour
        charge = self._charge_of(token)
        if charge is not None:
            self.charges[token] = charge

    def check(self) -> None:
        """Raise `BugError` when the sum is not that of the workers as they were last seen."""
        pool = self._pool
        for worker_id in sorted(
            (pool.workers.keys() | self._prices.keys()) - self._changes.pending
        ):
            worker = pool.workers.get(worker_id)
            if worker is None or self._prices.get(worker_id) != self._price(worker):
                raise BugError(f"the price of {worker_id} is not counted as it is")
        if self._of_workers != sum(self._prices.values(), _NOTHING):
            raise BugError(f"the workers do not cost {self._of_workers} an hour")

    def _price(self, worker: Worker) -> Decimal:
        return price_of(worker, self._records.get(worker.id))


@dataclass(slots=True, kw_only=True)
class PassBudget:
    """The budget of one pass (`dispatcher.scheduler.placement.snapshot.Budget`)."""

    limits: SpendLimits
    placement: Placement
    #: What all instances cost, with those that the pass has created so far.
    cluster: Decimal
    #: What attempts cost each project and user before this pass; not changed.
    by_subject: Mapping[SpendSubject, Decimal]
    #: What they occupy of each instance, and what each costs, by its id; not changed.
    occupied: Mapping[str, Occupied] = field(default_factory=dict)
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    #: For whom each slot was created, once the pass is over.
    payers: dict[str, SpendSubjects] = field(default_factory=dict)
    _more: dict[SpendSubject, Decimal] = field(default_factory=dict)
    _charged: set[tuple[SpendSubject, str]] = field(default_factory=set)
    _claims: dict[tuple[SpendSubject, str], int] = field(default_factory=dict)
    _shares: dict[tuple[str, Resources], int] = field(default_factory=dict)
    _parts: dict[tuple[Decimal, int], Decimal] = field(default_factory=dict)

    def spent(self, subject: SpendSubject) -> Decimal:
        """Return what a project or a user spends by now."""
        return self.by_subject.get(subject, _NOTHING) + self._more.get(subject, _NOTHING)

    def begin(
        self, charges: Mapping[str, LaunchCharge], classes: Iterable[RequestClass], fleet: Fleet
    ) -> None:
        """Count what is charged for instances that come, and what is claimed there already."""
        for slot_id, charge in charges.items():
            self._charge(charge.account, slot_id, charge.price_usd_per_hour)
        for request_class in classes:
            key = request_class.key
            for slot_id, number in fleet.claims.get(key, {}).items() if key.account else ():
                slot = fleet.slots[slot_id]
                self.place(key.account, slot, request_class.need(slot.type), number)

    def refuses_place(
        self, account: SpendSubjects, slot: Slot, need: Resources
    ) -> BudgetDenial | None:
        """Return why an account may not have room on a slot, None when it may."""
        share = self._share(slot.type, need) if account else 0
        for subject in account:
            limit = self.limits.of(subject)
            more = self._added(subject, slot, share)
            spent = self.spent(subject)
            if limit is not None and more > 0 and spent + more > limit:
                return _refusal(subject, limit, spent, more, room_on=slot.type.name)
        return None

    def place(self, account: SpendSubjects, slot: Slot, need: Resources, number: int) -> None:
        """Reserve what room for some containers costs; a negative number gives it back."""
        if not account:
            return
        share = self._share(slot.type, need) * number
        for subject in account:
            _add(self._more, (subject,), self._added(subject, slot, share))
            key = subject, slot.id
            self._claims[key] = self._claims.get(key, 0) + share

    def refuses_create(self, account: SpendSubjects, type_: InstanceType) -> BudgetDenial | None:
        """Return why no instance of a type may be created for an account, None when one may."""
        price = type_.price_usd_per_hour
        if not price:
            return None
        for subject in account:
            limit, spent = self.limits.of(subject), self.spent(subject)
            if limit is not None and spent + price > limit:
                return _refusal(subject, limit, spent, price)
        limit = self.limits.cluster
        if limit is not None and self.cluster + price > limit:
            return _refusal(None, limit, self.cluster, price)
        return None

    def create(self, account: SpendSubjects, slot: Slot) -> None:
        """Reserve the price of a new instance, in full for the account."""
        self.payers[slot.id] = account
        self.cluster += slot.type.price_usd_per_hour
        self._charge(account, slot.id, slot.type.price_usd_per_hour)

    def _charge(self, account: SpendSubjects, slot_id: str, price: Decimal) -> None:
        self._charged.update((subject, slot_id) for subject in account)
        _add(self._more, account, price)

    def _added(self, subject: SpendSubject, slot: Slot, share: int) -> Decimal:
        """Return what room adds to what a holder is charged: nothing where that is all of it."""
        if (subject, slot.id) in self._charged:
            return _NOTHING
        claimed = self._claims.get((subject, slot.id), 0)
        counted = self._counted(subject, slot, claimed)
        return self._counted(subject, slot, claimed + share) - counted

    def _counted(self, subject: SpendSubject, slot: Slot, claimed: int) -> Decimal:
        """Return what is counted for a holder on a slot where it has claimed so much."""
        occupied = self.occupied.get(slot.id)
        if not claimed:
            return _NOTHING if occupied is None else occupied.usd_per_hour(subject)
        own = claimed if occupied is None else claimed + occupied.by_subject.get(subject, 0)
        price = self.prices.get(slot.id, slot.type.price_usd_per_hour)
        part = self._parts.get((price, own))
        if part is None:
            part = part_usd_per_hour(price, min(own, SHARE_UNITS), SHARE_UNITS)
            self._parts[price, own] = part
        return part

    def _share(self, type_: InstanceType, need: Resources) -> int:
        share = self._shares.get((type_.name, need))
        if share is None:
            share = self._shares[type_.name, need] = share_units(need, type_, self.placement)
        return share


def _refusal(
    subject: SpendSubject | None, limit: Decimal, spent: Decimal, price: Decimal, room_on: str = ""
) -> BudgetDenial:
    return BudgetDenial(
        who="the cluster" if subject is None else f"{subject.kind} {subject.name}",
        setting="max_hourly_spend" + ("" if subject is None else f"_per_{subject.kind}"),
        of_all=subject is None,
        limit_usd_per_hour=limit,
        spent_usd_per_hour=spent,
        price_usd_per_hour=price,
        room_on=room_on,
    )
