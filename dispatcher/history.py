"""What the scheduler decided and when, as far as memory goes: by request class, and by container.

It is bounded everywhere, and costs nothing for containers that only wait: why they do is kept once
for their class. Attempts are not kept here; the store has them.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from dispatcher.messages import (
    CancelRequested,
    PriorityRequested,
    Publication,
    PublishContainer,
    Submitted,
)
from dispatcher.model import Attempt, Container, ContainerState, Reason
from dispatcher.queue import ClassKey

MOST_CHANGES = 50
MOST_CLASSES = 2_000
MOST_EVENTS = 20
MOST_CONTAINERS = 20_000

_VARYING = re.compile(r"\S*\d\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing that was decided or that came to pass, at a time in seconds since the epoch."""

    at: float
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    """From `at` on a class waits for `reason`, None for not at all."""

    at: float
    reason: Reason | None


class History:
    """Why classes waited, and what was decided about single containers."""

    def __init__(self) -> None:
        self._waits: OrderedDict[ClassKey, deque[_Wait]] = OrderedDict()
        self._waiting: set[ClassKey] = set()
        self._events: OrderedDict[str, deque[Happening]] = OrderedDict()

    # ---- what is told ------------------------------------------------------------------------

    def waits(self, waiting: Mapping[ClassKey, Reason], now: float) -> None:
        """Note why each class waits after a pass; kept is what differs from the last word."""
        for key in self._waiting - waiting.keys():
            self._note_wait(key, None, now)
        for key, reason in waiting.items():
            last = self._last(key)
            if last is None or (last != reason and _kind(last) != _kind(reason)):
                self._note_wait(key, reason, now)
        self._waiting = set(waiting)

    def published(self, what: Collection[Publication], now: float) -> None:
        """Note who of those that changed was locked or unlocked."""
        for publication in what:
            if isinstance(publication, PublishContainer):
                container = publication.container
                if not container.has_open_attempt:
                    self._note_state(container, now)

    def asked(self, event: Submitted | CancelRequested | PriorityRequested, now: float) -> None:
        """Note what a user asked for; a submission stands in the container itself."""
        match event:
            case Submitted():
                pass
            case CancelRequested():
                self._note(event.container_id, "cancel", "a user asked for it to be cancelled", now)
            case PriorityRequested():
                message = f"its priority was set to {event.priority}"
                message += ": it is held back" if event.priority == 0 else ""
                self._note(event.container_id, "priority", message, now)
            case _:
                assert_never(event)

    # ---- what is answered --------------------------------------------------------------------

    def of(
        self, container: Container, key: ClassKey, *, began_at: float, now: float
    ) -> list[Happening]:
        """Return what happened to a container, the earliest first; `key` is that of its class.

        `began_at` is when this process began: of what was before, only attempts are known, and one
        entry says so.
        """
        events = list(self._events.get(container.id, ()))
        found = [_submitted(container)]
        if container.created_at < began_at:
            message = "the dispatcher started again; of what was decided before, only attempts are"
            found.append(Happening(at=began_at, kind="restart", message=f"{message} known"))
        found += events
        found += [one for attempt in container.attempts for one in _of_attempt(attempt)]
        found += self._reasons(container, key, _locked(events, now), now)
        if container.finished_at is not None and container.state.final:
            found.append(_finished(container, container.finished_at))
        return sorted(found, key=lambda each: each.at)

    def _reasons(
        self,
        container: Container,
        key: ClassKey,
        locked: list[tuple[float, float]],
        now: float,
    ) -> Iterator[Happening]:
        waits = list(self._waits.get(key, ()))
        for start, end in _waited(container, now):
            in_force = [wait for wait in waits if wait.at <= start][-1:]
            for wait in [*in_force, *(wait for wait in waits if start < wait.at < end)]:
                at = max(start, wait.at)
                has_place = any(low <= at < high for low, high in locked)
                if wait.reason is not None and not has_place:
                    yield Happening(at=at, kind=wait.reason.code, message=wait.reason.message)

    # ---- inside --------------------------------------------------------------------------------

    def _last(self, key: ClassKey) -> Reason | None:
        waits = self._waits.get(key)
        return waits[-1].reason if waits else None

    def _note_wait(self, key: ClassKey, reason: Reason | None, now: float) -> None:
        waits = self._waits.get(key)
        if waits is None:
            waits = self._waits[key] = deque(maxlen=MOST_CHANGES)
        waits.append(_Wait(at=now, reason=reason))
        self._waits.move_to_end(key)
        if len(self._waits) > MOST_CLASSES:
            self._waits.popitem(last=False)

    def _note_state(self, container: Container, now: float) -> None:
        if container.state is ContainerState.LOCKED:
            message = "it got a place on an instance that is not ready yet"
            self._note(container.id, "locked", message, now)
        elif container.state is ContainerState.QUEUED and container.id in self._events:
            events = self._events[container.id]
            moves = [event for event in events if event.kind in ("locked", "unlocked")]
            since = container.attempts[-1].created_at if container.attempts else 0.0
            if moves and moves[-1].kind == "locked" and moves[-1].at >= since:
                self._note(container.id, "unlocked", "its place was given up", now)

    def _note(self, container_id: str, kind: str, message: str, now: float) -> None:
        events = self._events.get(container_id)
        if events is None:
            events = self._events[container_id] = deque(maxlen=MOST_EVENTS)
            if len(self._events) > MOST_CONTAINERS:
                self._events.popitem(last=False)
        events.append(Happening(at=now, kind=kind, message=message))


def _kind(reason: Reason) -> tuple[str, str]:
    """Return what makes a reason another one: not the ids, times and amounts in its sentence."""
    return reason.code, _VARYING.sub("#", reason.message)


def _waited(container: Container, now: float) -> Iterator[tuple[float, float]]:
    """Return from when to when a container waited for a place."""
    start: float | None = container.created_at
    for attempt in container.attempts:
        if start is not None:
            yield start, attempt.created_at
        start = attempt.finished_at if attempt.outcome is not None else None
    if start is not None and not container.state.final:
        yield start, now


def _locked(events: Iterable[Happening], now: float) -> list[tuple[float, float]]:
    """Return from when to when a container had a place on something that was not ready."""
    spans: list[tuple[float, float]] = []
    since: float | None = None
    for event in events:
        if event.kind == "locked":
            since = event.at if since is None else since
        elif event.kind == "unlocked" and since is not None:
            spans.append((since, event.at))
            since = None
    return spans if since is None else [*spans, (since, now)]


def _submitted(container: Container) -> Happening:
    message = f"submitted by {container.user or 'nobody'}"
    message += f" for project {container.project}" if container.project else ""
    return Happening(at=container.created_at, kind="submitted", message=message)


def _finished(container: Container, at: float) -> Happening:
    code = "" if container.exit_code is None else f" with exit code {container.exit_code}"
    why = f": {container.reason.message}" if container.reason is not None else ""
    return Happening(
        at=at, kind=container.state.value, message=f"it {_ENDS[container.state]}{code}{why}"
    )


_ENDS = {
    ContainerState.SUCCEEDED: "succeeded",
    ContainerState.FAILED: "failed",
    ContainerState.CANCELLED: "was cancelled",
}


def _of_attempt(attempt: Attempt) -> Iterator[Happening]:
    """Return what happened to one attempt."""
    name = f"attempt {attempt.number}"
    where = f"{attempt.instance_id} ({attempt.instance_type})"
    yield Happening(at=attempt.created_at, kind="placed", message=f"{name} was placed on {where}")
    if attempt.started_at is not None:
        yield Happening(at=attempt.started_at, kind="started", message=f"{name} runs")
    if attempt.outcome is not None and attempt.finished_at is not None:
        code = "" if attempt.exit_code is None else f" with exit code {attempt.exit_code}"
        why = f": {attempt.reason.message}" if attempt.reason is not None else ""
        yield Happening(
            at=attempt.finished_at,
            kind="ended",
            message=f"{name} ended as {attempt.outcome.value}{code}{why}",
        )
