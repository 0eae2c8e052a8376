"""Properties of preemption on generated instances, against all choices of victims there are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.scheduler.placement.preemption import (
    MIN_GAP,
    Blocker,
    Eviction,
    NodeUsage,
    NoEviction,
    RunningAttempt,
    choose,
    victims,
)
from longshore.drivers.interface import Resources
from tests.rigs.preemption import amounts, occupied, running

SHARED_CPU = 1000


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request for room on one instance that has `has` in all."""

    asked: Resources
    priority: int
    has: Resources
    attempts: list[RunningAttempt]
    most: int

    def on(self, attempts: Sequence[RunningAttempt] | None = None) -> NodeUsage:
        """Return the instance, with its attempts in another order perhaps."""
        return occupied(self.has, self.attempts if attempts is None else attempts, most=self.most)

    def evictable(self) -> list[RunningAttempt]:
        """Return everybody who may be a victim."""
        return [
            t
            for t in self.attempts
            if t.may_be_evicted and not t.is_ending and self.priority - t.priority >= MIN_GAP
        ]

    def is_enough(self, gone: Collection[str]) -> bool:
        """Return whether there is room without these and without what is ending, added up anew."""
        staying = [
            t.resources for t in self.attempts if t.attempt_id not in gone and not t.is_ending
        ]
        return fits([*staying, self.asked], self.asked, self.has, self.most)


def fits(together: Sequence[Resources], asked: Resources, has: Resources, most: int) -> bool:
    """Return whether some have room beside each other; what `asked` does not name may be short."""
    cpus = sum(r.cpu_millis for r in together)
    if any(r.cpu_millis == 0 for r in together):
        cpus += SHARED_CPU
    room = dict(has.custom)
    return (
        len(together) <= most
        and cpus <= has.cpu_millis
        and sum(r.memory_bytes for r in together) <= has.memory_bytes
        and sum(r.disk_bytes for r in together) <= has.disk_bytes
        and sum(r.gpus for r in together) <= has.gpus
        and all(
            sum(dict(r.custom).get(name, 0) for r in together) <= room.get(name, 0)
            for name, _ in asked.custom
        )
    )


def some_resources() -> st.SearchStrategy[Resources]:
    return st.builds(
        amounts,
        st.sampled_from((0, 0, 250, 500, 1000, 1500, 3000)),
        st.integers(0, 6),
        st.integers(0, 2),
        st.sampled_from((0, 0, 1)),
        licence=st.sampled_from((0, 0, 1, 2)),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    attempts = [
        running(
            f"a{number}",
            draw(st.sampled_from((1, 100, 100, 200, 299, 300, 301, 500, 1000))),
            draw(some_resources()),
            began_at=draw(st.sampled_from((None, 1.0, 1.0, 2.5, 7.0))),
            ending=draw(st.sampled_from((False, False, False, True))),
            protected=draw(st.sampled_from((False, False, False, True))),
        )
        for number in range(draw(st.integers(0, 6)))
    ]
    # More or less than all take: an instance may be overfull by what is promised of it.
    held = [t.resources for t in attempts]
    shared = SHARED_CPU * draw(st.integers(0, 2))
    has = amounts(
        max(0, sum(r.cpu_millis for r in held) + shared + 250 * draw(st.integers(-3, 4))),
        max(0, sum(r.memory_bytes for r in held) + draw(st.integers(-3, 3))),
        max(0, sum(r.disk_bytes for r in held) + draw(st.integers(-1, 2))),
        max(0, sum(r.gpus for r in held) + draw(st.integers(0, 1))),
        licence=max(0, sum(dict(r.custom).get("licence", 0) for r in held)),
    )
    return Case(
        asked=draw(some_resources()),
        priority=draw(st.sampled_from((100, 200, 399, 400, 401, 1000))),
        has=has,
        attempts=attempts,
        most=draw(st.sampled_from((1, 3, 5, 256, 256, 256))),
    )


def ids(attempts: Collection[RunningAttempt]) -> list[str]:
    return [t.attempt_id for t in attempts]


@given(cases())
def test_the_victims_suffice_and_none_is_superfluous(case: Case) -> None:
    found = victims(case.asked, case.priority, case.on())
    if isinstance(found, NoEviction):
        return
    going = ids(found.victims)
    assert len(set(going)) == len(going)
    assert case.is_enough(going)
    for spared in going:
        assert not case.is_enough([one for one in going if one != spared])


@given(cases())
def test_nobody_is_a_victim_who_may_not_be(case: Case) -> None:
    found = victims(case.asked, case.priority, case.on())
    if isinstance(found, Eviction):
        for victim in found.victims:
            assert case.priority - victim.priority >= 100
            assert victim.may_be_evicted
            assert not victim.is_ending


@given(cases())
def test_there_is_an_eviction_whenever_any_choice_of_victims_would_do(case: Case) -> None:
    found = victims(case.asked, case.priority, case.on())
    evictable = ids(case.evictable())
    choices = [
        choice
        for number in range(len(evictable) + 1)
        for choice in combinations(evictable, number)
        if case.is_enough(choice)
    ]
    assert isinstance(found, Eviction) == bool(choices)
    if isinstance(found, Eviction):
        # The highest priority that is lost is the lowest that can be.
        priorities = {t.attempt_id: t.priority for t in case.attempts}
        lowest = min(max((priorities[one] for one in choice), default=0) for choice in choices)
        assert max((victim.priority for victim in found.victims), default=0) == lowest


@given(cases())
def test_the_blocker_is_what_is_in_the_way(case: Case) -> None:
    found = victims(case.asked, case.priority, case.on())
    if isinstance(found, Eviction):
        return
    unprotected = ids([t for t in case.attempts if t.may_be_evicted])
    if not case.is_enough(ids(case.attempts)):
        assert found.blocker is Blocker.TOO_SMALL
    elif not case.is_enough(unprotected):
        assert found.blocker is Blocker.PROTECTED
    else:
        assert found.blocker is Blocker.PRIORITY
    assert found.short


@given(cases(), st.data())
def test_the_order_of_the_attempts_makes_no_difference(case: Case, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(case.attempts))
    expected = victims(case.asked, case.priority, case.on())
    assert victims(case.asked, case.priority, case.on(shuffled)) == expected


@given(cases(), some_resources())
def test_two_requests_have_room_together_and_no_victim_is_evicted_twice(
    case: Case, second: Resources
) -> None:
    eviction = victims(case.asked, case.priority, case.on())
    if isinstance(eviction, NoEviction):
        return
    going = ids(eviction.victims)
    after = case.on(
        [replace(t, is_ending=t.is_ending or t.attempt_id in going) for t in case.attempts]
    )
    # What comes free is promised to who asked for it.
    after.slot.assign(case.asked)
    another = victims(second, case.priority, after)
    if isinstance(another, NoEviction):
        return
    assert not set(going) & set(ids(another.victims))
    gone = {*going, *ids(another.victims)}
    staying = [t.resources for t in case.attempts if t.attempt_id not in gone and not t.is_ending]
    assert fits([*staying, case.asked, second], second, case.has, case.most)


@given(st.lists(cases(), max_size=3), st.data())
def test_the_order_of_the_instances_makes_no_difference(
    several: list[Case], data: st.DataObject
) -> None:
    found = [
        victims(
            case.asked,
            case.priority,
            occupied(case.has, case.attempts, most=case.most, id_=f"i-{number}"),
        )
        for number, case in enumerate(several)
    ]
    evictions = [one for one in found if isinstance(one, Eviction)]
    chosen = choose(evictions, 10.0)
    assert choose(data.draw(st.permutations(evictions)), 10.0) == chosen
    assert (chosen is None) == (not evictions)
    if chosen is not None:
        least = sum(victim.priority for victim in chosen.victims)
        assert all(least <= sum(v.priority for v in one.victims) for one in evictions)
