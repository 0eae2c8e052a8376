"""Budgets: what is told at which step, once each, and from when until when new work is stopped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cost.budgets import (
    TRANSITIONS,
    BudgetNotice,
    BudgetNoticeKind,
    BudgetSignal,
    BudgetUse,
    BudgetVerdict,
    CostBudget,
    Included,
    StopRule,
    budget_period,
    columns_of,
    counts_for,
    judge_budget,
)
from longshore.dispatcher.cost.forecast import SpendForecast
from longshore.dispatcher.cost.money import GRAINS_PER_USD
from longshore.dispatcher.domain.budgets import (
    BudgetMemory,
    BudgetPhase,
    BudgetScope,
    first_stop,
    is_of,
)
from longshore.dispatcher.domain.ledger import (
    Account,
    Column,
)
from longshore.dispatcher.domain.periods import PeriodKind, period_at

BERLIN = "Europe/Berlin"
BUDGET = CostBudget(
    name="vision",
    scope=BudgetScope.PROJECT,
    whose="vision",
    limit_grains=1000 * GRAINS_PER_USD,
    period=PeriodKind.MONTH,
    time_zone=BERLIN,
    stop=StopRule.NEW,
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN)).timestamp()


NOON = at("2026-11-10T12:00")
DAY_S = 86_400.0


def use(spent: float, *, committed: float = 0, likely: float | None = None) -> BudgetUse:
    forecast = None
    if likely is not None:
        middle = int(likely * GRAINS_PER_USD)
        forecast = SpendForecast(
            p10_grains=middle * 9 // 10, p50_grains=middle, p90_grains=middle * 11 // 10
        )
    return BudgetUse(
        spent_grains=int(spent * GRAINS_PER_USD),
        committed_grains=int(committed * GRAINS_PER_USD),
        forecast=forecast,
    )


def limited(usd: int, budget: CostBudget = BUDGET) -> CostBudget:
    return replace(budget, limit_grains=usd * GRAINS_PER_USD)


def told(verdict: BudgetVerdict) -> list[tuple[BudgetNoticeKind, int]]:
    return [(each.kind, each.percent) for each in verdict.notices]


def story(
    steps: Sequence[tuple[CostBudget, float, BudgetUse]],
) -> tuple[list[list[str]], list[bool]]:
    """Return what is told at each step, and whether it stops then; each goes by a restart."""
    memory: BudgetMemory | None = None
    words, stops = [], []
    for budget, now, used in steps:
        verdict = judge_budget(budget, used, now, memory)
        memory = restarted(verdict.memory)
        words.append([f"{k.value} {p}" if p else k.value for k, p in told(verdict)])
        stops.append(verdict.stop is not None)
    return words, stops


def restarted(memory: BudgetMemory) -> BudgetMemory:
    """Return what is read again of what was written."""
    return msgspec.json.decode(msgspec.json.encode(memory), type=BudgetMemory)


def test_each_step_is_told_once_and_none_is_taken_back() -> None:
    words, stops = story(
        [
            (BUDGET, NOON, use(499.99)),
            (BUDGET, NOON, use(500)),
            (BUDGET, NOON, use(499)),
            (BUDGET, NOON, use(510)),
            (BUDGET, NOON, use(900)),
            (BUDGET, NOON, use(950)),
        ]
    )
    assert words == [[], ["step 50"], [], [], ["step 80"], []]
    assert not any(stops)


def test_a_jump_tells_all_steps_in_order_and_stops() -> None:
    words, stops = story([(BUDGET, NOON, use(1000))])
    assert words == [["step 50", "step 80", "step 100", "stopped"]]
    assert stops == [True]


def test_it_stops_to_the_end_of_the_period_also_when_a_correction_comes() -> None:
    last = at("2026-11-30T23:59:59")
    words, stops = story(
        [
            (BUDGET, NOON, use(1000)),
            (BUDGET, NOON + 60, use(990)),
            (BUDGET, last, use(1100)),
            (BUDGET, last + 1, use(0)),
        ]
    )
    assert words[1:] == [[], [], ["resumed"]]
    assert stops == [True, True, True, False]


def test_a_raised_limit_lets_new_work_begin_and_makes_new_steps() -> None:
    more = limited(2000)
    words, stops = story(
        [
            (BUDGET, NOON, use(1000)),
            (more, NOON, use(1000)),
            (more, NOON, use(1600)),
            (more, NOON, use(2000)),
        ]
    )
    assert words[1:] == [["resumed"], ["step 80"], ["step 100", "stopped"]]
    assert stops == [True, False, False, True]


def test_a_limit_that_is_raised_too_little_stops_still_and_tells_nothing() -> None:
    little, more = limited(1010), limited(1030)
    words, stops = story(
        [
            (BUDGET, NOON, use(1020)),
            (little, NOON, use(1020)),
            (more, NOON, use(1020)),
        ]
    )
    assert words[1:] == [[], ["resumed"]]
    assert stops == [True, True, False]


def test_a_limit_that_is_lowered_and_put_back_is_no_raise() -> None:
    words, stops = story(
        [
            (BUDGET, NOON, use(1000)),
            (limited(500), NOON, use(1000)),
            (BUDGET, NOON, use(990)),
        ]
    )
    assert words[1:] == [[], []]
    assert stops == [True, True, True]


def test_a_budget_without_stop_tells_and_stops_nothing() -> None:
    free = replace(BUDGET, stop=StopRule.NONE)
    words, stops = story(
        [(free, NOON, use(1200)), (BUDGET, NOON, use(1200)), (free, NOON, use(1200))]
    )
    assert words == [["step 50", "step 80", "step 100"], ["stopped"], ["resumed"]]
    assert stops == [False, True, False]


def test_a_period_that_begins_spent_stops_as_one_of_its_own() -> None:
    later = at("2026-12-01T00:00")
    words, stops = story([(BUDGET, NOON, use(1000)), (BUDGET, later, use(1000))])
    assert words[1] == ["step 50", "step 80", "step 100", "stopped"]
    assert stops == [True, True]


def test_a_clock_that_is_put_back_opens_no_period_again() -> None:
    december = at("2026-12-01T00:00")
    memory = judge_budget(BUDGET, use(1000), december, None).memory
    assert budget_period(BUDGET, december - 1, memory) == memory.period
    assert budget_period(BUDGET, december - 1, None).name == "2026-11"
    verdict = judge_budget(BUDGET, use(1000), december - 1, memory)
    assert (told(verdict), verdict.stop is not None) == ([], True)


def test_the_forecast_is_told_when_it_goes_over_and_once_a_day_at_most() -> None:
    over, under = use(300, likely=1000), use(300, likely=999.99)
    words, _ = story(
        [
            (BUDGET, NOON, under),
            (BUDGET, NOON, over),
            (BUDGET, NOON + 60, over),
            (BUDGET, NOON + 120, under),
            (BUDGET, NOON + 180, over),
            (BUDGET, NOON + DAY_S, under),
            (BUDGET, NOON + DAY_S, over),
            (BUDGET, NOON + DAY_S, over),
            # None was made since: it is as it was.
            (BUDGET, NOON + 2 * DAY_S, use(300)),
            (BUDGET, NOON + 2 * DAY_S, over),
        ]
    )
    assert words == [[], ["forecast"], [], [], [], [], ["forecast"], [], [], []]


@pytest.mark.parametrize(
    ("budget", "used"),
    [
        (replace(BUDGET, forecast=False), use(300, likely=2000)),
        (BUDGET, use(300)),
        (replace(BUDGET, warn=()), use(1000, likely=2000)),
    ],
    ids=["not wanted", "not known", "spent already"],
)
def test_the_forecast_is_not_told_where_it_says_nothing(
    budget: CostBudget, used: BudgetUse
) -> None:
    verdict = judge_budget(budget, used, NOON, None)
    assert BudgetNoticeKind.FORECAST not in {each.kind for each in verdict.notices}


def test_the_sentences_say_what_is_spent_what_runs_and_when_it_ends() -> None:
    verdict = judge_budget(BUDGET, use(1012.4, committed=31.2), NOON, None)
    assert [each.sentence for each in verdict.notices][2:] == [
        (
            "Budget vision has reached 100 %: 1,012.40 of 1,000.00 USD in 2026-11; what runs may"
            " add 31.20 USD."
        ),
        (
            "Budget vision is spent: 1,012.40 of 1,000.00 USD in 2026-11. Nothing new of project"
            " vision starts until 2026-12-01 (Europe/Berlin), or until an admin raises"
            " budgets.vision.limit; what runs goes on, and may add 31.20 USD."
        ),
    ]
    assert verdict.stop is not None
    assert (verdict.stop.until, verdict.stop.next_on) == (at("2026-12-01"), "2026-12-01")
    assert verdict.stop.sentence == (
        "budget vision is spent (1,012.40 of 1,000.00 USD in 2026-11), so that nothing new of"
        " project vision starts until 2026-12-01 (Europe/Berlin), unless an admin raises"
        " budgets.vision.limit"
    )
    likely = judge_budget(BUDGET, use(300, likely=1200), NOON, None).notices[0]
    assert likely.sentence == (
        "Budget vision will likely be overspent by 2026-12-01 (Europe/Berlin): about 1,200.00 USD"
        " are to be expected, and likely 1,080.00 to 1,320.00 USD; 300.00 of 1,000.00 USD in"
        " 2026-11 so far, and what runs may add 0.00 USD."
    )
    again = judge_budget(BUDGET, use(0), at("2026-12-01"), verdict.memory).notices[0]
    assert again.sentence == (
        "Budget vision lets project vision start new work again: 0.00 of 1,000.00 USD in 2026-12."
    )


@pytest.mark.parametrize(
    ("scope", "whose"), [(BudgetScope.LABEL, "team=secret"), (BudgetScope.USER, "ann")]
)
def test_who_waits_is_not_told_what_others_spent(scope: BudgetScope, whose: str) -> None:
    verdict = judge_budget(replace(BUDGET, scope=scope, whose=whose), use(1012.4), NOON, None)
    assert verdict.stop is not None
    assert verdict.stop.sentence == (
        f"budget vision is spent, so that nothing new of {scope.value} {whose} starts until"
        " 2026-12-01 (Europe/Berlin), unless an admin raises budgets.vision.limit"
    )
    assert "1,012.40 of 1,000.00 USD" in verdict.notices[-1].sentence


def test_what_is_told_has_keys_of_its_own_that_a_header_can_carry() -> None:
    words: list[BudgetNotice] = []
    for budget in (BUDGET, limited(2000)):
        for now in (NOON, at("2026-12-03")):
            words += judge_budget(budget, use(300, likely=2000), now, None).notices
            words += judge_budget(budget, use(2000), now, None).notices
    keys = [each.key for each in words]
    assert len(set(keys)) == len(keys) == 20
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,120}", each) for each in keys)


ANN = Account(project="vision", user="ann", labels=(("team", "a"), ("tier", "1")))


@pytest.mark.parametrize(
    ("scope", "whose", "matches"),
    [
        (BudgetScope.PROJECT, "vision", True),
        (BudgetScope.PROJECT, "ann", False),
        (BudgetScope.USER, "ann", True),
        (BudgetScope.USER, "vision", False),
        (BudgetScope.LABEL, "team=a", True),
        (BudgetScope.LABEL, "team=1", False),
        (BudgetScope.LABEL, "tier=1", True),
    ],
)
def test_a_budget_is_of_whom_it_names(scope: BudgetScope, whose: str, matches: bool) -> None:
    assert is_of(scope, whose, ANN) is matches


def test_of_several_budgets_that_stop_the_first_by_name_counts() -> None:
    names = ("c", "d", "b")
    budgets = [replace(BUDGET, name=name) for name in names]
    budgets.append(replace(BUDGET, name="0", whose="other"))
    found = (judge_budget(each, use(1000), NOON, None).stop for each in budgets)
    stops = [each for each in found if each is not None]
    assert len(stops) == 4
    first = first_stop(ANN, stops)
    assert first is not None
    assert first.budget == "b"
    assert first_stop(Account(project="quiet"), stops) is None
    assert first_stop(ANN, ()) is None


def test_which_lines_count() -> None:
    assert columns_of(Included.DIRECT) == {Column.DIRECT, Column.CAUSED}
    assert not counts_for(BUDGET, ANN, Column.SHARED)
    assert counts_for(BUDGET, ANN, Column.CAUSED)
    shared = replace(BUDGET, included=Included.WITH_SHARED)
    assert counts_for(shared, ANN, Column.SHARED)
    assert not counts_for(shared, Account(project="other"), Column.SHARED)


def test_the_table_says_what_follows_of_every_signal() -> None:
    assert set(TRANSITIONS) == set(BudgetPhase)
    assert all(set(row) == set(BudgetSignal) for row in TRANSITIONS.values())


@given(
    st.lists(st.tuples(st.integers(0, 40 * 86_400), st.integers(0, 1500)), min_size=1, max_size=30)
)
def test_whatever_comes_is_told_once_and_stops_to_its_end(path: list[tuple[int, int]]) -> None:
    memory: BudgetMemory | None = None
    keys: list[str] = []
    stopped_until = 0.0
    for after_s, spent in sorted(path, key=lambda each: each[0]):
        now = NOON + after_s
        verdict = judge_budget(BUDGET, use(spent), now, memory)
        if now < stopped_until or spent >= 1000:
            assert verdict.stop is not None
            stopped_until = period_at(PeriodKind.MONTH, BERLIN, now).ends_at
        else:
            assert verdict.stop is None
        keys += [each.key for each in verdict.notices]
        memory = restarted(verdict.memory)
    assert len(set(keys)) == len(keys)
