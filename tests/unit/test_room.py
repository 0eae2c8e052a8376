"""What a request takes of an instance."""

from __future__ import annotations

from longshore.drivers.interface import Resources
from longshore.pool.charging import charge, clamped, shares_a_cpu


def test_the_first_request_of_no_cpus_takes_one_and_the_others_none() -> None:
    need = Resources(memory_bytes=5)
    assert shares_a_cpu(need)
    assert charge(need, on_shared_cpu=0) == Resources(cpu_millis=1000, memory_bytes=5)
    assert charge(need, on_shared_cpu=1) == need


def test_a_request_that_names_cpus_takes_just_these() -> None:
    need = Resources(cpu_millis=500)
    assert not shares_a_cpu(need)
    assert charge(need, on_shared_cpu=0) is need
    assert charge(need, on_shared_cpu=3) is need


def test_where_there_is_less_than_nothing_there_is_nothing() -> None:
    amounts = Resources(
        cpu_millis=-1, memory_bytes=2, disk_bytes=-3, gpus=-4, custom=(("a", -1), ("b", 2))
    )
    assert clamped(amounts) == Resources(memory_bytes=2, custom=(("b", 2),))
