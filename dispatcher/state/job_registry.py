"""The jobs that have not ended: how many of their containers are where, and what follows of it."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace

from longshore.dispatcher.domain.containers import Container, ContainerState, Reason
from longshore.dispatcher.domain.jobs import Job, JobState, JobType, Tally, nodes_of, task_node
from longshore.dispatcher.state.memory_limit import spec_bytes
from longshore.drivers.errors import BugError


@dataclass(slots=True, kw_only=True)
class _Window:
    """The elements of an array that may be under way at once, and those that wait for a turn."""

    most: int
    under_way: set[str] = field(default_factory=set)
    waiting: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job that does not end by itself comes to, once all of its containers have ended.

    `exit_code` is None for the highest of its failed containers.
    """

    state: JobState
    reason: Reason | None = None
    exit_code: int | None = None


CANCELLED = JobResult(
    state=JobState.CANCELLED, reason=Reason(code="cancelled", message="cancelled")
)


@dataclass(slots=True, kw_only=True)
class _Live:
    """A job that has not ended."""

    job: Job
    tallies: list[Tally]
    total: Tally
    #: The place of each task, by its name.
    numbers: dict[str, int]
    windows: dict[str, _Window]
    #: The ids of those that have not ended, as they came.
    containers: dict[str, None] = field(default_factory=dict)
    #: The highest of failed containers by now.
    exit_code: int | None = None
    #: None while a job that does not end by itself is to go on.
    conclusion: JobResult | None = None


class JobRegistry:
    """All unfinished jobs by id; `ended` counts those that have ended since the start, by state.

    `templates_bytes` is about how much memory the specifications take of jobs whose runs are jobs:
    no container has these (see `memory_limit.spec_bytes`).
    """

    def __init__(self) -> None:
        self.ended: Counter[JobState] = Counter()
        self.templates_bytes = 0
        self._live: dict[str, _Live] = {}
        self._runs: dict[str, set[str]] = {}
        self._changed: dict[str, bool] = {}
        self._idle: dict[str, None] = {}
        self._last_actions: dict[str, str] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._live

    def __len__(self) -> int:
        return len(self._live)

    def admit(self, job: Job) -> None:
        """Take in a job that the store holds; its tallies count its containers as they are."""
        self._live[job.id] = _Live(
            job=job,
            tallies=list(job.tallies),
            total=job.tally,
            numbers={task.name: number for number, task in enumerate(job.tasks)},
            windows={t.name: _Window(most=t.max_running) for t in job.tasks if t.max_running},
            exit_code=job.exit_code,
            conclusion=CANCELLED if job.cancel_requested else None,
        )
        self.templates_bytes += _template_bytes(job)
        self._changed.setdefault(job.id, False)
        if job.parent:
            self._runs.setdefault(job.parent, set()).add(job.id)

    def add(self, container: Container) -> None:
        """Note a new container, which waits, of a job that gets them as it lives."""
        self.take_in(container)
        live = self._live[container.job_id]
        number = live.numbers[container.task]
        live.tallies[number] = live.tallies[number].moved(None, container.state)
        live.total = live.total.moved(None, container.state)

    def take_in(self, container: Container) -> None:
        """Note an unfinished container of a job, which the job's tallies count already."""
        live = self._live.get(container.job_id)
        if live is None:
            raise BugError(f"{container.id}: its job {container.job_id} is not known")
        live.containers[container.id] = None

    def type_of(self, job_id: str) -> JobType | None:
        """Return the type of an unfinished job, None when it is none."""
        live = self._live.get(job_id)
        return None if live is None else live.job.type

    def runs_of(self, parent: str) -> list[str]:
        """Return the ids of a periodic or parameterised job's unfinished runs, sorted."""
        return sorted(self._runs.get(parent, ()))

    def lasting(self) -> int:
        """Return how many unfinished jobs get their containers, or their runs, as they live."""
        jobs = [live.job for live in self._live.values()]
        return sum(1 for job in jobs if job.is_template or job.type.is_per_instance)

    def per_instance(self) -> int:
        """Return how many unfinished jobs there are that run on each instance."""
        jobs = [live.job for live in self._live.values()]
        return sum(1 for job in jobs if job.type.is_per_instance and not job.is_template)

    def elastic_containers(self) -> int:
        """Return how many containers the unfinished elastic jobs have that have not ended."""
        lives = [live for live in self._live.values() if live.job.type is JobType.ELASTIC]
        return sum(len(live.containers) for live in lives)

    def is_concluded(self, job_id: str) -> bool:
        """Return whether a job that does not end by itself is to end."""
        live = self._live.get(job_id)
        return live is None or live.conclusion is not None

    def is_held(self, job_id: str) -> bool:
        """Return whether an unfinished job is held."""
        live = self._live.get(job_id)
        return live is not None and live.job.held

    def job(self, job_id: str) -> Job | None:
        """Return an unfinished job with its tallies as they are, None when it is none."""
        live = self._live.get(job_id)
        return None if live is None else _as_it_is(live)

    def states(self) -> Counter[str]:
        """Return how many jobs are in which state; those that are held count as "held" only."""
        return Counter(
            "held" if live.job.held else live.job.state.value for live in self._live.values()
        )

    def job_ids(self) -> list[str]:
        """Return the ids of the unfinished jobs, sorted, as a new list."""
        return sorted(self._live)

    def containers_of(self, job_id: str) -> list[str]:
        """Return the ids of a job's unfinished containers, as they came; a new list."""
        live = self._live.get(job_id)
        return [] if live is None else list(live.containers)

    def size_of(self, container: Container) -> int | None:
        """Return how many elements a container's array has, None when it is in none."""
        live = self._live.get(container.job_id)
        if live is None or container.array_index is None:
            return None
        return live.job.tasks[live.numbers[container.task]].size

    # ---- what happens ------------------------------------------------------------------------

    def moved(self, before: ContainerState, container: Container) -> None:
        """Count a container of a job that was in another state before."""
        live = self._live.get(container.job_id)
        if live is None or before is container.state:
            return
        number = live.numbers[container.task]
        live.tallies[number] = live.tallies[number].moved(before, container.state)
        if container.state is ContainerState.FAILED and container.exit_code is not None:
            live.exit_code = max(live.exit_code or 0, container.exit_code)
        if container.state.final:
            live.containers.pop(container.id, None)
        live.total = live.total.moved(before, container.state)
        self._changed.setdefault(container.job_id, False)

    def ends_with(self, container: Container) -> list[tuple[str, bool]]:
        """Return the nodes that end with a container's end, each with whether it succeeded."""
        ended = [(n, container.state is ContainerState.SUCCEEDED) for n in nodes_of(container)]
        live = self._live.get(container.job_id)
        if live is None or not live.job.ends_by_itself:
            return ended
        tally = live.tallies[live.numbers[container.task]]
        if tally.ended == tally.total:
            succeeded = tally.succeeded == tally.total
            ended.append((task_node(container.job_id, container.task), succeeded))
        whole = live.total
        if whole.ended == whole.total:
            ended.append((container.job_id, whole.succeeded == whole.total))
        return ended

    def set_priority(self, job_id: str, priority: int) -> None:
        """Note a job's new priority; unknown is no error."""
        self._replace(job_id, f"given the priority {priority}", priority=priority)

    def set_held(self, job_id: str, *, held: bool) -> None:
        """Note whether a job is held; unknown is no error."""
        self._replace(job_id, "held" if held else "released", held=held)

    def cancel(self, job_id: str) -> None:
        """Note that a job is to be cancelled; unknown is no error."""
        live = self._live.get(job_id)
        self._replace(job_id, "to be cancelled", cancel_requested=True)
        if live is not None and live.conclusion is None:
            live.conclusion = CANCELLED

    def conclude(self, job_id: str, conclusion: JobResult) -> None:
        """Say how a job ends that does not end by itself, once all of its containers have; unknown
        is none.

        The first call counts. Its reason is journalled at once, so that it can be seen and survives
        a restart.
        """
        live = self._live.get(job_id)
        if live is not None and live.conclusion is None:
            live.conclusion = conclusion
            self._replace(job_id, "to end", reason=conclusion.reason)

    def revise(self, job: Job) -> None:
        """Let an unfinished job be its next revision; unknown is no error."""
        self._replace(
            job.id,
            "revised",
            name=job.name,
            labels=job.labels,
            priority=job.priority,
            tasks=job.tasks,
            terms=job.terms,
        )

    def set_launched_for(self, job_id: str, launched_for: float) -> None:
        """Note for which time a periodic job was begun last; unknown is no error."""
        self._replace(job_id, "launched", launched_for=launched_for)

    def pop_last_action(self, job_id: str) -> str:
        """Return and clear, in a few words, what was done to a job last; "" for nothing."""
        return self._last_actions.pop(job_id, "")

    def _replace(self, job_id: str, last_action: str, **changed: object) -> None:
        live = self._live.get(job_id)
        if live is not None:
            before = _template_bytes(live.job)
            live.job = replace(live.job, **changed)  # type: ignore[arg-type]  # fields of Job
            self.templates_bytes += _template_bytes(live.job) - before
            self._changed[job_id] = True
            self._last_actions[job_id] = last_action

    def drain_changes(self, now: float) -> list[Job]:
        """Return and clear the jobs that changed in a way that is journalled or published, as they
        are now.

        Those that have ended are forgotten.
        """
        told = []
        for job_id, is_told in self._changed.items():
            live = self._live[job_id]
            before = live.job.state
            live.job = _judged(live, now)
            if is_told or live.job.state is not before:
                told.append(_as_it_is(live))
            if live.job.state.final:
                self.ended[live.job.state] += 1
                self._forget(live.job)
        self._changed.clear()
        return told

    def _forget(self, job: Job) -> None:
        del self._live[job.id]
        self.templates_bytes -= _template_bytes(job)
        runs = self._runs.get(job.parent, set())
        runs.discard(job.id)
        if not runs:
            self._runs.pop(job.parent, None)

    # ---- how many of an array at once ---------------------------------------------------------

    def enter(self, container: Container) -> bool:
        """Give a container a `max_running` slot of its array if one is free, else let it wait for
        one.

        Returns whether it has one. Without such a limit, or with a slot already, it always does.
        """
        window = self._window(container)
        if window is None or container.id in window.under_way:
            return True
        if len(window.under_way) < window.most:
            window.under_way.add(container.id)
            return True
        heapq.heappush(window.waiting, (container.array_index or 0, container.id))
        return False

    def force(self, container: Container) -> None:
        """Give a container that runs a `max_running` slot, whatever the limit says."""
        window = self._window(container)
        if window is not None:
            window.under_way.add(container.id)

    def leave(self, container: Container) -> str | None:
        """Take a container's `max_running` slot; return who gets it, None for nobody."""
        window = self._window(container)
        if window is None or container.id not in window.under_way:
            return None
        window.under_way.discard(container.id)
        live = self._live[container.job_id]
        while window.waiting:
            _, next_id = heapq.heappop(window.waiting)
            if next_id in live.containers:
                window.under_way.add(next_id)
                return next_id
        return None

    def hold_back(self, container: Container) -> None:
        """Note that a container which does not run has the priority 0: its `max_running` slot is of
        no use.
        """
        window = self._window(container)
        if window is not None and container.id in window.under_way:
            self._idle[container.id] = None

    def take_idle(self) -> list[str]:
        """Return and clear the containers whose priority dropped to 0 while they held a
        `max_running` slot.

        The oldest comes first.
        """
        idle = list(self._idle)
        self._idle.clear()
        return idle

    def under_way_with(self, container: Container) -> int:
        """Return how many of a container's array are under way."""
        window = self._window(container)
        return 0 if window is None else len(window.under_way)

    def _window(self, container: Container) -> _Window | None:
        live = self._live.get(container.job_id)
        return None if live is None else live.windows.get(container.task)


def _template_bytes(job: Job) -> int:
    return sum(spec_bytes(task.spec) for task in job.tasks) if job.is_template else 0


def _as_it_is(live: _Live) -> Job:
    """Return a job with its tallies as they are; made anew only when they have changed."""
    tallies = tuple(live.tallies)
    if tallies != live.job.tallies:
        live.job = replace(live.job, tallies=tallies)
    return live.job


def _judged(live: _Live, now: float) -> Job:
    """Return a job in the state that its containers make it."""
    job, tally, exit_code = live.job, live.total, live.exit_code
    if job.state is JobState.PENDING and (tally.running or tally.succeeded or tally.failed):
        job = replace(job, state=JobState.RUNNING, started_at=max(now, job.created_at))
    if tally.ended < tally.total:
        return job
    finished_at = max(now, job.started_at or job.created_at)
    if not job.ends_by_itself:
        return _concluded(live, job, finished_at)
    job = replace(job, finished_at=finished_at, exit_code=exit_code)
    if tally.succeeded == tally.total:
        return replace(job, state=JobState.SUCCEEDED, exit_code=0)
    if tally.cancelled and (job.cancel_requested or not tally.failed):
        reason = Reason(code="cancelled", message=_cancelled(job, tally))
        return replace(job, state=JobState.CANCELLED, reason=reason)
    reason = Reason(code="containers_failed", message=_failed(tally))
    return replace(job, state=JobState.FAILED, reason=reason)


def _concluded(live: _Live, job: Job, finished_at: float) -> Job:
    conclusion = live.conclusion
    if conclusion is None:
        return job
    exit_code = live.exit_code if conclusion.exit_code is None else conclusion.exit_code
    return replace(
        job,
        state=conclusion.state,
        reason=conclusion.reason,
        exit_code=0 if conclusion.state is JobState.SUCCEEDED else exit_code,
        finished_at=finished_at,
    )


def _cancelled(job: Job, tally: Tally) -> str:
    if job.cancel_requested:
        return "cancelled"
    return f"{tally.cancelled} of its {tally.total} containers were cancelled"


def _failed(tally: Tally) -> str:
    message = f"{tally.failed} of its {tally.total} containers failed"
    if tally.cancelled:
        message += f", {tally.cancelled} were cancelled"
    return message
