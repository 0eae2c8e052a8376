"""New limits of an attempt that runs, from the pool's command to the line that the runner reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from longshore.pool.messages import Probe, ProbeFailed, StartAttempt, StartUnknown, UpdateLimits
from longshore.pool.model import AttemptOrder
from longshore.pool.remote.link import tell_limits
from tests.rigs.performer import performing
from tests.rigs.session import Rig
from tests.sshd_host import wait_until


@pytest.fixture
def far() -> Iterator[Rig]:
    made = Rig(request_timeout_s=60.0, heartbeat_timeout_s=600.0)
    yield made
    made.close()


@pytest.fixture
def hasty() -> Iterator[Rig]:
    made = Rig(request_timeout_s=0.2)
    yield made
    made.close()


def limits(attempt_id: str, cpu_millis: int) -> UpdateLimits:
    return UpdateLimits(worker_id="i-1", attempt_id=attempt_id, cpu_millis=cpu_millis)


def said(message: dict[str, Any]) -> tuple[object, ...]:
    """Return what a start or new limits say, without what every request has."""
    order = message.get("attempt", message)
    return message["type"], order["attempt_id"], order["cpu_millis"]


def test_limits_are_sent_behind_the_start_that_they_are_for_and_in_their_order(
    far: Rig, tmp_path: Path
) -> None:
    with performing(tmp_path) as rig:
        unreachable = Probe(
            op_id=1,
            worker_id="i-1",
            revision=0,
            address="127.0.0.1:1",
            host_key="",
            secret="s",
            boot=False,
        )
        rig.performer.perform(unreachable)
        assert isinstance(rig.outcome(), ProbeFailed)
        link = rig.performer._links["i-1"][0]
        # Nobody has asked for a session yet: nothing is sent, then or later, and nothing told.
        rig.performer.perform(limits("a-0", 100))
        rig.performer.perform(
            UpdateLimits(worker_id="i-never-probed", attempt_id="a-0", cpu_millis=100)
        )
        link._session = far.start()
        for number, cpu_millis in ((1, 500), (2, 700)):
            order = AttemptOrder(
                attempt_id=f"a-{number}",
                container_id=f"c-{number}",
                image="",
                command=("true",),
                cpu_millis=cpu_millis,
            )
            rig.performer.perform(StartAttempt(op_id=2, worker_id="i-1", order=order, boot_id="b"))
            rig.performer.perform(limits(f"a-{number}", 2 * cpu_millis))
            rig.performer.perform(limits("a-1", 300 + number))
        assert [said(far.hear()) for _ in range(6)] == [
            ("start", "a-1", 500),
            ("update-limits", "a-1", 1000),
            ("update-limits", "a-1", 301),
            ("start", "a-2", 700),
            ("update-limits", "a-2", 1400),
            ("update-limits", "a-1", 302),
        ]
        far.close()
        for _ in range(2):
            assert isinstance(rig.outcome(), StartUnknown)


def test_limits_carry_the_epoch(far: Rig) -> None:
    tell_limits(far.start(), "i-1", "a-1", cpu_millis=1500)
    assert far.hear() | {"id": 0} == {
        "type": "update-limits",
        "id": 0,
        "epoch": 7,
        "attempt_id": "a-1",
        "cpu_millis": 1500,
    }


def test_limits_without_a_reply_end_the_session_that_is_thought_to_have_them(hasty: Rig) -> None:
    session = hasty.start()
    tell_limits(session, "i-1", "a-1", cpu_millis=1500)
    session.join()
    assert hasty.listener.ends == ["no reply to new limits within 0.2 s"]
    assert [json.loads(line)["type"] for line in hasty.input] == ["update-limits"]


def test_limits_that_find_no_place_in_the_queue_end_the_session_too(
    far: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = far.start()
    # What the socket holds before it is full is not for us to say.
    monkeypatch.setattr(session._outbox, "put", lambda _number, _line: "too much waits to be sent")
    tell_limits(session, "i-1", "a-1", cpu_millis=1500)
    assert session.join()
    assert len(far.listener.ends) == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"ok": True, "limited": True}, []),
        ({"ok": True, "limited": False}, []),
        ({"ok": False, "code": "system", "message": "read-only"}, ["read-only"]),
    ],
)
def test_a_runner_that_cannot_set_limits_is_told_of_and_the_session_goes_on(
    far: Rig, answer: dict[str, Any], expected: list[str]
) -> None:
    session = far.start()
    with capture_logs() as logged:
        tell_limits(session, "i-1", "a-1", cpu_millis=1500)
        far.say({"type": "reply", "id": far.hear()["id"], **answer})
        session.request("list", {}, far.replies.put)
        far.say({"type": "reply", "id": far.hear()["id"], "ok": True})
        far.replies.get(timeout=60)
    assert [each["error"] for each in logged] == expected
    assert session.alive


def test_limits_that_can_never_be_sent_are_told_of_and_the_session_goes_on(far: Rig) -> None:
    session = far.start()
    with capture_logs() as logged:
        tell_limits(session, "i-1", "\ud800", cpu_millis=1500)
        wait_until(lambda: bool(logged), "the word")
    assert [each["code"] for each in logged] == ["invalid"]
    assert session.alive
