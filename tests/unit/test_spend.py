"""Spending: the sums that are kept, and the budget of a pass with its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    Placement,
    SchedulerSettings,
)
from longshore.dispatcher.input.quantities import Price
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.spend import PassBudget
from longshore.dispatcher.state.attempt_spend import (
    SHARE_UNITS,
    AttemptSpend,
    part_usd_per_hour,
)
from longshore.dispatcher.state.spend_limits import SpendLimits, SpendSubject, SpendSubjects
from longshore.drivers.errors import BugError
from longshore.drivers.interface import Resources
from tests.samples import GIB, make_container, make_type

T1, T4 = make_type(1, price="0.1"), make_type(4, price="0.4")
ONE = Resources(cpu_millis=1000, memory_bytes=GIB)
ALPHA, BOB = SpendSubject("project", "alpha"), SpendSubject("user", "bob")


def spends(limits: Mapping[str, str] | None) -> dict[str, Price]:
    return {name: Price(limit) for name, limit in (limits or {}).items()}


def settings(
    cluster: str = "",
    projects: Mapping[str, str] | None = None,
    users: Mapping[str, str] | None = None,
) -> SchedulerSettings:
    return SchedulerSettings(
        max_hourly_spend_usd=Price(cluster) if cluster else None,
        max_hourly_spend_usd_per_project=spends(projects),
        max_hourly_spend_usd_per_user=spends(users),
    )


def owned(number: int = 1, project: str = "alpha", user: str = "bob") -> Container:
    return replace(make_container(number), project=project, user=user)


def budget(
    configured: SchedulerSettings,
    *,
    cluster: str = "0",
    spent: Mapping[SpendSubject, Decimal] | None = None,
) -> PassBudget:
    return PassBudget(
        limits=SpendLimits(configured),
        placement=Placement.PACKED,
        cluster=Decimal(cluster),
        by_subject=spent or {},
    )


def new_slot(name: str = "new") -> Slot:
    return empty_slot(SlotKind.NEW, name, T4)


# ---- whose limits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("projects", "users", "expected"),
    [
        ({}, {}, ()),
        ({"other": "1"}, {}, ()),
        ({"alpha": "1"}, {}, (ALPHA,)),
        ({"*": "1"}, {"*": "1"}, (ALPHA, BOB)),
        ({}, {"bob": "1", "*": "2"}, (BOB,)),
    ],
)
def test_an_account_names_only_those_who_have_a_limit(
    projects: dict[str, str], users: dict[str, str], expected: SpendSubjects
) -> None:
    limits = SpendLimits(settings(projects=projects, users=users))
    assert limits.account_of(owned()) == expected
    assert limits.exist == bool(projects or users)


def test_who_is_named_has_that_limit_and_all_others_that_of_the_star() -> None:
    limits = SpendLimits(settings("9", {"alpha": "1", "*": "2"}))
    assert limits.of(ALPHA) == 1
    assert limits.of(SpendSubject("project", "beta")) == 2
    assert limits.of(BOB) is None
    assert limits.cluster == 9


# ---- sums ------------------------------------------------------------------------------------


def attempt_of(container: Container, **more: object) -> Attempt:
    values: dict[str, object] = {
        "id": f"{container.id}-1",
        "container_id": container.id,
        "number": 1,
        "instance_id": "i-1",
        "instance_type": "t4",
        "price_usd_per_hour": T4.price_usd_per_hour,
        "created_at": 0.0,
        **more,
    }
    return Attempt(**values)  # type: ignore[arg-type]  # by name


def test_attempts_count_by_the_share_of_what_they_were_given() -> None:
    spend = AttemptSpend(SpendLimits(settings(projects={"*": "9"})), {"t4": T4}, Placement.PACKED)
    given = Resources(cpu_millis=2000, memory_bytes=GIB)
    first = attempt_of(owned(1))
    spend.opened(owned(1), first)
    spend.opened(owned(2), attempt_of(owned(2), resources=given))
    third = attempt_of(owned(3), instance_id="i-2", instance_type="gone")
    spend.opened(owned(3), third)
    assert spend.by_subject == {ALPHA: Decimal("0.1") + Decimal("0.2") + Decimal("0.4")}
    attempts = (
        first,
        attempt_of(owned(2), resources=given),
        third,
    )
    open_ = [replace(owned(a.number), attempts=(a,)) for a in attempts]
    spend.check(open_)
    with pytest.raises(BugError, match="attempts cost"):
        spend.check(open_[1:])
    spend.closed(first.id)
    spend.check(open_[1:])
    ended = replace(first, outcome=AttemptOutcome.SUCCEEDED)
    spend.check([replace(owned(1), attempts=(ended,)), *open_[1:]])
    for attempt_id in ("c-2-1", "c-3-1", "c-3-1"):
        spend.closed(attempt_id)
    assert spend.by_subject == {}, "nothing is kept of who spends nothing"


def test_those_on_one_instance_cost_no_more_than_it_does_and_leave_their_parts_to_others() -> None:
    spend = AttemptSpend(SpendLimits(settings(projects={"*": "9"})), {"t4": T4}, Placement.PACKED)
    beta = SpendSubject("project", "beta")
    cpus = Resources(cpu_millis=3600, memory_bytes=GIB // 8)
    memory = Resources(cpu_millis=0, memory_bytes=T4.allocatable.memory_bytes)
    spend.opened(owned(1), attempt_of(owned(1), resources=cpus))
    assert spend.by_subject == {ALPHA: Decimal("0.36")}
    spend.opened(owned(2, "beta"), attempt_of(owned(2), resources=memory))
    assert spend.by_subject == {
        ALPHA: Decimal("0.189473684210"),
        beta: Decimal("0.210526315789"),
    }
    assert spend.occupied["i-1"].usd_per_hour(BOB) == 0
    spend.priced("i-1", Decimal("0.8"))
    assert spend.by_subject[ALPHA] == Decimal("0.378947368421")
    spend.closed("c-2-1")
    assert spend.by_subject == {ALPHA: Decimal("0.72")}, "it has the instance to itself again"
    spend.closed("c-1-1")
    assert (spend.by_subject, spend.occupied) == ({}, {})


def test_whoever_pays_a_whole_instance_gets_the_rest_of_it_for_nothing() -> None:
    spend = AttemptSpend(SpendLimits(settings(projects={"*": "9"})), {"t4": T4}, Placement.PACKED)
    cpus = Resources(cpu_millis=3600, memory_bytes=GIB // 8)
    memory = Resources(cpu_millis=0, memory_bytes=T4.allocatable.memory_bytes // 8 * 7)
    spend.opened(owned(1), attempt_of(owned(1), resources=cpus))
    this = replace(
        budget(settings(projects={"alpha": "0.4"}), spent=spend.by_subject),
        occupied=spend.occupied,
    )
    room = empty_slot(SlotKind.READY, "i-1", T4)
    assert this.refuses_place((ALPHA,), room, memory) is None, "0.9 and 0.875 are one instance"
    this.place((ALPHA,), room, memory, 1)
    assert this.spent(ALPHA) == Decimal("0.4")
    this.place((ALPHA,), room, memory, -1)
    assert this.spent(ALPHA) == Decimal("0.36")
    other = empty_slot(SlotKind.READY, "i-2", T4)
    assert this.refuses_place((ALPHA,), other, memory) is not None


def test_three_thirds_cost_no_more_than_the_whole() -> None:
    third = part_usd_per_hour(Decimal("0.5"), SHARE_UNITS // 3, SHARE_UNITS)
    assert Decimal("0.4999999999") < 3 * third <= Decimal("0.5")
    assert 3 * third - third - third - third == 0


# ---- the budget of a pass --------------------------------------------------------------------


def test_the_clusters_limit_refuses_for_all_and_may_be_reached_exactly() -> None:
    this = budget(settings("1"), cluster="0.6")
    assert this.refuses_create((), T4) is None
    this.create((), new_slot())
    refusal = this.refuses_create((), T1)
    assert refusal is not None
    assert refusal.everywhere
    assert refusal.reason.code == "spend_limit"
    assert refusal.reason.message == (
        "the cluster may spend $1.00/h (max_hourly_spend) and spends $1.00/h; "
        "the cheapest instance that would do costs $0.10/h"
    )
    assert this.refuses_place((), new_slot(), ONE) is None, "room costs the cluster nothing more"


def test_what_costs_nothing_is_never_refused() -> None:
    free = make_type(1, name="free", price="0.0")
    assert budget(settings("1"), cluster="5").refuses_create((), free) is None


def test_a_limit_that_no_instance_can_keep_says_so_and_stops_nobody_else() -> None:
    refusal = budget(settings("0.3")).refuses_create((), T4)
    assert refusal is not None
    assert refusal.is_final
    assert not refusal.everywhere
    assert refusal.reason.message == (
        "the cluster may spend $0.30/h (max_hourly_spend), and the cheapest instance that would do "
        "costs $0.40/h: that can never be, while the limit is what it is"
    )


def test_a_project_pays_for_room_by_share_and_for_a_new_instance_in_full() -> None:
    this = budget(settings("9", {"alpha": "0.45"}), spent={ALPHA: Decimal("0.1")})
    create = this.refuses_create((ALPHA,), T4)
    assert create is not None
    assert not create.everywhere
    assert create.reason.message == (
        "project alpha may spend $0.45/h (max_hourly_spend_per_project) and spends $0.10/h; "
        "the cheapest instance that would do costs $0.40/h"
    )
    room = empty_slot(SlotKind.READY, "i-1", T4)
    for _ in range(3):
        assert this.refuses_place((ALPHA,), room, ONE) is None
        this.place((ALPHA,), room, ONE, 1)
    place = this.refuses_place((ALPHA,), room, ONE)
    assert place is not None
    assert not place.everywhere
    assert place.reason.message == (
        "project alpha may spend $0.45/h (max_hourly_spend_per_project) and spends $0.40/h; "
        "its share of a t4 costs $0.10/h"
    )
    assert this.refuses_place((), room, ONE) is None
    this.place((ALPHA,), room, ONE, -1)
    assert this.refuses_place((ALPHA,), room, ONE) is None, "what is given back can be spent"


def test_project_and_user_each_have_to_pay() -> None:
    this = budget(settings(projects={"*": "9"}, users={"bob": "0.3"}))
    refusal = this.refuses_create((ALPHA, BOB), T4)
    assert refusal is not None
    assert refusal.reason.message.startswith("user bob may spend $0.30/h (max_hourly_spend_per_us")


def test_who_pays_for_an_instance_in_full_pays_nothing_more_for_claims_on_it() -> None:
    this = budget(settings(projects={"alpha": "0.4", "beta": "0.1"}))
    beta = SpendSubject("project", "beta")
    slot = new_slot()
    this.create((ALPHA,), slot)
    assert this.payers == {"new": (ALPHA,)}
    for _ in range(4):
        assert this.refuses_place((ALPHA,), slot, ONE) is None
        this.place((ALPHA,), slot, ONE, 1)
    assert this.spent(ALPHA) == Decimal("0.4")
    assert this.refuses_place((ALPHA,), slot, ONE) is None, "it pays all of it already"
    this.place((beta,), slot, ONE, 1)
    assert this.spent(beta) == Decimal("0.1"), "others pay their share"
    assert this.refuses_place((beta,), slot, ONE) is not None
    this.place((ALPHA,), slot, ONE, -4)
    assert this.spent(ALPHA) == Decimal("0.4"), "the instance is still there for it"
