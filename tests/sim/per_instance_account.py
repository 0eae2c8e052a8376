"""What of system and sysbatch jobs is so by what is committed, whichever process decided it."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.dispatcher.domain.containers import (
    START_REFUSED,
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    StopCause,
)
from longshore.dispatcher.domain.jobs import Job, JobState, JobType
from longshore.dispatcher.domain.messages import AddContainer, Change, SaveAttempt, SaveContainer
from longshore.pool.model import AttemptOrder
from tests.sim.elastic_account import ElasticAccount
from tests.sim.store import VirtualStore
from tests.sim.truth import expect

ENDED_WITH_ITS_PLACE = ("stopped", "instance_gone")
"""Why a container ends whose job is not to run on its instance any more."""

MADE_WAY = "preempted"
RAN_AND_WAS_LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An attempt that was told to make way for a revision; `offset_s` is its process's clock's."""

    attempt_id: str
    began_at: float
    offset_s: float


class PerInstanceAccount:
    """Keeps account of where such jobs have run to their end, and of who made way for them."""

    def __init__(self, store: VirtualStore, elastic: ElasticAccount) -> None:
        self._store = store
        self._elastic = elastic
        self._settled: dict[tuple[str, str], int] = {}
        self._ended: dict[tuple[str, str], Attempt] = {}
        self._updates: dict[str, list[Update]] = {}
        self._containers: dict[str, dict[str, Container]] = {}

    def runs_for_ever(self, container_id: str) -> bool:
        """Return whether a container's attempts follow each other, however they end."""
        job = self._store.jobs.get(self._store.containers[container_id].job_id)
        return job is not None and job.type is JobType.SYSTEM

    def is_settled(self, job_id: str, instance_id: str, revision: int) -> bool:
        """Return whether a sysbatch job has run to its end on an instance, at a revision."""
        return self._settled.get((job_id, instance_id)) == revision

    def latest(self, job_id: str, instance_id: str) -> Attempt | None:
        """Return the attempt of a job that ended last on an instance, whichever container's."""
        return self._ended.get((job_id, instance_id))

    def refused_everywhere(self, job: Job) -> list[str]:
        """Return where a job was refused, [] unless all of its containers ended like that.

        They did so at its latest revision, each for a fault of the request.
        """
        terms = job.terms.per_instance
        assert terms is not None
        found = []
        for container in self._containers.get(job.id, {}).values():
            last = container.attempts[-1] if container.state is ContainerState.FAILED else None
            if last is None or last.reason is None or last.reason.code != START_REFUSED:
                return []
            if last.revision != terms.revision:
                return []
            found.append(container.pinned_to)
        return found

    # ---- updates ----

    def began_update(self, job_id: str, update: Update) -> None:
        """Note an update that is decided; if it is never committed, it never began."""
        self._updates.setdefault(job_id, []).append(update)

    def updates_since(self, job_id: str, since: float, offset_s: float) -> list[Update]:
        """Return the updates of a job that began after a moment, by clocks that were set alike.

        Of earlier processes those count whose containers have not ended: who starts from the store
        knows of no others.
        """
        return [
            each
            for each in self._updates.get(job_id, [])
            if each.began_at > since and each.offset_s == offset_s and self._is_on_record(each)
        ]

    def _is_on_record(self, update: Update) -> bool:
        attempt = self._store.attempts.get(update.attempt_id)
        if attempt is None or attempt.stop_reason.cause is not StopCause.REVISED:
            return False
        return not self._store.containers[attempt.container_id].state.final

    # ---- what is committed ----

    def committing(self, change: Change) -> None:
        """Look at a change before it is in the store."""
        match change:
            case AddContainer():
                self._on_new(change.container)
            case SaveContainer():
                self._on_container(change.container)
            case SaveAttempt():
                self._on_attempt(change.attempt)
            case _:
                pass

    def _on_new(self, container: Container) -> None:
        """Expect that a new container's job lacks one on its instance."""
        place = (container.job_id, container.pinned_to)
        unfinished = (self._store.containers[each] for each in self._store.unfinished)
        others = sorted(c.id for c in unfinished if (c.job_id, c.pinned_to) == place)
        expect(not others, "one container for each instance", container.id, others)

    def _on_container(self, container: Container) -> None:
        """Note where a sysbatch job has succeeded, or failed for good."""
        if container.pinned_to:
            self._containers.setdefault(container.job_id, {})[container.id] = container
        ended = container.state in (ContainerState.SUCCEEDED, ContainerState.FAILED)
        if container.pinned_to and ended:
            revision = container.attempts[-1].revision
            self._settled[container.job_id, container.pinned_to] = revision

    def _on_attempt(self, attempt: Attempt) -> None:
        """Expect that who made way knows for whom, and waits for room again.

        That is so when its end is committed: the end of its log may come long after that.
        """
        container = self._store.containers[attempt.container_id]
        known = self._store.attempts.get(attempt.id)
        if known is not None and known.outcome is not None:
            return
        reason = attempt.reason
        if container.pinned_to and attempt.outcome is not None:
            place = container.job_id, container.pinned_to
            self._ended[place] = attempt
            lost = reason is not None and reason.code == RAN_AND_WAS_LOST
            wanted = container.spec.retry_lost or self.runs_for_ever(container.id)
            if attempt.outcome is AttemptOutcome.LOST and lost and not wanted:
                self._settled[place] = attempt.revision
        if attempt.outcome is not AttemptOutcome.PREEMPTED or reason is None:
            return
        for_job = attempt.stop_reason.cause is StopCause.FOR_JOB
        job = self._store.jobs.get(attempt.stop_reason.of) if for_job else None
        if reason.code != MADE_WAY or job is None:
            return
        expect(job.id in reason.message, "who makes way knows for whom", attempt)
        # One of a per-instance job may have lost its place meanwhile, and an elastic job be over.
        waits = not container.state.final or bool(container.pinned_to)
        waits = waits or self._elastic.ended_with_its_job(container)
        expect(waits, "who makes way waits again", container.id, container.state)

    # ---- what hosts do ----

    def started(self, container: Container, order: AttemptOrder) -> None:
        """Look at a process that begins."""
        may_stay = order.resident == bool(container.pinned_to)
        expect(may_stay, "a start says who may be left behind", order.attempt_id, order.resident)
        if not container.pinned_to:
            return
        attempt = self._store.attempts[order.attempt_id]
        settled = self.is_settled(container.job_id, container.pinned_to, attempt.revision)
        what = f"{attempt.id} at revision {attempt.revision}"
        expect(not settled, "what ran to its end once does not run again", what)
        told = dict(order.env).get("LONGSHORE_INSTANCE_ID", "")
        right = told == container.pinned_to == attempt.instance_id
        expect(right, "a per-instance attempt runs where it belongs", what, told)

    # ---- at the end ----

    def expect_true(self, job: Job, *, failed: int, succeeded: int) -> None:
        """Expect that a job ended for a reason: it was asked to, has run everywhere, or cannot."""
        code = job.reason.code if job.reason is not None else ""
        given_up = code == "plan_rejected" or (code == START_REFUSED and not succeeded)
        terms = job.terms.per_instance
        assert terms is not None
        match job.state:
            case JobState.CANCELLED:
                right = job.cancel_requested
            case JobState.SUCCEEDED:
                right = job.type is JobType.SYSBATCH and not terms.late_joiners and not failed
            case _:
                once = job.type is JobType.SYSBATCH and not terms.late_joiners
                right = given_up or (once and failed > 0)
        expect(right, "a job ends as its containers do", job)
