"""What is kept of budgets, and whom one stops: the words that engine, store and services share.

What a budget is and when it stops anything is `dispatcher.cost.budgets`' to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.domain.ledger import Account
from longshore.dispatcher.domain.periods import Period


class BudgetScope(Enum):
    """What the lines have in common that a budget counts."""

    PROJECT = "project"
    USER = "user"
    LABEL = "label"


class BudgetPhase(Enum):
    """Whether a budget lets new work begin."""

    OPEN = "open"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetMemory:
    """What was told of a budget and is to be kept, by the budget's name."""

    period: Period
    #: The limit that the steps are of.
    limit_grains: int
    phase: BudgetPhase = BudgetPhase.OPEN
    #: The limit that was spent when it stopped last in this period; 0 where it did not.
    stopped_at_grains: int = 0
    #: Per cent, ascending.
    steps_told: tuple[int, ...] = ()
    forecast_is_over: bool = False
    #: The last day on which the forecast was told, in the budget's time zone; "" for none.
    forecast_told_on: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStop:
    """That a budget lets nothing new begin, and until when."""

    budget: str
    scope: BudgetScope
    #: Whom it stops, as `CostBudget.whose`.
    whose: str
    #: When the next period begins, in seconds since the epoch, and on which day of its zone.
    until: float
    next_on: str
    #: For who waits: why, until when, and what can be done.
    sentence: str

    @property
    def reason(self) -> WaitReason:
        """Return why those wait whom it stops."""
        return WaitReason(code="budget", message=self.sentence, topic=self.budget, until=self.until)


def is_of(scope: BudgetScope, whose: str, account: Account) -> bool:
    """Return whether what is booked to an account is the matter of a budget of `whose`."""
    match scope:
        case BudgetScope.PROJECT:
            return account.project == whose
        case BudgetScope.USER:
            return account.user == whose
        case BudgetScope.LABEL:
            key, _, value = whose.partition("=")
            return (key, value) in account.labels
        case _:
            assert_never(scope)


def first_stop(account: Account, stops: Iterable[BudgetStop]) -> BudgetStop | None:
    """Return what keeps new work of an account from beginning, None for nothing.

    Of several the first by the name of its budget counts.
    """
    matching = (each for each in stops if is_of(each.scope, each.whose, account))
    return min(matching, key=lambda each: each.budget, default=None)
