"""Which periodic jobs are to begin now, and when to look again: decides, and does nothing.

Like `schedules` it is no part of the pure core, and reads no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Protocol

from longshore.dispatcher.domain.jobs import Job, Overlap, Schedule
from longshore.dispatcher.domain.schedules import latest_missed, next_after
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.state.scheduling_gates import Deadlines
from longshore.pool.backoff import doubled_s

TIME_VARIABLE = "LONGSHORE_PERIODIC_TIME"
"""Where a run finds for which time of its schedule it was made."""

RUNS_MOST = 1000
"""How many runs of one job there may be that have not ended, where they may overlap."""

_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 60.0


class LiveJobs(Protocol):
    """The jobs that have not ended, to be read."""

    def job(self, job_id: str) -> Job | None:
        """Return a job as it is now, None for one that has ended or never was."""
        ...

    def job_ids(self) -> Sequence[str]:
        """Return the ids of all."""
        ...

    def runs_of(self, parent: str) -> Sequence[str]:
        """Return the ids of the runs of a periodic job that have not ended."""
        ...


class LaunchDecision(Enum):
    """What comes of a time of a schedule.

    A run is made of it, or only noted as an earlier process had made it; or none is: the job is
    held, an earlier run of it has not ended, or the next time came before the run could be made.
    """

    LAUNCH = "launch"
    NOTE = "note"
    HELD = "held"
    OVERLAP = "overlap"
    MISSED = "missed"


class LaunchResult(Enum):
    """What came of a time of a schedule: a run, or why there is none.

    `REFUSED` are those that could never have been taken, the others are as in `LaunchDecision`.
    """

    LAUNCHED = "launched"
    HELD = "held"
    OVERLAP = "overlap"
    MISSED = "missed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueLaunch:
    """What comes of the time `at` of a job's schedule, in seconds since the epoch."""

    job: Job
    at: float
    verdict: LaunchDecision


@dataclass(slots=True, kw_only=True)
class _Entry:
    """A periodic job."""

    schedule: Schedule
    #: Nothing is to be done any more for times up to this.
    settled: float
    #: The time of the last run that was made here.
    made_for: float | None = None
    #: The time for which no run could be made yet, in `tries`.
    failed_for: float | None = None
    tries: int = 0
    #: The causes of that which were told since.
    told: set[str] = field(default_factory=set)


class Agenda:
    """The periodic jobs of one dispatcher, with the time at which each is looked at again."""

    def __init__(self, jobs: LiveJobs) -> None:
        self._jobs = jobs
        self._entries: dict[str, _Entry] = {}
        self._looks = Deadlines()
        self._looked_at = -inf

    def see(self, job_id: str, *, ahead_s: float = 0.0) -> None:
        """Take in a job if it is periodic and new, forget it if it ends; raises `ScheduleError`.

        `ahead_s` is how much later the wall clock is than the one that gave its `created_at`.
        """
        job = self.alive(job_id)
        if job is None or job.terms.schedule is None:
            self.forget(job_id)
        elif job_id not in self._entries:
            since = job.created_at + ahead_s if job.launched_for is None else job.launched_for
            self._entries[job_id] = _Entry(schedule=job.terms.schedule, settled=since)
            self._arm(job_id)

    def forget(self, job_id: str) -> None:
        """Forget a job; unknown is no error."""
        self._entries.pop(job_id, None)
        self._looks.discard(job_id)

    def alive(self, job_id: str) -> Job | None:
        """Return a job as it is now, None when it has ended or is to."""
        job = self._jobs.job(job_id)
        return None if job is None or job.cancel_requested else job

    def next_look(self) -> float | None:
        """Return when the next one is to be looked at, None when none is."""
        return self._looks.next_due()

    def pop_due(self, now: float) -> list[str]:
        """Return whom to decide about now."""
        if now < self._looked_at:
            # The clock was set back: who tries again does not wait until it has caught up.
            for job_id, entry in self._entries.items():
                if entry.failed_for is not None:
                    self._looks.hasten(job_id, now)
        self._looked_at = now
        return [job_id for job_id, _ in self._looks.pop_due(now)]

    def decide(self, job_id: str, now: float) -> list[DueLaunch]:
        """Decide about one that was due: what comes of the latest time, and of one put off before.

        After `LAUNCH` and `NOTE` comes `made`, `settle` or `put_off`; until then it is not due.
        """
        entry, job = self._entries.get(job_id), self.alive(job_id)
        if entry is None or job is None:
            self.forget(job_id)
            return []
        at = latest_missed(entry.schedule, entry.settled, now)
        if at is None:
            self._arm(job_id)
            return []
        decisions = []
        if entry.failed_for is not None and entry.failed_for < at:
            decisions.append(DueLaunch(job=job, at=entry.failed_for, verdict=LaunchDecision.MISSED))
            entry.failed_for, entry.tries = None, 0
        verdict = self._verdict(entry, job, at)
        if verdict not in (LaunchDecision.LAUNCH, LaunchDecision.NOTE):
            self.settle(job_id, at)
        return [*decisions, DueLaunch(job=job, at=at, verdict=verdict)]

    def _verdict(self, entry: _Entry, job: Job, at: float) -> LaunchDecision:
        runs = self._jobs.runs_of(job.id)
        # What was made here was not for a later time; of what failed, or was before, who knows.
        if entry.made_for is None or entry.failed_for is not None:
            known = (self._jobs.job(run_id) for run_id in runs)
            if any(run is not None and _is_made_for(run, at) for run in known):
                return LaunchDecision.NOTE
        if job.held:
            return LaunchDecision.HELD
        # What was made a moment ago may not have reached the book yet.
        unheard = entry.made_for is not None and entry.made_for != job.launched_for
        if entry.schedule.overlap is Overlap.FORBID and (runs or unheard):
            return LaunchDecision.OVERLAP
        if len(runs) >= RUNS_MOST:
            return LaunchDecision.OVERLAP
        return LaunchDecision.LAUNCH

    def made(self, job_id: str, at: float) -> None:
        """Note that there is a run for a time."""
        if job_id in self._entries:
            self._entries[job_id].made_for = at
            self._entries[job_id].told.clear()
            self.settle(job_id, at)

    def settle(self, job_id: str, at: float) -> None:
        """Note that nothing is to be done any more for times up to `at`."""
        entry = self._entries.get(job_id)
        if entry is not None:
            entry.settled, entry.failed_for, entry.tries = at, None, 0
            self._arm(job_id)

    def put_off(self, job_id: str, at: float, now: float) -> None:
        """Note that no run could be made for a time: it is tried again, until the next comes."""
        entry = self._entries.get(job_id)
        if entry is None:
            return
        delay_s = doubled_s(_RETRY_FIRST_S, entry.tries, _RETRY_MOST_S)
        entry.failed_for = at
        entry.tries += 1
        self._looks.set(job_id, now + delay_s)
        following = next_after(entry.schedule, at)
        if following is not None:
            self._looks.hasten(job_id, following)

    def is_news(self, job_id: str, cause: str) -> bool:
        """Return whether this is the first time since its last run that a job failed so."""
        entry = self._entries.get(job_id)
        if entry is None or cause in entry.told:
            return False
        entry.told.add(cause)
        return True

    def _arm(self, job_id: str) -> None:
        entry = self._entries[job_id]
        due = next_after(entry.schedule, entry.settled)
        if due is not None:
            self._looks.set(job_id, due)


def _is_made_for(run: Job, at: float) -> bool:
    return any((TIME_VARIABLE, moment(at)) in task.spec.env for task in run.tasks)
