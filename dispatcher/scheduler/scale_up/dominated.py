"""Which of many types are worth a look: those that no other always replaces; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import ge

from longshore.dispatcher.domain.feasibility import price_order
from longshore.dispatcher.scheduler.scale_up.problem import Option
from longshore.drivers.interface import InstanceType


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A type, the numbers of the classes that may go there as bits, and its room.

    `is_plain` says that what these classes need is the same on other types, and none is prepaid.
    """

    type: InstanceType
    classes: int = 0
    is_plain: bool = True
    room: tuple[int, ...] = ()

    def replaces(self, other: _Candidate) -> bool:
        """Return whether whatever may be on an instance of the other may be on one of this."""
        all_may = other.classes & self.classes == other.classes
        return all_may and all(map(ge, self.room, other.room))


def worthwhile(
    classes: Sequence[Sequence[Option]], *, may_replace: Callable[[InstanceType], bool]
) -> set[str]:
    """Return the names of the types that are worth a look when instances for classes are bought.

    `classes` are the options of each, never empty. Left out is what costs no less than another on
    which all its classes may go too, with no less room of anything that is wanted. Only what
    `may_replace` says yes to makes others needless: there must be no limit of how many there are.
    What is prepaid may cost nothing, and at its price be too dear: it is neither.
    """
    found: dict[str, _Candidate] = {}
    for number, options in enumerate(classes):
        bit, need = 1 << number, options[0].need
        for option in options:
            each = found.get(option.type.name)
            if each is None:
                each = found[option.type.name] = _Candidate(type=option.type)
            each.classes |= bit
            if option.type.prepaid or (option.need is not need and option.need != need):
                each.is_plain = False
    dimensions = _wanted(classes)
    worth: set[str] = set()
    better: list[_Candidate] = []
    for each in sorted(found.values(), key=lambda each: price_order(each.type)):
        each.room = _room(each.type, dimensions)
        if each.is_plain and any(other.replaces(each) for other in better):
            continue
        worth.add(each.type.name)
        if each.is_plain and may_replace(each.type):
            better.append(each)
    return worth


def _wanted(classes: Sequence[Sequence[Option]]) -> tuple[str, ...]:
    """Return what is wanted beside cpus and memory, by name."""
    wanted: set[str] = set()
    for options in classes:
        need = options[0].need
        wanted.update(name for name, amount in need.custom if amount)
        wanted.update(["disk"] if need.disk_bytes else [])
        wanted.update(["gpus"] if need.gpus else [])
    return tuple(sorted(wanted))


def _room(type_: InstanceType, dimensions: Sequence[str]) -> tuple[int, ...]:
    room = type_.allocatable
    amounts = {"disk": room.disk_bytes, "gpus": room.gpus, **dict(room.custom)}
    named = (amounts.get(name, 0) for name in dimensions)
    return (room.cpu_millis, room.memory_bytes, *named)
