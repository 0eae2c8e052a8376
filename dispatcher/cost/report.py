"""What somebody asks of the ledger: sums by dimension and step, with who pays for idle time; pure.

A report has rows and a total, and the total is the sum of the rows, exactly: amounts stay integers
to the very end. With `idle=share`, what nobody in particular caused is divided among those who had
work on instances of the same kind in the same step, by what that work cost. Where there was none,
it stays a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Final

from longshore.dispatcher.cost.money import split
from longshore.dispatcher.cost.rollups import Totals
from longshore.dispatcher.domain.ledger import (
    Account,
    BilledState,
    Column,
    CostGroup,
    CostOutcome,
    Total,
)
from longshore.dispatcher.domain.queries import Successes

NONE: Final = "(none)"
"""What a row is called whose lines have nothing in a dimension."""
LABEL: Final = "label:"
"""What a dimension begins with that is a label's key."""


def market_of(*, is_preemptible: bool) -> str:
    """Return how instances are bought, as it is told everywhere."""
    return "preemptible" if is_preemptible else "on-demand"


_DIMENSIONS: Final[Mapping[str, Callable[[CostGroup], str]]] = {
    "project": lambda group: group.project,
    "user": lambda group: group.user,
    "job": lambda group: group.job_name,
    "type": lambda group: group.type_name,
    "market": lambda group: market_of(is_preemptible=group.preemptible),
    "zone": lambda group: group.zone,
    "state": lambda group: group.state.value,
    "cause": lambda group: group.cause,
    "outcome": lambda group: group.outcome.value,
    "price_source": lambda group: group.price_source.value,
}
_WHOSE: Final[Mapping[str, Callable[[Successes], str]]] = {
    "project": lambda found: found.project,
    "user": lambda found: found.user,
    "job": lambda found: found.job_name,
}
DIMENSIONS: Final = tuple(sorted(_DIMENSIONS))
"""By what rows can be told apart, beside labels."""

_LOST = frozenset(
    {
        CostOutcome.LOST_FAILED,
        CostOutcome.LOST_LOST,
        CostOutcome.LOST_PREEMPTED,
        CostOutcome.LOST_CANCELLED,
    }
)


class Idle(Enum):
    """Who pays for what is nobody's in particular."""

    SEPARATE = "separate"
    """Nobody: it has rows of its own."""
    SHARE = "share"
    """Those who had work on such instances at that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What a row or a whole report comes to, in grains; `quantity_ms` is instance time."""

    direct: int = 0
    caused: int = 0
    shared: int = 0
    lost_work: int = 0
    uncertain: int = 0
    quantity_ms: int = 0

    @property
    def total(self) -> int:
        """Return what all of it comes to."""
        return self.direct + self.caused + self.shared

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum."""
        return Amounts(
            direct=self.direct + other.direct,
            caused=self.caused + other.caused,
            shared=self.shared + other.shared,
            lost_work=self.lost_work + other.lost_work,
            uncertain=self.uncertain + other.uncertain,
            quantity_ms=self.quantity_ms + other.quantity_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """One row: which step it is about, its values in the dimensions asked for, and the amounts."""

    #: The position of the step among those asked for.
    step: int
    values: tuple[str, ...]
    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a caller sees of the ledger: all of it, projects, or its own; nothing by default."""

    everything: bool = False
    #: Whose costs it sees whole.
    projects: frozenset[str] = frozenset()
    #: Whose costs it sees within its other projects, with these; "" for nobody's.
    user: str = ""
    user_projects: frozenset[str] = frozenset()

    def sees(self, group: CostGroup | Successes | Account) -> bool:
        """Return whether the caller is shown what is booked to a group, or succeeded there."""
        if self.everything or group.project in self.projects:
            return self.everything or bool(group.project)
        own = bool(self.user) and group.user == self.user
        return own and group.project in self.user_projects


_FIELDS: Final[Mapping[str, str]] = {
    "project": "project",
    "user": "user",
    "job": "job_name",
    "type": "type_name",
    "market": "preemptible",
    "zone": "zone",
    "cause": "cause",
}


def fields_for(
    by: Collection[str], *, idle: Idle, seen: Seen, only: Collection[str]
) -> frozenset[str]:
    """Return which fields of groups a report is made of; the rest may be added up before."""
    dimensions = {*by, *only}
    needed = {_FIELDS[each] for each in dimensions if each in _FIELDS}
    if any(each.startswith(LABEL) for each in dimensions):
        needed.add("labels")
    if not seen.everything or idle is Idle.SHARE:
        needed |= {"project", "user"}
    if idle is Idle.SHARE:
        needed |= {"type_name", "preemptible", "zone"}
    return frozenset(needed)


def is_dimension(name: str) -> bool:
    """Return whether rows can be told apart by a name."""
    return name in _DIMENSIONS or (name.startswith(LABEL) and len(name) > len(LABEL))


def rows_of(
    steps: Sequence[Totals],
    by: Sequence[str],
    *,
    idle: Idle,
    seen: Seen,
    only: Mapping[str, str],
) -> list[CostRow]:
    """Return the rows of a report, by step and then by their values.

    `steps` are the sums of each step. `by` are dimensions; `only` restricts rows to those that have
    a value in a dimension. Who may not see what is idle is shown its own part of it.
    """
    found: list[CostRow] = []
    for number, totals in enumerate(steps):
        booked = _shared_out(totals) if idle is Idle.SHARE else _as_booked(totals)
        sums: dict[tuple[str, ...], Amounts] = {}
        for group, amounts in booked:
            if seen.sees(group) and all(_value(group, d) == v for d, v in only.items()):
                values = tuple(_value(group, dimension) for dimension in by)
                known = sums.get(values)
                sums[values] = amounts if known is None else known.plus(amounts)
        found += [CostRow(step=number, values=v, amounts=a) for v, a in sorted(sums.items())]
    return found


def counts_successes(by: Sequence[str], only: Mapping[str, str]) -> bool:
    """Return whether each row of a report is about work that succeeds or not.

    That is where they are told apart, and chosen, by whose work it is and its name alone.
    """
    return "job" in by and _WHOSE.keys() >= {*by, *only}


def successes_of(
    found: Iterable[Successes], by: Sequence[str], *, seen: Seen, only: Mapping[str, str]
) -> dict[tuple[int, tuple[str, ...]], int]:
    """Return how many containers succeeded, by a row's step and values."""
    sums: dict[tuple[int, tuple[str, ...]], int] = {}
    for each in found:
        values = {dimension: of(each) or NONE for dimension, of in _WHOSE.items()}
        if seen.sees(each) and all(values[d] == wanted for d, wanted in only.items()):
            key = each.span, tuple(values[dimension] for dimension in by)
            sums[key] = sums.get(key, 0) + each.number
    return sums


def sum_of(rows: Iterable[CostRow]) -> Amounts:
    """Return what rows come to."""
    total = Amounts()
    for row in rows:
        total = total.plus(row.amounts)
    return total


def _value(group: CostGroup, dimension: str) -> str:
    if dimension.startswith(LABEL):
        return dict(group.labels).get(dimension.removeprefix(LABEL), "") or NONE
    return _DIMENSIONS[dimension](group) or NONE


def _as_booked(totals: Totals) -> list[tuple[CostGroup, Amounts]]:
    return [(group, _amounts(group, total)) for group, total in totals.items()]


def _amounts(group: CostGroup, total: Total) -> Amounts:
    lost = group.state is BilledState.WORK and group.outcome in _LOST
    return Amounts(
        direct=total.grains if group.column is Column.DIRECT else 0,
        caused=total.grains if group.column is Column.CAUSED else 0,
        shared=total.grains if group.column is Column.SHARED else 0,
        lost_work=total.grains if lost else 0,
        uncertain=total.uncertain_grains,
        quantity_ms=total.quantity_ms,
    )


def _shared_out(totals: Totals) -> list[tuple[CostGroup, Amounts]]:
    """Return what is booked, with what is nobody's divided among who worked on such instances."""
    nobodys: dict[tuple[str, bool, str], list[CostGroup]] = {}
    workers: dict[tuple[str, bool, str], list[CostGroup]] = {}
    for group in sorted(totals, key=repr):
        kind = (group.type_name, group.preemptible, group.zone)
        if group.column is Column.SHARED and not group.project and not group.user:
            nobodys.setdefault(kind, []).append(group)
        elif group.column is Column.DIRECT and totals[group].grains:
            workers.setdefault(kind, []).append(group)
    found = {group: _amounts(group, total) for group, total in totals.items()}
    for kind, groups in nobodys.items():
        if kind in workers:
            for group in groups:
                _divide(found.pop(group), workers[kind], totals, found)
    return list(found.items())


def _divide(
    idle: Amounts, workers: Sequence[CostGroup], totals: Totals, found: dict[CostGroup, Amounts]
) -> None:
    weights = [(str(n).zfill(9), Fraction(totals[g].grains)) for n, g in enumerate(workers)]
    shared = split(idle.shared, weights)
    uncertain = split(idle.uncertain, weights)
    quantity_ms = split(idle.quantity_ms, weights)
    for (id_, _), group in zip(weights, workers, strict=True):
        known = found[group]
        found[group] = replace(
            known,
            shared=known.shared + shared[id_],
            uncertain=known.uncertain + uncertain[id_],
            quantity_ms=known.quantity_ms + quantity_ms[id_],
        )
