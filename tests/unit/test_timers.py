"""Named deadlines: the latest word counts, the earliest fires first."""

from __future__ import annotations

from longshore.pool.reactor import WAKES
from longshore.pool.timers import Lasts, TimerKind, Timers
from tests.rigs.engine import Rig
from tests.samples import make_container


def test_the_earliest_is_due_first_and_only_once() -> None:
    timers = Timers()
    timers.set(TimerKind.RECHECK, "1", 5.0)
    timers.set(TimerKind.TAGS, "1", 3.0)
    assert timers.next_due() == 3.0
    assert timers.pop_due(2.9) is None
    assert timers.pop_due(10.0) == (TimerKind.TAGS, "1")
    assert timers.pop_due(10.0) == (TimerKind.RECHECK, "1")
    assert timers.pop_due(10.0) is None
    assert timers.next_due() is None


def test_setting_again_replaces_and_soonest_only_hastens() -> None:
    timers = Timers()
    timers.set(TimerKind.RECHECK, "1", 3.0)
    timers.set(TimerKind.RECHECK, "1", 9.0)
    assert timers.pop_due(5.0) is None
    timers.soonest(TimerKind.RECHECK, "1", 20.0)
    assert timers.due(TimerKind.RECHECK, "1") == 9.0
    timers.soonest(TimerKind.RECHECK, "1", 4.0)
    assert timers.pop_due(5.0) == (TimerKind.RECHECK, "1")


def test_cleared_is_never_due() -> None:
    timers = Timers()
    timers.set(TimerKind.RECHECK, "1", 3.0)
    timers.clear(TimerKind.RECHECK, "1")
    timers.clear(TimerKind.RECHECK, "never set")
    assert timers.next_due() is None
    assert timers.pop_due(100.0) is None


def test_equal_deadlines_fire_in_a_fixed_order() -> None:
    timers = Timers()
    for subject in ("c", "a", "b"):
        timers.set(TimerKind.KEY, subject, 1.0)
    assert [timers.pop_due(1.0) for _ in range(3)] == [
        (TimerKind.KEY, "a"),
        (TimerKind.KEY, "b"),
        (TimerKind.KEY, "c"),
    ]


def test_of_kinds_that_are_due_together_each_comes_in_its_order_and_none_is_mistaken() -> None:
    timers = Timers()
    for kind in reversed(TimerKind):
        timers.set(kind, "same", 1.0)
    popped = [key for _ in TimerKind if (key := timers.pop_due(1.0)) is not None]
    assert popped == [(kind, "same") for kind in sorted(TimerKind)]


def test_every_kind_of_deadline_has_its_reaction() -> None:
    rig = Rig()
    rig.submit(make_container(1))
    for kind in TimerKind:
        for subject in ("", "i-001", "c-1-1", "nobody"):
            rig.engine.pool.timers.set(kind, subject, rig.now)
    rig.settle()
    assert (rig.engine.pool.timers.next_due() or rig.now + 1) > rig.now


def test_every_kind_wakes_something_and_what_is_of_workers_is_forgotten_with_them() -> None:
    assert set(WAKES) == set(TimerKind)
    timers = Timers()
    for kind in TimerKind:
        timers.set(kind, "1", 1.0)
        timers.set(kind, "2", 1.0)
    timers.clear_all("1", Lasts.UNTIL_SHUTDOWN)
    left = {kind for kind in TimerKind if timers.due(kind, "1") is not None}
    assert left == {kind for kind in TimerKind if kind.lasts is not Lasts.UNTIL_SHUTDOWN}
    assert all(timers.due(kind, "2") == 1.0 for kind in TimerKind)
