"""Instances for elastic jobs: what is created, never twice, and never in part of what is needed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import (
    Constraints,
    ElasticSettings,
    Preemptible,
    Profile,
    SchedulerSettings,
)
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.drivers.errors import QuotaError
from longshore.pool.messages import CreateInstance, ListInstances
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.elastic_jobs import (
    attempt_of,
    elastic,
    elastic_job,
    essential,
    rig_of,
    running,
    state_of,
    submit,
)
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type


def rig_that_creates(*cpus: int, creates: int = 10, **settings: object) -> Rig:
    """Return an engine without instances, which may create some of so many cpus."""
    return Rig(
        *(make_type(each) for each in cpus),
        pool=PoolSettings(max_concurrent_creates=creates),
        settings=SchedulerSettings(max_price_factor=1000, **settings),  # type: ignore[arg-type]  # fields of the settings
    )


def test_the_cheapest_instances_are_created_that_hold_what_is_essential_and_no_more() -> None:
    rig = rig_that_creates(1, 2, 4)
    submit(rig, 1, essential(3), elastic(5))
    assert rig.created_types() in (["t2", "t1"], ["t1", "t1", "t1"], ["t1", "t2"])
    assert running(rig) == {"e": 3}
    rig.advance(60)
    assert len(rig.created_types()) <= 3
    assert running(rig) == {"e": 3}


def test_elastic_containers_have_instances_created_for_them_only_with_scale_up() -> None:
    rig = rig_that_creates(4)
    submit(rig, 1, essential(1), elastic(7), scale_up=True)
    rig.advance(10)
    assert rig.created_types() == ["t4", "t4"]
    assert running(rig) == {"e": 1, "w": 7}


def test_what_is_on_its_way_is_not_created_again_and_is_kept_from_batch_work() -> None:
    rig = rig_that_creates(1)
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(2))
    assert rig.created_types() == ["t1", "t1"]
    why = rig.engine.why_waiting("c-1000")
    assert why is not None
    assert why.code == "booting"
    rig.advance(5)
    rig.submit(make_container(1))
    rig.advance(5)
    assert rig.created_types() == ["t1", "t1", "t1"]
    rig.silent.clear()
    for command in last_commands(rig, CreateInstance):
        rig.create_now(command)
    rig.settle()
    assert running(rig) == {"e": 2}
    assert rig.states()["c-1"] == "running"
    rig.advance(30)
    assert len(rig.created_types()) == 3


def test_elastic_containers_leave_an_instance_to_the_batch_work_that_it_was_created_for() -> None:
    rig = rig_that_creates(2)
    submit(rig, 1, essential(2), elastic(3))
    assert running(rig) == {"e": 2}
    rig.submit(make_container(1), make_container(2))
    rig.advance(5)
    assert rig.created_types() == ["t2", "t2"]
    assert rig.states()["c-1"] == rig.states()["c-2"] == "running"
    assert running(rig) == {"e": 2}


def test_nothing_is_created_for_a_job_of_which_not_all_that_is_essential_could_have_room() -> None:
    rig = rig_that_creates(1, max_instances=2)
    submit(rig, 1, essential(3))
    submit(rig, 2, essential(1))
    rig.advance(60)
    assert rig.created_types() == []


def test_nothing_is_created_for_a_rigid_job_of_which_not_every_container_could_have_room() -> None:
    rig = rig_that_creates(1, max_instances=2)
    submit(rig, 1, essential(1), elastic(2), mode=ElasticMode.RIGID)
    rig.advance(60)
    assert rig.created_types() == []
    rig.cancel_job("j-1")
    submit(rig, 2, essential(1), elastic(1), mode=ElasticMode.RIGID)
    rig.advance(6)
    assert running(rig, 2) == {"e": 1, "w": 1}


def test_with_backfill_what_cannot_be_had_holds_up_nobody_behind_it() -> None:
    rig = rig_that_creates(1, max_instances=2, elastic=ElasticSettings(backfill=True))
    submit(rig, 1, essential(3))
    submit(rig, 2, essential(2))
    rig.advance(5)
    assert running(rig, 2) == {"e": 2}
    assert rig.created_types() == ["t1", "t1"]


@pytest.mark.parametrize("others", [20, 60])
def test_with_backfill_any_number_that_cannot_be_had_holds_up_nobody_behind_them(
    others: int,
) -> None:
    rig = rig_that_creates(1, max_instances=2, elastic=ElasticSettings(backfill=True))
    rig.engine.check = lambda: None  # type: ignore[method-assign]  # it would take a minute
    for number in range(others):
        submit(rig, number, essential(3 + number))
    submit(rig, others, essential(2))
    rig.advance(5 * (1 + others // 10))
    assert running(rig, others) == {"e": 2}
    assert rig.created_types() == ["t1", "t1"]
    for number in range(others):
        why = rig.engine.why_waiting(f"c-{number * 1000}")
        assert why is not None
        assert "for the rest no instance may be created" in why.message
    for member in range(2):
        rig.exit(attempt_of(rig, others * 1000 + member))
    submit(rig, others + 1, essential(1))
    rig.advance(5 * (1 + others // 10))
    assert running(rig, others + 1) == {"e": 1}


def test_elastic_and_batch_work_together_stay_within_the_number_of_instances() -> None:
    rig = rig_that_creates(1, max_instances=3)
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(2))
    rig.submit(make_container(1), make_container(2))
    rig.advance(20)
    assert rig.created_types() == ["t1", "t1", "t1"]


def test_elastic_and_batch_work_together_stay_within_the_creates_at_once() -> None:
    rig = rig_that_creates(1, creates=2)
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(3))
    rig.submit(make_container(1))
    rig.advance(20)
    assert rig.created_types() == ["t1", "t1"]
    rig.silent.clear()
    for command in last_commands(rig, CreateInstance):
        rig.create_now(command)
    rig.advance(10)
    assert running(rig) == {"e": 3}
    assert rig.states()["c-1"] == "running"
    assert len(rig.created_types()) == 4


def test_what_is_bought_for_somebody_is_claimed_for_him() -> None:
    """Seed 15223: others were given his room, though something had been bought for them, too."""
    spot = replace(make_type(2, name="spot", price="0.1", preemptible=True), provider_type="p2s")
    settings = SchedulerSettings(max_price_factor=1000, profile=Profile.OPTIMIZE_UTILIZATION)
    rig = Rig(make_type(2), spot, pool=PoolSettings(), settings=settings, listed=False)
    rig.silent.add(CreateInstance)
    lasting = Constraints(preemptible=Preemptible.FORBIDDEN)
    submit(rig, 1, essential(1, "a", constraints=lasting), essential(1, "b"))
    submit(rig, 2, essential(1, "c", constraints=lasting))
    rig.silent.discard(ListInstances)
    rig.list_now(last_commands(rig, ListInstances)[0].op_id)
    rig.advance(30)
    assert rig.created_types() == ["t2", "spot"]
    reason = rig.engine.why_waiting("c-1000")
    assert reason is not None
    assert reason.message == "has its room on 2 instances that are on their way"


def test_what_is_wanted_only_since_something_was_bought_is_tried_soon() -> None:
    rig = rig_of(1, most=9, max_containers=3)
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(1), elastic(2), scale_up=True)
    assert rig.created_types() == ["t1", "t1"]
    assert len(rig.engine.pool.expected_launches()) == 1, (
        "the other may be the one that is there, and full"
    )
    rig.advance(4)
    assert len(rig.created_types()) == 2
    rig.advance(2)
    assert len(rig.created_types()) == 3


def test_nothing_is_bought_for_places_that_a_job_takes_which_limits_allow_again() -> None:
    """Seed 19353: by the plan nothing was kept for it, so that others were bought for beside it."""
    settings = ElasticSettings(backfill=True)
    rig = rig_of(1, 1, 1, 1, most=5, max_containers=4, elastic=settings)
    held = sorted(rig.cloud)
    for worker_id in held:
        rig.send(BehaviorRequested(worker_id=worker_id, behavior=IdleBehavior.HOLD))
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(2))
    submit(rig, 2, essential(3))
    assert rig.created_types() == [], "one instance more would do for neither"
    for worker_id in held:
        del rig.cloud[worker_id]
    rig.advance(120)
    assert rig.created_types() == ["t1", "t1"]


def test_nothing_is_bought_for_such_places_where_somebody_else_comes_to_be_beyond_limits() -> None:
    settings = ElasticSettings(backfill=True)
    rig = rig_of(1, 1, 1, 1, 1, most=5, max_containers=4, elastic=settings)
    there = sorted(rig.cloud)
    for worker_id in there[:4]:
        rig.send(BehaviorRequested(worker_id=worker_id, behavior=IdleBehavior.HOLD))
    submit(rig, 3, essential(1))
    submit(rig, 1, essential(2))
    submit(rig, 2, essential(3))
    rig.silent.add(CreateInstance)
    assert running(rig, 3) == {"e": 1}
    for worker_id in there:
        del rig.cloud[worker_id]
    rig.advance(120)
    assert rig.created_types() == ["t1", "t1", "t1"], "of j-1 and j-3"


def test_what_all_instances_may_cost_is_kept_to_and_a_job_is_not_bought_for_in_part() -> None:
    rig = rig_that_creates(1, max_hourly_spend_usd=Decimal("0.3"))
    submit(rig, 1, essential(3))
    rig.advance(20)
    assert rig.created_types() == []
    submit(rig, 2, essential(1))
    rig.cancel_job("j-1")
    rig.advance(6)
    assert rig.created_types() == ["t1"]
    rig.submit(make_container(1), make_container(2))
    rig.advance(20)
    assert rig.created_types() == ["t1", "t1"]


def test_a_users_limit_is_kept_to_and_the_launch_says_who_pays() -> None:
    rig = rig_that_creates(1, max_hourly_spend_usd_per_user={"u": Decimal("0.2")})
    submit(rig, 1, essential(1))
    submit(rig, 2, essential(1))
    rig.advance(20)
    assert rig.created_types() == ["t1"]
    assert last_commands(rig, CreateInstance)[0].launch.payer.user == "u"


@pytest.mark.parametrize("backfill", [False, True])
def test_who_has_reached_a_limit_of_their_own_waits_and_others_go_on(backfill: bool) -> None:
    rig = rig_that_creates(
        4,
        max_instances=2,
        max_hourly_spend_usd_per_user={"bob": Decimal("0.2")},
        elastic=ElasticSettings(backfill=backfill),
    )
    for number, user in ((1, "bob"), (2, "bob"), (3, "eve"), (4, "eve")):
        job, containers = elastic_job(number, essential(4))
        theirs = tuple(replace(each, user=user) for each in containers)
        rig.submit_job(replace(job, user=user), theirs)
    rig.advance(120)
    assert [running(rig, number) for number in (1, 2, 3, 4)] == [{}, {}, {"e": 4}, {"e": 4}]
    assert rig.created_types() == ["t4", "t4"]
    for number in (1, 2):
        why = rig.engine.why_waiting(f"c-{number}000")
        assert why is not None
        assert (why.code, why.behind) == ("no_room", "")
        assert "a limit of spending" in why.message


def test_elastic_containers_beyond_what_their_user_may_spend_wait_and_keep_no_room() -> None:
    limit = {"u": Decimal("0.25"), "v": Decimal(100)}
    rig = rig_that_creates(2, max_hourly_spend_usd_per_user=limit, max_instances=2)
    rig.boot("t2")
    rig.boot("t2")
    rig.advance(61)
    submit(rig, 1, essential(1), elastic(3))
    rig.advance(5)
    assert running(rig) == {"e": 1, "w": 1}
    others = [replace(make_container(number), user="v") for number in (1, 2)]
    rig.submit(*others)
    rig.advance(5)
    assert rig.states()["c-1"] == rig.states()["c-2"] == "running"
    rig.exit(attempt_of(rig, 1001))
    rig.exit("c-1-1")
    rig.advance(31)
    assert running(rig) == {"e": 1, "w": 1}


def test_a_job_that_limits_keep_from_ever_beginning_says_so() -> None:
    rig = rig_that_creates(1, max_instances=2)
    submit(rig, 1, essential(3))
    why = rig.engine.why_waiting("c-1000")
    assert why is not None
    assert why.message.endswith(
        "for the rest no instance may be created (max_instances, a limit of spending, or one of the"
        " cloud's)"
    )


def test_after_a_quota_error_it_is_tried_again_when_the_hold_ends() -> None:
    rig = rig_that_creates(1)
    rig.create_error = lambda _command: QuotaError("no more")
    submit(rig, 1, essential(1))
    assert len(rig.created_types()) == 1
    rig.advance(30)
    assert len(rig.created_types()) == 1
    rig.create_error = lambda _command: None
    rig.advance(40)
    assert running(rig) == {"e": 1}


def test_where_a_quota_allows_too_few_instances_larger_ones_are_created() -> None:
    """Seeds 502, 3263: one of two was created, and went when nothing came of it, without end."""
    rig = rig_that_creates(1, 2, creates=1)
    rig.create_error = lambda _command: QuotaError("no more") if rig.cloud else None
    submit(rig, 1, essential(2, cpus=0.75))
    rig.advance(300)
    assert (rig.created_types()[:2], rig.created_types()[-1]) == (["t1", "t1"], "t2")
    assert running(rig) == {"e": 2}


def test_a_second_job_waits_for_what_a_quota_leaves_beside_the_first() -> None:
    rig = rig_that_creates(1, 2, creates=1)
    rig.create_error = lambda _command: QuotaError("no more") if rig.cloud else None
    for number in (1, 2):
        submit(rig, number, essential(2, cpus=0.75))
    rig.advance(300)
    assert running(rig) == {"e": 2}
    for container in (1000, 1001):
        rig.exit(attempt_of(rig, container))
    rig.advance(5)
    assert running(rig, 2) == {"e": 2}


def test_an_instance_that_waits_for_the_rest_of_its_job_is_not_idle() -> None:
    rig = rig_that_creates(1, creates=1)
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(2))
    rig.create_now(last_commands(rig, CreateInstance)[0])
    rig.advance(120)
    assert rig.worker_states() == {"i-001": "idle"}
    rig.create_now(last_commands(rig, CreateInstance)[1])
    rig.advance(1)
    assert running(rig) == {"e": 2}


@pytest.mark.parametrize("listed", [True, False])
def test_a_crash_while_instances_are_on_their_way_creates_none_twice(
    listed: bool,
) -> None:
    rig = rig_that_creates(1)
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(2))
    creates = last_commands(rig, CreateInstance)
    for command in creates:
        rig.boot("t1", longshore_token=command.launch.token)
    rig.silent.clear()
    rig.crash(listed=listed)
    if not listed:
        rig.silent.discard(ListInstances)
        rig.list_now(last_commands(rig, ListInstances)[0].op_id)
    rig.advance(30)
    assert last_commands(rig, CreateInstance) == []
    assert running(rig) == {"e": 2}


def test_an_idle_instance_goes_when_the_job_that_it_was_for_is_over() -> None:
    rig = rig_that_creates(2)
    submit(rig, 1, essential(2))
    for number in (1000, 1001):
        rig.exit(attempt_of(rig, number))
    assert state_of(rig) == "succeeded"
    rig.advance(70)
    assert rig.cloud == {}
    assert rig.engine.next_wakeup(rig.now) != rig.now
