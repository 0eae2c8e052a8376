"""Properties of a planning pass that finds claims of earlier ones, quotas and little money."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from hypothesis import example, given, settings
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import Container, Placement, Profile, SchedulerSettings
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.input.quantities import Price
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import (
    Fleet,
    PackingPolicy,
    Slot,
    SlotKind,
    empty_slot,
)
from longshore.dispatcher.scheduler.placement.plan_check import check
from longshore.dispatcher.scheduler.placement.snapshot import Limits, Plan, Snapshot
from longshore.dispatcher.scheduler.placement.spend import PassBudget
from longshore.dispatcher.state.attempt_spend import SHARE_UNITS, part_usd_per_hour, share_units
from longshore.dispatcher.state.queue import ClassKey, Queue, RequestClass
from longshore.dispatcher.state.spend_limits import SpendLimits, SpendSubject
from longshore.drivers.interface import Resources
from longshore.pool.charging import charge
from longshore.pool.holds import CreateBlockKind
from tests.rigs.planner import make_create_block, make_limits
from tests.samples import GIB, make_container, make_type

TYPES = [make_type(n, price=price) for n, price in ((1, "0.1"), (2, "0.2"), (4, "0.3"))]
NAMES = tuple(type_.name for type_ in TYPES)
RULES = PackingPolicy(
    placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=4
)
PRICES = st.sampled_from(["0.1", "0.15", "0.2", "0.3", "0.5", "0.8"]).map(Price)
PROJECTS = ("alpha", "beta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a pass finds.

    `slots` are (kind, number of the type, cpus in use); of `claims`, which are (class, slot, how
    many), those are made that may be.
    """

    containers: tuple[Container, ...]
    slots: tuple[tuple[SlotKind, int, int], ...]
    claims: tuple[tuple[int, int, int], ...]
    configured: SchedulerSettings
    limits: Limits

    def view(self) -> Snapshot:
        """Return what a pass decides from, made anew."""
        spending = SpendLimits(self.configured)
        queue = Queue(
            lambda k: eligible_types(TYPES, k.resources, k.constraints, max_price_factor=9),
            spending.account_of,
        )
        for container in self.containers:
            queue.add(container)
        classes = queue.classes()
        fleet = Fleet(RULES)
        for number, (kind, type_, used) in enumerate(self.slots):
            fleet.put(slot(f"w{number}", kind, type_, used))
        for class_, place, number in self.claims:
            if classes and self.slots:
                claim(fleet, classes[class_ % len(classes)], f"w{place % len(self.slots)}", number)
        budget = None
        if spending.exist:
            budget = PassBudget(
                limits=spending,
                placement=RULES.placement,
                cluster=Decimal("0.2"),
                by_subject={},
            )
            budget.begin({}, classes, fleet)
        return Snapshot(classes=classes, fleet=fleet, limits=replace(self.limits, budget=budget))


def slot(id_: str, kind: SlotKind, type_: int, used: int) -> Slot:
    """Return a slot on which some cpus are in use."""
    made = empty_slot(kind, id_, TYPES[type_])
    for _ in range(min(used, TYPES[type_].resources.cpu_millis // 1000)):
        made.free = made.free.minus(Resources(cpu_millis=1000, memory_bytes=GIB))
        made.count += 1
    made.idle = kind is SlotKind.READY and not made.count
    return made


def claim(fleet: Fleet, request_class: RequestClass, slot_id: str, number: int) -> None:
    """Claim room for some of a class, as far as there is some; more may be claimed than wait."""
    found = fleet.slots[slot_id]
    if found.kind is SlotKind.READY or found.type.name not in request_class.needs:
        return
    need = request_class.need(found.type)
    for _ in range(number):
        fits = charge(need, on_shared_cpu=found.on_shared_cpu).fits_in(found.free)
        if not fits or fleet.rules.is_full(found.count):
            return
        fleet.claim(request_class.key, found, need, 1)


@st.composite
def containers(draw: st.DrawFn) -> tuple[Container, ...]:
    kinds = st.tuples(st.integers(0, 3), st.booleans(), st.sampled_from(PROJECTS))
    few = draw(st.lists(kinds, min_size=1, max_size=4))
    made = []
    for number in range(draw(st.integers(1, 14))):
        cpus, supervisor, project = draw(st.sampled_from(few))
        each = make_container(
            number, cpus=cpus, priority=draw(st.integers(1, 9)), supervisor=supervisor
        )
        made.append(replace(each, project=project))
    return tuple(made)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = st.sampled_from([SlotKind.READY, SlotKind.COMING, SlotKind.LAUNCHING])
    places = st.tuples(kinds, st.integers(0, 2), st.integers(0, 4))
    slots = tuple(draw(st.lists(places, max_size=5)))
    covered = draw(st.sampled_from([(), *((n,) for n in NAMES), NAMES[:2], NAMES]))
    create_block = make_create_block(
        draw(st.sampled_from(CreateBlockKind)),
        "not now",
        *covered,
        everywhere=covered == NAMES,
    )
    limits = make_limits(
        instances=len(slots),
        max_instances=len(slots) + draw(st.integers(0, 3)),
        creates_left=draw(st.integers(0, 3)),
        tokens_left=draw(st.integers(0, 3)),
        create_blocks=dict.fromkeys(covered, create_block),
    )
    return Case(
        containers=draw(containers()),
        slots=slots,
        claims=tuple(
            draw(
                st.lists(
                    st.tuples(st.integers(0, 7), st.integers(0, 4), st.integers(1, 4)), max_size=6
                )
            )
        ),
        configured=SchedulerSettings(
            max_hourly_spend_usd=draw(st.none() | PRICES),
            max_hourly_spend_usd_per_project=draw(
                st.dictionaries(st.sampled_from([*PROJECTS, "*"]), PRICES, max_size=2)
            ),
        ),
        limits=replace(
            limits,
            containers_left=draw(st.none() | st.integers(0, 8)),
            supervisors_left=draw(st.none() | st.integers(0, 4)),
        ),
    )


def seen(decided: Plan) -> list[tuple[str, str]]:
    return [(container_id, place.id) for container_id, place in decided.places]


def money_that_comes_free_late() -> Case:
    """Return a case in which a start pays what the first of another class had no money for.

    That one has used its claim by then, and the second of its class finds the place affordable.
    """
    wanted = ((1, 9, 2), (2, 5, 1), (3, 1, 2))
    return Case(
        containers=tuple(
            replace(make_container(number, cpus=cpus, priority=priority), project="alpha")
            for number, priority, cpus in wanted
        ),
        slots=(
            (SlotKind.COMING, 2, 0),
            (SlotKind.COMING, 0, 0),
            (SlotKind.READY, 2, 3),
            (SlotKind.READY, 1, 0),
        ),
        claims=((0, 0, 1), (1, 1, 1)),
        configured=SchedulerSettings(max_hourly_spend_usd_per_project={"alpha": Price("0.44")}),
        limits=make_limits(instances=4, max_instances=4),
    )


@settings(max_examples=200)
@example(money_that_comes_free_late())
@given(cases())
def test_nobody_is_placed_twice_or_over_a_higher_one_of_its_class(case: Case) -> None:
    view = case.view()
    decided = plan(view)
    ids = [container_id for container_id, _ in decided.places]
    assert len(ids) == len(set(ids)), "nobody is placed twice"
    placed = set(ids)
    for line in decided.lines:
        waiting = [id_ for _, id_ in line.request_class.span(0, len(line.request_class))]
        number = len(line.starts) + line.claimed
        assert placed.intersection(waiting) == set(waiting[:number]), "the first have a place"
        assert [id_ for id_, _ in line.starts] == waiting[: len(line.starts)]
        assert line.position == number
        assert not line.kept
    assert seen(plan(case.view())) == seen(decided), "the same again from the same"


@settings(max_examples=200)
@example(money_that_comes_free_late())
@given(cases())
def test_a_plan_passes_the_check_before_it_is_carried_out(case: Case) -> None:
    view = case.view()
    check(view, plan(view))


@settings(max_examples=200)
@given(cases())
def test_no_more_is_spent_than_may_be_but_for_what_was_claimed_before(case: Case) -> None:
    view = case.view()
    budget = view.limits.budget
    if not isinstance(budget, PassBudget):
        return
    subjects = [SpendSubject("project", name) for name in PROJECTS]
    before = {subject: budget.spent(subject) for subject in subjects}
    decided = plan(view)
    for subject in subjects:
        limit = budget.limits.of(subject)
        assert limit is None or budget.spent(subject) <= max(limit, before[subject])
        assert budget.spent(subject) == spent_anew(decided, view, subject), "as it is added up anew"
    if budget.limits.cluster is not None and decided.creates:
        assert budget.cluster <= budget.limits.cluster


def spent_anew(decided: Plan, view: Snapshot, subject: SpendSubject) -> Decimal:
    """Return what the places of a plan cost a holder, who pays new instances in full."""
    budget = view.limits.budget
    assert isinstance(budget, PassBudget)
    shares: dict[str, int] = {}
    prices = {}
    for key, place in by_class(decided):
        if subject in key.account:
            need = next(c for c in view.classes if c.key == key).need(place.type)
            share = share_units(need, place.type, budget.placement)
            shares[place.id] = shares.get(place.id, 0) + share
            prices[place.id] = place.type.price_usd_per_hour
    for slot_id, account in budget.payers.items():
        if subject in account:
            shares[slot_id] = SHARE_UNITS
            prices[slot_id] = view.fleet.slots[slot_id].type.price_usd_per_hour
    parts = (part_usd_per_hour(prices[id_], share, share) for id_, share in shares.items())
    return sum(parts, Decimal(0))


def by_class(decided: Plan) -> list[tuple[ClassKey, Slot]]:
    return [(line.key, place) for line in decided.lines for _, place in line.places()]
