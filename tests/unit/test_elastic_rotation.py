"""Who has a turn in a pass over elastic jobs where more cannot begin than one pass tries."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import ElasticSettings
from longshore.dispatcher.scheduler.elastic.model import ElasticPlan, ElasticView, MemberPlace
from longshore.dispatcher.scheduler.elastic.schedule import (
    MOST_TRIED_IN_VAIN,
    NEXT_TURN_S,
    plan_elastic,
)
from tests.rigs.elastic import essential, make_job, nodes_of, view_of
from tests.samples import make_type

NOW = 100.0
LATE = MOST_TRIED_IN_VAIN * 2


def crowd(number: int) -> ElasticView:
    """Return a view of jobs too large for an instance of 2 cpus, and one that is not at the end."""
    jobs = [make_job(each, essential(LATE + 3 - each)) for each in range(number)]
    fits = make_job(number, essential(1))
    return view_of(*jobs, fits, cpus=(2,), settings=ElasticSettings(backfill=True))


def left_out(plan: ElasticPlan) -> list[str]:
    return [job_id for job_id, why in plan.waiting if why.code == "later_turn"]


def test_as_many_as_one_pass_tries_in_vain_keep_nobody_from_beginning() -> None:
    plan = plan_elastic(crowd(MOST_TRIED_IN_VAIN - 1), NOW)
    assert (left_out(plan), plan.tried_before, plan.next_at) == ([], frozenset(), None)
    assert plan.begun == (f"j-{MOST_TRIED_IN_VAIN - 1}",)


def test_one_pass_tries_no_more_than_it_may_and_says_so_to_the_others() -> None:
    plan = plan_elastic(crowd(LATE), NOW)
    assert left_out(plan) == [f"j-{each}" for each in range(MOST_TRIED_IN_VAIN, LATE + 1)]
    assert plan.tried_before == {f"j-{each}" for each in range(MOST_TRIED_IN_VAIN)}
    assert plan.next_at == NOW + NEXT_TURN_S


def test_the_first_ones_have_a_turn_in_each_pass_and_everybody_has_one_in_a_few() -> None:
    view, tried, begun = crowd(LATE), set[str](), list[str]()
    first = {f"j-{each}" for each in range(MOST_TRIED_IN_VAIN // 2)}
    for _ in range(2 * LATE // MOST_TRIED_IN_VAIN):
        plan = plan_elastic(view, NOW)
        had_turn = {job.id for job in view.jobs} - set(left_out(plan))
        assert first <= had_turn
        assert len(had_turn - set(plan.begun)) <= MOST_TRIED_IN_VAIN
        tried |= had_turn
        begun += plan.begun
        view = replace(view, tried_before=plan.tried_before)
    assert tried == {job.id for job in view.jobs}
    assert begun[0] == f"j-{LATE}"


def test_who_was_passed_has_a_turn_again_once_all_others_had_theirs() -> None:
    view = crowd(MOST_TRIED_IN_VAIN + 1)
    view = replace(view, tried_before=plan_elastic(view, NOW).tried_before)
    plan = plan_elastic(view, NOW)
    assert left_out(plan) == [
        f"j-{each}" for each in range(MOST_TRIED_IN_VAIN // 2, MOST_TRIED_IN_VAIN)
    ]
    assert plan.next_at == NOW + NEXT_TURN_S, "they had theirs when things may have been different"
    assert plan.tried_before == frozenset()


def test_who_has_room_kept_for_it_has_a_turn_in_each_pass() -> None:
    view = crowd(LATE)
    late = view.jobs[MOST_TRIED_IN_VAIN - 2]
    ((component, count),) = [(each.name, each.count) for each in late.components]
    claims = [
        MemberPlace(job_id=late.id, component=component, index=index, instance_id="i-2")
        for index in range(count)
    ]
    view = replace(
        view,
        jobs=tuple(replace(job, claims=tuple(claims)) if job is late else job for job in view.jobs),
        nodes=nodes_of([("i-2", make_type(count))], ()),
        types=(make_type(count),),
        tried_before=frozenset(job.id for job in view.jobs),
    )
    assert plan_elastic(view, NOW).begun == (late.id,)
