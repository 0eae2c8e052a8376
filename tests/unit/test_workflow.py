"""What waits for what in the engine: on which end, over restarts, and down a long line."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import Dependency, DependencyOn
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.domain.messages import CompletionsWatched, Submitted
from tests.job_samples import make_job, make_task
from tests.rigs.workflow import in_state, rig, wait_code
from tests.samples import make_container

END = DependencyOn.END


# ---- after ---------------------------------------------------------------------------------------


def test_who_waits_for_a_container_starts_when_it_succeeded() -> None:
    made = rig()
    made.submit(make_container(1))
    made.submit(make_container(2, after=(Dependency(of="c-1"),)))
    assert made.states() == {"c-1": "running", "c-2": "queued"}
    assert wait_code(made, "c-2") == "after"
    reason = made.engine.why_waiting("c-2")
    assert reason is not None
    assert (reason.behind, reason.message) == ("c-1", "it waits for c-1 to succeed")
    made.exit("c-1-1")
    assert made.states() == {"c-1": "succeeded", "c-2": "running"}


@pytest.mark.parametrize(
    ("on", "code", "state"),
    [
        (DependencyOn.SUCCESS, 3, "cancelled"),
        (DependencyOn.END, 3, "running"),
        (DependencyOn.END, 0, "running"),
    ],
)
def test_which_end_counts(on: DependencyOn, code: int, state: str) -> None:
    made = rig()
    made.submit(make_container(1))
    made.submit(make_container(2, after=(Dependency(of="c-1", on=on),)))
    made.exit("c-1-1", code)
    assert made.states()["c-2"] == state
    if state == "cancelled":
        reason = made.containers["c-2"].reason
        assert reason is not None
        assert reason.code == "dependency_failed"
        assert reason.message == "it was to run after c-1, which did not succeed"


def test_what_had_ended_before_counts_too_and_what_nobody_knows_never_comes() -> None:
    made = rig()
    made.submit(make_container(1), make_container(2))
    made.exit("c-1-1")
    made.exit("c-2-1", 1)
    made.submit(
        make_container(3, after=(Dependency(of="c-1"),)),
        make_container(4, after=(Dependency(of="c-2"),)),
        make_container(5, after=(Dependency(of="c-99"),)),
    )
    states = made.states()
    assert (states["c-3"], states["c-4"], states["c-5"]) == ("running", "cancelled", "cancelled")


def test_a_restart_that_is_retried_does_not_release_who_waits() -> None:
    made = rig()
    made.submit(make_container(1))
    made.submit(make_container(2, after=(Dependency(of="c-1", on=END),)))
    made.set_priority("c-1", 0)
    made.exit("c-1-1", 143)
    assert made.states() == {"c-1": "queued", "c-2": "queued"}, "preempted is no end"


def test_who_waits_for_two_waits_for_both() -> None:
    made = rig()
    made.submit(make_container(1), make_container(2))
    made.submit(make_container(3, after=(Dependency(of="c-1"), Dependency(of="c-2"))))
    reason = made.engine.why_waiting("c-3")
    assert reason is not None
    assert reason.message == "it waits for c-1 to succeed, and for 1 more"
    made.exit("c-2-1")
    assert made.states()["c-3"] == "queued"
    made.exit("c-1-1")
    assert made.states()["c-3"] == "running"


def test_a_long_chain_is_cancelled_to_its_end_without_a_deep_stack() -> None:
    made = rig()
    made.submit(make_container(1))
    tasks = [make_task("t0", after=("c-1",))]
    tasks += [make_task(f"t{n}", after=(f"j-5/t{n - 1}",)) for n in range(1, 3000)]
    made.submit_job(*make_job(5, *tasks))
    made.exit("c-1-1", 1)
    assert len(in_state(made, "cancelled")) == 3000
    assert made.jobs["j-5"].state is JobState.CANCELLED


def test_cancelling_one_that_is_waited_for_cancels_who_waits_for_its_success() -> None:
    made = rig()
    made.submit(make_container(1))
    made.submit(make_container(2, after=(Dependency(of="c-1"),)))
    made.submit(make_container(3, after=(Dependency(of="c-2", on=END),)))
    made.cancel("c-2")
    assert made.states()["c-3"] == "running"
    made.submit(make_container(4, after=(Dependency(of="c-3"),)))
    made.cancel("c-3")
    made.exit("c-3-1", 143)
    assert made.states()["c-4"] == "cancelled"


def test_a_restart_of_the_dispatcher_forgets_no_dependency() -> None:
    made = rig()
    made.submit(make_container(1), make_container(2))
    made.submit(make_container(3, after=(Dependency(of="c-1"), Dependency(of="c-2"))))
    made.exit("c-1-1")
    made.crash()
    assert made.states()["c-3"] == "queued"
    assert wait_code(made, "c-3") == "after"
    made.exit("c-2-1")
    assert made.states()["c-3"] == "running"


def test_an_end_that_was_decided_and_a_crash_before_who_waits_was_told() -> None:
    made = rig()
    made.submit(make_container(1))
    made.submit(make_container(2, after=(Dependency(of="c-1"),)))
    made.submit(make_container(3, after=(Dependency(of="c-1"),), cpus=100))
    made.exit("c-1-1", 1)
    assert made.states()["c-2"] == "cancelled"
    made.containers["c-2"] = make_container(2, after=(Dependency(of="c-1"),))
    made.crash()
    assert made.states()["c-2"] == "cancelled", "it follows again from what is stored"


def test_what_ends_between_the_look_up_and_the_submission_is_remembered() -> None:
    made = rig()
    made.submit(make_container(1))
    made.send(CompletionsWatched(roots=("c-1",)))
    looked_up: dict[str, bool] = {}
    made.exit("c-1-1")
    late = make_container(2, after=(Dependency(of="c-1"),))
    made.containers[late.id] = late
    made.send(Submitted(containers=(late,), ended=looked_up))
    assert made.states()["c-2"] == "running"
    assert made.engine.workflow._watched == {}
