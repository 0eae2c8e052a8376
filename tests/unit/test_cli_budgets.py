"""`longshore budgets` and what the API says of them, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.client import Client
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cost.budgets import CostBudget, StopRule
from longshore.dispatcher.cost.money import usd_grains
from longshore.dispatcher.domain.budgets import BudgetScope
from longshore.dispatcher.domain.ledger import (
    OF_INSTANCE,
    Account,
    BilledState,
    InstanceBill,
    Interval,
)
from longshore.dispatcher.domain.messages import Change, SaveBill, SaveInterval
from longshore.dispatcher.domain.periods import PeriodKind
from longshore.dispatcher.service.budgets import BudgetSettings
from longshore.drivers.billing import AS_USED
from tests.cli_server import CliServer, cli_server
from tests.rigs.api import ApiRig

Capture = pytest.CaptureFixture[str]
NOW = 1_795_000_000.0
BUDGET = CostBudget(
    name="vision",
    scope=BudgetScope.PROJECT,
    whose="apollo",
    limit_grains=usd_grains(Decimal(2)),
    period=PeriodKind.YEAR,
    stop=StopRule.NEW,
)
OPEN = replace(BUDGET, name="ann", scope=BudgetScope.USER, whose="ann", limit_grains=2 * 10**18)


async def fill(rig: ApiRig) -> None:
    """Keep two hours of an instance that costs a dollar an hour, of which an attempt had all."""
    from_ms, until_ms = round((NOW - 9000.0) * 1000), round((NOW - 1800.0) * 1000)
    bill = InstanceBill(
        instance_id="i-1",
        type_name="small",
        provider_type="m5.large",
        preemptible=False,
        nusd_per_hour=10**9,
        payer=Account(project="apollo"),
        created_ms=from_ms,
        rule=AS_USED,
        running_ms=from_ms,
        ready_ms=from_ms,
        used_ms=from_ms,
        seen_ms=until_ms,
        gone_ms=until_ms,
    )
    room = Interval(
        instance_id="i-1",
        holder=OF_INSTANCE,
        from_ms=from_ms,
        until_ms=until_ms,
        state=BilledState.ROOM,
    )
    work = replace(
        room,
        holder="c-1-1",
        state=BilledState.WORK,
        account=Account(project="apollo", user="ann", container_id="c-1"),
    )
    changes: list[Change] = [
        SaveBill(bill=bill),
        SaveInterval(interval=room),
        SaveInterval(interval=work),
    ]
    rig.store.write(changes).result(30)
    await rig.services.budgets.look()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    rig = ApiRig(now=NOW)
    rig.budgets = BudgetSettings(budgets=(OPEN, BUDGET))
    with cli_server(rig=rig) as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        yield server


def test_before_the_first_look_there_are_none(server: CliServer, capsys: Capture) -> None:
    del server
    assert main(["budgets"]) == 0
    assert capsys.readouterr().out == (
        "no budget concerns you: an admin writes them into the configuration (budgets)\n"
    )


def test_what_is_spent_stands_beside_what_may_be(server: CliServer, capsys: Capture) -> None:
    server.do(fill)
    assert main(["budgets"]) == 0
    head, ann, vision, as_of, why = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == (
        "BUDGET OF PERIOD LIMIT SPENT COMMITTED LEFT STEPS EXPECTED NEW WORK"
    )
    assert " ".join(ann.split()).startswith("ann user ann 2026 555.56 2.00 0.00 553.56 - ")
    assert " ".join(vision.split()).startswith(
        "vision project apollo 2026 2.00 2.00 0.00 0.00 50% 80% 100% "
    )
    assert "stopped until" in vision
    assert ann.endswith("starts")
    assert as_of.startswith("USD, up to ")
    assert why.startswith("budget vision is spent (2.00 of 2.00 USD in 2026)")
    assert main(["budgets", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document["items"]] == ["ann", "vision"]
    assert document["items"][1]["stopped_until"] == "2027-01-01T00:00:00.000Z"
    assert document["items"][1]["forecast"]["p50"] >= 2


def test_the_client_reads_them(server: CliServer) -> None:
    server.do(fill)
    with Client(server.url) as client:
        found = client.budgets()
    assert [(each.name, each.spent) for each in found.items] == [
        ("ann", Decimal(2)),
        ("vision", Decimal(2)),
    ]
