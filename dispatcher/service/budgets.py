"""Budgets at work: what was spent is looked at again and again, and what follows is done.

Theory of operation. Each look adds up what the ledger has of each budget's period, up to now, and
has each budget judged (`cost.budgets`). What is to be remembered and what is to be told are
committed together, and only then told: as events, to webhooks, and to the engine, which holds new
work back. So a process that is killed at any moment tells nothing twice, but for a notification
that was sent and not yet forgotten, which has the same id both times. A start looks once before
the engine's first pass (`stops_at_start`) and changes nothing: whoever was stopped stays stopped.

Between two looks work may begin that a spent budget would have held back: a budget is overspent by
what runs when a look finds it spent, and by no more.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from longshore.dispatcher.cost.budget_use import (
    RunningWork,
    committed_grains,
    forecast_of,
    hours_in,
    spent_grains,
)
from longshore.dispatcher.cost.budgets import (
    BudgetUse,
    BudgetVerdict,
    CostBudget,
    budget_period,
    judge_budget,
)
from longshore.dispatcher.cost.forecast import MOST_DAYS, SpendForecast
from longshore.dispatcher.cost.rollups import Totals
from longshore.dispatcher.domain.budgets import BudgetMemory, BudgetScope, BudgetStop
from longshore.dispatcher.domain.messages import BudgetStopsChanged, SaveBudget
from longshore.dispatcher.domain.periods import PeriodKind, days_of, period_at
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.service.costs import totals_until
from longshore.dispatcher.service.running_work import running_work
from longshore.dispatcher.service.telling import Teller, Told, told_of_budget
from longshore.dispatcher.service.unusual_days import (
    days_to_look_at,
    last_looked_at,
    looked_at,
    told_of_day,
    unusual_days,
)
from longshore.dispatcher.store.errors import StoreBusy, StoreClosed
from longshore.dispatcher.store.store import Store

LOOK_EACH_S = 30.0
"""How often what was spent is looked at."""

_HOUR_S = 3600
_DAY_S = 86_400.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """What there is to look at."""

    budgets: tuple[CostBudget, ...] = ()
    #: The keys of the labels that the ledger keeps apart.
    labels: frozenset[str] = frozenset()
    #: How much above the usual a project's day must be to be told, in grains; None for no day.
    unusual_day_grains: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStanding:
    """Where a budget stands, as of the last look."""

    budget: CostBudget
    use: BudgetUse
    memory: BudgetMemory
    #: The last that was made in this period, and at least what is spent; None before the first.
    forecast: SpendForecast | None
    stop: BudgetStop | None
    as_of: float


class BudgetService:
    """Looks at budgets and answers for them; used on the loop's thread."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        store: Store,
        teller: Teller,
        settings: BudgetSettings,
        now: Callable[[], float],
    ) -> None:
        self._runtime, self._store, self._teller = runtime, store, teller
        self._settings, self._now = settings, now
        records = store.ledger.budgets()
        self._memories = dict(records.memories)
        self._standings: dict[str, BudgetStanding] = {}
        self._stops: tuple[BudgetStop, ...] = runtime.view.budget_stops
        #: For which hour each was forecast last, and which day was looked at last.
        self._forecast_hours: dict[str, int] = {}
        self._day_looked_at = last_looked_at(records.unusual_days)

    def standings(self, caller: Principal) -> Sequence[BudgetStanding]:
        """Return the budgets that concern a caller, by name; () before the first look.

        A user sees those of its projects and its own, an admin all.
        """
        found = self.all_standings()
        return [each for each in found if concerns(each.budget.scope, each.budget.whose, caller)]

    def all_standings(self) -> Sequence[BudgetStanding]:
        """Return all budgets, by name; () before the first look."""
        return [each for _, each in sorted(self._standings.items())]

    async def look_for_ever(self) -> None:
        """Look again and again, until cancelled; what fails is tried again."""
        while True:
            try:
                await self.look()
            except (StoreBusy, StoreClosed) as error:
                _log.warning("budgets cannot be looked at now", error=str(error))
            await asyncio.sleep(LOOK_EACH_S)

    async def look(self) -> None:
        """Judge all budgets once, commit what follows, tell it, and tell the engine.

        Raises `StoreBusy` and `StoreClosed`: then nothing was told that is not committed.
        """
        if self._settings.budgets:
            await self._look_at_budgets()
        if self._settings.unusual_day_grains is not None:
            await self._look_at_days(self._settings.unusual_day_grains)

    # ---- budgets -------------------------------------------------------------------------------

    async def _look_at_budgets(self) -> None:
        now = self._now()
        works = running_work(self._runtime.view, now)
        hour = int(now) // _HOUR_S
        names = (each.name for each in self._settings.budgets)
        due = frozenset(name for name in names if self._forecast_hours.get(name) != hour)
        reader = _SpendReader(self._store, self._settings, self._memories, works, now)
        uses = await asyncio.to_thread(reader.uses, due)
        changes: list[SaveBudget] = []
        told: list[Told] = []
        standings: dict[str, BudgetStanding] = {}
        for budget in self._settings.budgets:
            use = uses[budget.name]
            verdict = judge_budget(budget, use, now, self._memories.get(budget.name))
            if verdict.memory != self._memories.get(budget.name):
                changes.append(SaveBudget(name=budget.name, memory=verdict.memory))
            told += [told_of_budget(budget, notice, now) for notice in verdict.notices]
            standings[budget.name] = self._standing(budget, use, verdict, now)
        await self._teller.tell(changes, told)
        self._memories |= {each.name: each.memory for each in changes}
        self._forecast_hours |= dict.fromkeys(due, hour)
        self._standings = standings
        self._tell_engine()

    def _standing(
        self, budget: CostBudget, use: BudgetUse, verdict: BudgetVerdict, now: float
    ) -> BudgetStanding:
        known = self._standings.get(budget.name)
        is_same = known is not None and known.memory.period == verdict.memory.period
        forecast = use.forecast or (known.forecast if known is not None and is_same else None)
        return BudgetStanding(
            budget=budget,
            use=use,
            memory=verdict.memory,
            forecast=None if forecast is None else forecast.at_least(use.spent_grains),
            stop=verdict.stop,
            as_of=now,
        )

    def _tell_engine(self) -> None:
        """Tell the engine which budgets stop new work, if these are others than before.

        The sentence of one that goes on stays: what is spent grows at each look.
        """
        before = {(each.budget, each.until): each for each in self._stops}
        found = (each.stop for _, each in sorted(self._standings.items()))
        stops = tuple(
            before.get((each.budget, each.until), each) for each in found if each is not None
        )
        if stops != self._stops:
            self._stops = stops
            self._runtime.post_committed(BudgetStopsChanged(stops=stops))

    # ---- unusual days --------------------------------------------------------------------------

    async def _look_at_days(self, least_grains: int) -> None:
        """Look at each day that is over and booked, and was not looked at yet."""
        for day in days_to_look_at(self._day_looked_at, self._now()):
            found = await asyncio.to_thread(
                unusual_days, self._store, day, least_grains=least_grains
            )
            if found is None:
                return
            pairs = [told_of_day(each, self._now()) for each in found]
            changes = [*(change for change, _ in pairs), looked_at(day)]
            await self._teller.tell(changes, [told for _, told in pairs])
            self._day_looked_at = day.name


class _SpendReader:
    """Reads what is known of budgets at a moment; blocks."""

    def __init__(
        self,
        store: Store,
        settings: BudgetSettings,
        memories: Mapping[str, BudgetMemory],
        works: Sequence[RunningWork],
        now: float,
    ) -> None:
        self._store, self._settings, self._works, self._now = store, settings, works, now
        self._memories = dict(memories)
        #: The sums of the days of a zone, which all of its budgets are forecast from.
        self._of_days: dict[str, list[Totals]] = {}

    def uses(self, to_forecast: Collection[str]) -> dict[str, BudgetUse]:
        """Return what is known of each budget, with forecasts of some; raises `StoreBusy`."""
        now, found = self._now, {}
        budgets = self._settings.budgets
        periods = [budget_period(each, now, self._memories.get(each.name)) for each in budgets]
        totals = self._totals({hours_in(each, now) for each in periods})
        for budget, period in zip(budgets, periods, strict=True):
            spent = spent_grains(budget, totals[hours_in(period, now)])
            left_s = max(0.0, period.ends_at - now)
            use = BudgetUse(
                spent_grains=spent,
                committed_grains=committed_grains(budget, self._works, left_s),
            )
            if budget.name in to_forecast:
                forecast = forecast_of(
                    budget, period, now, days=self._days(budget), spent=spent, works=self._works
                )
                use = replace(use, forecast=forecast)
            found[budget.name] = use
        return found

    def _days(self, budget: CostBudget) -> list[int]:
        """Return what each whole day before today has cost in a budget's zone, the oldest first."""
        zone = budget.time_zone
        if zone not in self._of_days:
            self._of_days[zone] = self._totals_of_days(zone)
        return [spent_grains(budget, each) for each in self._of_days[zone]]

    def _totals_of_days(self, zone: str) -> list[Totals]:
        today = period_at(PeriodKind.DAY, zone, self._now)
        days = days_of(zone, today.starts_at - MOST_DAYS * _DAY_S, today.starts_at)
        spans = [
            (math.ceil(each.starts_at / _HOUR_S), math.ceil(each.ends_at / _HOUR_S))
            for each in days[-MOST_DAYS:]
        ]
        totals = self._totals(set(spans))
        return [totals[each] for each in spans]

    def _totals(self, spans: Collection[tuple[int, int]]) -> dict[tuple[int, int], Totals]:
        """Return the sums of spans of hours: many budgets have the same period."""
        ordered = sorted(spans)
        found, _ = totals_until(self._store, ordered, self._now, labels=self._settings.labels)
        return dict(zip(ordered, found, strict=True))


def stops_at_start(store: Store, settings: BudgetSettings, now: float) -> tuple[BudgetStop, ...]:
    """Return which budgets let nothing new begin, before the engine is there; nothing is told.

    It blocks, and raises `StoreBusy`.
    """
    if not settings.budgets:
        return ()
    memories = store.ledger.budgets().memories
    uses = _SpendReader(store, settings, memories, (), now).uses(())
    verdicts = (
        judge_budget(each, uses[each.name], now, memories.get(each.name))
        for each in settings.budgets
    )
    return tuple(each.stop for each in verdicts if each.stop is not None)


def concerns(scope: BudgetScope, whose: str, caller: Principal) -> bool:
    """Return whether a caller sees a budget: an admin each, others their projects' and their own.

    Who has a label may be anybody, so that these are admins' to see.
    """
    if caller.is_admin:
        return True
    if caller.container_id:
        return False
    if scope is BudgetScope.PROJECT:
        return caller.sees(whose)
    return scope is BudgetScope.USER and whose == caller.user
