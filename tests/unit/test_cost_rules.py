"""The rules of the ledger, by literal tables: spans, prices, periods, reports."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from longshore.dispatcher.api.validate.rfc3339 import parse_moment
from longshore.dispatcher.cost.dirty import hours_changed, hours_of
from longshore.dispatcher.cost.money import split
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.report import Amounts, Idle, Seen, rows_of, sum_of
from longshore.dispatcher.cost.spans import billed_span
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    Account,
    BilledState,
    Column,
    CostGroup,
    CostOutcome,
    InstanceBill,
    Interval,
    PriceRow,
    PriceSource,
    Total,
    UnitPrice,
)
from longshore.dispatcher.service.cost_periods import Step, hour_text, steps_between
from longshore.drivers.billing import Billed, BillingEnd, BillingRule, BillingStart, EndedBy
from longshore.drivers.errors import InvalidRequest

H = MS_PER_HOUR
RULE = BillingRule(unit_s=1, minimum_s=60)


def bill(**changes: object) -> InstanceBill:
    given: dict[str, object] = {
        "instance_id": "i-1",
        "type_name": "small",
        "provider_type": "s1",
        "preemptible": True,
        "nusd_per_hour": 100_000_000,
        "payer": Account(project="p", user="u"),
        "created_ms": 1_000,
        "running_ms": 31_000,
        "rule": RULE,
    }
    return InstanceBill(**(given | changes))  # type: ignore[arg-type]  # by name


# ---- when it is billed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "span"),
    [
        ({}, (31_000, 500_000, 30_000, 0, 0)),
        ({"rule": replace(RULE, starts=BillingStart.REQUESTED)}, (1_000, 500_000, 0, 0, 0)),
        (
            {"unwanted_ms": 90_000, "seen_ms": 91_000, "gone_ms": 99_000},
            (31_000, 90_000, 30_000, 8_000, 1_000),
        ),
        ({"seen_ms": 80_000, "gone_ms": 99_000}, (31_000, 80_000, 30_000, 8_000, 11_000)),
        (
            {
                "rule": replace(RULE, ends=BillingEnd.TERMINATED),
                "seen_ms": 80_000,
                "gone_ms": 99_000,
            },
            (31_000, 99_000, 30_000, 8_000, 0),
        ),
        (
            {"billed": Billed(billed_from=40.0, billed_until=161.2), "gone_ms": 200_000},
            (40_000, 161_200, 0, 0, 800),
        ),
        (
            {"billed": Billed(billed_from=70.0, billed_until=70.0), "gone_ms": 200_000},
            (70_000, 70_000, 0, 0, 0),
        ),
        ({"running_ms": None}, None),
    ],
)
def test_what_is_booked_is_what_the_cloud_tells_else_the_likelier(
    changes: dict[str, object], span: tuple[int, ...] | None
) -> None:
    found = billed_span(bill(**changes), now_ms=500_000)
    told = (
        None
        if found is None
        else (
            found.from_ms,
            found.until_ms,
            found.from_slack_ms,
            found.until_slack_ms,
            found.minimum_ms,
        )
    )
    assert told == span


@pytest.mark.parametrize(
    ("lasted_ms", "later_ms", "uncertain_ms"),
    [
        (61_850, 0, 0),
        (20_000, 0, 0),
        (20_000, 39_000, 0),
        (20_000, 42_000, 2_000),
        (60_000, 1, 1_000),
        (60_500, 400, 0),
        (70_000, 5_000, 5_000),
    ],
)
def test_what_is_uncertain_is_reckoned_by_the_rule_too(
    lasted_ms: int, later_ms: int, uncertain_ms: int
) -> None:
    """An instance of 62 s with a minimum of a minute had 35 s uncertain, of which 2 could be."""
    began_ms = 31_000
    seen_ms = began_ms + lasted_ms
    changes: dict[str, object] = {"seen_ms": seen_ms, "gone_ms": seen_ms + later_ms}
    found = billed_span(bill(created_ms=began_ms, **changes), now_ms=500_000)
    assert found is not None
    assert (found.from_slack_ms, found.until_slack_ms) == (0, uncertain_ms)
    later = billed_span(bill(created_ms=began_ms - later_ms, **changes), now_ms=500_000)
    assert later is not None
    both_ms = later.from_slack_ms + later.until_slack_ms
    most_ms = max(60_000, -(-(lasted_ms + 2 * later_ms) // 1000) * 1000)
    least_ms = max(60_000, -(-lasted_ms // 1000) * 1000)
    assert both_ms == most_ms - least_ms


@pytest.mark.parametrize(
    ("ended_by", "preemptible", "lasted_s", "free"),
    [
        (EndedBy.RECLAIMED, True, 3599, True),
        (EndedBy.RECLAIMED, True, 3600, False),
        (EndedBy.RECLAIMED, False, 100, False),
        (EndedBy.REQUEST, True, 100, False),
        (None, True, 100, False),
    ],
)
def test_what_is_taken_back_in_its_first_hour_is_free(
    *, ended_by: EndedBy | None, preemptible: bool, lasted_s: int, free: bool
) -> None:
    rule = replace(RULE, free_if_reclaimed_within_s=3600)
    billed = Billed(billed_from=100.0, billed_until=100.0 + lasted_s, ended_by=ended_by)
    taken = bill(rule=rule, preemptible=preemptible, billed=billed, gone_ms=10**7)
    assert (billed_span(taken, now_ms=0) is None) is free


# ---- prices --------------------------------------------------------------------------------------


def row(zone: str, hour: int, nusd: int, source: PriceSource = PriceSource.HISTORY) -> PriceRow:
    price = UnitPrice(nusd_per_hour=nusd, source=source)
    return PriceRow(type_name="small", zone=zone, valid_from_ms=hour * H, price=price)


def test_a_price_is_the_zones_own_and_splits_where_it_changes() -> None:
    book = PriceBook([row("a", 0, 10), row("b", 0, 99), row("a", 2, 20), row("b", 2, 98)])
    spans = book.spans(bill(billed=Billed(zone="a")), H, 3 * H)
    assert [(s, e, p.nusd_per_hour) for s, e, p in spans] == [(H, 2 * H, 10), (2 * H, 3 * H, 20)]


def test_the_better_source_counts_and_without_any_what_it_was_bought_for() -> None:
    book = PriceBook([row("a", 5, 30, PriceSource.CONFIG), row("a", 0, 10), row("", 0, 7)])
    of_a = book.spans(bill(billed=Billed(zone="a")), 6 * H, 7 * H)
    assert [p.nusd_per_hour for _, _, p in of_a] == [10]
    of_none = PriceBook([]).spans(bill(), 0, H)
    assert [(p.nusd_per_hour, p.source) for _, _, p in of_none] == [
        (100_000_000, PriceSource.CONFIG)
    ]
    unknown = PriceBook([]).spans(bill(nusd_per_hour=0), 0, H)
    assert [p.source for _, _, p in unknown] == [PriceSource.NONE]


# ---- what changes with a fact --------------------------------------------------------------------


def test_hours_change_with_the_outcome_of_what_they_have() -> None:
    long = Interval(
        instance_id="i-1",
        holder="c-1-1",
        from_ms=H // 2,
        until_ms=5 * H // 2,
        state=BilledState.WORK,
    )
    assert list(hours_of(long, late=False)) == [0, 1]
    assert list(hours_of(long, late=True)) == [0, 1, 2]
    assert list(hours_of(replace(long, until_ms=None), late=False)) == []
    assert list(hours_of(replace(long, holder=""), late=False)) == []


def test_hours_change_with_a_bill_all_or_only_the_last() -> None:
    used = bill(used_ms=H, ready_ms=H)
    gone = replace(used, gone_ms=30 * H, seen_ms=30 * H)
    assert list(hours_changed(used, gone, booked_until=99)) == [29, 30], (
        "it was billed until then in any case"
    )
    told = replace(gone, billed=Billed(billed_until=20 * 3600.0))
    assert list(hours_changed(gone, told, booked_until=99)) == list(range(19, 31))
    never = replace(gone, used_ms=None)
    assert list(hours_changed(bill(ready_ms=H), never, booked_until=99)) == list(range(31))
    free = replace(told, rule=replace(RULE, free_if_reclaimed_within_s=10**6))
    reclaimed = replace(free, billed=replace(told.billed, ended_by=EndedBy.RECLAIMED))
    assert list(hours_changed(free, reclaimed, booked_until=99)) == list(range(31))


def test_parts_are_whole_and_ties_go_to_the_lower_id() -> None:
    third = Fraction(1)
    assert split(10, [("b", third), ("a", third), ("c", third)]) == {"a": 4, "b": 3, "c": 3}


# ---- periods -------------------------------------------------------------------------------------


def steps(since: str, until: str, zone: str, step: Step) -> list[tuple[str, str, int]]:
    found = steps_between(
        since=since, until=until, time_zone=zone, step=step, now=0.0, moment=parse_moment
    )
    return [(hour_text(a), hour_text(b), b - a) for a, b in found]


def test_days_have_23_and_25_hours_where_clocks_change() -> None:
    autumn = steps("2026-10-24", "2026-10-27", "Europe/Berlin", Step.DAY)
    assert [hours for _, _, hours in autumn] == [24, 25, 24]
    assert autumn[1][:2] == ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")
    spring = steps("2026-03-28", "2026-03-31", "Europe/Berlin", Step.DAY)
    assert [hours for _, _, hours in spring] == [24, 23, 24]
    months = steps("2026-10", "2027-01", "Europe/Berlin", Step.MONTH)
    assert [hours for _, _, hours in months] == [745, 720, 744]
    utc = steps("2026-10", "2026-11", "", Step.WHOLE)
    assert utc == [("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", 744)]


def test_all_that_is_wrong_with_a_period_is_told_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        steps("yesterday", "2026-13-01", "Mars/Olympus", Step.DAY)
    assert [path for path, _ in refused.value.problems] == ["tz", "from", "to"]
    with pytest.raises(InvalidRequest, match="must be after from"):
        steps("2026-10-02", "2026-10-01", "", Step.DAY)
    with pytest.raises(InvalidRequest, match="more than 10000 steps"):
        steps("2024-01-01", "2026-01-01", "", Step.HOUR)


@pytest.mark.parametrize("zone", ["", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("step", [Step.WHOLE, Step.MONTH])
@pytest.mark.parametrize(
    ("since", "until", "wrong"),
    [
        ("0001-01-01", "2026-10", ["from"]),
        ("1969-12", "1969-12-31T23:59:59Z", ["from", "to"]),
        ("9998-12-01", "9999-01-01", ["to"]),
        ("9999-12-31", "9999-12-31T23:30:00Z", ["from", "to"]),
        ("1970-01-01", "1970-02", []),
        ("9998-12-01", "9998-12-31T23:59:59-23:59", []),
        ("1970-01-01T00:00:00+23:59", "1970-01-02T00:00:00+14:00", []),
    ],
)
def test_a_question_is_of_years_that_a_calendar_has_with_what_is_around(
    since: str, until: str, wrong: list[str], step: Step, zone: str
) -> None:
    if not wrong:
        assert len(steps(since, until, zone, step)) < 4
        return
    with pytest.raises(InvalidRequest, match="must be in a year from 1970 to 9998") as refused:
        steps(since, until, zone, step)
    assert [path for path, _ in refused.value.problems] == wrong


# ---- reports -------------------------------------------------------------------------------------


def group(column: Column, *, project: str = "", user: str = "", **more: object) -> CostGroup:
    given: dict[str, object] = {
        "project": project,
        "user": user,
        "job_name": "",
        "labels": (),
        "type_name": "small",
        "preemptible": False,
        "zone": "",
        "state": BilledState.WORK if column is Column.DIRECT else BilledState.EMPTY,
        "column": column,
        "cause": "",
        "outcome": CostOutcome.USEFUL,
        "price_source": PriceSource.CONFIG,
    }
    return CostGroup(**(given | more))  # type: ignore[arg-type]  # by name


def totals(**by_name: tuple[CostGroup, int]) -> dict[CostGroup, Total]:
    return {g: Total(quantity_ms=grains, grains=grains) for g, grains in by_name.values()}


BOOKED = totals(
    alice=(group(Column.DIRECT, project="p", user="alice"), 200),
    bob=(group(Column.DIRECT, project="q", user="bob", outcome=CostOutcome.LOST_FAILED), 100),
    boot=(group(Column.CAUSED, project="p", user="alice"), 30),
    idle=(group(Column.SHARED), 100),
    large=(group(Column.SHARED, type_name="large"), 7),
)
ALL = Seen(everything=True)


def told(idle: Idle, seen: Seen, *by: str, **only: str) -> dict[tuple[str, ...], Amounts]:
    rows = rows_of([BOOKED], by, idle=idle, seen=seen, only=only)
    return {each.values: each.amounts for each in rows}


def test_rows_are_by_dimension_and_add_up_to_all() -> None:
    rows = told(Idle.SEPARATE, ALL, "project")
    assert {values: amounts.total for values, amounts in rows.items()} == {
        ("(none)",): 107,
        ("p",): 230,
        ("q",): 100,
    }
    assert rows["q",].lost_work == 100
    assert rows["p",].caused == 30
    for by in (("user", "type"), (), ("market", "state", "zone")):
        report = rows_of([BOOKED], by, idle=Idle.SHARE, seen=ALL, only={})
        assert sum_of(report).total == 437


def test_idle_time_is_shared_by_those_who_worked_on_such_instances() -> None:
    rows = told(Idle.SHARE, ALL, "project")
    assert {values: amounts.shared for values, amounts in rows.items()} == {
        ("(none)",): 7,
        ("p",): 67,
        ("q",): 33,
    }


BILLED = {"price_source": PriceSource.BILL}
CORRECTED = totals(
    ana=(group(Column.DIRECT, project="p", user="ana", job_name="a"), 100),
    less=(group(Column.DIRECT, project="p", user="ana", job_name="a", **BILLED), -40),
    lost=(group(Column.DIRECT, project="p", user="ana", job_name="b", **BILLED), -20),
    bob=(group(Column.DIRECT, project="q", user="bob", job_name="c", **BILLED), -90),
    cat=(group(Column.DIRECT, project="q", user="cat", job_name="d"), 120),
    idle=(group(Column.SHARED), 160),
)


@pytest.mark.parametrize("by", [("user",), ("user", "job"), ("user", "price_source"), ("project",)])
def test_idle_time_is_shared_by_what_work_cost_with_its_corrections(by: tuple[str, ...]) -> None:
    rows = rows_of([CORRECTED], by, idle=Idle.SHARE, seen=ALL, only={})
    shared: dict[str, int] = {}
    for row in rows:
        assert row.amounts.shared >= 0
        shared[row.values[0]] = shared.get(row.values[0], 0) + row.amounts.shared
    assert {name: amount for name, amount in shared.items() if amount} == (
        {"p": 40, "q": 120} if by == ("project",) else {"ana": 40, "cat": 120}
    )
    assert sum_of(rows).total == sum(total.grains for total in CORRECTED.values())


@pytest.mark.parametrize("less", [-100, -101])
def test_where_all_work_is_taken_back_idle_time_stays_nobodys(less: int) -> None:
    steps = totals(
        ana=(group(Column.DIRECT, project="p", user="ana"), 100),
        less=(group(Column.DIRECT, project="p", user="ana", **BILLED), less),
        idle=(group(Column.SHARED), 30),
    )
    rows = rows_of([steps], ("user",), idle=Idle.SHARE, seen=ALL, only={})
    assert [(row.values, row.amounts.shared) for row in rows] == [(("(none)",), 30), (("ana",), 0)]


@pytest.mark.parametrize(
    ("seen", "values"),
    [
        (ALL, {"(none)", "alice", "bob"}),
        (Seen(projects=frozenset({"p"})), {"alice"}),
        (Seen(user="bob", user_projects=frozenset({"q"})), {"bob"}),
        (Seen(user="bob", user_projects=frozenset({"p"})), set()),
        (Seen(projects=frozenset({""})), set()),
        (Seen(), set()),
    ],
)
def test_nobody_sees_what_others_cost_nor_what_is_nobodys(seen: Seen, values: set[str]) -> None:
    assert {each for (each,) in told(Idle.SEPARATE, seen, "user")} == values


def test_filters_leave_the_rest_out() -> None:
    assert told(Idle.SEPARATE, ALL, project="q")[()].total == 100
    assert told(Idle.SEPARATE, ALL, type="large")[()].total == 7
