"""What room of which instance is kept for jobs that have placers of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longshore.dispatcher.scheduling.placers import NOTHING, Placers
from longshore.drivers.interface import InstanceType, Resources


class Kept:
    """The room that batch work does not get, as of the latest `update`.

    `renewed` are the slots of which other room is kept than before; whoever has heard clears it.
    """

    def __init__(self) -> None:
        self._by_slot: Mapping[str, Resources] = {}
        self._left: dict[str, InstanceType] = {}
        self._taken: dict[str, Resources] = {}
        self.renewed: set[str] = set()

    def of_ready(self, worker_id: str) -> Resources:
        """Return what is kept of an instance that is ready."""
        return self._by_slot.get(worker_id, NOTHING)

    def of_coming(self, slot_id: str, type_: InstanceType) -> Resources:
        """Return what is kept of one on its way, with what is taken as soon as it is there."""
        taken = self._taken.get(type_.name, NOTHING)
        return self._by_slot.get(slot_id, NOTHING).plus(taken)

    def left_of(self, type_: InstanceType) -> InstanceType:
        """Return a type as batch work finds a new instance of it."""
        return self._left.get(type_.name, type_)

    def update(
        self, placers: Placers, types: Iterable[InstanceType], slot_ids: Iterable[str]
    ) -> bool:
        """Take in what placers keep now; `slot_ids` are all that there are.

        Returns whether other room than before is left of new instances of some type.
        """
        by_slot = placers.kept()
        ids = by_slot.keys() | self._by_slot.keys()
        self.renewed |= {i for i in ids if by_slot.get(i) != self._by_slot.get(i)}
        self._by_slot = by_slot
        left = {type_.name: placers.left_of(type_) for type_ in types}
        if left == self._left:
            return False
        self._left = left
        self._taken = {type_.name: placers.taken_of(type_) for type_ in types}
        self.renewed.update(slot_ids)
        return True
