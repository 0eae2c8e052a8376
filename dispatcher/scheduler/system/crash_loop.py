"""What is wrong with a per-instance job that goes on, as a list of jobs tells it; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from longshore.dispatcher.domain.containers import (
    START_REFUSED,
    Attempt,
    AttemptOutcome,
    Container,
    ContainerSpec,
    Reason,
    WaitReason,
)
from longshore.dispatcher.domain.feasibility import price_order, rejections
from longshore.dispatcher.scheduler.system.model import PastAttempt
from longshore.drivers.interface import InstanceType

WITHIN_S = 600.0
ENDS = 3
"""What ended so often by itself within that time is started again and again; where its delay is so
long that it cannot, within the time that so many delays take."""

FAILED, NO_ROOM, NO_TYPE, STARTED_AGAIN = "failed", "no_room", "no_type", "started_again"
CODES = (FAILED, NO_ROOM, NO_TYPE, STARTED_AGAIN)
"""All that may be said, by its code."""

_BY_ITSELF = frozenset({AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED})


Looping = tuple[Container, list[Attempt]]
"""A container that ends again and again, with these ends."""


class CrashLoopDetector:
    """Remembers which containers may be in a crash loop, by job.

    A list of jobs asks for each job, and a job may have a container on every instance: so not all
    of them are looked at.
    """

    def __init__(self) -> None:
        # By job and container, until when the latter may count as ending again and again.
        self._until: dict[str, dict[str, float]] = {}

    def note(self, container: Container) -> None:
        """Take in a container that is new here, or an attempt of which has ended."""
        ends = sorted(map(_ended_at, _latest_by_itself(container)))
        if len(ends) >= ENDS:
            until = ends[-ENDS] + _within_s(container)
            self._until.setdefault(container.job_id, {})[container.id] = until

    def forget(self, job_id: str) -> None:
        """Let go of a job; not knowing it is no error."""
        self._until.pop(job_id, None)

    def forget_calm(self, known: Mapping[str, Container], now: float) -> None:
        """Let go of all that are not `known`, or end again and again no more."""
        for job_id, noted in self._until.items():
            kept = {each: until for each, until in noted.items() if each in known and now <= until}
            self._until[job_id] = kept

    def of(self, job_id: str, known: Mapping[str, Container], now: float) -> list[Looping]:
        """Return those of a job that end again and again, as they came, of the `known` ones.

        Who does so no more is looked at again only when another attempt of it ends.
        """
        noted = self._until.get(job_id, {})
        lately = [known[each] for each, until in noted.items() if now <= until and each in known]
        found = [(each, ends) for each in lately if (ends := latest_ends(each, now))]
        return sorted(found, key=lambda pair: (pair[0].sequence, pair[0].id))


def trouble(
    spec: ContainerSpec,
    *,
    looping: Sequence[Looping],
    failed: Sequence[PastAttempt],
    containers: Callable[[], Iterable[Container]],
    types: Collection[InstanceType],
    waits: Mapping[str, WaitReason],
) -> Reason | None:
    """Return what is wrong with a job, by its containers that have not ended; None for nothing.

    `looping` are those of them that end again and again, as they came, with these ends. `failed`
    are the attempts that failed for good, on the instances that there are. `waits`
    says why those of its containers wait that should not have to, by their ids.
    """
    if looping:
        first, ends = looping[0]
        why = ends[-1].reason
        last = why.message if why is not None else "it exited with 0"
        others = f" and {len(looping) - 1} more" if len(looping) > 1 else ""
        look = f"see longshore logs {first.job_id} --instance {first.pinned_to}"
        message = f"started again and again on {first.pinned_to}{others}: {last}; {look}"
        return Reason(code=STARTED_AGAIN, message=message)
    if failed:
        message = f"{_failed_on(failed)}; it is not tried there again before its next revision"
        return Reason(code=FAILED, message=message)
    without = [each for each in containers() if _lacks_room(each, waits)] if waits else []
    if without:
        first = without[0]
        others = f", and {len(without) - 1} more lack room" if len(without) > 1 else ""
        look = f"see longshore explain {first.job_id}"
        message = f"{waits[first.id].message}{others}; {look}"
        return Reason(code=NO_ROOM, message=message)
    if any(each.has_open_attempt for each in containers()):
        # It may be on an instance of a type that is configured no more.
        return None
    return _no_type(spec, types)


def refused_everywhere(failed: Sequence[PastAttempt]) -> Reason:
    """Return why a job ends each of whose starts was refused, the latest on each instance."""
    message = f"every start of it was refused: {_failed_on(failed)}"
    return Reason(code=START_REFUSED, message=f"{message}; mend that, and submit it anew")


def _failed_on(failed: Sequence[PastAttempt]) -> str:
    first = failed[0]
    others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    why = f": {first.reason.message}" if first.reason is not None else ""
    return f"it failed on {first.instance_id}{others}{why}"


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


def latest_ends(container: Container, now: float) -> list[Attempt]:
    """Return the latest attempts that ended by themselves, none where that is not often."""
    within_s, latest = _within_s(container), _latest_by_itself(container)
    found = [each for each in latest if now - _ended_at(each) <= within_s]
    return found if len(found) >= ENDS else []


def _latest_by_itself(container: Container) -> list[Attempt]:
    # The latest may not have ended yet.
    latest = container.attempts[-ENDS - 1 :]
    return [
        each
        for each in latest
        if each.outcome in _BY_ITSELF and each.revision == latest[-1].revision
    ]


def _ended_at(attempt: Attempt) -> float:
    return attempt.finished_at or attempt.created_at


def _within_s(container: Container) -> float:
    retries = container.spec.retries
    return max(WITHIN_S, retries.first_delay_s + (ENDS + 1) * retries.delay_s)
