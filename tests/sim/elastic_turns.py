"""The check that elastic jobs begin in the order of their policy; an account of its own.

It is careful: it looks at jobs that have had no attempt yet, and at policies by which the order of
these never changes.
"""

from __future__ import annotations

from math import inf

from longshore.dispatcher.domain.containers import Container, QueuePolicy
from longshore.dispatcher.domain.jobs import ElasticMode, Job, TaskRole
from tests.sim.process import DispatcherProcess
from tests.sim.truth import expect

MILLIS = 1000


class Turns:
    """Looks at one process: which jobs waited after the pass before."""

    def __init__(self, process: DispatcherProcess) -> None:
        self._engine = process.engine
        self._table = process.engine.table
        self._waited: set[str] = set()

    def look(self, jobs: list[Job], members: dict[str, list[Container]]) -> None:
        """Look at all jobs after a pass."""
        settings = self._engine.settings.elastic
        before = self._waited
        self._waited = {job.id for job in jobs if self._waits(job, members[job.id])}
        if settings.backfill or settings.policy in (QueuePolicy.DYNSIZE, QueuePolicy.HRRN):
            return
        begun = [
            job for job in jobs if job.id in before and any(map(self._has_place, members[job.id]))
        ]
        for job in jobs:
            if job.id in before & self._waited:
                early = [each.id for each in begun if self._rank(job) < self._rank(each)]
                expect(not early, "who comes first begins first", job.id, early)

    def _waits(self, job: Job, members: list[Container]) -> bool:
        """Return whether a job lacks nothing but room, and has had none yet."""
        over = job.held or self._is_too_many(job) or self._table.jobs.is_concluded(job.id)
        return not over and all(
            each.priority > 0
            and not each.attempts
            and not each.cancel_requested
            and self._table.gates.reason(each) is None
            and not self._has_place(each)
            and self._code(each) not in ("", "no_type")
            for each in members
        )

    def _is_too_many(self, job: Job) -> bool:
        """Return whether a job needs more places at once than there may ever be."""
        most, terms = self._engine.settings.max_containers, job.terms.elastic
        rigid = terms is not None and terms.mode is ElasticMode.RIGID
        needed = sum(task.size for task in job.tasks if rigid or task.role is TaskRole.ESSENTIAL)
        return most is not None and needed > most

    def _has_place(self, member: Container) -> bool:
        return member.has_open_attempt or self._code(member) == "has_place"

    def _code(self, member: Container) -> str:
        reason = self._engine.workloads.reason(member)
        return reason.code if reason is not None else ""

    def _rank(self, job: Job) -> tuple[float, int]:
        """Return what the policy goes by, the least first, and then when a job came."""
        terms = job.terms.elastic
        assert terms is not None
        rank = 0.0
        match self._engine.settings.elastic.policy:
            case QueuePolicy.SIZE:
                rank = _size(job) if terms.size is None else terms.size
            case QueuePolicy.SJF | QueuePolicy.SRPT:
                rank = inf if terms.runtime_s is None else terms.runtime_s
            case _:
                pass
        return rank, job.sequence


def _size(job: Job) -> float:
    """Return a job's cores times its bytes of memory, over all members."""
    asked = [(task.spec.resources, task.size) for task in job.tasks]
    cpu_millis = sum(each.cpu_millis * size for each, size in asked)
    memory_bytes = sum(each.memory_bytes * size for each, size in asked)
    return cpu_millis * memory_bytes / MILLIS
