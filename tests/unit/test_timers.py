"""Named deadlines: the latest word counts, the earliest fires first."""

from __future__ import annotations

from pool.timers import Timers


def test_the_earliest_is_due_first_and_only_once() -> None:
    timers = Timers()
    timers.set("a", "1", 5.0)
    timers.set("b", "1", 3.0)
    assert timers.next_due() == 3.0
    assert timers.pop_due(2.9) is None
    assert timers.pop_due(10.0) == ("b", "1")
    assert timers.pop_due(10.0) == ("a", "1")
    assert timers.pop_due(10.0) is None
    assert timers.next_due() is None


def test_setting_again_replaces_and_soonest_only_hastens() -> None:
    timers = Timers()
    timers.set("a", "1", 3.0)
    timers.set("a", "1", 9.0)
    assert timers.pop_due(5.0) is None
    timers.soonest("a", "1", 20.0)
    assert timers.due("a", "1") == 9.0
    timers.soonest("a", "1", 4.0)
    assert timers.pop_due(5.0) == ("a", "1")


def test_cleared_is_never_due() -> None:
    timers = Timers()
    timers.set("a", "1", 3.0)
    timers.clear("a", "1")
    timers.clear("a", "never set")
    assert timers.next_due() is None
    assert timers.pop_due(100.0) is None


def test_equal_deadlines_fire_in_a_fixed_order() -> None:
    timers = Timers()
    for subject in ("c", "a", "b"):
        timers.set("x", subject, 1.0)
    assert [timers.pop_due(1.0) for _ in range(3)] == [("x", "a"), ("x", "b"), ("x", "c")]
