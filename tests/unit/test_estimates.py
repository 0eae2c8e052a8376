"""What work may come to before it runs: literal tables, the history in the store, and the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from longshore.dispatcher.cost.estimate import (
    ENOUGH_RUNS,
    AtMost,
    FromRuns,
    PastRuns,
    TimeBound,
    Unbounded,
    Unknown,
    Work,
    WorkKind,
    basis,
    estimated_cost,
    quantile,
    span_in_words,
)
from longshore.dispatcher.domain.containers import Container, ContainerState, Placement
from longshore.dispatcher.domain.ledger import Account, BilledState, Interval, ms_of
from longshore.dispatcher.domain.messages import SaveContainer, SaveInterval
from longshore.dispatcher.explain.efficiency import Market, dearest_usd_per_hour_of
from longshore.dispatcher.store import past_runs
from longshore.dispatcher.store.store import Store
from longshore.drivers.interface import InstanceType
from tests.api_server import Client, connected
from tests.rigs.api import EPOCH
from tests.samples import make_container, make_type
from tests.store_values import SPEC, container, insert, insert_job, job, new_store, task, url_in

DAY_S = 86_400.0
NOW = 100 * DAY_S
UNBOUNDED = Unbounded(why="set time_limit_s")
TWO_HOURS = TimeBound(time_limit_s=7200.0, attempts=3, usd_per_hour=Decimal("0.05"))


def past(*costs: str, days: float = 30) -> PastRuns:
    return PastRuns(costs_usd=tuple(map(Decimal, costs)), since=NOW - days * DAY_S)


ALIKE = past(*["0.5"] * 20)
UNLIKE = past(*["1"] * 10, *["3"] * 10)


def work(number: int = 1, of: PastRuns = ALIKE, bound: Any = UNBOUNDED, name: str = "") -> Work:
    return Work(name=name, number=number, past=of, bound=bound)


# ---- from runs -----------------------------------------------------------------------------------


def test_quantiles_are_costs_that_there_were() -> None:
    costs = [Decimal(each) for each in range(20, 0, -1)]
    assert (quantile(costs, 0.5), quantile(costs, 0.9)) == (Decimal(10), Decimal(18))


def test_one_container_is_told_by_the_runs_that_there_were() -> None:
    found = estimated_cost([work(of=past(*map(str, range(1, 21))))], NOW)
    assert found == FromRuns(p50_usd=Decimal(10), p90_usd=Decimal(18), runs=20, days=30)
    assert basis(found) == "from 20 runs of the last 30 days"


def test_many_containers_add_up_and_their_spread_does_not() -> None:
    # Of n = 100 with mean 2 and variance 20 / 19, of which k = 20 are known:
    # the variance of the sum is 20 / 19 * (100 + 100 * 100 / 20) = 631.578947...
    found = estimated_cost([work(100, UNLIKE)], NOW)
    assert isinstance(found, FromRuns)
    assert found.p50_usd == 200
    assert found.p90_usd == Decimal("232.20697292")


def test_what_always_costs_the_same_has_no_spread() -> None:
    found = estimated_cost([work(40), work(10, ALIKE)], NOW)
    assert found == FromRuns(p50_usd=Decimal(25), p90_usd=Decimal(25), runs=20, days=30)


def test_the_variances_of_tasks_add_up() -> None:
    apart = estimated_cost([work(50, UNLIKE, name="a"), work(50, UNLIKE, name="b")], NOW)
    assert isinstance(apart, FromRuns)
    # 2 * 20 / 19 * (50 + 50 * 50 / 20) = 368.421..., of which the root is 19.194...
    assert apart.p90_usd == Decimal("224.59848189")


def test_the_fewest_runs_and_the_longest_time_are_told() -> None:
    more = past(*["0.5"] * 33, days=0.5)
    assert estimated_cost([work(2, more), work(2)], NOW) == FromRuns(
        p50_usd=Decimal(2), p90_usd=Decimal(2), runs=20, days=30
    )
    assert basis(estimated_cost([work(2, more)], NOW)) == "from 33 runs of the last day"


def test_what_is_too_small_to_be_told_is_rounded_up() -> None:
    found = estimated_cost([work(of=past(*["0.000000000001"] * 20))], NOW)
    assert isinstance(found, FromRuns)
    assert found.p50_usd == found.p90_usd == Decimal("0.00000001")


# ---- from limits ---------------------------------------------------------------------------------


def test_too_few_runs_leave_the_time_limit() -> None:
    few = past(*["0.5"] * 19)
    found = estimated_cost([work(10, few, TWO_HOURS)], NOW)
    assert found == AtMost(usd=Decimal(3), time_limit_s=7200.0, attempts=3, bounded=10, of=10)
    assert basis(found).startswith("upper bound: time limit 2h, 3 attempts; ")
    once = replace(TWO_HOURS, attempts=1)
    assert basis(estimated_cost([work(1, few, once)], NOW)).startswith(
        "upper bound: time limit 2h; "
    )


def test_enough_runs_are_better_than_a_time_limit() -> None:
    assert isinstance(estimated_cost([work(10, ALIKE, TWO_HOURS)], NOW), FromRuns)


def test_what_is_known_of_the_other_tasks_counts_beside_a_bound() -> None:
    found = estimated_cost([work(4, ALIKE), work(1, PastRuns(), TWO_HOURS)], NOW)
    assert found == AtMost(usd=Decimal("2.3"), time_limit_s=7200.0, attempts=3, bounded=1, of=5)
    assert "3 attempts of 1 of 5 containers" in basis(found)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([], "nobody knows how many containers it will have"),
        ([work(0)], "nobody knows how many containers it will have"),
        ([work(1, PastRuns())], "set time_limit_s"),
        ([work(1), work(1, PastRuns(), name="join")], "task join: set time_limit_s"),
        (
            [work(1, PastRuns(), TWO_HOURS), work(1, PastRuns(), name="join")],
            "task join: set time_limit_s",
        ),
    ],
)
def test_what_nobody_knows_is_unknown(parts: list[Work], why: str) -> None:
    assert estimated_cost(parts, NOW) == Unknown(why=why)
    assert basis(Unknown(why=why)) == why


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(45, "45s"), (0.2, "1s"), (5400, "1h 30m"), (7200, "2h"), (90_061, "1d 1h")],
)
def test_a_span_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert span_in_words(seconds) == words


# ---- the history ---------------------------------------------------------------------------------

KIND = WorkKind(user="ann", job_name="demo", task="", asked=SPEC.resources)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = new_store(tmp_path)
    yield opened
    opened.close()


def ran(store: Store, done: Container, *, name: str = "demo", ended_at: float = NOW) -> None:
    """Let a container that there is have had one attempt, and be as it is."""
    interval = Interval(
        instance_id="i-1",
        holder=f"a-{done.id}-{ended_at}",
        from_ms=ms_of(ended_at - 60),
        until_ms=ms_of(ended_at),
        state=BilledState.WORK,
        share=Fraction(1, 2),
        account=Account(
            project=done.project,
            user=done.user,
            job_name=name,
            job_id=done.job_id,
            task=done.task,
            container_id=done.id,
        ),
    )
    store.write([SaveContainer(container=done), SaveInterval(interval=interval)]).result(30)


def once(store: Store, sequence: int, cost: str = "0.5", at: float = NOW, **more: Any) -> None:
    values = {"state": ContainerState.SUCCEEDED, "cost_usd": Decimal(cost), **more}
    made = container(sequence, **values)
    insert(store, made)
    ran(store, made, ended_at=at)


def costs(store: Store, kind: WorkKind = KIND, since: float = 0.0) -> list[str]:
    return [str(each) for each in store.ledger.past_runs(kind, since).costs_usd]


def test_only_such_runs_count_that_ended_and_cost_something(store: Store) -> None:
    once(store, 1, "0.1")
    once(store, 2, "0.2", state=ContainerState.FAILED)
    once(store, 3, "0.3", state=ContainerState.CANCELLED)
    once(store, 4, "0.4", state=ContainerState.QUEUED)
    once(store, 5, "0")
    once(store, 6, "0.6", user="bob")
    other = replace(SPEC, resources=replace(SPEC.resources, cpu_millis=2000))
    once(store, 7, "0.7", spec=other)
    assert costs(store) == ["0.1", "0.2"]
    assert costs(store, replace(KIND, user="bob")) == ["0.6"]
    assert costs(store, replace(KIND, asked=other.resources)) == ["0.7"]
    assert costs(store, replace(KIND, job_name="none")) == []


def test_a_run_is_a_container_with_all_of_its_attempts(store: Store) -> None:
    once(store, 1, "0.9", at=NOW - 3600)
    ran(store, container(1, state=ContainerState.SUCCEEDED, cost_usd=Decimal("0.9")))
    found = store.ledger.past_runs(KIND, 0.0)
    assert found == PastRuns(costs_usd=(Decimal("0.9"),), since=NOW)


def test_a_container_of_a_job_counts_by_the_jobs_name_and_its_task(store: Store) -> None:
    night = job(1, task("left"), task("right"), name="night")
    for number, each in enumerate(insert_job(store, night, 1), 1):
        cost_usd = Decimal(number)
        ran(
            store,
            replace(each, state=ContainerState.SUCCEEDED, cost_usd=cost_usd),
            name="night",
        )
    assert costs(store, replace(KIND, job_name="night", task="left")) == ["1"]
    assert costs(store, replace(KIND, job_name="night", task="right")) == ["2"]
    assert costs(store, replace(KIND, job_name="night")) == []


def test_the_latest_count_and_none_from_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 5):
        once(store, number, str(number), at=NOW + number)
    assert costs(store, since=NOW + 3) == ["3", "4"]
    assert store.ledger.past_runs(KIND, NOW + 3).since == NOW + 3
    monkeypatch.setattr(past_runs, "MOST_LOOKED_AT", 1)
    assert costs(store) == ["4"]


def test_the_history_is_found_by_an_index(store: Store, tmp_path: Path) -> None:
    del store
    query = past_runs._query(KIND, NOW)
    engine = create_engine(url_in(tmp_path))
    compiled = query.compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        rows = connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}")).all()
    engine.dispose()
    plan = [row.detail for row in rows]
    by_index = "SEARCH ledger_intervals USING INDEX ledger_intervals_by_work"
    assert any(step.startswith(by_index) for step in plan), plan
    assert not any("SCAN ledger_intervals" in step or "SCAN containers" in step for step in plan)


# ---- what bounds it ------------------------------------------------------------------------------

CHEAP = make_type(2, name="cheap", price="0.10")
NEAR = make_type(2, name="near", price="0.14")
DEAR = make_type(2, name="dear", price="0.90")
FREE = make_type(2, name="own", price="0")
TINY = make_type(1, name="tiny", price="9")


@pytest.mark.parametrize(
    ("types", "there", "usd"),
    [
        ((CHEAP,), (), "0.10"),
        ((CHEAP, NEAR, DEAR), (), "0.14"),
        ((CHEAP, NEAR, replace(DEAR, prepaid=1)), (), "0.90"),
        ((CHEAP, NEAR, DEAR), ("dear",), "0.90"),
        ((CHEAP, TINY), ("tiny",), "0.10"),
        ((DEAR, FREE), (), "0"),
        ((CHEAP, FREE), ("cheap",), "0"),
        ((TINY,), (), None),
    ],
)
def test_a_bound_is_the_dearest_type_that_it_may_go_to(
    types: tuple[InstanceType, ...], there: tuple[str, ...], usd: str | None
) -> None:
    as_new = {each.name: each for each in types}
    market = Market(types=types, as_new=as_new, placement=Placement.EXCLUSIVE)
    spec = make_container(1, cpus=2).spec
    found = dearest_usd_per_hour_of(spec, market, there=there, max_price_factor=1.5)
    assert found == (None if usd is None else Decimal(usd))


# ---- as it is answered ---------------------------------------------------------------------------

TASK = {"command": ["true"], "cpus": 32}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as made:
        yield made


async def planned(client: Client, **job_body: Any) -> dict[str, Any]:
    status, answer = await client.post("/v1/jobs/plan", job_body)
    assert status == 200, answer
    return dict(answer["cost"])


async def test_a_plan_without_history_or_limit_says_that_nobody_knows(client: Client) -> None:
    cost = await planned(client, name="align", tasks=[TASK])
    assert cost["p50_usd"] is cost["p90_usd"] is cost["at_most_usd"] is None
    assert "set time_limit_s" in cost["basis"]


async def test_a_plan_is_bounded_by_its_time_limit(client: Client) -> None:
    tasks = [{**TASK, "time_limit_s": 7200, "array": 10, "retries": {"max": 1}}]
    cost = await planned(client, name="align", tasks=tasks)
    # Half of a small instance at 0.1 an hour, for 2 hours, 2 attempts, and 10 containers.
    assert cost["at_most_usd"] == 2
    assert cost["basis"].startswith("upper bound: time limit 2h, 2 attempts")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"type": "system", "tasks": [TASK]}, "it runs on each instance"),
        ({"type": "elastic", "tasks": [TASK]}, "it has as many containers as"),
        ({"tasks": [{**TASK, "time_limit_s": 60}]}, "upper bound"),
    ],
)
async def test_each_type_of_job_says_what_is_known(
    client: Client, body: dict[str, Any], why: str
) -> None:
    assert (await planned(client, name="align", **body))["basis"].startswith(why)


async def test_a_plan_is_told_by_the_callers_runs(client: Client) -> None:
    rig, caller = client.rig, "anonymous"
    for number in range(1, 1 + ENOUGH_RUNS):
        once(
            rig.store,
            number,
            str(number),
            at=EPOCH - DAY_S,
            user=caller,
            spec=replace(SPEC, name="demo"),
        )
    body = {"command": ["other"], "cpus": 1, "memory": 2**30}
    cost = await planned(client, name="demo", tasks=[body])
    assert cost == {
        "p50_usd": 10,
        "p90_usd": 18,
        "at_most_usd": None,
        "basis": "from 20 runs of the last day",
    }
    assert (await planned(client, tasks=[body]))["p50_usd"] is None, "it has no name"
