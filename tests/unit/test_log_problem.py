"""Why a container's log does not come: the disk of the logs, its instance, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.domain.views import ProblemKind
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.store import Store
from longshore.pool.messages import Probe, SessionLost
from tests.rigs.engine import Rig
from tests.rigs.services import runtime_over, services_with, store_in
from tests.samples import make_container, make_type
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
    assert services.containers.wait_status(rig.engine.table.containers["c-1"]).doubt == ""


async def test_an_instance_without_a_session_is_what_one_waits_for(
    rig: Rig, services: Services
) -> None:
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(20)
    unheard = "instance i-001 is not reached, last heard 20 s ago (session: reset)"
    assert problem(rig, services).startswith(unheard)
    doubt = services.containers.wait_status(rig.engine.table.containers["c-1"]).doubt
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
