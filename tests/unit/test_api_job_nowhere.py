"""Why a job for each instance is on none, as the API tells it."""

from __future__ import annotations

from pathlib import Path

from longshore.dispatcher.api.render.jobs import job_answer
from longshore.dispatcher.domain.jobs import (
    JobType,
    JobTypeSpec,
    Overlap,
    PerInstanceTerms,
    Schedule,
)
from longshore.dispatcher.service.admission import IdempotencyKey
from longshore.dispatcher.service.contracts import NewJob
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.store import Store
from tests.api_server import connected
from tests.job_samples import make_task
from tests.rigs.engine import Rig
from tests.rigs.services import handled, services_over, store_in
from tests.samples import ME
from tests.store_values import url_in

RESTLESS = 5
"""So many ends in a row are trouble."""
SYSTEM = {"type": "system", "tasks": [{"command": ["true"]}]}


async def test_a_job_for_each_instance_says_why_it_is_on_none_where_it_is_looked_at() -> None:
    async with connected() as client:
        large = {"command": ["true"], "constraints": {"instance_types": ["large"]}}
        _, made = await client.post("/v1/jobs", {**SYSTEM, "tasks": [large]})
        path = f"/v1/jobs/{made['id']}"
        assert (await client.call("GET", path))[1]["waiting_for"]["code"] == "no_instances"
        await client.rig.add_instance("i-1")
        told = (await client.call("GET", path))[1]["waiting_for"]
        assert told["code"] == "all_filtered"
        assert "instance" in told["message"]
        _, listed = await client.call("GET", "/v1/jobs")
        assert not any("waiting_for" in each for each in [made, *listed["items"]])


async def test_a_job_for_each_instance_says_what_is_wrong_with_it_in_lists_too() -> None:
    async with connected() as client:
        _, made = await client.post("/v1/jobs", SYSTEM)
        _, listed = await client.call("GET", "/v1/jobs")
        assert [each["trouble"] for each in listed["items"]] == [None]
        await client.rig.add_instance("i-1")
        for _ in range(RESTLESS):
            container_id = client.rig.containers()[-1].id
            await client.rig.start(container_id, "i-1")
            await client.rig.finish(container_id, 1)
        _, listed = await client.call("GET", "/v1/jobs")
        _, shown = await client.call("GET", f"/v1/jobs/{made['id']}")
        for told in (listed["items"][0], shown):
            assert told["trouble"]["code"] == "started_again"
            assert "i-1" in told["trouble"]["message"]


async def test_other_jobs_say_nothing_of_instances() -> None:
    async with connected() as client:
        _, made = await client.post("/v1/jobs", {"tasks": [{"command": ["true"]}]})
        _, shown = await client.call("GET", f"/v1/jobs/{made['id']}")
        _, listed = await client.call("GET", "/v1/jobs")
        assert not any("waiting_for" in each for each in [shown, *listed["items"]])
        assert not any("trouble" in each for each in [shown, *listed["items"]])


async def test_the_engine_tells_it_of_jobs_that_are_to_be_somewhere(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    codes = []
    async with services_over(Rig(), store, tmp_path) as services:
        nightly = Schedule(cron=("0 0 * * *",))
        for terms in (
            JobTypeSpec(per_instance=PerInstanceTerms()),
            JobTypeSpec(per_instance=PerInstanceTerms(), schedule=nightly),
        ):
            new = NewJob(
                name="n",
                priority=500,
                project="p",
                labels=(),
                tasks=(make_task("", size=0),),
                type=JobType.SYSBATCH,
                terms=terms,
            )
            job = await services.jobs.submit(new, caller=ME, idempotency_key="", fingerprint="f")
            reason = services.jobs.why_waiting(await services.jobs.job(job.id, caller=ME))
            codes.append(reason.code if reason is not None else None)
    store.close()
    assert codes == ["no_instances", None], "runs of the second are jobs of their own"


async def test_a_periodic_job_says_which_run_keeps_the_next_from_being_launched(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path) as store:
        async with services_over(Rig(), store, tmp_path) as services:
            await _expect_overlaps_told(services)


async def _expect_overlaps_told(services: Services) -> None:
    for overlap, told in ((Overlap.FORBID, True), (Overlap.ALLOW, False)):
        schedule = Schedule(cron=("* * * * *",), overlap=overlap)
        new = NewJob(
            name="n",
            priority=500,
            project="p",
            labels=(),
            tasks=(make_task(""),),
            terms=JobTypeSpec(schedule=schedule),
        )
        job = await services.jobs.submit(new, caller=ME, idempotency_key="", fingerprint="f")
        assert services.jobs.why_waiting(job) is None
        key = IdempotencyKey(user="u")
        run = await services.jobs.run_of(job, env={}, idempotency_key=key)
        await handled()
        reason = services.jobs.why_waiting(job)
        assert (reason is not None) is told
        if reason is not None:
            assert (reason.code, reason.behind) == ("overlap", run.id)
            assert reason.message.startswith(f"its run {run.id} has not ended")
            answer = job_answer(job, with_tasks=False, now=0.0, waits=reason)
            assert answer.waiting_for is not None
