"""Seats, and what is said of those who are to have them; pure."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.dispatcher.planner.elastic_floor import Floor, Seat
from longshore.dispatcher.planner.elastic_model import Component, Part, Place
from longshore.dispatcher.planner.fit import need
from longshore.dispatcher.planner.room import Slot
from longshore.drivers.interface import Resources
from longshore.pool.room import charge


def seat_of(job_id: str, component: Component, index: int, slot: Slot) -> Seat:
    """Return the seat of a member on an instance."""
    place = Place(job_id=job_id, component=component.name, index=index, instance_id=slot.id)
    wanted = need(slot.type, component.resources, component.unnamed)
    return Seat(place=place, slot=slot, need=wanted)


def sit(floor: Floor, job_id: str, part: Part, slot: Slot) -> Seat:
    """Take a seat on an instance for a member, and return it."""
    component, member = part
    seat = seat_of(job_id, component, member.index, slot)
    floor.take(slot, seat.need)
    return seat


def as_listed(seats: Sequence[Seat], parts: Sequence[Part]) -> list[Seat]:
    """Return seats in the order of their members."""
    known = {(seat.place.component, seat.place.index): seat for seat in seats}
    return [known[component.name, member.index] for component, member in parts]


def by_member(place: Place) -> tuple[str, str, int]:
    """Return the member who has, or is to have, a place: by job, component and number."""
    return place.job_id, place.component, place.index


def by_size(component: Component) -> tuple[int, int, int, int]:
    """Return the sort key by which what is hard to place comes first."""
    wanted = charge(component.resources, sharers=0)
    return (-wanted.gpus, -wanted.cpu_millis, -wanted.memory_bytes, -wanted.disk_bytes)


def is_less(now: Resources, before: Resources) -> bool:
    """Return whether there is less than before in some dimension."""
    return not before.fits_in(now)
