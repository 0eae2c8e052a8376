"""Users of jobs in virtual time: what they submit, what it waits for, and how they steer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    Container,
    ContainerSpec,
    Dependency,
    DependencyOn,
)
from longshore.dispatcher.domain.jobs import Job, JobTask, Tally
from longshore.dispatcher.domain.messages import (
    CancelRequested,
    Change,
    CompletionsUnwatched,
    CompletionsWatched,
    Event,
    InsertJob,
    JobCancelRequested,
    JobHoldRequested,
    JobPriorityRequested,
    JobSubmitted,
    RequestCancel,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
)
from longshore.dispatcher.state.dependencies import roots_of
from tests.job_samples import ended_nodes
from tests.sim.faults import Demand
from tests.sim.process import DispatcherProcess
from tests.sim.store import VirtualStore
from tests.sim.timeline import Dice, Timeline

LONGEST_LOOK_UP_S = 3.0
LONGEST_GRACE_S = 20.0
LONGEST_WAIT_S = 120.0

Post = Callable[[DispatcherProcess, Event], None]
Told = Callable[[Mapping[str, bool]], Event]


class JobUsers:
    """Submits and steers jobs, and says what containers wait for."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        dice: Dice,
        demand: Demand,
        store: VirtualStore,
        process: Callable[[], DispatcherProcess | None],
        epoch_now: Callable[[], float],
        new: Callable[[], Container],
        post: Post,
        acknowledged: set[str],
    ) -> None:
        self._timeline = timeline
        self._dice = dice
        self._demand = demand
        self._store = store
        self._process = process
        self._epoch_now = epoch_now
        self._new = new
        self._post = post
        self._acknowledged = acknowledged
        self._submitted = 0

    def begin(self, until: float) -> None:
        """Plan all jobs, and what is asked of them, before `until`."""
        for _ in range(self._demand.jobs):
            self._timeline.at(self._dice.between(0, until * 0.8), self._submit_job)
        when, mean_s = 0.0, self._demand.job_requests_every_s
        while mean_s > 0 and (when := when + self._dice.soon(mean_s)) < until:
            self._timeline.at(when, self._control)

    # ---- what is asked for ----

    def wished(self, spec: ContainerSpec) -> ContainerSpec:
        """Return a specification with what some users ask for beside."""
        demand, dice = self._demand, self._dice
        if dice.falls(demand.limited):
            retries = spec.retries
            if retries.most and dice.falls(0.5):
                retries = replace(retries, on=("exit_code", "time_limit"))
            limit_s = dice.between(1, demand.longest_run_s)
            spec = replace(spec, time_limit_s=limit_s, retries=retries)
        if dice.falls(demand.lenient):
            grace_s = 0.0 if dice.falls(0.2) else dice.between(0, LONGEST_GRACE_S)
            spec = replace(spec, grace_period_s=grace_s)
        if dice.falls(demand.postponed):
            spec = replace(spec, not_before=self._epoch_now() + dice.between(-20, LONGEST_WAIT_S))
        return replace(spec, after=self._earlier()) if dice.falls(demand.depending) else spec

    def _on(self) -> DependencyOn:
        return DependencyOn.SUCCESS if self._dice.falls(0.6) else DependencyOn.END

    def _earlier(self) -> tuple[Dependency, ...]:
        """Return some of what was submitted before, as a rule of what has not ended."""
        store, dice = self._store, self._dice
        of = [f"{job.id}/{task.name}" for job in store.jobs.values() for task in job.tasks]
        of += store.jobs
        of += sorted(store.unfinished) if dice.falls(0.7) else list(store.containers)
        chosen = {of[dice.whole(0, len(of) - 1)]: None for _ in range(dice.whole(1, 3)) if of}
        return tuple(Dependency(of=each, on=self._on()) for each in chosen)

    def _submit_job(self) -> None:
        process = self._process()
        if process is None:
            return
        self._submitted += 1
        job_id = f"j-{self._submitted}"
        tasks = self._tasks(job_id)
        first = self._new()
        job = Job(
            id=job_id,
            sequence=self._submitted,
            name=job_id,
            user="u",
            project="p",
            priority=first.priority,
            created_at=self._epoch_now(),
            tasks=tasks,
            tallies=tuple(Tally(queued=task.size) for task in tasks),
        )
        containers = tuple(
            replace(
                self._new(),
                spec=task.spec,
                priority=job.priority,
                job_id=job_id,
                task=task.name,
                array_index=index if task.is_array else None,
            )
            for task in tasks
            for index in range(task.size)
        )
        insert = InsertJob(job=job, containers=containers, user="u")
        self.admit(
            process,
            containers,
            insert,
            lambda ended: JobSubmitted(job=job, containers=containers, ended=ended),
        )

    # ---- the shapes of jobs ----

    def _tasks(self, job_id: str) -> tuple[JobTask, ...]:
        """Return the tasks of a job of some shape; the last may wait for others' work too."""
        shapes = (self._array, self._chain, self._diamond, self._pairs)
        names = shapes[self._dice.whole(0, len(shapes) - 1)]()
        tasks: list[JobTask] = []
        for name, size, after, each in names:
            spec = self.wished(self._new().spec)
            own = [Dependency(of=f"{job_id}/{other}", on=self._on(), each=each) for other in after]
            narrow = size is not None and self._dice.falls(self._demand.narrow)
            tasks.append(
                JobTask(
                    name=name,
                    spec=replace(spec, after=(*spec.after, *own)),
                    size=size or 1,
                    is_array=size is not None,
                    max_running=self._dice.whole(1, 3) if narrow else None,
                )
            )
        return tuple(tasks)

    def _size(self) -> int:
        return self._dice.whole(1, self._demand.longest_array)

    def _array(self) -> list[tuple[str, int | None, tuple[str, ...], bool]]:
        return [("", self._size(), (), False)]

    def _chain(self) -> list[tuple[str, int | None, tuple[str, ...], bool]]:
        length = self._dice.whole(2, 5)
        return [(f"t{n}", None, (f"t{n - 1}",) if n else (), False) for n in range(length)]

    def _diamond(self) -> list[tuple[str, int | None, tuple[str, ...], bool]]:
        return [
            ("split", None, (), False),
            ("left", self._size(), ("split",), False),
            ("right", None, ("split",), False),
            ("merge", None, ("left", "right"), False),
        ]

    def _pairs(self) -> list[tuple[str, int | None, tuple[str, ...], bool]]:
        size = self._size()
        return [("a", size, (), False), ("b", size, ("a",), True), ("c", None, ("b",), False)]

    # ---- submitting ----

    def admit(
        self,
        process: DispatcherProcess,
        containers: Sequence[Container],
        insert: Change,
        event: Told,
    ) -> None:
        """Submit as the server does: look up what has ended, then commit, then tell the engine."""
        roots = tuple(roots_of(containers))

        def look_up(fine: bool) -> None:
            if not process.alive:
                return
            if not fine:
                process.post(CompletionsUnwatched(roots=roots))
                return
            nodes = ended_nodes(self._store.jobs, self._store.containers.values())
            ended = {n: nodes[n] for n in nodes if n.partition("/")[0] in roots}
            late = self._dice.falls(self._demand.slow_look_ups)
            late_s = self._dice.between(0, LONGEST_LOOK_UP_S) if late else 0.0
            self._timeline.after(late_s, lambda: commit(ended))

        def commit(ended: Mapping[str, bool]) -> None:
            if process.alive:
                self._store.write([insert], lambda fine: committed(ended, fine=fine))

        def committed(ended: Mapping[str, bool], *, fine: bool) -> None:
            if fine:
                self._acknowledged.update(container.id for container in containers)
                self._post(process, event(ended))
            elif process.alive:
                process.post(CompletionsUnwatched(roots=roots))

        if roots:
            process.post(CompletionsWatched(roots=roots))
            # What the engine has decided by now is committed before it is looked up.
            self._store.write([], look_up)
        else:
            commit({})

    # ---- steering ----

    def _control(self) -> None:
        jobs = [job for job in self._store.jobs.values() if not job.state.final]
        if not jobs:
            return
        job = jobs[self._dice.whole(0, len(jobs) - 1)]
        what = self._dice.random()
        if what < 0.5:
            self.hold(job.id, held=not job.held)
            if not job.held:
                later_s = self._dice.between(0, 60)
                self._timeline.after(later_s, lambda: self.hold(job.id, held=False))
        elif what < 0.65:
            self._ask(RequestJobCancel(job_id=job.id), JobCancelRequested(job_id=job.id))
        elif what < 0.85:
            priority = 0 if self._dice.falls(0.3) else self._dice.whole(1, 4) * 100
            request = RequestJobPriority(job_id=job.id, priority=priority)
            self._ask(request, JobPriorityRequested(job_id=job.id, priority=priority))
        else:
            self._cancel_element(job.id)

    def _cancel_element(self, job_id: str) -> None:
        containers = self._store.containers
        found = [
            each for each in sorted(self._store.unfinished) if containers[each].job_id == job_id
        ]
        if found:
            container_id = found[self._dice.whole(0, len(found) - 1)]
            event = CancelRequested(container_id=container_id)
            self._ask(RequestCancel(container_id=container_id), event)

    def hold(self, job_id: str, *, held: bool) -> None:
        """Ask for a job to be held, or released."""
        request = RequestJobHold(job_id=job_id, held=held)
        self._ask(request, JobHoldRequested(job_id=job_id, held=held))

    def _ask(self, request: Change, event: Event) -> None:
        process = self._process()
        if process is None:
            return

        def done(accepted: bool) -> None:
            if accepted:
                self._post(process, event)

        self._store.write([request], done)
