"""What goes on, in numbers: counted as it happens, by project, and cheap to ask for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from longshore.dispatcher.api.render.explain import holds_answer
from longshore.dispatcher.api.render.overview import overview_answer
from longshore.dispatcher.api.render.values import encode
from longshore.dispatcher.domain.containers import Container, ContainerState, SchedulerSettings
from longshore.dispatcher.explain.overview import Overview, overview
from longshore.dispatcher.service.overview import OverviewService
from longshore.dispatcher.state.tally import ENDED_FOR_S
from longshore.drivers.errors import QuotaError
from longshore.pool.messages import CreateFailed, CreateInstance
from tests.api_server import Client, connected
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

GOAL_S = 0.02
MANY = 100_000


def told(seen: Overview) -> dict[str, int]:
    return {each.reason.code: each.number for each in seen.waiting}


def of(project: str, number: int, *, cpus: float = 1, priority: int = 500) -> Container:
    return replace(make_container(number, cpus=cpus, priority=priority), project=project)


def a_queue() -> Rig:
    """Return an engine in which one instance is being created, for what is asked first."""
    rig = Rig(make_type(4))
    rig.silent.add(CreateInstance)
    rig.submit(of("a", 1, cpus=4))
    rig.submit(of("b", 2, cpus=4, priority=0))
    rig.submit(of("b", 3, cpus=64))
    return rig


def test_each_is_counted_where_it_is_and_by_project() -> None:
    rig = a_queue()
    seen = overview(rig.view, rig.now, None)
    assert sum(seen.states.values()) == 3
    assert told(seen) == {"has_place": 1, "held": 1, "no_type": 1}
    of_b = overview(rig.view, rig.now, ("b", "c"))
    assert told(of_b) == {"held": 1, "no_type": 1}
    assert {each.sample for each in of_b.waiting} == {"c-2", "c-3"}
    assert of_b.states == {ContainerState.QUEUED: 2}
    assert (of_b.instances, seen.instances is not None) == (None, True)
    nobodys = overview(rig.view, rig.now, ())
    assert (nobodys.waiting, nobodys.waiting_since, dict(nobodys.states)) == ((), None, {})


def test_no_sentence_names_another() -> None:
    rig = Rig(make_type(4), settings=SchedulerSettings(max_instances=0))
    rig.submit(*(make_container(number, cpus=number % 4 + 1) for number in range(1, 9)))
    seen = overview(rig.view, rig.now, None)
    sentences = [each.reason.message for each in seen.waiting]
    assert sentences
    assert not [each for each in sentences if "c-" in each], sentences
    assert sum(each.number for each in seen.waiting) == 8


def test_who_goes_on_is_counted_no_more_and_who_has_ended_for_a_day() -> None:
    rig = Rig(make_type(4))
    rig.submit(of("a", 1))
    rig.submit(of("a", 2, priority=0))
    rig.advance(120)
    seen = overview(rig.view, rig.now, ("a",))
    assert seen.states == {ContainerState.RUNNING: 1, ContainerState.QUEUED: 1}
    assert seen.waiting_since is None
    rig.cancel("c-2")
    rig.exit("c-1-1")
    seen = overview(rig.view, rig.now, ("a",))
    assert dict(seen.states) == {}
    assert seen.ended == {ContainerState.SUCCEEDED: 1, ContainerState.CANCELLED: 1}
    assert overview(rig.view, rig.now, ("b",)).ended == {}
    assert overview(rig.view, rig.now + ENDED_FOR_S + 1200, None).ended == {}


def test_a_hundred_thousand_that_wait_cost_no_more_than_their_classes() -> None:
    rig = Rig(make_type(4), settings=SchedulerSettings(max_instances=0))
    some = [of(f"p{number % 10}", number, cpus=number % 4 + 1) for number in range(20)]
    rig.submit(*some)
    for number in range(20, MANY):
        alike = replace(some[number % 20], id=f"c-{number}", sequence=number)
        rig.engine.table.admit(alike)
    took_s: list[float] = []
    for projects in (None, ("p1", "p2"), None):
        began = time.process_time()
        seen = overview(rig.view, rig.now, projects)
        encode(overview_answer(seen, rig.now))
        took_s.append(time.process_time() - began)
        wanted = MANY if projects is None else MANY // 5
        assert sum(each.number for each in seen.waiting) == wanted
    assert min(took_s) < GOAL_S, took_s


# ---- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


async def test_it_is_answered_with_instances_and_what_they_cost(client: Client) -> None:
    await client.rig.add_instance("i-1")
    wanted = {"command": ["true"], "cpus": 1, "memory": "1GiB"}
    for priority in (500, 0):
        await client.post("/v1/containers", {**wanted, "priority": priority})
    await client.rig.settled()
    status, answer = await client.call("GET", "/v1/overview")
    assert status == 200
    assert answer["containers"] == {"queued": 1, "locked": 1, "running": 0}
    (held,) = answer["waiting"]
    assert (held["code"], held["count"], held["sample"]) == ("held", 1, "c-00000002")
    assert answer["instances"] == {
        "counts": [{"state": "running", "idle_behavior": "run", "count": 1}],
        "creating": 0,
        "price_usd_per_hour": 0.1,
    }
    assert (await client.call("GET", "/v1/overview?x=1"))[0] == 400


async def test_holds_and_limits_say_what_to_turn(client: Client) -> None:
    await client.post("/v1/containers", {"command": ["true"], "cpus": 1, "memory": "1GiB"})
    await client.rig.settled()
    status, answer = await client.call("GET", "/v1/holds")
    assert status == 200
    assert answer["holds"] == []
    limits = {each["name"]: each for each in answer["limits"]}
    spend = limits["max_hourly_spend"]
    assert (spend["used"], spend["limit"], spend["reached"]) == (0, 0, True)
    assert (spend["blocking"], spend["adds"]) == (True, None)
    assert limits["max_instances"]["reached"] is False
    assert limits["max_instances"]["blocking"] is False
    assert (await client.call("GET", "/v1/holds?x=1"))[0] == 400


def test_a_hold_is_told_with_its_cause_and_end() -> None:
    rig = Rig(make_type(4))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    create = last_commands(rig, CreateInstance)[-1]
    refused = QuotaError("no more of these")
    rig.send(CreateFailed(op_id=create.op_id, token=create.launch.token, error=refused))
    service = OverviewService(view=rig.view, now=lambda: rig.now)
    (held,) = holds_answer(service.holds()).holds
    assert held.cause == "quota"
    assert "no more of these" in held.message
    assert held.until is not None
