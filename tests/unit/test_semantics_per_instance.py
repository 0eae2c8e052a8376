"""Rows of the semantics of per-instance jobs, on the planner alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.jobs import PerInstanceKind
from longshore.dispatcher.scheduler.placement.preemption import PreemptionSettings
from longshore.dispatcher.scheduler.system.apply import stop_reason_of
from longshore.dispatcher.scheduler.system.model import (
    Block,
    Evict,
    Ignore,
    IgnoreCause,
    MarkLost,
    PlaceOn,
    RemovalCause,
    Stop,
    Update,
    UpdateInPlace,
    Wait,
    WaitCause,
)
from longshore.dispatcher.state.attempt_end import in_words
from longshore.drivers.interface import Resources
from tests.rigs.per_instance import (
    DRAIN,
    ENV,
    FOO,
    HELD,
    RUN,
    SYSBATCH,
    SYSTEM,
    WITH_FOO,
    changing,
    kinds_of,
    make_job,
    make_spec,
    revised,
    running,
    world,
)
from tests.samples import make_type

# ---- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SYSTEM, SYSBATCH])
def test_system_on_10_instances_then_an_11th_boots_10_attempts_11_without_resubmission(
    kind: PerInstanceKind,
) -> None:
    made = world(10, make_job(kind=kind))
    assert kinds_of(made.step()) == {"PlaceOn": 10}
    assert len(made.attempts()) == 10
    made.now = 100.0
    made.boot(11)
    assert kinds_of(made.step()) == {"Ignore": 10, "PlaceOn": 1}
    assert len(made.attempts()) == 11


def test_labelled_none_foo_foo_and_foo_held_2_placed_0_queued_0_failures() -> None:
    made = world(1, make_job(spec=make_spec(constraints=FOO)))
    made.boot(2, WITH_FOO)
    made.boot(3, WITH_FOO)
    made.boot(4, WITH_FOO, behavior=HELD)
    decided = made.step()
    assert sorted(made.attempts()) == ["i-02", "i-03"]
    assert kinds_of(decided) == {"PlaceOn": 2}, "nothing waits, and nothing is blocked"
    [report] = decided.reports
    assert (report.open, report.filtered) == (2, (("label role=foo missing", 1),))
    assert [(cause.value, number) for cause, number in report.closed] == [("held", 1)]
    assert report.reason is None


def test_a_system_attempt_that_exits_is_placed_again_there_linked_after_delay_s_from_the_2nd() -> (
    None
):
    made = running()
    first = made.attempts()["i-01"].id
    made.exit(first)
    assert made.plan().steps == (
        PlaceOn(
            job_id="j-1",
            instance_id="i-01",
            previous_id=first,
            resources=Resources(cpu_millis=1000),
        ),
    ), "the first restart comes at once"
    made.run()
    second = made.attempts()["i-01"].id
    made.now = 5.0
    made.exit(second, failed=False)
    decided = made.run()
    assert made.attempts() == {}, "a daemon that ends well is started again too, in its time"
    [wait] = decided.steps
    assert isinstance(wait, Wait)
    assert (wait.cause, wait.until, decided.next_at) == (WaitCause.RESTART, 15.0, 15.0)
    made.now = 14.99
    assert changing(made.run()) == []
    made.now = 15.0
    made.run()
    assert [place.previous_id for place in made.places] == ["", first, second]


def test_a_sysbatch_attempt_that_failed_is_left_alone_and_runs_again_when_env_changed() -> None:
    made = running(2, kind=SYSBATCH)
    made.exit(made.attempts()["i-01"].id, settled=True)
    made.exit(made.attempts()["i-02"].id, settled=True, failed=False)
    made.now = 1000.0
    assert made.run().steps == ()
    made.revise(env=ENV)
    assert [type(step) for step in made.step().steps] == [PlaceOn, PlaceOn]
    assert {place.previous_id for place in made.places[2:]} == {"a-1", "a-2"}


def test_10_instances_env_change_max_parallel_5_stagger_30_5_at_0_s_5_at_30_s_no_third_round() -> (
    None
):
    made = running(10, max_parallel=5, stagger_s=30.0)
    made.revise(env=ENV)
    seen = []
    while True:
        decided = made.run()
        seen.append((made.now, len(made.updates)))
        if decided.next_at is None:
            break
        made.now = decided.next_at
    assert seen == [(0.0, 5), (30.0, 10)]
    assert {where for _, _, where in made.updates} == set(made.hosts)
    assert {attempt.job for attempt in made.attempts().values()} == {made.jobs["j-1"]}
    made.now = 60.0
    assert kinds_of(made.run()) == {"Ignore": 10}


def test_two_full_instances_two_blocked_entries_and_freeing_the_second_places_there_only() -> None:
    made = world(2, make_job(spec=make_spec(cpus=2)))
    made.preempt = made.lowest_first
    full = [made.occupy(each, cpus=4, priority=500) for each in sorted(made.hosts)]
    decided = made.run()
    blocked = [(each.job_id, each.instance_id, each.short_of) for each in decided.blocked]
    assert blocked == [("j-1", "i-01", ("cpus",)), ("j-1", "i-02", ("cpus",))]
    assert [each.reason.code for each in decided.blocked] == ["no_room", "no_room"]
    made.exit(full[1])
    # Those that plan for what changed only find the same.
    assert [type(step) for step in made.plan(only=["i-02"]).steps] == [PlaceOn]
    assert [type(step) for step in made.step().steps] == [Block, PlaceOn]
    assert sorted(made.attempts()) == ["i-02"]


@pytest.mark.parametrize(("gap", "evicted"), [(99, False), (100, True)])
def test_a_system_job_evicts_what_is_100_points_below_and_runs_once_that_has_ended(
    gap: int, evicted: bool
) -> None:
    made = world(1, make_job(priority=700, spec=make_spec(cpus=2)))
    made.preempt = made.lowest_first
    victim = made.occupy("i-01", cpus=4, priority=700 - gap)
    decided = made.step()
    if not evicted:
        assert [type(step) for step in decided.steps] == [Block]
        return
    assert decided.steps == (Evict(job_id="j-1", instance_id="i-01", victims=(victim,)),)
    [wait] = made.step().steps
    assert isinstance(wait, Wait)
    assert wait.cause is WaitCause.ROOM, "nobody else is evicted while it ends"
    made.settle()
    assert [type(step) for step in made.step().steps] == [PlaceOn]


def test_3072_shares_p200_p200_p400_p1000_system_p1000_asks_1948_the_first_3_are_evicted() -> None:
    type_ = replace(make_type(4), resources=Resources(cpu_millis=3072))
    made = world(1, make_job(priority=1000, spec=make_spec(cpus=1.948)), type_=type_)
    evicted = [made.occupy("i-01", cpus=c, priority=p) for p, c in ((200, 0.512), (200, 0.512))]
    evicted.append(made.occupy("i-01", cpus=1.024, priority=400))
    last = made.occupy("i-01", cpus=1.024, priority=1000)
    made.preempt = made.preemption(PreemptionSettings())
    [step] = made.step().steps
    assert isinstance(step, Evict)
    assert sorted(step.victims) == evicted
    made.settle()
    made.run()
    assert [attempt.id for attempt in made.on("i-01")] == [made.attempts()["i-01"].id, last]


@pytest.mark.parametrize(
    ("kind", "settings", "evicts"),
    [
        (SYSTEM, PreemptionSettings(), True),
        (SYSTEM, PreemptionSettings(system=False), False),
        (SYSBATCH, PreemptionSettings(), False),
        (SYSBATCH, PreemptionSettings(sysbatch=True), True),
    ],
)
def test_preemption_is_on_for_system_and_a_switch_for_sysbatch(
    kind: PerInstanceKind, settings: PreemptionSettings, evicts: object
) -> None:
    made = world(1, make_job(priority=1000, kind=kind, spec=make_spec(cpus=2)))
    made.occupy("i-01", cpus=4, priority=100)
    made.preempt = made.preemption(settings)
    assert isinstance(made.step().steps[0], Evict) == evicts


def test_a_sysbatch_attempt_that_has_retries_left_is_tried_again_and_a_daemon_always() -> None:
    made = running(1, kind=SYSBATCH)
    made.exit(made.attempts()["i-01"].id)
    assert [type(step) for step in made.step().steps] == [PlaceOn]
    daemon = running(1)
    daemon.exit(daemon.attempts()["i-01"].id, settled=True)
    assert [type(step) for step in daemon.step().steps] == [PlaceOn]


# ---- the rules for a live attempt, in their order ------------------------------------------------


def test_an_attempt_whose_instance_is_gone_is_lost_before_all_else() -> None:
    made = running(2)
    made.submit(replace(revised(made.jobs["j-1"], env=ENV), stopped=True))
    made.vanish("i-01")
    assert [(type(step), step.instance_id) for step in made.step().steps] == [
        (MarkLost, "i-01"),
        (Stop, "i-02"),
    ]
    made.settle()
    assert made.run().steps == ()


@pytest.mark.parametrize("how", ["stopped", "no longer there"])
def test_attempts_of_a_stopped_job_are_stopped_also_on_a_held_instance(how: str) -> None:
    made = running(2)
    made.change("i-02", behavior=HELD)
    if how == "stopped":
        made.submit(replace(made.jobs["j-1"], stopped=True))
    else:
        made.jobs.clear()
    decided = made.step()
    cause = RemovalCause.JOB_STOPPED if how == "stopped" else RemovalCause.JOB_GONE
    assert [step.cause for step in decided.steps if isinstance(step, Stop)] == [cause] * 2
    made.settle()
    assert made.run().steps == ()


def test_where_the_instance_no_longer_matches_the_attempt_is_stopped_and_not_updated() -> None:
    made = running(2)
    made.change("i-01", type=WITH_FOO)
    made.revise(env=ENV, constraints=FOO)
    decided = made.step()
    stops = [step for step in decided.steps if isinstance(step, Stop)]
    assert [(each.instance_id, each.cause) for each in stops] == [("i-02", RemovalCause.NO_MATCH)]
    said = in_words(stop_reason_of(stops[0]))
    assert said == "its instance no longer matches: label role=foo missing"
    assert [step.instance_id for step in decided.steps if isinstance(step, Update)] == ["i-01"]


def test_node_draining_per_instance_jobs_are_stopped_last_after_the_batch_work_has_gone() -> None:
    made = running()
    batch = made.occupy("i-01", cpus=1)
    made.change("i-01", behavior=DRAIN)
    made.revise(env=ENV)
    [step] = made.step().steps
    assert isinstance(step, Ignore)
    assert step.cause is IgnoreCause.DRAINING
    made.exit(batch)
    [stop] = made.step().steps
    assert isinstance(stop, Stop)
    assert (stop.cause, in_words(stop_reason_of(stop))) == (
        RemovalCause.NODE_DRAINING,
        "node draining",
    )
    made.settle()
    assert made.run().steps == (), "and nothing is placed there again"


def test_node_draining_left_alone_with_ignore_system() -> None:
    made = running(ignore_system=True)
    made.change("i-01", behavior=DRAIN)
    [step] = made.step().steps
    assert isinstance(step, Ignore)
    assert step.cause is IgnoreCause.DRAINING


def test_a_change_that_needs_a_restart_is_a_stop_and_a_place_linked_to_the_one_before() -> None:
    made = running()
    old = made.attempts()["i-01"].id
    made.revise(env=ENV, command=("serve", "--more"))
    assert made.step().steps == (
        Update(job_id="j-1", instance_id="i-01", attempt_id=old, fields=("command", "env")),
    )
    [step] = made.step().steps
    assert isinstance(step, Ignore)
    assert step.cause is IgnoreCause.ENDING, "nothing is placed beside what still ends"
    made.settle()
    made.run()
    assert made.places[-1].previous_id == old
    assert made.attempts()["i-01"].job == made.jobs["j-1"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"labels": (("team", "x"),)}, ("labels",)),
        ({"priority": 900}, ()),
        ({"name": "other"}, ("name",)),
    ],
)
def test_any_other_change_is_an_update_in_place_of_the_same_attempt(
    fields: dict[str, object], named: tuple[str, ...]
) -> None:
    made = running()
    old = made.attempts()["i-01"].id
    made.revise(**fields)
    assert made.step().steps == (
        UpdateInPlace(job_id="j-1", instance_id="i-01", attempt_id=old, fields=named),
    )
    assert kinds_of(made.run()) == {"Ignore": 1}
    assert made.attempts()["i-01"].id == old


def test_in_place_updates_do_not_count_for_max_parallel_and_stagger() -> None:
    made = running(10, max_parallel=1)
    made.revise(labels=(("team", "x"),))
    decided = made.step()
    assert (kinds_of(decided), decided.next_at) == ({"UpdateInPlace": 10}, None)
    made.revise(env=ENV)
    assert kinds_of(made.step()) == {"Update": 1, "Wait": 9}


def test_a_held_instances_attempts_are_left_alone_and_stopped_never_updated_when_revised() -> None:
    made = running(2)
    made.change("i-01", behavior=HELD)
    [held, _] = made.step().steps
    assert isinstance(held, Ignore)
    assert held.cause is IgnoreCause.HELD
    for fields in ({"env": ENV}, {"labels": (("team", "x"),)}):
        other = running()
        other.change("i-01", behavior=HELD)
        other.revise(**fields)
        [stop] = other.step().steps
        assert isinstance(stop, Stop)
        assert stop.cause is RemovalCause.REVISED_WHILE_HELD
        other.settle()
        assert other.run().steps == (), "and nothing new is placed there"
        other.change("i-01", behavior=RUN)
        assert kinds_of(other.step()) == {"PlaceOn": 1}
