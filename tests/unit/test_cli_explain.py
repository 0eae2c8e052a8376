"""`longshore explain` and its route over real HTTP: what a stranger reads, and the data."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.api.render.explain import explanation_answer
from longshore.dispatcher.api.render.values import encode
from longshore.dispatcher.api.schemas.explain import EstimateAnswer
from longshore.dispatcher.cli.commands.explain import start
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.containers import Container, WaitReason
from longshore.dispatcher.engine.view import Position
from longshore.dispatcher.explain.estimate import Estimate
from longshore.dispatcher.explain.explanation import Claim, Explanation, Waiting
from longshore.dispatcher.explain.limit_usage import LimitUsage
from longshore.dispatcher.scheduler.placement.feasibility_report import (
    FilterCount,
    NodeSummary,
    TypeFeasibility,
)
from longshore.dispatcher.state.history import HistoryEvent
from longshore.pool.holds import EVERYTHING, CreateHold, HoldCause, Scope
from tests.api_server import connected
from tests.cli_server import cli_server
from tests.rigs.api import EPOCH
from tests.samples import make_container
from tests.stranger_server import Behaviour, Stranger, answering, stranger_server

Capture = pytest.CaptureFixture[str]

TYPES = (
    TypeFeasibility(
        name="small",
        price_usd_per_hour=Decimal("0.05"),
        preemptible=False,
        rejections=("too small in memory", "label gpu=\x1b[31ma100 missing"),
        blocked_by="",
    ),
    TypeFeasibility(
        name="large",
        price_usd_per_hour=Decimal("0.19"),
        preemptible=True,
        rejections=(),
        blocked_by="at capacity until 2026-01-02T03:04:05Z: the region is out of " + "them " * 20,
    ),
)
HOLDS = (
    CreateHold(
        cause=HoldCause.CAPACITY,
        scope=Scope(type_name="large"),
        since=EPOCH,
        until=EPOCH + 60,
        reason="none left",
    ),
    CreateHold(
        cause=HoldCause.RATE_LIMIT,
        scope=EVERYTHING,
        since=EPOCH,
        until=EPOCH + 5,
        reason="too many calls",
    ),
    CreateHold(
        cause=HoldCause.QUOTA,
        scope=Scope(group="standard", preemptible=True),
        since=EPOCH,
        until=EPOCH + 9,
        reason="no more vCPUs",
    ),
    CreateHold(
        cause=HoldCause.QUOTA,
        scope=Scope(group="", preemptible=False),
        since=EPOCH,
        until=EPOCH + 9,
        reason="no more at all",
    ),
)
WAITING = Waiting(
    reason=WaitReason(code="at_capacity", message="the cloud is short of large", until=EPOCH + 1),
    position=Position(number=3, of=20, alike=7, stuck=1),
    types=TYPES,
    instances=NodeSummary(
        total=9,
        fates=(
            FilterCount(cause="label", count=2, ids=("i-1", "i-2")),
            FilterCount(cause="exhausted", count=7, ids=("i-3", "i-4", "i-5")),
        ),
        exhausted=(("cpus", 7), ("licence", 1)),
    ),
    holds=HOLDS,
    limits=(
        LimitUsage(name="max_instances", limit=9, used=9),
        LimitUsage(name="max_hourly_spend_per_user", whose="bob", limit=2.5, used=1.5, adds=0.2),
    ),
    claim=Claim(instance_id="", type_name="large", since=time.time() - 61),
    estimate=Estimate(earliest_s=60.0, latest_s=None, basis="because"),
)


def explanation(container: Container, waiting: Waiting | None = WAITING) -> Explanation:
    history = (
        HistoryEvent(at=EPOCH, kind="submitted", message="submitted by u"),
        HistoryEvent(at=EPOCH + 1, kind="at_capacity", message="the cloud is short of large"),
    )
    return Explanation(
        container=container,
        sentence=f"{container.id} waits: the cloud is short of large (position 3 of 20)",
        waiting=waiting,
        history=history,
        recorded_since=EPOCH,
    )


C1 = make_container(1)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Stranger]]:
    """Serve an explanation that has some of everything, as the API renders it."""
    with stranger_server(answer(explanation(C1))) as (url, server):
        monkeypatch.setenv("LONGSHORE_URL", url)
        yield server


def answer(found: Explanation) -> Behaviour:
    return answering(200, encode(explanation_answer(found)))


def test_the_sentence_comes_first_and_every_line_is_within_100_columns(
    server: type[Stranger], capsys: Capture
) -> None:
    assert main(["explain", "c-1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "c-1 waits: the cloud is short of large (position 3 of 20)"
    assert max(map(len, lines)) <= 100
    text = " ".join(" ".join(lines).split())
    for part in (
        "starts in 1m00s or later, nobody knows how much: because",
        "position 3 of 20, 7 of them just alike; 1 of those before it can never start as things",
        "limits reached max_instances: 9 of 9 used, it would add 1 instance types",
        "small $0.05/h no: too small in memory, label gpu=\\x1b[31ma100 missing",
        "large $0.19/h yes, but at capacity until 2026-01-02T03:04:05Z",
        "instances (9) 2 lack a wanted label: i-1, i-2 ",
        "7 are full (too little room: 7 in cpus, 1 in licence): i-3, i-4, i-5, ...",
        "(capacity): none left",
        "all until 2023-11-14T22:13:25Z (rate_limit): too many calls",
        "quota group standard, preemptible until 2023-11-14T22:13:29Z (quota): no more vCPUs",
        "quota group default, not preemptible until 2023-11-14T22:13:29Z (quota): no more at all",
        "the cloud is short of large",
    ):
        assert part in text
    # The claim is as old as this module: minutes, in a long run.
    claim = r"has a place on a new large that is being created, \d+m\d\d"
    assert re.search(claim, text) is not None
    assert [path for _, path, _, _ in server.seen] == ["/v1/containers/c-1/explain"]


@pytest.mark.usefixtures("server")
def test_json_is_what_the_server_said(capsys: Capture) -> None:
    assert main(["explain", "c-1", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["state"] == "queued"
    waiting = seen["waiting"]
    assert (waiting["position"], waiting["queue_length"], waiting["alike"]) == (3, 20, 7)
    assert waiting["ahead_stuck"] == 1
    assert waiting["reason"] == {
        "code": "at_capacity",
        "message": "the cloud is short of large",
        "limit": None,
        "behind": None,
        "behind_code": None,
        "until": "2023-11-14T22:13:21.000Z",
        "never": False,
    }
    assert [each["eligible"] for each in waiting["types"]] == [False, True]
    assert waiting["types"][1]["price_usd_per_hour"] == 0.19
    assert waiting["instances"]["exhausted"] == {"cpus": 7, "licence": 1}
    assert waiting["holds"][0]["until"] == "2023-11-14T22:14:20.000Z"
    assert waiting["limits"][0] == {
        "name": "max_instances",
        "whose": None,
        "limit": 9.0,
        "used": 9.0,
        "adds": 1.0,
        "reached": True,
        "blocking": False,
    }
    assert waiting["claim"]["instance"] is None
    assert waiting["estimate"] == {"earliest_s": 60.0, "latest_s": None, "basis": "because"}
    assert seen["history"][0]["at"] == "2023-11-14T22:13:20.000Z"
    assert seen["recorded_since"] == "2023-11-14T22:13:20.000Z"


def test_one_that_does_not_wait_has_its_sentence_and_its_history_only(
    server: type[Stranger], capsys: Capture
) -> None:
    ended = replace(explanation(C1, waiting=None), sentence="c-1 has succeeded")
    server.behaviours[:] = [answer(ended)]
    assert main(["explain", "c-1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["c-1 has succeeded", "", "what happened"]
    assert len(lines) == 5


def test_what_waits_in_fact_is_explained(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    with cli_server() as real:
        monkeypatch.setenv("LONGSHORE_URL", real.url)
        assert main(["submit", "--", "x"]) == 0
        container_id = capsys.readouterr().out.strip()
        assert main(["explain", container_id]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert text.startswith(f"{container_id} waits: the cluster may spend $0.00/h ")
        for part in ("position 1 of 1", "limits reached max_hourly_spend", "what happened"):
            assert part in text
        assert main(["explain", "c-9"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "there is no container c-9" in captured.err


@pytest.mark.parametrize(
    ("earliest_s", "latest_s", "said"),
    [
        (None, None, "not known when: why"),
        (0.0, None, "not known when: why"),
        (61.0, None, "in 1m01s or later, nobody knows how much: why"),
        (0.0, 35.0, "in 0s to 35s: why"),
    ],
)
def test_a_start_that_is_not_known_is_said_to_be_so(
    earliest_s: float | None, latest_s: float | None, said: str
) -> None:
    assert start(EstimateAnswer(earliest_s=earliest_s, latest_s=latest_s, basis="why")) == said


async def test_the_route_refuses_parameters_unknown_ids_and_other_methods() -> None:
    async with connected() as client:
        assert (await client.call("GET", "/v1/containers/c-9/explain"))[0] == 404
        assert (await client.call("GET", "/v1/containers/c-9/explain?x=1"))[0] == 400
        assert (await client.call("POST", "/v1/containers/c-9/explain", json={}))[0] == 405
