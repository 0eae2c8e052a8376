"""What is booked beside the lines of the ledger: rows that are added, and never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, func, insert, or_, select

from longshore.dispatcher.domain.ledger import BookedCorrection
from longshore.dispatcher.domain.queries import CorrectedHour, CorrectedInstance
from longshore.dispatcher.store import ledger_tables as tables
from longshore.dispatcher.store.ledger_groups import SPLIT, fetch_groups, group_id

_KEPT: Final = tables.corrections.c
_HOURS: Final = (_KEPT.about_hour, _KEPT.booked_hour)
_SUMS: Final = tuple(func.sum(_KEPT[name]) for name in ("quantity_ms", "whole", "rest"))


def add(connection: Connection, corrections: Sequence[BookedCorrection]) -> None:
    """Add rows; `corrections` may be many, or none."""
    rows = []
    for each in corrections:
        whole, rest = divmod(each.grains, SPLIT)
        rows.append(
            {
                "booked_hour": each.booked_hour,
                "about_hour": each.about_hour,
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


def fetch_by_hour(connection: Connection, from_hour: int, until_hour: int) -> list[CorrectedHour]:
    """Return the sums of what is about some hours, or was booked in them, in order."""
    which = or_(*(hour.between(from_hour, until_hour - 1) for hour in _HOURS))
    query = select(*_HOURS, _KEPT.group_id, *_SUMS).where(which).group_by(*_HOURS, _KEPT.group_id)
    groups = fetch_groups(connection, select(_KEPT.group_id).where(which))
    return [
        CorrectedHour(
            about_hour=about,
            booked_hour=booked,
            group=groups[number],
            quantity_ms=quantity_ms,
            grains=whole * SPLIT + rest,
        )
        for about, booked, number, quantity_ms, whole, rest in connection.execute(
            query.order_by(*_HOURS, _KEPT.group_id)
        )
    ]


def fetch_by_instance(
    connection: Connection, from_hour: int, until_hour: int
) -> Iterator[CorrectedInstance]:
    """Yield the sums of what is about some hours, by instance and hour."""
    by = (_KEPT.instance_id, _KEPT.about_hour)
    query = select(*by, *_SUMS).where(_KEPT.about_hour.between(from_hour, until_hour - 1))
    for id_, hour, quantity_ms, whole, rest in connection.execute(
        query.group_by(*by).order_by(*by)
    ):
        yield CorrectedInstance(
            instance_id=id_, hour=hour, quantity_ms=quantity_ms, grains=whole * SPLIT + rest
        )
