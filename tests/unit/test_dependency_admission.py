"""The way in for what waits for others: looked up, pinned, committed, told; nothing is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.dispatcher.domain.containers import Dependency
from longshore.dispatcher.domain.jobs import JobState, JobTask
from longshore.dispatcher.domain.queries import JobFilter
from longshore.dispatcher.service.contracts import (
    Conflict,
    KeyReused,
    NewContainer,
    NewJob,
    NotFound,
)
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from tests.job_samples import each_of, make_task
from tests.rigs.engine import Rig
from tests.rigs.services import handled, services_over, store_in, waiting_rig
from tests.samples import ME, make_container


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


@pytest.fixture
def rig() -> Rig:
    return waiting_rig()


@pytest.fixture
async def services(rig: Rig, store: Store, tmp_path: Path) -> AsyncIterator[Services]:
    async with services_over(rig, store, tmp_path) as made:
        yield made


async def submit(services: Services, *after: Dependency, project: str = "p", key: str = "") -> str:
    spec = replace(make_container(1).spec, after=after)
    items = [NewContainer(spec=spec, priority=500, project=project)]
    made = await services.containers.submit(items, caller=ME, idempotency_key=key, fingerprint="f")
    return made[0].id


async def submit_job(services: Services, *tasks: JobTask, key: str = "") -> str:
    new = NewJob(name="n", priority=500, project="p", labels=(("a", "b"),), tasks=tasks)
    made = await services.jobs.submit(new, caller=ME, idempotency_key=key, fingerprint="f")
    return made.id


async def state_of(services: Services, container_id: str) -> str:
    """Return a container's committed state, once the engine has done what it has to do."""
    for _ in range(3000):
        if (await services.containers.container(container_id, caller=ME)).state.final:
            break
        await asyncio.sleep(0.01)
    return (await services.containers.container(container_id, caller=ME)).state.value


def problems(error: pytest.ExceptionInfo[InvalidRequest]) -> list[tuple[str, str]]:
    return list(error.value.problems)


async def test_what_there_is_not_or_what_is_another_project_s_is_refused(
    services: Services, rig: Rig
) -> None:
    other = await submit(services, project="q")
    with pytest.raises(InvalidRequest) as error:
        await submit(services, Dependency(of="c-none"), Dependency(of=other))
    assert problems(error) == [
        ("[0].after[0].of", "there is no c-none in the project 'p'"),
        ("[0].after[1].of", f"there is no {other} in the project 'p'"),
    ]
    await handled()
    assert rig.engine.workflow._watched == {}, "nothing is remembered for who was refused"


async def test_arrays_wait_element_by_element_for_arrays_of_their_size_only(
    services: Services,
) -> None:
    three = await submit_job(services, make_task(size=3))
    named = await submit_job(services, make_task("a", size=3))
    with pytest.raises(InvalidRequest) as error:
        await submit_job(
            services,
            make_task("x", size=2, after=(each_of(three),)),
            make_task("y", size=3, after=(each_of(named),)),
            make_task("z", size=3, after=(each_of(f"{named}/a"),)),
        )
    assert [path for path, _ in problems(error)] == ["tasks[0].after[0].of", "tasks[1].after[0].of"]
    ending = "element by element both are arrays of one size"
    assert problems(error)[0][1].startswith(f"{three} is an array of 3")
    assert problems(error)[0][1].endswith(ending)
    hint = f"{named} is no array (a task of a job is {named}/NAME); {ending}"
    assert problems(error)[1][1] == hint
    await submit_job(services, make_task("z", size=3, after=(each_of(f"{named}/a"),)))


async def test_what_was_cancelled_before_decides_at_once(services: Services, rig: Rig) -> None:
    first = await submit(services)
    await services.containers.cancel(first, caller=ME)
    assert await state_of(services, first) == "cancelled"
    assert first not in rig.engine.table.containers
    late = await submit(services, Dependency(of=first))
    assert await state_of(services, late) == "cancelled"
    await handled()
    assert rig.engine.workflow._watched == {}


async def test_what_is_cancelled_while_who_waits_is_taken_in_is_not_missed(
    services: Services, rig: Rig
) -> None:
    for _ in range(20):
        first = await submit(services)
        late, _ = await asyncio.gather(
            submit(services, Dependency(of=first)), services.containers.cancel(first, caller=ME)
        )
        assert await state_of(services, late) == "cancelled"
    await handled()
    assert rig.engine.workflow._watched == {}


async def test_tasks_of_a_job_wait_for_each_other_by_the_job_s_id(
    services: Services, rig: Rig
) -> None:
    job_id = await submit_job(services, make_task("a", size=2), make_task("b", after=("/a",)))
    job = await services.jobs.job(job_id, caller=ME)
    assert job.tasks[1].spec.after == (Dependency(of=f"{job_id}/a"),)
    assert (job.state, job.labels) == (JobState.PENDING, (("a", "b"),))
    assert job.tally.queued + job.tally.locked == 3
    reasons = {
        container.task: rig.engine.why_waiting(container.id)
        for container in rig.engine.table.containers.values()
    }
    assert reasons["b"] is not None
    assert reasons["b"].code == "after"
    assert reasons["a"] is None or reasons["a"].code != "after"


async def test_a_repeated_key_answers_with_the_job_that_it_made(
    services: Services, rig: Rig
) -> None:
    before = await submit(services)
    first = await submit_job(services, make_task(after=(before,)), key="k")
    again = await submit_job(services, make_task(after=(before,)), key="k")
    assert again == first
    with pytest.raises(KeyReused):
        await submit(services, key="k")
    assert len(rig.engine.table.jobs) == 1
    await handled()
    assert rig.engine.workflow._watched == {}


async def test_jobs_are_steered_as_a_whole(services: Services, rig: Rig) -> None:
    job_id = await submit_job(services, make_task(size=3))
    assert (await services.jobs.hold(job_id, held=True, caller=ME)).held
    assert not (await services.jobs.hold(job_id, held=False, caller=ME)).held
    assert (await services.jobs.set_priority(job_id, 700, caller=ME)).priority == 700
    await asyncio.sleep(0)
    assert {c.priority for c in rig.engine.table.containers.values()} == {700}
    await services.jobs.cancel(job_id, caller=ME)
    for _ in range(500):
        if (await services.jobs.job(job_id, caller=ME)).state.final:
            break
        await asyncio.sleep(0.01)
    job = await services.jobs.job(job_id, caller=ME)
    assert (job.state, job.tally.cancelled) == (JobState.CANCELLED, 3)
    with pytest.raises(Conflict):
        await services.jobs.hold(job_id, held=True, caller=ME)
    with pytest.raises(NotFound):
        await services.jobs.job("j-none", caller=ME)
    page = await services.jobs.jobs(JobFilter(project="p"), cursor="", limit=10, caller=ME)
    assert [each.id for each in page.items] == [job_id]
    assert page.items[0].tally.cancelled == 3


async def test_a_listing_shows_today_s_counts(services: Services) -> None:
    await submit_job(services, make_task(size=3))
    listed = await services.jobs.jobs(JobFilter(), cursor="", limit=10, caller=ME)
    assert listed.items[0].tally.queued + listed.items[0].tally.locked == 3
