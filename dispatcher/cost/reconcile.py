"""The ledger against a cloud's bill: where they differ, by how much, and why; pure.

**Join.** Rows of the bill meet lines of the ledger by the instance's id and the hour. A bill may
write an id as a path or in other letters (`arn:…:instance/i-1`, `/subscriptions/…/VM-1`): the whole
id is tried, then what comes after its last slash, if only one of our instances is called so.
A bill may also count days or months. Rows of one instance that overlap make one window, and the
ledger's hours in it are taken together: it is compared at the coarsest grain that there is, and
nothing of the bill is spread over hours by guess. Rows one after another are windows of their own.

**Split.** Where both have an instance in a window, with the bill's time T, list cost C and cost B,
and the ledger's time t and cost L:

- time: `L·T/t - L`, what the other time costs at the ledger's price (all of it where t is 0);
- price: `C - L·T/t`, what the other price costs for the bill's time;
- discount: `B - C`, and rows of the bill that are discounts of one of our instances.

`L·T/t` is rounded to a grain, or the fractions of a month would grow to thousands of digits. The
three are `B - L` exactly all the same, as one has what another lacks. A bill without times says
nothing of time, and one without list prices nothing of discounts. The rest is what one side alone
has: lines that the ledger does not model (storage, transfer, tax ...), instances that only the bill
has, and hours that only the ledger has. All six add up to the bill less the ledger.

**Whose.** An account may hold much that is not ours. With the name of a cluster only rows count
that carry its tag, or are about an instance in the ledger; what the others cost is told apart.

The bill's cost is the effective one, with its part of what was paid beforehand: that is what an
instance's time costs. Sums are kept by instance and window, not by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from enum import Enum
from fractions import Fraction
from typing import Final, assert_never
from zlib import crc32

from longshore.dispatcher.cost.bills import BillLine, ChargeKind
from longshore.dispatcher.cost.money import GRAINS_PER_USD, exact_usd, split
from longshore.dispatcher.domain.ledger import (
    BilledState,
    Column,
    CostGroup,
    CostLine,
    CostOutcome,
    PriceSource,
    Total,
)

_EXACT: Final = Context(prec=200, traps=[Inexact, InvalidOperation, Overflow])
_MS_PER_S: Final = 1000
_NOTHING: Final = Fraction(0)
_NEXT_TO_NOTHING: Final = GRAINS_PER_USD // 10**9
"""What a window may differ by, in grains, since corrections and the decimals of bills are rounded:
a billionth of a dollar."""
CORRECTION: Final = "correction"
"""The cause of what is booked for an instance of which the ledger has nothing else."""


class Part(Enum):
    """Why bill and ledger differ."""

    TIME = "time"
    PRICE = "price"
    DISCOUNT = "discount"
    NOT_MODELLED = "not modelled"
    ONLY_IN_BILL = "only in the bill"
    ONLY_IN_LEDGER = "only in the ledger"


class Coverage(Enum):
    """Of which hours a bill tells: what it lacks of these, and the ledger has, is not billed."""

    WHOLE = "whole"
    """All of its month: nothing will be added to it any more."""
    SO_FAR = "so far"
    """Its month up to its last hour: what ran after that is not billed yet."""
    WITHIN = "within"
    """Those from its first to its last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some hours of one instance, [first_hour, end_hour), in which the two were compared."""

    instance_id: str
    first_hour: int
    end_hour: int
    #: None where the bill does not tell the time.
    billed_ms: Fraction | None
    booked_ms: int
    #: Sorted as `Part` is, without those that are 0; in the bill's currency.
    parts: tuple[tuple[Part, Fraction], ...]

    @property
    def total(self) -> Fraction:
        """Return the bill less the ledger."""
        return sum((amount for _, amount in self.parts), _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceDifference:
    """All windows of one instance, in the order of time."""

    #: The ledger's id, or the bill's where the ledger does not know it.
    instance_id: str
    windows: tuple[Window, ...]
    total: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Where a bill and the ledger differ; every amount exact, in the bill's currency."""

    #: What the bill has that is ours, and what the ledger has, in the hours that were compared.
    billed: Fraction
    booked: Fraction
    #: Every part, also those that are 0: their sum is `billed - booked`.
    parts: Mapping[Part, Fraction]
    #: What `Part.NOT_MODELLED` is made of, sorted by kind.
    not_modelled: tuple[tuple[ChargeKind, Fraction], ...]
    #: The most different first, ties by id.
    instances: tuple[InstanceDifference, ...]
    #: What rows cost that are not ours, and rows and lines that are outside of those hours.
    elsewhere: Fraction
    outside: Fraction
    #: The longest window, in hours: 1 where the bill counts hours.
    coarsest_hours: int
    #: Where the bill's time of instances begins and ends so far, None where it has none.
    billed_from_hour: int | None
    billed_until_hour: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What is to be booked for an instance so that the ledger says what the bill does."""

    instance_id: str
    first_hour: int
    end_hour: int
    part: Part
    #: By how much the instance's time changes, 0 where only its price does.
    quantity_ms: int
    #: By how much its cost changes. Those of one reconciliation add up to its rounded sum.
    grains: int


@dataclass(slots=True)
class _Billed:
    usage_s: Decimal = Decimal(0)
    is_time_told: bool = True
    list_cost: Decimal = Decimal(0)
    cost: Decimal = Decimal(0)

    def add(self, line: BillLine) -> None:
        if line.usage_s is None:
            self.is_time_told = False
        else:
            self.usage_s = _EXACT.add(self.usage_s, line.usage_s)
        listed = line.effective_cost if line.list_cost is None else line.list_cost
        self.list_cost = _EXACT.add(self.list_cost, listed)
        self.cost = _EXACT.add(self.cost, line.effective_cost)

    def take_in(self, other: _Billed) -> None:
        self.usage_s = _EXACT.add(self.usage_s, other.usage_s)
        self.is_time_told &= other.is_time_told
        self.list_cost = _EXACT.add(self.list_cost, other.list_cost)
        self.cost = _EXACT.add(self.cost, other.cost)


@dataclass(slots=True)
class _Booked:
    ms: int = 0
    grains: int = 0


_Hours = tuple[int, int]


@dataclass(slots=True)
class _Instance:
    """What both sides say of one instance."""

    booked: dict[int, _Booked] = field(default_factory=dict)
    billed: dict[_Hours, _Billed] = field(default_factory=dict)
    #: Rows that are not its time, by what they are and the hours that they are about.
    beside: dict[tuple[Part, _Hours], Decimal] = field(default_factory=dict)


def piece_of(resource_id: str, pieces: int) -> int:
    """Return in which of so many pieces a bill's or a ledger's instance is.

    Both sides may take the pieces apart from each other: what the one calls an instance and what
    the other does end alike behind the last slash, but for the size of letters.
    """
    return crc32(resource_id.casefold().rpartition("/")[2].encode()) % pieces


def reconcile(
    lines: Iterable[CostLine], bill: Iterable[BillLine], hours: range, cluster: str = ""
) -> Reconciliation:
    """Compare lines with a bill in some hours (`utc_calendar.month_hours`); each is read once.

    With `cluster` "" every row of the bill is ours. A row belongs to the hour in which it begins.
    """
    account = _Account(hours=hours, cluster=cluster)
    for line in lines:
        account.book(line)
    account.all_booked()
    for row in bill:
        account.take(row)
    return account.result()


class _Account:
    """Takes in both sides, the ledger first, and compares them in the end."""

    def __init__(self, *, hours: range, cluster: str) -> None:
        self._hours = hours
        self._cluster = cluster
        self._instances: dict[str, _Instance] = {}
        self._ids: dict[str, str] = {}
        self._booked = 0
        self._billed = Decimal(0)
        self._elsewhere = Decimal(0)
        self._outside = Decimal(0)
        self._outside_grains = 0
        self._not_modelled: dict[ChargeKind, Decimal] = {}

    def book(self, line: CostLine) -> None:
        """Take in a line of the ledger."""
        if line.hour not in self._hours:
            self._outside_grains += line.grains
            return
        instance = self._instances.setdefault(line.instance_id, _Instance())
        booked = instance.booked.setdefault(line.hour, _Booked())
        booked.ms += line.quantity_ms
        booked.grains += line.grains
        self._booked += line.grains

    def all_booked(self) -> None:
        """Note what the instances of the ledger may be called in a bill."""
        self._ids = _names_in_bills(sorted(self._instances))

    def take(self, row: BillLine) -> None:
        """Take in a row of the bill, after all lines."""
        cost = row.effective_cost
        if row.first_hour not in self._hours:
            self._outside = _EXACT.add(self._outside, cost)
            return
        known = self._known(row.resource_id)
        if known is None and self._cluster not in {"", row.cluster}:
            self._elsewhere = _EXACT.add(self._elsewhere, cost)
            return
        self._billed = _EXACT.add(self._billed, cost)
        hours = (row.first_hour, row.end_hour)
        if row.kind is ChargeKind.INSTANCE:
            instance = self._instances.setdefault(known or row.resource_id, _Instance())
            instance.billed.setdefault(hours, _Billed()).add(row)
            return
        is_discount = known is not None and row.kind is ChargeKind.DISCOUNT
        if not is_discount:
            so_far = self._not_modelled.get(row.kind, Decimal(0))
            self._not_modelled[row.kind] = _EXACT.add(so_far, cost)
        if known is not None:
            beside = self._instances[known].beside
            key = (Part.DISCOUNT if is_discount else Part.NOT_MODELLED, hours)
            beside[key] = _EXACT.add(beside.get(key, Decimal(0)), cost)

    def _known(self, resource_id: str) -> str | None:
        folded = resource_id.casefold()
        return self._ids.get(folded) or self._ids.get(folded.rpartition("/")[2])

    def result(self) -> Reconciliation:
        """Return the comparison of what was taken in."""
        instances = [_compared(id_, each) for id_, each in sorted(self._instances.items())]
        instances.sort(key=lambda each: (-abs(each.total), each.instance_id))
        windows = [window for each in instances for window in each.windows]
        parts = dict.fromkeys(Part, _NOTHING)
        for window in windows:
            for part, amount in window.parts:
                parts[part] += amount
        kinds = sorted(self._not_modelled.items(), key=lambda each: each[0].value)
        parts[Part.NOT_MODELLED] = sum((Fraction(cost) for _, cost in kinds), _NOTHING)
        billed = [hours for each in self._instances.values() for hours in each.billed]
        return Reconciliation(
            billed=Fraction(self._billed),
            booked=exact_usd(self._booked),
            parts=parts,
            not_modelled=tuple((kind, Fraction(cost)) for kind, cost in kinds),
            instances=tuple(instances),
            elsewhere=Fraction(self._elsewhere),
            outside=Fraction(self._outside) - exact_usd(self._outside_grains),
            coarsest_hours=max((end - first for first, end in billed), default=1),
            billed_from_hour=min((first for first, _ in billed), default=None),
            billed_until_hour=max((end for _, end in billed), default=None),
        )


def _names_in_bills(ids: Iterable[str]) -> dict[str, str]:
    """Return our ids by what a bill may call them, in small letters; whole ids come first."""
    whole: dict[str, str] = {}
    tails: dict[str, set[str]] = {}
    for id_ in ids:
        whole[id_.casefold()] = id_
        tails.setdefault(id_.casefold().rpartition("/")[2], set()).add(id_)
    unique = {tail: min(owners) for tail, owners in tails.items() if len(owners) == 1 and tail}
    return unique | whole


def _compared(instance_id: str, instance: _Instance) -> InstanceDifference:
    left = dict(instance.booked)
    windows = []
    for (first, end), billed in _merged(instance.billed):
        booked = [left.pop(hour) for hour in _hours_of(left, first, end)]
        windows.append(_window(instance_id, first, end, billed, booked))
    windows += [
        _window(instance_id, hour, hour + 1, None, [booked]) for hour, booked in left.items()
    ]
    windows += [
        _of_parts(instance_id, hours, Fraction(0), 0, {part: Fraction(cost)})
        for (part, hours), cost in instance.beside.items()
    ]
    windows.sort(key=lambda each: (each.first_hour, each.end_hour))
    total = sum((each.total for each in windows), _NOTHING)
    return InstanceDifference(instance_id=instance_id, windows=tuple(windows), total=total)


def _hours_of(booked: Mapping[int, _Booked], first: int, end: int) -> list[int]:
    """Return which of the hours are in [first, end); a window may be far longer than they are."""
    if end - first <= len(booked):
        return [hour for hour in range(first, end) if hour in booked]
    return sorted(hour for hour in booked if first <= hour < end)


def _merged(billed: Mapping[_Hours, _Billed]) -> Iterator[tuple[_Hours, _Billed]]:
    """Yield windows in the order of time, those that overlap as one."""
    window: _Hours | None = None
    sums = _Billed()
    for (first, end), each in sorted(billed.items(), key=lambda pair: pair[0]):
        if window is not None and first >= window[1]:
            yield window, sums
            window = None
        if window is None:
            window, sums = (first, end), _Billed()
        window = (window[0], max(window[1], end))
        sums.take_in(each)
    if window is not None:
        yield window, sums


def _window(
    instance_id: str, first: int, end: int, billed: _Billed | None, booked: list[_Booked]
) -> Window:
    """Return the comparison of a window, in which at least one side has the instance."""
    ms = sum(each.ms for each in booked)
    grains = sum(each.grains for each in booked)
    ours = exact_usd(grains)
    if billed is None:
        return _of_parts(instance_id, (first, end), _NOTHING, ms, {Part.ONLY_IN_LEDGER: -ours})
    theirs = Fraction(billed.cost)
    billed_ms = Fraction(billed.usage_s) * _MS_PER_S if billed.is_time_told else None
    if not booked:
        parts = {Part.ONLY_IN_BILL: theirs}
    else:
        listed = Fraction(billed.list_cost)
        at_our_price = listed
        if billed_ms is None:
            at_our_price = ours
        elif ms:
            at_our_price = exact_usd(round(grains * billed_ms / ms))
        parts = {
            Part.TIME: at_our_price - ours,
            Part.PRICE: listed - at_our_price,
            Part.DISCOUNT: theirs - listed,
        }
    return _of_parts(instance_id, (first, end), billed_ms, ms, parts)


def _of_parts(
    instance_id: str,
    hours: _Hours,
    billed_ms: Fraction | None,
    booked_ms: int,
    parts: Mapping[Part, Fraction],
) -> Window:
    told = tuple((part, parts[part]) for part in Part if parts.get(part, _NOTHING))
    return Window(
        instance_id=instance_id,
        first_hour=hours[0],
        end_hour=hours[1],
        billed_ms=billed_ms,
        booked_ms=booked_ms,
        parts=told,
    )


def not_covered(reconciliation: Reconciliation, coverage: Coverage) -> int:
    """Return how many hours of instances would be taken back though the bill plainly lacks them.

    They are those before its first hour and after its last one, in which the ledger alone has
    something. Where there are any, somebody has a part of the bill for the whole of it.
    """
    return sum(
        window.end_hour - window.first_hour
        for instance in reconciliation.instances
        for window in instance.windows
        if any(part is Part.ONLY_IN_LEDGER for part, _ in window.parts)
        and not _is_next_to_nothing(window)
        and any(_outside(reconciliation, window))
        and _is_told_of(reconciliation, window, coverage)
    )


def _outside(reconciliation: Reconciliation, window: Window) -> tuple[bool, bool]:
    """Return whether a window is before a bill's time of instances, and whether it is after it."""
    first, until = reconciliation.billed_from_hour, reconciliation.billed_until_hour
    is_before = first is not None and window.end_hour <= first
    return is_before, until is None or window.first_hour >= until


def _is_told_of(reconciliation: Reconciliation, window: Window, coverage: Coverage) -> bool:
    """Return whether a bill that lacks a window says by that that it was not billed."""
    is_before, is_after = _outside(reconciliation, window)
    match coverage:
        case Coverage.WHOLE:
            return True
        case Coverage.SO_FAR:
            return not is_after
        case Coverage.WITHIN:
            return not (is_before or is_after)
        case _:
            assert_never(coverage)


def _is_next_to_nothing(window: Window) -> bool:
    return abs(window.total) * GRAINS_PER_USD < _NEXT_TO_NOTHING


def corrections(reconciliation: Reconciliation, coverage: Coverage) -> Iterator[Correction]:
    """Yield what is to be booked, by instance and time; amounts are exact but for the last grain.

    What the ledger does not model is none of its business, and left out; so is a window in which
    bill and ledger cost the same, whatever its parts are, as after its corrections. Hours of which
    the bill does not tell are not taken back.
    """
    exact, told = _NOTHING, 0
    for instance in sorted(reconciliation.instances, key=lambda each: each.instance_id):
        for window in instance.windows:
            is_told_of = _is_told_of(reconciliation, window, coverage)
            if _is_next_to_nothing(window):
                continue
            for part, amount in window.parts:
                if part is Part.NOT_MODELLED or (part is Part.ONLY_IN_LEDGER and not is_told_of):
                    continue
                exact += amount * GRAINS_PER_USD
                grains = round(exact) - told
                told += grains
                yield Correction(
                    instance_id=window.instance_id,
                    first_hour=window.first_hour,
                    end_hour=window.end_hour,
                    part=part,
                    quantity_ms=_changed_ms(window, part),
                    grains=grains,
                )


def _changed_ms(window: Window, part: Part) -> int:
    """Return by how much the time changes with a part, as far as the bill tells it."""
    is_about_time = part in {Part.TIME, Part.ONLY_IN_BILL, Part.ONLY_IN_LEDGER}
    if not is_about_time or window.billed_ms is None:
        return 0
    return round(window.billed_ms) - window.booked_ms


def shared_out(
    correction: Correction, groups: Mapping[CostGroup, Total]
) -> list[tuple[CostGroup, Total]]:
    """Return a correction divided among those who pay for its hours, by what they pay.

    Where all of it costs nothing, time decides; where nobody had any, it is nobody's. Time and cost
    add up to the correction's, exactly.
    """
    ordered = sorted(groups, key=repr)
    weights = [groups[each].grains for each in ordered]
    if not any(weights):
        weights = [groups[each].quantity_ms for each in ordered]
    if not any(weights):
        ordered, weights = [_NOBODYS], [1]
    named = [(str(n).zfill(9), Fraction(weight)) for n, weight in enumerate(weights)]
    grains = split(correction.grains, named)
    quantity_ms = split(correction.quantity_ms, named)
    return [
        (
            replace(group, price_source=PriceSource.BILL),
            Total(quantity_ms=quantity_ms[id_], grains=grains[id_]),
        )
        for group, (id_, _) in zip(ordered, named, strict=True)
        if grains[id_] or quantity_ms[id_]
    ]


_NOBODYS: Final = CostGroup(
    project="",
    user="",
    job_name="",
    labels=(),
    type_name="",
    preemptible=False,
    zone="",
    state=BilledState.UNWANTED,
    column=Column.SHARED,
    cause=CORRECTION,
    outcome=CostOutcome.OPEN,
    price_source=PriceSource.BILL,
)
