"""Periodic jobs and all around them: a store that survives crashes, clocks, a fake service."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from longshore.dispatcher.domain.jobs import Job, JobState, JobTypeSpec, Overlap, Schedule
from longshore.dispatcher.domain.messages import PublishJob
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.service.launching import PeriodicJobs
from longshore.dispatcher.state.agenda import TIME_VARIABLE, LaunchResult
from longshore.dispatcher.state.job_registry import JobRegistry
from tests.job_samples import make_job, make_task


def at(text: str) -> float:
    """Return a time in UTC as seconds since the epoch."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def make_template(
    number: int,
    *cron: str,
    created: str,
    overlap: Overlap = Overlap.ALLOW,
    time_zone: str = "UTC",
    launched_for: str = "",
    held: bool = False,
) -> Job:
    """Return the periodic job "j-N"."""
    job, _ = make_job(number, make_task(), held=held)
    schedule = Schedule(cron=cron, time_zone=time_zone, overlap=overlap)
    return replace(
        job,
        created_at=at(created),
        terms=JobTypeSpec(schedule=schedule),
        launched_for=at(launched_for) if launched_for else None,
        tallies=tuple(replace(each, queued=0) for each in job.tallies),
    )


HOURLY = "0 * * * *"
DAY = "2026-01-01"


def hourly(*, overlap: Overlap = Overlap.ALLOW, held: bool = False) -> PeriodicWorld:
    """Return a world at 9:30 with the job "j-1", which is due on the hour."""
    template = make_template(1, HOURLY, created=f"{DAY} 09:30", overlap=overlap, held=held)
    return PeriodicWorld(template, time=f"{DAY} 09:30")


class PeriodicWorld:
    """One dispatcher's periodic jobs: `store` holds what is committed, by id.

    `refuse` is raised by the next calls that make or note a run, in this order; None lets one pass.
    `calls` tells what was asked of the service; `gate` keeps those that make a run
    waiting, `noted` is set once one was noted.
    """

    def __init__(self, *templates: Job, time: str) -> None:
        self.wall = at(time)
        self.ahead_s = 0.0
        self.store = {job.id: job for job in templates}
        self.keys: dict[tuple[str, float], str] = {}
        self.calls: list[str] = []
        self.refuse: list[Exception | None] = []
        self.gate: asyncio.Event | None = None
        self.noted = asyncio.Event()
        self.counted: Counter[LaunchResult] = Counter()
        self.registry, self.service = self._process()

    def _process(self) -> tuple[JobRegistry, PeriodicJobs]:
        registry = JobRegistry()
        for _, job in sorted(self.store.items()):
            if not job.state.final:
                registry.admit(job)
        registry.drain_changes(self.wall)
        service = PeriodicJobs(
            jobs=registry,
            runs=self,
            wall=lambda: self.wall,
            now=lambda: self.wall - self.ahead_s,
            results=self.counted,
        )
        self._begun = False
        return registry, service

    def crash(self, *, until: str = "") -> None:
        """Let a new process find what is committed, at another time perhaps."""
        self.wall = at(until) if until else self.wall
        self.registry, self.service = self._process()

    # ---- the service ---------------------------------------------------------------------------

    async def make(self, template: Job, time: float) -> None:
        """Commit a run, the same one for the same time, and let the engine hear of it."""
        self.calls.append(f"make {template.id} {moment(time)}")
        if self.gate is not None:
            await self.gate.wait()
        self._refuse()
        if (template.id, time) in self.keys:
            return
        number = 1000 + len(self.keys)
        task = make_task()
        spec = replace(task.spec, env=((TIME_VARIABLE, moment(time)),))
        run, _ = make_job(number, replace(task, spec=spec))
        run = replace(run, parent=template.id, created_at=self.wall)
        self.keys[template.id, time] = run.id
        self.store[run.id] = run
        self.registry.admit(run)

    async def note(self, template: Job, time: float) -> None:
        """Commit for which time the last run was."""
        self.calls.append(f"note {template.id} {moment(time)}")
        self._refuse()
        self.store[template.id] = replace(self.store[template.id], launched_for=time)
        self.registry.set_launched_for(template.id, time)
        self.noted.set()

    def _refuse(self) -> None:
        error = self.refuse.pop(0) if self.refuse else None
        if error is not None:
            raise error

    # ---- what happens --------------------------------------------------------------------------

    async def look(self, time: str = "") -> float:
        """Let the service look at a time, and all that it begins end; return when it looks again.

        That is in seconds from then on.
        """
        if not self._begun:
            self._begun = True
            await self.service.begin()
        self.wall = at(time) if time else self.wall
        await self.service.look()
        await turns()
        return await self.service.look()

    def change(self, job_id: str, change: Callable[[JobRegistry], None]) -> None:
        """Commit a change of a job, in its book too, and tell the service."""
        change(self.registry)
        for job in self.registry.drain_changes(self.wall):
            self.store[job.id] = job
        self.service.hear(PublishJob(job=self.store[job_id]))

    def submit(self, job: Job) -> None:
        """Commit a new job and tell the service."""
        self.store[job.id] = job
        self.registry.admit(job)
        self.service.hear(PublishJob(job=job))

    def end_runs(self) -> None:
        """Let all runs end."""
        for job_id, job in self.store.items():
            if job.parent and not job.state.final:
                self.store[job_id] = replace(job, state=JobState.SUCCEEDED)
                self.registry.admit(
                    replace(job, tallies=(replace(job.tally, queued=0, succeeded=1),))
                )
        self.registry.drain_changes(self.wall)

    def results(self) -> dict[str, int]:
        """Return what came of the times of schedules, and how often."""
        return {result.value: number for result, number in self.counted.items()}

    def launched(self) -> list[str]:
        """Return the times for which there are runs, in the order in which they were made."""
        return [moment(time) for _, time in self.keys]


async def turns(count: int = 30) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)
