"""Runs of periodic jobs over a real store and engine: committed once, noted, within limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from longshore.dispatcher.config.model import LimitsConfig
from longshore.dispatcher.domain.jobs import Job, JobTypeSpec, Overlap, Schedule
from longshore.dispatcher.domain.messages import RequestJobCancel
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter
from longshore.dispatcher.service.contracts import Conflict, NewJob, Unavailable
from longshore.dispatcher.service.launching import PeriodicJobs, ServiceRuns
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.state.agenda import LaunchResult
from longshore.dispatcher.store.store import Store
from tests.job_samples import make_task
from tests.rigs.engine import Rig
from tests.rigs.periodic import at, turns
from tests.rigs.services import services_over, store_in, waiting_rig
from tests.samples import ME

TEN, ELEVEN = at("2026-01-01 10:00"), at("2026-01-01 11:00")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


@pytest.fixture
def rig() -> Rig:
    return waiting_rig()


@pytest.fixture
async def services(rig: Rig, store: Store, tmp_path: Path) -> AsyncIterator[Services]:
    async with services_over(
        rig, store, tmp_path, limits=LimitsConfig(queued_containers=3)
    ) as made:
        yield made


async def submit(services: Services, *, overlap: Overlap = Overlap.ALLOW) -> Job:
    """Commit a job that begins on the hour."""
    task = make_task()
    new = NewJob(
        name="n",
        priority=500,
        project="p",
        labels=(),
        tasks=(replace(task, spec=replace(task.spec, env=(("MINE", "1"),))),),
        terms=JobTypeSpec(schedule=Schedule(cron=("0 * * * *",), overlap=overlap)),
    )
    return await services.jobs.submit(new, caller=ME, idempotency_key="", fingerprint="")


async def runs_of(services: Services, template: Job) -> list[Job]:
    """Return the runs of a job, newest first."""
    return list(
        (
            await services.jobs.jobs(JobFilter(parent=template.id), cursor="", limit=100, caller=ME)
        ).items
    )


def runs_by(services: Services) -> ServiceRuns:
    return ServiceRuns(services.jobs)


async def test_for_one_time_there_is_one_run_however_often_it_is_asked_for(
    services: Services, store: Store
) -> None:
    template, runs = await submit(services), runs_by(services)
    for time in (TEN, TEN, ELEVEN, TEN):
        await runs.make(template, time)
    made = await runs_of(services, template)
    times = [f"2026-01-01T{hour}:00:00Z" for hour in (11, 10)]
    recovered = {job.id: job for job in store.recover().jobs}
    for run, named in zip(made, times, strict=True):
        # A start knows by it for which time a run is.
        expected = (("LONGSHORE_PERIODIC_TIME", named), ("MINE", "1"))
        assert recovered[run.id].tasks[0].spec.env == expected
    assert (
        len(
            (
                await services.containers.containers(
                    ContainerFilter(), cursor="", limit=9, caller=ME
                )
            ).items
        )
        == 2
    )
    await runs.make(template, ELEVEN + 3600)
    with pytest.raises(Unavailable, match=r"the queue is full \(3 containers\)"):
        await runs.make(template, ELEVEN + 7200)


async def test_what_was_launched_is_known_to_the_store_and_to_the_engine(
    services: Services, rig: Rig
) -> None:
    template = await submit(services)
    await runs_by(services).note(template, TEN)
    assert (await services.jobs.job(template.id, caller=ME)).launched_for == TEN
    await turns()
    known = rig.engine.table.jobs.job(template.id)
    assert known is not None
    assert known.launched_for == TEN


async def test_a_launch_of_who_has_ended_is_not_noted(services: Services) -> None:
    template = await submit(services)
    await services.jobs.cancel(template.id, caller=ME)
    with pytest.raises(Conflict):
        await runs_by(services).note(template, TEN)
    assert (await services.jobs.job(template.id, caller=ME)).launched_for is None


async def test_of_what_is_being_cancelled_nothing_is_run(
    services: Services, rig: Rig, store: Store
) -> None:
    rig.now = TEN - 60
    template = await submit(services)
    # Committed, and the engine has not heard of it yet.
    await asyncio.wrap_future(store.write([RequestJobCancel(job_id=template.id)]))
    clock = iter((TEN, ELEVEN))
    counted: Counter[LaunchResult] = Counter()
    service = PeriodicJobs(
        jobs=rig.engine.table.jobs,
        runs=runs_by(services),
        wall=lambda: next(clock),
        now=lambda: rig.now,
        results=counted,
    )
    rig.now = TEN
    await service.begin()
    with capture_logs() as logs:
        for _ in (TEN, ELEVEN):
            await service.look()
            await asyncio.gather(*service._launches)
    told = [(each["log_level"], each["why"]) for each in logs if "launched" in each["event"]]
    assert told == [("warning", f"job {template.id} is being cancelled: nothing more is run of it")]
    assert counted == {LaunchResult.REFUSED: 2}
    assert await runs_of(services, template) == []


@pytest.mark.parametrize(("overlap", "launched"), [(Overlap.ALLOW, 2), (Overlap.FORBID, 1)])
async def test_the_services_launch_what_is_due_by_the_wall_clock(
    services: Services, rig: Rig, overlap: Overlap, launched: int
) -> None:
    rig.now = TEN - 60
    template = await submit(services, overlap=overlap)
    clock = iter((TEN - 1, TEN, ELEVEN))
    counted: Counter[LaunchResult] = Counter()
    service = PeriodicJobs(
        jobs=rig.engine.table.jobs,
        runs=runs_by(services),
        wall=lambda: next(clock),
        now=lambda: rig.now,
        results=counted,
    )
    await service.begin()
    assert await service.look() == 1.0
    for _ in (TEN, ELEVEN):
        await service.look()
        await asyncio.gather(*service._launches)
        await turns()
    assert [run.parent for run in await runs_of(services, template)] == [template.id] * launched
    assert counted[LaunchResult.LAUNCHED] == launched
    assert counted[LaunchResult.OVERLAP] == 2 - launched
    live = rig.engine.table.jobs
    assert sorted(run.id for run in await runs_of(services, template)) == live.runs_of(template.id)
