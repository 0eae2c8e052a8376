"""Budgets over a real store and a real engine: told once, committed before, and what they stop."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from longshore.dispatcher.cost.budgets import CostBudget, StopRule
from longshore.dispatcher.cost.money import in_dollars, usd_grains
from longshore.dispatcher.domain.budgets import BudgetPhase, BudgetScope
from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.deliveries import Delivery
from longshore.dispatcher.domain.messages import (
    BudgetStopsChanged,
    Change,
    SaveBill,
    SaveInterval,
)
from longshore.dispatcher.domain.periods import PeriodKind
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.budgets import BudgetSettings, concerns, stops_at_start
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.vault import open_vault
from longshore.pool.messages import StartAttempt
from tests.rigs.engine import Rig, last_commands
from tests.rigs.services import handled, services_over
from tests.samples import ME, make_container, make_type
from tests.store_values import url_in

PROJECT = make_container(1).project
PRICE_USD = Decimal("3.6")
BUDGET = CostBudget(
    name="vision",
    scope=BudgetScope.PROJECT,
    whose=PROJECT,
    limit_grains=usd_grains(Decimal("0.6")),
    period=PeriodKind.DAY,
    stop=StopRule.NEW,
)
SETTINGS = BudgetSettings(budgets=(BUDGET,))


class Webhooks:
    """One webhook, that keeps what is sent to it."""

    webhooks = ("finance",)

    def __init__(self, store: Store) -> None:
        self.sent: list[Delivery] = []
        self._store = store

    async def add(self, deliveries: Iterable[Delivery]) -> None:
        new = list(deliveries)
        kept = self._store.ledger.deliveries()
        assert all(each in kept for each in new), "it is committed before it is sent"
        self.sent += new

    def kinds(self) -> list[str]:
        return [json.loads(each.notification.body)["type"] for each in self.sent]


def opened(directory: Path) -> Store:
    return Store.open(url_in(directory))


def keep_ledger(rig: Rig, store: Store) -> None:
    """Write what the engine of a rig has committed of the ledger."""
    bills: list[Change] = [SaveBill(bill=each) for each in rig.bills.values()]
    places: list[Change] = [SaveInterval(interval=each) for each in rig.intervals.values()]
    store.write([*bills, *places], wait=True).result()


def busy_rig(containers: int = 1, *, instances: int = 1) -> Rig:
    type_ = make_type(1, price=str(PRICE_USD))
    rig = Rig(type_, settings=SchedulerSettings(max_instances=instances))
    rig.submit(*(make_container(number) for number in range(1, containers + 1)))
    return rig


def events_of(services: Services) -> int:
    return services.events.last_number


async def test_each_step_is_told_once_and_the_limit_stops_new_work(tmp_path: Path) -> None:
    rig, store = busy_rig(), opened(tmp_path)
    webhooks = Webhooks(store)
    async with services_over(rig, store, tmp_path, budgets=SETTINGS, sender=webhooks) as services:
        rig.now += 320.0  # of an hour that costs 3.60
        keep_ledger(rig, store)
        await services.budgets.look()
        await services.budgets.look()
        assert webhooks.kinds() == ["budget.step"]
        assert not rig.view.budget_stops
        rig.now += 320.0
        await services.budgets.look()
        await services.budgets.look()
        await handled()
        assert webhooks.kinds()[1:] == ["budget.step", "budget.step", "budget.stopped"]
        assert events_of(services) == 4
        (stop,) = rig.view.budget_stops
        assert "budget vision is spent (0.64 of 0.60 USD in 1970-01-01)" in stop.sentence
        (standing,) = services.budgets.standings(ME)
        assert in_dollars(standing.use.spent_grains) == Decimal("0.64")
        assert standing.memory.phase is BudgetPhase.STOPPED
        assert standing.forecast is not None
        assert standing.forecast.p10_grains >= standing.use.spent_grains
        assert standing.use.committed_grains > 0
        rig.now = 86_400.0 + 60.0
        await services.budgets.look()
        await handled()
        assert rig.view.budget_stops == ()
        assert "budget.resumed" in webhooks.kinds()
    store.close()


async def test_a_stop_that_goes_on_is_told_to_the_engine_once(tmp_path: Path) -> None:
    rig, store = busy_rig(), opened(tmp_path)
    rig.now += 640.0
    keep_ledger(rig, store)
    async with services_over(rig, store, tmp_path, budgets=SETTINGS) as services:
        await services.budgets.look()
        await handled()
        (stop,) = rig.view.budget_stops
        rig.now += 60.0
        await services.budgets.look()
        await handled()
        assert rig.view.budget_stops == (stop,)
        (standing,) = services.budgets.standings(ME)
        assert in_dollars(standing.use.spent_grains) == Decimal("0.70")
    store.close()


async def test_a_restart_tells_nothing_again_and_stops_from_its_beginning(tmp_path: Path) -> None:
    rig, store = busy_rig(), opened(tmp_path)
    rig.now += 640.0
    keep_ledger(rig, store)
    async with services_over(rig, store, tmp_path, budgets=SETTINGS) as services:
        await services.budgets.look()
        assert events_of(services) == 4
    store.close()
    again = opened(tmp_path)
    stops = stops_at_start(again, SETTINGS, rig.now)
    assert [each.budget for each in stops] == ["vision"]
    rig.budget_stops = stops
    rig.crash()
    webhooks = Webhooks(again)
    async with services_over(rig, again, tmp_path, budgets=SETTINGS, sender=webhooks) as services:
        await services.budgets.look()
        await handled()
        assert (webhooks.sent, events_of(services)) == ([], 0)
        assert rig.view.budget_stops == stops
    again.close()


async def test_what_cannot_be_committed_is_told_to_nobody(tmp_path: Path) -> None:
    rig, writable = busy_rig(), opened(tmp_path)
    open_vault(writable, tmp_path / "secret_keys", lambda: rig.now)
    writable.close()
    store = Store.open(url_in(tmp_path), max_pending=0)
    rig.now += 640.0
    keep_ledger(rig, store)
    webhooks = Webhooks(store)
    async with services_over(rig, store, tmp_path, budgets=SETTINGS, sender=webhooks) as services:
        with pytest.raises(StoreBusy):
            await services.budgets.look()
        await handled()
        assert (webhooks.sent, events_of(services)) == ([], 0)
        assert rig.view.budget_stops == ()
    assert store.ledger.budgets().memories == {}
    store.close()


def test_a_budget_is_overspent_by_no_more_than_what_runs(tmp_path: Path) -> None:
    rig, store = busy_rig(8, instances=2), opened(tmp_path)
    for _ in range(40):
        rig.advance(30.0)
        for container_id in sorted(rig.started_on()):
            attempts = [a for a in rig.attempts.values() if a.container_id == container_id]
            running = [a for a in attempts if a.outcome is None]
            if running and rig.now - running[0].created_at >= 240.0:
                rig.exit(running[0].id)
        keep_ledger(rig, store)
        rig.send(BudgetStopsChanged(stops=stops_at_start(store, SETTINGS, rig.now)))
    # 0.60 USD are 600 s of an instance. When that is seen, two run, and no other is started.
    assert sorted(rig.states().values()) == ["queued"] * 4 + ["succeeded"] * 4
    assert len(last_commands(rig, StartAttempt)) == 4
    (stop,) = stops_at_start(store, SETTINGS, rig.now)
    store.close()
    assert "(0.96 of 0.60 USD" in stop.sentence


@pytest.mark.parametrize(
    ("scope", "whose", "of_user", "of_lead"),
    [
        (BudgetScope.PROJECT, "a", True, True),
        (BudgetScope.PROJECT, "b", False, False),
        (BudgetScope.USER, "ann", True, False),
        (BudgetScope.USER, "bob", False, True),
        (BudgetScope.LABEL, "user=ann", False, False),
    ],
)
def test_who_sees_which_budget(
    scope: BudgetScope, whose: str, of_user: bool, of_lead: bool
) -> None:
    ann = Principal(user="ann", role=Role.USER, door=Door.TOKEN, projects=("a",))
    bob = replace(ann, user="bob", role=Role.LEAD)
    assert concerns(scope, whose, ME)
    assert concerns(scope, whose, ann) is of_user
    assert concerns(scope, whose, bob) is of_lead
    assert not concerns(scope, whose, replace(ann, container_id="c-1"))
