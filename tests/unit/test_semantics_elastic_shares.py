"""Rows of the elastic jobs' semantics: the spare cpus of an instance."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from longshore.dispatcher.scheduler.elastic.cpu_shares import (
    CpuLimit,
    CpuShare,
    changes,
    cpu_limits,
    unreserved_millis,
)
from longshore.drivers.interface import Resources

EIGHT = Resources(cpu_millis=8000, memory_bytes=2**30)


def on_shared_cpu(*cpu_millis: int, gpus: Sequence[int] = ()) -> list[CpuShare]:
    """Return a-1, a-2, ... with so many cpus each; those of the numbers in `gpus` have a GPU."""
    return [
        CpuShare(
            attempt_id=f"a-{number}",
            given=Resources(cpu_millis=millis, gpus=int(number in gpus)),
        )
        for number, millis in enumerate(cpu_millis, 1)
    ]


def shared(allocatable: Resources, there: list[CpuShare], *others: Resources) -> dict[str, int]:
    reserved = [*(each.given for each in there), *others]
    return cpu_limits(unreserved_millis(allocatable, reserved), there)


def test_two_with_min_2_cores_on_8_have_4_each_and_when_one_ends_the_other_8_at_once() -> None:
    both = shared(EIGHT, on_shared_cpu(2000, 2000))
    assert both == {"a-1": 4000, "a-2": 4000}
    alone = shared(EIGHT, on_shared_cpu(2000))
    assert changes(both, alone) == (CpuLimit(attempt_id="a-1", cpu_millis=8000),)


def test_spare_cores_are_shared_equally_above_each_ones_minimum() -> None:
    assert shared(EIGHT, on_shared_cpu(1000, 3000)) == {"a-1": 3000, "a-2": 5000}


def test_what_other_containers_reserve_is_not_shared() -> None:
    others = [Resources(cpu_millis=1500), Resources(cpu_millis=500, gpus=1)]
    assert shared(EIGHT, on_shared_cpu(2000, 2000), *others) == {"a-1": 3000, "a-2": 3000}


def test_containers_with_gpus_are_excepted() -> None:
    assert shared(EIGHT, on_shared_cpu(2000, 2000, gpus=(1,))) == {"a-1": 2000, "a-2": 6000}
    assert shared(EIGHT, on_shared_cpu(2000, gpus=(1,))) == {"a-1": 2000}


def test_nothing_is_lost_what_cannot_be_divided_goes_to_the_first() -> None:
    limits = shared(EIGHT, on_shared_cpu(1000, 1000, 1000))
    assert (limits, sum(limits.values())) == ({"a-1": 2667, "a-2": 2667, "a-3": 2666}, 8000)
    assert cpu_limits(7, reversed(on_shared_cpu(0, 0, 0)))["a-1"] == 1003


@pytest.mark.parametrize(("others", "spare"), [(0, 4000), (2, 3000)])
def test_those_of_no_cpus_reserve_one_together(others: int, spare: int) -> None:
    reserved = [Resources(cpu_millis=4000), *[Resources() for _ in range(others)]]
    assert unreserved_millis(EIGHT, reserved) == spare


def test_an_instance_that_is_overfull_has_nothing_to_spare() -> None:
    assert unreserved_millis(EIGHT, [Resources(cpu_millis=9000)]) == 0
    assert cpu_limits(0, on_shared_cpu(9000)) == {"a-1": 9000}


def test_after_an_event_only_what_differs_is_set_lower_limits_first() -> None:
    before = shared(EIGHT, on_shared_cpu(2000, 2000))
    after = shared(EIGHT, on_shared_cpu(2000, 2000, 1000))
    assert after == {"a-1": 3000, "a-2": 3000, "a-3": 2000}
    assert [(each.attempt_id, each.cpu_millis) for each in changes(before, after)] == [
        ("a-1", 3000),
        ("a-2", 3000),
        ("a-3", 2000),
    ]
    mixed = changes({"a-1": 1000, "a-2": 7000}, {"a-1": 5000, "a-2": 3000})
    assert [each.attempt_id for each in mixed] == ["a-2", "a-1"]
    assert changes(after, after) == ()
