"""Reading the ledger: what is to be booked, what is booked, and the facts of the rest.

Stands alone: the store hands it out as it is, and has no method for each of these questions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager

from sqlalchemy import Connection

from longshore.dispatcher.cost.estimate import PastRuns, WorkKind
from longshore.dispatcher.cost.utc_calendar import month_of, utc_hour_text
from longshore.dispatcher.domain.deliveries import Delivery
from longshore.dispatcher.domain.ended_runs import EndedRunFilter, EndedRuns
from longshore.dispatcher.domain.ledger import (
    ClosedMonth,
    InstanceBill,
    Interval,
    PrepaidRow,
    PriceRow,
)
from longshore.dispatcher.domain.queries import (
    CorrectedInstance,
    CountedCorrection,
    JobCosts,
    LedgerDue,
    LedgerFacts,
    LedgerSums,
    SpentFacts,
    Successes,
)
from longshore.dispatcher.domain.timeline import TimelinePage, TimelineWindow
from longshore.dispatcher.store import (
    ledger_corrections,
    ledger_groups,
    ledger_records,
    past_runs,
    spent_records,
)
from longshore.dispatcher.store.budget_records import (
    BudgetRecords,
    fetch_budgets,
    fetch_deliveries,
)
from longshore.dispatcher.store.ended_run_reader import fetch_ended_runs
from longshore.dispatcher.store.timeline_records import fetch_timeline


class LedgerReader:
    """Answers from snapshots of the store; every method blocks and suits any thread.

    All of them raise `StoreBusy` when it cannot be read now.
    """

    def __init__(self, snapshot: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._snapshot = snapshot

    def still_open(self) -> tuple[list[InstanceBill], list[Interval], int]:
        """Return bills, open intervals, and when a listing began (see `Recovered`)."""
        with self._snapshot() as connection:
            return ledger_records.fetch_open(connection)

    def due(self, *, before_hour: int, at_most: int) -> LedgerDue:
        """Return which hours are to be booked, in order.

        Those are hours since the epoch before `before_hour` that never were, and those booked ones
        in which something has changed; `at_most` of each.
        """
        with self._snapshot() as connection:
            return ledger_groups.fetch_due(connection, before_hour=before_hour, at_most=at_most)

    def ended_in(self, hour: int) -> dict[str, int]:
        """Return the containers of which an attempt gave its place back in an hour.

        With each stands when the first of its attempts got one, in milliseconds since the epoch.
        """
        with self._snapshot() as connection:
            return ledger_records.fetch_ended_in(connection, hour)

    def first_hour(self) -> int | None:
        """Return the first hour since the epoch of which anything is known, None for none."""
        with self._snapshot() as connection:
            return ledger_groups.fetch_first_hour(connection)

    def closable(self, until_hour: int) -> ClosedMonth | None:
        """Return what the next month came to that ended by an hour, None for none to be closed.

        All of it is booked, and nothing of it marked to have changed.
        """
        with self._snapshot() as connection:
            closed_until = ledger_corrections.fetch_closed_until(connection)
            first = closed_until or ledger_groups.fetch_first_booked(connection)
            if first is None:
                return None
            hours = month_of(first)
            booked_until = ledger_groups.fetch_booked_until(connection)
            due = ledger_groups.fetch_due(connection, before_hour=hours.stop, at_most=1)
            if hours.stop > min(until_hour, booked_until) or due.hours:
                return None
            name = utc_hour_text(hours.start)[:7]
            return ledger_corrections.fetch_month(connection, name, hours)

    def is_closed(self, hour: int) -> bool:
        """Return whether the month of an hour is closed."""
        with self._snapshot() as connection:
            return hour < ledger_corrections.fetch_closed_until(connection)

    def facts(self, from_hour: int, until_hour: int) -> LedgerFacts:
        """Return what is known of the hours [from, until)."""
        with self._snapshot() as connection:
            return ledger_records.fetch_facts(connection, from_hour, until_hour)

    def prices(self, at_ms: int) -> list[PriceRow]:
        """Return the price of each source, type and zone that holds at a time; 0 ends a source."""
        with self._snapshot() as connection:
            return ledger_records.fetch_prices(connection, at_ms, at_ms + 1)

    def prices_between(self, from_ms: int, until_ms: int) -> list[PriceRow]:
        """Return the prices that hold in a span: those that begin in it, and what held before."""
        with self._snapshot() as connection:
            return ledger_records.fetch_prices(connection, from_ms, until_ms)

    def prepaid(self, at_ms: int) -> list[PrepaidRow]:
        """Return what is prepaid of each type at a time; 0 ends it."""
        with self._snapshot() as connection:
            return ledger_records.fetch_prepaid(connection, at_ms, at_ms + 1)

    def budgets(self) -> BudgetRecords:
        """Return all that is kept of budgets."""
        with self._snapshot() as connection:
            return fetch_budgets(connection)

    def deliveries(self) -> Sequence[Delivery]:
        """Return the notifications that are on their way, the first queued first."""
        with self._snapshot() as connection:
            return fetch_deliveries(connection)

    def sums(
        self,
        spans: Sequence[tuple[int, int]],
        needed: Collection[str],
        *,
        at_most: int | None = None,
    ) -> LedgerSums:
        """Return what is booked in spans of hours [from, until), and the facts of the rest.

        All of it is from one moment. `needed` are the fields of groups by which it is added up.
        Raises `TooManySums` where more than `at_most` sums are booked, None for any number.
        """
        with self._snapshot() as connection:
            booked_until = ledger_groups.fetch_booked_until(connection)
            until_hour = max((until for _, until in spans), default=0)
            first = max(booked_until, min((start for start, _ in spans), default=0))
            facts = ledger_records.fetch_facts(connection, first, max(first, until_hour))
            totals = ledger_groups.fetch_totals(connection, spans, needed, at_most)
            since = min((start for start, _ in spans), default=0)
            corrections = ledger_corrections.fetch_by_hour(connection, since, until_hour)
            closed_until = ledger_corrections.fetch_closed_until(connection)
        return LedgerSums(
            totals=tuple(totals),
            booked_until=booked_until,
            facts=facts,
            corrections=corrections,
            closed_until=closed_until,
        )

    def corrections(self, from_hour: int, until_hour: int) -> list[CorrectedInstance]:
        """Return what was booked beside the lines of the hours [from, until)."""
        with self._snapshot() as connection:
            return list(ledger_corrections.fetch_by_instance(connection, from_hour, until_hour))

    def counted(
        self, from_hour: int, until_hour: int, *, after: tuple[int, int]
    ) -> list[CountedCorrection]:
        """Return the next corrections that count in the hours [from, until), some at a time.

        They come by hour and number; `after` are those of the last one that is had.
        """
        with self._snapshot() as connection:
            return ledger_corrections.fetch_counted(connection, from_hour, until_hour, after=after)

    def told_late(
        self, from_hour: int, until_hour: int, *, after: tuple[int, int]
    ) -> list[CountedCorrection]:
        """Return the next corrections of what was told late about some hours, as `counted`.

        Their hour is the one that they are about.
        """
        with self._snapshot() as connection:
            return ledger_corrections.fetch_told_late(
                connection, from_hour, until_hour, after=after
            )

    def past_runs(self, kind: WorkKind, since: float) -> PastRuns:
        """Return what ended containers of a kind came to, if enough is known of them.

        They are those of the latest `MOST_LOOKED_AT` attempts that ended at `since`, in seconds
        since the epoch, or later. What was cancelled, and what had no price, is none.
        """
        with self._snapshot() as connection:
            return past_runs.fetch_past_runs(connection, kind, since)

    def facts_of_container(self, container_id: str) -> SpentFacts | None:
        """Return what the attempts of a container go by; None where that is too much to read."""
        with self._snapshot() as connection:
            return spent_records.fetch_facts_of_container(connection, container_id)

    def facts_of_lost(self, job_id: str) -> SpentFacts | None:
        """Return what a job's attempts that came to nothing go by; None where that is too much."""
        with self._snapshot() as connection:
            return spent_records.fetch_facts_of_lost(connection, job_id)

    def job_costs(self, job_id: str, *, by_index: bool) -> JobCosts:
        """Return what a job's ended attempts cost by task, and with `by_index` by element."""
        with self._snapshot() as connection:
            return spent_records.fetch_job_costs(connection, job_id, by_index=by_index)

    def successes(self, spans: Sequence[tuple[int, int]]) -> list[Successes]:
        """Return how many containers succeeded in spans of hours [from, until)."""
        with self._snapshot() as connection:
            return list(past_runs.fetch_successes(connection, spans))

    def ended_runs(self, which: EndedRunFilter) -> EndedRuns:
        """Return containers that ended in a time, the latest that was submitted first.

        It looks at no more than the latest 20,000 that have ended.
        """
        with self._snapshot() as connection:
            return fetch_ended_runs(connection, which)

    def timeline(self, window: TimelineWindow, *, cursor: str, limit: int) -> TimelinePage:
        """Return a page of the instances of a window, with what was on them.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        with self._snapshot() as connection:
            return fetch_timeline(connection, window, cursor=cursor, limit=limit)
