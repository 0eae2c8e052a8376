"""The ledger in the store: its rows, its changes, and how they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Row, and_, bindparam, delete, func, or_, select, update

from longshore.dispatcher.cost.dirty import hours_changed, hours_of
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    OF_INSTANCE,
    Account,
    BilledState,
    BookedHour,
    CostOutcome,
    InstanceBill,
    Interval,
    PrepaidRow,
    PriceRow,
    PriceSource,
    UnitPrice,
)
from longshore.dispatcher.domain.messages import SaveBill, SaveInterval
from longshore.dispatcher.domain.queries import LATEST_BILLS, LedgerFacts
from longshore.dispatcher.store import ledger_corrections, sqlite
from longshore.dispatcher.store import ledger_tables as tables
from longshore.dispatcher.store.ledger_groups import fetch_booked_until, save_hour
from longshore.dispatcher.store.tables import containers
from longshore.drivers.billing import Billed, BillingRule

_RULE = msgspec.json.Decoder(BillingRule)
_BILLED = msgspec.json.Decoder(Billed)
_LABELS = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_ENCODER = msgspec.json.Encoder()
_STATES = {state.value: state for state in BilledState}
_OUTCOMES = {outcome.value: outcome for outcome in CostOutcome}
_SOURCES = {source.value: source for source in PriceSource}
_MARGIN_MS: Final = MS_PER_HOUR
"""How much earlier or later than we saw it a cloud may have billed an instance."""

_SAVE_INTERVAL = sqlite.upsert(tables.intervals, keep=())
_SAVE_BILL = sqlite.upsert(tables.bills, keep=())
_NOTE_LISTING = sqlite.upsert(tables.listing, keep=())
_ADD_PRICE = sqlite.insert_new(tables.prices)
_ADD_PREPAID = sqlite.insert_new(tables.prepaid)
_MARK = sqlite.count_up(tables.marks, "times")
_UNMARK = delete(tables.marks).where(
    tables.marks.c.hour == bindparam("of_hour"), tables.marks.c.times == bindparam("as_read")
)


_SET_COST = (
    update(containers)
    .where(
        containers.c.id == bindparam("of"),
        containers.c.ended != "",
        containers.c.cost_usd != bindparam("amount"),
    )
    .values(cost_usd=bindparam("amount"))
)


# ---- rows ----------------------------------------------------------------------------------------


def _interval_values(interval: Interval) -> dict[str, Any]:
    account = interval.account
    return {
        "instance_id": interval.instance_id,
        "holder": interval.holder,
        "from_ms": interval.from_ms,
        "until_ms": interval.until_ms,
        "state": interval.state.value,
        "share": str(interval.share),
        "project": account.project,
        "user": account.user,
        "job_name": account.job_name,
        "job_id": account.job_id,
        "task": account.task,
        "array_index": account.array_index,
        "container_id": account.container_id,
        "labels": _ENCODER.encode(account.labels).decode() if account.labels else "",
        "cause": interval.cause,
        "outcome": interval.outcome.value,
    }


def interval_from_row(row: Row[Any]) -> Interval:
    """Return the interval of a row."""
    return Interval(
        instance_id=row.instance_id,
        holder=row.holder,
        from_ms=row.from_ms,
        until_ms=row.until_ms,
        state=_STATES[row.state],
        share=Fraction(row.share),
        account=Account(
            project=row.project,
            user=row.user,
            job_name=row.job_name,
            job_id=row.job_id,
            task=row.task,
            array_index=row.array_index,
            container_id=row.container_id,
            labels=_LABELS.decode(row.labels) if row.labels else (),
        ),
        cause=row.cause,
        outcome=_OUTCOMES[row.outcome],
    )


def _bill_values(bill: InstanceBill) -> dict[str, Any]:
    return {
        "instance_id": bill.instance_id,
        "type_name": bill.type_name,
        "provider_type": bill.provider_type,
        "preemptible": bill.preemptible,
        "nusd_per_hour": bill.nusd_per_hour,
        "payer_project": bill.payer.project,
        "payer_user": bill.payer.user,
        "payer_job_name": bill.payer.job_name,
        "created_ms": bill.created_ms,
        "rule": _ENCODER.encode(bill.rule).decode(),
        "billed": _ENCODER.encode(bill.billed).decode(),
        "running_ms": bill.running_ms,
        "ready_ms": bill.ready_ms,
        "used_ms": bill.used_ms,
        "unwanted_ms": bill.unwanted_ms,
        "seen_ms": bill.seen_ms,
        "gone_ms": bill.gone_ms,
        "final": bill.final,
    }


def bill_from_row(row: Row[Any]) -> InstanceBill:
    """Return the bill of a row."""
    return InstanceBill(
        instance_id=row.instance_id,
        type_name=row.type_name,
        provider_type=row.provider_type,
        preemptible=row.preemptible,
        nusd_per_hour=row.nusd_per_hour,
        payer=Account(project=row.payer_project, user=row.payer_user, job_name=row.payer_job_name),
        created_ms=row.created_ms,
        rule=_RULE.decode(row.rule),
        billed=_BILLED.decode(row.billed),
        running_ms=row.running_ms,
        ready_ms=row.ready_ms,
        used_ms=row.used_ms,
        unwanted_ms=row.unwanted_ms,
        seen_ms=row.seen_ms,
        gone_ms=row.gone_ms,
        final=row.final,
    )


# ---- changes -------------------------------------------------------------------------------------


def save_intervals(connection: Connection, changes: Sequence[SaveInterval]) -> None:
    """Write intervals, in order, and mark the hours that they change and that may be booked."""
    connection.execute(_SAVE_INTERVAL, [_interval_values(each.interval) for each in changes])
    changed = (hours_of(each.interval, late=each.late) for each in changes)
    _mark(connection, (hour for hours in changed for hour in hours))


def save_bills(connection: Connection, changes: Sequence[SaveBill]) -> None:
    """Write what bills are reckoned by, in order, and mark the hours that change with it."""
    booked_until = fetch_booked_until(connection)
    for change in changes:
        found = select(tables.bills).where(tables.bills.c.instance_id == change.bill.instance_id)
        row = connection.execute(found).one_or_none()
        before = None if row is None else bill_from_row(row)
        connection.execute(_SAVE_BILL, _bill_values(change.bill))
        _mark(connection, hours_changed(before, change.bill, booked_until=booked_until))


def drop_bill(connection: Connection, launch_id: str) -> None:
    """Take back all that is said of a launch, and mark the hours in which something was."""
    bills = tables.bills
    row = connection.execute(select(bills).where(bills.c.instance_id == launch_id)).one_or_none()
    if row is None:
        return
    connection.execute(delete(bills).where(bills.c.instance_id == launch_id))
    booked_until = fetch_booked_until(connection)
    _mark(connection, hours_changed(None, bill_from_row(row), booked_until=booked_until))


def note_listing(connection: Connection, at_ms: int) -> None:
    """Write when the latest complete listing began, in milliseconds since the epoch."""
    connection.execute(_NOTE_LISTING, {"id": 1, "at_ms": at_ms})


def save_booked_hour(connection: Connection, booked: BookedHour, *, now: float) -> None:
    """Replace the rollup of an hour; a mark that came while it was reckoned stays.

    In a closed month nothing is replaced: the difference is a correction. `now` is in seconds since
    the epoch.
    """
    if booked.hour < ledger_corrections.fetch_closed_until(connection):
        ledger_corrections.correct(connection, booked, now=now)
    else:
        save_hour(connection, booked)
    if booked.containers:
        amounts = [
            {"of": container_id, "amount": str(in_dollars(grains))}
            for container_id, grains in booked.containers
        ]
        connection.execute(_SET_COST, amounts)
    connection.execute(_UNMARK, {"of_hour": booked.hour, "as_read": booked.marks})


def add_prices(
    connection: Connection, rows: Sequence[PriceRow], prepaid: Sequence[PrepaidRow]
) -> None:
    """Write prices that are not there yet, and mark the hours booked since they hold.

    So it does with rows of what is prepaid.
    """
    values = [
        {
            "type_name": row.type_name,
            "zone": row.zone,
            "valid_from_ms": row.valid_from_ms,
            "source": row.price.source.value,
            "nusd_per_hour": row.price.nusd_per_hour,
        }
        for row in rows
    ]
    if values:
        connection.execute(_ADD_PRICE, values)
    if prepaid:
        connection.execute(_ADD_PREPAID, [_prepaid_values(row) for row in prepaid])
    booked_until = fetch_booked_until(connection)
    since_ms = [each.valid_from_ms for each in rows] + [each.valid_from_ms for each in prepaid]
    first = min((each // MS_PER_HOUR for each in since_ms), default=booked_until)
    _mark(connection, range(first, booked_until))


def _prepaid_values(row: PrepaidRow) -> dict[str, Any]:
    return {
        "type_name": row.type_name,
        "provider_type": row.provider_type,
        "valid_from_ms": row.valid_from_ms,
        "number": row.number,
    }


def _mark(connection: Connection, hours: Iterable[int]) -> None:
    rows = [{"hour": hour, "times": 1} for hour in sorted(set(hours))]
    if rows:
        connection.execute(_MARK, rows)


# ---- reading -------------------------------------------------------------------------------------


def fetch_open(connection: Connection) -> tuple[list[InstanceBill], list[Interval], int]:
    """Return what a restart goes on with: bills, open intervals, and when the latest listing began.

    Of settled bills those are that are the latest that are gone. The time is in milliseconds since
    the epoch, 0 for none.
    """
    bills = tables.bills
    unsettled = select(bills).where(bills.c.final.is_(False)).order_by(bills.c.instance_id)
    settled = select(bills).where(bills.c.final.is_(True)).order_by(bills.c.gone_ms.desc())
    latest = connection.execute(settled.limit(LATEST_BILLS)).all()
    rows = [*connection.execute(unsettled), *reversed(latest)]
    open_ = select(tables.intervals).where(tables.intervals.c.until_ms.is_(None), tables.IS_LONG)
    order = (tables.intervals.c.instance_id, tables.intervals.c.holder, tables.intervals.c.from_ms)
    intervals = connection.execute(open_.order_by(*order)).all()
    listed_ms = connection.execute(select(tables.listing.c.at_ms)).scalar() or 0
    bills_there = [bill_from_row(row) for row in rows]
    return bills_there, [interval_from_row(row) for row in intervals], listed_ms


def fetch_ended_in(connection: Connection, hour: int) -> dict[str, int]:
    """Return the containers of which an attempt gave its place back in an hour.

    With each stands when the first of all its attempts got one, in milliseconds since the epoch.
    """
    ledger, from_ms = tables.intervals, hour * MS_PER_HOUR
    there = select(ledger.c.container_id).where(
        ledger.c.from_ms >= from_ms - tables.LONG_MS,
        ledger.c.from_ms < from_ms + MS_PER_HOUR,
        ledger.c.until_ms >= from_ms,
        ledger.c.until_ms < from_ms + MS_PER_HOUR,
    )
    long = select(ledger.c.container_id).where(
        tables.IS_LONG,
        ledger.c.until_ms >= from_ms,
        ledger.c.until_ms < from_ms + MS_PER_HOUR,
    )
    ended = there.union(long).subquery()
    first = func.min(ledger.c.from_ms)
    query = (
        select(ledger.c.container_id, first)
        .join(ended, ended.c.container_id == ledger.c.container_id)
        .where(ledger.c.container_id != "")
        .group_by(ledger.c.container_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def fetch_facts(connection: Connection, from_hour: int, until_hour: int) -> LedgerFacts:
    """Return the facts about some hours; of instances those whose billing may touch them."""
    from_ms, until_ms = from_hour * MS_PER_HOUR, until_hour * MS_PER_HOUR
    bills = tables.bills
    touching = select(bills).where(
        bills.c.created_ms < until_ms + _MARGIN_MS,
        or_(bills.c.gone_ms.is_(None), bills.c.gone_ms >= from_ms - _MARGIN_MS),
    )
    found = connection.execute(touching.order_by(bills.c.instance_id)).all()
    intervals = tables.intervals
    lately = select(intervals).where(
        intervals.c.from_ms >= from_ms - tables.LONG_MS - _MARGIN_MS,
        intervals.c.from_ms < until_ms + _MARGIN_MS,
        or_(intervals.c.until_ms.is_(None), intervals.c.until_ms >= from_ms - _MARGIN_MS),
    )
    long = select(intervals).where(
        tables.IS_LONG,
        intervals.c.from_ms < from_ms - tables.LONG_MS - _MARGIN_MS,
        or_(intervals.c.until_ms.is_(None), intervals.c.until_ms >= from_ms - _MARGIN_MS),
    )
    rows = [*connection.execute(long), *connection.execute(lately)]
    reckoned = tuple(bill_from_row(row) for row in found)
    rows += _states_elsewhere(connection, reckoned, rows)
    # What an instance costs at least is reckoned from the whole of it.
    whole = [bill.created_ms for bill in reckoned if bill.rule.minimum_amount_usd]
    since_ms = min([from_ms, *(each - _MARGIN_MS for each in whole)])
    return LedgerFacts(
        bills=reckoned,
        intervals=tuple(interval_from_row(row) for row in rows),
        prices=tuple(fetch_prices(connection, since_ms, until_ms)),
        prepaid=tuple(fetch_prepaid(connection, from_ms, until_ms)),
    )


def _states_elsewhere(
    connection: Connection, bills: Iterable[InstanceBill], rows: Iterable[Row[Any]]
) -> list[Row[Any]]:
    """Return what those instances were of which no row says that, at any time.

    A cloud may bill long before an instance is first seen, or after it was missed: then it was what
    it was first, or last. These are few.
    """
    told = {row.instance_id for row in rows if row.holder == OF_INSTANCE}
    intervals, found = tables.intervals, list[Row[Any]]()
    for bill in bills:
        if bill.instance_id not in told and not bill.is_launch:
            its = (intervals.c.instance_id == bill.instance_id, intervals.c.holder == OF_INSTANCE)
            found += connection.execute(select(intervals).where(*its)).all()
    return found


def fetch_prepaid(connection: Connection, from_ms: int, until_ms: int) -> list[PrepaidRow]:
    """Return what is prepaid in [from, until): the rows that begin there, and what held before."""
    prepaid = tables.prepaid
    latest = (
        select(prepaid.c.type_name, func.max(prepaid.c.valid_from_ms).label("at_ms"))
        .where(prepaid.c.valid_from_ms < from_ms)
        .group_by(prepaid.c.type_name)
        .subquery()
    )
    is_held = and_(
        prepaid.c.type_name == latest.c.type_name, prepaid.c.valid_from_ms == latest.c.at_ms
    )
    begins = select(prepaid).where(
        prepaid.c.valid_from_ms >= from_ms, prepaid.c.valid_from_ms < until_ms
    )
    held = connection.execute(select(prepaid).join(latest, is_held)).all()
    return [
        PrepaidRow(
            type_name=row.type_name,
            provider_type=row.provider_type,
            valid_from_ms=row.valid_from_ms,
            number=row.number,
        )
        for row in (*held, *connection.execute(begins))
    ]


def fetch_prices(connection: Connection, from_ms: int, until_ms: int) -> list[PriceRow]:
    """Return the prices that hold in [from, until): those that begin there, and what held before.

    Of each source, type and zone the latter is one row at most.
    """
    prices = tables.prices
    key = (prices.c.type_name, prices.c.zone, prices.c.source)
    latest = (
        select(*key, func.max(prices.c.valid_from_ms).label("at_ms"))
        .where(prices.c.valid_from_ms < from_ms)
        .group_by(*key)
        .subquery()
    )
    held = select(prices).join(
        latest,
        and_(
            *(column == latest.c[column.name] for column in key),
            prices.c.valid_from_ms == latest.c.at_ms,
        ),
    )
    begins = select(prices).where(
        prices.c.valid_from_ms >= from_ms, prices.c.valid_from_ms < until_ms
    )
    return [
        PriceRow(
            type_name=row.type_name,
            zone=row.zone,
            valid_from_ms=row.valid_from_ms,
            price=UnitPrice(nusd_per_hour=row.nusd_per_hour, source=_SOURCES[row.source]),
        )
        for row in (*connection.execute(held), *connection.execute(begins))
    ]
