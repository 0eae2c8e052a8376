"""What is wrong with a per-instance job that goes on, as a list of jobs tells it; pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dispatcher.model import Attempt, AttemptOutcome, Container, ContainerSpec, Reason
from dispatcher.planner.fit import rejections
from drivers.interface import InstanceType

WITHIN_S = 600.0
ENDS = 3
"""What ended so often by itself within that time is started again and again."""

_BY_ITSELF = frozenset({AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED})


def trouble(
    spec: ContainerSpec,
    containers: Sequence[Container],
    types: Collection[InstanceType],
    now: float,
) -> Reason | None:
    """Return what is wrong with a job, by its containers that have not ended; None for nothing."""
    looping = [(each, ends) for each in containers if (ends := _ends(each, now))]
    if looping:
        first, ends = looping[0]
        why = ends[-1].reason
        where = first.pinned_to
        if len(looping) > 1:
            where += f" and {len(looping) - 1} more"
        last = why.message if why is not None else "it exited with 0"
        message = f"started again and again on {where}: {last}"
        return Reason(code="started_again", message=message)
    if any(each.has_open_attempt for each in containers):
        # It may be on an instance of a type that is configured no more.
        return None
    if all(rejections(each, spec.resources, spec.constraints, spec.unnamed) for each in types):
        return Reason(code="no_type", message="no configured instance type would do for it")
    return None


def _ends(container: Container, now: float) -> list[Attempt]:
    """Return the latest attempts that ended by themselves, none where that is not often."""
    # The latest may not have ended yet.
    latest = container.attempts[-ENDS - 1 :]
    found = [
        each
        for each in latest
        if each.outcome in _BY_ITSELF
        and each.revision == latest[-1].revision
        and now - (each.finished_at or each.created_at) <= WITHIN_S
    ]
    return found if len(found) >= ENDS else []
