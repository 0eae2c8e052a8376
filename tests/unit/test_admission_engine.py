"""What no instance could ever run, since the engine of the configuration is not for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.dispatcher.config.model import EngineName
from longshore.dispatcher.service.contracts import NewContainer, NewJob
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from tests.job_samples import make_task
from tests.rigs.services import runtime_over, services_with, store_in, waiting_rig
from tests.samples import ME, make_container

SET = "cannot be run: engine.name of the configuration is"
LEAVE = "leave the image out, or have engine.name set to podman, docker or auto"
NAME = "name an image, or have engine.name set to auto"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


def served(store: Store, tmp_path: Path, engine: EngineName) -> Services:
    rig = waiting_rig()
    return services_with(runtime_over(rig, store), rig, store, tmp_path, engine=engine)


async def submit(services: Services, *images: str) -> None:
    items = [
        NewContainer(spec=make_container(1, image=image).spec, priority=500, project="p")
        for image in images
    ]
    await services.containers.submit(items, caller=ME, idempotency_key="", fingerprint="")


@pytest.mark.parametrize(
    ("engine", "image", "why"),
    [
        (EngineName.PROCESS, "busybox", f"{SET} process, which runs no images; {LEAVE}"),
        (EngineName.PODMAN, "", f"{SET} podman, which runs nothing without an image; {NAME}"),
        (EngineName.DOCKER, "", f"{SET} docker, which runs nothing without an image; {NAME}"),
    ],
)
async def test_what_the_engine_of_the_configuration_never_runs_is_refused(
    store: Store, tmp_path: Path, engine: EngineName, image: str, why: str
) -> None:
    """Found by a stranger: it was taken, got a place on an instance, and failed there."""
    services = served(store, tmp_path, engine)
    other = "" if image else "busybox"
    with pytest.raises(InvalidRequest) as refused:
        await submit(services, other, image)
    assert refused.value.problems == [("[1].image", why)]
    await submit(services, other)
    task = make_task()
    job = NewJob(
        name="j",
        labels=(),
        tasks=(replace(task, spec=replace(task.spec, image=image)),),
        priority=500,
        project="p",
    )
    with pytest.raises(InvalidRequest) as refused:
        await services.jobs.submit(job, caller=ME, idempotency_key="", fingerprint="")
    assert refused.value.problems == [("tasks[0].image", why)]


async def test_with_auto_an_instance_may_come_that_runs_it(store: Store, tmp_path: Path) -> None:
    await submit(served(store, tmp_path, EngineName.AUTO), "busybox", "")
