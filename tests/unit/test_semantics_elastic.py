"""Rows of the elastic jobs' semantics: the pass, its modes, its scenarios."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.scheduler.elastic.model import (
    Component,
    ElasticPlan,
    ElasticView,
    MemberPlace,
    MemberStop,
)
from longshore.dispatcher.scheduler.elastic.order import progress_per_s, progressed, remaining_s
from longshore.dispatcher.scheduler.elastic.schedule import plan_elastic
from longshore.drivers.interface import Resources
from tests.rigs.elastic import (
    applied,
    changes_something,
    counts,
    elastic,
    essential,
    make_job,
    running,
    turnarounds_s,
    view_of,
)
from tests.samples import GIB, make_type

BACKFILL = ElasticSettings(backfill=True)


def after(view: ElasticView, now: float = 0.0) -> dict[str, tuple[int, int]]:
    """Return how many essential and elastic members each job has once a pass is carried out."""
    plan = plan_elastic(view, now)
    return counts(applied(job, plan, now) for job in view.jobs)


def codes(plan: ElasticPlan) -> dict[str, str]:
    return {job_id: why.code for job_id, why in plan.waiting}


def of_cpus(component: Component, cpus: int) -> Component:
    """Return a component whose members are so many units large."""
    return replace(component, resources=Resources(cpu_millis=1000 * cpus, memory_bytes=cpus * GIB))


# ---- the table -----------------------------------------------------------------------------------


def test_2_essential_6_elastic_of_1_unit_capacity_5_then_8_gives_2_and_3_then_2_and_6() -> None:
    job = make_job(1, essential(2), elastic(6))
    small = view_of(job, cpus=(5,))
    plan = plan_elastic(small, 0.0)
    assert counts([applied(job, plan, 0.0)]) == {"j-1": (2, 3)}
    assert codes(plan) == {"j-1": "grows"}
    told = dict(plan.waiting)["j-1"].message
    assert told == "its job runs, and starts 3 components more as soon as there is room"
    assert after(view_of(applied(job, plan, 0.0), cpus=(8,))) == {"j-1": (2, 6)}


def test_essentials_need_3_units_capacity_2_nothing_starts() -> None:
    plan = plan_elastic(view_of(make_job(1, essential(3), elastic(1)), cpus=(2,)), 0.0)
    assert not changes_something(plan)
    assert codes(plan) == {"j-1": "no_room"}
    assert plan.waiting[0][1].message == (
        "room for 2 of its 3 essential components; the next is e, and the nearest instance is"
        " short of cpus and memory"
    )


@pytest.mark.parametrize(
    ("mode", "ends"),
    [
        (ElasticMode.RIGID, [10, 20, 30, 40]),
        # At 0 the first has all 7, the second 3 of 6. At 10 the second has 6 and half of it to do,
        # the third 4 of 8. At 15 the third has 7 of 8 and 3/4 to do, the fourth 3 of 5: it ends
        # after 60/7 s more, at 165/7. Then the fourth has all 5 and 17/35 to do, in 34/7 s.
        # Nobody gives back anything here that was running, so the two modes are the same.
        (ElasticMode.MALLEABLE, [10, 15, 165 / 7, 199 / 7]),
        (ElasticMode.FLEXIBLE, [10, 15, 165 / 7, 199 / 7]),
    ],
)
def test_capacity_10_four_jobs_of_10_s_3_essential_elastic_4_3_5_2_fifo(
    mode: ElasticMode, ends: list[float]
) -> None:
    jobs = [
        make_job(number, essential(3), elastic(extras), runtime_s=10.0)
        for number, extras in enumerate((4, 3, 5, 2), 1)
    ]
    one = (("i-1", make_type(10)),)
    assert turnarounds_s(jobs, mode, ElasticSettings(), one) == pytest.approx(ends)


# ---- the pass ------------------------------------------------------------------------------------


def test_elastic_ones_placed_in_this_pass_are_set_aside_for_the_essential_ones_of_the_next() -> (
    None
):
    jobs = [make_job(n, essential(3), elastic(6)) for n in (1, 2)]
    assert after(view_of(*jobs)) == {"j-1": (3, 4), "j-2": (3, 0)}


def test_elastic_ones_are_put_back_in_order_as_they_fit() -> None:
    jobs = [make_job(1, essential(1), elastic(2)), make_job(2, essential(1), elastic(9))]
    assert after(view_of(*jobs)) == {"j-1": (1, 2), "j-2": (1, 6)}


def test_a_smaller_elastic_component_fits_where_a_larger_one_does_not() -> None:
    job = make_job(1, essential(1), of_cpus(elastic(2, "big"), 6), elastic(4, "small"))
    started = [(place.component, place.index) for place in plan_elastic(view_of(job), 0.0).starts]
    assert started == [("e", 0), ("big", 0), ("small", 0), ("small", 1), ("small", 2)]


def test_the_essential_components_are_placed_all_or_none() -> None:
    job = make_job(1, essential(2), of_cpus(essential(1, "big"), 9), elastic(3))
    plan = plan_elastic(view_of(job), 0.0)
    assert (plan.begun, plan.starts) == ((), ())


@pytest.mark.parametrize("backfill", [False, True])
def test_a_candidate_that_cannot_start_is_rolled_back_as_if_never_tried(backfill: bool) -> None:
    settings = ElasticSettings(backfill=backfill)
    first = make_job(1, essential(2), elastic(3), of_cpus(elastic(2, "big"), 2))
    runs = running(make_job(2, essential(1), elastic(4)), e=1, w=1)
    hopeless = make_job(3, essential(1), of_cpus(essential(2, "big"), 4))
    without = plan_elastic(view_of(runs, first, cpus=(6, 6), settings=settings), 0.0)
    with_it = plan_elastic(view_of(runs, first, hopeless, cpus=(6, 6), settings=settings), 0.0)
    assert (with_it.begun, with_it.starts) == (without.begun, without.starts)
    assert (with_it.stops, without.stops) == ((), ())
    assert codes(with_it)["j-3"] == "no_room"


@pytest.mark.parametrize("policy", list(QueuePolicy))
def test_a_waiting_candidate_that_leaves_no_less_free_ends_the_pass_under_every_policy(
    policy: QueuePolicy,
) -> None:
    full = running(make_job(1, essential(2), elastic(8), runtime_s=5.0, size=1.0), e=2, w=8)
    waiting = [make_job(n, essential(n), runtime_s=5.0, size=1.0) for n in (2, 3)]
    view = view_of(full, *waiting, settings=ElasticSettings(policy=policy))
    plan = plan_elastic(view, 0.0)
    assert not changes_something(plan)
    assert codes(plan) == {"j-2": "no_less_free", "j-3": "behind"}


@pytest.mark.parametrize("policy", list(QueuePolicy))
def test_a_head_that_cannot_start_ends_the_pass_unless_backfill(policy: QueuePolicy) -> None:
    half = running(make_job(1, essential(5), runtime_s=5.0, size=1.0), e=5)
    head = make_job(2, essential(6), runtime_s=5.0, size=1.0)
    small = make_job(3, essential(4), elastic(3), runtime_s=6.0, size=2.0)
    settings = ElasticSettings(policy=policy)
    plan = plan_elastic(view_of(half, head, small, settings=settings), 0.0)
    assert (plan.begun, codes(plan)) == ((), {"j-2": "no_room", "j-3": "behind"})
    assert dict(plan.waiting)["j-3"].message.startswith("behind j-2, which is next in line: room")
    filling = ElasticSettings(policy=policy, backfill=True)
    view = view_of(half, head, small, settings=filling)
    assert plan_elastic(view, 0.0).begun == ("j-3",)
    assert after(view) == {"j-1": (5, 0), "j-3": (4, 1)}


def test_with_backfill_what_leaves_no_less_free_is_rolled_back_all_the_same() -> None:
    full = running(make_job(1, essential(2), elastic(8)), e=2, w=8)
    plan = plan_elastic(view_of(full, make_job(2, essential(2)), settings=BACKFILL), 0.0)
    assert (changes_something(plan), codes(plan)) == (False, {"j-2": "no_less_free"})


def test_a_running_job_that_cannot_grow_blocks_nobody() -> None:
    stuck = running(make_job(1, essential(2), of_cpus(elastic(3), 9)), e=2)
    assert after(view_of(stuck, make_job(2, essential(3)))) == {"j-1": (2, 0), "j-2": (3, 0)}


def test_a_running_job_that_lacks_an_essential_one_is_completed_first_and_blocks_nobody() -> None:
    torn = running(make_job(1, essential(3), elastic(2)), e=2)
    assert after(view_of(torn, cpus=(4,))) == {"j-1": (3, 1)}
    too_large = replace(torn, components=(of_cpus(essential(3), 3), elastic(2)))
    view = view_of(too_large, make_job(2, essential(2)), cpus=(8,))
    plan = plan_elastic(view, 0.0)
    assert (plan.begun, codes(plan)["j-1"]) == (("j-2",), "no_room")
    assert [place.job_id for place in plan.starts] == ["j-2", "j-2"]


def test_what_no_type_serves_or_is_not_due_keeps_nobody_waiting() -> None:
    never = make_job(1, of_cpus(essential(1), 99))
    later = make_job(2, essential(1), not_before=50.0, failed_starts=3)
    plan = plan_elastic(view_of(never, later, make_job(3, essential(1))), 20.0)
    assert plan.begun == ("j-3",)
    assert codes(plan) == {"j-1": "no_type", "j-2": "backoff"}
    assert plan.next_at == 50.0
    assert plan_elastic(view_of(later), 50.0).begun == ("j-2",)


# ---- modes ---------------------------------------------------------------------------------------


def test_rigid_all_components_or_none_to_the_end() -> None:
    first, second = (make_job(n, essential(2), elastic(4), mode=ElasticMode.RIGID) for n in (1, 2))
    view = view_of(first, second)
    plan = plan_elastic(view, 0.0)
    assert (after(view), codes(plan)) == ({"j-1": (2, 4)}, {"j-2": "no_room"})
    assert len(plan.starts) == 6
    full = running(first, e=2, w=4)
    assert after(view_of(full, make_job(3, essential(5)))) == {"j-1": (2, 4)}


def test_malleable_starts_with_the_essential_ones_grows_and_never_gives_back() -> None:
    job = make_job(1, essential(3), elastic(6), mode=ElasticMode.MALLEABLE)
    assert after(view_of(job, cpus=(4,))) == {"j-1": (3, 1)}
    full = running(job, e=3, w=6)
    plan = plan_elastic(view_of(full, make_job(2, essential(3))), 0.0)
    assert (changes_something(plan), codes(plan)) == (False, {"j-2": "no_room"})


def test_flexible_gives_elastic_ones_back_for_the_essential_ones_of_a_waiting_job() -> None:
    full = running(make_job(1, essential(3), elastic(6)), e=3, w=6)
    view = view_of(full, make_job(2, essential(3), elastic(2)))
    plan = plan_elastic(view, 0.0)
    given = [MemberPlace(job_id="j-1", component="w", index=n, instance_id="i-1") for n in (4, 5)]
    assert plan.stops == tuple(MemberStop(place=place, by="j-2") for place in given)
    assert [(place.job_id, place.component) for place in plan.starts] == [("j-2", "e")] * 3
    assert after(view) == {"j-1": (3, 4), "j-2": (3, 0)}


def test_flexible_is_the_default() -> None:
    assert make_job(1).mode is ElasticMode.FLEXIBLE


def test_elastic_ones_are_not_given_back_for_elastic_ones_of_a_job_that_comes_first() -> None:
    later = running(make_job(2, essential(1), elastic(7)), e=1, w=7)
    first = running(make_job(1, essential(1), elastic(7)), e=1)
    assert after(view_of(first, later)) == {"j-1": (1, 1), "j-2": (1, 7)}


def test_the_last_job_gives_back_first() -> None:
    jobs = [running(make_job(n, essential(1), elastic(3)), e=1, w=3) for n in (1, 2)]
    view = view_of(*jobs, make_job(3, essential(5)), cpus=(9,))
    assert after(view) == {"j-1": (1, 2), "j-2": (1, 0), "j-3": (5, 0)}


def test_nothing_is_given_back_that_is_of_no_use_to_who_waits() -> None:
    here = running(make_job(1, essential(1), elastic(3)), "i-1", e=1, w=3)
    there = running(make_job(2, essential(1), elastic(2)), "i-2", e=1, w=2)
    large = make_job(3, of_cpus(essential(1), 4))
    plan = plan_elastic(view_of(here, there, large, cpus=(5, 4)), 0.0)
    assert {(s.place.job_id, s.place.instance_id) for s in plan.stops} == {("j-1", "i-1")}
    assert [place.instance_id for place in plan.starts] == ["i-1"]


def test_two_jobs_of_one_pass_are_not_given_the_same_room() -> None:
    full = [running(make_job(n, essential(1), elastic(2)), f"i-{n}", e=1, w=2) for n in (1, 2)]
    waiting = [make_job(n, of_cpus(essential(1), 2)) for n in (3, 4)]
    view = view_of(*full, *waiting, cpus=(4, 4))
    assert [place.instance_id for place in plan_elastic(view, 0.0).starts] == ["i-2", "i-1"]
    assert after(view) == {"j-1": (1, 1), "j-2": (1, 1), "j-3": (1, 0), "j-4": (1, 0)}


def test_where_gaps_are_too_small_one_by_one_all_give_way_at_once() -> None:
    first = make_job(1, essential(1), of_cpus(elastic(1), 3))
    first = running(running(first, "i-3", e=1), "i-1", w=1)
    second = running(running(make_job(2, essential(1), elastic(1)), "i-3", e=1), "i-2", w=1)
    large = make_job(3, of_cpus(essential(2, "five"), 5), of_cpus(essential(1, "six"), 6))
    view = view_of(first, second, large, cpus=(10, 6, 2))
    plan = plan_elastic(view, 0.0)
    assert [place.instance_id for place in plan.starts] == ["i-1", "i-1", "i-2"]
    assert after(view) == {"j-1": (1, 0), "j-2": (1, 0), "j-3": (3, 0)}


def test_progress_per_second_is_placed_by_all_components_by_t() -> None:
    job = running(make_job(1, essential(2), elastic(6), runtime_s=10.0), e=2, w=2)
    assert progress_per_s(job) == 0.05
    assert remaining_s(progressed(job, 10.0)) == pytest.approx(10.0)
    assert progressed(job, 1000.0).progress == 1.0
    assert progress_per_s(replace(job, began_at=None)) == 0.0
    assert progressed(replace(job, runtime_s=None), 10.0).progress == 0.0


# ---- the pool ------------------------------------------------------------------------------------


def demand(plan: ElasticPlan) -> list[tuple[str, str, int]]:
    return [(each.job_id, each.component, each.count) for each in plan.demand]


def test_essential_demand_scales_the_pool_up_elastic_extras_only_with_scale_up() -> None:
    waits = make_job(2, essential(3), elastic(5))
    full = running(make_job(1, essential(4), elastic(7)), e=4)
    view = view_of(full, waits, cpus=(4,))
    assert demand(plan_elastic(view, 0.0)) == [("j-2", "e", 3)]
    greedy = replace(full, scale_up=True), replace(waits, scale_up=True)
    plan = plan_elastic(replace(view, jobs=greedy), 0.0)
    assert demand(plan) == [("j-2", "e", 3), ("j-1", "w", 7), ("j-2", "w", 5)]


def test_room_that_there_is_and_a_place_behind_another_are_no_demand() -> None:
    head, behind = make_job(1, essential(6)), make_job(2, essential(2))
    view = view_of(running(make_job(0, essential(5)), e=5), head, behind)
    assert demand(plan_elastic(view, 0.0)) == [("j-1", "e", 1), ("j-2", "e", 2)]


def test_a_rigid_job_wants_instances_for_all_of_its_components() -> None:
    job = make_job(1, essential(2), elastic(3), mode=ElasticMode.RIGID)
    assert demand(plan_elastic(view_of(job, cpus=(4,)), 0.0)) == [("j-1", "w", 1)]


def test_types_that_are_configured_and_not_there_make_a_job_possible() -> None:
    job = make_job(1, of_cpus(essential(1), 20))
    plan = plan_elastic(view_of(job, types=(make_type(10), make_type(32))), 0.0)
    assert (codes(plan), demand(plan)) == ({"j-1": "no_room"}, [("j-1", "e", 1)])


# ---- pitfalls ------------------------------------------------------------------------------------


def test_pitfall_the_condition_on_what_is_free_is_not_always_true_nor_always_false() -> None:
    begun = []
    for extras in (6, 7):
        full = running(make_job(1, essential(3), elastic(extras)), e=3, w=extras)
        begun.append(plan_elastic(view_of(full, make_job(2, essential(3))), 0.0).begun)
    assert begun == [("j-2",), ()]


@pytest.mark.parametrize("backfill", [False, True])
def test_pitfall_a_rollback_restores_all_and_not_half(backfill: bool) -> None:
    full = [running(make_job(n, essential(1), elastic(2)), f"i-{n}", e=1, w=2) for n in (1, 2)]
    grows = running(make_job(3, essential(1), elastic(2)), "i-1", e=1)
    hopeless = make_job(4, essential(2), of_cpus(essential(1, "big"), 9))
    view = view_of(*full, grows, hopeless, cpus=(6, 4), settings=ElasticSettings(backfill=backfill))
    assert after(view) == {"j-1": (1, 2), "j-2": (1, 2), "j-3": (1, 2)}
    assert plan_elastic(view, 0.0).stops == ()


def test_pitfall_the_simulation_is_not_written_into_what_came_in() -> None:
    full = running(make_job(1, essential(3), elastic(6)), e=3, w=6)
    view, same = (view_of(full, make_job(2, essential(3))) for _ in range(2))
    assert plan_elastic(view, 0.0) == plan_elastic(view, 0.0)
    assert view == same


def test_pitfall_no_list_is_changed_while_it_is_gone_through_all_begin_and_all_give_back() -> None:
    many = [make_job(n, essential(1)) for n in range(1, 8)]
    assert len(plan_elastic(view_of(*many), 0.0).begun) == 7
    full = [running(make_job(n, essential(1), elastic(2)), e=1, w=2) for n in (1, 2, 3)]
    assert after(view_of(*full, make_job(4, essential(7)))) == {
        "j-1": (1, 0),
        "j-2": (1, 0),
        "j-3": (1, 0),
        "j-4": (7, 0),
    }


def test_pitfall_a_pass_after_which_nothing_happened_changes_nothing() -> None:
    full = running(make_job(1, essential(3), elastic(6)), e=3, w=6)
    view = view_of(full, make_job(2, essential(3), elastic(2)), make_job(3, essential(1)))
    plan = plan_elastic(view, 0.0)
    jobs = [applied(job, plan, 0.0) for job in view.jobs]
    assert changes_something(plan)
    assert not changes_something(plan_elastic(view_of(*jobs), 1.0))
