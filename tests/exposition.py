"""The exposition of a rig's engine, as a real parser reads it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from longshore.dispatcher.cost.budgets import BudgetUse, CostBudget
from longshore.dispatcher.cost.money import usd_grains
from longshore.dispatcher.cost.rates import MonthToDate
from longshore.dispatcher.domain.budgets import BudgetScope
from longshore.dispatcher.domain.periods import PeriodKind
from longshore.dispatcher.domain.vitals import EngineVitals, ProcessVitals, TraceVitals
from longshore.dispatcher.explain.health import cloud_problems
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.metrics.ledger import BudgetNow, LedgerNow
from longshore.pool.histogram import Histogram
from tests.rigs.engine import Rig
from tests.samples import DISK

Key = tuple[str, tuple[tuple[str, str], ...]]
MONTH_USD: Mapping[str, str] = {"": "1.25", "p": "2.5"}


PROCESS = ProcessVitals(
    engine=EngineVitals(inbox_events=3, pass_s=Histogram((1.0,)), turn_s=Histogram((1.0,))),
    loop_delay_s=Histogram((1.0,)),
)
VISION = CostBudget(
    name="vision-month",
    scope=BudgetScope.PROJECT,
    whose="vision",
    limit_grains=usd_grains(Decimal(100)),
    period=PeriodKind.MONTH,
)
VISION_NOW = BudgetNow(
    budget=VISION,
    use=BudgetUse(spent_grains=usd_grains(Decimal(80)), committed_grains=usd_grains(Decimal(5))),
    is_stopped=True,
)


def ledger_of(rig: Rig, *, month_usd: Mapping[str, str] = MONTH_USD) -> LedgerNow:
    """Return a ledger that was read 7 s ago, and in which projects cost so much this month."""
    month = MonthToDate(
        as_of=rig.now - 7,
        by_project=tuple(sorted((p, usd_grains(Decimal(usd))) for p, usd in month_usd.items())),
        uncertain_grains=usd_grains(Decimal("0.5")),
        unpriced_ms=1500,
        prices=(),
    )
    return LedgerNow(month=month, budgets=(VISION_NOW,))


def text_of(rig: Rig, *, ledger: LedgerNow | None = None) -> str:
    """Return the exposition of this moment; no session was ever heard."""
    metrics = Metrics(
        rig.view,
        heard_at=lambda _worker_id: 0.0,
        certificate_ends_at=lambda: 2e9,
        traces=TraceVitals,
    )
    problems = cloud_problems(rig.view.pool, rig.now)
    return metrics.exposition(
        rig.now,
        problems=problems,
        vitals=DISK,
        of_process=PROCESS,
        of_ledger=ledger_of(rig) if ledger is None else ledger,
    ).decode()


def families(rig: Rig, *, ledger: LedgerNow | None = None) -> list[Metric]:
    """Return the metric families of this moment, without those of every process."""
    found = text_string_to_metric_families(text_of(rig, ledger=ledger))
    return [family for family in found if not family.name.startswith("process_")]


def samples(rig: Rig, *, ledger: LedgerNow | None = None) -> dict[Key, float]:
    """Return all values by name and sorted labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families(rig, ledger=ledger)
        for sample in family.samples
    }


def value(rig: Rig, name: str, **labels: str) -> float:
    """Return one value."""
    return samples(rig)[name, tuple(sorted(labels.items()))]
