"""Jobs in the engine: arrays and their limits, holds, cancels, and how a job ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import Dependency, Retries
from longshore.dispatcher.domain.jobs import Job, JobState, Tally
from longshore.dispatcher.domain.messages import PublishJob
from longshore.pool.messages import Probe, StartAttempt
from tests.job_samples import each_of, make_job, make_task
from tests.rigs.engine import Rig, last_commands
from tests.rigs.workflow import exit_all, ids, in_state, rig, wait_code
from tests.samples import make_container

# ---- jobs ----------------------------------------------------------------------------------------


def test_a_diamond_runs_in_its_order() -> None:
    made = rig()
    job, containers = make_job(
        1,
        make_task("split"),
        make_task("left", size=2, after=("j-1/split",)),
        make_task("right", after=("j-1/split",)),
        make_task("merge", after=("j-1/left", "j-1/right")),
    )
    made.submit_job(job, containers)
    order = []
    while running := exit_all(made):
        order.append([made.containers[each].task for each in running])
    assert order == [["split"], ["left", "left", "right"], ["merge"]]
    assert made.jobs["j-1"].state is JobState.SUCCEEDED
    assert made.jobs["j-1"].exit_code == 0


def test_elements_wait_for_their_own() -> None:
    made = rig()
    job, containers = make_job(
        1, make_task("a", size=3), make_task("b", size=3, after=(each_of("j-1/a"),))
    )
    made.submit_job(job, containers)
    assert in_state(made, "running") == ids(1000, 1001, 1002)
    made.exit("c-1001-1")
    assert made.states()["c-1004"] == "running"
    made.exit("c-1000-1", 1)
    assert made.states()["c-1003"] == "cancelled"
    assert made.states()["c-1005"] == "queued"
    made.crash()
    made.exit("c-1002-1")
    assert made.states()["c-1005"] == "running"


def test_an_array_has_no_more_under_way_than_it_may() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=6, max_running=2)))
    assert in_state(made, "running") == ids(1000, 1001)
    assert wait_code(made, "c-1002") == "max_running"
    made.exit("c-1001-1", 1)
    assert in_state(made, "running") == ids(1000, 1002), "by index"
    made.cancel("c-1003")
    made.crash()
    assert in_state(made, "running") == ids(1000, 1002)
    made.exit("c-1000-1")
    assert in_state(made, "running") == ids(1002, 1004), "who is cancelled is passed over"
    while exit_all(made):
        assert len(in_state(made, "running")) <= 2
    assert made.jobs["j-1"].tallies == (Tally(succeeded=4, failed=1, cancelled=1),)
    assert made.jobs["j-1"].state is JobState.FAILED


def test_an_element_that_is_held_back_gives_its_turn_up_once_it_has_ended() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=3, max_running=1)))
    made.set_priority("c-1000", 0)
    assert wait_code(made, "c-1001") == "max_running", "the first is being ended"
    made.exit("c-1000-1", 143)
    assert in_state(made, "running") == ids(1001)
    made.set_priority("c-1000", 500)
    assert (in_state(made, "running"), wait_code(made, "c-1000")) == (ids(1001), "max_running")
    made.exit("c-1001-1")
    assert in_state(made, "running") == ids(1000), "by its index"
    made.exit("c-1000-2")
    assert in_state(made, "running") == ids(1002)


def test_an_element_that_waits_for_room_and_is_held_back_gives_its_turn_up() -> None:
    made = rig(most=1)
    made.submit(make_container(1, cpus=8, priority=600))
    made.submit_job(*make_job(1, make_task(size=3, max_running=1, cpus=8)))
    made.set_priority("c-1000", 0)
    assert wait_code(made, "c-1001") not in (None, "max_running")
    assert wait_code(made, "c-1002") == "max_running"
    made.exit("c-1-1")
    assert in_state(made, "running") == ids(1001)


def test_who_waits_for_its_turn_and_is_held_back_is_passed_over_until_it_is_not() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=5, max_running=1)))
    for container_id in ids(1001, 1002):
        made.set_priority(container_id, 0)
    made.exit("c-1000-1")
    assert in_state(made, "running") == ids(1003)
    made.set_priority("c-1002", 400)
    made.exit("c-1003-1")
    assert in_state(made, "running") == ids(1002)
    for container_id in ids(1004, 1001):
        made.set_priority(container_id, 0)
    made.set_priority("c-1004", 400)
    made.set_priority("c-1001", 400)
    made.exit("c-1002-1")
    assert in_state(made, "running") == ids(1001)
    made.exit("c-1001-1")
    assert in_state(made, "running") == ids(1004)


def test_who_is_held_back_has_no_turn_after_a_restart_and_lines_up_when_it_is_let_go() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=4, max_running=1)))
    made.set_priority("c-1000", 0)
    made.set_priority("c-1001", 0)
    made.exit("c-1000-1", 143)
    made.crash()
    assert in_state(made, "running") == ids(1002)
    made.set_priority("c-1000", 500)
    made.crash()
    assert in_state(made, "running") == ids(1002), "who ran before is not let go on beside it"
    made.exit("c-1002-1")
    assert in_state(made, "running") == ids(1000)
    made.set_priority("c-1001", 500)
    made.exit("c-1000-2")
    assert in_state(made, "running") == ids(1001)


def test_who_was_held_back_does_not_take_a_turn_by_a_restart() -> None:
    made = rig()
    retries = Retries(most=2, delay_s=60.0)
    job, containers = make_job(1, make_task(size=2, max_running=1, retries=retries))
    made.submit_job(job, tuple(replace(c, priority=500 * (c.array_index or 0)) for c in containers))
    made.exit("c-1001-1", 1)
    made.exit("c-1001-2", 1)
    made.set_priority("c-1000", 500)
    made.crash()
    assert in_state(made, "running") == [], "the second is to be tried again, and has the turn"
    made.advance(61.0)
    assert in_state(made, "running") == ids(1001)


def test_another_priority_changes_nothing_about_an_elements_place_in_the_line() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=4, max_running=2)))
    made.set_priority("c-1002", 400)
    made.exit("c-1000-1")
    made.exit("c-1001-1")
    assert in_state(made, "running") == ids(1002, 1003)


def test_who_waits_for_others_does_not_line_up_by_another_priority() -> None:
    made = rig()
    job, containers = make_job(
        1, make_task("a"), make_task("b", size=2, max_running=1, after=("j-1/a",))
    )
    made.submit_job(job, containers)
    made.set_priority("c-1002", 400)
    made.exit("c-1000-1")
    assert in_state(made, "running") == ids(1001)


def test_a_locked_element_that_was_held_back_before_a_crash_gives_its_turn_up() -> None:
    made = rig()
    made.silent.add(Probe)
    made.submit_job(*make_job(1, make_task(size=2, max_running=1)))
    assert in_state(made, "locked") == ids(1000)
    made.containers["c-1000"] = replace(made.containers["c-1000"], priority=0)
    made.crash()
    assert made.states() == {"c-1000": "queued", "c-1001": "locked"}


def test_who_has_run_waits_for_nobody_after_a_restart() -> None:
    made = rig()
    made.submit(make_container(1))
    made.submit(make_container(2, after=(Dependency(of="c-1"),), retries=Retries(most=2)))
    made.exit("c-1-1")
    made.exit("c-2-1", 1)
    made.exit("c-2-2", 1)
    del made.containers["c-1"]
    made.crash()
    assert made.states() == {"c-2": "queued"}, "what it was to run after is long forgotten"


def test_who_is_held_back_when_it_could_begin_lines_up_when_it_is_let_go() -> None:
    made = rig()
    job, containers = make_job(
        1, make_task("a"), make_task("b", size=4, max_running=1, after=("j-1/a",))
    )
    made.submit_job(job, containers)
    for number in range(1001, 1005):
        made.set_priority(f"c-{number}", 0)
    made.exit("c-1000-1")
    assert set(in_state(made, "queued")) == set(ids(1001, 1002, 1003, 1004))
    for number in range(1004, 1000, -1):
        made.set_priority(f"c-{number}", 500)
    assert in_state(made, "running") == ids(1004)
    made.exit("c-1004-1")
    assert in_state(made, "running") == ids(1001)


def test_who_is_cancelled_together_with_what_it_waits_for_is_cancelled_once() -> None:
    """Seed 30: the first of a job that is cancelled took the second with it, which was gone."""
    made = rig()
    made.submit_job(*make_job(1, make_task("a", cpus=100), make_task("b", after=("j-1/a",))))
    made.cancel_job("j-1")
    assert in_state(made, "cancelled") == ids(1000, 1001)
    reasons = [made.containers[each].reason for each in ids(1000, 1001)]
    assert [each.code for each in reasons if each is not None] == ["cancelled", "cancelled"]
    assert made.jobs["j-1"].state is JobState.CANCELLED


def test_a_held_job_starts_nothing_new_and_goes_on_when_released() -> None:
    made = rig(most=1)
    made.submit_job(*make_job(1, make_task(size=10)))
    assert len(in_state(made, "running")) == 8
    made.hold_job("j-1", held=True)
    assert wait_code(made, "c-1009") == "job_held"
    made.exit("c-1000-1")
    assert len(in_state(made, "running")) == 7
    made.crash()
    assert len(in_state(made, "running")) == 7
    assert set(in_state(made, "locked")) == set()
    made.hold_job("j-1", held=False)
    assert len(in_state(made, "running")) == 8


def test_what_runs_of_a_held_job_is_not_started_again_after_a_restart() -> None:
    """Seed 72: what ran when the dispatcher was started anew was forgotten by the hold."""
    made = rig()
    made.submit_job(*make_job(1, make_task(size=1)))
    made.hold_job("j-1", held=True)
    made.crash()
    made.set_priority("c-1000", 0)
    made.exit("c-1000-1", 143)
    made.set_priority("c-1000", 500)
    assert made.states() == {"c-1000": "queued"}
    assert wait_code(made, "c-1000") == "job_held"
    made.hold_job("j-1", held=False)
    assert made.states() == {"c-1000": "running"}


def test_no_job_starts_before_it_was_made_when_the_clock_is_set_back() -> None:
    """Seed 54: a newer process's clock was behind the one that had taken it in."""
    made = rig()
    job, containers = make_job(1, make_task(size=1))
    made.submit_job(replace(job, created_at=made.now + 7200), containers)
    assert made.jobs["j-1"].started_at == made.now + 7200


def test_a_job_that_is_submitted_held_waits() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=2), held=True))
    assert in_state(made, "queued") == ids(1000, 1001)
    made.hold_job("j-1", held=False)
    assert in_state(made, "running") == ids(1000, 1001)


def test_a_cancelled_job_ends_what_runs_and_what_waits() -> None:
    made = rig(most=1)
    made.submit_job(*make_job(1, make_task("a", size=9), make_task("b", after=("j-1/a",))))
    made.cancel_job("j-1")
    running = [id_ for id_, c in made.containers.items() if not c.state.final]
    assert len(running) == 8, "they are being ended"
    assert not made.jobs["j-1"].state.final
    for container_id in running:
        made.exit(f"{container_id}-1", 143)
    assert made.jobs["j-1"].state is JobState.CANCELLED
    assert made.jobs["j-1"].exit_code is None
    assert len(made.engine.table.jobs) == 0


@pytest.mark.parametrize(
    ("codes", "state", "exit_code", "message"),
    [
        ((0, 0), JobState.SUCCEEDED, 0, None),
        ((0, 3), JobState.FAILED, 3, "1 of its 2 containers failed"),
        ((7, 3), JobState.FAILED, 7, "2 of its 2 containers failed"),
    ],
)
def test_how_a_job_ends(
    codes: tuple[int, int], state: JobState, exit_code: int, message: str | None
) -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=2)))
    for index, code in enumerate(codes):
        made.exit(f"c-{1000 + index}-1", code)
    job = made.jobs["j-1"]
    assert (job.state, job.exit_code) == (state, exit_code)
    assert (job.reason.message if job.reason is not None else None) == message
    told = [each.job for each in made.published if isinstance(each, PublishJob)]
    states = [JobState.PENDING, JobState.RUNNING, state]
    assert [each.state for each in told] == states, "not each container"


def test_a_job_whose_first_task_fails_is_failed_not_cancelled() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task("a"), make_task("b", after=("j-1/a",))))
    made.exit("c-1000-1", 5)
    job = made.jobs["j-1"]
    assert (job.state, job.exit_code) == (JobState.FAILED, 5)
    assert job.reason is not None
    assert job.reason.message == "1 of its 2 containers failed, 1 were cancelled"


def test_a_job_may_wait_for_a_job() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=2)))
    made.submit_job(*make_job(2, make_task(after=("j-1",))))
    made.exit("c-1000-1")
    assert made.states()["c-2000"] == "queued"
    made.crash()
    made.exit("c-1001-1")
    assert made.states()["c-2000"] == "running"
    made.submit_job(*make_job(3, make_task(after=("j-1",))))
    assert made.states()["c-3000"] == "running"


def test_who_waits_for_a_job_is_cancelled_when_any_of_it_has_failed() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=2)))
    made.submit_job(*make_job(2, make_task(after=("j-1",))))
    made.exit("c-1000-1", 1)
    assert made.states()["c-2000"] == "queued", "the job has not ended"
    made.exit("c-1001-1")
    assert made.states()["c-2000"] == "cancelled"


def job_of(made: Rig) -> Job:
    job = made.engine.table.jobs.job("j-1")
    assert job is not None
    return job


def test_the_tallies_are_of_today_also_after_a_restart() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task("a", size=3), make_task("b", after=("j-1/a",))))
    made.exit("c-1000-1", 9)
    before = job_of(made)
    assert before.tallies == (Tally(running=2, failed=1), Tally(cancelled=0, queued=1))
    made.crash()
    assert job_of(made).tallies == before.tallies
    made.exit("c-1001-1")
    made.exit("c-1002-1")
    assert made.jobs["j-1"].exit_code == 9, "also the codes of before the restart"


def test_attempts_know_what_they_are_part_of() -> None:
    made = rig()
    task = make_task("a", size=2)
    task = replace(task, spec=replace(task.spec, env=(("A", "b"), ("LONGSHORE_TASK", "x"))))
    made.submit_job(*make_job(1, task))
    made.submit(make_container(7))
    orders = {c.order.container_id: dict(c.order.env) for c in last_commands(made, StartAttempt)}
    assert orders["c-1001"] == {
        "A": "b",
        "LONGSHORE_ARRAY_INDEX": "1",
        "LONGSHORE_ARRAY_SIZE": "2",
        "LONGSHORE_ATTEMPT": "1",
        "LONGSHORE_CONTAINER_ID": "c-1001",
        "LONGSHORE_JOB_ID": "j-1",
        "LONGSHORE_TASK": "a",
    }
    assert orders["c-7"] == {"LONGSHORE_ATTEMPT": "1", "LONGSHORE_CONTAINER_ID": "c-7"}


def test_who_waits_for_its_turn_is_told_how_many_have_theirs() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task(size=3, max_running=2)))
    reason = made.engine.why_waiting("c-1002")
    assert reason is not None
    assert (reason.code, reason.limit) == ("max_running", "max_running")
    assert reason.message.endswith("as may at once (2)")
