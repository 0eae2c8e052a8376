"""At a limit: what was created for a lower one is not given up for a higher one of another type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import (
    Constraints,
    Placement,
    Profile,
    SchedulerSettings,
)
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement import plan_check
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.snapshot import Limits, Plan
from longshore.dispatcher.scheduler.placement.spend import PassBudget
from longshore.dispatcher.state.queue import Queue
from longshore.dispatcher.state.spend_limits import SpendLimits
from longshore.drivers.interface import InstanceType
from longshore.pool.holds import CreateBlockKind
from longshore.pool.messages import DestroyInstance, Probe
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.rigs.planner import make_create_block, make_limits, make_view
from tests.samples import make_container, make_type
from tests.unit.test_spend import settings

T1, T2, T4 = (make_type(n, price=f"0.{n}") for n in (1, 2, 4))
RULES = PackingPolicy(
    placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=256
)
A_T1, A_T2, A_T4 = (1, "t1"), (2, "t2"), (4, "t4")
NOW, BOOT_S = 1000.0, 30.0
AtLimit = Callable[[int], Limits]


def coming(id_: str, type_: InstanceType) -> Slot:
    return empty_slot(SlotKind.COMING, id_, type_)


def ready(id_: str, type_: InstanceType, *, since_s: float = 10.0, used: bool = False) -> Slot:
    """Return an idle instance; one that is not used is ready since some seconds after its boot."""
    slot = empty_slot(SlotKind.READY, id_, type_)
    slot.idle = True
    slot.last_busy = NOW - since_s if used else 0.0
    slot.spared_until = 0.0 if used else NOW - since_s + BOOT_S
    return slot


def at_max_instances(number: int) -> Limits:
    return make_limits(instances=number, max_instances=number)


def at_a_quota(number: int) -> Limits:
    return make_limits(instances=number, max_instances=99, held=(CreateBlockKind.QUOTA, "no more"))


def at_the_quota_of_a_group(number: int) -> Limits:
    found = make_create_block(CreateBlockKind.QUOTA, "no more", "t1", "t2", "t4")
    held = dict.fromkeys(("t1", "t2", "t4"), found)
    return make_limits(instances=number, max_instances=99, create_blocks=held)


def without_money(number: int) -> Limits:
    budget = PassBudget(
        limits=SpendLimits(settings("0.7")),
        placement=Placement.PACKED,
        cluster=Decimal("0.7"),
        by_subject={},
    )
    return replace(make_limits(instances=number, max_instances=99), budget=budget)


LIMITS = (at_max_instances, at_a_quota, at_the_quota_of_a_group, without_money)


def decide(
    waiting: Sequence[tuple[int, str]],
    *slots: Slot,
    limits: Limits | None = None,
    claims: Sequence[tuple[int, str]] = (),
    leaving: Sequence[InstanceType] = (),
) -> Plan:
    """Return what a pass decides for containers 1, 2, ... of one type each, the highest first.

    `claims` are (the number of a container, the slot on which its class has a claim from before).
    """
    queue = Queue(
        lambda k: eligible_types((T1, T2, T4), k.resources, k.constraints, max_price_factor=10)
    )
    for number, (cpus, name) in enumerate(waiting, 1):
        only = Constraints(instance_types=(name,))
        queue.add(make_container(number, cpus=cpus, priority=100 - number, constraints=only))
    bounds = limits or at_max_instances(len(slots) + len(leaving))
    view = make_view(queue, slots, bounds, RULES, leaving=leaving, now=NOW)
    for number, slot_id in claims:
        request_class = queue.class_of(f"c-{number}")
        assert request_class is not None
        slot = view.fleet.slots[slot_id]
        view.fleet.claim(request_class.key, slot, request_class.need(slot.type), 1)
    decided = plan(view)
    plan_check.check(view, decided)
    return decided


def placed(decided: Plan) -> dict[str, str]:
    return {container_id: slot.id for container_id, slot in decided.places}


# ---- while it boots ------------------------------------------------------------------------------


@pytest.mark.parametrize("at_limit", LIMITS)
def test_a_lower_one_keeps_what_boots_for_it(at_limit: AtLimit) -> None:
    limits = at_limit(1)
    decided = decide([A_T4, A_T1], coming("a", T1), limits=limits, claims=[(2, "a")])
    assert placed(decided) == {"c-2": "a"}
    assert decided.next_in_line == ["c-1"]


def test_its_class_keeps_it_when_who_had_it_has_gone_elsewhere() -> None:
    decided = decide([A_T1, A_T4, A_T1], ready("r", T1), coming("a", T1), claims=[(1, "a")])
    assert placed(decided) == {"c-1": "r", "c-3": "a"}
    assert decided.next_in_line == ["c-2"]


def test_a_higher_one_that_fits_on_it_has_it() -> None:
    decided = decide([(3, "t4"), (2, "t4")], coming("a", T4), claims=[(2, "a")])
    assert placed(decided) == {"c-1": "a"}
    assert decided.next_in_line == ["c-2"]


def test_each_has_the_nearest_of_what_comes_for_lower_ones_and_the_last_waits() -> None:
    boots, launches = coming("a", T4), empty_slot(SlotKind.LAUNCHING, "l", T4)
    claims = [(2, "a"), (3, "l")]
    decided = decide([(4, "t4"), (3, "t4"), (2, "t4")], boots, launches, claims=claims)
    assert placed(decided) == {"c-1": "a", "c-2": "l"}
    assert decided.next_in_line == ["c-3"]


def test_a_start_that_is_taken_back_leaves_its_class_what_it_had() -> None:
    """Seed 787: it gave its claim up for a start, and that was undone for who is next in line."""
    limits = make_limits(instances=2, max_instances=3)
    slots = (ready("r", T1), coming("a", T1))
    decided = decide([A_T4, A_T4, A_T1], *slots, limits=limits, claims=[(3, "a")])
    assert decided.next_in_line == ["c-2"]
    assert placed(decided).keys() == {"c-1", "c-3"}
    assert placed(decided)["c-3"] == "a"


def test_what_many_hoped_for_in_vain_leaves_lower_ones_what_comes_for_them() -> None:
    """Seed 1155: a create for three was thought of, and no more than that many may have a place."""
    limits = replace(make_limits(instances=2, max_instances=3), containers_left=3)
    slots = (coming("a", T1), coming("b", T1))
    wanted = [A_T4, A_T4, A_T4, A_T4, A_T1, A_T1]
    decided = decide(wanted, *slots, limits=limits, claims=[(5, "a"), (6, "b")])
    assert decided.next_in_line[-1] == "c-2"
    kept = {name: slot for name, slot in placed(decided).items() if name != "c-1"}
    assert (set(kept), set(kept.values())) == ({"c-5", "c-6"}, {"a", "b"})


def test_where_too_many_run_the_claims_of_lower_ones_are_given_up() -> None:
    limits = replace(at_max_instances(1), containers_left=0)
    decided = decide([A_T4, A_T1], coming("a", T1), limits=limits, claims=[(2, "a")])
    assert placed(decided) == {}


# ---- when it has come ----------------------------------------------------------------------------


@pytest.mark.parametrize("at_limit", LIMITS)
def test_the_only_one_is_withheld_for_as_long_as_it_took_to_boot(at_limit: AtLimit) -> None:
    limits = at_limit(1)
    early = decide([A_T4, A_T1], ready("a", T1, since_s=BOOT_S - 1), limits=limits)
    assert (placed(early), early.unwanted, early.withheld) == ({}, [], ["a"])
    late = decide([A_T4, A_T1], ready("a", T1, since_s=BOOT_S), limits=limits)
    assert (placed(late), late.unwanted, late.withheld) == ({}, ["a"], [])


@pytest.mark.parametrize("at_limit", LIMITS)
def test_the_one_that_is_ready_first_is_withheld_and_the_others_are_used(
    at_limit: AtLimit,
) -> None:
    limits = at_limit(3)
    slots = [ready("a", T4, since_s=1), ready("b", T4, since_s=9), ready("c", T1, since_s=5)]
    decided = decide([A_T2, A_T1, (3, "t4")], *slots, limits=limits)
    assert placed(decided) == {"c-2": "c", "c-3": "a"}
    assert (decided.unwanted, decided.withheld) == ([], ["b"])


def test_as_many_as_fit_start_on_one_but_never_one_before_a_higher_of_its_class() -> None:
    slots = [ready("a", T4), ready("b", T1, since_s=20)]
    decided = decide([A_T2, (1, "t4"), (2, "t4"), (1, "t4"), (1, "t4")], *slots)
    assert placed(decided) == {"c-2": "a", "c-3": "a", "c-4": "a"}
    assert decided.withheld == ["b"]


def test_what_has_run_something_makes_way_at_once_and_the_new_one_is_used() -> None:
    decided = decide([A_T4, A_T1], ready("a", T1), ready("b", T2, used=True))
    assert placed(decided) == {"c-2": "a"}
    assert (decided.unwanted, decided.withheld) == (["b"], [])


def test_while_something_makes_way_already_the_new_one_is_used() -> None:
    decided = decide([A_T4, A_T1], ready("a", T1), leaving=[T2])
    assert placed(decided) == {"c-2": "a"}
    assert (decided.unwanted, decided.withheld) == ([], [])


def test_who_waits_behind_the_next_in_line_withholds_nothing() -> None:
    decided = decide([A_T4, A_T4, A_T1], ready("a", T1), ready("b", T1, since_s=20))
    assert placed(decided) == {"c-3": "a"}
    assert decided.withheld == ["b"]


def test_who_has_a_place_that_comes_starts_at_once_on_the_new_one_if_others_of_its_class_wait() -> (
    None
):
    slots = [ready("a", T1), ready("b", T2, since_s=20), coming("c", T1)]
    decided = decide([A_T4, A_T1, A_T1], *slots, claims=[(2, "c")])
    assert placed(decided) == {"c-2": "a", "c-3": "c"}


def test_at_a_limit_of_containers_nothing_more_starts_on_it() -> None:
    slots = [ready("a", T1), ready("b", T1, since_s=20), coming("c", T1)]
    limits = replace(at_max_instances(3), containers_left=1)
    decided = decide([A_T4, A_T1, A_T1], *slots, limits=limits, claims=[(2, "c")])
    assert len(placed(decided)) == 1


# ---- the engine ----------------------------------------------------------------------------------


def rig_with_two_booting(*, idle_timeout_s: float = 600.0) -> Rig:
    """Return a rig in which two t1 boot for lower ones for 30 s, and c-3 waits for a t8."""
    rig = Rig(
        make_type(1),
        make_type(8),
        settings=SchedulerSettings(max_instances=2),
        pool=PoolSettings(idle_timeout_s=idle_timeout_s),
    )
    rig.silent.add(Probe)
    rig.submit(make_container(1), make_container(2))
    rig.submit(make_container(3, cpus=8, priority=900))
    assert rig.states() == {"c-1": "locked", "c-2": "locked", "c-3": "queued"}
    rig.advance(30)
    rig.silent.clear()
    for probe in {c.worker_id: c for c in last_commands(rig, Probe)}.values():
        rig.probe_now(probe)
    rig.settle()
    return rig


def destroyed(rig: Rig) -> list[str]:
    return sorted({command.instance_id for command in last_commands(rig, DestroyInstance)})


def test_one_is_used_and_makes_way_when_it_is_idle_and_then_the_other_is_used() -> None:
    rig = rig_with_two_booting()
    assert rig.started_on() == {"c-1": "i-002"}
    rig.advance(20)
    rig.exit("c-1-1")
    assert destroyed(rig) == ["i-002"]
    assert rig.started_on() == {"c-1": "i-002", "c-2": "i-001"}
    rig.advance(5)
    assert rig.states() == {"c-1": "succeeded", "c-2": "running", "c-3": "running"}


def test_who_waits_gets_its_place_after_another_boot_at_the_latest() -> None:
    rig = rig_with_two_booting(idle_timeout_s=10)
    rig.advance(29)
    assert destroyed(rig) == [], "not even for being idle"
    rig.advance(10)
    assert destroyed(rig) == ["i-001"]
    assert rig.states() == {"c-1": "running", "c-2": "queued", "c-3": "running"}
