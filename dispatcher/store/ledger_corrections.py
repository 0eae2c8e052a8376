"""What is booked beside the lines of the ledger: rows that are added, and never changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, func, insert, or_, select

from longshore.dispatcher.cost.utc_calendar import month_of
from longshore.dispatcher.domain.ledger import (
    BookedCorrection,
    BookedHour,
    ClosedMonth,
    CostGroup,
    Total,
)
from longshore.dispatcher.domain.queries import (
    CorrectedHour,
    CorrectedInstance,
    CountedCorrection,
)
from longshore.dispatcher.store import ledger_tables as tables
from longshore.dispatcher.store import sqlite
from longshore.dispatcher.store.ledger_groups import (
    SPLIT,
    fetch_groups,
    grains_of,
    group_id,
    sums_of_amounts,
)

_CLOSE: Final = sqlite.insert_new(tables.months)
_KEPT: Final = tables.corrections.c
AT_ONCE: Final = 5_000
"""How many corrections are read in one go."""
LATE: Final = "told late"
"""The reason of what changes a closed month though nobody compared it with a bill."""
_SUMS: Final = (func.sum(_KEPT.quantity_ms), *sums_of_amounts(_KEPT.whole, _KEPT.rest))


def add(connection: Connection, corrections: Sequence[BookedCorrection]) -> None:
    """Add rows; `corrections` may be many, or none."""
    rows, closed_until = [], fetch_closed_until(connection)
    for each in corrections:
        whole, rest = divmod(each.grains, SPLIT)
        rows.append(
            {
                "booked_hour": each.booked_hour,
                "about_hour": each.about_hour,
                "counted_hour": (
                    each.booked_hour if each.about_hour < closed_until else each.about_hour
                ),
                "instance_id": each.instance_id,
                "group_id": group_id(connection, each.group),
                "quantity_ms": each.quantity_ms,
                "whole": whole,
                "rest": rest,
                "reason": each.reason,
                "made_by": each.made_by,
                "made_at": each.made_at,
                "file_name": each.file_name,
                "sha256": each.sha256,
            }
        )
    if rows:
        connection.execute(insert(tables.corrections), rows)


def correct(connection: Connection, booked: BookedHour, *, now: float) -> None:
    """Book by how much an hour of a closed month has changed, in the hour that is under way."""
    hour, before = booked.hour, dict[CostGroup, Total]()
    for group, quantity_ms, grains in _of_hour(connection, hour):
        known = before.get(group, Total())
        before[group] = known.plus(Total(quantity_ms=quantity_ms, grains=grains))
    after = dict(booked.totals)
    rows = []
    for group in sorted(before.keys() | after.keys(), key=repr):
        was, now_is = before.get(group, Total()), after.get(group, Total())
        quantity_ms, grains = now_is.quantity_ms - was.quantity_ms, now_is.grains - was.grains
        if quantity_ms or grains:
            rows.append(
                BookedCorrection(
                    booked_hour=int(now // 3600),
                    about_hour=hour,
                    instance_id="",
                    group=group,
                    quantity_ms=quantity_ms,
                    grains=grains,
                    reason=LATE,
                    made_by="",
                    made_at=now,
                    file_name="",
                    sha256="",
                )
            )
    add(connection, rows)


def _of_hour(connection: Connection, hour: int) -> Iterator[tuple[CostGroup, int, int]]:
    """Yield what is booked of an hour of a closed month, with what was told late of it since."""
    hours = tables.hours.c
    of_lines = select(hours.group_id, hours.quantity_ms, hours.whole, hours.rest)
    late = select(_KEPT.group_id, _KEPT.quantity_ms, _KEPT.whole, _KEPT.rest)
    rows = [
        *connection.execute(of_lines.where(hours.hour == hour)),
        *connection.execute(late.where(_KEPT.about_hour == hour, _KEPT.reason == LATE)),
    ]
    groups = fetch_groups(connection, [row.group_id for row in rows])
    for number, quantity_ms, whole, rest in rows:
        yield groups[number], quantity_ms, whole * SPLIT + rest


def fetch_closed_until(connection: Connection) -> int:
    """Return the hour up to which months are closed, 0 where none is."""
    return connection.execute(select(func.max(tables.months.c.until_hour))).scalar() or 0


def close_month(connection: Connection, month: ClosedMonth, *, now: float) -> None:
    """Put on record what a month came to; one that is closed stays as it is.

    So does one that comes to something else by now, since a correction was booked in it after it
    was read: it is closed once it is read again.
    """
    if fetch_month(connection, month.month, month_of(month.until_hour - 1)) != month:
        return
    whole, rest = divmod(month.grains, SPLIT)
    values = {
        "until_hour": month.until_hour,
        "month": month.month,
        "closed_at": now,
        "quantity_ms": month.quantity_ms,
        "whole": whole,
        "rest": rest,
        "sha256": month.sha256,
    }
    connection.execute(_CLOSE, values)


def fetch_month(connection: Connection, month: str, hours: range) -> ClosedMonth:
    """Return what a month comes to as it is booked now."""
    kept, groups = tables.hours.c, tables.groups
    told = [column for column in groups.columns if column.name != "id"]
    query = (
        select(kept.hour, *told, kept.quantity_ms, kept.whole, kept.rest)
        .join(groups, groups.c.id == kept.group_id)
        .where(kept.hour >= hours.start, kept.hour < hours.stop)
        .order_by(kept.hour, *told)
    )
    digest, quantity_ms, grains = hashlib.sha256(), 0, 0
    for row in connection.execute(query):
        digest.update(repr(tuple(row)).encode())
        quantity_ms += row.quantity_ms
        grains += row.whole * SPLIT + row.rest
    for each in fetch_by_hour(connection, hours.start, hours.stop):
        digest.update(repr(each).encode())
        quantity_ms += each.quantity_ms
        grains += each.grains
    return ClosedMonth(
        month=month,
        until_hour=hours.stop,
        quantity_ms=quantity_ms,
        grains=grains,
        sha256=digest.hexdigest(),
    )


def fetch_by_hour(connection: Connection, from_hour: int, until_hour: int) -> list[CorrectedHour]:
    """Return the sums of what counts in some hours, in order."""
    which = _KEPT.counted_hour.between(from_hour, until_hour - 1)
    by = (_KEPT.counted_hour, _KEPT.group_id)
    rows = connection.execute(select(*by, *_SUMS).where(which).group_by(*by).order_by(*by)).all()
    groups = fetch_groups(connection, [row.group_id for row in rows])
    return [
        CorrectedHour(
            hour=hour,
            group=groups[number],
            quantity_ms=quantity_ms,
            grains=grains_of(*amounts),
        )
        for hour, number, quantity_ms, *amounts in rows
    ]


def fetch_counted(
    connection: Connection, from_hour: int, until_hour: int, *, after: tuple[int, int]
) -> list[CountedCorrection]:
    """Return the next corrections that count in some hours, in the order of hours and numbers.

    `after` are the hour and the number of the last one that is had; at most `AT_ONCE` are returned.
    """
    return _fetch(connection, _KEPT.counted_hour, (from_hour, until_hour), after)


def fetch_told_late(
    connection: Connection, from_hour: int, until_hour: int, *, after: tuple[int, int]
) -> list[CountedCorrection]:
    """Return the next corrections of what was told late about some hours, as `fetch_counted`."""
    is_late = _KEPT.reason == LATE
    return _fetch(connection, _KEPT.about_hour, (from_hour, until_hour), after, is_late)


def _fetch(
    connection: Connection,
    hour: ColumnElement[int],
    span: tuple[int, int],
    after: tuple[int, int],
    *which: ColumnElement[bool],
) -> list[CountedCorrection]:
    bills = tables.bills
    behind = or_(hour > after[0], and_(hour == after[0], _KEPT.id > after[1]))
    rows = connection.execute(
        select(tables.corrections, bills.c.provider_type)
        .outerjoin(bills, bills.c.instance_id == _KEPT.instance_id)
        .where(hour.between(span[0], span[1] - 1), behind, *which)
        .order_by(hour, _KEPT.id)
        .limit(AT_ONCE)
    ).all()
    groups = fetch_groups(connection, [row.group_id for row in rows])
    return [
        CountedCorrection(
            id=row.id,
            counted_hour=row.counted_hour,
            about_hour=row.about_hour,
            instance_id=row.instance_id,
            provider_type=row.provider_type or "",
            group=groups[row.group_id],
            quantity_ms=row.quantity_ms,
            grains=row.whole * SPLIT + row.rest,
            reason=row.reason,
        )
        for row in rows
    ]


def fetch_by_instance(
    connection: Connection, from_hour: int, until_hour: int
) -> Iterator[CorrectedInstance]:
    """Yield the sums of what is about some hours, by instance and hour.

    What was told late is left out: it is in the lines of these hours.
    """
    by, is_of_bill = (_KEPT.instance_id, _KEPT.about_hour), _KEPT.reason != LATE
    about = _KEPT.about_hour.between(from_hour, until_hour - 1)
    query = select(*by, *_SUMS).where(about, is_of_bill)
    for id_, hour, quantity_ms, *amounts in connection.execute(query.group_by(*by).order_by(*by)):
        yield CorrectedInstance(
            instance_id=id_, hour=hour, quantity_ms=quantity_ms, grains=grains_of(*amounts)
        )
