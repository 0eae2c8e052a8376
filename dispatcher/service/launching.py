"""Launches the runs of periodic jobs when they are due, by the wall clock."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from typing import Protocol, assert_never

import structlog

from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.messages import Publication, PublishJob
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.service.admission import IdempotencyKey
from longshore.dispatcher.service.contracts import Conflict, KeyReused, NotFound, Unavailable
from longshore.dispatcher.service.jobs import JobService
from longshore.dispatcher.state.agenda import (
    TIME_VARIABLE,
    Agenda,
    DueLaunch,
    LaunchDecision,
    LaunchResult,
    LiveJobs,
)
from longshore.drivers.errors import InvalidRequest

log = structlog.get_logger(__name__)

# A step of the wall clock, which nobody tells of, is noticed within this.
_LOOKED_AT_EACH_S = 30.0
_AT_ONCE = 16
_GRACE_S = 2.0
_NUMBER = re.compile(r"\d+")


class RunMaker(Protocol):
    """What commits a run for a time of a schedule, and that there is one."""

    async def make(self, template: Job, at: float) -> None:
        """Commit a run, once however often it is called; raises as a submission does."""

    async def note(self, template: Job, at: float) -> None:
        """Commit that a run was made; raises `NotFound`, `Conflict`, `Unavailable`."""


class ServiceRuns:
    """Makes runs as users submit jobs: within the same limits, and told to the engine."""

    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs

    async def make(self, template: Job, at: float) -> None:
        """Commit a run; a second one for the same time is none, for a day at least."""
        key = f"periodic {template.id} {moment(at)}"
        await self._jobs.run_of(
            template,
            env={TIME_VARIABLE: moment(at)},
            idempotency_key=IdempotencyKey(user=template.user, key=key),
        )

    async def note(self, template: Job, at: float) -> None:
        """Commit that a run was made, then tell the engine."""
        await self._jobs.note_launch(template, at)


class PeriodicJobs:
    """Launches what is due; used on the loop's thread."""

    def __init__(
        self,
        *,
        jobs: LiveJobs,
        runs: RunMaker,
        wall: Callable[[], float],
        now: Callable[[], float],
        results: Counter[LaunchResult],
    ) -> None:
        self._jobs = jobs
        self._runs = runs
        #: The wall clock, which schedules follow.
        self._wall = wall
        #: The steady clock, which gives jobs their `created_at`.
        self._now = now
        #: Counts what came of the times of schedules.
        self._results = results
        self._agenda = Agenda(jobs)
        self._wake = asyncio.Event()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._launches: set[asyncio.Task[None]] = set()
        self._stopping = False

    def hear(self, what: Publication) -> None:
        """Take in that a periodic job is new, or another than it was."""
        if isinstance(what, PublishJob) and what.job.terms.schedule is not None:
            self._see(what.job.id, ahead_s=self._wall() - self._now())
            self._wake.set()

    async def begin(self) -> None:
        """Take in the periodic jobs that the store had at the start."""
        for job_id in self._jobs.job_ids():
            self._see(job_id)
            # There may be thousands: the engine has its turn in between.
            await asyncio.sleep(0)

    async def run(self) -> None:
        """Launch what is due until cancelled; what was begun is finished then, if it can be soon.

        What is not is found at the next start, as after a crash.
        """
        await self.begin()
        try:
            while True:
                self._wake.clear()
                await self._sleep(await self.look())
        finally:
            self._stopping = True
            await self._finish()

    async def look(self) -> float:
        """Begin to launch what is due now; return after how many seconds to look again."""
        now = self._wall()
        for job_id in self._agenda.pop_due(now):
            for decision in self._decided(job_id, now):
                self._carry_out(decision)
            # Thousands may be due on the hour: others have their turn in between.
            await asyncio.sleep(0)
        due = self._agenda.next_look()
        return _LOOKED_AT_EACH_S if due is None else min(max(due - now, 0.0), _LOOKED_AT_EACH_S)

    async def _sleep(self, delay_s: float) -> None:
        timer = asyncio.get_running_loop().call_later(delay_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _finish(self) -> None:
        if self._launches:
            _, late = await asyncio.wait(self._launches, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _see(self, job_id: str, *, ahead_s: float = 0.0) -> None:
        try:
            self._agenda.see(job_id, ahead_s=ahead_s)
        except Exception as error:  # noqa: BLE001 - one schedule must not keep all others waiting
            self._never(job_id, error)

    def _decided(self, job_id: str, now: float) -> list[DueLaunch]:
        try:
            return self._agenda.decide(job_id, now)
        except Exception as error:  # noqa: BLE001 - one schedule must not keep all others waiting
            self._never(job_id, error)
            return []

    def _never(self, job_id: str, error: Exception) -> None:
        log.error(
            "a periodic job is not launched any more until the next start; cancel it and submit "
            "another",
            job=job_id,
            exc_info=error,
        )

    # ---- what comes of a time ------------------------------------------------------------------

    def _carry_out(self, decision: DueLaunch) -> None:
        job, at = decision.job, decision.at
        match decision.verdict:
            case LaunchDecision.LAUNCH | LaunchDecision.NOTE:
                task = asyncio.create_task(self._launch(decision), name=f"launch of {job.id}")
                self._launches.add(task)
                task.add_done_callback(self._launches.discard)
                return
            case LaunchDecision.OVERLAP:
                log.info("periodic job skipped: a run has not ended", job=job.id, at=moment(at))
            case LaunchDecision.MISSED:
                log.warning("periodic job missed: the next time came", job=job.id, at=moment(at))
            case LaunchDecision.HELD:
                log.debug("periodic job held", job=job.id, at=moment(at))
            case _:
                assert_never(decision.verdict)
        self._results[LaunchResult(decision.verdict.value)] += 1

    async def _launch(self, decision: DueLaunch) -> None:
        at = decision.at
        async with self._turns:
            job = self._agenda.alive(decision.job.id)
            if self._stopping or job is None:
                return
            try:
                if decision.verdict is LaunchDecision.LAUNCH:
                    await self._runs.make(job, at)
                await self._runs.note(job, at)
            except Unavailable as error:
                self._tell_once(job, "a periodic job cannot be launched yet", error)
                self._agenda.put_off(job.id, at, self._wall())
            except (Conflict, InvalidRequest, KeyReused, NotFound) as error:
                self._tell_once(job, "a periodic job was not launched", error)
                self._refused(job, at)
            except Exception:
                # A defect that one brings out must not keep the others from being launched.
                log.exception("a periodic job was not launched", job=job.id)
                self._refused(job, at)
            else:
                log.info("periodic job launched", job=job.id, at=moment(at))
                self._results[LaunchResult.LAUNCHED] += 1
                self._agenda.made(job.id, at)
        self._wake.set()

    def _refused(self, job: Job, at: float) -> None:
        self._results[LaunchResult.REFUSED] += 1
        self._agenda.settle(job.id, at)

    def _tell_once(self, job: Job, what: str, error: Exception) -> None:
        """Log what kept a job from being launched, each cause once until it is launched again."""
        # Sentences that differ by numbers only have one cause.
        if self._agenda.is_news(job.id, _NUMBER.sub("#", f"{type(error).__name__}: {error}")):
            log.warning(what, job=job.id, why=str(error))
