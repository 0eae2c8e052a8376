"""Limits of spending count what the ledger books, whoever comes to an instance and leaves it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cost.money import exact_usd, nusd_of
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.shares import dominant_share
from longshore.dispatcher.cost.tiling import lines_of
from longshore.dispatcher.domain.containers import Attempt, Container, Placement
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    OF_INSTANCE,
    Account,
    BilledState,
    InstanceBill,
    Interval,
)
from longshore.dispatcher.scheduler.placement.fleet import SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.spend import PassBudget
from longshore.dispatcher.state.attempt_spend import AttemptSpend
from longshore.dispatcher.state.spend_limits import SpendLimits, SpendSubject
from longshore.drivers.billing import AS_USED
from longshore.drivers.interface import Resources
from tests.samples import make_container, make_type
from tests.unit.test_spend import settings

TYPE = make_type(8, price="0.37")
WHOLE = TYPE.allocatable
LIMITS = SpendLimits(settings(projects={"*": "9"}))
SMALLEST = Decimal("1e-12")
NEEDS = st.builds(
    Resources,
    cpu_millis=st.integers(0, WHOLE.cpu_millis),
    memory_bytes=st.integers(1, WHOLE.memory_bytes),
)
LIVES = st.tuples(st.sampled_from(["alpha", "beta", "gamma"]), NEEDS, st.booleans())


def owned(number: int, project: str, need: Resources) -> tuple[Container, Attempt]:
    container = replace(make_container(number), project=project)
    attempt = Attempt(
        id=f"{container.id}-1",
        container_id=container.id,
        number=1,
        instance_id="i-1",
        instance_type=TYPE.name,
        price_usd_per_hour=TYPE.price_usd_per_hour,
        created_at=0.0,
        resources=need,
    )
    return replace(container, attempts=(attempt,)), attempt


def booked(there: list[tuple[Container, Attempt]]) -> dict[str, Fraction]:
    """Return what the ledger books each project in an hour, and the rest to nobody."""
    bill = InstanceBill(
        instance_id="i-1",
        type_name=TYPE.name,
        provider_type="p8",
        preemptible=False,
        nusd_per_hour=nusd_of(TYPE.price_usd_per_hour),
        payer=Account(),
        created_ms=0,
        rule=AS_USED,
        running_ms=0,
        ready_ms=0,
        used_ms=0,
    )
    base = Interval(instance_id="i-1", holder=OF_INSTANCE, from_ms=0, state=BilledState.ROOM)
    intervals = [
        replace(
            base,
            holder=attempt.id,
            state=BilledState.WORK,
            share=dominant_share(attempt.resources or Resources(), WHOLE),
            account=Account(project=container.project),
        )
        for container, attempt in there
    ]
    lines = lines_of(
        bill,
        [base, *intervals],
        PriceBook(()),
        from_ms=0,
        until_ms=MS_PER_HOUR,
        now_ms=MS_PER_HOUR,
    )
    found: Counter[str] = Counter()
    for line in lines:
        found[line.account.project] += line.grains
    return {project: exact_usd(grains) for project, grains in found.items()}


@given(st.lists(LIVES, min_size=1, max_size=8))
def test_what_projects_spend_is_what_the_ledger_books_them(
    lives: list[tuple[str, Resources, bool]],
) -> None:
    spend = AttemptSpend(LIMITS, {TYPE.name: TYPE}, Placement.PACKED)
    there: list[tuple[Container, Attempt]] = []
    for number, (project, need, leaves) in enumerate(lives, 1):
        there.append(owned(number, project, need))
        spend.opened(*there[-1])
        if leaves:
            spend.closed(there.pop(0)[1].id)
        spend.check(container for container, _ in there)
    spent = spend.by_subject
    price = TYPE.price_usd_per_hour
    in_hour = booked(there)
    a_ms_of_each = Fraction(price) * (len(there) + 1) / MS_PER_HOUR
    for project in ("alpha", "beta", "gamma"):
        now = Fraction(spent.get(SpendSubject("project", project), Decimal(0)))
        assert abs(now - in_hour.get(project, Fraction(0))) <= a_ms_of_each
    total = sum(spent.values(), Decimal(0))
    shares = sum((dominant_share(a.resources or Resources(), WHOLE) for _, a in there), Fraction(0))
    whole = Fraction(total) + Fraction(price) * max(Fraction(0), 1 - shares)
    assert whole <= Fraction(price), "an instance costs no more than it does"
    assert whole > Fraction(price) - (2 * len(there) + 1) * Fraction(SMALLEST)


@given(st.lists(LIVES, max_size=6), NEEDS, st.integers(0, 2))
def test_room_is_asked_for_at_what_it_costs_once_others_have_left(
    lives: list[tuple[str, Resources, bool]], need: Resources, number: int
) -> None:
    spend = AttemptSpend(LIMITS, {TYPE.name: TYPE}, Placement.PACKED)
    there = [owned(i, project, need) for i, (project, need, _) in enumerate(lives, 1)]
    for each in there:
        spend.opened(*each)
    budget = PassBudget(
        limits=LIMITS,
        placement=Placement.PACKED,
        cluster=Decimal(0),
        by_subject=spend.by_subject,
        occupied=spend.occupied,
    )
    alpha = SpendSubject("project", "alpha")
    before = budget.spent(alpha)
    slot = empty_slot(SlotKind.READY, "i-1", TYPE)
    for _ in range(number):
        budget.place((alpha,), slot, need, 1)
    asked = budget.spent(alpha)
    for _ in range(number):
        budget.place((alpha,), slot, need, -1)
    assert budget.spent(alpha) == before, "all is given back"
    for i in range(number):
        spend.opened(*owned(100 + i, "alpha", need))
    assert spend.by_subject.get(alpha, Decimal(0)) <= asked <= max(before, TYPE.price_usd_per_hour)
    for container, attempt in there:
        if container.project != "alpha":
            spend.closed(attempt.id)
    assert not number or spend.by_subject[alpha] == asked
