"""Users of elastic jobs in virtual time, and how long their members run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    Constraints,
    Container,
    ContainerSpec,
    Placement,
    Preemptible,
)
from longshore.dispatcher.domain.feasibility import eligible_types, need
from longshore.dispatcher.domain.jobs import (
    ElasticMode,
    ElasticTerms,
    Job,
    JobTask,
    JobType,
    JobTypeSpec,
    Tally,
    TaskRole,
)
from longshore.dispatcher.domain.messages import (
    CancelRequested,
    Change,
    Event,
    InsertJob,
    JobCancelRequested,
    JobHoldRequested,
    JobPriorityRequested,
    JobSubmitted,
    PriorityRequested,
    RequestCancel,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    RequestPriority,
)
from longshore.drivers.interface import InstanceType, Resources
from tests.sim.faults import Demand
from tests.sim.job_users import Post
from tests.sim.process import DispatcherProcess
from tests.sim.store import VirtualStore
from tests.sim.timeline import Dice, Timeline

MEMORY_BYTES = 2**26
LONGEST_RUN_S = 90.0
SHORTEST_RUN_S = 3.0
RUSH_S = 60.0
"""Within what time all jobs of some runs are submitted, so that they are in each other's way."""

PATIENT_CARES = 5
"""After how many minutes of calm a job is cancelled that may never find room for all it needs."""


class ElasticUsers:
    """Submits elastic jobs, and cancels, holds and reprioritises them and their members."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        dice: Dice,
        demand: Demand,
        store: VirtualStore,
        process: Callable[[], DispatcherProcess | None],
        new: Callable[[], Container],
        post: Post,
        acknowledged: set[str],
    ) -> None:
        self._timeline = timeline
        self._dice = dice
        self._demand = demand
        self._store = store
        self._process = process
        self._new = new
        self._post = post
        self._acknowledged = acknowledged
        self._submitted = 0
        self._cares = 0

    def begin(self, until: float) -> None:
        """Plan all jobs, and what is asked of them, before `until`."""
        dice = self._dice
        first, span_s = dice.between(0, until * 0.4), RUSH_S if dice.falls(0.6) else until * 0.3
        for _ in range(self._demand.elastic):
            self._timeline.at(first + dice.between(0, span_s), self._submit)
        when, mean_s = 0.0, self._demand.elastic_requests_every_s
        while mean_s > 0 and (when := when + self._dice.soon(mean_s)) < until:
            self._timeline.at(when, self._control)

    def any_plan(self) -> tuple[float, int]:
        """Return how long an attempt of a member runs, and its exit code."""
        dice = self._dice
        run_s = dice.between(SHORTEST_RUN_S, LONGEST_RUN_S)
        code = dice.whole(1, 3) if dice.falls(self._demand.faulty) else 0
        return run_s, code

    # ---- what they submit ----

    def _submit(self) -> None:
        process = self._process()
        if process is None:
            return
        dice = self._dice
        self._submitted += 1
        tasks = self._any_tasks()
        modes = [ElasticMode.FLEXIBLE, ElasticMode.FLEXIBLE, *ElasticMode]
        terms = ElasticTerms(
            mode=modes[dice.whole(0, len(modes) - 1)],
            size=dice.between(0, 10) if dice.falls(0.3) else None,
            runtime_s=dice.between(1, LONGEST_RUN_S) if dice.falls(0.7) else None,
            scale_up=dice.falls(self._demand.scaling),
        )
        job = Job(
            id=f"j-elastic-{self._submitted}",
            sequence=2000 + self._submitted,
            name=f"elastic {self._submitted}",
            user="u",
            project="p",
            priority=dice.whole(1, 4) * 100,
            created_at=process.now(),
            type=JobType.ELASTIC,
            tasks=tasks,
            tallies=tuple(Tally(queued=task.size) for task in tasks),
            terms=JobTypeSpec(elastic=terms),
            held=dice.falls(0.1),
        )
        containers = tuple(
            replace(
                self._new(),
                spec=task.spec,
                priority=job.priority,
                job_id=job.id,
                task=task.name,
                array_index=index if task.is_array else None,
            )
            for task in tasks
            for index in range(task.size)
        )
        ids = [container.id for container in containers]
        insert = InsertJob(job=job, containers=containers, user="u")
        event = JobSubmitted(job=job, containers=containers)
        self._ask(insert, event, lambda: self._acknowledged.update(ids))

    def _any_tasks(self) -> tuple[JobTask, ...]:
        dice = self._dice
        names = [(f"e{n}", TaskRole.ESSENTIAL) for n in range(dice.whole(1, 2))]
        names += [(f"w{n}", TaskRole.ELASTIC) for n in range(dice.whole(1, 2))]
        return tuple(self._any_task(name, role) for name, role in names)

    def _any_task(self, name: str, role: TaskRole) -> JobTask:
        dice = self._dice
        size = dice.whole(1, 2 if role is TaskRole.ESSENTIAL else 4)
        cpu_millis = (
            0 if dice.falls(0.1) else dice.whole(1, 3 if role is TaskRole.ESSENTIAL else 4) * 250
        )
        market = Preemptible.FORBIDDEN if dice.falls(self._demand.lasting) else Preemptible.ALLOWED
        spec = ContainerSpec(
            name=name,
            image="",
            command=("run",),
            env=(),
            resources=Resources(cpu_millis=cpu_millis, memory_bytes=MEMORY_BYTES),
            constraints=Constraints(preemptible=market),
            grace_period_s=dice.between(0, 20) if dice.falls(self._demand.lenient) else None,
        )
        return JobTask(
            name=name,
            spec=spec,
            size=size,
            is_array=size > 1 or dice.falls(0.5),
            role=role,
            startup_order=dice.whole(0, 2),
        )

    # ---- how they steer them ----

    def _unfinished(self) -> list[Job]:
        jobs = self._store.jobs.values()
        return [job for job in jobs if job.type is JobType.ELASTIC and not job.state.final]

    def _control(self) -> None:
        jobs = self._unfinished()
        if not jobs:
            return
        dice = self._dice
        job, what = jobs[dice.whole(0, len(jobs) - 1)], dice.random()
        if what < 0.4:
            self._hold(job.id, held=not job.held)
            later_s = dice.between(0, 40)
            self._timeline.after(later_s, lambda: self._hold(job.id, held=False))
        elif what < 0.6:
            self._prioritise(job.id, 0 if dice.falls(0.3) else dice.whole(1, 4) * 100)
        elif what < 0.65:
            self._cancel(job.id)
        else:
            self._ask_of_a_member(job)

    def _ask_of_a_member(self, job: Job) -> None:
        """Cancel a member, or hold it back for a while."""
        dice, containers = self._dice, self._store.containers
        found = [c for c in sorted(self._store.unfinished) if containers[c].job_id == job.id]
        if not found:
            return
        container_id = found[dice.whole(0, len(found) - 1)]
        if dice.falls(0.25):
            event = CancelRequested(container_id=container_id)
            self._ask(RequestCancel(container_id=container_id), event)
            return
        self._prioritise_member(container_id, 0)
        later_s = dice.between(0, 30)
        self._timeline.after(later_s, lambda: self._prioritise_member(container_id, 100))

    def _prioritise_member(self, container_id: str, priority: int) -> None:
        request = RequestPriority(container_id=container_id, priority=priority)
        self._ask(request, PriorityRequested(container_id=container_id, priority=priority))

    def _hold(self, job_id: str, *, held: bool) -> None:
        request = RequestJobHold(job_id=job_id, held=held)
        self._ask(request, JobHoldRequested(job_id=job_id, held=held))

    def _prioritise(self, job_id: str, priority: int) -> None:
        request = RequestJobPriority(job_id=job_id, priority=priority)
        self._ask(request, JobPriorityRequested(job_id=job_id, priority=priority))

    def _cancel(self, job_id: str) -> None:
        request = RequestJobCancel(job_id=job_id)
        self._ask(request, JobCancelRequested(job_id=job_id))

    def release(self) -> None:
        """End in time what may never find room for all that it needs, and would wait for ever."""
        self._cares += 1
        process = self._process()
        if process is None or self._cares < PATIENT_CARES:
            return
        for job in self._unfinished():
            if not job.cancel_requested and not fits_for_sure(job, process):
                self._cancel(job.id)

    def _ask(self, request: Change, event: Event, told: Callable[[], None] = lambda: None) -> None:
        process = self._process()
        if process is None:
            return

        def done(accepted: bool) -> None:
            if accepted:
                told()
                self._post(process, event)

        self._store.write([request], done)


def fits_for_sure(job: Job, process: DispatcherProcess) -> bool:
    """Return whether all that a job needs to begin fits on one instance of some type."""
    settings = process.engine.settings
    terms = job.terms.elastic
    assert terms is not None
    rigid = terms.mode is ElasticMode.RIGID
    tasks = [task for task in job.tasks if rigid or task.role is TaskRole.ESSENTIAL]
    count = sum(task.size for task in tasks)
    most = settings.max_containers_per_instance
    most = 1 if settings.placement is Placement.EXCLUSIVE else most
    if count > min(most, settings.max_containers or count):
        return False
    types = list(process.engine.types.values())
    return any(
        all(type_ in _types_of(task, types, settings.max_price_factor) for task in tasks)
        and _together(tasks, type_).fits_in(type_.allocatable)
        for type_ in types
    )


def _types_of(
    task: JobTask, types: list[InstanceType], max_price_factor: float
) -> tuple[InstanceType, ...]:
    spec = task.spec
    return eligible_types(
        types,
        spec.resources,
        spec.constraints,
        spec.unnamed,
        max_price_factor=max_price_factor,
    )


def _together(tasks: list[JobTask], type_: InstanceType) -> Resources:
    """Return what all members of some components take of an instance."""
    total, shared = Resources(), 0
    for task in tasks:
        asked = need(type_, task.spec.resources, task.spec.unnamed)
        shared = shared if asked.cpu_millis else 1000
        for _ in range(task.size):
            total = total.plus(asked)
    return total.plus(Resources(cpu_millis=shared))
