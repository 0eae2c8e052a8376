"""What is sent to webhooks, how it is signed, and when it is tried again."""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cost.anomalies import UnusualDay
from longshore.dispatcher.cost.budgets import BudgetUse, CostBudget, StopRule, judge_budget
from longshore.dispatcher.cost.money import GRAINS_PER_USD
from longshore.dispatcher.domain.budgets import BudgetScope
from longshore.dispatcher.domain.deliveries import Delivery, Notification
from longshore.dispatcher.domain.periods import PeriodKind
from longshore.dispatcher.notifications.delivery import (
    Pace,
    TryOutcome,
    after_try,
    deliveries_of,
    headers_of,
    notification_of_budget,
    notification_of_day,
    outcome_of,
)

NOW = 1_795_824_000.0
PACE = Pace()
DELIVERY = Delivery(
    notification=Notification(id="n-1", body=b"{}"),
    webhook="finance",
    queued_at=NOW,
    next_try_at=NOW,
)


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """The vector is the one of the specification's libraries."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    told = Notification(id="msg_p5jXN8AQM9LWM0D4loKWxJek", body=b'{"test": 2432232314}')
    assert headers_of(told, key, 1614265330.9) == {
        "Content-Type": "application/json",
        "User-Agent": "longshore",
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((200, TryOutcome.TAKEN), (204, TryOutcome.TAKEN), (299, TryOutcome.TAKEN)),
        *((302, TryOutcome.FAILED), (400, TryOutcome.FAILED), (503, TryOutcome.FAILED)),
        (410, TryOutcome.GONE),
    ],
)
def test_what_an_answer_says(status: int, outcome: TryOutcome) -> None:
    assert outcome_of(status) is outcome


@pytest.mark.parametrize(
    ("tries", "chance", "pause_s"),
    [(0, 0.0, 10.0), (1, 0.0, 20.0), (3, 1.0, 100.0), (9, 0.0, 3600.0), (20, 1.0, 4500.0)],
)
def test_pauses_double_and_are_longer_by_chance(tries: int, chance: float, pause_s: float) -> None:
    delivery = replace(DELIVERY, tries=tries)
    again = after_try(delivery, TryOutcome.FAILED, NOW, chance=chance, pace=PACE)
    assert again == replace(delivery, tries=tries + 1, next_try_at=NOW + pause_s)


@pytest.mark.parametrize("outcome", [TryOutcome.TAKEN, TryOutcome.GONE])
def test_what_is_taken_or_gone_is_not_tried_again(outcome: TryOutcome) -> None:
    assert after_try(DELIVERY, outcome, NOW, chance=0, pace=PACE) is None


@given(st.lists(st.floats(0, 1), min_size=60, max_size=60))
def test_it_is_tried_for_a_day_and_then_given_up(chances: list[float]) -> None:
    delivery, now, last = DELIVERY, NOW, NOW
    for chance in chances:
        again = after_try(delivery, TryOutcome.FAILED, now, chance=chance, pace=PACE)
        if again is None:
            break
        assert now < again.next_try_at <= NOW + 86_400
        delivery, now, last = again, again.next_try_at, again.next_try_at
    else:
        pytest.fail("it is tried without end")
    assert last > NOW + 86_400 - 4500


def test_a_notification_goes_to_each_webhook() -> None:
    told = DELIVERY.notification
    found = deliveries_of(told, ["ops", "finance"], NOW)
    assert found == (DELIVERY, replace(DELIVERY, webhook="ops"))
    assert len({each.key for each in found}) == 2


def test_what_is_sent_of_a_budget_and_of_an_unusual_day() -> None:
    budget = CostBudget(
        name="vision",
        scope=BudgetScope.PROJECT,
        whose="vision",
        limit_grains=1000 * GRAINS_PER_USD,
        period=PeriodKind.MONTH,
        stop=StopRule.NEW,
    )
    used = BudgetUse(spent_grains=500 * GRAINS_PER_USD + 1, committed_grains=GRAINS_PER_USD // 2)
    [notice] = judge_budget(budget, used, NOW, None).notices
    told = notification_of_budget(notice, NOW)
    assert told.id == notice.key
    assert json.loads(told.body) == {
        "type": "budget.step",
        "timestamp": "2026-11-28T00:00:00Z",
        "data": {
            "budget": "vision",
            "period": "2026-11",
            "percent": 50,
            "limit_usd": "1000.000000000000",
            "spent_usd": "500.000000000000",
            "committed_usd": "0.500000000000",
            "message": notice.sentence,
        },
    }
    day = UnusualDay(
        project="vision / a.b",
        day="2026-11-27",
        spent_grains=GRAINS_PER_USD,
        usual_grains=0,
        sentence="Much.",
    )
    found = notification_of_day(day, NOW)
    other = notification_of_day(replace(day, project="vision"), NOW)
    assert found.id.startswith("unusual-day_2026-11-27_")
    assert found.id != other.id
    assert json.loads(found.body)["data"]["usual_usd"] == "0.000000000000"


def test_the_check_that_the_documentation_shows_takes_what_is_sent() -> None:
    page = Path(__file__).parents[2].joinpath("docs/budgets.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    defined: dict[str, Any] = {}
    exec(shown, defined)  # noqa: S102 - the text of our own page, as a reader would take it
    is_genuine = defined["is_genuine"]
    key = bytes(range(32))
    secret = f"whsec_{base64.b64encode(key).decode()}"
    told = DELIVERY.notification
    headers = headers_of(told, key, time.time())
    assert is_genuine(headers, told.body, secret)
    assert not is_genuine(headers, told.body + b" ", secret)
    assert not is_genuine({**headers, "webhook-id": "n-2"}, told.body, secret)
    assert not is_genuine(headers_of(told, key[1:], time.time()), told.body, secret)
    assert not is_genuine(headers_of(told, key, time.time() - 400), told.body, secret)
