"""Rows of the elastic jobs' semantics: what events do to a job, and the order of its start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.scheduler.elastic.lifecycle import (
    RAN_WELL_S,
    MemberDecision,
    MemberExit,
    MemberExitKind,
    Transition,
    ended,
    may_start,
    started,
)
from longshore.dispatcher.scheduler.elastic.model import ElasticJob, Member, MemberState
from longshore.dispatcher.scheduler.elastic.schedule import plan_elastic
from tests.rigs.elastic import applied, counts, elastic, essential, make_job, running, view_of


def end_of(
    job: ElasticJob,
    component: str,
    index: int = 0,
    kind: MemberExitKind = MemberExitKind.EXITED,
    *,
    code: int = 0,
    now: float = 100.0,
    why: str = "",
) -> Transition:
    end = MemberExit(component=component, index=index, kind=kind, exit_code=code, why=why)
    return ended(job, end, now, most_losses=5)


def states(job: ElasticJob) -> list[str]:
    """Return where each member of a job is, in order."""
    return [f"{m.component}{m.index} {m.state.value}" for _, m in job.all_members()]


def member(job: ElasticJob, component: str, index: int = 0) -> Member:
    known = (m for _, m in job.all_members())
    return next(m for m in known if (m.component, m.index) == (component, index))


def names(members: tuple[Member, ...]) -> list[str]:
    return [f"{each.component}{each.index}" for each in members]


PAIR = running(make_job(1, essential(2), elastic(3)), e=2, w=2)


# ---- essential ones ------------------------------------------------------------------------------


def test_an_essential_that_fails_ends_the_job_and_all_its_components_are_stopped() -> None:
    fate = end_of(PAIR, "e", 1, code=3)
    assert (fate.verdict, names(fate.stops)) == (MemberDecision.FAILED, ["e0", "w0", "w1"])
    assert fate.reason is not None
    assert (fate.reason.code, fate.reason.message) == (
        "essential_failed",
        "essential e exited with 3",
    )
    assert counts([fate.job]) == {"j-1": (0, 0)}


def test_essential_exits_1_job_failed_all_stopped() -> None:
    fate = end_of(PAIR, "e", code=1)
    assert (fate.verdict, names(fate.stops)) == (MemberDecision.FAILED, ["e1", "w0", "w1"])


def test_all_essentials_at_exit_0_complete_the_job_and_its_elastic_ones_are_stopped() -> None:
    first = end_of(PAIR, "e", 0)
    assert (first.verdict, first.stops) == (MemberDecision.GOES_ON, ())
    second = end_of(first.job, "e", 1)
    assert (second.verdict, second.reason, names(second.stops)) == (
        MemberDecision.SUCCEEDED,
        None,
        ["w0", "w1"],
    )


def test_a_fatal_error_at_an_essentials_start_fails_the_job() -> None:
    fate = end_of(PAIR, "e", kind=MemberExitKind.START_REFUSED, why="no such image: x")
    assert (fate.verdict, names(fate.stops)) == (MemberDecision.FAILED, ["e1", "w0", "w1"])
    assert fate.reason is not None
    assert fate.reason.message == "essential e cannot be started: no such image: x"


def test_a_passing_one_stops_what_was_started_and_queues_it_again_with_backoff() -> None:
    job, delays = PAIR, []
    for _ in range(8):
        fate = end_of(job, "e", 1, MemberExitKind.START_FAILED)
        assert (fate.verdict, names(fate.stops)) == (
            MemberDecision.QUEUED_AGAIN,
            ["e0", "w0", "w1"],
        )
        assert states(fate.job)[:3] == ["e0 stopping", "e1 waiting", "w0 stopping"]
        assert (fate.job.is_running, fate.job.progress) == (False, 0.0)
        delays.append(fate.job.not_before - 100.0)
        job = running(replace(fate.job, members=()), e=2, w=2)
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_job_that_is_queued_again_waits_for_the_ends_of_what_was_started() -> None:
    job = end_of(PAIR, "e", 1, MemberExitKind.START_FAILED).job
    assert plan_elastic(view_of(job), 100.5).waiting[0][1].code == "ending"
    for component, index in (("e", 0), ("w", 0), ("w", 1)):
        job = end_of(job, component, index, code=143).job
    assert plan_elastic(view_of(job), 100.5).waiting[0][1].code == "backoff"
    assert plan_elastic(view_of(job), 101.0).begun == ("j-1",)
    assert [m.deaths for m in job.members] == [0, 0, 0, 0]


def test_once_all_essentials_run_earlier_starts_that_failed_count_no_more() -> None:
    placed = tuple(replace(m, state=MemberState.PLACED) for m in PAIR.members)
    job = started(replace(PAIR, members=placed, failed_starts=4), "e", 0)
    assert job.failed_starts == 4
    assert started(job, "e", 1).failed_starts == 0


def test_an_essential_that_is_lost_with_its_instance_has_the_job_queued_again_up_to_a_limit() -> (
    None
):
    fate = end_of(PAIR, "e", kind=MemberExitKind.LOST)
    assert (fate.verdict, fate.job.losses) == (MemberDecision.QUEUED_AGAIN, 1)
    often = end_of(
        replace(PAIR, losses=5), "e", kind=MemberExitKind.LOST, why="its instance is gone"
    )
    assert often.verdict is MemberDecision.FAILED
    assert often.reason is not None
    message = "essential e was lost (its instance is gone); lost 5 times before"
    assert often.reason.message == message


# ---- elastic ones --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [MemberExitKind.EXITED, MemberExitKind.LOST, MemberExitKind.START_FAILED]
)
def test_elastic_dies_it_is_placed_again_and_counted(kind: MemberExitKind) -> None:
    fate = end_of(PAIR, "w", 1, kind, code=9)
    assert (fate.verdict, fate.stops, member(fate.job, "w", 1).deaths) == (
        MemberDecision.GOES_ON,
        (),
        1,
    )
    plan = plan_elastic(view_of(fate.job), 100.0)
    assert ("w", 1) in [(place.component, place.index) for place in plan.starts]


def test_a_rigid_job_begins_once_the_delays_of_all_its_elastic_ones_have_passed() -> None:
    rests = Member(component="w", index=0, deaths=3, not_before=110.0)
    job = make_job(1, essential(1), elastic(1), members=(rests,), mode=ElasticMode.RIGID)
    plan = plan_elastic(view_of(job), 105.0)
    assert (plan.begun, plan.waiting[0][1].until, plan.next_at) == ((), 110.0, 110.0)
    assert plan_elastic(view_of(job), 110.0).begun == ("j-1",)
    flexible = replace(job, mode=ElasticMode.FLEXIBLE)
    assert plan_elastic(view_of(flexible), 105.0).begun == ("j-1",)


def test_the_failures_of_an_elastic_one_never_end_the_job() -> None:
    job = PAIR
    for _ in range(100):
        fate = end_of(job, "w", kind=MemberExitKind.START_REFUSED, code=1)
        assert (fate.verdict, fate.reason) == (MemberDecision.GOES_ON, None)
        job = running(replace(fate.job, members=()), e=2, w=2)


def test_an_elastic_one_that_was_given_back_is_placed_again_and_that_is_no_death() -> None:
    given = replace(member(PAIR, "w", 1), state=MemberState.STOPPING)
    job = replace(PAIR, members=(*PAIR.members[:3], given))
    assert counts(applied(each, plan_elastic(view_of(job), 0.0), 0.0) for each in [job]) == {
        "j-1": (2, 2)
    }, "the third one grows, the one that is stopping cannot yet"
    again = member(end_of(job, "w", 1, code=143).job, "w", 1)
    assert (again.state, again.deaths, again.not_before) == (MemberState.WAITING, 0, 0.0)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("e", MemberDecision.FAILED), ("w", MemberDecision.GOES_ON)],
    ids=["essential", "elastic"],
)
def test_who_is_refused_for_ever_while_it_is_to_stop_ends_the_job_if_it_is_essential(
    name: str, verdict: MemberDecision
) -> None:
    stopping = replace(member(PAIR, name, 1), state=MemberState.STOPPING)
    others = tuple(each for each in PAIR.members if (each.component, each.index) != (name, 1))
    job = replace(PAIR, members=(*others, stopping))
    fate = end_of(job, name, 1, MemberExitKind.START_REFUSED, why="no")
    assert fate.verdict is verdict
    assert member(fate.job, name, 1).state is MemberState.WAITING


# ---- the order of the start ----------------------------------------------------------------------


def test_components_start_in_startup_order_and_elastic_ones_once_all_essential_ones_run() -> None:
    job = make_job(
        1,
        essential(2, "worker", startup_order=2),
        essential(1, "master", startup_order=1),
        elastic(1, "late", startup_order=5),
        elastic(2, "early"),
    )
    job = running(job, worker=2, master=1, late=1, early=2)
    job = replace(job, members=tuple(replace(m, state=MemberState.PLACED) for m in job.members))
    said = []
    while turn := may_start(job):
        said.append(names(turn))
        for each in turn:
            job = started(job, each.component, each.index)
    assert said == [["master0"], ["worker0", "worker1"], ["early0", "early1"], ["late0"]]


def test_nobody_of_a_later_order_starts_while_one_of_an_earlier_has_no_place() -> None:
    job = make_job(1, essential(1, "a"), essential(1, "b", startup_order=1), elastic(1))
    assert may_start(running(job, b=1, w=1)) == ()


def test_an_elastic_one_without_a_place_keeps_no_other_from_starting() -> None:
    job = running(make_job(1, essential(1), elastic(1, "a"), elastic(1, "b", startup_order=1)), e=1)
    placed = Member(component="b", index=0, state=MemberState.PLACED, instance_id="i-1")
    assert may_start(replace(job, members=(*job.members, placed))) == (placed,)


# ---- pitfalls ------------------------------------------------------------------------------------


def test_pitfall_a_normal_completion_is_not_reported_as_death() -> None:
    job = end_of(PAIR, "w", 0, code=0).job
    done = member(job, "w", 0)
    assert (done.state, done.deaths) == (MemberState.FINISHED, 0)
    plan = plan_elastic(view_of(job), 200.0)
    assert [(place.component, place.index) for place in plan.starts] == [("w", 2)]


def test_pitfall_deaths_are_watched_in_jobs_that_are_not_fully_placed_too() -> None:
    begun = running(make_job(1, essential(2), elastic(3)), e=2)
    assert end_of(begun, "e", 1, code=1).verdict is MemberDecision.FAILED
    torn = running(make_job(1, essential(2), elastic(3)), e=1, w=1)
    assert end_of(torn, "w", code=1).job.members[-1].deaths == 1
    assert end_of(torn, "e", code=7).verdict is MemberDecision.FAILED


def test_pitfall_no_busy_loop_an_elastic_one_that_dies_again_and_again_waits_longer_each_time() -> (
    None
):
    job, delays = PAIR, []
    for _ in range(15):
        job = end_of(job, "w", code=1).job
        delays.append(member(job, "w").not_before - 100.0)
        plan = plan_elastic(view_of(job), 100.0)
        assert (plan.next_at == member(job, "w").not_before) == (delays[-1] > 0)
        due = [place.index for place in plan.starts if place.component == "w"]
        assert (0 in due) == (delays[-1] == 0)
        back = replace(member(job, "w"), state=MemberState.RUNNING, instance_id="i-1")
        job = replace(job, members=(*job.members[:-1], back))
    assert delays[:9] == [0, 1, 2, 4, 8, 16, 32, 64, 128]
    assert delays[-3:] == [2048, 3600, 3600]


def test_an_elastic_one_that_ran_for_long_dies_as_if_it_were_the_first_time() -> None:
    worn = replace(member(PAIR, "w"), deaths=9)
    job = replace(PAIR, members=(*PAIR.members, worn))
    end = MemberExit(
        component="w", index=0, kind=MemberExitKind.EXITED, exit_code=1, ran_s=RAN_WELL_S
    )
    again = member(ended(job, end, 100.0, most_losses=3).job, "w")
    assert (again.deaths, again.not_before) == (1, 100.0)


def test_pitfall_no_signal_is_lost_two_ends_before_a_pass_both_count() -> None:
    job = end_of(end_of(PAIR, "w", 0, code=1).job, "w", 1, code=1).job
    assert [member(job, "w", n).deaths for n in (0, 1)] == [1, 1]
    plan = plan_elastic(view_of(job), 100.0)
    assert [(place.component, place.index) for place in plan.starts] == [
        ("w", 0),
        ("w", 1),
        ("w", 2),
    ]


def test_pitfall_a_word_that_comes_late_ends_nobody_twice() -> None:
    failed = end_of(PAIR, "e", code=1).job
    again = end_of(failed, "e", code=1)
    assert (again.verdict, again.job, again.stops) == (MemberDecision.GOES_ON, failed, ())
    done = end_of(PAIR, "e", 0).job
    assert end_of(done, "e", 0, code=1).verdict is MemberDecision.GOES_ON
    assert started(done, "e", 0) == done
