"""Elastic jobs through the engine: rows of their semantics, on instances that are there."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.pool.messages import CreateInstance, StartAttempt, StartRefused
from longshore.pool.model import ExitKind
from tests.rigs.elastic_jobs import (
    attempt_of,
    elastic,
    environments,
    essential,
    rig_of,
    running,
    state_of,
    submit,
)
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container


def test_a_job_whose_essential_container_exits_well_succeeds_with_all_that_ran_beside_it() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1))
    assert running(rig) == {"e": 1, "w": 1}
    rig.exit(attempt_of(rig, 1000))
    rig.exit(attempt_of(rig, 1001), code=143)
    assert state_of(rig) == "succeeded"
    assert rig.jobs["j-1"].exit_code == 0
    assert rig.states() == {"c-1000": "succeeded", "c-1001": "cancelled"}
    assert rig.containers["c-1001"].reason is not None
    assert rig.containers["c-1001"].reason.message == "its job succeeded"


def test_two_essential_and_six_elastic_have_two_and_three_on_five_cpus_and_grow_to_six() -> None:
    rig = rig_of(5)
    submit(rig, 1, essential(2), elastic(6))
    assert running(rig) == {"e": 2, "w": 3}
    rig.settings = SchedulerSettings(max_instances=2)
    rig.boot("t5")
    rig.advance(61)
    assert running(rig) == {"e": 2, "w": 6}


def test_nothing_starts_while_not_all_that_is_essential_has_room() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(3), elastic(1))
    rig.advance(30)
    assert running(rig) == {}
    assert last_commands(rig, StartAttempt) == []
    why = rig.engine.why_waiting("c-1000")
    assert why is not None
    assert why.code == "no_room"
    assert "room for 2 of its 3 essential components" in why.message


def test_an_elastic_container_that_dies_is_placed_again_and_its_job_goes_on() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1))
    rig.exit(attempt_of(rig, 1001), code=9)
    assert running(rig) == {"e": 1, "w": 1}
    rig.exit(attempt_of(rig, 1001), code=9)
    assert running(rig) == {"e": 1}
    why = rig.engine.why_waiting("c-1001")
    assert why is not None
    assert why.code == "backoff"
    rig.advance(1.1)
    assert running(rig) == {"e": 1, "w": 1}
    assert [a.outcome.value for a in rig.attempts.values() if a.outcome] == ["failed", "failed"]
    assert state_of(rig) == "running"


@pytest.mark.parametrize("crash", [False, True])
def test_an_elastic_container_that_fails_for_ever_ends_in_the_end_and_its_job_goes_on(
    monkeypatch: pytest.MonkeyPatch, crash: bool
) -> None:
    monkeypatch.setattr("longshore.dispatcher.scheduler.elastic.end_reasons.ATTEMPTS_MOST", 3)
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(2))
    for wait_s in (0.1, 1.1, 60):
        assert running(rig) == {"e": 1, "w": 2}
        rig.exit(attempt_of(rig, 1001), code=1)
        rig.advance(wait_s)
    reason = rig.containers["c-1001"].reason
    assert rig.states()["c-1001"] == "failed"
    assert reason is not None
    assert reason.code == "attempts_most"
    if crash:
        rig.crash()
    rig.advance(3600)
    assert (running(rig), state_of(rig)) == ({"e": 1, "w": 1}, "running")
    rig.exit(attempt_of(rig, 1000))
    rig.exit(attempt_of(rig, 1002), code=143)
    assert state_of(rig) == "succeeded"


def test_an_essential_container_that_fails_ends_the_job_with_all_that_runs_of_it() -> None:
    rig = rig_of(4)
    submit(rig, 1, essential(2), elastic(3))
    rig.exit(attempt_of(rig, 1000), code=1)
    assert rig.states()["c-1004"] == "cancelled"
    for number in (1001, 1002, 1003):
        assert rig.engine.pool.attempts[attempt_of(rig, number)].is_to_end
        rig.exit(attempt_of(rig, number), code=143)
    assert state_of(rig) == "failed: essential e exited with 1"
    assert rig.jobs["j-1"].exit_code == 1
    assert set(rig.states().values()) == {"failed", "cancelled"}
    assert rig.containers["c-1000"].state.value == "failed"


def test_an_essential_container_that_dies_before_all_have_a_place_ends_the_job_too() -> None:
    rig = rig_of(4)
    submit(rig, 1, essential(1, "first"), essential(1, "second", order=1))
    rig.silent.add(StartAttempt)
    rig.exit(attempt_of(rig, 1000), code=3)
    assert state_of(rig).startswith("failed: essential first exited with 3") or running(rig)


def test_essential_containers_start_by_their_order_and_elastic_ones_after_all_of_them() -> None:
    rig = rig_of(4)
    rig.silent.add(StartAttempt)
    submit(
        rig, 1, elastic(1, "helper"), essential(1, "late", order=2), essential(1, "early", order=1)
    )
    assert [c.order.container_id for c in last_commands(rig, StartAttempt)] == ["c-1002"]
    why = rig.engine.why_waiting("c-1001")
    assert why is not None
    assert why.code == "has_place"
    rig.silent.clear()
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    rig.settle()
    order = [c.order.container_id for c in last_commands(rig, StartAttempt)]
    assert order == ["c-1002", "c-1001", "c-1000"]
    env = environments(rig)["c-1000"]
    assert env["LONGSHORE_EARLY_HOSTS"] == "i-001"
    assert env["LONGSHORE_LATE_HOSTS"] == "i-001"
    assert env["LONGSHORE_HELPER_HOSTS"] == "i-001"
    assert env["LONGSHORE_COMPONENT"] == "helper"
    assert env["LONGSHORE_COMPONENT_INDEX"] == "0"
    assert env["LONGSHORE_COMPONENT_COUNT"] == "1"


def test_room_of_a_member_that_waits_for_its_turn_is_kept_from_batch_work() -> None:
    rig = rig_of(2)
    rig.silent.add(StartAttempt)
    submit(rig, 1, essential(1, "early"), essential(1, "late", order=1))
    rig.submit(make_container(1))
    assert [c.order.container_id for c in last_commands(rig, StartAttempt)] == ["c-1000"]
    rig.silent.clear()
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    rig.settle()
    assert running(rig) == {"early": 1, "late": 1}
    assert rig.states()["c-1"] == "queued"


def test_a_flexible_job_gives_elastic_containers_back_for_the_essential_ones_of_another() -> None:
    rig = rig_of(5)
    submit(rig, 1, essential(1), elastic(3))
    assert running(rig, 1) == {"e": 1, "w": 3}
    submit(rig, 2, essential(3, "f"))
    going = [
        n
        for n in (1001, 1002, 1003)
        if rig.attempts[attempt_of(rig, n)].intended_outcome is not None
    ]
    assert going == [1002, 1003]
    assert running(rig, 2) == {"f": 1}
    rig.exit(attempt_of(rig, 1002), code=143)
    rig.exit(attempt_of(rig, 1003), code=143)
    assert running(rig, 2) == {"f": 3}
    reason = rig.attempts["c-1002-1"].reason
    assert reason is not None
    assert reason.message == "it made way for j-2"
    assert running(rig, 1) == {"e": 1, "w": 1}
    for number in (2000, 2001, 2002):
        rig.exit(attempt_of(rig, number))
    assert state_of(rig, 2) == "succeeded"
    assert running(rig, 1) == {"e": 1, "w": 3}


def test_who_is_stopped_for_another_job_has_its_room_kept_from_batch_work() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1))
    submit(rig, 2, essential(1, "f", cpus=2))
    assert running(rig, 2) == {}
    rig.submit(make_container(1))
    assert rig.states()["c-1"] == "queued"
    rig.exit(attempt_of(rig, 1001), code=143)
    assert running(rig, 2) == {"f": 1}
    assert rig.states()["c-1"] == "queued"


def test_a_malleable_job_gives_nothing_back() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1), mode=ElasticMode.MALLEABLE)
    submit(rig, 2, essential(2, "f"))
    assert running(rig, 1) == {"e": 1, "w": 1}
    assert running(rig, 2) == {}
    assert rig.attempts[attempt_of(rig, 1001)].intended_outcome is None


def test_a_rigid_job_starts_with_all_of_its_containers_or_none() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(2), mode=ElasticMode.RIGID)
    assert running(rig) == {}
    submit(rig, 2, essential(1), elastic(1), mode=ElasticMode.RIGID)
    assert running(rig, 2) == {}, "it comes after one that cannot begin"


def test_an_essential_start_that_is_refused_for_ever_fails_the_job() -> None:
    rig = rig_of(3)
    rig.silent.add(StartAttempt)
    submit(rig, 1, essential(1), elastic(1))
    refuse(rig, code="invalid", message="no such image")
    assert state_of(rig) == "failed: essential e cannot be started: no such image"
    assert rig.states() == {"c-1000": "failed", "c-1001": "cancelled"}


def test_an_essential_start_that_fails_for_the_moment_stops_the_rest_and_is_tried_later() -> None:
    rig = rig_of(3)
    rig.silent.add(StartAttempt)
    submit(rig, 1, essential(2))
    first, second = last_commands(rig, StartAttempt)
    rig.start_now(first)
    refuse(rig, code="busy", message="not now")
    assert second.order.container_id == "c-1001"
    assert rig.attempts[attempt_of(rig, 1000)].intended_outcome is not None
    why = rig.engine.why_waiting("c-1001")
    assert why is not None
    assert why.code == "ending"
    rig.exit(attempt_of(rig, 1000), code=143)
    assert rig.states() == {"c-1000": "queued", "c-1001": "queued"}
    why = rig.engine.why_waiting("c-1000")
    assert why is not None
    assert why.code == "backoff"
    why = rig.engine.why_waiting("c-1001")
    assert why is not None
    assert why.message.endswith(": not now"), "who was refused says what for"
    rig.silent.clear()
    rig.advance(1.1)
    assert running(rig) == {"e": 2}
    assert rig.states() == {"c-1000": "running", "c-1001": "running"}


def test_an_elastic_member_that_is_refused_says_what_for_and_when_it_is_tried_again() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1))
    rig.silent.add(StartAttempt)
    rig.exit(attempt_of(rig, 1001), code=1)
    rig.advance(1)
    refuse(rig, code="invalid", message="no such image")
    why = rig.engine.why_waiting("c-1001")
    assert why is not None
    assert (why.code, why.until is not None) == ("backoff", True)
    assert why.message.endswith(": no such image")
    assert rig.states() == {"c-1000": "running", "c-1001": "queued"}


def test_what_had_ended_well_runs_anew_when_its_job_begins_again() -> None:
    rig = rig_of(2, 3)
    submit(rig, 1, essential(1, "a"), essential(1, "b"), essential(1, "c", cpus=3))
    assert running(rig) == {"a": 1, "b": 1, "c": 1}
    rig.exit(attempt_of(rig, 1000))
    assert rig.states()["c-1000"] == "queued"
    assert rig.engine.why_waiting("c-1000") is not None
    rig.exit(attempt_of(rig, 1002), kind=ExitKind.LOST)
    rig.exit(attempt_of(rig, 1001), code=143)
    rig.advance(1.1)
    assert running(rig) == {"a": 1, "b": 1, "c": 1}
    assert rig.attempts[attempt_of(rig, 1000)].number == 2


@pytest.mark.parametrize("crash", [False, True])
def test_an_instance_that_is_lost_queues_the_job_again(crash: bool) -> None:
    rig = rig_of(2, 3)
    submit(rig, 1, essential(2), essential(1, "big", cpus=3))
    gone = rig.started_on()["c-1002"]
    del rig.cloud[gone], rig.on_instance[gone]
    rig.advance(60)
    if crash:
        rig.crash()
    assert rig.states()["c-1002"] == "queued"
    for number in (1000, 1001):
        rig.exit(attempt_of(rig, number), code=143)
    assert last_commands(rig, CreateInstance) or crash
    rig.advance(5)
    assert running(rig) == {"e": 2, "big": 1}
    assert rig.states() == dict.fromkeys(("c-1000", "c-1001", "c-1002"), "running")
    assert state_of(rig) == "running"
    assert len(rig.cloud) == 2


def refuse(rig: Rig, *, code: str, message: str) -> None:
    """Answer the latest start: it is not done."""
    start = last_commands(rig, StartAttempt)[-1]
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id=start.worker_id,
            attempt_id=start.order.attempt_id,
            code=code,
            message=message,
        )
    )
