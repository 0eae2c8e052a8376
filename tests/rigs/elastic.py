"""Elastic jobs on a pool of fixed size: short ways to say them, and their lives in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from longshore.dispatcher.domain.containers import ElasticSettings, Placement, Profile
from longshore.dispatcher.domain.jobs import ElasticMode, TaskRole
from longshore.dispatcher.scheduler.elastic.model import (
    Component,
    ElasticJob,
    ElasticNode,
    ElasticPlan,
    ElasticView,
    Member,
    MemberPlace,
    MemberState,
)
from longshore.dispatcher.scheduler.elastic.order import progressed, remaining_s
from longshore.dispatcher.scheduler.elastic.schedule import plan_elastic
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, SlotKind, empty_slot
from longshore.drivers.interface import InstanceType, Resources
from tests.samples import GIB, make_type

RULES = PackingPolicy(
    placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=1000
)
UNIT = Resources(cpu_millis=1000, memory_bytes=GIB)
_MOMENT_S = 1e-9


def essential(count: int, name: str = "e", **more: object) -> Component:
    """Return an essential component of 1 unit: 1 cpu, 1 GiB."""
    return _component(TaskRole.ESSENTIAL, count, name, more)


def elastic(count: int, name: str = "w", **more: object) -> Component:
    """Return an elastic component of 1 unit: 1 cpu, 1 GiB."""
    return _component(TaskRole.ELASTIC, count, name, more)


def _component(role: TaskRole, count: int, name: str, more: dict[str, object]) -> Component:
    plain = Component(name=name, role=role, count=count, resources=UNIT)
    return replace(plain, **more)  # type: ignore[arg-type]  # the other fields of Component


def make_job(number: int, *components: Component, **more: object) -> ElasticJob:
    """Return job j-N, which waits and came at 0."""
    plain = ElasticJob(id=f"j-{number}", sequence=number, submitted_at=0.0, components=components)
    return replace(plain, **more)  # type: ignore[arg-type]  # the other fields of ElasticJob


def running(job: ElasticJob, on: str = "i-1", *, since: float = 0.0, **counts: int) -> ElasticJob:
    """Return a job with the first few members of some components running on an instance."""
    members = tuple(
        Member(component=name, index=index, state=MemberState.RUNNING, instance_id=on)
        for name, count in counts.items()
        for index in range(count)
    )
    return replace(job, began_at=since, members=job.members + members)


def nodes_of(
    types: Iterable[tuple[str, InstanceType]], jobs: Iterable[ElasticJob]
) -> tuple[ElasticNode, ...]:
    """Return ready instances, by id and type, on which these jobs' members are and nothing else."""
    slots = {instance_id: empty_slot(SlotKind.READY, instance_id, t) for instance_id, t in types}
    for job in jobs:
        resources = {component.name: component.resources for component in job.components}
        for member in job.members:
            if member.state.has_place and member.instance_id in slots:
                slots[member.instance_id].assign(resources[member.component])
    return tuple(
        ElasticNode(
            id=slot.id,
            type=slot.type,
            free=slot.free,
            count=slot.count,
            on_shared_cpu=slot.on_shared_cpu,
        )
        for slot in slots.values()
    )


def view_of(
    *jobs: ElasticJob,
    cpus: Sequence[int] = (10,),
    settings: ElasticSettings | None = None,
    nodes: tuple[ElasticNode, ...] | None = None,
    types: tuple[InstanceType, ...] = (),
) -> ElasticView:
    """Return a view of instances i-1, i-2, ... with so many cpus (and 1.1 GiB for each) and jobs.

    The cpus that the jobs' members take are taken off.
    """
    made = [(f"i-{number}", make_type(each)) for number, each in enumerate(cpus, 1)]
    of_nodes = nodes_of(made, jobs) if nodes is None else nodes
    return ElasticView(
        jobs=jobs,
        nodes=of_nodes,
        types=types or tuple({room.type.name: room.type for room in of_nodes}.values()),
        rules=RULES,
        settings=settings or ElasticSettings(),
        max_price_factor=1000,
    )


def applied(job: ElasticJob, plan: ElasticPlan, now: float) -> ElasticJob:
    """Return a job as it is once all that a plan says has happened, starts and ends alike."""
    members = {(member.component, member.index): member for member in job.members}
    for place in _of(job, (stop.place for stop in plan.stops)):
        key = place.component, place.index
        members[key] = replace(members[key], state=MemberState.WAITING, instance_id="")
    for place in _of(job, plan.starts):
        key = place.component, place.index
        known = members.get(key, Member(component=place.component, index=place.index))
        members[key] = replace(known, state=MemberState.RUNNING, instance_id=place.instance_id)
    return replace(
        job,
        members=tuple(members.values()),
        began_at=now if job.id in plan.begun else job.began_at,
        claims=_of(job, plan.claims),
    )


def _of(job: ElasticJob, places: Iterable[MemberPlace]) -> tuple[MemberPlace, ...]:
    return tuple(place for place in places if place.job_id == job.id)


def changes_something(plan: ElasticPlan) -> bool:
    """Return whether anything begins, starts or stops by a plan."""
    return bool(plan.begun or plan.starts or plan.stops)


def counts(jobs: Iterable[ElasticJob]) -> dict[str, tuple[int, int]]:
    """Return how many essential and elastic members have a place, by job, for those that run."""
    found = {}
    for job in jobs:
        roles = [c.role for c, member in job.all_members() if member.state.has_place]
        if job.is_running:
            found[job.id] = roles.count(TaskRole.ESSENTIAL), roles.count(TaskRole.ELASTIC)
    return found


@dataclass(slots=True, kw_only=True)
class World:
    """A pool of fixed size on which elastic jobs come, run and end, all in virtual time.

    `plans` counts the passes; `ends` says when each job ended.
    """

    types: tuple[tuple[str, InstanceType], ...]
    settings: ElasticSettings = field(default_factory=ElasticSettings)
    now: float = 0.0
    jobs: dict[str, ElasticJob] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    plans: int = 0

    def run(self, arriving: Iterable[ElasticJob]) -> dict[str, float]:
        """Let all jobs come at their time and run to their end; return when each one ended."""
        to_come = sorted(arriving, key=lambda job: (job.submitted_at, job.sequence), reverse=True)
        while to_come or self.jobs:
            left_s = {job.id: remaining_s(job) for job in self.jobs.values()}
            first_end = self.now + min(left_s.values(), default=float("inf"))
            first_coming = to_come[-1].submitted_at if to_come else float("inf")
            at = min(first_end, first_coming)
            assert at < float("inf"), f"{sorted(self.jobs)} will never end"
            elapsed_s, self.now = at - self.now, at
            self.jobs = {key: progressed(job, elapsed_s) for key, job in self.jobs.items()}
            for job_id, left in left_s.items():
                if left <= elapsed_s + _MOMENT_S:
                    del self.jobs[job_id]
                    self.ends[job_id] = at
            while to_come and to_come[-1].submitted_at <= at:
                job = to_come.pop()
                self.jobs[job.id] = job
            self.settle()
        return self.ends

    def view(self) -> ElasticView:
        """Return what a pass decides from now."""
        jobs = tuple(self.jobs.values())
        return ElasticView(
            jobs=jobs,
            nodes=nodes_of(self.types, jobs),
            types=tuple({type_.name: type_ for _, type_ in self.types}.values()),
            rules=RULES,
            settings=self.settings,
            max_price_factor=1000,
        )

    def settle(self) -> ElasticPlan:
        """Let a pass decide, and have it done at once."""
        plan = plan_elastic(self.view(), self.now)
        self.plans += 1
        places = (*plan.starts, *(stop.place for stop in plan.stops))
        for job_id in {place.job_id for place in places}:
            self.jobs[job_id] = applied(self.jobs[job_id], plan, self.now)
        return plan


def turnarounds_s(
    jobs: Sequence[ElasticJob],
    mode: ElasticMode,
    settings: ElasticSettings,
    types: tuple[tuple[str, InstanceType], ...],
) -> list[float]:
    """Return how long each job took from its submission to its end, in one mode."""
    ends = World(types=types, settings=settings).run(replace(job, mode=mode) for job in jobs)
    return [ends[job.id] - job.submitted_at for job in jobs]
