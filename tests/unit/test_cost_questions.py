"""Questions of the ledger with many steps, or many at once: what they take from all others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert

from longshore.dispatcher.api.render.cost import cost_answer
from longshore.dispatcher.api.routes import cost as cost_route
from longshore.dispatcher.api.routes.turns import Turns
from longshore.dispatcher.api.schemas.cost import CostAnswer
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.cost.report import Idle
from longshore.dispatcher.domain.ledger import (
    BilledState,
    Column,
    CostGroup,
    CostOutcome,
    PriceSource,
    Total,
)
from longshore.dispatcher.domain.principals import ANYBODY
from longshore.dispatcher.service import costs
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.service.costs import CostQuestion, CostService, totals_until
from longshore.dispatcher.store import ledger_tables as tables
from longshore.dispatcher.store.errors import TooManySums
from longshore.dispatcher.store.ledger_groups import group_values
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from tests.api_server import connected
from tests.rigs.services import store_in
from tests.store_values import url_in

DAY0 = 20_000
FIRST = DAY0 * 24
DAYS = 60
GROUP = CostGroup(
    project="p",
    user="ana",
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
WHEN = "from=2020-01-01&to=2040-01-01"
CORRECTED = (FIRST + 3, FIRST + 30, FIRST + 30)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with 60 days of two jobs, of which each hour costs its number."""
    path = tmp_path_factory.mktemp("ledger")
    with store_in(path) as opened:
        fill(path)
        yield opened


def fill(path: Path) -> None:
    engine = create_engine(url_in(path))
    names = ("align", "sort")
    groups = [
        {"id": number, **group_values(replace(GROUP, job_name=name))}
        for number, name in enumerate(names, 1)
    ]
    nothing = {"rest": 0, "uncertain_whole": 0, "uncertain_rest": 0}

    def row(period: str, number: int, hours: range) -> list[dict[str, object]]:
        sums = {"quantity_ms": sum(hour - FIRST for hour in hours), "whole": 0, **nothing}
        return [{period: number, "group_id": group["id"], **sums} for group in groups]

    whole = range(FIRST, FIRST + 24 * DAYS)
    days = range(DAY0, DAY0 + DAYS)
    correction = {
        "instance_id": "i-1",
        "group_id": 1,
        "quantity_ms": 10**6,
        "whole": 0,
        "rest": 0,
        "reason": "price",
        "made_by": "root",
        "made_at": 0.0,
        "file_name": "",
        "sha256": "",
    }
    at = ("booked_hour", "about_hour", "counted_hour")
    with engine.begin() as connection:
        connection.execute(insert(tables.groups), groups)
        hours = [each for hour in whole for each in row("hour", hour, range(hour, hour + 1))]
        connection.execute(insert(tables.hours), hours)
        of_days = [each for d in days for each in row("day", d, range(24 * d, 24 * d + 24))]
        connection.execute(insert(tables.days), of_days)
        corrections = [{**correction, **dict.fromkeys(at, hour)} for hour in CORRECTED]
        connection.execute(insert(tables.corrections), corrections)
        connection.execute(insert(tables.booked), [{"id": 1, "until_hour": whole.stop}])
    engine.dispose()


@pytest.mark.parametrize(
    "spans",
    [
        [(hour, hour + 1) for hour in range(FIRST, FIRST + 24 * DAYS)],
        [(FIRST + 24 * d - 2, FIRST + 24 * d + 22) for d in range(DAYS)],
        [(FIRST, FIRST + 24), (FIRST - 50, FIRST + 200), (FIRST + 5, FIRST + 5 + 24 * 40)],
        [(FIRST, FIRST + 24 * DAYS)],
        [],
    ],
)
def test_each_step_has_its_hours_and_corrections_once(
    store: Store, spans: list[tuple[int, int]]
) -> None:
    now = (FIRST + 24 * DAYS) * 3600.0
    found, _ = totals_until(store, spans, now, labels=(), needed=("job_name",))
    assert len(found) == len(spans)
    for totals, (first, until) in zip(found, spans, strict=True):
        hours = range(max(first, FIRST), min(until, FIRST + 24 * DAYS))
        each = sum(hour - FIRST for hour in hours)
        beside = 10**6 * sum(hour in hours for hour in CORRECTED)
        by_job = {group.job_name: total.quantity_ms for group, total in totals.items()}
        wanted = {"align": each + beside, "sort": each} if hours else {}
        assert by_job == wanted
        assert all(total.grains == 0 for total in totals.values())


def test_no_more_sums_are_read_than_asked_for(store: Store) -> None:
    days = [(FIRST + 24 * d, FIRST + 24 * d + 24) for d in range(DAYS)]
    exact = store.ledger.sums(days, ("job_name",), at_most=2 * DAYS)
    assert [len(totals) for totals in exact.totals] == [2] * DAYS
    assert Total() not in exact.totals[1].values()
    with pytest.raises(TooManySums):
        store.ledger.sums(days, ("job_name",), at_most=2 * DAYS - 1)
    # Hours are read in several goes, and are too many only together.
    hours = [(hour, hour + 1) for hour in range(FIRST, FIRST + 24 * DAYS)]
    with pytest.raises(TooManySums):
        store.ledger.sums(hours, ("job_name",), at_most=2 * 24 * DAYS - 1)


@pytest.mark.parametrize("limit", ["ROWS_MOST", "SUMS_MOST"])
async def test_too_large_a_question_is_refused_with_the_remedy(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    now = (FIRST + 24 * DAYS) * 3600.0
    service = CostService(store=store, now=lambda: now, labels=(), currency="USD")
    days = [(FIRST + 24 * d, FIRST + 24 * d + 24) for d in range(DAYS)]
    question = CostQuestion(steps=days, by=("job",), idle=Idle.SEPARATE, only={})
    monkeypatch.setattr(costs, limit, 2 * DAYS)
    assert len((await service.report(question, ANYBODY)).rows) == 2 * DAYS
    monkeypatch.setattr(costs, limit, 2 * DAYS - 1)
    with pytest.raises(
        InvalidRequest, match="for less time, longer steps, or fewer dimensions"
    ) as refused:
        await service.report(question, ANYBODY)
    assert [path for path, _ in refused.value.problems] == ["step"]


async def test_a_page_is_made_in_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[threading.Thread]()

    def noted(*given: object, **named: object) -> CostAnswer:
        threads.append(threading.current_thread())
        return cost_answer(*given, **named)  # type: ignore[arg-type]  # as it is called

    monkeypatch.setattr(cost_route, "cost_answer", noted)
    async with connected() as client:
        status, _ = await client.call("GET", f"/v1/cost?{WHEN}")
    assert status == 200
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


# ---- turns ---------------------------------------------------------------------------------------


async def settled() -> None:
    """Let all tasks go on as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("callers", "first"),
    [
        (("ana", "ana", "bob", "cat"), ["ana", "bob"]),
        (("ana", "ana", "ana", "ana"), ["ana"]),
        (("", "", "", "bob"), ["", ""]),
    ],
)
async def test_a_caller_has_one_turn_of_the_few_and_the_others_wait(
    callers: tuple[str, ...], first: list[str]
) -> None:
    turns = Turns(at_once=2, waiting=4, what="questions of cost")
    having, may_end = list[str](), asyncio.Event()

    async def ask(caller: str) -> None:
        async with turns.turn(caller):
            having.append(caller)
            await may_end.wait()

    async with asyncio.timeout(10), asyncio.TaskGroup() as asking:
        for caller in callers:
            asking.create_task(ask(caller))
        await settled()
        assert having == first
        may_end.set()
    assert sorted(having) == sorted(callers), "whoever waits has a turn later"


async def test_too_many_of_one_caller_are_refused_until_some_are_done() -> None:
    turns = Turns(at_once=2, waiting=2, what="questions of cost")

    async def ask() -> None:
        async with turns.turn("ana"):
            await asyncio.Event().wait()

    asking = [asyncio.create_task(ask()) for _ in range(2)]
    await settled()
    with pytest.raises(Unavailable, match="2 questions of cost of yours wait already: try later"):
        async with turns.turn("ana"):
            pass
    async with turns.turn("bob"):
        pass
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    async with asyncio.timeout(10), turns.turn("ana"):
        assert asking[0].cancelled()


async def test_questions_of_cost_have_turns() -> None:
    limits = replace(ApiLimits(), waiting_cost_questions=0)
    async with connected(limits=limits) as client:
        status, answer = await client.call("GET", f"/v1/cost?{WHEN}")
    assert status == 503
    assert "0 questions of cost of yours wait already" in answer["detail"]
