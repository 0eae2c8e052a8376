"""Where a month stands, which runs were dear and what an hour costs: over HTTP, and whose it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import aiohttp
import pytest

from longshore.dispatcher.api.render.prices import price_list_answer
from longshore.dispatcher.cost.budget_use import RunningWork
from longshore.dispatcher.cost.money import usd_grains
from longshore.dispatcher.cost.month_forecast import month_forecast_of
from longshore.dispatcher.cost.prices import PriceBook, PricesInForce
from longshore.dispatcher.cost.report import Seen
from longshore.dispatcher.cost.rollups import Totals
from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.ended_runs import (
    DEAREST,
    EndedRun,
    EndedRunFilter,
    dearest,
    waits_by_type,
)
from longshore.dispatcher.domain.ledger import (
    Account,
    BilledState,
    Column,
    CostGroup,
    CostOutcome,
    PriceRow,
    PriceSource,
    Total,
    UnitPrice,
)
from longshore.dispatcher.domain.periods import PeriodKind, period_at
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.price_list import PriceListService
from longshore.dispatcher.service.services import Services
from tests.api_server import Client, connected, serving
from tests.rigs.api import ApiRig
from tests.rigs.engine import Rig
from tests.samples import make_type

SPEC = {"command": ["true"], "cpus": 1, "memory": "1GiB"}
DAY_S = 86_400.0


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Client, Services]]:
    """Serve a rig; yield a client of it, and its services."""
    rig = ApiRig()
    async with (
        rig.served() as services,
        serving(services) as (url, _),
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, url, rig), services


async def worked(client: Client) -> list[str]:
    """Let three containers run for a minute, for two and on; return their ids."""
    rig, ids = client.rig, []
    for project, name in (("a", "align"), ("b", "sort"), ("a", "serve")):
        body = {**SPEC, "name": name, "project": project}
        _, made = await client.post("/v1/containers", body)
        ids.append(str(made["id"]))
    await rig.add_instance("i-1")
    for container_id in ids:
        await rig.start(container_id, "i-1")
    await rig.pass_time(60)
    await rig.finish(ids[0])
    await rig.pass_time(60)
    await rig.finish(ids[1], exit_code=3)
    return ids


async def test_the_month_is_what_cost_tells_and_what_runs_is_in_its_end() -> None:
    async with connected() as client:
        await worked(client)
        status, month = await client.call("GET", "/v1/cost/forecast?tz=Europe/Berlin")
        _, cost = await client.call("GET", "/v1/cost?tz=Europe/Berlin")
        assert status == 200
        assert month["spent"] == cost["total"]["total"] > 0
        assert month["running"] == 1
        assert month["running_usd_per_hour"] > 0
        assert month["committed"] > 0
        spread = month["forecast"]
        assert month["spent"] <= spread["p10"] <= spread["p50"] <= spread["p90"]
        (rate,) = month["pool"]["states"]
        assert (rate["instances"], month["pool"]["limit_usd_per_hour"]) == (1, 0)
        assert rate["usd_per_hour"] > 0
        status, answer = await client.call("GET", "/v1/cost/forecast?tz=Mars")
        assert (status, answer["errors"][0]["path"]) == (400, "tz")


def month_of(seen: Seen) -> Any:
    groups: Totals = {}
    for project, user in (("a", "ann"), ("a", "bob"), ("b", "ann"), ("", "")):
        group = CostGroup(
            project=project,
            user=user,
            job_name="",
            labels=(),
            type_name="small",
            preemptible=False,
            zone="",
            state=BilledState.WORK,
            column=Column.DIRECT,
            cause="work",
            outcome=CostOutcome.USEFUL,
            price_source=PriceSource.CONFIG,
        )
        groups[group] = Total(quantity_ms=1, grains=usd_grains(Decimal(1)))
    works = [
        RunningWork(
            account=Account(project=project, user=user),
            nusd_per_hour=10**9,
            ran_s=0.0,
            limit_s=3600.0,
        )
        for project, user in (("a", "ann"), ("a", "bob"), ("b", "eve"))
    ]
    month = period_at(PeriodKind.MONTH, "UTC", 40 * DAY_S)
    return month_forecast_of(
        month, 40 * DAY_S, seen=seen, spent=groups, days=[groups] * 9, works=works
    )


@pytest.mark.parametrize(
    ("seen", "spent_usd", "running"),
    [
        (Seen(everything=True), 4, 3),
        (Seen(projects=frozenset({"a"})), 2, 2),
        (Seen(user="ann", user_projects=frozenset({"a"})), 1, 1),
        (Seen(), 0, 0),
    ],
)
def test_who_looks_ahead_sees_no_more_than_of_cost(
    seen: Seen, spent_usd: int, running: int
) -> None:
    found = month_of(seen)
    assert found.spent_grains == usd_grains(Decimal(spent_usd))
    assert found.running == running
    assert found.running_nusd_per_hour == running * 10**9
    assert found.committed_grains == usd_grains(Decimal(running))
    # Nine days of so much each, and 19 of the month are left.
    assert found.forecast.p50_grains == pytest.approx(float(usd_grains(Decimal(spent_usd)) * 20))


async def test_the_dearest_runs_come_first_with_how_long_they_waited() -> None:
    async with served() as (client, services):
        short, long, running = await worked(client)
        await client.rig.pass_time(7200)
        await services.costs.book()
        status, answer = await client.call("GET", "/v1/cost/runs?from=2020-01-01&to=2040-01-01")
        assert status == 200
        told = {each["container"]: each for each in answer["dearest"]}
        assert running not in told
        assert [each["container"] for each in answer["dearest"]] == [long, short]
        assert (told[long]["state"], told[long]["name"]) == ("failed", "sort")
        _, one = await client.call("GET", f"/v1/containers/{long}")
        assert told[long]["cost_usd"] == one["cost_usd"] > 0
        assert told[long]["waited_s"] >= 0
        (kind,) = answer["by_type"]
        assert (kind["market"], kind["runs"], answer["ended"]) == ("on-demand", 2, 2)
        assert kind["cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in told.values()))
        _, none = await client.call("GET", "/v1/cost/runs?from=2020-01-01&to=2020-01-02")
        assert (none["dearest"], none["ended"]) == ([], 0)


async def test_who_asks_for_ended_runs_is_told_of_its_own() -> None:
    async with served() as (client, services):
        await worked(client)
        everything = EndedRunFilter(since=0.0, until=1e11)

        async def ended(role: Role, user: str, *projects: str) -> int:
            caller = Principal(user=user, role=role, door=Door.TOKEN, projects=projects)
            return (await services.cost_views.runs.report(everything, caller=caller)).ended

        assert await ended(Role.ADMIN, "ada") == 2
        assert await ended(Role.LEAD, "lea", "a") == 1
        assert await ended(Role.LEAD, "lea", "none") == 0
        assert await ended(Role.USER, "eve", "a", "b") == 0


def run(number: int, *, cost: str, waited_s: float | None = 1.0, kind: str = "small") -> EndedRun:
    return EndedRun(
        container_id=f"c-{number:02}",
        name="",
        job_id="",
        user="ann",
        project="a",
        state=ContainerState.SUCCEEDED,
        cost_usd=Decimal(cost),
        finished_at=1.0,
        waited_s=waited_s,
        type_name=kind,
        is_preemptible=kind == "spot",
    )


def test_few_are_the_dearest_and_what_cost_nothing_is_none_of_them() -> None:
    runs = [run(number, cost=str(number)) for number in range(30)]
    assert [each.cost_usd for each in dearest(runs)] == list(range(29, 9, -1))
    assert len(dearest(runs)) == DEAREST
    assert dearest([run(1, cost="0")]) == []


def test_waits_are_of_those_that_had_a_place() -> None:
    runs = [run(n, cost="0.5", waited_s=float(n)) for n in range(11)]
    runs += [run(11, cost="0", waited_s=None), run(12, cost="1", waited_s=7.0, kind="spot")]
    small, spot = waits_by_type(runs)
    assert (small.runs, small.waited_p50_s, small.waited_p90_s) == (11, 5.0, 9.0)
    assert small.cost_usd == Decimal("5.5")
    assert (spot.type_name, spot.is_preemptible, spot.waited_p50_s) == ("spot", True, 7.0)


async def test_prices_are_listed_with_who_says_so() -> None:
    async with connected() as client:
        status, answer = await client.call("GET", "/v1/prices")
        assert status == 200
        assert answer["items"] == []  # nobody has written any down here
        assert answer["currency"] == "USD"


def row(name: str, zone: str, at_ms: int, usd: str, source: PriceSource) -> PriceRow:
    price = UnitPrice(nusd_per_hour=int(Decimal(usd) * 10**9), source=source)
    return PriceRow(type_name=name, zone=zone, valid_from_ms=at_ms, price=price)


def test_a_live_price_is_listed_with_when_it_was_told() -> None:
    rig = Rig(make_type(1), make_type(2))
    first, second = sorted(rig.types)
    rows = [
        row(first, "", 1, "0.5", PriceSource.CONFIG),
        row(first, "", 2, "0.4", PriceSource.DRIVER),
        row("gone", "", 1, "0.2", PriceSource.CONFIG),
        row(second, "", 1, "0", PriceSource.CONFIG),
    ]
    prices = PricesInForce(book=PriceBook(rows), at_ms=5, told_at={first: 4.0})
    listed = PriceListService(view=rig.view, now=lambda: 5.0, prices=lambda: prices).prices()
    told = price_list_answer(listed, currency="USD", as_of=5.0).items
    assert [(each.instance_type, each.usd_per_hour, each.source) for each in told] == [
        (first, Decimal("0.4"), "driver"),
        (second, None, "none"),
    ]
    assert [each.told_at for each in told] == ["1970-01-01T00:00:04.000Z", None]


def test_the_price_in_force_is_of_the_best_source_and_its_latest() -> None:
    rows = [
        row("b", "", 1, "0.2", PriceSource.CONFIG),
        row("a", "", 1, "0.5", PriceSource.CONFIG),
        row("a", "", 2, "0.4", PriceSource.DRIVER),
        row("a", "", 3, "0.3", PriceSource.DRIVER),
        row("a", "", 9, "0.3", PriceSource.DRIVER),
        row("a", "z-1", 2, "0.35", PriceSource.HISTORY),
        row("c", "", 1, "0", PriceSource.CONFIG),
    ]
    found = PriceBook(rows).in_force(5)
    assert found[:3] == [rows[3], rows[5], rows[0]]
    assert found[3].price == UnitPrice(nusd_per_hour=0, source=PriceSource.NONE)
    assert PriceBook(rows).in_force(0) == []
