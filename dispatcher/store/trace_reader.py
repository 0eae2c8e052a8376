"""Reading what traces are made of: what has ended since, and what was of an instance.

Stands alone: the store hands it out as it is, as it does the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, and_, or_, select

from longshore.dispatcher.domain.ledger import OF_INSTANCE, InstanceBill, Interval
from longshore.dispatcher.store import ledger_tables
from longshore.dispatcher.store.ledger_records import bill_from_row, interval_from_row
from longshore.dispatcher.store.ledger_tables import LONG_MS, bills, intervals
from longshore.dispatcher.store.tables import containers

MOST_MISSED: Final = 50_000
"""How many containers that ended while nobody sent traces are told of at most, and instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSince:
    """What has ended since a time, as far as it is in the store; ids, sorted."""

    containers: tuple[str, ...]
    #: With each container of which attempts ended stand these.
    attempts: dict[str, frozenset[str]]
    #: Which instances became ready for the first time, and which were gone.
    ready: tuple[str, ...]
    gone: tuple[str, ...]


class TraceReader:
    """Answers from snapshots of the store; every method blocks and suits any thread.

    All of them raise `StoreBusy` when it cannot be read now.
    """

    def __init__(self, snapshot: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._snapshot = snapshot

    def ended_since(self, at_ms: int) -> EndedSince:
        """Return what has ended at a time or later, in milliseconds since the epoch.

        It looks at every container that ever ended: for a start, and not for each moment.
        """
        ended = select(containers.c.id).where(
            containers.c.ended != "", containers.c.finished_at >= at_ms / 1000
        )
        lately = and_(intervals.c.from_ms >= at_ms - LONG_MS, intervals.c.until_ms >= at_ms)
        long = and_(ledger_tables.IS_LONG, intervals.c.until_ms >= at_ms)
        columns = (intervals.c.container_id, intervals.c.holder)
        given_back = select(*columns).where(
            or_(lately, long), intervals.c.holder != OF_INSTANCE, intervals.c.container_id != ""
        )
        ready = select(bills.c.instance_id).where(bills.c.ready_ms >= at_ms)
        gone = select(bills.c.instance_id).where(bills.c.gone_ms >= at_ms)
        attempts: dict[str, set[str]] = {}
        with self._snapshot() as connection:
            for row in connection.execute(given_back.limit(MOST_MISSED)):
                attempts.setdefault(row.container_id, set()).add(row.holder)
            return EndedSince(
                containers=tuple(sorted(connection.scalars(ended.limit(MOST_MISSED)))),
                attempts={of: frozenset(ids) for of, ids in sorted(attempts.items())},
                ready=tuple(sorted(connection.scalars(ready.limit(MOST_MISSED)))),
                gone=tuple(sorted(connection.scalars(gone.limit(MOST_MISSED)))),
            )

    def ready_instances(self) -> frozenset[str]:
        """Return the instances that are there and were ready once."""
        there = select(bills.c.instance_id).where(
            bills.c.final.is_(False), bills.c.gone_ms.is_(None), bills.c.ready_ms.is_not(None)
        )
        with self._snapshot() as connection:
            return frozenset(connection.scalars(there))

    def instance(
        self, instance_id: str, *, most: int
    ) -> tuple[InstanceBill, tuple[Interval, ...]] | None:
        """Return the bill of an instance and the first `most` of what it was, None for unknown."""
        states = (
            select(intervals)
            .where(intervals.c.instance_id == instance_id, intervals.c.holder == OF_INSTANCE)
            .order_by(intervals.c.from_ms)
            .limit(most)
        )
        with self._snapshot() as connection:
            found = connection.execute(
                select(bills).where(bills.c.instance_id == instance_id)
            ).one_or_none()
            if found is None:
                return None
            rows = connection.execute(states).all()
        return bill_from_row(found), tuple(interval_from_row(row) for row in rows)
