"""What open attempts occupy and cost an hour, by whom it is counted against; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_DOWN, Decimal
from typing import TypeVar

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
    share_of,
)
from longshore.drivers.errors import BugError
from longshore.drivers.interface import InstanceType

_SMALLEST = Decimal("1e-12")


_NOTHING = Decimal(0)


def occupied_usd_per_hour(price_usd_per_hour: Decimal, share: Decimal) -> Decimal:
    """Return what a share of an instance costs an hour, rounded down so that sums stay exact.

    Three thirds of an instance must not cost more than it does.
    """
    return (price_usd_per_hour * share).quantize(_SMALLEST, rounding=ROUND_DOWN)


class AttemptSpend:
    """What the open attempts cost an hour, by whose limits they count against."""

    def __init__(
        self, limits: SpendLimits, types: Mapping[str, InstanceType], placement: Placement
    ) -> None:
        self.by_subject: dict[SpendSubject, Decimal] = {}
        self._limits = limits
        self._types = types
        self._placement = placement
        self._open: dict[str, tuple[SpendSubjects, Decimal]] = {}
        self._usd_per_hour: dict[str, Decimal] = {}

    def opened(self, container: Container, attempt: Attempt) -> None:
        """Count an attempt that has no outcome yet; of one whom no limit concerns, nothing."""
        account = self._limits.account_of(container)
        if account:
            cost = self._cost(container, attempt)
            self._open[attempt.id] = (account, cost)
            _add(self.by_subject, account, cost)

    def reprice(self, usd_per_hour: Mapping[str, Decimal], containers: Iterable[Container]) -> None:
        """Count attempts at what an hour of their type costs now; `containers` have open ones."""
        self._usd_per_hour.update(usd_per_hour)
        for container in containers:
            attempt = container.attempts[-1]
            if attempt.id in self._open and attempt.instance_type in usd_per_hour:
                self.closed(attempt.id)
                self.opened(container, attempt)

    def closed(self, attempt_id: str) -> None:
        """Count an attempt no more; one that was not counted is no error."""
        account, cost = self._open.pop(attempt_id, ((), _NOTHING))
        _add(self.by_subject, account, -cost)

    def check(self, containers: Iterable[Container]) -> None:
        """Raise `BugError` when the sums are not those of the open attempts, made anew."""
        anew: dict[SpendSubject, Decimal] = {}
        for container in containers:
            if container.has_open_attempt:
                cost = self._cost(container, container.attempts[-1])
                _add(anew, self._limits.account_of(container), cost)
        if anew != self.by_subject:
            raise BugError(f"attempts cost {anew}, and not {self.by_subject}")

    def _cost(self, container: Container, attempt: Attempt) -> Decimal:
        """Return what an attempt costs an hour; of a type that is not configured, all of it."""
        type_ = self._types.get(attempt.instance_type)
        given = resources_of(container, attempt)
        placement = placement_of(container, self._placement)
        share = Decimal(1) if type_ is None else share_of(given, type_, placement)
        price = self._usd_per_hour.get(attempt.instance_type, attempt.price_usd_per_hour)
        return occupied_usd_per_hour(price, share)


_Key = TypeVar("_Key")


def _add(sums: dict[_Key, Decimal], keys: Iterable[_Key], amount: Decimal) -> None:
    """Add an amount to the sums of some keys; a sum of nothing is not kept."""
    for key in keys:
        left = sums.get(key, _NOTHING) + amount
        if left:
            sums[key] = left
        else:
            sums.pop(key, None)
