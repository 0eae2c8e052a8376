"""Budgets as the configuration has them: what may be wrong with them, and what they become."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal

from longshore.dispatcher.config.model import BudgetConfig, Config
from longshore.dispatcher.cost.budgets import CostBudget
from longshore.dispatcher.cost.money import GRAINS_PER_USD
from longshore.dispatcher.domain.budgets import BudgetScope
from longshore.dispatcher.domain.schedules import time_zone_problem
from longshore.dispatcher.input.problems import Problems, member, quoted

# No dots: the name is a part of the ids of notifications, which have none.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_LABEL = re.compile(r"[^=]{1,63}=.{0,255}")


def budgets_of(config: Config) -> tuple[CostBudget, ...]:
    """Return the budgets of a configuration that was checked, by name."""
    return tuple(_budget(name, each) for name, each in sorted(config.budgets.items()))


def check_budgets(config: Config, problems: Problems) -> None:
    """Add what is wrong with the budgets to `problems`."""
    for name, each in config.budgets.items():
        path = member("budgets", name)
        if not _NAME.fullmatch(name):
            said = (
                "has a bad name: use 1 to 63 letters, digits, '_' and '-', a letter or digit first"
            )
            problems.add(path, said)
        _check_whose(path, each, problems)
        _check_label(path, each, config.cost.labels, problems)
        if why := time_zone_problem(each.tz):
            problems.add(f"{path}.tz", why)
        if list(each.warn) != sorted(set(each.warn)):
            problems.add(f"{path}.warn", "must ascend, as in [50, 80, 100]")


def _check_whose(path: str, budget: BudgetConfig, problems: Problems) -> None:
    given = [name for name in ("project", "user", "label") if getattr(budget, name)]
    if len(given) != 1:
        has = f"has {' and '.join(given)}" if given else "is nobody's"
        problems.add(path, f"{has}: give one of project, user and label, which says whose it is")


def _check_label(
    path: str, budget: BudgetConfig, kept: Collection[str], problems: Problems
) -> None:
    key = budget.label.partition("=")[0]
    if budget.label and not _LABEL.fullmatch(budget.label):
        problems.add(f"{path}.label", "must be KEY=VALUE, such as team=vision")
    elif key and key not in kept:
        said = f"is not kept apart by the ledger: add {quoted(key)} to cost.labels"
        problems.add(f"{path}.label", said)


def _budget(name: str, config: BudgetConfig) -> CostBudget:
    scope = next(each for each in BudgetScope if getattr(config, each.value))
    return CostBudget(
        name=name,
        scope=scope,
        whose=getattr(config, scope.value),
        # As it was written: the nearest binary fraction of 0.1 is a little more.
        limit_grains=int(Decimal(repr(config.limit)) * GRAINS_PER_USD),
        period=config.period,
        time_zone=config.tz,
        included=config.includes,
        warn=config.warn,
        forecast=config.forecast,
        stop=config.stop,
    )
