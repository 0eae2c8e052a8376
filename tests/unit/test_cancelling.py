"""That a cancellation is under way is told wherever somebody looks."""

from __future__ import annotations

from longshore.dispatcher.api.render.containers import container_answer
from longshore.dispatcher.api.render.values import rfc3339
from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import CountsAnswer, JobAnswer
from longshore.dispatcher.cli.commands.containers import ps_row, show_fields
from longshore.dispatcher.cli.job_words import note
from longshore.dispatcher.cli.render.explain_job import explanation
from longshore.dispatcher.cli.render.job_render import job_fields, job_row
from longshore.dispatcher.explain.explanation import explain, wait_status
from tests.answers import told
from tests.api_server import connected
from tests.rigs.api import POOL
from tests.rigs.engine import Rig
from tests.samples import make_container


def test_what_runs_and_is_to_be_cancelled_says_so_and_when_kill_comes() -> None:
    rig = Rig()
    rig.submit(make_container(1))
    rig.advance(60)
    runs = rig.containers["c-1"]
    answer = container_answer(runs, wait_status(rig.view, runs))
    assert (answer.state, answer.cancel_requested, answer.kill_at) == ("running", False, None)
    told_at = rig.now
    rig.cancel("c-1")
    ending = rig.containers["c-1"]
    answer = container_answer(ending, wait_status(rig.view, ending))
    assert (answer.state, answer.cancel_requested) == ("running", True)
    kill_at = told_at + rig.engine.pool.settings.term_timeout_s
    assert answer.kill_at == rfc3339(kill_at)
    said = explain(rig.view, ending, rig.now).sentence
    assert said.startswith("c-1 is being cancelled on i-001 (")
    assert said.endswith("; KILL at 1970-01-01T00:19:40Z")


async def test_the_json_of_a_job_and_of_a_container_has_it_from_the_first_answer_on() -> None:
    async with connected() as client:
        _, made = await client.post("/v1/jobs", {"tasks": [{"command": ["true"], "array": 2}]})
        assert made["cancel_requested"] is False
        await client.rig.add_instance("i-1")
        await client.rig.start("c-00000002", "i-1")
        status, asked = await client.post(f"/v1/jobs/{made['id']}/cancel", {})
        assert (status, asked["state"], asked["cancel_requested"]) == (202, "running", True)
        await client.rig.settled()
        _, listed = await client.call("GET", "/v1/jobs")
        assert [each["cancel_requested"] for each in listed["items"]] == [True]
        _, listed = await client.call("GET", "/v1/containers?state=running")
        kill_at = rfc3339(client.rig.now + POOL.term_timeout_s)
        assert [(e["cancel_requested"], e["kill_at"]) for e in listed["items"]] == [(True, kill_at)]


def test_rows_and_pages_of_a_container_say_it_until_it_has_ended() -> None:
    kill_at = "2026-01-31T12:00:00Z"
    seen = told(
        ContainerAnswer,
        id="c-1",
        state="running",
        instance="i-1",
        cancel_requested=True,
        kill_at=kill_at,
    )
    said = "being cancelled, KILL at 2026-01-31T12:00:00Z"
    assert ps_row(seen)[-1] == f"i-1: {said}"
    assert dict(show_fields(seen))["state"] == f"running ({said})"
    waits = told(
        ContainerAnswer, id="c-1", state="queued", waiting="no room", cancel_requested=True
    )
    assert ps_row(waits)[-1] == "being cancelled"
    ended = told(ContainerAnswer, id="c-1", state="cancelled", cancel_requested=True)
    assert (ps_row(ended)[-1], dict(show_fields(ended))["state"]) == ("", "cancelled")


def test_rows_and_pages_of_a_job_say_it_until_it_has_ended() -> None:
    seen = told(
        JobAnswer,
        id="j-1",
        state="running",
        cancel_requested=True,
        counts=told(CountsAnswer, running=1, total=1),
    )
    assert job_row(seen)[-1] == "being cancelled"
    assert dict(job_fields(seen))["state"] == "running (being cancelled)"
    assert explanation(seen, [], 0)[0].endswith("it is running and being cancelled")
    assert note(seen) == "0/1 done, 1 running (being cancelled)"
    ended = told(JobAnswer, id="j-1", state="cancelled", cancel_requested=True)
    assert (job_row(ended)[-1], dict(job_fields(ended))["state"]) == ("", "cancelled")
