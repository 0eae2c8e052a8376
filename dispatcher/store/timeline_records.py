"""Reading a timeline from the ledger: which instances were there, and what was on them.

An instance is found by the end of its bill, which has an index: what is gone before the window is
never looked at. Its intervals are found by their key, which begins with the instance. So a page
costs what there is on it, and what is gone since the window ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, func, or_, select, tuple_, union_all

from longshore.dispatcher.domain.cursors import decode_cursor, encode_cursor, not_our_cursor
from longshore.dispatcher.domain.ledger import OF_INSTANCE, InstanceBill, launch_id
from longshore.dispatcher.domain.timeline import (
    TimelineInstance,
    TimelinePage,
    TimelineWindow,
)
from longshore.dispatcher.store.ledger_records import bill_from_row, interval_from_row
from longshore.dispatcher.store.ledger_tables import bills, intervals

_WORD: Final = "timeline"


def fetch_timeline(
    connection: Connection, window: TimelineWindow, *, cursor: str, limit: int
) -> TimelinePage:
    """Return up to `limit` of the instances that were there in a window, by their creation.

    Raises `InvalidRequest` for a cursor that is not ours.
    """
    found = _bills(connection, window, cursor=cursor, limit=limit + 1)
    shown = found[:limit]
    following = None
    if len(found) > limit:
        last = shown[-1]
        following = encode_cursor(_WORD, f"{last.created_ms} {last.instance_id}")
    return TimelinePage(items=_with_parts(connection, window, shown), next_cursor=following)


def _bills(
    connection: Connection, window: TimelineWindow, *, cursor: str, limit: int
) -> Sequence[InstanceBill]:
    # Apart, so that each goes by the index; and whether it is final says nothing of when it was.
    either = and_(
        bills.c.final.in_((False, True)),
        # Of a launch nobody knows yet whether it made an instance.
        bills.c.instance_id.not_like(launch_id("%")),
    )
    there = select(bills).where(either, bills.c.gone_ms.is_(None))
    gone = select(bills).where(either, bills.c.gone_ms > window.from_ms)
    known = union_all(
        *(
            each.where(bills.c.created_ms < window.until_ms)
            if not window.instance_id
            else each.where(
                bills.c.created_ms < window.until_ms, bills.c.instance_id == window.instance_id
            )
            for each in (there, gone)
        )
    ).subquery()
    place = (known.c.created_ms, known.c.instance_id)
    query = select(known).order_by(*place).limit(limit)
    if cursor:
        query = query.where(tuple_(*place) > tuple_(*_place_in(cursor)))
    return [bill_from_row(row) for row in connection.execute(query)]


def _place_in(cursor: str) -> tuple[int, str]:
    created_ms, _, instance_id = decode_cursor(_WORD, cursor).partition(" ")
    if not created_ms.isdecimal() or int(created_ms) >= 2**63:
        raise not_our_cursor()
    return int(created_ms), instance_id


def _with_parts(
    connection: Connection, window: TimelineWindow, shown: Sequence[InstanceBill]
) -> list[TimelineInstance]:
    """Return instances with their states and attempts in a window, the latest of too many."""
    of_each = (intervals.c.instance_id, intervals.c.holder == OF_INSTANCE)
    latest_first = (intervals.c.from_ms.desc(), intervals.c.holder)
    place = func.row_number().over(partition_by=of_each, order_by=latest_first)
    number = func.count().over(partition_by=of_each)
    ranked = (
        select(*intervals.c, place.label("place"), number.label("number"))
        .where(
            intervals.c.instance_id.in_([bill.instance_id for bill in shown]),
            intervals.c.from_ms < window.until_ms,
            or_(intervals.c.until_ms.is_(None), intervals.c.until_ms > window.from_ms),
        )
        .subquery()
    )
    query = select(ranked).where(ranked.c.place <= window.parts_most)
    order = (ranked.c.instance_id, ranked.c.from_ms, ranked.c.holder)
    states: dict[str, list[Row[Any]]] = {}
    attempts: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(query.order_by(*order)):
        of = states if row.holder == OF_INSTANCE else attempts
        of.setdefault(row.instance_id, []).append(row)
    return [
        TimelineInstance(
            bill=bill,
            states=tuple(map(interval_from_row, states.get(bill.instance_id, ()))),
            attempts=tuple(map(interval_from_row, attempts.get(bill.instance_id, ()))),
            states_left_out=_left_out(states.get(bill.instance_id, ())),
            attempts_left_out=_left_out(attempts.get(bill.instance_id, ())),
        )
        for bill in shown
    ]


def _left_out(rows: Sequence[Row[Any]]) -> int:
    return rows[0].number - len(rows) if rows else 0
