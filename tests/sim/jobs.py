"""What of jobs is so by what is committed: who has ended, who may start, how far each job is.

An account of its own beside the engine's: it hears of every change as it is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    DependencyOn,
)
from longshore.dispatcher.domain.jobs import Job, JobState, JobTask, JobType
from longshore.dispatcher.domain.messages import (
    AddContainer,
    Change,
    InsertContainers,
    InsertJob,
    RequestCancel,
    RequestJobCancel,
    RequestJobPriority,
    RequestJobRevision,
    RequestPriority,
    SaveAttempt,
    SaveContainer,
    SaveJob,
)
from longshore.pool.model import AttemptOrder
from tests.sim.elastic_account import JOB_ENDED, ElasticAccount
from tests.sim.per_instance_account import ENDED_WITH_ITS_PLACE, PerInstanceAccount
from tests.sim.store import VirtualStore
from tests.sim.truth import expect

FINAL_STATES = tuple(state for state in ContainerState if state.final)


@dataclass(slots=True)
class Count:
    """How many of some containers are in which state, and which have begun and not ended."""

    total: int = 0
    states: Counter[ContainerState] = field(default_factory=Counter)
    begun: set[str] = field(default_factory=set)

    def ended(self) -> bool | None:
        """Return whether all succeeded, None while not all have ended."""
        if sum(self.states[state] for state in FINAL_STATES) < self.total:
            return None
        return self.states[ContainerState.SUCCEEDED] == self.total


class JobAccount:
    """Keeps account of all containers' ends; `started_at` is when each attempt really began."""

    def __init__(self, store: VirtualStore, most_lost: int) -> None:
        self._store = store
        self._cancelled: set[str] = set()
        self._counts: dict[str, Count] = {}
        self._elements: dict[tuple[str, str, int], str] = {}
        self._tasks: dict[tuple[str, str], JobTask] = {}
        self._codes: dict[str, list[int]] = {}
        self.elastic = ElasticAccount(store, most_lost)
        self.per_instance = PerInstanceAccount(store, self.elastic)
        self.started_at: dict[str, float] = {}
        self.version = 0

    # ---- what has ended ----

    def outcome(self, node: str) -> bool | None:
        """Return whether a container, a task or a job succeeded, None while it has not ended."""
        job = self._store.jobs.get(node.partition("/")[0])
        if job is not None and not job.ends_by_itself:
            return job.state is JobState.SUCCEEDED if job.state.final else None
        container = self._store.containers.get(node)
        if container is None:
            count = self._counts.get(node)
            return count.ended() if count is not None else None
        return container.state is ContainerState.SUCCEEDED if container.state.final else None

    def may_start(self, container: Container) -> bool | None:
        """Return whether all that one waits for has ended as it must; None while it may still."""
        outcomes = list(self._needs(container))
        if any(on is DependencyOn.SUCCESS and outcome is False for outcome, on in outcomes):
            return False
        return None if any(outcome is None for outcome, _ in outcomes) else True

    def _needs(self, container: Container) -> Iterable[tuple[bool | None, DependencyOn]]:
        for each in container.spec.after:
            node = each.of
            if each.each and container.array_index is not None:
                job_id, _, task = each.of.partition("/")
                node = self._elements[job_id, task, container.array_index]
            yield self.outcome(node), each.on

    def states_of(self, job_id: str, task: str) -> Counter[ContainerState]:
        """Return how many of a task are in which state; not a copy."""
        return self._counts.setdefault(f"{job_id}/{task}", Count()).states

    def task_of(self, container: Container) -> JobTask:
        """Return the task that a job's container belongs to."""
        return self._tasks[container.job_id, container.task]

    # ---- what is committed ----

    def committing(self, change: Change) -> None:
        """Look at a change before it is in the store."""
        self.per_instance.committing(change)
        self.elastic.committing(change)
        match change:
            case InsertContainers():
                self._insert(change.containers)
            case AddContainer():
                self._insert([change.container])
            case InsertJob() | RequestJobRevision():
                self._on_job(change)
            case RequestCancel():
                self._cancelled.add(change.container_id)
            case RequestJobCancel():
                found = self._store.containers.values()
                self._cancelled.update(c.id for c in found if c.job_id == change.job_id)
            case SaveContainer():
                self._on_container(change.container)
            case SaveAttempt():
                self._on_attempt(change.attempt)
            case RequestPriority() | RequestJobPriority():
                self._on_priority(change)
            case SaveJob():
                before = self._store.jobs[change.job.id]
                expect(not before.state.final, "a job ends once", before.id, change.job.state)
            case _:
                pass

    def _on_job(self, change: InsertJob | RequestJobRevision) -> None:
        for task in change.job.tasks:
            self._tasks[change.job.id, task.name] = task
        if isinstance(change, InsertJob):
            self._insert(change.containers)

    def _on_priority(self, change: RequestPriority | RequestJobPriority) -> None:
        """Let who waits and is held back be under way no more: the turn is another's."""
        found = self._store.containers.values()
        for each in found if change.priority == 0 else ():
            asked = (
                each.id == change.container_id
                if isinstance(change, RequestPriority)
                else each.job_id == change.job_id
            )
            if asked and each.state is ContainerState.QUEUED:
                for count in self._counts_of(each):
                    count.begun.discard(each.id)

    def _insert(self, containers: Iterable[Container]) -> None:
        self.version += 1
        for container in containers:
            for count in self._counts_of(container):
                count.total += 1
                count.states[container.state] += 1
            if container.array_index is not None:
                key = (container.job_id, container.task, container.array_index)
                self._elements[key] = container.id

    def _counts_of(self, container: Container) -> list[Count]:
        if not container.job_id:
            return []
        names = (f"{container.job_id}/{container.task}", container.job_id)
        return [self._counts.setdefault(name, Count()) for name in names]

    def _on_container(self, container: Container) -> None:
        stored = self._store.containers[container.id]
        if stored.state is container.state:
            return
        self.version += 1
        for count in self._counts_of(container):
            count.states[stored.state] -= 1
            count.states[container.state] += 1
            held_back = container.state is ContainerState.QUEUED and stored.priority == 0
            if container.state.final or held_back:
                count.begun.discard(container.id)
        if container.state is ContainerState.CANCELLED:
            self._expect_cause(container)
        if container.state is ContainerState.FAILED and container.exit_code is not None:
            self._codes.setdefault(container.job_id, []).append(container.exit_code)

    def _expect_cause(self, container: Container) -> None:
        """Expect that who is cancelled was to be, or waited for what did not succeed."""
        code = container.reason.code if container.reason is not None else ""
        asked = container.id in self._cancelled
        if container.pinned_to and code in ENDED_WITH_ITS_PLACE:
            return
        if code == JOB_ENDED and self.elastic.job_of(container) is not None:
            return
        if code == "dependency_failed":
            in_vain = self.may_start(container) is False
            expect(in_vain, "who can start is not cancelled", container.id, container.spec.after)
        else:
            job = self._store.jobs.get(container.job_id)
            asked = asked or (job is not None and job.cancel_requested)
            expect(asked, "who can start is not cancelled", container.id, code)

    def _on_attempt(self, attempt: Attempt) -> None:
        """Expect that who was ended for its time limit has failed for that, if it ran so long."""
        over = attempt.intended_outcome is AttemptOutcome.FAILED
        spec = self._store.containers[attempt.container_id].spec
        ran_s = (attempt.finished_at or 0.0) - (attempt.started_at or 0.0)
        in_time = over and ran_s < (spec.time_limit_s or 0.0)
        if attempt.outcome is AttemptOutcome.SUCCEEDED:
            expect(not over or in_time, "who ran for too long has failed for that", attempt)
        if attempt.outcome is not AttemptOutcome.FAILED or attempt.reason is None:
            return
        said = attempt.reason.code == "time_limit"
        refused = attempt.reason.code == "start_refused"
        right = over == said or refused or (in_time and not said)
        expect(right, "who ran for too long has failed for that", attempt)

    # ---- what hosts do ----

    def started(self, order: AttemptOrder, now: float) -> None:
        """Look at a process that begins."""
        self.started_at.setdefault(order.attempt_id, now)
        container = self._store.containers[order.container_id]
        if container.spec.after:
            may = self.may_start(container)
            expect(may is True, "what is waited for has ended", container.id, container.spec.after)
        if not container.job_id:
            return
        self.per_instance.started(container, order)
        self.elastic.started(container, order, self.task_of(container))
        self._expect_to_know(container, order)
        count = self._counts[f"{container.job_id}/{container.task}"]
        count.begun.add(container.id)
        most = self.task_of(container).max_running
        few = most is None or len(count.begun) <= most
        expect(few, "no more of an array than may", container.id, most, count.begun)

    def _expect_to_know(self, container: Container, order: AttemptOrder) -> None:
        task = self.task_of(container)
        known = {
            "LONGSHORE_CONTAINER_ID": container.id,
            "LONGSHORE_ATTEMPT": order.attempt_id.rpartition("-")[2],
            "LONGSHORE_JOB_ID": container.job_id,
            "LONGSHORE_TASK": container.task,
        }
        if task.is_array:
            known["LONGSHORE_ARRAY_INDEX"] = str(container.array_index)
            known["LONGSHORE_ARRAY_SIZE"] = str(task.size)
        told = dict(order.env)
        right = all(told.get(name, "") == value for name, value in known.items())
        expect(right, "an element knows which it is", container.id, order.env)

    # ---- at the end ----

    def final(self) -> None:
        """Look at everything once the run is over."""
        for container in self._store.containers.values():
            if container.spec.after and self.may_start(container) is False:
                ended = container.state is ContainerState.CANCELLED
                expect(ended, "who cannot start is cancelled", container.id, container.state)
        for job in self._store.jobs.values():
            expect(job.state.final, "everything ends", job.id, job.state)
            self._expect_true(job)

    def _expect_true(self, job: Job) -> None:
        """Expect that a job ended as its containers did."""
        states = self._counts.setdefault(job.id, Count()).states
        failed, cancelled = states[ContainerState.FAILED], states[ContainerState.CANCELLED]
        if job.type is JobType.ELASTIC:
            self.elastic.expect_true(job)
        elif job.type.is_per_instance:
            self.per_instance.expect_true(
                job, failed=failed, succeeded=states[ContainerState.SUCCEEDED]
            )
        elif not failed:
            right = JobState.CANCELLED if cancelled else JobState.SUCCEEDED
            expect(job.state is right, "a job ends as its containers do", job, states)
        else:
            fits = job.state is JobState.FAILED or (job.cancel_requested and cancelled)
            expect(bool(fits), "a job ends as its containers do", job, states)
        best = 0 if job.state is JobState.SUCCEEDED else None
        code = max(self._codes.get(job.id, []), default=best)
        expect(job.exit_code == code, "a job ends as its containers do", job, code)
        told = {s: sum(getattr(t, s.value) for t in job.tallies) for s in ContainerState}
        same = all(told[state] == states[state] for state in ContainerState)
        expect(same, "a job ends as its containers do", job.id, told, states)
        times = (job.created_at, job.started_at, job.finished_at)
        known = [at for at in times if at is not None]
        expect(known == sorted(known), "costs and times are sane", job.id, times)
