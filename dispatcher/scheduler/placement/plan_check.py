"""Whether a plan keeps the rules of a pass, looked at before it is carried out; pure."""

from __future__ import annotations

from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import ClassPlacement, Plan, Snapshot
from longshore.drivers.errors import BugError


def check(view: Snapshot, plan: Plan) -> None:
    """Raise `BugError` when a plan breaks a rule of a pass or a limit.

    It goes by what the pass has put into the fleet, and its cost grows with the classes and with
    the slots on which something starts or is claimed.
    """
    places: dict[bool, int] = {False: 0, True: 0}
    filled: dict[str, Slot] = {}
    for line in plan.lines:
        places[line.key.supervisor] += len(line.starts) + _check_line(view, line, filled)
    for slot in filled.values():
        _check_room(view, slot)
    _check_limits(view, plan, supervisors=places[True], all_=places[True] + places[False])


def _check_line(view: Snapshot, line: ClassPlacement, filled: dict[str, Slot]) -> int:
    """Check the places of one class, note their slots, and return how many are claims."""
    starts = len(line.starts)
    if starts:
        first = [container_id for _, container_id in line.request_class.span(0, starts)]
        if [container_id for container_id, _ in line.starts] != first:
            raise BugError(f"{line.starts} start, and the first of the class are {first}")
        for _, slot in line.starts:
            if slot.kind is not SlotKind.READY:
                raise BugError(f"something starts on {slot.id}, which is not ready")
            filled[slot.id] = slot
    claimed: dict[str, int] = {}
    for slot, number in line.claims:
        claimed[slot.id] = claimed.get(slot.id, 0) + number
        filled[slot.id] = slot
    if claimed != view.fleet.claims.get(line.key, {}):
        raise BugError(f"a class has the claims {claimed} that the fleet does not have")
    number = sum(claimed.values())
    if starts + number > len(line.request_class):
        raise BugError(f"{starts} starts and {number} claims for {len(line.request_class)} waiting")
    return number


def _check_room(view: Snapshot, slot: Slot) -> None:
    if view.fleet.slots.get(slot.id) is not slot:
        raise BugError(f"there is a place on {slot.id}, which the fleet does not have")
    if slot.is_overfull or slot.count > view.fleet.rules.most_containers:
        raise BugError(f"{slot.id} is over its room: {slot}")


def _check_limits(view: Snapshot, plan: Plan, *, supervisors: int, all_: int) -> None:
    limits, made = view.limits, len(plan.creates)
    if made:
        if made > min(limits.creates_left, limits.tokens_left):
            raise BugError(f"{made} creates in a pass that may make fewer")
        if limits.instances + made > limits.max_instances:
            raise BugError(f"{made} creates are more than max_instances allows")
    for left, number in ((limits.containers_left, all_), (limits.supervisors_left, supervisors)):
        if left is not None and number > left:
            raise BugError(f"{number} places where {left} are left")
