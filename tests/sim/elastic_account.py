"""What of elastic jobs is so by what is committed, whichever process decided it."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
)
from longshore.dispatcher.domain.jobs import Job, JobState, JobTask, JobType, TaskRole
from longshore.dispatcher.domain.messages import Change, SaveAttempt, SaveContainer
from longshore.pool.model import AttemptOrder
from tests.sim.store import VirtualStore
from tests.sim.truth import expect

JOB_ENDED = "job_ended"
"""Why a container ends whose job has come to an end without it."""

TOLD = (AttemptOutcome.PREEMPTED, AttemptOutcome.CANCELLED)


class ElasticAccount:
    """Keeps account of which members have done their work, and of how jobs came to their ends.

    `failed` are the jobs of which an essential member has failed; one fails at the latest, too,
    when it has lost such members `most_lost` times.
    """

    def __init__(self, store: VirtualStore, most_lost: int) -> None:
        self._store = store
        self._most_lost = most_lost
        self._done: dict[str, set[str]] = {}
        self._fallen: set[str] = set()
        self.failed: set[str] = set()

    def job_of(self, container: Container) -> Job | None:
        """Return the elastic job that a container is a member of, None when it is none's."""
        job = self._store.jobs.get(container.job_id)
        return job if job is not None and job.type is JobType.ELASTIC else None

    def runs_again(self, container_id: str) -> bool:
        """Return whether a container may run again that succeeded: when its job begins anew."""
        return self.job_of(self._store.containers[container_id]) is not None

    def may_die(self, container: Container) -> bool:
        """Return whether a container is an elastic member: placed again however it ends."""
        job = self.job_of(container)
        return job is not None and not is_essential(job, container)

    def is_done(self, job: Job) -> bool:
        """Return whether all essential members have done their work since the job began."""
        done = self._done.get(job.id, set())
        return all(c.id in done for c in self._members(job) if is_essential(job, c))

    def ended_with_its_job(self, container: Container) -> bool:
        """Return whether a member ended since its job had done its work, or failed."""
        job, reason = self.job_of(container), container.reason
        if job is None or reason is None or reason.code != JOB_ENDED:
            return False
        failed = job.id in self.failed or any(c.id in self._fallen for c in self._members(job))
        return container.state is ContainerState.CANCELLED and (failed or self.is_done(job))

    def _members(self, job: Job) -> list[Container]:
        return [c for c in self._store.containers.values() if c.job_id == job.id]

    # ---- what is committed ----

    def committing(self, change: Change) -> None:
        """Look at a change before it is in the store."""
        match change:
            case SaveContainer():
                self._on_container(change.container)
            case SaveAttempt():
                self._on_attempt(change.attempt)
            case _:
                pass

    def _on_container(self, container: Container) -> None:
        job = self.job_of(container)
        if job is None or not container.state.final:
            return
        if container.state is ContainerState.FAILED:
            needed = is_essential(job, container)
            expect(needed, "only essential members fail their jobs", container.id)
            self.failed.add(job.id)
        code = container.reason.code if container.reason is not None else ""
        if container.state is ContainerState.CANCELLED and code != JOB_ENDED:
            self._fallen.add(container.id)

    def _on_attempt(self, attempt: Attempt) -> None:
        """Note who has done its work, and whose job has lost somebody and begins anew."""
        container = self._store.containers[attempt.container_id]
        job, known = self.job_of(container), self._store.attempts.get(attempt.id)
        if job is None:
            return
        done = self._done.setdefault(job.id, set())
        if known is None:
            again = container.id in done
            expect(not again, "what succeeded runs again only if its job begins anew", attempt)
        if attempt.outcome is None or (known is not None and known.outcome is not None):
            return
        if attempt.outcome is AttemptOutcome.SUCCEEDED:
            done.add(container.id)
        elif is_essential(job, container) and was_lost(attempt):
            done.clear()

    # ---- what hosts do ----

    def started(self, container: Container, order: AttemptOrder, task: JobTask) -> None:
        """Expect that a member that begins knows which it is, and who the others are."""
        job = self.job_of(container)
        if job is None:
            return
        told = dict(order.env)
        own = (
            told.get("LONGSHORE_COMPONENT"),
            told.get("LONGSHORE_COMPONENT_INDEX"),
            told.get("LONGSHORE_COMPONENT_COUNT"),
        )
        right = own == (task.name, str(container.array_index or 0), str(task.size))
        expect(right, "a member knows its job", container.id, order.env)
        for each in job.tasks:
            hosts = told.get(f"LONGSHORE_{each.name.upper()}_HOSTS", "").split(",")
            expect(len(hosts) == each.size, "a member knows its job", container.id, order.env)

    # ---- at the end ----

    def expect_true(self, job: Job) -> None:
        """Expect that a job ended as what it needs did."""
        states = {c.id: c.state for c in self._members(job) if is_essential(job, c)}
        failed = ContainerState.FAILED in states.values()
        match job.state:
            case JobState.SUCCEEDED:
                right = set(states.values()) == {ContainerState.SUCCEEDED} and self.is_done(job)
            case JobState.CANCELLED:
                right = job.cancel_requested
            case _:
                right = failed or not self._fallen.isdisjoint(states)
        expect(right, "an elastic job ends as what it needs does", job, states)
        told = job.state is JobState.FAILED or job.cancel_requested
        expect(told or not failed, "an elastic job ends as what it needs does", job, states)
        if job.reason is not None and job.reason.code == "essential_lost":
            lost = [a.id for a in self._attempts_of(states) if a.outcome is AttemptOutcome.LOST]
            enough = len(lost) >= self._most_lost
            expect(enough, "only what was lost fails for that", job, lost)

    def _attempts_of(self, container_ids: Iterable[str]) -> list[Attempt]:
        store = self._store
        return [store.attempts[a] for c in container_ids for a in store.attempts_of[c]]


def task_of(job: Job, container: Container) -> JobTask:
    """Return the component that a member belongs to."""
    return next(task for task in job.tasks if task.name == container.task)


def is_essential(job: Job, container: Container) -> bool:
    """Return whether a job needs a member."""
    return task_of(job, container).role is TaskRole.ESSENTIAL


def was_lost(attempt: Attempt) -> bool:
    """Return whether an attempt ended that nobody told to end, and not by itself."""
    code = attempt.reason.code if attempt.reason is not None else ""
    lost = attempt.outcome is AttemptOutcome.LOST or code == "interrupted"
    return lost and attempt.intended_outcome not in TOLD
