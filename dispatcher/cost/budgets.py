"""Budgets: what a project, a user or a label may spend in a period, and what follows; pure.

`judge_budget` is asked again and again, whenever what was spent is known anew: it is given what a
budget's lines add up to, and what was told before (`BudgetMemory`, which the store keeps, so that a
restart tells nothing twice). It returns what is to be told now, what is to be remembered, and
whether the budget stops new work.

In a period each step of `warn` is told once; a correction that lowers what was spent takes none
back. A limit that is raised makes new steps of those that are not reached of it: they are other
amounts. The forecast is told when it goes over the limit, once a day at most.

A budget stops new work from when its limit is spent, if it is to (`StopRule`). What runs goes on,
so that it may be overspent by what that adds: `committed`. It stops for the rest of the period,
also when a correction lowers what was spent: work that starts and stops by turns helps nobody. Only
a raised limit, or a budget that is not to stop anything any more, ends it before. `TRANSITIONS` has
all of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, assert_never

from longshore.dispatcher.cost.forecast import SpendForecast
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.domain.budgets import (
    BudgetMemory,
    BudgetPhase,
    BudgetScope,
    BudgetStop,
    is_of,
)
from longshore.dispatcher.domain.ledger import Account, Column
from longshore.dispatcher.domain.periods import Period, PeriodKind, period_at


class Included(Enum):
    """Which lines of them count."""

    #: Shares of instances, and what was bought for them and never used.
    DIRECT = "direct"
    #: Also what is booked to them though nobody used it: holds, warm instances, daemons.
    WITH_SHARED = "with_shared"


class StopRule(Enum):
    """What a budget does once its limit is spent."""

    #: It tells, no more.
    NONE = "none"
    #: Nothing new is started, and nothing bought.
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBudget:
    """One budget, as configured."""

    name: str
    scope: BudgetScope
    #: The name of the project or user; of a label, "KEY=VALUE".
    whose: str
    #: In grains (`money`), more than 0.
    limit_grains: int
    period: PeriodKind
    time_zone: str = "UTC"
    included: Included = Included.DIRECT
    #: Per cent of the limit, ascending.
    warn: tuple[int, ...] = (50, 80, 100)
    #: Whether it is told that the forecast is over the limit.
    forecast: bool = True
    stop: StopRule = StopRule.NONE

    @property
    def subject(self) -> str:
        """Return whose it is, in words: "project vision"."""
        return f"{self.scope.value} {self.whose}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """What is known of a budget in its period, in grains."""

    spent_grains: int
    #: What that which runs may still add, to its expected end.
    committed_grains: int = 0
    #: Of the whole period; None where none was made since the last verdict, which counts on.
    forecast: SpendForecast | None = None


class BudgetSignal(Enum):
    """What is seen of a budget, for its transitions."""

    WITHIN = "less than the limit is spent"
    REACHED = "the limit is spent"
    RAISED = "the limit is above the one that was spent, and not spent"
    RENEWED = "another period has begun"
    FREED = "it is not to stop anything"


_OPEN, _STOPPED = BudgetPhase.OPEN, BudgetPhase.STOPPED

TRANSITIONS: Final[Mapping[BudgetPhase, Mapping[BudgetSignal, BudgetPhase]]] = {
    _OPEN: {
        BudgetSignal.WITHIN: _OPEN,
        BudgetSignal.REACHED: _STOPPED,
        BudgetSignal.RAISED: _OPEN,
        BudgetSignal.RENEWED: _OPEN,
        BudgetSignal.FREED: _OPEN,
    },
    _STOPPED: {
        BudgetSignal.WITHIN: _STOPPED,
        BudgetSignal.REACHED: _STOPPED,
        BudgetSignal.RAISED: _OPEN,
        BudgetSignal.RENEWED: _OPEN,
        BudgetSignal.FREED: _OPEN,
    },
}


class BudgetNoticeKind(Enum):
    """What is told of a budget."""

    STEP = "step"
    FORECAST = "forecast"
    STOPPED = "stopped"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetNotice:
    """One thing to be told: an event, and a notification."""

    #: The same for the same thing, and of letters, digits, `_` and `-`: who hears it twice knows.
    key: str
    kind: BudgetNoticeKind
    budget: str
    period: str
    #: The step; 0 for what is none.
    percent: int
    limit_grains: int
    spent_grains: int
    committed_grains: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetVerdict:
    """What follows of what is known of a budget now."""

    #: To be stored together with `notices`, before they are told.
    memory: BudgetMemory
    notices: tuple[BudgetNotice, ...]
    #: None where new work may begin.
    stop: BudgetStop | None


def judge_budget(
    budget: CostBudget, use: BudgetUse, now: float, memory: BudgetMemory | None
) -> BudgetVerdict:
    """Return what is to be told and remembered of a budget, and whether it stops new work.

    `use` is of the period that `budget_period` tells; `now` is in seconds since the epoch; `memory`
    is of the last verdict, None where there was none.
    """
    period = budget_period(budget, now, memory)
    known = _carried_over(budget, use, period, memory)
    phase = BudgetPhase.OPEN if memory is None else memory.phase
    was_stopped = phase is BudgetPhase.STOPPED
    for signal in _signals(budget, use, period, memory):
        phase = TRANSITIONS[phase][signal]
    is_stopped = phase is BudgetPhase.STOPPED
    stops_anew = is_stopped and known.phase is not BudgetPhase.STOPPED
    steps = _steps_to_tell(budget, use, known)
    day = period_at(PeriodKind.DAY, budget.time_zone, now).name
    is_over = _is_forecast_over(budget, use, known)
    tells_forecast = is_over and not known.forecast_is_over and day != known.forecast_told_on
    notices = [_notice(BudgetNoticeKind.STEP, budget, use, period, percent=each) for each in steps]
    if tells_forecast:
        notices.append(_notice(BudgetNoticeKind.FORECAST, budget, use, period, day=day))
    if stops_anew:
        notices.append(_notice(BudgetNoticeKind.STOPPED, budget, use, period))
    if was_stopped and not is_stopped:
        notices.append(_notice(BudgetNoticeKind.RESUMED, budget, use, period))
    remembered = replace(
        known,
        phase=phase,
        stopped_at_grains=budget.limit_grains if stops_anew else known.stopped_at_grains,
        steps_told=tuple(sorted({*known.steps_told, *steps})),
        forecast_is_over=is_over,
        forecast_told_on=day if tells_forecast else known.forecast_told_on,
    )
    stop = _stop(budget, use, period) if is_stopped else None
    return BudgetVerdict(memory=remembered, notices=tuple(notices), stop=stop)


def budget_period(budget: CostBudget, now: float, memory: BudgetMemory | None) -> Period:
    """Return the period that counts at `now`, whose lines are to be added up.

    A clock that is put back does not open a period again that is over.
    """
    found = period_at(budget.period, budget.time_zone, now)
    if memory is not None and now < memory.period.starts_at:
        return memory.period
    return found


def counts_for(budget: CostBudget, account: Account, column: Column) -> bool:
    """Return whether a budget adds up what is booked to an account in a column of the ledger."""
    return is_of(budget.scope, budget.whose, account) and column in columns_of(budget.included)


def columns_of(included: Included) -> frozenset[Column]:
    """Return the columns of the ledger that count."""
    match included:
        case Included.DIRECT:
            return frozenset({Column.DIRECT, Column.CAUSED})
        case Included.WITH_SHARED:
            return frozenset(Column)
        case _:
            assert_never(included)


def _carried_over(
    budget: CostBudget, use: BudgetUse, period: Period, memory: BudgetMemory | None
) -> BudgetMemory:
    """Return what was told that still counts: of this period, and of this limit or a higher one."""
    if memory is None or memory.period != period:
        return BudgetMemory(period=period, limit_grains=budget.limit_grains)
    if budget.limit_grains <= memory.limit_grains:
        return replace(memory, limit_grains=budget.limit_grains)
    still = tuple(each for each in memory.steps_told if _is_reached(each, budget, use))
    return replace(memory, limit_grains=budget.limit_grains, steps_told=still)


def _signals(
    budget: CostBudget, use: BudgetUse, period: Period, memory: BudgetMemory | None
) -> Sequence[BudgetSignal]:
    """Return what is seen, in the order in which it counts."""
    seen: list[BudgetSignal] = []
    if memory is not None and memory.period != period:
        seen.append(BudgetSignal.RENEWED)
    match budget.stop:
        case StopRule.NONE:
            return [*seen, BudgetSignal.FREED]
        case StopRule.NEW:
            if use.spent_grains >= budget.limit_grains:
                return [*seen, BudgetSignal.REACHED]
        case _:
            assert_never(budget.stop)
    if memory is not None and budget.limit_grains > memory.stopped_at_grains:
        seen.append(BudgetSignal.RAISED)
    return [*seen, BudgetSignal.WITHIN]


def _steps_to_tell(budget: CostBudget, use: BudgetUse, known: BudgetMemory) -> Sequence[int]:
    """Return the steps that are reached and were not told yet, in order."""
    untold = [each for each in budget.warn if each not in known.steps_told]
    return [each for each in untold if _is_reached(each, budget, use)]


def _is_reached(percent: int, budget: CostBudget, use: BudgetUse) -> bool:
    return 100 * use.spent_grains >= percent * budget.limit_grains


def _is_forecast_over(budget: CostBudget, use: BudgetUse, known: BudgetMemory) -> bool:
    """Return whether the limit will likely be spent, and is not yet: then there is no more to."""
    if not budget.forecast or use.spent_grains >= budget.limit_grains:
        return False
    if use.forecast is None:
        return known.forecast_is_over
    return use.forecast.p50_grains >= budget.limit_grains


def _stop(budget: CostBudget, use: BudgetUse, period: Period) -> BudgetStop:
    return BudgetStop(
        budget=budget.name,
        scope=budget.scope,
        whose=budget.whose,
        until=period.ends_at,
        next_on=period.next_on,
        sentence=(
            f"budget {budget.name} is spent{_spent_if_shown(budget, use, period)}, so that nothing"
            f" new of {budget.subject} starts until {_next_day(budget, period)}, unless an admin"
            f" raises budgets.{budget.name}.limit"
        ),
    )


def _spent_if_shown(budget: CostBudget, use: BudgetUse, period: Period) -> str:
    """Return in brackets what is spent, "" where who waits, or sees somebody wait, may not know it.

    Anybody can submit with a label, and a user's colleagues see the user's containers, but not what
    the user spends elsewhere. Who sees a container sees its project's budget.
    """
    match budget.scope:
        case BudgetScope.PROJECT:
            return f" ({_spent_of(budget, use, period)})"
        case BudgetScope.USER | BudgetScope.LABEL:
            return ""
        case _:
            assert_never(budget.scope)


def _notice(
    kind: BudgetNoticeKind,
    budget: CostBudget,
    use: BudgetUse,
    period: Period,
    *,
    percent: int = 0,
    day: str = "",
) -> BudgetNotice:
    which = str(percent) if percent else day
    parts = (budget.name, period.name, kind.value, which, str(budget.limit_grains))
    return BudgetNotice(
        key="_".join(each for each in parts if each),
        kind=kind,
        budget=budget.name,
        period=period.name,
        percent=percent,
        limit_grains=budget.limit_grains,
        spent_grains=use.spent_grains,
        committed_grains=use.committed_grains,
        sentence=_sentence(kind, budget, use, period, percent),
    )


def _sentence(
    kind: BudgetNoticeKind, budget: CostBudget, use: BudgetUse, period: Period, percent: int
) -> str:
    spent = _spent_of(budget, use, period)
    running = f"what runs may add {_dollars(use.committed_grains)} USD"
    match kind:
        case BudgetNoticeKind.STEP:
            return f"Budget {budget.name} has reached {percent} %: {spent}; {running}."
        case BudgetNoticeKind.FORECAST:
            return (
                f"Budget {budget.name} will likely be overspent by {_next_day(budget, period)}:"
                f" {_likely(use.forecast)}; {spent} so far, and {running}."
            )
        case BudgetNoticeKind.STOPPED:
            return (
                f"Budget {budget.name} is spent: {spent}. Nothing new of {budget.subject} starts"
                f" until {_next_day(budget, period)}, or until an admin raises"
                f" budgets.{budget.name}.limit; what runs goes on, and may add"
                f" {_dollars(use.committed_grains)} USD."
            )
        case BudgetNoticeKind.RESUMED:
            return f"Budget {budget.name} lets {budget.subject} start new work again: {spent}."
        case _:
            assert_never(kind)


def _spent_of(budget: CostBudget, use: BudgetUse, period: Period) -> str:
    spent, limit = _dollars(use.spent_grains), _dollars(budget.limit_grains)
    return f"{spent} of {limit} USD in {period.name}"


def _likely(forecast: SpendForecast | None) -> str:
    if forecast is None:
        return "there is no forecast"
    low, middle, high = (
        _dollars(each) for each in (forecast.p10_grains, forecast.p50_grains, forecast.p90_grains)
    )
    return f"about {middle} USD are to be expected, and likely {low} to {high} USD"


def _next_day(budget: CostBudget, period: Period) -> str:
    return f"{period.next_on} ({budget.time_zone})"


def _dollars(grains: int) -> str:
    """Return an amount as it is shown: with cents."""
    return f"{in_dollars(grains):,.2f}"
