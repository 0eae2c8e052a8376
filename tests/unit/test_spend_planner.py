"""What a pass does at limits of spending: the cluster's stops all below, others only their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import (
    Constraints,
    Container,
    Placement,
    Profile,
    SchedulerSettings,
)
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.snapshot import Plan, Snapshot
from longshore.dispatcher.scheduler.placement.spend import LaunchCharge, PassBudget
from longshore.dispatcher.state.queue import Queue
from longshore.dispatcher.state.spend_limits import SpendLimits, SpendSubject
from longshore.drivers.interface import InstanceType
from tests.rigs.planner import make_limits, make_view
from tests.samples import make_container, make_type
from tests.unit.test_spend import settings

T1, T2, T4 = (make_type(n, price=f"0.{n}") for n in (1, 2, 4))
DEAR = make_type(1, name="dear", price="0.2")
TYPES = [T1, T2, T4, DEAR]
RULES = PackingPolicy(
    placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=256
)
T4_ONLY = Constraints(instance_types=("t4",))


def waits(
    number: int, priority: int, *, cpus: int = 1, project: str = "alpha", **more: object
) -> Container:
    return replace(make_container(number, cpus=cpus, priority=priority, **more), project=project)


def view_of(
    configured: SchedulerSettings,
    containers: Sequence[Container],
    *slots: Slot,
    cluster: str = "0",
    spent: Mapping[SpendSubject, Decimal] | None = None,
    max_instances: int = 100,
    types: Sequence[InstanceType] = TYPES,
) -> tuple[Snapshot, PassBudget]:
    limits = SpendLimits(configured)
    queue = Queue(
        lambda k: eligible_types(types, k.resources, k.constraints, max_price_factor=10),
        limits.account_of,
    )
    for container in containers:
        queue.add(container)
    budget = PassBudget(
        limits=limits,
        placement=Placement.PACKED,
        cluster=Decimal(cluster),
        by_subject=spent or {},
    )
    of_pass = make_limits(instances=len(slots), max_instances=max_instances)
    view = make_view(queue, slots, replace(of_pass, budget=budget), RULES)
    return view, budget


def decide(configured: SchedulerSettings, *args: object, **more: object) -> Plan:
    return plan(view_of(configured, *args, **more)[0])  # type: ignore[arg-type]  # as they are


def ready(id_: str, type_: InstanceType = T1) -> Slot:
    slot = empty_slot(SlotKind.READY, id_, type_)
    slot.idle, slot.last_busy = True, 1.0
    return slot


def placed(decided: Plan) -> dict[str, str]:
    return {container_id: place.id for container_id, place in decided.places}


def codes(decided: Plan) -> list[str]:
    return [reason.code for reason in decided.waiting.values()]


def test_without_limits_per_account_projects_and_users_share_a_class() -> None:
    two = [waits(1, 5), waits(2, 5, project="beta")]
    shared, _ = view_of(settings("5", {"gamma": "1"}), two)
    assert len(shared.classes) == 1
    apart, _ = view_of(settings("5", {"beta": "1"}), two)
    assert [c.key.account for c in apart.classes] == [(), (SpendSubject("project", "beta"),)]


def test_three_creates_of_which_two_fit_are_two_creates() -> None:
    three = [waits(n, 9 - n, cpus=4, constraints=T4_ONLY) for n in (1, 2, 3)]
    decided = decide(settings("0.9"), three)
    assert [slot.type.name for slot in decided.creates] == ["t4", "t4"]
    assert decided.next_in_line == ["c-3"]
    assert codes(decided) == ["spend_limit"]
    (reason,) = decided.waiting.values()
    assert "and spends $0.80/h" in reason.message


def test_creates_in_flight_count() -> None:
    coming = empty_slot(SlotKind.LAUNCHING, "token-1", T4)
    coming.assign(T4.allocatable)
    decided = decide(settings("0.7"), [waits(1, 5, cpus=4)], coming, cluster="0.4")
    assert decided.creates == []
    assert codes(decided) == ["spend_limit"]


def test_the_clusters_limit_stops_all_below_and_frees_as_many_idle_instances_as_pay() -> None:
    queue = [waits(1, 9, cpus=4), waits(2, 5, project="beta")]
    decided = decide(settings("0.5"), queue, ready("a"), ready("b"), cluster="0.2")
    assert placed(decided) == {}, "what is below must not keep the money in use"
    assert decided.stopped
    assert decided.next_in_line == ["c-1"]
    assert decided.unwanted == ["a"], "$0.40 is wanted, of which $0.30 is left"
    assert codes(decided) == ["spend_limit", "behind"]


def test_a_limit_that_is_reached_in_the_middle_of_buying_stops_all_below_too() -> None:
    queue = [waits(1, 9, cpus=4), waits(2, 8, cpus=4, constraints=T4_ONLY), waits(3, 5)]
    decided = decide(settings("0.6"), queue, ready("a"), cluster="0.1")
    assert [slot.type.name for slot in decided.creates] == ["t4"]
    assert placed(decided) == {"c-1": "new-000000"}
    assert decided.next_in_line == ["c-2"]
    assert decided.unwanted == ["a"]


def test_what_can_never_be_paid_stops_nobody() -> None:
    queue = [waits(1, 9, cpus=4), waits(2, 5)]
    decided = decide(settings("0.3"), queue)
    assert placed(decided) == {"c-2": "new-000000"}
    assert decided.next_in_line == []
    (reason,) = decided.waiting.values()
    assert "can never be" in reason.message


def test_what_does_not_fit_the_limit_is_bought_smaller() -> None:
    four = [waits(n, 5) for n in range(1, 5)]
    decided = decide(settings("0.3"), four)
    assert sum(s.type.price_usd_per_hour for s in decided.creates) == Decimal("0.3")
    assert len(decided.places) == 3


def test_a_projects_limit_lets_others_go_on() -> None:
    limited = settings("9", {"alpha": "0.4"})
    queue = [waits(n, 9 - n, cpus=4) for n in (1, 2)] + [waits(3, 1, cpus=4, project="beta")]
    decided = decide(limited, queue, max_instances=2)
    assert placed(decided) == {"c-1": "new-000000", "c-3": "new-000001"}
    assert codes(decided) == ["spend_limit"]
    assert decided.next_in_line == []
    assert not decided.stopped


def test_a_projects_limit_is_told_before_the_number_of_instances() -> None:
    limited = settings(projects={"alpha": "0.3"})
    queue = [waits(1, 9, cpus=4), waits(2, 1, project="beta")]
    decided = decide(limited, queue, ready("a"), max_instances=1)
    assert placed(decided) == {"c-2": "a"}
    assert not decided.stopped


def test_a_project_that_has_spent_its_money_is_not_the_next_in_line_for_an_instance() -> None:
    limited = settings(projects={"alpha": "0.3"})
    spent = {SpendSubject("project", "alpha"): Decimal("0.2")}
    queue = [waits(1, 9, cpus=2), waits(2, 1, project="beta")]
    decided = decide(limited, queue, ready("a"), spent=spent, max_instances=1)
    assert placed(decided) == {"c-2": "a"}
    assert codes(decided) == ["spend_limit"]
    assert not decided.stopped


def test_room_that_is_too_dear_is_left_for_cheaper_room() -> None:
    limited = settings(projects={"alpha": "0.15"})
    fuller = ready("a", DEAR)
    fuller.count = 1
    decided = decide(limited, [waits(1, 9)], fuller, ready("b"))
    assert placed(decided) == {"c-1": "b"}


def test_attempts_and_claims_count_by_share() -> None:
    limited = settings(projects={"alpha": "0.45"})
    spent = {SpendSubject("project", "alpha"): Decimal("0.1")}
    coming = empty_slot(SlotKind.COMING, "a", T4)
    view, budget = view_of(limited, [waits(n, 5) for n in range(1, 6)], coming, spent=spent)
    key = view.classes[0].key
    view.fleet.claim(key, coming, view.classes[0].need(T4), 2)
    budget.begin({}, view.classes, view.fleet)
    assert budget.spent(SpendSubject("project", "alpha")) == Decimal("0.3")
    decided = plan(view)
    assert len(decided.places) == 3, "two have their claims, and there is money for one more"
    assert codes(decided) == ["spend_limit"]
    assert budget.spent(SpendSubject("project", "alpha")) == Decimal("0.4")


def test_an_instance_that_is_not_ready_is_charged_in_full_to_whom_it_was_created_for() -> None:
    limited = settings(projects={"alpha": "0.6", "beta": "0.6"})
    coming = empty_slot(SlotKind.COMING, "a", T4)
    coming.assign(T4.allocatable)
    queue = [waits(1, 9, cpus=4), waits(2, 5, cpus=4, project="beta")]
    view, budget = view_of(limited, queue, coming)
    alpha = LaunchCharge(account=view.classes[0].key.account, price_usd_per_hour=Decimal("0.4"))
    budget.begin({"a": alpha}, view.classes, view.fleet)
    decided = plan(view)
    assert placed(decided) == {"c-2": "new-000000"}


def test_room_on_an_instance_that_another_project_bought_is_paid_too() -> None:
    limited = settings(projects={"beta": "0.1"})
    queue = [waits(1, 9, cpus=2), *(waits(n, 5, project="beta") for n in (2, 3))]
    view, budget = view_of(limited, queue)
    decided = plan(view)
    assert budget.spent(SpendSubject("project", "beta")) <= Decimal("0.1")
    assert len(decided.places) == 2
    assert codes(decided) == ["spend_limit"]


def test_what_is_taken_back_is_given_back() -> None:
    limited = settings("0.5", {"beta": "0.1"})
    queue = [waits(1, 9, cpus=4, constraints=T4_ONLY), waits(2, 5, project="beta")]
    queue += [waits(3, 8, cpus=4)]
    view, budget = view_of(limited, queue, ready("a"), cluster="0.1")
    decided = plan(view)
    assert placed(decided) == {"c-1": "new-000000"}
    assert budget.spent(SpendSubject("project", "beta")) == 0


def test_what_a_project_has_no_money_for_is_left_out_of_what_another_buys() -> None:
    bulk = make_type(4, name="bulk", price="0.3")
    queue = [
        waits(1, 9, cpus=4, project="beta"),
        waits(2, 8, cpus=3),
        waits(3, 5, project="beta"),
    ]
    view, budget = view_of(settings(projects={"beta": "0.3"}), queue, types=[bulk])
    decided = plan(view)
    assert placed(decided) == {"c-1": "new-000000", "c-2": "new-000001"}
    assert budget.spent(SpendSubject("project", "beta")) == Decimal("0.3")
    assert codes(decided) == ["spend_limit"]


def test_claims_that_are_given_up_are_paid_back_and_their_room_is_paid_by_who_gets_it() -> None:
    coming = empty_slot(SlotKind.COMING, "a", T4)
    queue = [waits(1, 9), *(waits(n, 5, project="beta") for n in (2, 3, 4))]
    view, budget = view_of(settings(projects={"*": "0.4"}), queue, coming)
    beta = view.classes[1]
    view.fleet.claim(beta.key, coming, beta.need(T4), 4)
    budget.begin({}, view.classes, view.fleet)
    assert budget.spent(SpendSubject("project", "beta")) == Decimal("0.4")
    decided = plan(view)
    assert set(placed(decided).values()) == {"a"}
    assert budget.spent(SpendSubject("project", "beta")) == Decimal("0.3")
    assert budget.spent(SpendSubject("project", "alpha")) == Decimal("0.1")
