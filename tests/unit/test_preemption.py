"""Whom preemption evicts from an instance (SEMANTICS of the design, per-instance jobs)."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import pytest

from longshore.dispatcher.scheduler.placement.fleet import Slot
from longshore.dispatcher.scheduler.placement.preemption import (
    MIN_GAP,
    PLACES,
    Blocker,
    Eviction,
    NoEviction,
    victims,
)
from longshore.drivers.interface import Resources
from tests.rigs.preemption import amounts, evicted, occupied, running

GIB = 2**30
MIB = 2**20

SCENARIO = (
    running("a", 200, amounts(512)),
    running("b", 200, amounts(512)),
    running("c", 400, amounts(1024)),
    running("d", 1000, amounts(1024)),
)


def test_3072_shares_with_p200_p200_p400_p1000_and_a_system_p1000_that_asks_1948() -> None:
    found = victims(amounts(1948), 1000, occupied(amounts(3072), SCENARIO))
    assert evicted(found) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("gap", "expected"), [(99, []), (100, ["v"]), (101, ["v"]), (0, []), (-100, [])]
)
def test_a_victim_99_below_is_never_taken_100_below_may_be(gap: int, expected: list[str]) -> None:
    found = victims(amounts(1), 500, occupied(amounts(1), [running("v", 500 - gap, amounts(1))]))
    if expected:
        assert evicted(found) == expected
    else:
        assert found == NoEviction(blocker=Blocker.PRIORITY, short=("cpus",))
    assert MIN_GAP == 100


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # Two low ones rather than one that is higher and fits exactly.
        (1024, ["a", "b"]),
        (512, ["a"]),
        (513, ["a", "b"]),
        # The higher is needed, and one of the lower ones is not any more.
        (1536, ["a", "c"]),
        (2048, ["a", "b", "c"]),
    ],
)
def test_the_lowest_priority_goes_first(asked: int, expected: list[str]) -> None:
    assert evicted(victims(amounts(asked), 1000, occupied(amounts(3072), SCENARIO))) == expected


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param({"a": 100, "b": 590, "c": 1000}, ["a", "b"], id="it-is-smaller"),
        pytest.param({"a": 100, "b": 650, "c": 1000}, ["b"], id="it-is-larger"),
        pytest.param({"a": 550, "b": 650, "c": 700}, ["b"], id="equally-near-the-younger"),
        pytest.param({"a": 650, "b": 550, "c": 700}, ["a"], id="it-is-superfluous"),
    ],
)
def test_the_nearest_fit_goes_among_equals(held: dict[str, int], expected: list[str]) -> None:
    attempts = [
        running(name, 100, amounts(cpus), began_at=float(began))
        for began, (name, cpus) in enumerate(held.items())
    ]
    found = victims(amounts(600), 500, occupied(amounts(sum(held.values())), attempts))
    assert sorted(evicted(found)) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # Only what is short counts: in cpus alone `lean` and `fat` are equally near.
        pytest.param(amounts(1001, GIB), ["lean"], id="cpus"),
        pytest.param(amounts(1, 20 * GIB), ["fat"], id="memory"),
        pytest.param(amounts(1001, 20 * GIB), ["fat"], id="cpus-and-memory"),
        pytest.param(amounts(1, disk=7), ["store"], id="disk"),
        pytest.param(amounts(1, gpus=1), ["card"], id="gpus"),
        pytest.param(amounts(1, licence=2), ["licensed"], id="custom"),
    ],
)
def test_nearness_is_measured_in_what_is_short(asked: Resources, expected: list[str]) -> None:
    attempts = [
        running("card", 100, amounts(100, GIB, gpus=1)),
        running("fat", 100, amounts(1000, 20 * GIB), began_at=1.0),
        running("lean", 100, amounts(1000, 4 * GIB), began_at=2.0),
        running("licensed", 100, amounts(100, GIB, licence=2)),
        running("store", 100, amounts(100, GIB, disk=7)),
    ]
    has = amounts(2301, 28 * GIB, disk=7, gpus=1, licence=2)
    assert evicted(victims(asked, 500, occupied(has, attempts))) == expected


def test_dimensions_weigh_by_what_is_missing_of_them_not_by_their_units() -> None:
    # `bytes` comes nearer by many bytes, and brings hardly any cpus.
    attempts = [
        running("both", 100, amounts(1800, 700 * MIB)),
        running("bytes", 100, amounts(100, 900 * MIB)),
        running("rest", 100, amounts(1900, 300 * MIB)),
    ]
    full = occupied(amounts(3800, 1900 * MIB), attempts)
    assert evicted(victims(amounts(2000, 1000 * MIB), 500, full)) == ["both", "rest"]


def test_nearness_is_exact_however_large_the_amounts() -> None:
    # `near` misses all of a byte less than `youth`, which no floating-point sum would show.
    whole = 2**53
    attempts = [
        running("near", 100, amounts(500, whole), began_at=1.0),
        running("rest", 100, amounts(500, 1), began_at=9.0),
        running("youth", 100, amounts(500, whole - 1), began_at=5.0),
    ]
    full = occupied(amounts(1500, 2 * whole), attempts)
    assert evicted(victims(amounts(1000, whole), 500, full)) == ["rest", "near"]


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        # 900 is nearest, then 1100 is needed; with it 900 is superfluous.
        ([("small", 100, 900, 0.0), ("large", 100, 1100, 0.0)], ["large"]),
        # The low one goes first, the high one makes it superfluous.
        ([("low", 100, 400, 0.0), ("high", 200, 1000, 0.0)], ["high"]),
        # The two low ones are not enough. Beside the last either would do, so the dearer is spared.
        ([("a", 100, 400, 0.0), ("b", 200, 400, 0.0), ("c", 300, 600, 0.0)], ["a", "c"]),
        # Of one priority the older is the dearer.
        ([("a", 100, 400, 1.0), ("b", 100, 400, 0.0), ("c", 300, 600, 0.0)], ["a", "c"]),
    ],
)
def test_superfluous_ones_are_dropped(
    attempts: list[tuple[str, int, int, float]], expected: list[str]
) -> None:
    held = [running(n, p, amounts(cpus), began_at=began) for n, p, cpus, began in attempts]
    full = occupied(amounts(sum(cpus for _, _, cpus, _ in attempts)), held)
    assert evicted(victims(amounts(1000), 500, full)) == expected


@pytest.mark.parametrize(
    ("asked", "expected"), [(1000, []), (2000, []), (2001, ["runs"]), (3000, ["runs"])]
)
def test_what_is_ending_is_room_and_never_evicted_twice(asked: int, expected: list[str]) -> None:
    held = [running("ends", 100, amounts(1000), ending=True), running("runs", 300, amounts(1000))]
    assert evicted(victims(amounts(asked), 500, occupied(amounts(3000), held))) == expected


def test_what_is_ending_is_room_whatever_its_priority() -> None:
    held = [running("ends", 900, amounts(1000), ending=True, protected=True)]
    assert evicted(victims(amounts(1000), 500, occupied(amounts(1000), held))) == []


def test_room_that_is_promised_already_is_not_taken_for_another() -> None:
    held = [running(name, 100, amounts(1000), ending=name != "c") for name in ("a", "b", "c")]
    on = occupied(amounts(3000), held)
    on.slot.assign(amounts(1500))
    # 500 of the two that go are left over.
    assert evicted(victims(amounts(500), 500, on)) == []
    assert evicted(victims(amounts(501), 500, on)) == ["c"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # The shared cpu comes free only when the last that shares it goes.
        pytest.param(amounts(1000), ["x", "y"], id="a-cpu-takes-both-that-share-it"),
        pytest.param(amounts(500), ["x", "y"], id="half-a-cpu-too"),
        # One of no cpus shares it, and needs but memory.
        pytest.param(amounts(0, 10), ["y"], id="no-cpus-beside-the-other"),
        pytest.param(amounts(0, 20), ["x", "y"], id="no-cpus-alone"),
        pytest.param(amounts(1000, 5), ["x", "y"], id="a-cpu-and-memory"),
    ],
)
def test_those_of_no_cpus_share_one(asked: Resources, expected: list[str]) -> None:
    held = [
        running("high", 500, amounts(3000)),
        running("x", 100, amounts(0, 10), began_at=1.0),
        running("y", 100, amounts(0, 10), began_at=2.0),
    ]
    found = victims(asked, 500, occupied(amounts(4000, 20), held))
    assert sorted(evicted(found)) == expected


def test_the_shared_cpu_stays_with_who_is_not_evicted() -> None:
    held = [running("high", 450, amounts(0, 10)), running("low", 100, amounts(0, 10))]
    one = occupied(amounts(1000, 20), held)
    assert victims(amounts(1000), 500, one) == NoEviction(blocker=Blocker.PRIORITY, short=("cpus",))
    assert evicted(victims(amounts(0, 10), 500, one)) == ["low"]
    # The one on the shared cpu would give nothing, so it stays; who has a cpu of its own goes.
    held.append(running("own", 300, amounts(1000, 1)))
    assert evicted(victims(amounts(1000), 500, occupied(amounts(2000, 21), held))) == ["own"]


def test_the_first_of_no_cpus_needs_one_to_share() -> None:
    held = [running("own", 100, amounts(1000, 10)), running("lean", 50, amounts(100, 10))]
    assert evicted(victims(amounts(0, 10), 500, occupied(amounts(1100, 30), held))) == ["own"]


def test_the_last_of_those_that_share_a_cpu_gives_it_back() -> None:
    held = [running("own", 100, amounts(1500)), running("last", 100, amounts(0))]
    assert evicted(victims(amounts(1000), 500, occupied(amounts(2500), held))) == ["last"]


def test_one_on_a_shared_cpu_that_is_ending_keeps_it_for_those_who_stay() -> None:
    held = [
        running("ends", 100, amounts(0, 10), ending=True),
        running("runs", 200, amounts(0, 10)),
    ]
    one = occupied(amounts(1000, 20), held)
    assert evicted(victims(amounts(1000), 500, one)) == ["runs"]
    assert evicted(victims(amounts(0, 10), 500, one)) == []


@pytest.mark.parametrize(
    ("asked", "blocker", "short"),
    [
        (amounts(4001), Blocker.TOO_SMALL, ("cpus",)),
        (amounts(4001, 41, gpus=1), Blocker.TOO_SMALL, ("cpus", "memory", "gpus")),
        (amounts(licence=1), Blocker.TOO_SMALL, ("licence",)),
        (amounts(3000), Blocker.PROTECTED, ("cpus",)),
        (amounts(2001, 5), Blocker.PRIORITY, ("cpus",)),
        (amounts(2001, 21), Blocker.PRIORITY, ("cpus", "memory")),
        (amounts(3500), Blocker.PROTECTED, ("cpus",)),
    ],
)
def test_nobody_is_evicted_in_vain(
    asked: Resources, blocker: Blocker, short: tuple[str, ...]
) -> None:
    held = [
        running("low", 100, amounts(1000, 10)),
        running("high", 401, amounts(900, 20)),
        running("daemon", 50, amounts(1100, 10), protected=True),
    ]
    found = victims(asked, 500, occupied(amounts(4000, 40), held))
    assert found == NoEviction(blocker=blocker, short=short)


@pytest.mark.parametrize(
    ("blocker", "message"),
    [
        (Blocker.TOO_SMALL, "even without all that runs on it"),
        (Blocker.PROTECTED, "unless more went, who may not be evicted"),
        (Blocker.PRIORITY, "unless more went, who are not 100 priority points below"),
    ],
)
def test_the_reason_is_told(blocker: Blocker, message: str) -> None:
    told = NoEviction(blocker=blocker, short=("cpus", "memory")).message
    assert told == f"it would be short of cpus and memory {message}"


def test_one_goes_where_there_is_room_but_no_place() -> None:
    held = [running("a", 200, amounts(100)), running("b", 100, amounts(100))]
    exclusive = occupied(amounts(4000), held, most=1)
    assert evicted(victims(amounts(100), 500, exclusive)) == ["b", "a"]
    assert evicted(victims(amounts(100), 500, occupied(amounts(4000), held, most=2))) == ["b"]
    assert evicted(victims(amounts(100), 500, occupied(amounts(4000), held, most=3))) == []
    found = victims(amounts(100), 250, exclusive)
    assert found == NoEviction(blocker=Blocker.PRIORITY, short=(PLACES,))


def test_an_instance_that_is_overfull_is_relieved_first() -> None:
    held = [running("a", 100, amounts(1000)), running("b", 100, amounts(1000))]
    one = occupied(amounts(1500), held)
    assert evicted(victims(amounts(500), 500, one)) == ["a"]
    assert evicted(victims(amounts(501), 500, one)) == ["a", "b"]


def test_the_youngest_goes_among_alike_and_who_has_not_begun_before() -> None:
    held = [
        running("old", 100, amounts(1), began_at=1.0),
        running("young", 100, amounts(1), began_at=5.0),
        running("new", 100, amounts(1), began_at=None),
        running("new-too", 100, amounts(1), began_at=None),
    ]
    order = ["new", "new-too", "young", "old"]
    full = occupied(amounts(4), held)
    for number in range(1, 5):
        assert evicted(victims(amounts(number), 500, full)) == order[:number]


def test_the_order_of_the_attempts_makes_no_difference() -> None:
    held = [
        running("a", 200, amounts(512), began_at=3.0),
        running("b", 200, amounts(512), began_at=3.0),
        running("c", 200, amounts(0, 1)),
        running("d", 300, amounts(0, 1), ending=True),
        running("e", 300, amounts(700, 1)),
        running("f", 900, amounts(0, 1)),
    ]
    found = {
        tuple(evicted(victims(amounts(500, 2), 500, occupied(amounts(2724, 4), order))))
        for order in permutations(held)
    }
    assert found == {("a", "c")}


def test_the_instance_and_its_price_are_in_the_eviction() -> None:
    held = [running("a", 100, amounts(1))]
    found = victims(amounts(1), 500, occupied(amounts(1), held, price="0.123", id_="i-7"))
    assert found == Eviction(slot_id="i-7", price_usd_per_hour=Decimal("0.123"), victims=(held[0],))


def test_looking_changes_nothing() -> None:
    held = [running("a", 100, amounts(0, 5)), running("b", 100, amounts(1000, 5), ending=True)]
    one = occupied(amounts(2000, 10), held)
    slot = one.slot
    before = Slot(
        kind=slot.kind,
        id=slot.id,
        type=slot.type,
        free=slot.free,
        count=slot.count,
        last_busy=slot.last_busy,
        on_shared_cpu=slot.on_shared_cpu,
        assigned=slot.assigned,
    )
    victims(amounts(2000, 10), 500, one)
    victims(amounts(9000, 10), 500, one)
    for field in ("free", "count", "on_shared_cpu", "assigned"):
        assert getattr(one.slot, field) == getattr(before, field)
