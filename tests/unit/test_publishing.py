"""What the engine publishes of jobs and containers becomes events, lines of the log, and wakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
import structlog

from longshore.dispatcher.api.render.events import RENDERING
from longshore.dispatcher.domain.containers import ContainerState, Dependency, Reason
from longshore.dispatcher.domain.jobs import Job, JobState, Tally
from longshore.dispatcher.domain.messages import (
    JobPriorityRequested,
    Publication,
    PublishContainer,
    PublishJob,
)
from longshore.dispatcher.domain.queries import LISTED_ATTEMPTS
from longshore.dispatcher.service.events import Broker, ContainerNotifier, publish_event
from longshore.pool.model import ExitKind
from tests.job_samples import make_job, make_task
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type
from tests.unit.test_history_attempts import failing


def publish(what: Publication, broker: Broker, watchers: ContainerNotifier | None = None) -> None:
    publish_event(
        what,
        view=Rig().view,
        broker=broker,
        watchers=watchers or ContainerNotifier(),
        heard_at=lambda _worker_id: 0.0,
        rendering=RENDERING,
    )


async def first_event(broker: Broker) -> tuple[str, str, dict[str, object]]:
    async for event in broker.follow(0):
        return event.kind, event.id, event.data
    raise AssertionError("the broker is closed")


@pytest.fixture
def job() -> Job:
    made, _ = make_job(3, make_task("a", size=3), make_task("b", after=("j-3/a",)))
    return replace(
        made,
        labels=(("team", "x"),),
        state=JobState.FAILED,
        created_at=1_700_000_000.0,
        finished_at=1_700_000_001.5,
        exit_code=7,
        reason=Reason(code="failed", message="1 of its 4 containers failed"),
        tallies=(Tally(succeeded=2, failed=1), Tally(cancelled=1)),
    )


async def test_a_job_becomes_an_event_without_its_tasks(job: Job) -> None:
    broker = Broker()
    publish(PublishJob(job=job), broker)
    kind, identifier, data = await first_event(broker)
    assert (kind, identifier) == ("job", "j-3")
    assert data == {
        "id": "j-3",
        "name": job.name,
        "type": "batch",
        "user": job.user,
        "project": job.project,
        "priority": 500,
        "labels": {"team": "x"},
        "state": "failed",
        "held": False,
        "cancel_requested": False,
        "exit_code": 7,
        "reason": {"code": "failed", "message": "1 of its 4 containers failed"},
        "created_at": "2023-11-14T22:13:20.000Z",
        "started_at": None,
        "finished_at": "2023-11-14T22:13:21.500Z",
        "counts": {
            "queued": 0,
            "locked": 0,
            "running": 0,
            "succeeded": 2,
            "failed": 1,
            "cancelled": 1,
            "total": 4,
        },
        "revision": None,
        "periodic": None,
        "parameterized": None,
        "parent": "",
        "launched_for": None,
    }


def test_a_job_is_one_line_in_the_log(job: Job) -> None:
    with structlog.testing.capture_logs() as lines:
        publish(PublishJob(job=job), Broker())
    assert lines == [
        {
            "event": "job failed",
            "log_level": "info",
            "job": "j-3",
            "name": job.name,
            "containers": 4,
            "ended": 4,
            "held": False,
            "exit_code": 7,
            "why": "1 of its 4 containers failed",
        }
    ]


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda made: made.hold_job("j-1", held=True), "job held"),
        (lambda made: made.hold_job("j-2", held=False), "job released"),
        (
            lambda made: made.send(JobPriorityRequested(job_id="j-1", priority=7)),
            "job given the priority 7",
        ),
        (lambda made: made.cancel_job("j-1"), "job to be cancelled"),
        (lambda made: made.cancel_job("j-2"), "job cancelled"),
    ],
    ids=["hold", "release", "priority", "cancel", "cancel what waits"],
)
def test_what_was_asked_of_a_job_is_told_as_what_it_is(
    ask: Callable[[Rig], None], line: str
) -> None:
    made = Rig(make_type(8))
    made.submit_job(*make_job(1, make_task()))
    made.submit_job(*make_job(2, make_task(), held=True))
    made.published.clear()
    ask(made)
    with structlog.testing.capture_logs() as lines:
        for each in made.published:
            if isinstance(each, PublishJob):
                publish(each, Broker())
    assert [each["event"] for each in lines if each["job"] in ("j-1", "j-2")][:1] == [line]


def test_the_line_of_an_attempt_that_is_over_says_why_and_the_next_ones_do_not() -> None:
    tried = failing(1)
    placed = replace(tried.attempts[0], number=2, outcome=None, reason=None)
    again = replace(tried, state=ContainerState.LOCKED, attempts=(*tried.attempts, placed))
    coming = replace(tried, state=ContainerState.LOCKED)
    ended = replace(
        tried, state=ContainerState.FAILED, reason=Reason(code="lost", message="too often")
    )
    with structlog.testing.capture_logs() as lines:
        for each in (make_container(1), tried, again, coming, ended):
            publish(PublishContainer(container=each), Broker())
    assert [(each["event"], each["last_outcome"], each["why"]) for each in lines] == [
        ("container queued", None, None),
        ("container queued", "failed", "it exited with 1"),
        ("container locked", None, None),
        ("container locked", "failed", None),
        ("container failed", "failed", "too often"),
    ]


def test_the_line_of_a_lost_attempt_says_how_it_was_lost() -> None:
    made = Rig(make_type(8))
    made.submit(make_container(1))
    made.published.clear()
    made.exit("c-1-1", 0, kind=ExitKind.LOST)
    with structlog.testing.capture_logs() as lines:
        for each in made.published:
            if isinstance(each, PublishContainer):
                publish(each, Broker())
    lost = [each for each in lines if each["event"] == "container queued"]
    assert [(each["attempt"], each["last_outcome"], each["why"]) for each in lost] == [
        ("c-1-1", "lost", "its supervisor is gone without an exit record")
    ]


async def test_whoever_waits_for_a_job_is_woken(job: Job) -> None:
    watchers = ContainerNotifier()
    waiting = asyncio.create_task(watchers.wait("j-3", timeout_s=60))
    others = asyncio.create_task(watchers.wait("j-4", timeout_s=60))
    await asyncio.sleep(0)
    publish(PublishJob(job=job), Broker(), watchers)
    async with asyncio.timeout(30):
        await waiting
    assert not others.done()
    watchers.notify_all()
    await others


async def test_the_event_of_a_container_has_its_last_attempts() -> None:
    broker = Broker()
    publish(PublishContainer(container=failing(LISTED_ATTEMPTS + 2)), broker)
    _, _, data = await first_event(broker)
    attempts = data["attempts"]
    assert isinstance(attempts, list)
    assert data["attempt_count"] == LISTED_ATTEMPTS + 2
    assert [each["number"] for each in attempts] == list(range(3, LISTED_ATTEMPTS + 3))


async def test_the_event_of_a_container_is_small_whatever_it_was_sent_with() -> None:
    after = tuple(Dependency(of=f"c-{number}") for number in range(1000))
    container = make_container(1, after=after)
    secret = replace(container.spec, command=("x" * 9999,), env=(("KEY", "hidden"),))
    broker = Broker()
    publish(PublishContainer(container=replace(container, spec=secret, task="t")), broker)
    _, identifier, data = await first_event(broker)
    assert (identifier, data["task"], data["name"]) == ("c-1", "t", "n1")
    assert not {"command", "env", "after"} & data.keys()
    assert len(str(data)) < 2000
