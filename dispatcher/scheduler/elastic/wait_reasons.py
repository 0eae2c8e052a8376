"""Why elastic jobs wait, or have less than they could: the sentences of a pass."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.scheduler.elastic.allocation import Allocation, MemberRequest
from longshore.dispatcher.scheduler.elastic.model import Component
from longshore.dispatcher.scheduler.placement.fleet import SlotKind
from longshore.dispatcher.scheduler.placement.wait_reasons import NEVER
from longshore.pool.charging import charge

BOOTING = "booting"
"""The code of who has all the room that it needs, on instances that are on their way."""


def no_type(component: Component) -> WaitReason:
    """Return why a job waits one of whose components no configured type serves."""
    return WaitReason(
        code="no_type",
        message="no configured instance type, less what system jobs take of each, would do for its"
        f" component {component.name}",
        is_final=True,
    )


def no_room(
    component: Component, *, placed: int, wanted: int, mode: ElasticMode, short: Sequence[str]
) -> WaitReason:
    """Return why a job waits that has room for `placed` of the `wanted` members that it needs.

    `component` is the first without room, `short` what the nearest instance lacks for it; nothing
    of that when no instance that would do is ready.
    """
    kind = "components" if mode is ElasticMode.RIGID else "essential components"
    message = f"room for {placed} of its {wanted} {kind}; the next is {component.name}"
    message += (
        f", and the nearest instance is short of {' and '.join(short)}"
        if short
        else ", and no instance that would do is ready with a place left"
    )
    return WaitReason(code="no_room", message=message, topic=",".join(short))


def shortages(allocation: Allocation, ask: MemberRequest) -> tuple[str, ...]:
    """Return what the nearest ready instance lacks for one more member, () if there is none."""
    found = []
    for slot in allocation.slots():
        need = ask.needs.get(slot.type.name)
        if need is not None and slot.kind is SlotKind.READY:
            lack = charge(need, on_shared_cpu=slot.on_shared_cpu).shortages(slot.free)
            found.append((len(lack), tuple(lack)))
    return min(((number, lack) for number, lack in found if number), default=(0, ()))[1]


def too_many(needed: int) -> WaitReason:
    """Return why a job waits of whose members not all that have no place may have one now."""
    return WaitReason(
        code="max_containers",
        message=f"it needs {needed} places more at once, and fewer containers may have one now"
        " (max_containers, or less while the store or an instance is overloaded)",
        limit="max_containers",
    )


def never_so_many(needed: int, most: int) -> WaitReason:
    """Return why a job waits that needs more members at once than containers may ever run."""
    return WaitReason(
        code="max_containers",
        message=f"it needs {needed} places at once, and no more than {most} containers may have one"
        f" (max_containers): {NEVER}",
        limit="max_containers",
        is_final=True,
    )


NO_LESS_FREE = WaitReason(
    code="no_less_free",
    message="all that it could take is put to use by elastic components of jobs before it",
)


LATER_TURN = WaitReason(
    code="later_turn",
    message="too many jobs wait for one pass to try all; its turn comes in one of the next",
)


def on_its_way(instances: int) -> WaitReason:
    """Return why a job waits whose room is on instances that are not ready."""
    where = "an instance that is on its way"
    if instances > 1:
        where = f"{instances} instances that are on their way"
    return WaitReason(code=BOOTING, message=f"has its room on {where}")


def backing_off(until: float, failed_starts: int) -> WaitReason:
    """Return why a job waits that could not be started and is tried again later."""
    if not failed_starts:
        message = f"what it needs could not be paid in full; tried again at {moment(until)}"
        return WaitReason(code="backoff", message=message, until=until)
    times = "once" if failed_starts == 1 else f"{failed_starts} times"
    message = f"it was started {times} in vain; tried again at {moment(until)}"
    return WaitReason(code="backoff", message=message, until=until)


def one_rests(until: float) -> WaitReason:
    """Return why a job waits that begins with all of its members, while one has its delay."""
    message = f"it begins with all components, and one that died is placed again at {moment(until)}"
    return WaitReason(code="backoff", message=message, until=until)


ENDING = WaitReason(
    code="ending",
    message="containers of its last start have not ended yet",
)


def grows(lacking: int, *, is_full: bool) -> WaitReason:
    """Return what a running job waits for that lacks some members.

    `is_full` says that no more containers may have a place, whatever room there is.
    """
    ones = "component" if lacking == 1 else "components"
    message = f"its job runs, and starts {lacking} {ones} more as soon as there is room"
    if not is_full:
        return WaitReason(code="grows", message=message)
    message += ", and more containers may have a place (max_containers)"
    return WaitReason(code="grows", message=message, limit="max_containers")
