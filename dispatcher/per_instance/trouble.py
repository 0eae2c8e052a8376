"""What is wrong with a per-instance job that goes on, as a list of jobs tells it; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dispatcher.model import Attempt, AttemptOutcome, Container, ContainerSpec, Reason
from dispatcher.planner.fit import rejections
from drivers.interface import InstanceType

WITHIN_S = 600.0
ENDS = 3
"""What ended so often by itself within that time is started again and again."""

_BY_ITSELF = frozenset({AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED})


class Restless:
    """Who may be started again and again, by job, so that not all of a job need be looked at.

    A list of jobs asks for each of them, and a job may have a container on every instance.
    """

    def __init__(self) -> None:
        self._ids: dict[str, set[str]] = {}

    def note(self, container: Container) -> None:
        """Take in a container that is new here, or an attempt of which has ended."""
        if len(container.attempts) >= ENDS:
            self._ids.setdefault(container.job_id, set()).add(container.id)

    def forget(self, job_id: str) -> None:
        """Let go of a job; not knowing it is no error."""
        self._ids.pop(job_id, None)

    def of(self, job_id: str, known: Mapping[str, Container], now: float) -> list[Container]:
        """Return those of a job that end again and again, as they came, of the `known` ones.

        Who does so no more is looked at again only when another attempt of it ends.
        """
        noted = self._ids.get(job_id, ())
        found = [known[each] for each in noted if each in known and latest_ends(known[each], now)]
        if noted:
            self._ids[job_id] = {each.id for each in found}
        return sorted(found, key=lambda each: (each.sequence, each.id))


def trouble(
    spec: ContainerSpec,
    looping: list[Container],
    containers: Iterable[Container],
    types: Collection[InstanceType],
    now: float,
) -> Reason | None:
    """Return what is wrong with a job, by its containers that have not ended; None for nothing.

    `looping` are those of them that end again and again, as they came.
    """
    if looping:
        first = looping[0]
        why = latest_ends(first, now)[-1].reason
        where = first.pinned_to
        if len(looping) > 1:
            where += f" and {len(looping) - 1} more"
        last = why.message if why is not None else "it exited with 0"
        message = f"started again and again on {where}: {last}"
        return Reason(code="started_again", message=message)
    if not all(rejections(each, spec.resources, spec.constraints, spec.unnamed) for each in types):
        return None
    if any(each.has_open_attempt for each in containers):
        # It may be on an instance of a type that is configured no more.
        return None
    return Reason(code="no_type", message="no configured instance type would do for it")


def latest_ends(container: Container, now: float) -> list[Attempt]:
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
