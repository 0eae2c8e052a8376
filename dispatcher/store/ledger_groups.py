"""The rollups of the ledger in the store: sums of lines by hour, day and group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
)

from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    BilledState,
    BookedHour,
    Column,
    CostGroup,
    CostOutcome,
    PriceSource,
    Total,
)
from longshore.dispatcher.domain.queries import LedgerDue
from longshore.dispatcher.store import ledger_tables as tables
from longshore.dispatcher.store import sqlite
from longshore.dispatcher.store.errors import TooManySums

HOURS_PER_DAY: Final = 24
_AT_ONCE: Final = 500
_PERIODS_AT_ONCE: Final = 1000
"""How many hours or days are added up in one query, of short spans: what it sorts is in memory."""
SPLIT: Final = 10**12
"""An amount in grains is kept as so many of this, and the rest."""
_STEP: Final = 10**6
"""Rests are added up in two parts, by this: SQLite refuses a sum of more than 64 bits, to which a
year of a large cluster comes.
"""
_BOOKED_ROW: Final = 1
_LABELS = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_NAMES = tuple(column.name for column in tables.groups.columns if column.name != "id")
_INSERT_GROUP = sqlite.insert_new(tables.groups)
_FIND_GROUP = select(tables.groups.c.id).where(
    *(tables.groups.c[name] == bindparam(f"of_{name}") for name in _NAMES)
)
_TOLD_ALWAYS = frozenset({"state", "column", "outcome", "price_source"})
_STATES = {state.value: state for state in BilledState}
_COLUMNS = {column.value: column for column in Column}
_OUTCOMES = {outcome.value: outcome for outcome in CostOutcome}
_SOURCES = {source.value: source for source in PriceSource}
_SAVE_BOOKED = sqlite.upsert(tables.booked, keep=())


def save_hour(connection: Connection, booked: BookedHour) -> None:
    """Replace the sums of an hour, and with them those of its day."""
    connection.execute(delete(tables.hours).where(tables.hours.c.hour == booked.hour))
    rows = [
        {"hour": booked.hour, "group_id": group_id(connection, group), **total_values(total)}
        for group, total in booked.totals
    ]
    if rows:
        connection.execute(insert(tables.hours), rows)
    _save_day(connection, booked.hour // HOURS_PER_DAY)
    if booked.hour >= fetch_booked_until(connection):
        connection.execute(_SAVE_BOOKED, {"id": _BOOKED_ROW, "until_hour": booked.hour + 1})


def _save_day(connection: Connection, day: int) -> None:
    connection.execute(delete(tables.days).where(tables.days.c.day == day))
    hours, first = tables.hours.c, day * HOURS_PER_DAY
    summed = (
        select(
            literal(day),
            hours.group_id,
            func.sum(hours.quantity_ms),
            *_carried(hours.whole, hours.rest),
            *_carried(hours.uncertain_whole, hours.uncertain_rest),
        )
        .where(hours.hour >= first, hours.hour < first + HOURS_PER_DAY)
        .group_by(hours.group_id)
    )
    names = [column.name for column in tables.days.columns]
    connection.execute(insert(tables.days).from_select(names, summed))


def _carried(whole: ColumnElement[int], rest: ColumnElement[int]) -> tuple[ColumnElement[int], ...]:
    """Return the sum of some amounts, not many, in two columns as one is kept."""
    rests = func.sum(rest)
    return func.sum(whole) + rests // SPLIT, rests % SPLIT


def sums_of_amounts(whole: ColumnElement[int], rest: ColumnElement[int]) -> list[Any]:
    """Return the columns of a sum of any number of amounts, for `grains_of`."""
    return [func.sum(whole), func.sum(rest // _STEP), func.sum(rest % _STEP)]


def grains_of(whole: int, steps: int, rest: int) -> int:
    """Return what a sum comes to in grains, of the columns of `sums_of_amounts`."""
    return whole * SPLIT + steps * _STEP + rest


def total_values(total: Total) -> dict[str, int]:
    """Return the columns of a sum: amounts in two, which are added up apart."""
    whole, rest = divmod(total.grains, SPLIT)
    uncertain_whole, uncertain_rest = divmod(total.uncertain_grains, SPLIT)
    return {
        "quantity_ms": total.quantity_ms,
        "whole": whole,
        "rest": rest,
        "uncertain_whole": uncertain_whole,
        "uncertain_rest": uncertain_rest,
    }


def group_id(connection: Connection, group: CostGroup) -> int:
    """Return the number of a group, a new one if it had none."""
    values = group_values(group)
    connection.execute(_INSERT_GROUP, values)
    found = {f"of_{name}": value for name, value in values.items()}
    return int(connection.execute(_FIND_GROUP, found).scalar_one())


def group_values(group: CostGroup) -> dict[str, Any]:
    """Return the row of a group, without its number."""
    return {
        "project": group.project,
        "user": group.user,
        "job_name": group.job_name,
        "labels": msgspec.json.encode(group.labels).decode(),
        "type_name": group.type_name,
        "preemptible": group.preemptible,
        "zone": group.zone,
        "state": group.state.value,
        "column": group.column.value,
        "cause": group.cause,
        "outcome": group.outcome.value,
        "price_source": group.price_source.value,
    }


def _group_of(values: Mapping[str, Any]) -> CostGroup:
    """Return a group of these values, with nothing in the rest."""
    labels = values.get("labels", "")
    return CostGroup(
        project=values.get("project", ""),
        user=values.get("user", ""),
        job_name=values.get("job_name", ""),
        labels=_LABELS.decode(labels) if labels else (),
        type_name=values.get("type_name", ""),
        preemptible=values.get("preemptible", False),
        zone=values.get("zone", ""),
        state=_STATES[values["state"]],
        column=_COLUMNS[values["column"]],
        cause=values.get("cause", ""),
        outcome=_OUTCOMES[values["outcome"]],
        price_source=_SOURCES[values["price_source"]],
    )


# ---- reading -------------------------------------------------------------------------------------


def fetch_booked_until(connection: Connection) -> int:
    """Return the hour up to which all is booked, 0 where nothing is."""
    return connection.execute(select(tables.booked.c.until_hour)).scalar_one_or_none() or 0


def fetch_first_booked(connection: Connection) -> int | None:
    """Return the first hour that is booked with anything in it, None for none."""
    return connection.execute(select(func.min(tables.hours.c.hour))).scalar()


def fetch_due(connection: Connection, *, before_hour: int, at_most: int) -> LedgerDue:
    """Return which hours are to be booked: see `LedgerReader.due`."""
    marks, booked_until = tables.marks, fetch_booked_until(connection)
    first = booked_until or fetch_first_hour(connection)
    last = min(before_hour, booked_until)
    changed = select(marks).where(marks.c.hour < last).order_by(marks.c.hour).limit(at_most)
    hours = {row.hour: row.times for row in connection.execute(changed)}
    if first is not None:
        new = range(first, min(before_hour, first + at_most))
        marked = select(marks).where(marks.c.hour >= first, marks.c.hour < before_hour)
        times = {row.hour: row.times for row in connection.execute(marked)}
        hours |= {hour: times.get(hour, 0) for hour in new}
    return LedgerDue(hours=hours)


def fetch_first_hour(connection: Connection) -> int | None:
    """Return the first hour about which anything is known, None for none."""
    times = (tables.bills.c.created_ms, tables.prepaid.c.valid_from_ms)
    first_ms = [connection.execute(select(func.min(each))).scalar() for each in times]
    return min((int(each) // MS_PER_HOUR for each in first_ms if each is not None), default=None)


def fetch_groups(connection: Connection, numbers: Iterable[int]) -> dict[int, CostGroup]:
    """Return the groups of some numbers, by these."""
    wanted, found = sorted(set(numbers)), dict[int, CostGroup]()
    for first in range(0, len(wanted), _AT_ONCE):
        part = wanted[first : first + _AT_ONCE]
        query = select(tables.groups).where(tables.groups.c.id.in_(part))
        found |= {row.id: _group_of(row._asdict()) for row in connection.execute(query)}
    return found


def fetch_totals(
    connection: Connection,
    spans: Sequence[tuple[int, int]],
    needed: Collection[str],
    at_most: int | None,
) -> list[dict[CostGroup, Total]]:
    """Return, for each span of hours [from, until), the sums of what is booked.

    They are added up by what is `needed` of groups, which have nothing in the rest (see
    `CostGroup.but_for`): a year has so many groups that to make them all takes seconds. Whole days
    are read as such. Raises `TooManySums` where it would be more than `at_most` sums, None for any
    number.
    """
    found: list[dict[CostGroup, Total]] = [{} for _ in spans]
    known: dict[tuple[Any, ...], CostGroup] = {}
    left = at_most
    for table, part in _parts(spans):
        names, query = _sums_query(table, part, needed)
        rows = connection.execute(query if left is None else query.limit(left + 1)).all()
        if left is not None:
            left -= len(rows)
            if left < 0:
                raise TooManySums
        for row in rows:
            values, (span, *sums) = tuple(row[: len(names)]), row[len(names) :]
            group = known.get(values)
            if group is None:
                group = known[values] = _group_of(dict(zip(names, values, strict=True)))
            before, total = found[span].get(group), _total_of(*sums)
            found[span][group] = total if before is None else before.plus(total)
    return found


def _total_of(quantity_ms: int, *amounts: int) -> Total:
    """Return a sum of the columns that `_sums_query` makes of it."""
    return Total(
        quantity_ms=quantity_ms,
        grains=grains_of(*amounts[:3]),
        uncertain_grains=grains_of(*amounts[3:]),
    )


_Part = list[tuple[int, int, int]]
"""Spans of a table's periods that are read together: whose each is, and [from, until)."""


def _parts(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[Table, _Part]]:
    """Yield what is to be read of which table: days where they are whole, else hours."""
    hours, days = _Part(), _Part()
    for number, (from_hour, until_hour) in enumerate(spans):
        first_day, last_day = -(-from_hour // HOURS_PER_DAY), until_hour // HOURS_PER_DAY
        if first_day >= last_day:
            hours.append((number, from_hour, until_hour))
            continue
        days.append((number, first_day, last_day))
        for edge in (
            (from_hour, first_day * HOURS_PER_DAY),
            (last_day * HOURS_PER_DAY, until_hour),
        ):
            if edge[0] < edge[1]:
                hours.append((number, *edge))
    for table, parts in ((tables.hours, hours), (tables.days, days)):
        for part in _cut(parts):
            yield table, part


def _cut(parts: _Part) -> Iterator[_Part]:
    """Yield spans in their order, as many together as are read in one go."""
    some, periods = _Part(), 0
    for each in parts:
        if some and periods + each[2] - each[1] > _PERIODS_AT_ONCE:
            yield some
            some, periods = [], 0
        some.append(each)
        periods += each[2] - each[1]
    if some:
        yield some


def _sums_query(
    table: Table, part: _Part, needed: Collection[str]
) -> tuple[list[str], Select[tuple[Any, ...]]]:
    """Return the names of the fields of groups that a query tells, and the query.

    Its rows have these, whose span it is, and what the sum is made of.
    """
    groups, sums, period = tables.groups, table.c, table.columns[0]
    spans = sqlite.rows_of(part, ("span", "first", "until"))
    names = [name for name in _NAMES if name in needed or name in _TOLD_ALWAYS]
    columns = [groups.c[name] for name in names]
    query = (
        select(
            *columns,
            spans.c.span,
            func.sum(sums.quantity_ms),
            *sums_of_amounts(sums.whole, sums.rest),
            *sums_of_amounts(sums.uncertain_whole, sums.uncertain_rest),
        )
        .select_from(
            spans.join(table, and_(period >= spans.c.first, period < spans.c.until)).join(
                groups, groups.c.id == sums.group_id
            )
        )
        .group_by(spans.c.span, *columns)
    )
    return names, query
