"""What users ask of elastic jobs and of their containers: cancels, holds, priorities."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.messages import JobPriorityRequested
from tests.rigs.elastic_jobs import (
    attempt_of,
    elastic,
    essential,
    rig_of,
    running,
    state_of,
    submit,
)
from tests.rigs.engine import Rig


def set_job_priority(rig: Rig, priority: int) -> None:
    """Commit job 1's priority, and tell the engine."""
    rig.jobs["j-1"] = replace(rig.jobs["j-1"], priority=priority)
    for container in [c for c in rig.containers.values() if c.job_id == "j-1"]:
        rig.containers[container.id] = replace(container, priority=priority)
    rig.send(JobPriorityRequested(job_id="j-1", priority=priority))


def test_a_job_that_is_cancelled_while_it_waits_is_cancelled_at_once() -> None:
    rig = rig_of(1)
    submit(rig, 1, essential(2), elastic(1))
    rig.cancel_job("j-1")
    assert state_of(rig) == "cancelled: cancelled"
    assert set(rig.states().values()) == {"cancelled"}
    submit(rig, 2, essential(1))
    assert running(rig, 2) == {"e": 1}


def test_a_job_that_is_cancelled_while_it_runs_ends_when_all_of_it_has() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(3))
    rig.cancel_job("j-1")
    assert state_of(rig) == "running"
    rig.exit(attempt_of(rig, 1001), code=143)
    rig.exit(attempt_of(rig, 1002), code=143)
    assert running(rig) == {"e": 1}
    rig.exit(attempt_of(rig, 1000), code=143)
    assert state_of(rig) == "cancelled: cancelled"
    assert set(rig.states().values()) == {"cancelled"}
    assert rig.engine.workloads.elastic.reservations == {}


def test_an_elastic_container_that_is_cancelled_is_gone_for_good_and_its_job_goes_on() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(3))
    assert running(rig) == {"e": 1, "w": 1}
    rig.cancel("c-1002")
    rig.cancel("c-1001")
    rig.exit(attempt_of(rig, 1001), code=143)
    assert rig.states() == {
        "c-1000": "running",
        "c-1001": "cancelled",
        "c-1002": "cancelled",
        "c-1003": "running",
    }
    rig.crash()
    rig.exit(attempt_of(rig, 1003), code=0)
    rig.exit(attempt_of(rig, 1000))
    assert state_of(rig) == "succeeded"
    assert rig.states()["c-1003"] == "succeeded"


def test_an_essential_container_that_is_cancelled_while_it_runs_fails_the_job() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(2), elastic(1))
    rig.cancel("c-1001")
    rig.exit(attempt_of(rig, 1001), code=143)
    assert rig.attempts[attempt_of(rig, 1000)].intended_outcome is not None
    rig.exit(attempt_of(rig, 1000), code=143)
    rig.exit(attempt_of(rig, 1002), code=143)
    assert state_of(rig) == "failed: essential e was cancelled"
    assert set(rig.states().values()) == {"cancelled"}


def test_an_essential_container_that_is_cancelled_while_it_waits_fails_the_job() -> None:
    rig = rig_of(1)
    submit(rig, 1, essential(2), elastic(1))
    rig.cancel("c-1001")
    assert state_of(rig) == "failed: essential e was cancelled"
    assert set(rig.states().values()) == {"cancelled"}


def test_a_held_job_starts_nothing_until_it_is_released() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(2), held=True)
    assert running(rig) == {}
    why = rig.engine.why_waiting("c-1000")
    assert why is not None
    assert why.code == "job_held"
    rig.hold_job("j-1", held=False)
    assert running(rig) == {"e": 1, "w": 2}


def test_a_job_that_is_held_while_it_runs_goes_on_and_does_not_grow() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(2))
    rig.hold_job("j-1", held=True)
    rig.exit(attempt_of(rig, 1001), code=1)
    rig.advance(10)
    assert running(rig) == {"e": 1}
    rig.hold_job("j-1", held=False)
    rig.advance(1)
    assert running(rig) == {"e": 1, "w": 1}


def test_a_held_job_blocks_nobody_behind_it() -> None:
    rig = rig_of(1)
    submit(rig, 1, essential(1), held=True)
    submit(rig, 2, essential(1))
    assert running(rig, 2) == {"e": 1}


def test_an_elastic_container_of_priority_0_gives_its_place_up_and_gets_it_back_later() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(1))
    rig.set_priority("c-1001", 0)
    rig.exit(attempt_of(rig, 1001), code=143)
    rig.advance(10)
    assert rig.states() == {"c-1000": "running", "c-1001": "queued"}
    why = rig.engine.why_waiting("c-1001")
    assert why is not None
    assert why.code == "held"
    rig.set_priority("c-1001", 500)
    assert rig.states() == {"c-1000": "running", "c-1001": "running"}


def test_a_job_of_priority_0_ends_what_runs_of_it_and_begins_again_when_it_may() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(2), elastic(1))
    set_job_priority(rig, 0)
    for number in (1000, 1001, 1002):
        rig.exit(attempt_of(rig, number), code=143)
    rig.advance(10)
    assert set(rig.states().values()) == {"queued"}
    assert state_of(rig) == "running"
    set_job_priority(rig, 500)
    assert running(rig) == {"e": 2, "w": 1}


def test_a_job_waits_for_an_essential_container_that_is_held_back_and_says_so() -> None:
    rig = rig_of(3)
    rig.boot("t3")
    submit(rig, 1, essential(2), elastic(1), held=True)
    rig.set_priority("c-1001", 0)
    rig.hold_job("j-1", held=False)
    assert running(rig) == {}
    why = rig.engine.why_waiting("c-1000")
    assert why is not None
    assert why.message == "its job needs c-1001, which may not begin: held back: its priority is 0"
    rig.set_priority("c-1001", 1)
    assert running(rig) == {"e": 2, "w": 1}


def test_who_is_held_while_it_waits_for_its_turn_gives_its_room_to_others() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1))
    submit(rig, 2, essential(1, "f", cpus=2))
    assert rig.attempts[attempt_of(rig, 1001)].intended_outcome is not None
    rig.hold_job("j-2", held=True)
    rig.exit(attempt_of(rig, 1001), code=143)
    assert running(rig, 2) == {}
    assert running(rig, 1) == {"e": 1, "w": 1}
