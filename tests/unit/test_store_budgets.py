"""What the store keeps of budgets and of notifications, beyond an end of the process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from longshore.dispatcher.domain.budgets import BudgetMemory, BudgetPhase
from longshore.dispatcher.domain.deliveries import Delivery, Notification
from longshore.dispatcher.domain.messages import (
    ForgetDelivery,
    SaveBudget,
    SaveDelivery,
    SaveUnusualDay,
)
from longshore.dispatcher.domain.periods import PeriodKind, period_at
from longshore.dispatcher.store.store import Store
from tests.store_values import url_in

MEMORY = BudgetMemory(
    period=period_at(PeriodKind.MONTH, "Europe/Berlin", 1_795_000_000.5),
    limit_grains=2**70,
    phase=BudgetPhase.STOPPED,
    stopped_at_grains=2**70,
    steps_told=(50, 80),
    forecast_is_over=True,
    forecast_told_on="2026-11-28",
)
DELIVERY = Delivery(
    notification=Notification(id="vision_1", body='{"message": "für"}'.encode()),
    webhook="finance",
    queued_at=1000.25,
    next_try_at=1000.25,
)


def test_all_that_is_kept_of_budgets_is_there_after_a_restart(tmp_path: Path) -> None:
    later = replace(DELIVERY, tries=3, next_try_at=2000.0)
    other = replace(DELIVERY, webhook="ops", queued_at=900.0)
    gone = replace(DELIVERY, webhook="gone")
    store = Store.open(url_in(tmp_path))
    store.write([SaveBudget(name="vision", memory=replace(MEMORY, steps_told=()))]).result()
    store.write(
        [
            SaveBudget(name="vision", memory=MEMORY),
            SaveUnusualDay(project="vision", day="2026-11-27"),
            SaveUnusualDay(project="vision", day="2026-11-27"),
            *(SaveDelivery(delivery=each) for each in (DELIVERY, gone, other, later)),
            ForgetDelivery(webhook="gone", notification_id="vision_1"),
            ForgetDelivery(webhook="finance", notification_id="another"),
        ]
    ).result()
    store.close()
    again = Store.open(url_in(tmp_path))
    found, kept = again.ledger.budgets(), again.ledger.deliveries()
    again.close()
    assert found.memories == {"vision": MEMORY}
    assert found.unusual_days == {("vision", "2026-11-27")}
    assert kept == [other, later]
