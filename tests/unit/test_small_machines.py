"""Machines that are smaller than their type says: told, and placed by what is there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from longshore.dispatcher.api.render.events import RENDERING
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.messages import PublishInstance
from longshore.dispatcher.explain.explanation import explain
from longshore.dispatcher.explain.health import cloud_problems, smaller_machines
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.service.events import Broker, ContainerNotifier, publish_event
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import found_as, shortfall
from longshore.pool.messages import SessionLost, UpdateLimits
from longshore.pool.model import MachineSize, PoolSettings
from tests.api_server import serving
from tests.rigs.elastic_jobs import elastic, essential, rig_of, running, submit
from tests.rigs.engine import Rig, last_commands
from tests.rigs.per_instance_jobs import DaemonRig, daemon
from tests.rigs.services import services_over, store_in
from tests.samples import GIB, make_container, make_type

MIB = 2**20
TWO = MachineSize(cpus=2, memory_bytes=7 * GIB)
SOLD = make_type(512, name="big")
QUIET = PoolSettings(idle_timeout_s=100_000)
TOLD = "2 cpus instead of 512 and 7 GiB of memory instead of 563"


def type_with(*, cpus: int, gib: float, reserve: Resources) -> InstanceType:
    resources = Resources(cpu_millis=1000 * cpus, memory_bytes=int(gib * GIB), disk_bytes=GIB)
    return replace(make_type(cpus), resources=resources, reserve=reserve)


NOTHING = Resources()
KEPT = Resources(cpu_millis=500, memory_bytes=GIB)


@pytest.mark.parametrize(
    ("reserve", "machine", "cpu_millis", "gib", "short"),
    [
        (NOTHING, None, 4000, 8, ""),
        (NOTHING, MachineSize(cpus=4, memory_bytes=8 * GIB), 4000, 8, ""),
        # The kernel keeps some: that is as usual, and nothing is placed otherwise for it.
        (NOTHING, MachineSize(cpus=4, memory_bytes=7 * GIB), 4000, 8, ""),
        # More than the type says is not placed on, since nobody pays for it by any price of ours.
        (NOTHING, MachineSize(cpus=64, memory_bytes=64 * GIB), 4000, 8, ""),
        (NOTHING, MachineSize(cpus=3, memory_bytes=8 * GIB), 3000, 8, "3 cpus instead of 4"),
        (
            NOTHING,
            MachineSize(cpus=4, memory_bytes=6 * GIB),
            4000,
            6,
            "6 GiB of memory instead of 8",
        ),
        (KEPT, MachineSize(cpus=2, memory_bytes=7 * GIB), 1500, 7, "2 cpus instead of 4"),
        # Of the reserve that is left which firmware and kernel have not taken already.
        (
            KEPT,
            MachineSize(cpus=4, memory_bytes=4 * GIB),
            3500,
            3 + 192 / 1024,
            "4 GiB of memory instead of 8",
        ),
        # What the reserve would take is all that there is.
        (
            KEPT,
            MachineSize(cpus=4, memory_bytes=GIB // 2),
            3500,
            0,
            "0.5 GiB of memory instead of 8",
        ),
    ],
)
def test_a_type_is_on_a_machine_what_both_have(
    reserve: Resources, machine: MachineSize | None, cpu_millis: int, gib: float, short: str
) -> None:
    type_ = type_with(cpus=4, gib=8, reserve=reserve)
    found = found_as(type_, machine)
    room = (found.allocatable.cpu_millis, found.allocatable.memory_bytes)
    assert room == (cpu_millis, int(gib * GIB))
    assert found.allocatable.disk_bytes == GIB
    assert shortfall(type_, machine) == short
    assert (found is type_) == (not short)


@pytest.mark.parametrize(
    ("reserve_mib", "told_mib", "left_mib", "is_short"),
    [
        # As EC2 sells it, with the reserve that `driver types` writes: it was 164 MiB.
        (256, 420, 256, False),
        (100, 420, 412, False),
        # Nothing is reserved: what there is, is there.
        (0, 420, 420, True),
        # It lacks more than firmware and kernel ever keep.
        (256, 300, 512 - 256 - (212 - 132), True),
        (64, 300, 300, True),
    ],
)
def test_what_the_kernel_keeps_of_a_small_machine_is_part_of_the_reserve(
    reserve_mib: int, told_mib: int, left_mib: int, is_short: bool
) -> None:
    reserve = Resources(memory_bytes=reserve_mib * MIB)
    type_ = type_with(cpus=1, gib=0.5, reserve=reserve)
    machine = MachineSize(cpus=1, memory_bytes=told_mib * MIB)
    left_bytes = found_as(type_, machine).allocatable.memory_bytes
    assert left_bytes // MIB == left_mib
    assert bool(shortfall(type_, machine)) is is_short
    assert left_bytes <= machine.memory_bytes


def small_rig(**settings: int) -> Rig:
    """Return a rig whose instances are sold with 512 cpus and have two."""
    rig = Rig(SOLD, settings=SchedulerSettings(**settings), pool=QUIET)  # type: ignore[arg-type]  # whole numbers
    rig.machine = TWO
    return rig


def test_no_more_is_placed_than_is_there() -> None:
    rig = small_rig(max_instances=1)
    rig.submit(*(make_container(n) for n in range(1, 5)))
    assert sorted(rig.started_on()) == ["c-1", "c-2"]


def test_those_who_find_no_room_there_go_to_further_ones() -> None:
    rig = small_rig(max_instances=2)
    rig.submit(*(make_container(n) for n in range(1, 6)))
    assert list(rig.started_on().values()) == ["i-001", "i-001", "i-002", "i-002"]


def test_none_is_bought_over_and_over_for_what_fits_none_of_them() -> None:
    rig = small_rig(max_instances=100)
    rig.submit(make_container(1, cpus=4))
    rig.advance(3000)
    assert rig.created_types() == ["big"]
    reason = rig.engine.why_waiting("c-1")
    assert reason is not None
    assert reason.code == "no_room_on_new"
    assert "instances of big turned out to have only 2 cpus" in reason.message
    assert "jobs that run on every instance" not in reason.message
    waiting = explain(rig.view, rig.containers["c-1"], rig.now).waiting
    assert waiting is not None
    (verdict,) = waiting.types
    assert verdict.reasons_against == ("its instances turned out to have only 2 cpus",)


def test_another_type_is_bought_for_it_though_it_costs_more() -> None:
    dear = make_type(4, name="dear", price="100")
    rig = Rig(SOLD, dear, settings=SchedulerSettings(max_price_factor=1.0), pool=QUIET)
    rig.machine = TWO
    rig.machines = {"i-002": MachineSize(cpus=4, memory_bytes=5 * GIB)}
    rig.submit(make_container(1, cpus=4))
    assert rig.created_types() == ["big", "dear"]
    assert rig.started_on() == {"c-1": "i-002"}


def test_what_is_known_of_a_type_is_tried_again_an_hour_after_the_last_one_is_gone() -> None:
    rig = Rig(SOLD, settings=SchedulerSettings(max_instances=9))
    rig.machine = TWO
    rig.submit(make_container(1, cpus=4))
    rig.advance(3000)
    assert (rig.created_types(), rig.worker_states()) == (["big"], {})
    rig.machine = None
    rig.advance(4000)
    assert rig.created_types() == ["big", "big"]
    assert rig.started_on() == {"c-1": "i-002"}


def test_one_instance_has_no_say_about_a_type_of_which_others_are_whole() -> None:
    rig = Rig(make_type(4), settings=SchedulerSettings(max_instances=9), pool=QUIET)
    rig.machine = MachineSize(cpus=4, memory_bytes=4 * GIB)
    rig.machines = {"i-002": MachineSize(cpus=1, memory_bytes=GIB)}
    rig.submit(*(make_container(n, cpus=4) for n in (1, 2)))
    assert rig.started_on() == {"c-1": "i-001", "c-2": "i-003"}
    assert rig.engine.pool.machines == {}


def test_who_is_coming_is_expected_to_be_as_small_as_the_others() -> None:
    rig = small_rig(max_instances=9)
    rig.submit(make_container(1, cpus=2))
    coming = rig.boot("big")
    rig.unreachable.add(coming)
    rig.advance(70)
    assert rig.engine.pool.workers[coming].load.free.cpu_millis == 2000
    rig.machines = {coming: MachineSize(cpus=512, memory_bytes=600 * GIB)}
    rig.unreachable.discard(coming)
    rig.advance(20)
    assert rig.engine.pool.workers[coming].load.free == SOLD.allocatable


def test_a_machine_that_was_made_larger_is_used_as_it_is_then() -> None:
    rig = small_rig(max_instances=1)
    rig.submit(*(make_container(n) for n in range(1, 5)))
    rig.machine = MachineSize(cpus=4, memory_bytes=7 * GIB)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    assert sorted(rig.started_on()) == ["c-1", "c-2", "c-3", "c-4"]
    rig.machine = MachineSize(cpus=512, memory_bytes=600 * GIB)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(60)
    told = [p.reason for p in rig.published if isinstance(p, PublishInstance)]
    assert "its machine is as large now as its type big" in told


def test_what_runs_there_already_goes_on_and_nothing_is_added() -> None:
    rig = Rig(SOLD, settings=SchedulerSettings(max_instances=1), pool=QUIET)
    rig.submit(*(make_container(n) for n in range(1, 5)))
    rig.machine = TWO
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.submit(make_container(5))
    assert sorted(rig.started_on()) == ["c-1", "c-2", "c-3", "c-4"]
    rig.exit("c-1-1")
    rig.exit("c-2-1")
    assert "c-5" not in rig.started_on()
    rig.exit("c-3-1")
    assert "c-5" in rig.started_on()


def test_daemons_are_told_that_they_can_never_fit() -> None:
    rig = DaemonRig(SOLD, settings=SchedulerSettings(max_instances=1), pool=QUIET)
    rig.machine = TWO
    rig.submit(make_container(1))
    rig.submit_daemon(daemon(2, cpus=4000))
    rig.submit_daemon(daemon(3, cpus=1000))
    on_it = {c.spec.name: id_ for id_, c in rig.engine.table.containers.items() if c.pinned_to}
    assert on_it["d3"] in rig.started_on()
    reason = rig.engine.why_waiting(on_it["d2"])
    assert reason is not None
    assert reason.code == "too_small"


def test_it_is_told_by_health_and_the_log() -> None:
    rig = small_rig(max_instances=1)
    rig.submit(make_container(1))
    (problem,) = smaller_machines(rig.view.pool)
    assert problem == (
        f"an instance of type big is smaller than the type says: i-001 has only {TOLD}; correct"
        " instance_types.big, or have the cloud make what it says"
    )
    assert cloud_problems(rig.view.pool, rig.now) == []
    (warned,) = [p for p in rig.published if isinstance(p, PublishInstance) and p.warns]
    with capture_logs() as logs:
        publish_event(
            warned,
            view=rig.view,
            broker=Broker(),
            watchers=ContainerNotifier(),
            heard_at=lambda _worker_id: 0.0,
            rendering=RENDERING,
        )
    (line,) = logs
    assert (line["log_level"], line["instance"]) == ("warning", "i-001")
    assert line["why"] == f"its machine is smaller than its type big says: it has {TOLD}"


def test_several_of_a_type_are_one_problem() -> None:
    rig = small_rig(max_instances=2)
    rig.submit(*(make_container(n) for n in range(1, 5)))
    (problem,) = smaller_machines(rig.view.pool)
    assert problem.startswith("2 instances of type big are smaller than the type says: i-001 has")


async def test_the_server_is_ready_and_tells_what_the_machine_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = small_rig(max_instances=1)
    rig.submit(make_container(1))
    with store_in(tmp_path) as store:
        async with services_over(rig, store, tmp_path) as services, serving(services) as (url, _):
            health = services.health.health()
            assert (health.ready, health.problems, len(health.advice)) == (True, (), 1)
            async with (
                ClientSession() as client,
                client.get(f"{url}/v1/instances") as answer,
            ):
                (seen,) = (await answer.json())["items"]
            assert seen["machine"] == {"cpus": 2, "memory": 7 * GIB}
            assert seen["shortfall"] == TOLD
            monkeypatch.setenv("LONGSHORE_URL", url)
            assert await asyncio.to_thread(main, ["instances"]) == 0
            assert f"has only {TOLD}" in " ".join(capsys.readouterr().out.split())


def test_what_there_is_is_counted_as_it_is() -> None:
    rig = small_rig(max_instances=1)
    rig.submit(make_container(1))
    found = values_of(rig)
    assert found["longshore_instances_cpus"] == 2
    assert found["longshore_instances_memory_bytes"] == 7 * GIB


def values_of(rig: Rig) -> dict[str, float]:
    metrics = Metrics(rig.view, heard_at=lambda _id: 0.0)
    text = metrics.exposition(rig.now).decode()
    families = text_string_to_metric_families(text)
    return {
        s.name: s.value for family in families for s in family.samples if "category" in s.labels
    }


def test_elastic_jobs_take_no_more_than_is_there() -> None:
    rig = rig_of(8, most=1)
    rig.machine = MachineSize(cpus=3, memory_bytes=8 * GIB)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    submit(rig, 1, essential(1), elastic(6))
    assert running(rig) == {"e": 1, "w": 2}


def test_spare_cpus_are_those_that_are_there() -> None:
    rig = rig_of(8)
    rig.machine = MachineSize(cpus=3, memory_bytes=8 * GIB)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    submit(rig, 1, essential(1, cpus=2))
    told = {each.attempt_id: each.cpu_millis for each in last_commands(rig, UpdateLimits)}
    assert told == {"c-1000-1": 3000}
