"""Rows of the semantics of per-instance jobs: places, and plans that are shown or rejected."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import Constraints
from longshore.dispatcher.scheduler.system.capacity import taken_of_new_instance
from longshore.dispatcher.scheduler.system.dry_run_counts import counts
from longshore.dispatcher.scheduler.system.model import Block, Ignore, PerInstanceJob, Update
from longshore.dispatcher.scheduler.system.rollout import RestartAttempts, RestartVerdict, TryResult
from longshore.drivers.interface import Resources
from tests.rigs.per_instance import (
    DRAIN,
    ENV,
    FOO,
    HELD,
    SYSBATCH,
    SYSTEM,
    WITH_FOO,
    World,
    make_job,
    make_spec,
    revised,
    running,
    world,
)
from tests.samples import make_type

# ---- where there is none -------------------------------------------------------------------------


@pytest.mark.parametrize("behavior", [HELD, DRAIN])
def test_nothing_new_is_placed_on_a_held_or_draining_instance_unless_the_job_says_so(
    behavior: object,
) -> None:
    for on_paused, placed in ((False, []), (True, ["i-01"])):
        made = world(1, make_job(on_paused=on_paused))
        made.occupy("i-01", cpus=1)
        made.change("i-01", behavior=behavior)
        made.run()
        assert sorted(made.attempts()) == placed


def test_an_instance_that_joins_later_gets_no_job_that_takes_no_late_joiners() -> None:
    made = world(1, make_job(kind=SYSBATCH, late_joiners=False))
    made.now = 10.0
    made.boot(2)
    decided = made.step()
    assert sorted(made.attempts()) == ["i-01"]
    assert [(c.value, n) for c, n in decided.reports[0].closed] == [("joined after the job", 1)]
    made.revise(env=ENV)
    made.run()
    assert sorted(made.attempts()) == ["i-01", "i-02"], "it was there when the job was revised"


def test_their_resources_are_subtracted_when_a_type_is_chosen_for_batch_work() -> None:
    jobs = [
        make_job(1, spec=make_spec(cpus=1)),
        make_job(2, spec=make_spec(cpus=0.5), kind=SYSBATCH),
        make_job(3, spec=make_spec(cpus=3), priority=1),
        make_job(4, spec=make_spec(cpus=1, constraints=FOO)),
        make_job(5, stopped=True),
        make_job(6, late_joiners=False),
    ]
    assert taken_of_new_instance(jobs, make_type(4)) == Resources(cpu_millis=1500)
    assert taken_of_new_instance(jobs, WITH_FOO) == Resources(cpu_millis=2500)
    assert taken_of_new_instance(jobs, make_type(8)) == Resources(cpu_millis=4500)


def test_fit_is_checked_before_a_destructive_stop() -> None:
    made = running(2, max_parallel=5)
    batch = made.occupy("i-01", cpus=2)
    made.revise(resources=Resources(cpu_millis=3000))
    decided = made.step()
    assert [(type(step), step.instance_id) for step in decided.steps] == [
        (Block, "i-01"),
        (Update, "i-02"),
    ]
    assert decided.blocked[0].attempt_id == made.attempts()["i-01"].id, "it runs on"
    made.settle()
    made.exit(batch)
    assert [type(step) for step in made.run().steps] == [Ignore, Ignore]
    assert len(made.updates) == 2, "free room and what the old one gives back are enough"


def test_a_constraint_that_filters_everything_is_reported_as_such() -> None:
    wanted = Constraints(labels=(("role", "foo"),), instance_types=("t4", "t4foo"))
    made = world(3, make_job(spec=make_spec(constraints=wanted)))
    made.boot(4, make_type(2))
    decided = made.step()
    [report] = decided.reports
    assert decided.steps == ()
    assert report.filtered == (
        ("label role=foo missing", 3),
        ("not among the wanted instance_types", 1),
    )
    assert report.reason is not None
    assert report.reason.code == "all_filtered"
    assert report.reason.message == (
        "the job's demands filter every one of 4 instances: label role=foo missing (3), "
        "not among the wanted instance_types (1)"
    )
    made.boot(5, WITH_FOO)
    assert made.step().reports[0].reason is None


# ---- plans that are rejected, and those that are only shown --------------------------------------


@pytest.mark.parametrize(("kind", "retries"), [(SYSTEM, 5), (SYSBATCH, 2)])
def test_a_stale_plan_is_retried_5_times_system_2_sysbatch_anew_after_progress_then_failed(
    kind: object, retries: int
) -> None:
    tries = RestartAttempts(kind=kind)  # type: ignore[arg-type]  # one of the two kinds
    for _ in range(retries):
        tries = tries.after(TryResult.REJECTED, "stale")
        assert tries.verdict is RestartVerdict.AGAIN
    tries = tries.after(TryResult.PROGRESSED)
    for _ in range(retries - 1):
        tries = tries.after(TryResult.REJECTED, "stale")
        assert tries.verdict is RestartVerdict.AGAIN
    assert tries.after(TryResult.ACCEPTED).verdict is RestartVerdict.DONE
    tries = tries.after(TryResult.REJECTED, "i-1 is gone")
    assert tries.verdict is RestartVerdict.FAILED
    assert tries.reason is not None
    assert (tries.reason.code, tries.reason.message) == (
        "plan_rejected",
        f"its plan was tried again {retries} times without progress: i-1 is gone",
    )


def everything() -> tuple[World, PerInstanceJob]:
    """Return a world in which a job's next revision comes to something of every kind."""
    made = running(6, priority=700, max_parallel=1)
    made.preempt = made.lowest_first
    made.change("i-03", behavior=DRAIN)
    made.change("i-04", behavior=HELD)
    made.vanish("i-05")
    made.boot(7)
    made.boot(8, make_type(2, name="small"))
    made.occupy("i-08", cpus=2, priority=100)
    made.boot(9, make_type(2, name="small"))
    made.occupy("i-09", cpus=2, priority=700)
    return made, revised(made.jobs["j-1"], env=ENV)


def test_longshore_plan_shows_the_counts_and_changes_nothing() -> None:
    made, job = everything()
    made.submit(job)
    before = made.snapshot()
    shown = counts(made.plan())["j-1"]
    assert made.snapshot() == before
    numbers = {name: getattr(shown, name) for name in type(shown).__slots__}
    assert numbers == {
        "place": 2,
        "update": 3,
        "in_place": 0,
        "stop": 1,
        "migrate": 1,
        "ignore": 0,
        "lost": 1,
        "preempt": 1,
        "blocked": 1,
        "later": 3,
    }
    made.run()
    again = counts(made.plan())["j-1"]
    assert (again.ignore, again.update, again.blocked) == (3, 2, 1)
