"""The planner of per-instance jobs: where attempts live, room that is promised, who makes way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.scheduler.system.capacity import taken_of_new_instance
from longshore.dispatcher.scheduler.system.dry_run_counts import price_change
from longshore.dispatcher.scheduler.system.model import (
    Block,
    Evict,
    Ignore,
    IgnoreCause,
    PlaceOn,
    RemovalCause,
    RoomRequest,
    Stop,
    Update,
    Victim,
    Wait,
    WaitCause,
)
from longshore.dispatcher.scheduler.system.plan import plan
from longshore.drivers.errors import BugError
from longshore.drivers.interface import Resources
from tests.rigs.per_instance import (
    DRAIN,
    ENV,
    SYSBATCH,
    kinds_of,
    make_job,
    make_spec,
    revised,
    running,
    world,
)
from tests.samples import make_type

# ---- attempts ------------------------------------------------------------------------------------


def test_of_two_attempts_in_one_place_the_later_revision_stays() -> None:
    made = running(1)
    first = made.attempts()["i-01"]
    made.revise(env=ENV)
    made.all_attempts["a-0"] = replace(first, id="a-0", job=made.jobs["j-1"])
    steps = made.plan().steps
    assert [(type(step), getattr(step, "attempt_id", "")) for step in steps] == [
        (Stop, first.id),
        (Ignore, "a-0"),
    ]
    assert isinstance(steps[0], Stop)
    assert steps[0].cause is RemovalCause.SUPERFLUOUS


def test_nothing_is_updated_or_placed_on_an_instance_that_is_not_ready_or_going_away() -> None:
    for change, cause in (
        ({"ready": False}, IgnoreCause.NOT_READY),
        ({"going_away": True}, IgnoreCause.GOING_AWAY),
    ):
        made = running(1)
        made.boot(2)
        made.revise(env=ENV)
        for instance_id in made.hosts:
            made.change(instance_id, **change)
        [step] = made.plan().steps
        assert isinstance(step, Ignore)
        assert step.cause is cause


def test_a_job_for_paused_instances_lives_on_a_draining_one_as_long_as_batch_work_does() -> None:
    made = running(1, on_paused=True)
    batch = made.occupy("i-01", cpus=1)
    made.change("i-01", behavior=DRAIN)
    made.revise(env=ENV)
    assert kinds_of(made.run()) == {"Ignore": 1}
    assert len(made.updates) == 1, "it is updated like anywhere"
    made.exit(batch)
    [stop] = made.step().steps
    assert isinstance(stop, Stop)
    made.settle()
    assert made.run().steps == (), "it is not placed and stopped in turns"


def test_of_several_ended_attempts_the_latest_counts() -> None:
    made = running(1, kind=SYSBATCH)
    attempt = made.attempts()["i-01"]
    made.now = 9.0
    made.exit(attempt.id, settled=True)
    latest = made.past["j-1", "i-01"]
    older = replace(latest, id="a-0", ended_at=3.0, settled=False)
    for past in ([older, latest], [latest, older]):
        assert plan(replace(made.snapshot(), past=past)).steps == ()


# ---- room ----------------------------------------------------------------------------------------


def test_what_is_too_small_even_when_empty_says_so_for_ever_and_holds_no_update_up() -> None:
    made = running(2, max_parallel=1)
    made.change("i-01", type=make_type(1, name="t1"))
    made.revise(resources=Resources(cpu_millis=2000, memory_bytes=10**15))
    first, second = made.plan().steps
    assert isinstance(first, Block)
    assert isinstance(second, Block)
    assert (first.short_of, first.reason.is_final) == (("cpus", "memory"), True)
    assert first.reason.message == "i-01, a t1, is too small in cpus and memory even when empty"
    assert second.short_of == ("memory",)


def test_what_is_too_small_is_told_before_its_round_has_come() -> None:
    made = running(2, max_parallel=1)
    made.change("i-02", type=make_type(1, name="t1"))
    made.revise(resources=Resources(cpu_millis=2000))
    assert [type(step) for step in made.step().steps] == [Update, Block]


def test_a_new_instance_is_filled_with_the_higher_jobs_first() -> None:
    jobs = [
        make_job(1, spec=make_spec(cpus=3), priority=100),
        make_job(2, spec=make_spec(cpus=2), priority=200),
    ]
    assert taken_of_new_instance(jobs, make_type(4)) == Resources(cpu_millis=2000)


def test_the_higher_job_has_its_place_first_and_the_lower_is_told_what_lacks() -> None:
    made = world(1, make_job(1, spec=make_spec(cpus=3), priority=100))
    made.submit(make_job(2, spec=make_spec(cpus=3), priority=101))
    decided = made.step()
    assert [(step.job_id, type(step)) for step in decided.steps] == [
        ("j-2", PlaceOn),
        ("j-1", Block),
    ]
    assert decided.blocked[0].reason.message == "i-01 is short of cpus, and nothing there makes way"


def test_jobs_of_no_cpus_share_one() -> None:
    made = world(1, *(make_job(n, spec=make_spec(cpus=0)) for n in (1, 2, 3)))
    made.submit(make_job(4, spec=make_spec(cpus=3)))
    made.submit(make_job(5, spec=make_spec(cpus=0.1)))
    assert kinds_of(made.run()) == {"Block": 1, "Ignore": 4}


def test_a_cpu_that_is_shared_already_is_shared_with_a_job_of_no_cpus() -> None:
    made = world(1)
    made.occupy("i-01", cpus=0)
    made.occupy("i-01", cpus=3)
    made.submit(make_job(spec=make_spec(cpus=0)))
    assert [type(step) for step in made.step().steps] == [PlaceOn]


def test_a_held_job_is_told_what_it_would_get_and_takes_no_room() -> None:
    made = running(2, spec=make_spec(cpus=3), priority=100)
    made.preempt = made.lowest_first
    made.revise(labels=(("a", "b"),))
    made.submit(make_job(2, spec=make_spec(cpus=3), priority=900, held=True))
    assert kinds_of(made.plan()) == {"Evict": 2, "UpdateInPlace": 2}
    assert made.plan().reserved == {}


def test_nothing_is_reserved_where_more_comes_free_than_is_promised() -> None:
    made = running(1, spec=make_spec(cpus=3))
    made.submit(replace(made.jobs["j-1"], stopped=True))
    assert made.step().reserved == {}


def test_what_is_told_to_end_counts_as_room_to_come_and_keeps_its_successors() -> None:
    made = running(1, spec=make_spec(cpus=3), priority=600)
    made.revise(env=ENV)
    made.submit(make_job(2, spec=make_spec(cpus=2), priority=100))
    made.step()
    assert [type(step) for step in made.step().steps] == [Ignore, Block]
    made.submit(replace(made.jobs["j-1"], stopped=True))
    [_, wait] = made.step().steps
    assert isinstance(wait, Wait)
    assert (wait.cause, wait.until) == (WaitCause.ROOM, None)
    made.settle()
    assert [type(step) for step in made.step().steps] == [PlaceOn]


def test_a_stop_of_this_plan_counts_as_room_to_come_for_a_higher_job() -> None:
    made = running(1, spec=make_spec(cpus=3), priority=100)
    made.preempt = made.lowest_first
    made.occupy("i-01", cpus=1, priority=0)
    made.submit(replace(made.jobs["j-1"], stopped=True))
    made.submit(make_job(2, spec=make_spec(cpus=3), priority=900))
    assert kinds_of(made.step()) == {"Stop": 1, "Wait": 1}


def test_an_update_that_grows_promises_the_room_that_its_successor_takes() -> None:
    made = running(1, spec=make_spec(cpus=1), priority=900)
    made.revise(resources=Resources(cpu_millis=3000))
    made.submit(make_job(2, spec=make_spec(cpus=2), priority=100))
    decided = made.step()
    assert [type(step) for step in decided.steps] == [Update, Block]
    assert decided.reserved == {"i-01": Resources(cpu_millis=2000)}
    assert made.plan().reserved == {"i-01": Resources(cpu_millis=2000)}, "while the old one ends"


def test_an_update_that_shrinks_gives_nothing_away_before_the_old_one_has_ended() -> None:
    made = running(1, spec=make_spec(cpus=3), priority=900)
    made.revise(resources=Resources(cpu_millis=1000))
    made.submit(make_job(2, spec=make_spec(cpus=2), priority=100))
    assert kinds_of(made.step()) == {"Update": 1, "Wait": 1}
    made.settle()
    assert kinds_of(made.step()) == {"PlaceOn": 2}


# ---- who makes way -------------------------------------------------------------------------------


def test_a_job_of_its_own_kind_is_evicted_too_and_placed_again_where_there_is_room() -> None:
    made = running(1, spec=make_spec(cpus=3), priority=100)
    made.preempt = made.lowest_first
    low = made.attempts()["i-01"].id
    made.revise(env=ENV)
    made.submit(make_job(2, spec=make_spec(cpus=3), priority=900))
    evict, ignore = made.step().steps
    assert isinstance(evict, Evict)
    assert evict.victims == (low,)
    assert isinstance(ignore, Ignore)
    assert ignore.cause is IgnoreCause.EVICTED, "it is not updated as well"
    made.settle()
    assert [(type(step), step.job_id) for step in made.step().steps] == [
        (PlaceOn, "j-2"),
        (Block, "j-1"),
    ]


def test_nobody_is_evicted_who_had_their_turn_or_twice() -> None:
    seen: list[RoomRequest] = []

    def ask(request: RoomRequest) -> Sequence[Victim] | None:
        seen.append(request)
        return made.lowest_first(request)

    made = running(1, spec=make_spec(cpus=1), priority=100)
    made.preempt = ask
    batch = made.occupy("i-01", cpus=3, priority=50)
    # Its attempt has the old priority until this plan is carried out.
    made.revise(priority=950)
    made.submit(make_job(2, spec=make_spec(cpus=2), priority=900))
    made.submit(make_job(3, spec=make_spec(cpus=2), priority=800))
    decided = made.step()
    assert [type(step).__name__ for step in decided.steps] == ["UpdateInPlace", "Evict", "Block"]
    own = made.attempts()["i-01"].id
    assert [request.spared for request in seen] == [frozenset({own}), frozenset({own, batch})]
    assert [request.room.cpu_millis for request in seen] == [0, 1000]


def test_room_for_an_update_is_made_in_its_round_and_not_everywhere_at_once() -> None:
    made = running(3, spec=make_spec(cpus=1), priority=900, max_parallel=1)
    made.preempt = made.lowest_first
    for instance_id in made.hosts:
        made.occupy(instance_id, cpus=3, priority=100)
    made.revise(resources=Resources(cpu_millis=2000))
    decided = made.step()
    assert kinds_of(decided) == {"Evict": 1, "Wait": 2}
    assert decided.next_at is None, "what ends is an event"
    assert kinds_of(made.step()) == {"Wait": 3}
    made.settle()
    assert kinds_of(made.step()) == {"Update": 1, "Wait": 2}
    assert made.plan().next_at == 30.0


@pytest.mark.parametrize(
    ("victims", "why"),
    [
        ([Victim(attempt_id="c-1", resources=Resources(cpu_millis=1))], "no room on i-01"),
        ([Victim(attempt_id="a-2", resources=Resources(cpu_millis=4000))], "spared"),
    ],
)
def test_an_eviction_that_makes_no_room_or_takes_the_wrong_ones_is_a_bug(
    victims: list[Victim], why: str
) -> None:
    made = world(1)
    made.occupy("i-01", cpus=3)
    made.submit(make_job(priority=900))
    made.run()
    made.submit(revised(made.jobs["j-1"], resources=Resources(cpu_millis=4000)))
    made.preempt = lambda request: victims  # noqa: ARG005 - whoever asks
    with pytest.raises(BugError, match=why):
        made.plan()


def test_what_a_plan_may_cost_is_an_instance_for_each_of_the_evicted_and_nothing_at_least() -> None:
    made = world(2, make_job(priority=900, spec=make_spec(cpus=4)))
    made.preempt = made.lowest_first
    made.occupy("i-01", cpus=2, priority=100)
    made.occupy("i-01", cpus=2, priority=100)
    made.occupy("i-02", cpus=1, priority=801)
    prices = {"c-1": Decimal("0.25"), "c-2": None}
    change = price_change(made.plan(), prices.__getitem__)
    assert (change.least_usd_per_hour, change.most_usd_per_hour) == (Decimal(0), Decimal("0.25"))


# ---- jobs without any instance -------------------------------------------------------------------


def test_a_job_without_an_instance_that_takes_it_is_told_why() -> None:
    made = world(0, make_job())
    made.submit(make_job(2, stopped=True))
    [report] = made.plan().reports
    assert report.reason is not None
    assert report.reason.code == "no_instances"
    made.boot(1, ready=False)
    made.boot(2, behavior=DRAIN)
    [report] = made.plan().reports
    assert report.reason is not None
    assert (report.reason.code, report.reason.message) == (
        "all_closed",
        "nothing new is placed on any instance that matches: draining (1), not ready (1)",
    )
