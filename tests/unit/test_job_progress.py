"""A job's counts never run backwards, not even in the moment between its end and its commit."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from longshore.dispatcher.domain.jobs import Job, JobState
from longshore.dispatcher.domain.messages import Change
from longshore.dispatcher.domain.queries import JobFilter
from longshore.dispatcher.service.contracts import NewJob
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.store import Store
from tests.job_samples import make_task
from tests.rigs.services import runtime_over, services_with, store_in, waiting_rig
from tests.samples import ME

SIZE = 20
JOB = NewJob(name="n", priority=500, project="p", labels=(), tasks=(make_task(size=SIZE),))


class SlowStore:
    """A store whose commits of what the engine decides wait for `release`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.held: list[tuple[Sequence[Change], Future[None]]] = []
        self.holds = False

    def write(self, changes: Sequence[Change]) -> Future[None]:
        if not self.holds:
            return self._store.write(changes, wait=True)
        waits: Future[None] = Future()
        self.held.append((changes, waits))
        return waits

    async def release(self) -> None:
        self.holds = False
        for changes, waits in self.held:
            await asyncio.wrap_future(self._store.write(changes, wait=True))
            waits.set_result(None)
        self.held.clear()


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Return once `condition` holds, which threads may bring about."""
    async with asyncio.timeout(60):
        for _ in itertools.count():
            if condition():
                return
            await asyncio.sleep(0)


async def looked_at(services: Services, job_id: str) -> list[tuple[JobState, int, int]]:
    """Return what a look at the job, and at the listing, tells: its state, ended, and all."""
    page = await services.jobs.jobs(JobFilter(), cursor="", limit=10, caller=ME)
    seen: list[Job] = [await services.jobs.job(job_id, caller=ME), *page.items]
    return [(each.state, each.tally.ended, each.tally.total) for each in seen]


async def test_counts_stand_while_the_end_is_not_committed(tmp_path: Path) -> None:
    rig = waiting_rig()
    with store_in(tmp_path) as store:
        slow = SlowStore(store)
        runtime = runtime_over(rig, store, write=slow.write)
        running = asyncio.create_task(runtime.run())
        services = services_with(runtime, rig, store, tmp_path)
        job = await services.jobs.submit(JOB, caller=ME, idempotency_key="", fingerprint="")
        await settled()
        assert await looked_at(services, job.id) == [(JobState.PENDING, 0, SIZE)] * 2
        slow.holds = True
        await services.jobs.cancel(job.id, caller=ME)
        await settled()
        await until(lambda: runtime.ending(job.id) is not None)
        assert await looked_at(services, job.id) == [(JobState.PENDING, SIZE, SIZE)] * 2
        await slow.release()
        await settled()
        assert await looked_at(services, job.id) == [(JobState.CANCELLED, SIZE, SIZE)] * 2
        assert runtime.ending(job.id) is None
        runtime.stop()
        await running


async def test_who_read_just_before_the_end_was_committed_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = waiting_rig()
    with store_in(tmp_path) as store:
        runtime = runtime_over(rig, store)
        running = asyncio.create_task(runtime.run())
        services = services_with(runtime, rig, store, tmp_path)
        job = await services.jobs.submit(JOB, caller=ME, idempotency_key="", fingerprint="")
        await settled()
        before = store.job(job.id)
        await services.jobs.cancel(job.id, caller=ME)
        jobs = runtime.view
        await until(lambda: not jobs.job(job.id) and not runtime.ending(job.id))
        read = store.job
        answers = iter([before])
        monkeypatch.setattr(store, "job", lambda job_id: next(answers, None) or read(job_id))
        seen = await services.jobs.job(job.id, caller=ME)
        assert (seen.state, seen.tally.ended) == (JobState.CANCELLED, SIZE)
        runtime.stop()
        await running
