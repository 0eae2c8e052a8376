"""Which idle instances make way for those who wait at a limit: how many, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import (
    Constraints,
    Placement,
    Profile,
    SchedulerSettings,
    WaitReason,
)
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.dispatcher.scheduler.batch import unwanted
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement import wait_reasons
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import ClassPlacement, Limits, Plan
from longshore.dispatcher.scheduler.placement.spend import PassBudget
from longshore.dispatcher.scheduler.scale_up.batch import CreateLimits
from longshore.dispatcher.state.queue import Queue
from longshore.dispatcher.state.spend_limits import SpendLimits
from longshore.drivers.interface import InstanceType
from longshore.pool.holds import CreateBlockKind
from longshore.pool.messages import DestroyInstance, SessionLost
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.rigs.planner import make_limits, make_view
from tests.samples import make_container, make_type
from tests.unit.test_spend import settings

T1, T2, T4, T8 = (make_type(n, price=f"0.{n}") for n in (1, 2, 4, 8))
DEAR = make_type(1, name="dear", price="0.3")
RULES = PackingPolicy(
    placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=256
)


def idle(id_: str, type_: InstanceType, *, last_busy: float = 1.0) -> Slot:
    return Slot(
        kind=SlotKind.READY,
        id=id_,
        type=type_,
        free=type_.allocatable,
        count=0,
        last_busy=last_busy,
        idle=True,
    )


def decide(
    waiting: Sequence[tuple[int, str]],
    *slots: Slot,
    limits: Limits | None = None,
    resting: Sequence[Slot] = (),
    leaving: Sequence[InstanceType] = (),
) -> Plan:
    """Return what a pass decides for containers that fill one type each, the highest first."""
    types = (T1, T2, T4, T8, DEAR)
    queue = Queue(lambda k: eligible_types(types, k.resources, k.constraints, max_price_factor=10))
    for number, (cpus, name) in enumerate(waiting, 1):
        only = Constraints(instance_types=(name,))
        queue.add(make_container(number, cpus=cpus, priority=100 - number, constraints=only))
    there = len(slots) + len(resting) + len(leaving)
    of_pass = limits or make_limits(instances=there, max_instances=there)
    view = make_view(queue, slots, of_pass, RULES, resting=resting, leaving=leaving)
    return plan(view)


FIVE = [idle(name, T1) for name in "abcde"]
A_T4, A_T1 = (4, "t4"), (1, "t1")


# ---- how many ------------------------------------------------------------------------------------


def test_one_that_needs_another_type_ends_one_idle_instance_of_five() -> None:
    assert decide([A_T4], *FIVE).unwanted == ["a"]


def test_as_many_go_as_instances_are_needed_and_no_more_than_there_are() -> None:
    assert decide([A_T4] * 3, *FIVE).unwanted == ["a", "b", "c"]
    assert decide([A_T4] * 9, *FIVE).unwanted == ["a", "b", "c", "d", "e"]


def test_those_who_share_a_new_instance_need_one() -> None:
    assert decide([(2, "t4")] * 3, *FIVE).unwanted == ["a", "b"]


def test_what_is_being_shut_down_already_counts() -> None:
    assert decide([A_T4] * 2, *FIVE, leaving=[T8]).unwanted == ["a"]
    assert decide([A_T4] * 2, *FIVE, leaving=[T8, T1]).unwanted == []


def test_beyond_the_limit_so_many_more_go() -> None:
    over = make_limits(instances=5, max_instances=3)
    assert decide([A_T4], *FIVE, limits=over).unwanted == ["a", "b", "c"]


def test_a_quota_of_the_clouds_ends_one_too() -> None:
    held = make_limits(instances=5, max_instances=9, held=(CreateBlockKind.QUOTA, "five at most"))
    assert decide([A_T4], *FIVE, limits=held).unwanted == ["a"]


def test_who_fits_on_an_idle_instance_keeps_it_for_when_the_first_has_a_place() -> None:
    slots = [*FIVE[:2], idle("f", T2)]
    assert decide([A_T4, A_T1, (2, "t2")], *slots).unwanted == ["a"]
    assert decide([A_T4, A_T1, A_T1, (2, "t2")], *slots).unwanted == ["f"], "c-4 comes last"


def test_one_who_fits_beside_what_runs_needs_no_new_instance() -> None:
    busy = replace(idle("t", T8), idle=False, count=1)
    assert decide([A_T4, (8, "t8")], *FIVE, busy).unwanted == ["a"]


def test_one_whom_no_type_has_room_for_keeps_nothing_idle_from_the_others() -> None:
    queue = Queue(lambda k: eligible_types((T4,), k.resources, k.constraints, max_price_factor=10))
    for number in (1, 2, 3):
        only = Constraints(instance_types=("t8" if number == 2 else "t4",))
        queue.add(make_container(number, cpus=4, priority=9 - number, constraints=only))
    slots = (idle("a", T1), idle("b", T1), idle("c", T1))
    full = make_limits(instances=3, max_instances=3)
    view = make_view(queue, slots, full, RULES)
    lines = [ClassPlacement(number=n, request_class=each) for n, each in enumerate(view.classes)]
    first = WaitReason(code="at_quota", message="full")
    after = wait_reasons.behind("c-1", first)
    decided = Plan(
        lines=lines,
        waiting={line.key: after for line in lines},
        next_in_line=["c-1"],
        stopped=True,
    )
    unwanted.make_way(view, decided, CreateLimits(full))
    assert decided.unwanted == ["a", "b"]


# ---- money ---------------------------------------------------------------------------------------


def spending(limit: str, spent: str) -> Limits:
    budget = PassBudget(
        limits=SpendLimits(settings(limit)),
        placement=Placement.PACKED,
        cluster=Decimal(spent),
        by_subject={},
    )
    return replace(make_limits(instances=5, max_instances=99), budget=budget)


def test_of_money_as_many_go_as_pay_for_what_is_needed() -> None:
    assert decide([A_T4], *FIVE, limits=spending("0.7", "0.5")).unwanted == ["a", "b"]


def test_the_money_of_what_is_being_shut_down_counts() -> None:
    limits = spending("0.7", "0.7")
    assert decide([A_T4], *FIVE, limits=limits, leaving=[T2]).unwanted == ["a", "b"]
    assert decide([A_T4], *FIVE, limits=limits, leaving=[T2, T2]).unwanted == []


def test_where_a_dear_one_goes_the_cheap_ones_stay() -> None:
    slots = [idle("a", T1), idle("b", T1), idle("h", T8, last_busy=9.0)]
    assert decide([A_T4], *slots, limits=spending("1.0", "1.0")).unwanted == ["h"]


# ---- which ---------------------------------------------------------------------------------------


def test_one_without_a_session_goes_before_all_others() -> None:
    assert decide([A_T4], *FIVE, resting=[idle("z", T8, last_busy=9.0)]).unwanted == ["z"]


def test_one_without_a_session_whose_logs_are_awaited_does_not_stand_for_another() -> None:
    unreleased = replace(idle("z", T8), idle=False)
    assert decide([A_T4], *FIVE, resting=[unreleased]).unwanted == ["a"]


def test_one_of_the_type_that_the_fewest_wait_for_goes() -> None:
    slots = [idle("a", T1), idle("b", T1), idle("f", T2), idle("g", T2)]
    assert decide([A_T4, A_T1, (2, "t2"), A_T1], *slots).unwanted == ["f"]


def test_then_the_least_recently_busy_then_the_dearest_then_the_first_id() -> None:
    long_ago = idle("z", T1, last_busy=0.5)
    assert decide([A_T4], *FIVE, long_ago).unwanted == ["z"]
    assert decide([A_T4], *FIVE, idle("z", DEAR)).unwanted == ["z"]
    assert decide([A_T4], *reversed(FIVE)).unwanted == ["a"]


# ---- the engine ----------------------------------------------------------------------------------


def rig_with_idle(count: int) -> Rig:
    """Return a rig with so many idle instances, and no room for more."""
    rig = Rig(
        make_type(1),
        make_type(8),
        settings=SchedulerSettings(max_instances=count),
        pool=PoolSettings(idle_timeout_s=600),
    )
    rig.submit(*(make_container(number) for number in range(1, count + 1)))
    rig.advance(61)
    for number in range(1, count + 1):
        rig.exit(f"c-{number}-1")
    assert list(rig.worker_states().values()) == ["idle"] * count
    return rig


def destroyed(rig: Rig) -> list[str]:
    return sorted({command.instance_id for command in last_commands(rig, DestroyInstance)})


def test_the_other_idle_instances_live_on_and_are_used_again() -> None:
    rig = rig_with_idle(5)
    rig.submit(make_container(6, cpus=8, priority=900), make_container(7))
    rig.advance(20)
    assert destroyed(rig) == ["i-001"]
    assert rig.created_types() == ["t1"] * 5 + ["t8"]
    assert rig.states()["c-6"] == rig.states()["c-7"] == "running"


def test_an_instance_that_does_not_go_keeps_nobody_waiting_for_ever() -> None:
    rig = rig_with_idle(5)
    rig.silent.add(DestroyInstance)
    rig.submit(make_container(6, cpus=8, priority=900))
    rig.advance(110)
    assert destroyed(rig) == ["i-001"]
    rig.advance(20)
    assert destroyed(rig) == ["i-001", "i-002"]


def silence(rig: Rig, worker_id: str) -> None:
    """Let an instance not be heard of for so long that it gets no work."""
    rig.unreachable.add(worker_id)
    rig.send(SessionLost(worker_id=worker_id, last_contact=rig.now, reason="reset"))
    rig.advance(rig.pool_settings.offline_timeout_s + 1)


def test_a_held_one_that_is_silent_stands_for_nobody_who_makes_way() -> None:
    rig = rig_with_idle(2)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    silence(rig, "i-001")
    rig.submit(make_container(6, cpus=8, priority=900))
    rig.advance(1)
    assert destroyed(rig) == ["i-002"]


def test_one_that_no_listing_shows_after_a_restart_stands_for_nobody_either() -> None:
    rig = rig_with_idle(2)
    rig.hidden.add("i-001")
    rig.crash()
    silence(rig, "i-001")
    assert rig.engine.pool.workers["i-001"].cloud.remembered
    rig.submit(make_container(6, cpus=8, priority=900))
    rig.advance(1)
    assert destroyed(rig) == ["i-002"]
