"""In which order elastic jobs have their turn, and how fast they get on; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import assert_never

from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy
from longshore.dispatcher.scheduler.elastic.model import ElasticJob

# ---- whose turn it is where more elastic jobs want something in vain than one pass tries ---------
#
# The first half of the turns goes to the first jobs in each pass, the second half to the others in
# rotation. For that each pass tells the next which jobs were tried in vain since some had no turn.


class RotatingBudget:
    """Who may be tried in one pass, where more jobs want something in vain than a pass can try."""

    def __init__(self, most: int, tried_before: frozenset[str]) -> None:
        """Allow `most` turns that count; the second half is for jobs not in `tried_before`."""
        self._most = most
        self._tried_before = tried_before
        self._counted = 0
        self._failed: set[str] = set()
        #: The jobs for which this pass had no turn left.
        self.later: set[str] = set()

    def admits(self, job_id: str) -> bool:
        """Return whether a job has a turn now; whoever has none is noted as `later`."""
        most = self._most // 2 if job_id in self._tried_before else self._most
        if self._counted < most:
            return True
        self.later.add(job_id)
        return False

    def count(self) -> None:
        """Count a turn as one of the most that there are."""
        self._counted += 1

    def fail(self, job_id: str) -> None:
        """Note that a job had its turn in vain."""
        self._failed.add(job_id)

    @property
    def unserved(self) -> set[str]:
        """Return who had a turn in vain, or none; a copy."""
        return self._failed | self.later

    @property
    def tried_before(self) -> frozenset[str]:
        """Return the jobs that let others go first in the next pass; none once all had a turn."""
        has_new = bool(self.later - self._tried_before)
        return self._tried_before | self._failed if has_new else frozenset()


# ---- in which order elastic jobs have their turn, and how fast they get on -----------------------

_MILLIS = 1000


def in_order(jobs: Iterable[ElasticJob], settings: ElasticSettings, now: float) -> list[ElasticJob]:
    """Return the jobs by policy, those that are equal as they came."""
    return sorted(jobs, key=lambda job: (_rank(job, settings, now), job.sequence, job.id))


def _rank(job: ElasticJob, settings: ElasticSettings, now: float) -> float:
    """Return what a policy goes by, the least first; without an estimate a job comes last."""
    match settings.policy:
        case QueuePolicy.FIFO:
            return 0.0
        case QueuePolicy.SIZE:
            return size(job)
        case QueuePolicy.DYNSIZE:
            return max(0.0, size(job) - settings.dynsize_bytes_per_s * waited_s(job, now))
        case QueuePolicy.SJF:
            return inf if job.runtime_s is None else job.runtime_s
        case QueuePolicy.SRPT:
            return inf if job.runtime_s is None else job.runtime_s * (1.0 - job.progress)
        case QueuePolicy.HRRN:
            return inf if job.runtime_s is None else -_ratio(waited_s(job, now), job.runtime_s)
        case unknown:
            assert_never(unknown)


def size(job: ElasticJob) -> float:
    """Return a job's size: as given, else its cores x its bytes of memory, over all members."""
    if job.size is not None:
        return job.size
    cpu_millis = sum(each.resources.cpu_millis * each.count for each in job.components)
    memory_bytes = sum(each.resources.memory_bytes * each.count for each in job.components)
    return cpu_millis * memory_bytes / _MILLIS


def waited_s(job: ElasticJob, now: float) -> float:
    """Return how long a job waited until it began, or until now; never less than 0."""
    return max(0.0, (now if job.began_at is None else job.began_at) - job.submitted_at)


def _ratio(waited: float, runtime_s: float) -> float:
    """Return the response ratio; what takes no time at all has the highest there is."""
    return (waited + runtime_s) / runtime_s if runtime_s > 0 else inf


# ---- estimates -----------------------------------------------------------------------------------


def progress_per_s(job: ElasticJob) -> float:
    """Return which part of a job is done in a second: members that have a place / all / T.

    It is 0 while the job waits, and where nobody knows how long it takes; T of 0 is over at once.
    """
    if job.runtime_s is None or not job.is_running:
        return 0.0
    placed = sum(member.state.has_place for member in job.members)
    if not placed or job.runtime_s <= 0:
        return inf if placed else 0.0
    return placed / job.count / job.runtime_s


def progressed(job: ElasticJob, elapsed_s: float) -> ElasticJob:
    """Return a job as it is after some seconds in which nothing of it started or ended."""
    gained = progress_per_s(job) * elapsed_s if elapsed_s > 0 else 0.0
    return replace(job, progress=min(1.0, job.progress + gained)) if gained else job


def remaining_s(job: ElasticJob) -> float:
    """Return how long a job will still take with what has a place now, `inf` if nobody knows."""
    rate = progress_per_s(job)
    return (1.0 - job.progress) / rate if rate else inf
