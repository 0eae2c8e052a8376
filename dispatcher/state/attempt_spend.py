"""What open attempts cost an hour, by whom it is counted against; pure.

That is the number of the ledger (`dispatcher.cost.shares`): an attempt's part of the price of its
instance is its share, divided by the sum of the shares there where that exceeds 1. So no instance
costs those who are on it more than it costs. What one attempt costs changes with who else is there:
kept for each instance are the shares that add up, and for each holder what they come to.

Shares are whole numbers of `SHARE_UNITS`, and amounts whole numbers of 1e-12 USD, both rounded
down: sums are exact, whatever is added and taken away in which order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, TypeVar

from longshore.dispatcher.cost.shares import dominant_share
from longshore.dispatcher.domain.containers import (
    Attempt,
    Container,
    Placement,
    resources_of,
)
from longshore.dispatcher.state.spend_limits import (
    SpendLimits,
    SpendSubject,
    SpendSubjects,
    placement_of,
)
from longshore.drivers.errors import BugError
from longshore.drivers.interface import InstanceType, Resources

SHARE_UNITS: Final = 10**12
"""A whole instance."""

_PLACES: Final = 12
_NOTHING = Decimal(0)


def share_units(resources: Resources, type_: InstanceType | None, placement: Placement) -> int:
    """Return which part of an instance a request keeps from others, in `SHARE_UNITS`.

    That is all of it where nobody else may be there, or where nobody knows its type (None).
    """
    if type_ is None or placement is Placement.EXCLUSIVE:
        return SHARE_UNITS
    share = dominant_share(resources, type_.allocatable)
    return share.numerator * SHARE_UNITS // share.denominator


def part_usd_per_hour(price_usd_per_hour: Decimal, share: int, shares: int) -> Decimal:
    """Return what a share of an instance costs an hour where all shares there add up to `shares`.

    Both are in `SHARE_UNITS`. Rounded down: three thirds must not cost more than the whole.
    """
    price = int(price_usd_per_hour.scaleb(_PLACES))
    return Decimal(price * share // max(SHARE_UNITS, shares)).scaleb(-_PLACES)


@dataclass(slots=True, kw_only=True)
class Occupied:
    """What attempts occupy of one instance, in `SHARE_UNITS`."""

    price_usd_per_hour: Decimal
    #: All of them together, also those whom no limit concerns.
    shares: int = 0
    by_subject: dict[SpendSubject, int] = field(default_factory=dict)

    def usd_per_hour(self, subject: SpendSubject) -> Decimal:
        """Return what a project's or a user's attempts cost here."""
        own = self.by_subject.get(subject, 0)
        return part_usd_per_hour(self.price_usd_per_hour, own, self.shares)

    def add(self, account: SpendSubjects, share: int) -> Iterator[tuple[SpendSubject, Decimal]]:
        """Count a share in, or out if it is negative; yield who pays how much more for it.

        Where the shares exceed the whole that concerns all who are there.
        """
        is_tight = max(self.shares, self.shares + share) > SHARE_UNITS
        concerned = sorted({*account, *self.by_subject}) if is_tight else account
        before = [self.usd_per_hour(subject) for subject in concerned]
        self.shares += share
        for subject in account:
            own = self.by_subject[subject] = self.by_subject.get(subject, 0) + share
            if not own:
                del self.by_subject[subject]
        for subject, was in zip(concerned, before, strict=True):
            yield subject, self.usd_per_hour(subject) - was


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """An attempt that is counted."""

    instance_id: str
    account: SpendSubjects
    share: int


class AttemptSpend:
    """What the open attempts cost an hour, by whose limits they count against."""

    def __init__(
        self, limits: SpendLimits, types: Mapping[str, InstanceType], placement: Placement
    ) -> None:
        self.by_subject: dict[SpendSubject, Decimal] = {}
        #: What is occupied of each instance, by its id: only where projects or users have limits.
        self.occupied: dict[str, Occupied] = {}
        self._limits = limits
        self._types = types
        self._placement = placement
        self._open: dict[str, _Open] = {}
        self._told: dict[str, Decimal] = {}

    def opened(self, container: Container, attempt: Attempt) -> None:
        """Count an attempt that has no outcome yet; where nobody has a limit, nothing."""
        if not self._limits.of_subjects:
            return
        type_ = self._types.get(attempt.instance_type)
        placement = placement_of(container, self._placement)
        share = share_units(resources_of(container, attempt), type_, placement)
        account = self._limits.account_of(container)
        known = _Open(instance_id=attempt.instance_id, account=account, share=share)
        self._open[attempt.id] = known
        if attempt.instance_id not in self.occupied:
            price = attempt.price_usd_per_hour if type_ is None else type_.price_usd_per_hour
            price = self._told.get(attempt.instance_id, price)
            self.occupied[attempt.instance_id] = Occupied(price_usd_per_hour=price)
        self._count(self.occupied[attempt.instance_id].add(account, share))

    def closed(self, attempt_id: str) -> None:
        """Count an attempt no more; one that was not counted is no error."""
        known = self._open.pop(attempt_id, None)
        if known is None:
            return
        occupied = self.occupied[known.instance_id]
        self._count(occupied.add(known.account, -known.share))
        if not occupied.shares:
            del self.occupied[known.instance_id]

    def priced(self, instance_id: str, usd_per_hour: Decimal | None) -> None:
        """Count an instance's attempts at what an hour of it costs now; None: it is gone."""
        if usd_per_hour is None:
            self._told.pop(instance_id, None)
            return
        self._told[instance_id] = usd_per_hour
        occupied = self.occupied.get(instance_id)
        if occupied is None or occupied.price_usd_per_hour == usd_per_hour:
            return
        before = {subject: occupied.usd_per_hour(subject) for subject in occupied.by_subject}
        occupied.price_usd_per_hour = usd_per_hour
        self._count([(who, occupied.usd_per_hour(who) - was) for who, was in before.items()])

    def check(self, containers: Iterable[Container]) -> None:
        """Raise `BugError` when the sums are not those of the open attempts, made anew."""
        anew = AttemptSpend(self._limits, self._types, self._placement)
        prices = {id_: each.price_usd_per_hour for id_, each in self.occupied.items()}
        anew._told = prices
        for container in containers:
            if container.has_open_attempt:
                anew.opened(container, container.attempts[-1])
        if anew.by_subject != self.by_subject or anew.occupied != self.occupied:
            raise BugError(f"attempts cost {anew.by_subject}, and not {self.by_subject}")

    def _count(self, more: Iterable[tuple[SpendSubject, Decimal]]) -> None:
        for subject, usd_per_hour in more:
            _add(self.by_subject, (subject,), usd_per_hour)


_Key = TypeVar("_Key")


def _add(sums: dict[_Key, Decimal], keys: Iterable[_Key], amount: Decimal) -> None:
    """Add an amount to the sums of some keys; a sum of nothing is not kept."""
    for key in keys:
        left = sums.get(key, _NOTHING) + amount
        if left:
            sums[key] = left
        else:
            sums.pop(key, None)
