"""What is wrong with a per-instance job that goes on, as a list of jobs tells it; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from dispatcher.model import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerSpec,
    Reason,
    WaitReason,
)
from dispatcher.planner.fit import price_order, rejections
from drivers.interface import InstanceType

WITHIN_S = 600.0
ENDS = 3
"""What ended so often by itself within that time is started again and again; where its delay is so
long that it cannot, within the time that so many delays take."""

NO_ROOM, NO_TYPE, STARTED_AGAIN = "no_room", "no_type", "started_again"
CODES = (NO_ROOM, NO_TYPE, STARTED_AGAIN)
"""All that may be said, by its code."""

_BY_ITSELF = frozenset({AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED})


def trouble(
    spec: ContainerSpec,
    containers: Sequence[Container],
    types: Collection[InstanceType],
    now: float,
    waits: Mapping[str, WaitReason],
) -> Reason | None:
    """Return what is wrong with a job, by its containers that have not ended; None for nothing.

    `waits` says why containers wait that should not have to, by their ids.
    """
    looping = [(each, ends) for each in containers if (ends := _ends(each, now))]
    if looping:
        first, ends = looping[0]
        why = ends[-1].reason
        last = why.message if why is not None else "it exited with 0"
        others = f" and {len(looping) - 1} more" if len(looping) > 1 else ""
        look = f"see longshore logs {first.job_id} --instance {first.pinned_to}"
        message = f"started again and again on {first.pinned_to}{others}: {last}; {look}"
        return Reason(code=STARTED_AGAIN, message=message)
    without = [each for each in containers if _lacks_room(each, waits)]
    if without:
        first = without[0]
        others = f", and {len(without) - 1} more lack room" if len(without) > 1 else ""
        look = f"see longshore explain {first.job_id}"
        message = f"{waits[first.id].message}{others}; {look}"
        return Reason(code=NO_ROOM, message=message)
    if any(each.has_open_attempt for each in containers):
        # It may be on an instance of a type that is configured no more.
        return None
    return _no_type(spec, types)


def _lacks_room(container: Container, waits: Mapping[str, WaitReason]) -> bool:
    why = waits.get(container.id)
    return why is not None and why.code == NO_ROOM and not container.has_open_attempt


def _no_type(spec: ContainerSpec, types: Collection[InstanceType]) -> Reason | None:
    """Return that no type would do and what most of them lack first, None where one would."""
    lacking: Counter[str] = Counter()
    for each in sorted(types, key=price_order):
        found = rejections(each, spec.resources, spec.constraints, spec.unnamed)
        if not found:
            return None
        lacking[found[0]] += 1
    why = lacking.most_common(1)[0][0] if lacking else "there is none"
    message = f"no configured instance type would do for it: {why}"
    return Reason(code=NO_TYPE, message=f"{message}; configure one, or change the job")


def _ends(container: Container, now: float) -> list[Attempt]:
    """Return the latest attempts that ended by themselves, none where that is not often."""
    within_s = max(WITHIN_S, (ENDS + 1) * container.spec.retries.delay_s)
    # The latest may not have ended yet.
    latest = container.attempts[-ENDS - 1 :]
    found = [
        each
        for each in latest
        if each.outcome in _BY_ITSELF
        and each.revision == latest[-1].revision
        and now - (each.finished_at or each.created_at) <= within_s
    ]
    return found if len(found) >= ENDS else []
