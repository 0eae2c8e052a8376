"""How many kinds of requests may wait: by whatever way they come, and however many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.dispatcher.config.model import LimitsConfig
from longshore.dispatcher.service.contracts import NewContainer, NewJob, NotFound, Unavailable
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from tests.job_samples import make_task
from tests.rigs.engine import Rig
from tests.rigs.services import runtime_over, services_with, store_in, waiting_rig
from tests.samples import ME, make_container

MOST = 2


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


@pytest.fixture
def rig() -> Rig:
    return waiting_rig()


@pytest.fixture
async def services(rig: Rig, store: Store, tmp_path: Path) -> Services:
    runtime = runtime_over(rig, store)
    return services_with(runtime, rig, store, tmp_path, limits=LimitsConfig(queued_classes=MOST))


async def submit(services: Services, *kinds: int) -> None:
    items = [
        NewContainer(spec=make_container(1, cpus=kind).spec, priority=500, project="p")
        for kind in kinds
    ]
    await services.containers.submit(items, caller=ME, idempotency_key="", fingerprint="")


async def test_a_list_of_too_many_kinds_is_refused(services: Services) -> None:
    with pytest.raises(InvalidRequest, match="has 3 kinds of requests, and 2 may be in the queue"):
        await submit(services, 1, 2, 3)
    await submit(services, 1, 2, 1)


async def test_requests_that_come_at_once_do_not_each_find_room(
    services: Services,
) -> None:
    came = await asyncio.gather(
        *(submit(services, kind) for kind in (1, 2, 3, 4)), return_exceptions=True
    )
    assert [type(each) for each in came] == [type(None), type(None), Unavailable, Unavailable]
    # The engine was not run, so that none of them waits: the room is there again.
    await submit(services, 3, 4)


async def test_who_is_held_back_by_the_priority_comes_back_only_where_there_is_room(
    rig: Rig, services: Services
) -> None:
    waiting = [make_container(number, cpus=number) for number in (1, 2)]
    held = [make_container(number, cpus=number - 10, priority=0) for number in (11, 12, 13)]
    rig.submit(*waiting, *held)
    with pytest.raises(Unavailable, match="kinds of requests"):
        await services.containers.set_priority("c-13", 500, caller=ME)
    # As far as the store, which does not know those of the rig.
    for container_id, priority in (("c-13", 0), ("c-11", 500), ("c-1", 600)):
        with pytest.raises(NotFound):
            await services.containers.set_priority(container_id, priority, caller=ME)


async def test_no_plan_is_made_of_more_kinds_than_may_wait(services: Services) -> None:
    tasks = tuple(make_task(str(number), cpus=cpus) for number, cpus in enumerate((1, 2, 1, 3)))
    new = NewJob(name="n", priority=500, project="p", labels=(), tasks=tasks[:3])
    assert (await services.jobs.plan(new, job_id="", caller=ME)).counts.place == 3
    with pytest.raises(InvalidRequest, match="has 3 kinds of requests, and 2 may be in the queue"):
        await services.jobs.plan(replace(new, tasks=tasks), job_id="", caller=ME)
