"""Who makes way for per-instance jobs: preemption, as their planner asks for it; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from longshore.dispatcher.domain.jobs import PerInstanceKind
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind
from longshore.dispatcher.scheduler.placement.preemption import (
    NodeUsage,
    NoEviction,
    PreemptionSettings,
    PreemptorKind,
    RunningAttempt,
    victims,
)
from longshore.dispatcher.scheduler.system.model import Preempt, RoomRequest, Victim


def preempting(
    settings: PreemptionSettings, running_on: Callable[[str], Iterable[RunningAttempt]]
) -> Preempt:
    """Return what evicts for per-instance jobs as the settings allow.

    `running_on` tells who holds resources on an instance, by its id; of these, those are left out
    that are being ended, since the request counts on their room. How many containers an instance
    may have does not matter: per-instance jobs come beside them.
    """

    def preempt(request: RoomRequest) -> Sequence[Victim] | None:
        if not settings.allows(kind_of(request.by), request.priority):
            return None
        slot = Slot(
            kind=SlotKind.READY,
            id=request.instance_id,
            type=request.type,
            free=request.room,
            count=0,
            last_busy=0.0,
            on_shared_cpu=request.on_shared_cpu,
        )
        running = (t for t in running_on(request.instance_id) if not t.is_ending)
        there = tuple(t for t in running if t.attempt_id not in request.spared)
        on = NodeUsage(slot=slot, attempts=there, most_containers=1)
        found = victims(request.asked, request.priority, on)
        if isinstance(found, NoEviction):
            return None
        return [Victim(attempt_id=t.attempt_id, resources=t.resources) for t in found.victims]

    return preempt


def kind_of(kind: PerInstanceKind) -> PreemptorKind:
    """Return what attempts of such a job are to preemption."""
    match kind:
        case PerInstanceKind.SYSTEM:
            return PreemptorKind.SYSTEM
        case PerInstanceKind.SYSBATCH:
            return PreemptorKind.SYSBATCH
        case _:
            assert_never(kind)
