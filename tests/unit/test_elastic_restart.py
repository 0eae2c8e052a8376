"""Elastic jobs after a crash: nothing is forgotten, and nothing runs twice."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.scheduler.elastic.lifecycle import RAN_WELL_S
from longshore.pool.messages import ListInstances, StartAttempt
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind
from tests.rigs.elastic_jobs import (
    attempt_of,
    elastic,
    essential,
    rig_of,
    running,
    state_of,
    submit,
)
from tests.rigs.engine import last_commands


def test_a_job_that_runs_goes_on_after_a_restart_and_nothing_of_it_is_started_again() -> None:
    rig = rig_of(4)
    submit(rig, 1, essential(2), elastic(3))
    before = set(rig.attempts)
    rig.crash()
    rig.advance(40)
    assert set(rig.attempts) == before
    assert running(rig) == {"e": 2, "w": 2}
    rig.exit(attempt_of(rig, 1003))
    assert running(rig) == {"e": 2, "w": 2}, "the third elastic one has its room now"
    rig.exit(attempt_of(rig, 1000))
    rig.crash()
    rig.exit(attempt_of(rig, 1001))
    for number in (1002, 1004):
        rig.exit(attempt_of(rig, number), code=143)
    assert state_of(rig) == "succeeded"
    assert rig.states()["c-1003"] == "succeeded"


def test_a_job_that_was_begun_and_not_started_whole_queues_again_with_what_runs_of_it() -> None:
    rig = rig_of(3)
    rig.silent.add(StartAttempt)
    submit(rig, 1, essential(1, "a"), essential(1, "b", order=1), elastic(1))
    rig.start_now(last_commands(rig, StartAttempt)[0])
    rig.silent.clear()
    rig.crash(listed=False)
    assert running(rig) == {"a": 1}
    rig.silent.discard(ListInstances)
    rig.list_now(last_commands(rig, ListInstances)[0].op_id)
    rig.settle()
    assert running(rig) == {"a": 1, "b": 1, "w": 1}
    assert len(rig.attempts) == 3


def test_after_a_restart_incomplete_running_jobs_rejoin_the_queue() -> None:
    rig = rig_of(5)
    submit(rig, 1, essential(2), elastic(3), mode=ElasticMode.MALLEABLE)
    submit(rig, 2, essential(1))
    died = attempt_of(rig, 1002)
    rig.on_instance[rig.attempts[died].instance_id][died] = AttemptReport(
        attempt_id=died, container_id="", exit=AttemptExit(kind=ExitKind.EXITED, code=1)
    )
    before = set(rig.attempts)
    rig.crash()
    assert (running(rig, 1), running(rig, 2)) == ({"e": 2, "w": 3}, {}), "it came before the other"
    assert set(rig.attempts) - before == {attempt_of(rig, 1002)}


@pytest.mark.parametrize("crash", [False, True])
def test_the_end_of_an_essential_container_and_that_of_its_job_are_one_commit(
    crash: bool,
) -> None:
    rig = rig_of(4)
    submit(rig, 1, essential(2), elastic(2))
    rig.exit(attempt_of(rig, 1001), code=7)
    if crash:
        rig.crash()
    for number in (1000, 1002, 1003):
        assert rig.attempts[attempt_of(rig, number)].intended_outcome is not None
        rig.exit(attempt_of(rig, number), code=0)
    assert state_of(rig) == "failed: essential e exited with 7"
    assert rig.jobs["j-1"].exit_code == 7
    assert rig.states()["c-1000"] == "cancelled"


def test_a_job_that_has_succeeded_and_whose_elastic_containers_still_end_succeeds() -> None:
    rig = rig_of(4)
    submit(rig, 1, essential(1), elastic(2))
    rig.exit(attempt_of(rig, 1000))
    assert state_of(rig) == "running"
    rig.crash()
    for number in (1001, 1002):
        rig.exit(attempt_of(rig, number), code=143)
    assert state_of(rig) == "succeeded"
    assert rig.states() == {"c-1000": "succeeded", "c-1001": "cancelled", "c-1002": "cancelled"}


def test_an_essential_container_that_was_cancelled_before_a_crash_still_fails_its_job() -> None:
    rig = rig_of(1)
    submit(rig, 1, essential(2), elastic(1))
    rig.store_lags = True
    rig.cancel("c-1001")
    write = rig.uncommitted[0]
    for change in write.changes:
        rig.take_in(change)
    rig.crash()
    assert rig.states()["c-1001"] == "cancelled"
    assert state_of(rig) == "failed: essential e was cancelled"
    assert set(rig.states().values()) == {"cancelled"}


def test_what_ended_well_before_its_job_was_queued_again_runs_anew_after_a_crash_too() -> None:
    rig = rig_of(2, 3)
    submit(rig, 1, essential(1, "a"), essential(1, "b"), essential(1, "c", cpus=3))
    rig.exit(attempt_of(rig, 1000))
    rig.advance(1)
    rig.exit(attempt_of(rig, 1002), kind=ExitKind.LOST)
    rig.crash()
    rig.exit(attempt_of(rig, 1001), code=143)
    rig.advance(2)
    assert running(rig) == {"a": 1, "b": 1, "c": 1}
    assert rig.attempts[attempt_of(rig, 1000)].number == 2


def test_an_essential_container_that_ended_well_does_not_run_again_after_a_crash() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(2), elastic(1))
    rig.exit(attempt_of(rig, 1000))
    rig.crash()
    rig.advance(40)
    assert running(rig) == {"e": 1, "w": 1}
    assert rig.attempts[attempt_of(rig, 1000)].number == 1


def test_an_elastic_container_that_died_again_and_again_waits_as_long_after_a_crash() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(1))
    for _ in range(4):
        rig.exit(attempt_of(rig, 1001), code=1)
        rig.advance(4.1)
    rig.exit(attempt_of(rig, 1001), code=1)
    rig.crash()
    rig.advance(7.5)
    assert running(rig) == {"e": 1}
    rig.advance(1)
    assert running(rig) == {"e": 1, "w": 1}


def test_an_elastic_container_that_ran_for_long_is_placed_again_at_once_after_a_crash_too() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(1))
    for _ in range(3):
        rig.exit(attempt_of(rig, 1001), code=1)
        rig.advance(4.1)
    rig.advance(RAN_WELL_S)
    rig.exit(attempt_of(rig, 1001), code=1)
    rig.crash()
    rig.advance(1)
    assert running(rig) == {"e": 1, "w": 1}
    rig.exit(attempt_of(rig, 1001), code=1)
    rig.crash()
    rig.advance(0.5)
    assert running(rig) == {"e": 1}
    rig.advance(1)
    assert running(rig) == {"e": 1, "w": 1}


def test_who_makes_way_goes_on_making_way_after_a_crash() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1))
    submit(rig, 2, essential(1, "f", cpus=2))
    rig.crash()
    rig.exit(attempt_of(rig, 1001), code=143)
    assert running(rig, 2) == {"f": 1}
    assert running(rig, 1) == {"e": 1}


def test_losses_of_several_members_are_counted_together_across_a_restart() -> None:
    rig = rig_of(2, max_lost_attempts=3)
    submit(rig, 1, essential(1, "a"), essential(1, "b"))
    for lost, other in ((1000, 1001), (1001, 1000)):
        rig.exit(attempt_of(rig, lost), kind=ExitKind.LOST)
        rig.exit(attempt_of(rig, other), code=143)
        rig.crash()
        rig.advance(10)
        assert running(rig) == {"a": 1, "b": 1}
    rig.exit(attempt_of(rig, 1000), kind=ExitKind.LOST)
    rig.exit(attempt_of(rig, 1001), code=143)
    assert state_of(rig).startswith("failed: essential a was lost (")
    assert state_of(rig).endswith("; lost 2 times before")


def test_a_job_gives_up_after_as_many_losses_as_a_container_may_have() -> None:
    rig = rig_of(2, max_lost_attempts=3)
    submit(rig, 1, essential(1), elastic(1))
    for _ in range(2):
        rig.exit(attempt_of(rig, 1000), kind=ExitKind.LOST)
        rig.exit(attempt_of(rig, 1001), code=143)
        rig.crash()
        rig.advance(10)
        assert running(rig) == {"e": 1, "w": 1}
    rig.exit(attempt_of(rig, 1000), kind=ExitKind.LOST)
    rig.exit(attempt_of(rig, 1001), code=143)
    assert state_of(rig).startswith("failed: essential e was lost (")
    assert rig.states() == {"c-1000": "failed", "c-1001": "cancelled"}
