"""How elastic jobs keep to limits of how many containers may have a place, and of spending."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.domain.jobs import ElasticMode, JobTask
from longshore.dispatcher.scheduler.elastic.model import MemberPlace
from longshore.dispatcher.scheduler.elastic.schedule import plan_elastic
from longshore.pool.messages import CreateInstance, StartAttempt
from tests.job_samples import make_job as make_batch_job
from tests.job_samples import make_task
from tests.rigs import elastic as elastic_rig
from tests.rigs.elastic import make_job, view_of
from tests.rigs.elastic_jobs import (
    attempt_of,
    elastic,
    elastic_job,
    essential,
    rig_of,
    running,
    submit,
)
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container


def why(rig: Rig, container_id: str) -> WaitReason:
    """Return why a container waits."""
    found = rig.engine.why_waiting(container_id)
    assert found is not None
    return found


# ---- how many containers -------------------------------------------------------------------------


def test_a_job_begins_only_when_all_that_it_needs_may_have_a_place() -> None:
    rig = rig_of(8, max_containers=4)
    rig.submit(make_container(1), make_container(2))
    submit(rig, 1, essential(3))
    rig.advance(60)
    assert running(rig) == {}
    reason = why(rig, "c-1000")
    assert (reason.code, reason.limit, reason.is_final) == (
        "max_containers",
        "max_containers",
        False,
    )
    rig.exit("c-1-1")
    assert running(rig) == {"e": 3}


def test_a_job_that_needs_more_places_than_there_may_ever_be_holds_nobody_up() -> None:
    rig = rig_of(8, most=3, max_containers=4)
    submit(rig, 1, essential(5))
    submit(rig, 2, essential(3), elastic(1), mode=ElasticMode.RIGID)
    submit(rig, 3, essential(3), elastic(2), mode=ElasticMode.RIGID)
    rig.advance(60)
    assert running(rig, 2) == {"e": 3, "w": 1}
    assert rig.created_types() == []
    for container_id in ("c-1000", "c-3000"):
        reason = why(rig, container_id)
        assert (reason.limit, reason.is_final) == ("max_containers", True)
        assert "it needs 5 places at once, and no more than 4" in reason.message


def test_two_jobs_do_not_each_take_a_part_of_what_may_have_a_place() -> None:
    rig = rig_of(8, max_containers=3)
    submit(rig, 1, essential(1, "a"), essential(1, "b", order=1))
    submit(rig, 2, essential(1, "a"), essential(1, "b", order=1))
    rig.submit(make_container(1), make_container(2))
    assert running(rig) == {"a": 1, "b": 1}
    assert running(rig, 2) == {}
    assert [rig.states()[id_] for id_ in ("c-1", "c-2")] == ["running", "queued"]


def test_batch_work_does_not_take_the_place_of_what_a_job_that_has_begun_starts_later() -> None:
    rig = rig_of(8, max_containers=2)
    rig.silent.add(StartAttempt)
    submit(rig, 1, essential(1, "a"), essential(1, "b", order=1))
    rig.submit(make_container(1))
    assert rig.states()["c-1"] == "queued"
    assert why(rig, "c-1").code == "max_containers"
    rig.silent.clear()
    rig.start_now(last_commands(rig, StartAttempt)[0])
    rig.settle()
    assert running(rig) == {"a": 1, "b": 1}


def test_a_job_grows_no_further_than_containers_may_have_a_place() -> None:
    job = make_job(1, elastic_rig.essential(1), elastic_rig.elastic(5))
    plan = plan_elastic(replace(view_of(job), containers_left=3), 0.0)
    assert [place.component for place in plan.starts] == ["e", "w", "w"]
    assert [reason.limit for _, reason in plan.waiting] == ["max_containers"]


def test_who_gives_back_makes_a_place_among_how_many_may_have_one() -> None:
    rig = rig_of(4, max_containers=3)
    submit(rig, 1, essential(1), elastic(2))
    submit(rig, 2, essential(1, "f", cpus=2))
    assert running(rig) == {"e": 1, "w": 2}
    rig.exit(attempt_of(rig, 1002), code=143)
    assert running(rig) == {"e": 1, "w": 1}
    assert running(rig, 2) == {"f": 1}


def test_nothing_is_created_while_no_more_containers_may_have_a_place() -> None:
    rig = rig_of(4, most=3, max_containers=4)
    rig.submit(*(make_container(number) for number in range(1, 5)))
    submit(rig, 1, essential(4))
    submit(rig, 2, essential(2), elastic(9), scale_up=True)
    rig.advance(600)
    assert rig.created_types() == []
    assert why(rig, "c-1000").limit == "max_containers"
    for number in range(1, 5):
        rig.exit(f"c-{number}-1")
    assert running(rig) == {"e": 4}


def test_no_more_is_created_for_members_that_scale_up_than_may_have_a_place() -> None:
    rig = rig_of(1, most=9, max_containers=3)
    submit(rig, 1, essential(1), elastic(7), scale_up=True)
    rig.advance(60)
    assert rig.created_types() == ["t1", "t1"]
    assert running(rig) == {"e": 1, "w": 2}


def test_batch_work_does_not_take_the_places_for_which_instances_are_on_their_way() -> None:
    rig = rig_of(4, most=3, max_containers=4)
    rig.advance(1)
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(1), elastic(1))
    submit(rig, 2, essential(1, "f", cpus=4))
    assert rig.created_types() == ["t4"]
    rig.submit(make_container(1), make_container(2))
    assert [rig.states()[id_] for id_ in ("c-1", "c-2")] == ["running", "queued"]
    for command in last_commands(rig, CreateInstance):
        rig.create_now(command)
    rig.settle()
    assert running(rig, 2) == {"f": 1}


def test_what_is_kept_for_a_job_is_let_go_once_not_all_of_it_may_have_a_place() -> None:
    job = make_job(1, elastic_rig.essential(3))
    claims = tuple(
        MemberPlace(job_id="j-1", component="e", index=index, instance_id="i-1")
        for index in range(2)
    )
    view = view_of(replace(job, claims=claims), cpus=(2,))
    plenty = plan_elastic(replace(view, containers_left=3), 0.0)
    assert plenty.claims == claims
    assert [each.count for each in plenty.demand] == [1]
    few = plan_elastic(replace(view, containers_left=2), 0.0)
    assert (few.claims, few.demand) == ((), ())


# ---- limits of spending --------------------------------------------------------------------------

SHARE = Decimal("0.123")
"""What a member of 1 cpu costs an hour."""


def submit_as(
    rig: Rig, user: str, number: int, *tasks: JobTask, mode: ElasticMode = ElasticMode.FLEXIBLE
) -> None:
    """Submit an elastic job of a user."""
    job, containers = elastic_job(number, *tasks, mode=mode)
    rig.submit_job(replace(job, user=user), tuple(replace(each, user=user) for each in containers))


def submit_batch_as(rig: Rig, user: str, number: int, count: int) -> None:
    """Submit a batch job of a user."""
    job, containers = make_batch_job(number, make_task("b", size=count))
    rig.submit_job(replace(job, user=user), tuple(replace(each, user=user) for each in containers))


def spending_rig(cpus: int, shares: int, **more: object) -> Rig:
    """Return an engine in which bob may spend what so many members cost."""
    limits = {"bob": SHARE * shares + Decimal("0.001")}
    return rig_of(cpus, max_hourly_spend_usd_per_user=limits, **more)  # type: ignore[arg-type]  # the other settings


def test_no_job_begins_of_which_not_all_that_it_needs_may_be_paid() -> None:
    rig = spending_rig(4, 3)
    submit_as(rig, "bob", 1, essential(4))
    assert running(rig, 1) == {}
    reason = why(rig, "c-1000")
    assert (reason.code, reason.limit) == ("spend_limit", "max_hourly_spend_per_user")
    assert reason.message.startswith("with 3 of the 4 places that it needs at once, user bob")
    submit_as(rig, "eve", 2, essential(3))
    assert running(rig, 2) == {"e": 3}
    submit_batch_as(rig, "eve", 3, 1)
    assert rig.states()["c-3000"] == "running", "no room is kept for what is not paid"


def test_a_job_begins_once_all_that_it_needs_may_be_paid() -> None:
    rig = spending_rig(8, 3)
    submit_batch_as(rig, "bob", 1, 2)
    submit_as(rig, "bob", 2, essential(3))
    assert running(rig, 2) == {}
    for number in (1000, 1001):
        rig.exit(attempt_of(rig, number))
    rig.advance(5)
    assert running(rig, 2) == {"e": 3}


def test_a_job_that_may_never_be_paid_holds_nobody_up_though_there_is_no_room() -> None:
    rig = spending_rig(4, 0, most=3)
    submit_as(rig, "eve", 1, essential(4))
    submit_as(rig, "bob", 2, essential(4))
    submit_as(rig, "eve", 3, essential(4))
    rig.advance(60)
    assert running(rig, 3) == {"e": 4}
    assert why(rig, "c-2000").is_final


def test_two_jobs_of_one_account_do_not_each_take_a_part_of_its_money() -> None:
    rig = spending_rig(8, 3)
    rig.silent.add(StartAttempt)
    submit_as(rig, "bob", 1, essential(1, "a"), essential(1, "b", order=1))
    submit_as(rig, "bob", 2, essential(1, "a"), essential(1, "b", order=1))
    assert why(rig, "c-2000").code == "spend_limit"
    assert [each.order.container_id for each in last_commands(rig, StartAttempt)] == ["c-1000"]


def test_nothing_is_created_for_money_that_those_with_a_place_will_cost() -> None:
    rig = spending_rig(2, 3, most=3)
    rig.silent |= {StartAttempt, CreateInstance}
    submit_as(rig, "bob", 1, essential(1, "a"), essential(1, "b", order=1))
    submit_as(rig, "bob", 2, essential(2))
    assert rig.created_types() == [], "job 2 could not begin on what would come"
    assert "a limit of spending" in why(rig, "c-2000").message
    rig.silent.discard(StartAttempt)
    rig.start_now(last_commands(rig, StartAttempt)[0])
    rig.settle()
    rig.advance(60)
    assert running(rig, 1) == {"a": 1, "b": 1}


def test_all_places_are_given_back_where_the_money_went_before_anybody_was_started() -> None:
    for mode in (ElasticMode.FLEXIBLE, ElasticMode.RIGID):
        rig = spending_rig(4, 2, most=2)
        submit_as(rig, "eve", 1, essential(1), elastic(2))
        submit_as(rig, "bob", 2, essential(1, "f", cpus=2), mode=mode)
        assert why(rig, "c-2000").code == "has_place"
        submit_batch_as(rig, "eve", 3, 1)
        submit_batch_as(rig, "bob", 4, 1)
        assert rig.states()["c-4000"] == "running"
        rig.exit(attempt_of(rig, 1002), code=143)
        assert running(rig, 2) == {}
        reason = why(rig, "c-2000")
        assert "what it needs could not be paid in full; tried again at" in reason.message
        rig.advance(5)
        assert running(rig, 1) == {"e": 1, "w": 2}, "others have its room"
        rig.exit(attempt_of(rig, 4000))
        rig.advance(30)
        assert running(rig, 2) == {"f": 1}
