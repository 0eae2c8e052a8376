"""Changes, restarts and rounds of updates of per-instance jobs."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Constraints,
    ContainerSpec,
    Retries,
)
from longshore.dispatcher.domain.jobs import UpdateStrategy
from longshore.dispatcher.scheduler.system.model import Block, PastAttempt, Wait
from longshore.dispatcher.scheduler.system.plan import again_at
from longshore.dispatcher.scheduler.system.reconcile import IN_PLACE, changes
from longshore.dispatcher.scheduler.system.rollout import Rollout, Wave
from longshore.drivers.interface import Resources
from tests.rigs.per_instance import (
    ENV,
    kinds_of,
    make_job,
    make_spec,
    running,
)
from tests.samples import make_type

# ---- what changed --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("image", "busybox"),
        ("command", ("other",)),
        ("env", ENV),
        ("resources", Resources(cpu_millis=5)),
    ],
)
def test_what_an_instance_was_told_needs_a_restart(field: str, value: object) -> None:
    old = make_spec()
    new = replace(old, **{field: value})  # type: ignore[arg-type]  # a field of the specification
    assert changes(old, new).restart == (field,)
    assert changes(old, old).restart == ()


def test_the_fields_that_change_in_place_are_fields_and_none_of_the_four() -> None:
    names = {field.name for field in fields(ContainerSpec)}
    assert names >= IN_PLACE
    assert not IN_PLACE & {"image", "command", "env", "resources"}
    old = make_spec()
    new = replace(old, constraints=Constraints(labels=(("a", "b"),)), name="x", image="y")
    assert (changes(old, new).restart, changes(old, new).in_place) == (
        ("image",),
        ("name", "constraints"),
    )


def test_resources_that_come_to_the_same_on_a_type_need_no_restart_there() -> None:
    old = make_spec(cpus=1, unnamed=("cpus",))
    new = make_spec(cpus=2)
    same, other = make_type(4, defaults=(("cpus", 2000),)), make_type(4)
    assert changes(old, new, same).restart == ()
    assert changes(old, new, other).restart == ("resources", "unnamed")
    assert changes(old, new).restart == ("resources", "unnamed")


# ---- restarts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "restarted_at", "delay_s", "due"),
    [
        (AttemptOutcome.FAILED, None, 15.0, 100.0),
        (AttemptOutcome.FAILED, 95.0, 15.0, 110.0),
        (AttemptOutcome.SUCCEEDED, 95.0, 15.0, 110.0),
        (AttemptOutcome.LOST, 95.0, 15.0, 110.0),
        (AttemptOutcome.FAILED, 80.0, 15.0, 100.0),
        (AttemptOutcome.FAILED, 100.0, 0.0, 101.0),
        (AttemptOutcome.PREEMPTED, 95.0, 15.0, 100.0),
        (AttemptOutcome.CANCELLED, 95.0, 15.0, 100.0),
    ],
)
def test_when_an_attempt_is_followed_by_another(
    outcome: AttemptOutcome, restarted_at: float | None, delay_s: float, due: float
) -> None:
    past = PastAttempt(
        id="a",
        job_id="j",
        instance_id="i",
        revision=1,
        outcome=outcome,
        ended_at=100.0,
        restarted_at=restarted_at,
    )
    assert again_at(past, Retries(delay_s=delay_s)) == due


def test_another_revision_waits_for_no_delay_of_the_one_before() -> None:
    made = running(1)
    for _ in range(2):
        made.exit(made.attempts()["i-01"].id)
        made.run()
    assert made.attempts() == {}
    made.revise(env=ENV)
    assert kinds_of(made.step()) == {"PlaceOn": 1}


def test_room_is_kept_for_what_is_started_again_later() -> None:
    made = running(1)
    for _ in range(2):
        made.exit(made.attempts()["i-01"].id)
        made.run()
    assert made.plan().reserved == {"i-01": Resources(cpu_millis=1000)}
    made.submit(make_job(2, spec=make_spec(cpus=4)))
    assert [type(step) for step in made.plan().steps] == [Wait, Block]


# ---- rounds --------------------------------------------------------------------------------------


def test_rounds_are_counted_over_any_stagger_and_over_revisions() -> None:
    made = running(6, max_parallel=2, stagger_s=30.0)
    made.change("i-01", ready=True)
    made.revise(env=ENV)
    for instance_id in sorted(made.hosts)[1:]:
        made.change(instance_id, ready=False)
    made.run()
    made.now = 20.0
    for instance_id in made.hosts:
        made.change(instance_id, ready=True)
    decided = made.run()
    assert made.updates == [(0.0, "j-1", "i-01"), (20.0, "j-1", "i-02")]
    assert decided.next_at == 30.0
    made.revise(env=())
    made.now = 30.0
    assert made.run().next_at == 50.0, "30 s after the round at 20 s"
    assert [at for at, _, _ in made.updates] == [0.0, 20.0, 30.0]


def test_a_round_of_the_future_counts_as_one_of_now_when_the_clock_is_set_back() -> None:
    update = UpdateStrategy(max_parallel=1, stagger_s=30.0)
    rollout = Rollout(rounds=(Wave(began_at=5000.0, updates=1),))
    seen = rollout.at(100.0, update)
    assert (seen.left(update), seen.next_at(update)) == (0, 130.0)
    assert seen.at(130.0, update) == Rollout()
    made = running(1)
    made.revise(env=ENV)
    made.rollouts = {"j-1": rollout}
    decided = made.step()
    assert (kinds_of(decided), decided.next_at) == ({"Wait": 1}, 30.0)
    assert decided.rollouts == {"j-1": Rollout(rounds=(Wave(began_at=0.0, updates=1),))}


def test_what_waits_for_its_round_says_so_and_when() -> None:
    made = running(2, max_parallel=1, stagger_s=30.0)
    made.revise(env=ENV)
    _, wait = made.step().steps
    assert isinstance(wait, Wait)
    assert wait.reason.code == "update_round"
    assert wait.reason.message == (
        "it is updated in its turn, 1 at a time and 30 s apart; the next at 1970-01-01T00:00:30Z"
    )
