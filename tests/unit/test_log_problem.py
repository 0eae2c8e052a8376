"""Why a container's log does not come: the disk of the logs, its instance, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.domain.messages import PublishInstance
from longshore.dispatcher.domain.views import ProblemKind
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.store import Store
from longshore.pool.messages import AttemptExited, Probe, SessionLost
from longshore.pool.model import AttemptExit, ExitKind
from tests.rigs.engine import Rig
from tests.rigs.services import runtime_over, services_with, store_in
from tests.samples import ME, make_container, make_type
from tests.small_disk import small_disk


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


@pytest.fixture
def rig() -> Rig:
    return Rig(make_type(1))


@pytest.fixture
async def services(rig: Rig, store: Store, tmp_path: Path) -> Services:
    return services_with(runtime_over(rig, store), rig, store, tmp_path)


def problem(rig: Rig, services: Services) -> str:
    return services.logs.problem(rig.engine.table.containers["c-1"])


async def test_nothing_keeps_the_log_of_what_waits_or_runs_well(
    rig: Rig, services: Services
) -> None:
    container = make_container(1)
    assert services.logs.problem(container) == ""
    rig.submit(container)
    assert problem(rig, services) == ""
    assert (
        services.containers.wait_status(rig.engine.table.containers["c-1"], caller=ME).doubt == ""
    )


async def test_an_instance_without_a_session_is_what_one_waits_for(
    rig: Rig, services: Services
) -> None:
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(20)
    unheard = "instance i-001 is not reached, last heard 20 s ago (session: reset)"
    assert problem(rig, services).startswith(unheard)
    doubt = services.containers.wait_status(rig.engine.table.containers["c-1"], caller=ME).doubt
    assert doubt == f"{unheard}; until it is, nobody knows how it goes there"


async def test_a_full_disk_is_told_first(rig: Rig, services: Services, tmp_path: Path) -> None:
    rig.submit(make_container(1))
    with small_disk(tmp_path / "logs"):
        assert "are left to others" in problem(rig, services)
        first = services.health.health().problems[0]
        assert (first.kind, first.message) == (ProblemKind.LOGS, problem(rig, services))
        assert services.health.health().ready, "requests are served, and work goes on"
    assert problem(rig, services) == ""
    assert ProblemKind.LOGS not in {each.kind for each in services.health.health().problems}


def exited(rig: Rig, number: int, *, wrote: int) -> None:
    """Let an attempt end whose log, of so many bytes, is still on its instance."""
    how = AttemptExit(kind=ExitKind.EXITED, code=0, stdout_bytes=wrote)
    rig.send(AttemptExited(worker_id="i-001", attempt_id=f"c-{number}-1", exit=how))


def warned(rig: Rig) -> list[tuple[str, str]]:
    """Return the states and reasons of instances that were told as warnings."""
    told = [each for each in rig.published if isinstance(each, PublishInstance)]
    return [(each.state, each.reason) for each in told if each.warns]


async def test_logs_that_are_lost_with_their_instance_are_told_by_name_and_size(
    store: Store, tmp_path: Path
) -> None:
    """Found by a stranger: only `longshore logs` said so, and only of the container asked for."""
    rig = Rig(make_type(3))
    services = services_with(runtime_over(rig, store), rig, store, tmp_path)
    rig.submit(*(make_container(number) for number in (1, 2, 3)))
    for number, wrote in ((1, 6), (2, 0), (3, 70)):
        exited(rig, number, wrote=wrote)
    assert warned(rig) == []
    rig.advance(rig.pool_settings.probe_timeout_s + 1)
    rest = "what has not come yet of the logs of c-1-1 (6 bytes), c-3-1 (70 bytes)"
    why = "idle for idle_timeout and not wanted"
    told = warned(rig)
    assert ("shutdown", f"{why}; {rest} goes with it") in told
    rig.advance(60)
    lost = f"{why}; {rest} is lost with it"
    assert warned(rig)[-1] == ("gone", lost)
    assert rig.instances["i-001"].gone_reason == lost
    for number, wrote in ((1, 6), (3, 70)):
        ended = rig.containers[f"c-{number}"]
        lacks = f"what had not come by then of the {wrote} bytes that c-{number}-1 wrote"
        assert services.logs.problem(ended) == f"{lacks} was lost on i-001"
    assert services.logs.problem(rig.containers["c-2"]) == ""


async def test_a_log_that_an_instance_no_longer_has_is_told(rig: Rig) -> None:
    rig.submit(make_container(1))
    exited(rig, 1, wrote=6)
    rig.on_instance["i-001"].clear()
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="rebooted"))
    lost = "what has not come yet of the log of c-1-1 (6 bytes) is lost"
    assert warned(rig) == [("idle", f"{lost}: the instance no longer has it")]


async def test_a_log_that_is_whole_is_not_told_as_lost(rig: Rig, services: Services) -> None:
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.advance(120)
    assert rig.worker_states() == {}
    assert warned(rig) == []
    assert services.logs.problem(rig.containers["c-1"]) == ""
