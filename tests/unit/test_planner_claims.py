"""What a pass does with the claims of earlier passes where a limit does not let all keep theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import Constraints, Placement, Profile
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.plan_check import check
from longshore.dispatcher.scheduler.placement.snapshot import Limits, Plan, Snapshot
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.errors import BugError, ErrorScope, QuotaError
from longshore.drivers.interface import Resources
from longshore.pool.create_backoff import CreateBackoff
from longshore.pool.holds import InstanceCounts, Scope
from longshore.pool.model import PoolSettings
from tests.rigs.planner import make_limits, make_view
from tests.samples import make_container, make_type

T1, T2, T8 = (make_type(n) for n in (1, 2, 8))
RULES = PackingPolicy(
    placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=256
)
LIFTED = ((9, 3), (5, 2), (1, 3))
"""The first and the third of three are of one class, on whose claims others may have to wait."""


def limits(*, max_instances: int = 9, **more: int | None) -> Limits:
    return replace(make_limits(instances=2, max_instances=max_instances), **more)  # type: ignore[arg-type]  # by name


def view_of(
    bounds: Limits, *wanted: tuple[int, int], claims: int = 2, supervisors: bool = False
) -> Snapshot:
    """Return what a pass decides from: containers 1, 2, ... as (priority, cpus).

    Those of 3 cpus have claims on a t8 that comes; an empty t2 is ready.
    """
    queue = Queue(
        lambda k: eligible_types([T1, T2, T8], k.resources, k.constraints, max_price_factor=9)
    )
    for number, (priority, cpus) in enumerate(wanted, 1):
        queue.add(make_container(number, cpus=cpus, priority=priority, supervisor=supervisors))
    slots = [empty_slot(SlotKind.COMING, "coming", T8), empty_slot(SlotKind.READY, "ready", T2)]
    view = make_view(queue, slots, bounds, RULES)
    of_three = next(c for c in view.classes if c.key.resources.cpu_millis == 3000)
    view.fleet.claim(of_three.key, slots[0], of_three.need(T8), claims)
    return view


def placed(decided: Plan) -> dict[str, str]:
    return {container_id: place.id for container_id, place in decided.places}


# ---- turns ---------------------------------------------------------------------------------------


def test_claims_are_kept_by_turns_where_not_all_may_have_a_place() -> None:
    decided = plan(view_of(limits(containers_left=2), *LIFTED))
    assert placed(decided) == {"c-1": "coming", "c-2": "ready"}
    assert decided.next_in_line == ["c-3"]


def test_supervisors_keep_claims_by_turns_where_not_all_may_have_a_place() -> None:
    decided = plan(view_of(limits(supervisors_left=2), *LIFTED, supervisors=True))
    assert placed(decided) == {"c-1": "coming", "c-2": "ready"}


def test_where_all_may_have_a_place_each_keeps_its_claim() -> None:
    decided = plan(view_of(limits(containers_left=3, supervisors_left=0), *LIFTED))
    assert placed(decided) == {"c-1": "coming", "c-2": "ready", "c-3": "coming"}


def test_at_a_limit_one_has_the_room_that_a_class_claims_for_one_who_comes_after_it() -> None:
    decided = plan(view_of(limits(max_instances=2), (9, 3), (5, 5), (1, 3)))
    assert placed(decided) == {"c-1": "coming", "c-2": "coming"}
    assert decided.next_in_line == ["c-3"]


# ---- quota of one type ---------------------------------------------------------------------------


def test_a_quota_of_one_type_is_a_group_of_its_own() -> None:
    types = {type_.name: type_ for type_ in (T1, T2, T8)}

    def one_each(_scope: Scope) -> InstanceCounts:
        return InstanceCounts(there=1, there_cpu_millis=2000)

    holds = CreateBackoff(settings=PoolSettings(), types=types, groups={})
    for name in ("t1", "t2"):
        error = QuotaError("no more of it", scope=ErrorScope.TYPE)
        holds.failed(types[name], error, began_at=0.0, tally=one_each, now=0.0)
    bounds = replace(
        limits(),
        create_block=lambda type_: holds.create_block(
            type_, in_flight=(), unproven=False, tally=one_each, now=1.0
        ),
    )
    queue = Queue(
        lambda k: eligible_types(types.values(), k.resources, k.constraints, max_price_factor=9)
    )
    for number, names in enumerate((("t1",), ("t2",), ("t1", "t2"), ("t2", "t8")), 1):
        constraints = Constraints(instance_types=names)
        queue.add(make_container(number, priority=9 - number, constraints=constraints))
    decided = plan(make_view(queue, [], bounds, RULES))
    assert decided.next_in_line == ["c-1", "c-2"]
    assert not decided.stopped
    assert [(id_, place.type.name) for id_, place in decided.places] == [("c-4", "t8")]
    third = next(c.key for c in queue.classes() if c.at(0)[1] == "c-3")  # type: ignore[index]  # it waits
    assert decided.waiting[third].code == "behind"


# ---- the check before a plan is carried out ------------------------------------------------------


def another_starts(_view: Snapshot, decided: Plan) -> None:
    (start,) = decided.lines[1].starts
    decided.lines[1].starts = [("c-3", start[1])]


def one_starts_twice(_view: Snapshot, decided: Plan) -> None:
    decided.lines[1].starts *= 2


def a_start_where_nothing_is_ready(view: Snapshot, decided: Plan) -> None:
    decided.lines[1].starts = [("c-2", view.fleet.slots["coming"])]


def a_claim_that_the_fleet_lacks(view: Snapshot, decided: Plan) -> None:
    decided.lines[0].claims.append((view.fleet.slots["coming"], 1))


def a_claim_that_only_the_fleet_has(_view: Snapshot, decided: Plan) -> None:
    decided.lines[0].claims.pop()


def more_claims_than_wait(view: Snapshot, decided: Plan) -> None:
    line, slot = decided.lines[0], view.fleet.slots["coming"]
    view.fleet.claim(line.key, slot, Resources(), 1)
    line.claims.append((slot, 1))


def more_than_there_is_room_for(view: Snapshot, _decided: Plan) -> None:
    view.fleet.slots["ready"].assign(Resources(cpu_millis=1000))


def a_custom_resource_over_its_room(view: Snapshot, _decided: Plan) -> None:
    view.fleet.slots["ready"].assign(Resources(custom=(("licence", 1),)))


def more_containers_than_one_instance_takes(view: Snapshot, _decided: Plan) -> None:
    view.fleet.slots["ready"].count = 257


def a_place_on_an_instance_that_is_not_there(view: Snapshot, _decided: Plan) -> None:
    view.fleet.remove("ready")


@pytest.mark.parametrize(
    "breach",
    [
        another_starts,
        one_starts_twice,
        a_start_where_nothing_is_ready,
        a_claim_that_the_fleet_lacks,
        a_claim_that_only_the_fleet_has,
        more_claims_than_wait,
        more_than_there_is_room_for,
        a_custom_resource_over_its_room,
        more_containers_than_one_instance_takes,
        a_place_on_an_instance_that_is_not_there,
    ],
)
def test_a_plan_that_breaks_a_rule_is_not_carried_out(
    breach: Callable[[Snapshot, Plan], None],
) -> None:
    view = view_of(limits(), *LIFTED)
    decided = plan(view)
    check(view, decided)
    breach(view, decided)
    with pytest.raises(BugError):
        check(view, decided)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (limits(max_instances=5), "max_instances"),
        (replace(limits(), creates_left=3), "may make fewer"),
        (replace(limits(), tokens_left=3), "may make fewer"),
        (limits(containers_left=2), "3 places where 2 are left"),
        (limits(supervisors_left=2), "3 places where 2 are left"),
    ],
)
def test_a_plan_beyond_a_limit_is_not_carried_out(bounds: Limits, said: str) -> None:
    wide = view_of(limits(), *LIFTED, supervisors=True)
    decided = plan(wide)
    decided.creates += [wide.fleet.slots["coming"]] * 4
    check(wide, decided)
    with pytest.raises(BugError, match=said):
        check(replace(wide, limits=bounds), decided)


# ---- what comes has less room than was thought ---------------------------------------------------


def test_what_turns_out_smaller_keeps_as_many_claims_as_it_has_room_for() -> None:
    view = view_of(limits(), (9, 3), (8, 3), (7, 2))
    fleet, coming = view.fleet, view.fleet.slots["coming"]
    of_two = next(c for c in view.classes if c.key.resources.cpu_millis == 2000)
    fleet.claim(of_two.key, coming, of_two.need(T8), 1)
    smaller = coming
    for cpus, kept in ((8, [(2, 1), (3, 2)]), (7, [(2, 1), (3, 1)]), (2, [(2, 1)]), (1, [])):
        smaller = empty_slot(SlotKind.COMING, "coming", T8)
        smaller.free = replace(smaller.free, cpu_millis=1000 * cpus)
        fleet.put(smaller)
        claimed = [(need.cpu_millis // 1000, number) for need, number in fleet.claimed_on("coming")]
        assert sorted(claimed) == kept
        assert smaller.free.cpu_millis == 1000 * (cpus - sum(each * n for each, n in kept))
    assert not fleet.claims
    assert (smaller.count, smaller.assigned) == (0, 0)
