"""What people ask of the ledger, and the booking of its hours.

An hour is booked once it is over and all that happened in it is committed: its lines are reckoned
from the facts and added up, in a thread, and written like any other change. Hours in which a fact
changes later (an attempt that ends has an outcome in all of its hours; a cloud tells late when it
billed) are booked again. What is not booked yet is reckoned anew with each question, up to now.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.cost.report import (
    CostRow,
    Idle,
    Seen,
    counts_successes,
    fields_for,
    rows_of,
    successes_of,
)
from longshore.dispatcher.cost.rollups import (
    Totals,
    add_up,
    booked_hour,
    direct_by_container,
    lines_between,
)
from longshore.dispatcher.cost.spent import direct_grains
from longshore.dispatcher.domain.ledger import (
    GROUP_FIELDS,
    MS_PER_HOUR,
    BookedHour,
    CostGroup,
    CostLine,
    PriceSource,
    Total,
)
from longshore.dispatcher.domain.messages import CloseMonth, SaveBookedHour
from longshore.dispatcher.domain.principals import Principal, Role
from longshore.dispatcher.domain.queries import LedgerSums
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.store.errors import StoreBusy, StoreClosed, TooManySums
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest

BOOK_EACH_S = 30.0
CLOSE_AFTER_DAYS = 7
"""How many days after its end a month is closed, where nothing else is said."""
BOOK_AFTER_S = 10.0
"""How long after its end an hour is booked: by then all that happened in it is queued."""
HOURS_AT_ONCE = 24
ROWS_MOST = 50_000
"""How many rows an answer has; all of them are reckoned for each of its pages."""
SUMS_MOST = 200_000
"""Of how many sums by group and step an answer is made."""

_TOO_MUCH = (
    f"would have more than {ROWS_MOST:,} rows, or as much to add up: ask for less time, longer"
    " steps, or fewer dimensions"
)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuestion:
    """What somebody asks of the ledger."""

    #: The steps, in order and without gaps: hours since the epoch [from, until).
    steps: Sequence[tuple[int, int]]
    by: Sequence[str]
    idle: Idle
    #: Only what has this value in a dimension.
    only: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """The answer: rows by step and values, and how far it can be relied on."""

    rows: Sequence[CostRow]
    #: Up to when it counts, in seconds since the epoch, and up to when that is booked.
    as_of: float
    booked_until: float
    #: Up to when months are closed, 0 where none is.
    closed_until: float
    #: How much instance time has no price, and so no cost, in milliseconds.
    unpriced_ms: int
    #: How many containers succeeded, by a row's step and values; None where rows are not of work
    #: alone. Who has none is not in it.
    successes: Mapping[tuple[int, tuple[str, ...]], int] | None


class CostService:
    """Answers questions about cost, and books the hours; used on the loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        now: Callable[[], float],
        labels: Collection[str],
        currency: str,
        close_after_days: int = CLOSE_AFTER_DAYS,
    ) -> None:
        """`labels` are the keys of labels that are dimensions, `currency` what prices are in.

        A month is closed so many days after its end.
        """
        self._store, self.now = store, now
        self.labels, self.currency = frozenset(labels), currency
        self._close_after_hours = 24 * close_after_days

    async def report(
        self, question: CostQuestion, caller: Principal, *, as_of: float | None = None
    ) -> CostReport:
        """Return what a caller sees of what it asks for.

        It counts up to `as_of`, in seconds since the epoch, None for now. What has happened until
        then and was booked or told since is in it, too. Raises `Unavailable`, and `InvalidRequest`
        for what would have too many rows.
        """
        now = self.now() if as_of is None else as_of
        try:
            return await asyncio.to_thread(self._report, question, caller, now)
        except TooManySums as error:
            raise InvalidRequest([("step", _TOO_MUCH)]) from error
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    def _report(self, question: CostQuestion, caller: Principal, now: float) -> CostReport:
        seen = seen_by(caller)
        needed = fields_for(question.by, idle=question.idle, seen=seen, only=question.only)
        steps, sums = totals_until(
            self._store,
            question.steps,
            now,
            labels=self.labels,
            needed=needed,
            at_most=SUMS_MOST,
        )
        rows = rows_of(steps, question.by, idle=question.idle, seen=seen, only=question.only)
        if len(rows) > ROWS_MOST:
            raise InvalidRequest([("step", _TOO_MUCH)])
        unpriced_ms = sum(
            total.quantity_ms
            for totals in steps
            for group, total in totals.items()
            if group.price_source is PriceSource.NONE and seen.sees(group)
        )
        return CostReport(
            rows=rows,
            as_of=now,
            booked_until=sums.booked_until * 3600.0,
            closed_until=sums.closed_until * 3600.0,
            unpriced_ms=unpriced_ms,
            successes=self._successes(question, seen),
        )

    def _successes(
        self, question: CostQuestion, seen: Seen
    ) -> Mapping[tuple[int, tuple[str, ...]], int] | None:
        if not counts_successes(question.by, question.only):
            return None
        found = self._store.ledger.successes(question.steps)
        return successes_of(found, question.by, seen=seen, only=question.only)

    # ---- booking -------------------------------------------------------------------------------

    async def book_for_ever(self) -> None:
        """Book hours as they end, until cancelled; what fails is tried again."""
        while True:
            try:
                more = await self.book()
            except (StoreBusy, StoreClosed) as error:
                _log.warning("the ledger's hours cannot be booked now", error=str(error))
                more = False
            await asyncio.sleep(0.0 if more else BOOK_EACH_S)

    async def book(self) -> bool:
        """Book some hours that are due; return whether there may be more.

        Raises `StoreBusy` and `StoreClosed`: nothing is lost, the hours stay due.
        """
        before_hour = int((self.now() - BOOK_AFTER_S) // 3600)
        await asyncio.wrap_future(self._store.write([]))  # what happened in it is committed then
        due = await asyncio.to_thread(
            self._store.ledger.due, before_hour=before_hour, at_most=HOURS_AT_ONCE
        )
        for hour, marks in sorted(due.hours.items()):
            booked = await asyncio.to_thread(self._reckon, hour, marks)
            await asyncio.wrap_future(self._store.write([SaveBookedHour(booked=booked)]))
        if len(due.hours) < HOURS_AT_ONCE:
            await self._close(before_hour)
        return len(due.hours) >= HOURS_AT_ONCE

    async def _close(self, before_hour: int) -> None:
        """Close the next month whose time has come, once nothing of it is to be booked any more.

        One that changes before it is closed is, with the next look.
        """
        until_hour = before_hour - self._close_after_hours
        month = await asyncio.to_thread(self._store.ledger.closable, until_hour)
        if month is not None:
            await asyncio.wrap_future(self._store.write([CloseMonth(month=month)]))
            last_hour = month.until_hour - 1
            if await asyncio.to_thread(self._store.ledger.is_closed, last_hour):
                total_usd = str(in_dollars(month.grains))
                _log.info("month closed", month=month.month, usd=total_usd, sha256=month.sha256)

    def _reckon(self, hour: int, marks: int) -> BookedHour:
        facts, end_ms = self._store.ledger.facts(hour, hour + 1), (hour + 1) * MS_PER_HOUR
        lines = list(lines_between(facts, from_hour=hour, until_hour=hour + 1, now_ms=end_ms))
        booked = booked_hour(lines, hour, labels=self.labels, marks=marks)
        return replace(booked, containers=tuple(self._costs_of_ended(hour, lines)))

    def _costs_of_ended(self, hour: int, lines: Sequence[CostLine]) -> Iterator[tuple[str, int]]:
        """Yield what containers cost in all that may have ended in an hour, in grains.

        Of those that began in it, its lines tell all.
        """
        in_hour = direct_by_container(lines)
        for container_id, first_ms in sorted(self._store.ledger.ended_in(hour).items()):
            if first_ms >= hour * MS_PER_HOUR:
                yield container_id, in_hour.get(container_id, 0)
                continue
            known = self._store.ledger.facts_of_container(container_id)
            if known is not None:
                end_ms = (hour + 1) * MS_PER_HOUR
                costs = direct_grains(known.facts, known.attempts, now_ms=end_ms)
                yield container_id, sum(costs.values())


def seen_by(caller: Principal) -> Seen:
    """Return what a caller sees of costs: a user its own, a lead its projects, an admin all."""
    match caller.role:
        case Role.ADMIN:
            return Seen(everything=True)
        case Role.LEAD:
            return Seen(projects=frozenset(caller.projects))
        case Role.USER:
            return Seen(user=caller.user, user_projects=frozenset(caller.projects))
        case Role.METRICS:
            return Seen()


def totals_until(
    store: Store,
    steps: Sequence[tuple[int, int]],
    now: float,
    *,
    labels: Collection[str],
    needed: Collection[str] = GROUP_FIELDS,
    at_most: int | None = None,
) -> tuple[list[Totals], LedgerSums]:
    """Return the sums of each step with what is not booked yet, up to `now`, and of what is booked.

    `steps` are hours since the epoch [from, until); `labels` are the keys of labels that are kept
    apart, and `needed` the fields of groups. It blocks, and raises `StoreBusy`, and `TooManySums`
    where more than `at_most` are booked, None for any number.
    """
    sums, now_ms = store.ledger.sums(steps, needed, at_most=at_most), round(now * 1000)
    first = max(sums.booked_until, min((start for start, _ in steps), default=0))
    last = min(now_ms // MS_PER_HOUR + 1, max((until for _, until in steps), default=0))
    lines = lines_between(sums.facts, from_hour=first, until_hour=last, now_ms=now_ms)
    beside: dict[int, list[tuple[CostGroup, Total]]] = {}
    for each in sums.corrections:
        total = Total(quantity_ms=each.quantity_ms, grains=each.grains)
        beside.setdefault(each.hour, []).append((each.group.but_for(needed), total))
    for hour, of_hour in add_up(lines, labels).items():
        known = beside.setdefault(hour, [])
        known += ((group.but_for(needed), total) for group, total in of_hour.items())
    found, hours = [dict(booked) for booked in sums.totals], sorted(beside)
    for totals, (from_hour, until_hour) in zip(found, steps, strict=True):
        for hour in hours[bisect_left(hours, from_hour) : bisect_left(hours, until_hour)]:
            for group, total in beside[hour]:
                totals[group] = totals.get(group, Total()).plus(total)
    return found, sums
