"""Elastic jobs for engines under test: short ways to submit them and to see what came of them."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import Container, SchedulerSettings
from longshore.dispatcher.domain.jobs import (
    ElasticMode,
    ElasticTerms,
    Job,
    JobTask,
    JobType,
    JobTypeSpec,
    TaskRole,
)
from longshore.pool.messages import ListInstances, StartAttempt
from longshore.pool.model import PoolSettings
from tests.job_samples import make_job, make_task
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_type


def rig_of(*cpus: int, most: int | None = None, **settings: object) -> Rig:
    """Return an engine with instances of so many cpus that stay, `most` of them at once."""
    types = {each: make_type(each) for each in cpus}
    rig = Rig(
        *types.values(),
        listed=False,
        pool=PoolSettings(idle_timeout_s=86400),
        settings=SchedulerSettings(
            max_instances=len(cpus) if most is None else most,
            max_price_factor=1000,
            **settings,  # type: ignore[arg-type]  # the other settings
        ),
    )
    for each in cpus:
        rig.boot(types[each].name)
    rig.silent.discard(ListInstances)
    rig.list_now(last_commands(rig, ListInstances)[0].op_id)
    rig.settle()
    return rig


def essential(count: int = 1, name: str = "e", *, order: int = 0, **spec: object) -> JobTask:
    """Return an essential component of 1 cpu a member."""
    task = make_task(name, size=count, **spec)  # type: ignore[arg-type]  # of a spec
    return replace(task, startup_order=order)


def elastic(count: int, name: str = "w", **spec: object) -> JobTask:
    """Return an elastic component of 1 cpu a member."""
    task = make_task(name, size=count, **spec)  # type: ignore[arg-type]  # of a spec
    return replace(task, role=TaskRole.ELASTIC)


def elastic_job(
    number: int,
    *tasks: JobTask,
    mode: ElasticMode = ElasticMode.FLEXIBLE,
    scale_up: bool = False,
    held: bool = False,
    priority: int = 500,
) -> tuple[Job, tuple[Container, ...]]:
    """Return elastic job "j-N" with its containers, numbered from N x 1000 on."""
    job, containers = make_job(number, *tasks, held=held, priority=priority)
    terms = JobTypeSpec(elastic=ElasticTerms(mode=mode, scale_up=scale_up))
    return replace(job, type=JobType.ELASTIC, terms=terms), containers


def submit(rig: Rig, number: int, *tasks: JobTask, **more: object) -> None:
    """Submit elastic job "j-N"."""
    rig.submit_job(*elastic_job(number, *tasks, **more))  # type: ignore[arg-type]  # of the job


def running(rig: Rig, job: int = 1) -> dict[str, int]:
    """Return how many members of each component of a job are running now, by what is committed."""
    found: dict[str, int] = {}
    for container in rig.containers.values():
        if container.job_id == f"j-{job}" and container.state.value == "running":
            found[container.task] = found.get(container.task, 0) + 1
    return found


def attempt_of(rig: Rig, container: int) -> str:
    """Return the latest attempt of container "c-N"."""
    mine = [a for a in rig.attempts.values() if a.container_id == f"c-{container}"]
    return max(mine, key=lambda attempt: attempt.number).id


def environments(rig: Rig) -> dict[str, dict[str, str]]:
    """Return the environment of each container as it was started last."""
    starts = last_commands(rig, StartAttempt)
    return {each.order.container_id: dict(each.order.env) for each in starts}


def state_of(rig: Rig, job: int = 1) -> str:
    """Return where a job is, with why where that is said."""
    found = rig.jobs[f"j-{job}"]
    return found.state.value + (f": {found.reason.message}" if found.reason is not None else "")
