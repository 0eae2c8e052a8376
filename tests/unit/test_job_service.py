"""Jobs of the newer types over a real store and engine: revised, run, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from longshore.dispatcher.config.model import LimitsConfig
from longshore.dispatcher.domain.containers import Dependency, DependencyOn
from longshore.dispatcher.domain.jobs import (
    ElasticTerms,
    Job,
    JobState,
    JobTask,
    JobType,
    JobTypeSpec,
    Parameters,
    PerInstanceTerms,
    Schedule,
    Tally,
)
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter
from longshore.dispatcher.input.quantities import Size
from longshore.dispatcher.service import admission
from longshore.dispatcher.service.contracts import (
    Conflict,
    KeyReused,
    NewJob,
    NotFound,
    Unavailable,
)
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from tests.job_samples import make_task
from tests.rigs.engine import Rig
from tests.rigs.services import handled, services_over, store_in, waiting_rig
from tests.samples import ME, make_type
from tests.state_digest import digest_of

PER_INSTANCE = JobTypeSpec(per_instance=PerInstanceTerms())
NIGHTLY = JobTypeSpec(schedule=Schedule(cron=("0 0 * * *",)))
BY_INPUT = JobTypeSpec(parameters=Parameters(required=("input",), optional=(("width", "640"),)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


@pytest.fixture
def rig() -> Rig:
    return waiting_rig()


@pytest.fixture
async def services(rig: Rig, store: Store, tmp_path: Path) -> AsyncIterator[Services]:
    limits = LimitsConfig(queued_containers=10, queued_classes=2)
    async with services_over(rig, store, tmp_path, limits=limits) as made:
        yield made


def wanted(kind: JobType, terms: JobTypeSpec, *tasks: JobTask, priority: int = 500) -> NewJob:
    labels = (("a", "b"),)
    given = tasks or (replace(make_task(), size=0 if kind.is_per_instance else 1),)
    return NewJob(
        name="n",
        priority=priority,
        project="p",
        labels=labels,
        tasks=given,
        type=kind,
        terms=terms,
    )


SYSTEM = wanted(JobType.SYSTEM, PER_INSTANCE)


async def submit(services: Services, new: NewJob, key: str = "") -> Job:
    return await services.jobs.submit(new, caller=ME, idempotency_key=key, fingerprint="f")


async def dispatch(
    services: Services, job: Job, key: str = "", fingerprint: str = "", **given: str
) -> Job:
    return await services.jobs.dispatch(
        job.id, given, caller=ME, idempotency_key=key, fingerprint=fingerprint
    )


async def total(services: Services) -> int:
    page = await services.containers.containers(ContainerFilter(), cursor="", limit=100, caller=ME)
    return len(page.items)


# ---- what is taken in ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "new",
    [
        SYSTEM,
        wanted(JobType.SYSBATCH, PER_INSTANCE),
        wanted(JobType.BATCH, NIGHTLY, make_task("a", size=7), make_task("b", after=("/a",))),
        wanted(JobType.SYSBATCH, replace(BY_INPUT, per_instance=PerInstanceTerms())),
    ],
)
async def test_who_gets_containers_later_is_committed_without_any(
    services: Services, rig: Rig, new: NewJob
) -> None:
    rig.now = 1000.0
    made = await submit(services, new)
    assert made.tally == Tally()
    assert (await services.jobs.job(made.id, caller=ME)) == made
    assert await total(services) == 0
    assert [task.size for task in made.tasks] == [task.size for task in new.tasks]
    terms = made.terms.per_instance
    assert (terms is not None) == new.type.is_per_instance
    if terms is not None:
        assert (terms.revision, terms.revised_at) == (1, 1000.0)


async def test_an_elastic_job_s_containers_are_no_kinds_that_wait_in_the_queue(
    services: Services,
) -> None:
    tasks = [make_task(name, cpus=cpus) for name, cpus in (("a", 1), ("b", 2), ("c", 3))]
    made = await submit(
        services, wanted(JobType.ELASTIC, JobTypeSpec(elastic=ElasticTerms()), *tasks)
    )
    assert made.tally == Tally(queued=3)
    assert await total(services) == 3
    with pytest.raises(Unavailable, match="2 kinds of requests"):
        await submit(services, wanted(JobType.BATCH, JobTypeSpec(), *tasks))
    # Nor are they when they are released, or get a priority again.
    for priority in (0, 300):
        assert (await services.jobs.set_priority(made.id, priority, caller=ME)).priority == priority
    for held in (True, False):
        assert (await services.jobs.hold(made.id, held=held, caller=ME)).held is held
    page = await services.containers.containers(ContainerFilter(), cursor="", limit=10, caller=ME)
    for one in page.items:
        assert (await services.containers.set_priority(one.id, 900, caller=ME)).priority == 900


async def test_jobs_that_last_are_bounded_though_they_have_no_containers(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LASTING_JOBS_MOST", 2)
    await submit(services, SYSTEM)
    last = await submit(services, wanted(JobType.BATCH, NIGHTLY))
    for new in (SYSTEM, wanted(JobType.BATCH, BY_INPUT)):
        with pytest.raises(Unavailable, match=r"^there are 2 system, sysbatch, periodic and"):
            await submit(services, new)
    await submit(services, wanted(JobType.BATCH, JobTypeSpec()))
    await services.jobs.cancel(last.id, caller=ME)
    for _ in range(3000):
        if (await services.jobs.job(last.id, caller=ME)).state.final:
            break
        await asyncio.sleep(0.01)
    await submit(services, SYSTEM)


async def test_what_passes_look_at_one_by_one_is_bounded_also_while_it_is_being_committed(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "PER_INSTANCE_JOBS_MOST", 2)
    monkeypatch.setattr(admission, "ELASTIC_CONTAINERS_MOST", 4)
    sysbatch = wanted(JobType.SYSBATCH, PER_INSTANCE)
    nightly = wanted(JobType.SYSBATCH, replace(NIGHTLY, per_instance=PerInstanceTerms()))
    elastic = wanted(JobType.ELASTIC, JobTypeSpec(elastic=ElasticTerms()), make_task("a", size=2))
    for news, sentence in (
        ([SYSTEM, sysbatch, sysbatch, SYSTEM], "^there are 2 system and sysbatch jobs already"),
        ([elastic] * 4, "^elastic jobs have 4 containers, and 4 are the most"),
    ):
        found = await asyncio.gather(*(submit(services, n) for n in news), return_exceptions=True)
        assert [isinstance(each, Job) for each in found] == [True, True, False, False]
        with pytest.raises(Unavailable, match=sentence):
            await submit(services, news[-1])
    # Whose runs are to come is looked at by no pass, and nobody who is refused counts.
    await submit(services, nightly)
    first = await services.jobs.jobs(JobFilter(), cursor="", limit=10, caller=ME)
    await services.jobs.cancel(
        next(j.id for j in first.items if j.type is JobType.ELASTIC), caller=ME
    )
    for _ in range(3000):
        if services.jobs._view.elastic_containers == 2:
            break
        await asyncio.sleep(0.01)
    await submit(services, elastic)


async def test_what_can_never_run_is_refused_in_templates_and_revisions_too(
    services: Services,
) -> None:
    huge = make_task(cpus=9)
    job = await submit(services, SYSTEM)
    with pytest.raises(InvalidRequest) as error:
        await submit(services, wanted(JobType.BATCH, NIGHTLY, make_task(), huge))
    assert [path for path, _ in error.value.problems] == ["tasks[1].resources"]
    with pytest.raises(InvalidRequest) as error:
        await services.jobs.revise(
            job.id, replace(SYSTEM, tasks=(replace(huge, size=0),)), caller=ME
        )
    assert [path for path, _ in error.value.problems] == ["tasks[0].resources"]
    with pytest.raises(InvalidRequest) as error:
        await submit(
            services, wanted(JobType.BATCH, NIGHTLY, make_task(after=(Dependency(of="c-none"),)))
        )
    assert [path for path, _ in error.value.problems] == ["tasks[0].after[0].of"]


# ---- revisions -----------------------------------------------------------------------------------


async def test_a_revision_is_committed_once_and_the_engine_hears_of_it(
    services: Services, rig: Rig
) -> None:
    job = await submit(services, SYSTEM)
    rig.now = 60.0
    assert await services.jobs.revise(job.id, SYSTEM, caller=ME) == job
    newer = wanted(
        JobType.SYSTEM,
        JobTypeSpec(per_instance=PerInstanceTerms(on_paused=True)),
        replace(make_task(cpus=2), size=0),
        priority=900,
    )
    revised = await services.jobs.revise(job.id, newer, caller=ME)
    assert revised.terms.per_instance == PerInstanceTerms(
        revision=2, revised_at=60.0, on_paused=True
    )
    assert (revised.priority, revised.tasks, revised.created_at) == (
        *(900, newer.tasks),
        job.created_at,
    )
    live = rig.engine.table.jobs.job(job.id)
    assert live is not None
    assert live.terms == revised.terms
    rig.now = 90.0
    assert await services.jobs.revise(job.id, newer, caller=ME) == revised


async def test_of_two_at_once_one_is_first(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await submit(services, SYSTEM)
    seen_before = store.job(job.id)
    first = await services.jobs.revise(job.id, replace(SYSTEM, priority=700), caller=ME)
    with monkeypatch.context() as late:
        late.setattr(store, "job", lambda _id: seen_before)
        with pytest.raises(Conflict, match="somebody else was first"):
            await services.jobs.revise(job.id, replace(SYSTEM, priority=800), caller=ME)
    assert await services.jobs.job(job.id, caller=ME) == first
    assert first.terms.per_instance is not None
    assert first.terms.per_instance.revision == 2


async def test_who_is_not_there_or_another_project_s_is_not_revised(
    services: Services,
) -> None:
    with pytest.raises(NotFound, match="there is no job j-9"):
        await services.jobs.revise("j-9", SYSTEM, caller=ME)
    job = await submit(services, SYSTEM)
    with pytest.raises(InvalidRequest) as error:
        await services.jobs.revise(
            job.id,
            replace(SYSTEM, project="q", tasks=(replace(make_task("x"), size=0),)),
            caller=ME,
        )
    assert error.value.problems == [
        ("project", 'is "p" and stays so: leave it out'),
        ("tasks[0].name", "is none in this job, and stays so"),
    ]


# ---- runs ----------------------------------------------------------------------------------------


async def test_a_run_has_what_its_template_has_and_the_parameters(
    services: Services, rig: Rig
) -> None:
    outside, first = await submit(services, wanted(JobType.BATCH, JobTypeSpec())), make_task("a")
    template = await submit(
        services,
        wanted(
            JobType.BATCH,
            BY_INPUT,
            replace(first, spec=replace(first.spec, env=(("Z", "1"),))),
            make_task("b", size=2, after=("/a", outside.id)),
            priority=700,
        ),
    )
    run = await dispatch(services, template, input="x")
    given = (("LONGSHORE_PARAMETER_INPUT", "x"), ("LONGSHORE_PARAMETER_WIDTH", "640"))
    first, second = run.tasks
    assert first.spec.env == (*given, ("Z", "1"))
    assert second.spec.env == given
    assert [each.of for each in second.spec.after] == [f"{run.id}/a", outside.id]
    assert (run.parent, run.terms, run.priority) == (template.id, JobTypeSpec(), 700)
    assert (run.name, run.labels, run.tally) == ("n", (("a", "b"),), Tally(queued=3))
    assert rig.engine.table.jobs.runs_of(template.id) == [run.id]
    page = await services.jobs.jobs(JobFilter(parent=template.id), cursor="", limit=10, caller=ME)
    assert [one.id for one in page.items] == [run.id]


async def test_a_run_on_each_instance_is_at_its_first_revision(
    services: Services, rig: Rig
) -> None:
    terms = replace(BY_INPUT, per_instance=PerInstanceTerms(on_paused=True))
    template = await submit(services, wanted(JobType.SYSBATCH, terms))
    rig.now = 70.0
    run = await dispatch(services, template, input="x")
    assert run.terms == JobTypeSpec(per_instance=PerInstanceTerms(on_paused=True, revised_at=70.0))
    assert (run.type, run.tally, await total(services)) == (JobType.SYSBATCH, Tally(), 0)


async def test_a_template_whose_runs_can_never_fit_is_refused(services: Services) -> None:
    with pytest.raises(InvalidRequest, match="has 11 containers, and 10 may be in the queue"):
        await submit(services, wanted(JobType.BATCH, NIGHTLY, make_task(size=11)))


async def test_runs_count_among_what_may_be_queued(services: Services) -> None:
    template = await submit(services, wanted(JobType.BATCH, BY_INPUT, make_task(size=4)))
    for _ in range(2):
        await dispatch(services, template, input="x")
    with pytest.raises(Unavailable, match=r"the queue is full \(10 containers\)"):
        await dispatch(services, template, input="x")


async def test_who_was_taken_in_is_answered_though_there_is_no_room_any_more(
    services: Services,
) -> None:
    template = await submit(services, wanted(JobType.BATCH, BY_INPUT, make_task(size=4)))
    run = await dispatch(services, template, "k", input="x")
    job = await submit(services, wanted(JobType.BATCH, JobTypeSpec(), make_task(size=6)), "j")
    assert (await dispatch(services, template, "k", input="x")).id == run.id
    again = await submit(services, wanted(JobType.BATCH, JobTypeSpec(), make_task(size=6)), "j")
    assert again.id == job.id
    with pytest.raises(Unavailable, match=r"the queue is full \(10 containers\)"):
        await dispatch(services, template, "k", "another", input="x")
    await services.jobs.cancel(template.id, caller=ME)
    with pytest.raises(Conflict):
        await dispatch(services, template, "new", input="x")
    assert (await dispatch(services, template, "k", input="x")).id == run.id


async def test_only_runs_take_the_memory_of_their_containers(
    rig: Rig, store: Store, tmp_path: Path
) -> None:
    limits = LimitsConfig(queued_bytes=Size(50_000))
    async with services_over(rig, store, tmp_path, limits=limits) as services:
        template = await submit(services, wanted(JobType.BATCH, BY_INPUT, make_task(size=100)))
        with pytest.raises(InvalidRequest, match="and 50000 may be in the queue at once"):
            await dispatch(services, template, input="x")
        with pytest.raises(InvalidRequest, match="and 50000 may be in the queue at once"):
            await submit(
                services, wanted(JobType.BATCH, NIGHTLY, *(make_task(f"t{n}") for n in range(50)))
            )


async def test_what_can_run_no_more_since_types_are_others_is_refused_at_its_dispatch(
    rig: Rig, store: Store, tmp_path: Path
) -> None:
    async with services_over(rig, store, tmp_path) as services:
        template = await submit(services, wanted(JobType.BATCH, BY_INPUT, make_task(cpus=8)))
    rig.types.clear()
    rig.types["t2"] = make_type(2)
    async with services_over(rig, store, tmp_path) as services:
        with pytest.raises(InvalidRequest) as error:
            await dispatch(services, template, input="x")
        assert [path for path, _ in error.value.problems] == ["tasks[0].resources"]


async def test_a_repeated_dispatch_makes_one_run(services: Services) -> None:
    template = await submit(services, wanted(JobType.BATCH, BY_INPUT))
    first = await dispatch(services, template, key="k", fingerprint="f", input="x")
    again = await dispatch(services, template, key="k", fingerprint="f", input="x")
    assert first.id == again.id
    with pytest.raises(KeyReused):
        await dispatch(services, template, key="k", fingerprint="g", input="y")
    assert await total(services) == 1


async def test_who_has_ended_or_is_held_is_not_run(services: Services) -> None:
    template = await submit(services, wanted(JobType.BATCH, BY_INPUT))
    run = await dispatch(services, template, input="x")
    await services.jobs.hold(template.id, held=True, caller=ME)
    with pytest.raises(Conflict, match="is held: release it first"):
        await dispatch(services, template, input="x")
    await services.jobs.hold(template.id, held=False, caller=ME)
    await services.jobs.cancel(template.id, caller=ME)
    with pytest.raises(Conflict, match=r"is being cancelled|has ended: it is cancelled"):
        await dispatch(services, template, input="x")
    assert (await services.jobs.job(run.id, caller=ME)).state is JobState.PENDING
    with pytest.raises(Conflict, match="is not parameterized"):
        await dispatch(services, await submit(services, wanted(JobType.BATCH, NIGHTLY)))


# ---- plans ---------------------------------------------------------------------------------------


async def test_a_plan_tells_what_would_be_created_and_commits_nothing(
    services: Services, rig: Rig
) -> None:
    new = wanted(JobType.BATCH, JobTypeSpec(), make_task(cpus=8, size=2))
    plan = await services.jobs.plan(new, job_id="", caller=ME)
    assert [(each.type_name, each.number) for each in plan.creates] == [("t8", 2)]
    assert plan.least_usd_per_hour == plan.most_usd_per_hour == Decimal("1.968")
    page = await services.jobs.jobs(JobFilter(), cursor="", limit=10, caller=ME)
    assert (page.items, await total(services), len(rig.engine.table.jobs)) == ((), 0, 0)


async def test_a_plan_uses_up_no_id_and_no_number(services: Services, rig: Rig) -> None:
    new = wanted(JobType.BATCH, JobTypeSpec(), make_task(cpus=8, size=2))
    before = (digest_of(rig.engine), repr(rig._numbers))
    await services.jobs.plan(new, job_id="", caller=ME)
    assert (digest_of(rig.engine), repr(rig._numbers)) == before
    job = await submit(services, new)
    page = await services.containers.containers(
        ContainerFilter(job_id=job.id), cursor="", limit=10, caller=ME
    )
    assert (job.id, job.sequence) == ("j-0", 1)
    assert sorted((each.id, each.sequence) for each in page.items) == [("c-1", 1), ("c-2", 2)]


async def test_a_plan_is_refused_for_what_a_submission_is_refused_for(
    services: Services, rig: Rig
) -> None:
    many = wanted(JobType.BATCH, JobTypeSpec(), make_task(size=11))
    task = make_task("b", after=("j-9/a",))
    for new, error, why in (
        (many, InvalidRequest, "has 11 containers, and 10 may be in the queue at once"),
        (wanted(JobType.BATCH, JobTypeSpec(), task), InvalidRequest, "there is no j-9/a"),
    ):
        before = digest_of(rig.engine)
        for ask in (services.jobs.plan(new, job_id="", caller=ME), submit(services, new)):
            with pytest.raises(error, match=why):
                await ask
        await handled()
        assert digest_of(rig.engine) == before, "what is waited for is watched no more"


async def test_what_has_ended_by_now_holds_nobody_up_in_a_plan(
    services: Services,
) -> None:
    job = await submit(services, wanted(JobType.BATCH, JobTypeSpec(), make_task("a")))
    task = make_task("b", after=(Dependency(of=f"{job.id}/a", on=DependencyOn.END),))
    new = wanted(JobType.BATCH, JobTypeSpec(), task)
    plan = await services.jobs.plan(new, job_id="", caller=ME)
    assert (plan.counts.place, plan.counts.later) == (0, 1)
    await services.jobs.cancel(job.id, caller=ME)
    async with asyncio.timeout(10):
        # The look at the store is made on another thread, while the engine goes on.
        while (await services.jobs.job(job.id, caller=ME)).state is not JobState.CANCELLED:
            pass
    plan = await services.jobs.plan(new, job_id="", caller=ME)
    assert (plan.counts.place, plan.counts.later) == (1, 0)


async def test_a_plan_of_a_periodic_job_is_of_one_run(services: Services) -> None:
    plan = await services.jobs.plan(
        wanted(JobType.BATCH, NIGHTLY, make_task(size=3)), job_id="", caller=ME
    )
    assert plan.counts.place == 3


async def test_a_plan_of_an_update_is_of_the_job_that_there_is(services: Services) -> None:
    job = await submit(services, SYSTEM)
    newer = replace(SYSTEM, tasks=(replace(make_task(cpus=2), size=0),))
    plan = await services.jobs.plan(newer, job_id=job.id, caller=ME)
    assert plan.creates == ()
    assert await services.jobs.job(job.id, caller=ME) == job
    with pytest.raises(Conflict, match="is of type system, not sysbatch"):
        await services.jobs.plan(wanted(JobType.SYSBATCH, PER_INSTANCE), job_id=job.id, caller=ME)
    with pytest.raises(NotFound):
        await services.jobs.plan(newer, job_id="j-9", caller=ME)
    huge = replace(SYSTEM, tasks=(replace(make_task(cpus=9), size=0),))
    for job_id in ("", job.id):
        with pytest.raises(InvalidRequest):
            await services.jobs.plan(huge, job_id=job_id, caller=ME)
