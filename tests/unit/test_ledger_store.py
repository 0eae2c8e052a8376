"""The ledger in the store: facts, marks, and rollups that can be thrown away and made again."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert, text

from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.cost.rollups import add_up, lines_between
from longshore.dispatcher.cost.utc_calendar import month_of
from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.ledger import (
    GROUP_FIELDS,
    MS_PER_HOUR,
    OF_INSTANCE,
    Account,
    BilledState,
    BookedCorrection,
    BookedHour,
    Column,
    CostGroup,
    CostOutcome,
    InstanceBill,
    Interval,
    PriceSource,
    Total,
)
from longshore.dispatcher.domain.messages import (
    AddCorrections,
    Change,
    CloseMonth,
    InsertContainers,
    NoteListing,
    SaveBill,
    SaveBookedHour,
    SaveContainer,
    SaveInterval,
)
from longshore.dispatcher.service.costs import CostService
from longshore.dispatcher.store import ledger_tables as tables
from longshore.dispatcher.store.ledger_groups import SPLIT, group_values
from longshore.dispatcher.store.store import Store
from longshore.drivers.billing import AS_USED, Billed
from tests.rigs.services import store_in
from tests.store_values import container, url_in

H = MS_PER_HOUR
# Hours since the epoch: in UTC, the midnight with which the last day of a month begins.
T0 = 480_648
ALICE = Account(project="p", user="alice", job_name="align", container_id="c-1")
GROUP = CostGroup(
    project="p",
    user="alice",
    job_name="align",
    labels=(),
    type_name="small",
    preemptible=False,
    zone="",
    state=BilledState.WORK,
    column=Column.DIRECT,
    cause="work",
    outcome=CostOutcome.USEFUL,
    price_source=PriceSource.CONFIG,
)


def bill(**changes: object) -> InstanceBill:
    given: dict[str, object] = {
        "instance_id": "i-1",
        "type_name": "small",
        "provider_type": "s1",
        "preemptible": False,
        "nusd_per_hour": 100_000_000,
        "payer": Account(project="p", user="alice", job_name="align"),
        "created_ms": T0 * H,
        "rule": AS_USED,
        "running_ms": T0 * H,
        "ready_ms": T0 * H,
        "used_ms": T0 * H,
    }
    return InstanceBill(**(given | changes))  # type: ignore[arg-type]  # by name


def state(from_ms: int, until_ms: int | None, what: BilledState) -> Interval:
    return Interval(
        instance_id="i-1", holder=OF_INSTANCE, from_ms=from_ms, until_ms=until_ms, state=what
    )


def place(from_ms: int, until_ms: int | None, outcome: CostOutcome = CostOutcome.OPEN) -> Interval:
    return Interval(
        instance_id="i-1",
        holder="c-1-1",
        from_ms=from_ms,
        until_ms=until_ms,
        state=BilledState.WORK,
        share=Fraction(1, 3),
        account=ALICE,
        outcome=outcome,
    )


def a_life() -> list[Change]:
    """Two hours and a half of one instance, of which an attempt has a third for two hours."""
    start, end = T0 * H, T0 * H + 5 * H // 2
    return [
        SaveBill(bill=bill()),
        SaveInterval(interval=state(start, start + H // 4, BilledState.EMPTY)),
        SaveInterval(interval=state(start + H // 4, start + 9 * H // 4, BilledState.ROOM)),
        SaveInterval(interval=place(start + H // 4, start + 9 * H // 4, CostOutcome.USEFUL)),
        SaveInterval(interval=state(start + 9 * H // 4, end, BilledState.EMPTY)),
        SaveBill(bill=bill(seen_ms=end, unwanted_ms=end, gone_ms=end)),
    ]


def service(store: Store, hour: float, *labels: str) -> CostService:
    return CostService(
        store=store,
        now=lambda: (T0 + hour) * 3600.0,
        labels=labels,
        currency="USD",
        close_after_days=1,
    )


def booked(store: Store, hour: float) -> None:
    async def book() -> None:
        while await service(store, hour).book():
            pass

    asyncio.run(book())


def rollups(directory: Path) -> list[tuple[object, ...]]:
    """Return all that is booked, as it lies in the store, by what it is and not by number."""
    engine = create_engine(url_in(directory))
    query = (
        "SELECT h.*, g.project, g.user, g.job_name, g.type_name, g.state, g.cause, g.outcome"
        " FROM ledger_hours h JOIN ledger_groups g ON g.id = h.group_id"
    )
    with engine.connect() as connection:
        rows = [(row.hour, *row[2:]) for row in connection.execute(text(query))]
    engine.dispose()
    return sorted(rows, key=repr)


def test_an_hour_is_booked_once_it_is_over_and_sums_are_what_the_lines_are(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        store.write(a_life()).result(30)
        booked(store, 2.9)
        sums = store.ledger.sums([(T0, T0 + 24)], GROUP_FIELDS)
        assert sums.booked_until == T0 + 2
        booked(store, 26)
        sums = store.ledger.sums([(T0, T0 + 1), (T0, T0 + 24), (T0 - 24, T0 + 48)], GROUP_FIELDS)
        first, day, days = sums.totals
        assert sum(total.quantity_ms for total in first.values()) == H
        assert sum(total.quantity_ms for total in day.values()) == 5 * H // 2
        assert day == days, "whole days are read as hours are"
        grains = sum(total.grains for total in day.values())
        assert str(in_dollars(grains).normalize()) == "0.25"
        work = [t.quantity_ms for g, t in day.items() if g.state is BilledState.WORK]
        assert sum(work) == 2 * H // 3


def test_a_restart_knows_when_the_latest_listing_began(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        assert store.recover().listed_ms == 0
        store.write([NoteListing(at_ms=T0 * H)]).result(30)
        store.write([NoteListing(at_ms=T0 * H + 5), SaveBill(bill=bill(seen_ms=7))]).result(30)
        recovered = store.recover()
        assert recovered.listed_ms == T0 * H + 5
        assert [each.seen_ms for each in recovered.bills] == [7]


def test_rollups_are_made_again_from_the_facts_to_the_byte(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        store.write(a_life()).result(30)
        booked(store, 26)
    before = rollups(tmp_path)
    engine = create_engine(url_in(tmp_path))
    with engine.begin() as connection:
        for table in ("hours", "days", "groups", "booked", "marks"):
            connection.execute(text(f"DELETE FROM ledger_{table}"))  # noqa: S608 - names of ours
    engine.dispose()
    with closing(Store.open(url_in(tmp_path))) as store:
        booked(store, 26)
    assert rollups(tmp_path) == before
    assert len(before) > 5


def a_year_of(tmp_path: Path, *, rest: int) -> None:
    """Put a day's sums by 20 jobs into a store, of which each has so much of a rest."""
    engine = create_engine(url_in(tmp_path))
    groups = [
        {"id": number, **group_values(replace(GROUP, job_name=f"job-{number}"))}
        for number in range(1, 21)
    ]
    sums = {"quantity_ms": 1, "whole": 3, "uncertain_whole": 1, "uncertain_rest": rest}
    rows = [{"group_id": group["id"], "rest": rest, **sums} for group in groups]
    with engine.begin() as connection:
        connection.execute(insert(tables.groups), groups)
        connection.execute(insert(tables.days), [{"day": T0 // 24, **row} for row in rows])
        connection.execute(insert(tables.corrections), [correction(rest)] * 20)
        connection.execute(insert(tables.booked), [{"id": 1, "until_hour": T0 + 24}])
    engine.dispose()


def correction(rest: int) -> dict[str, object]:
    return {
        **dict.fromkeys(("booked_hour", "about_hour", "counted_hour"), T0),
        "instance_id": "i-1",
        "group_id": 1,
        "quantity_ms": 1,
        "whole": -1,
        "rest": rest,
        "reason": "price",
        "made_by": "root",
        "made_at": 0.0,
        "file_name": "",
        "sha256": "",
    }


def test_sums_are_exact_where_their_parts_are_more_than_64_bits(tmp_path: Path) -> None:
    # As much as 12 million rests, as many as a year of a large cluster has.
    rest = 6 * 10**17
    with store_in(tmp_path) as store:
        a_year_of(tmp_path, rest=rest)
        sums = store.ledger.sums([(T0, T0 + 24)], ())
        (total,) = sums.totals[0].values()
        assert total.grains == 20 * (3 * SPLIT + rest)
        assert total.uncertain_grains == 20 * (SPLIT + rest)
        (beside,) = sums.corrections
        assert (beside.quantity_ms, beside.grains) == (20, 20 * (rest - SPLIT))
        (of_instance,) = store.ledger.corrections(T0, T0 + 24)
        assert of_instance.grains == 20 * (rest - SPLIT)


def test_the_sum_of_a_day_carries_over(tmp_path: Path) -> None:
    total = Total(quantity_ms=1, grains=SPLIT - 1, uncertain_grains=2 * SPLIT - 1)
    with store_in(tmp_path) as store:
        for hour in range(T0, T0 + 24):
            each = BookedHour(hour=hour, totals=((GROUP, total),), marks=0)
            store.write([SaveBookedHour(booked=each)]).result(30)
        (totals,) = store.ledger.sums([(T0, T0 + 24)], GROUP_FIELDS).totals
    whole = Total(
        quantity_ms=24, grains=24 * total.grains, uncertain_grains=24 * total.uncertain_grains
    )
    assert totals == {GROUP: whole}
    with closing(sqlite3.connect(tmp_path / "longshore.db")) as connection:
        kept = "SELECT whole, rest, uncertain_whole, uncertain_rest FROM ledger_days"
        assert connection.execute(kept).fetchall() == [(23, SPLIT - 24, 47, SPLIT - 24)]


def test_an_hour_is_booked_again_when_an_attempt_that_it_has_ends(tmp_path: Path) -> None:
    start = T0 * H
    with store_in(tmp_path) as store:
        store.write(
            [
                SaveBill(bill=bill()),
                SaveInterval(interval=state(start, None, BilledState.ROOM)),
                SaveInterval(interval=place(start, None)),
            ]
        ).result(30)
        booked(store, 2.1)

        def outcomes() -> set[CostOutcome]:
            (totals,) = store.ledger.sums([(T0, T0 + 2)], GROUP_FIELDS).totals
            return {group.outcome for group in totals if group.state is BilledState.WORK}

        assert outcomes() == {CostOutcome.OPEN}
        ended = place(start, start + 2 * H + H // 8, CostOutcome.LOST_FAILED)
        store.write([SaveInterval(interval=ended)]).result(30)
        booked(store, 2.2)
        assert outcomes() == {CostOutcome.LOST_FAILED}
        assert dict(store.ledger.due(before_hour=T0 + 2, at_most=24).hours) == {}


def test_what_a_cloud_tells_late_is_booked_again(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        store.write(a_life()).result(30)
        booked(store, 26)
        late = Billed(billed_from=T0 * 3600.0 + 60, billed_until=T0 * 3600.0 + 8400)
        gone_ms = T0 * H + 5 * H // 2
        told = bill(seen_ms=gone_ms, unwanted_ms=gone_ms, gone_ms=gone_ms, billed=late)
        store.write([SaveBill(bill=told)]).result(30)
        booked(store, 27)
        (totals,) = store.ledger.sums([(T0, T0 + 24)], GROUP_FIELDS).totals
        assert sum(total.quantity_ms for total in totals.values()) == (8400 - 60) * 1000


@pytest.mark.parametrize(("began", "hours"), [(0, 2), (2, 0)])
def test_what_a_container_cost_is_what_is_booked_of_it(
    tmp_path: Path, began: int, hours: int
) -> None:
    """Whether its attempt began in the hour in which it ended, or before."""
    new = container(1)
    account = Account(project="p", user="u", container_id=new.id)
    start = T0 * H
    work = replace(
        place(start + began * H, start + (began + hours) * H + H // 2, CostOutcome.USEFUL),
        account=account,
    )
    ended = replace(new, state=ContainerState.SUCCEEDED, cost_usd=Decimal(9))
    with store_in(tmp_path) as store:
        store.write([InsertContainers(containers=(new,), user="u")]).result(30)
        changes: list[Change] = [
            SaveContainer(container=ended),
            SaveBill(bill=bill()),
            SaveInterval(interval=state(start, None, BilledState.ROOM)),
            SaveInterval(interval=work),
        ]
        store.write(changes).result(30)
        booked(store, 4)
        found = store.container(new.id)
        assert found is not None
        instance_hours = (Fraction(hours) + Fraction(1, 2)) / 3
        assert abs(Fraction(found.cost_usd) - instance_hours / 10) < Fraction(1, 10**8)


def test_a_closed_month_stays_and_what_changes_it_is_a_correction(tmp_path: Path) -> None:
    first = month_of(T0)
    after = (first.stop - T0) + 25
    with store_in(tmp_path) as store:
        store.write(a_life()).result(30)
        booked(store, first.stop - T0 + 1)
        assert store.ledger.sums([(T0, T0 + 24)], GROUP_FIELDS).closed_until == 0
        booked(store, after)
        sums = store.ledger.sums([(first.start, first.stop)], GROUP_FIELDS)
        assert sums.closed_until == first.stop
        (was,) = sums.totals
        late = Billed(billed_from=T0 * 3600.0 + 60, billed_until=T0 * 3600.0 + 8400)
        gone_ms = T0 * H + 5 * H // 2
        told = bill(seen_ms=gone_ms, unwanted_ms=gone_ms, gone_ms=gone_ms, billed=late)
        for changes in ([SaveBill(bill=told)], [SaveBill(bill=replace(told, final=True))]):
            store.write(changes).result(30)
            booked(store, after + 1)
        again = store.ledger.sums([(first.start, 10**6)], GROUP_FIELDS)
        assert store.ledger.sums([(first.start, first.stop)], GROUP_FIELDS).totals == (was,)
        corrected = sum(each.quantity_ms for each in again.corrections)
        assert corrected == (8400 - 60) * 1000 - 5 * H // 2, "once, however often it is told"
        assert {each.hour >= first.stop for each in again.corrections} == {True}


def test_a_month_that_changes_after_it_was_read_is_closed_as_it_is_then(tmp_path: Path) -> None:
    month = month_of(T0)
    with store_in(tmp_path) as store:
        store.write(a_life()).result(30)
        booked(store, month.stop - T0 + 1)
        read = store.ledger.closable(month.stop)
        assert read is not None
        (totals,) = store.ledger.sums([(month.start, month.stop)], GROUP_FIELDS).totals
        of_bill = BookedCorrection(
            booked_hour=month.stop,
            about_hour=T0,
            instance_id="i-1",
            group=next(iter(totals)),
            quantity_ms=0,
            grains=-7,
            reason="price",
            made_by="root",
            made_at=month.stop * 3600.0,
            file_name="bill.csv",
            sha256="0" * 64,
        )
        store.write([AddCorrections(corrections=(of_bill,)), CloseMonth(month=read)]).result(30)
        assert not store.ledger.is_closed(T0), "what was read of it is not what it comes to"
        again = store.ledger.closable(month.stop)
        assert again is not None
        assert again.grains == read.grains - 7
        store.write([CloseMonth(month=again)]).result(30)
        assert store.ledger.is_closed(T0)
        assert not store.ledger.is_closed(month.stop)


def test_a_mark_that_comes_while_an_hour_is_reckoned_stays(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        store.write(a_life()).result(30)
        booked(store, 26)
        costs = service(store, 27)
        late = SaveBill(bill=bill(gone_ms=T0 * H + H, seen_ms=T0 * H + H))
        store.write([late]).result(30)
        (hour, marks), *_ = store.ledger.due(before_hour=T0 + 26, at_most=1).hours.items()
        reckoned = costs._reckon(hour, marks)
        store.write([SaveBill(bill=bill()), late]).result(30)
        store.write([SaveBookedHour(booked=reckoned)]).result(30)
        assert hour in store.ledger.due(before_hour=T0 + 26, at_most=1).hours


def test_lines_of_an_hour_are_the_same_however_long_ago_an_attempt_began(tmp_path: Path) -> None:
    """Those that last for days are found by an index of their own."""
    start = (T0 - 100) * H
    with store_in(tmp_path) as store:
        store.write(
            [
                SaveBill(bill=bill(created_ms=start, running_ms=start)),
                SaveInterval(interval=state(start, None, BilledState.ROOM)),
                SaveInterval(interval=place(start, None)),
            ]
        ).result(30)
        facts = store.ledger.facts(T0, T0 + 1)
        lines = list(lines_between(facts, from_hour=T0, until_hour=T0 + 1, now_ms=(T0 + 9) * H))
        assert {line.attempt_id: line.quantity_ms for line in lines} == {
            "c-1-1": H // 3,
            "": H - H // 3,
        }
        assert set(add_up(lines, ())) == {T0}


@pytest.mark.parametrize("labels", [(), ("team",)])
def test_only_chosen_labels_are_dimensions(tmp_path: Path, labels: tuple[str, ...]) -> None:
    start = T0 * H
    account = Account(project="p", user="u", labels=(("sample", "7"), ("team", "blue")))
    work = Interval(
        instance_id="i-1",
        holder="c-2-1",
        from_ms=start,
        until_ms=start + H // 2,
        state=BilledState.WORK,
        account=account,
        outcome=CostOutcome.USEFUL,
    )
    with store_in(tmp_path) as store:
        store.write(
            [
                SaveBill(bill=bill()),
                SaveInterval(interval=state(start, None, BilledState.ROOM)),
                SaveInterval(interval=work),
            ]
        ).result(30)
        asyncio.run(service(store, 2, *labels).book())
        (totals,) = store.ledger.sums([(T0, T0 + 1)], GROUP_FIELDS).totals
        found = {group.labels for group in totals if group.user == "u"}
        assert found == ({(("team", "blue"),)} if labels else {()})
