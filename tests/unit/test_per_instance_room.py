"""The room of one instance in a plan for per-instance jobs: what is held for who is updated."""

from __future__ import annotations

from longshore.dispatcher.scheduler.system.capacity import SystemCapacity
from longshore.dispatcher.scheduler.system.model import Host
from longshore.drivers.interface import Resources
from tests.samples import make_type

SHARED = Resources()


def cpus(millis: int) -> Resources:
    """Return a request of cpus alone."""
    return Resources(cpu_millis=millis)


def room(free_millis: int, *, on_shared_cpu: int = 0) -> SystemCapacity:
    """Return an instance on which so much is free, and nobody is being ended."""
    return SystemCapacity.of(
        Host(
            id="i-1",
            type=make_type(4),
            free=cpus(free_millis),
            joined_at=0.0,
            on_shared_cpu=on_shared_cpu,
        )
    )


def test_what_is_held_is_not_there_for_others_and_counts_as_reserved() -> None:
    held = room(1500)
    held.hold(cpus(800), [cpus(300)])
    assert held.reserved.cpu_millis == 500
    assert not held.fits_now(cpus(1001))
    assert held.fits_now(cpus(1000))


def test_a_shared_cpu_that_is_held_for_a_restart_is_shared_by_who_comes_meanwhile() -> None:
    held = room(1500)
    held.hold(SHARED, [])
    held.promise(SHARED)
    assert held.reserved.cpu_millis == 1000
    assert held.fits_now(SHARED)
    assert not held.fits_now(cpus(501))


def test_a_shared_cpu_that_was_held_is_nobodys_to_keep_once_somebody_uses_it() -> None:
    held = room(1500)
    held.hold(SHARED, [])
    held.promise(SHARED)
    copy = held.copy()
    copy.take(SHARED)
    assert copy.reserved.cpu_millis == 0
    assert not copy.fits_now(cpus(501))
    copy.take(SHARED)
    assert copy.reserved.cpu_millis == 0
    assert held.reserved.cpu_millis == 1000


def test_a_shared_cpu_stays_held_when_others_take_cpus_of_their_own() -> None:
    held = room(1500)
    held.hold(SHARED, [])
    held.promise(SHARED)
    held.take(cpus(500))
    assert held.reserved.cpu_millis == 1000


def test_nobody_joins_a_cpu_that_its_last_one_leaves_for_room_of_its_own() -> None:
    held = room(0, on_shared_cpu=1)
    held.hold(cpus(1000), [SHARED])
    assert not held.fits_now(SHARED)


def test_nobody_shares_a_cpu_before_who_is_to_share_it_has_given_back_its_own() -> None:
    held = room(500)
    held.hold(SHARED, [cpus(500)])
    assert held.reserved.cpu_millis == 500
    assert not held.fits_now(SHARED)
