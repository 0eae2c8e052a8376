"""Reading the ledger: what is to be booked, what is booked, and the facts of the rest.

Stands alone: it is the ledger's part of the store's reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from sqlalchemy import Connection

from longshore.dispatcher.domain.ledger import PriceRow
from longshore.dispatcher.domain.queries import LedgerDue, LedgerFacts, LedgerSums
from longshore.dispatcher.store import ledger_groups, ledger_records


class LedgerReader:
    """Answers from snapshots of the store; every method blocks and suits any thread.

    All of them raise `StoreBusy` when it cannot be read now.
    """

    def __init__(self, snapshot: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._snapshot = snapshot

    def due(self, *, before_hour: int, at_most: int) -> LedgerDue:
        """Return which hours are to be booked, in order.

        Those are hours since the epoch before `before_hour` that never were, and those booked ones
        in which something has changed; `at_most` of each.
        """
        with self._snapshot() as connection:
            return ledger_groups.fetch_due(connection, before_hour=before_hour, at_most=at_most)

    def facts(self, from_hour: int, until_hour: int) -> LedgerFacts:
        """Return what is known of the hours [from, until)."""
        with self._snapshot() as connection:
            return ledger_records.fetch_facts(connection, from_hour, until_hour)

    def prices(self, at_ms: int) -> list[PriceRow]:
        """Return the price of each source, type and zone that holds at a time; 0 ends a source."""
        with self._snapshot() as connection:
            return ledger_records.fetch_prices(connection, at_ms, at_ms + 1)

    def sums(self, spans: Sequence[tuple[int, int]]) -> LedgerSums:
        """Return what is booked in spans of hours [from, until), and the facts of the rest.

        All of it is from one moment.
        """
        with self._snapshot() as connection:
            booked_until = ledger_groups.fetch_booked_until(connection)
            until_hour = max((until for _, until in spans), default=0)
            first = max(booked_until, min((start for start, _ in spans), default=0))
            facts = ledger_records.fetch_facts(connection, first, max(first, until_hour))
            totals = tuple(ledger_groups.fetch_totals(connection, spans))
        return LedgerSums(totals=totals, booked_until=booked_until, facts=facts)
