"""What the scheduler decided and when, as far as memory goes: by request class, and by container.

It is bounded everywhere, and costs nothing for containers that only wait: why they do is kept once
for their class. Attempts are not kept here; the store has them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar, assert_never

from longshore.dispatcher.domain.containers import Attempt, Container, ContainerState, WaitReason
from longshore.dispatcher.domain.messages import (
    CancelRequested,
    JobCancelRequested,
    JobHoldRequested,
    JobLaunched,
    JobPriorityRequested,
    JobRevised,
    JobSubmitted,
    PriorityRequested,
    Publication,
    PublishContainer,
    Submitted,
    UserEvent,
)
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.state.queue import ClassKey
from longshore.dispatcher.state.restarts import FailureHistory

# ---- what happened lately, by key, in bounded memory ---------------------------------------------

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


class BoundedLog(Generic[Key, Entry]):
    """Entries by key: so many of a key, so many keys, and so many bytes in all.

    Who got an entry longest ago goes first. Sizes are estimates, of the whole as if nothing in it
    were shared; an entry never changes, so that its size can be told again when it goes. A key's
    entries are a list, which takes a tenth of what a deque does: most keys have one or two.
    """

    def __init__(
        self,
        *,
        most_of_a_key: int,
        most_keys: int,
        most_bytes: int,
        key_bytes: Callable[[Key], int],
        entry_bytes: Callable[[Entry], int],
    ) -> None:
        self._most_of_a_key = most_of_a_key
        self._most_keys = most_keys
        self._most_bytes = most_bytes
        self._key_bytes = key_bytes
        self._entry_bytes = entry_bytes
        self._entries: OrderedDict[Key, list[Entry]] = OrderedDict()
        self.size_bytes = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, key: Key) -> list[Entry]:
        """Return the entries of a key, the earliest first, as a new list."""
        return list(self._entries.get(key, ()))

    def last(self, key: Key) -> Entry | None:
        """Return the latest entry of a key, None when there is none."""
        entries = self._entries.get(key)
        return entries[-1] if entries is not None else None

    def add(self, key: Key, entry: Entry) -> None:
        """Keep an entry; what is too much then is forgotten, if need be this one too."""
        entries = self._entries.get(key)
        if entries is None:
            entries = self._entries[key] = []
            self.size_bytes += self._key_bytes(key)
        entries.append(entry)
        self.size_bytes += self._entry_bytes(entry)
        self._entries.move_to_end(key)
        if len(entries) > self._most_of_a_key:
            self._forget_first(entries)
        while len(self._entries) > self._most_keys or self.size_bytes > self._most_bytes:
            if len(self._entries) == 1 and len(entries) > 1:
                self._forget_first(entries)
                continue
            forgotten, its_entries = self._entries.popitem(last=False)
            self.size_bytes -= self._key_bytes(forgotten) + sum(map(self._entry_bytes, its_entries))

    def _forget_first(self, entries: list[Entry]) -> None:
        self.size_bytes -= self._entry_bytes(entries.pop(0))


# --------------------------------------------------------------------------------------------------

MOST_CHANGES = 50
MOST_CLASSES = 2_000
MOST_EVENTS = 20
MOST_ATTEMPTS = 20
"""How many of a container's attempts are told, the latest."""

MOST_CONTAINERS = 20_000
MOST_JOBS = 20_000
MOST_BYTES = 16 * 2**20
"""How much memory each takes at most: why classes waited, events of containers, and of jobs."""

_ENTRY_BYTES = 500
_AFTER_TOLD = 5
_HELD = "held"
_RELEASED = "released"
_JOB_HELD = "job_held"
_JOB_RELEASED = "job_released"
_Span = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """One thing that was decided or that came to pass, at a time in seconds since the epoch.

    `behind` is who was next in line, "" where it is about nothing of that kind.
    """

    at: float
    kind: str
    message: str
    behind: str = ""


class DecisionKind(Enum):
    """What was decided of instances, and of who makes way (see `state.decisions`)."""

    BOUGHT = "bought"
    SHUT_DOWN = "shut_down"
    CREATES_HELD = "creates_held"
    MADE_WAY = "made_way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision; an id is "" where it is about none."""

    #: They are counted from 1 on.
    number: int
    #: In seconds since the epoch.
    at: float
    kind: DecisionKind
    #: What was decided, and why, in a sentence.
    message: str
    instance_type: str = ""
    instance_id: str = ""
    container_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    """Why a class waits from a moment on."""

    at: float
    #: None where it does not wait.
    reason: WaitReason | None
    #: The kind of the reason: while it stays, nothing new is kept.
    kind: tuple[str, ...] | None = None


class History:
    """Why classes waited, and what was decided about single containers."""

    def __init__(self) -> None:
        self._waits: BoundedLog[ClassKey, _Wait] = BoundedLog(
            most_of_a_key=MOST_CHANGES,
            most_keys=MOST_CLASSES,
            most_bytes=MOST_BYTES,
            key_bytes=lambda key: _ENTRY_BYTES + len(repr(key)),
            entry_bytes=lambda wait: _ENTRY_BYTES + len(wait.reason.message if wait.reason else ""),
        )
        self._waiting: set[ClassKey] = set()
        self._setbacks = _events_of_classes()
        self._events = _events_of(MOST_CONTAINERS)
        self._of_jobs = _events_of(MOST_JOBS)

    @property
    def size_bytes(self) -> int:
        """Return about how much memory all of it takes."""
        kept = (self._waits, self._setbacks, self._events, self._of_jobs)
        return sum(each.size_bytes for each in kept)

    # ---- what is told ------------------------------------------------------------------------

    def waits(self, waiting: Mapping[ClassKey, WaitReason], now: float) -> None:
        """Note why each class waits after a pass; kept is what differs from the last word."""
        for key in self._waiting - waiting.keys():
            self._waits.add(key, _Wait(at=now, reason=None))
        # Most classes wait for the very same reason, and most for the one of the last pass.
        kinds: dict[int, tuple[str, ...]] = {}
        for key, reason in waiting.items():
            last = self._waits.last(key)
            known = last.reason if last is not None else None
            if known is not None and known.message == reason.message and known.code == reason.code:
                continue
            kind = kinds.get(id(reason))
            if kind is None:
                kind = kinds[id(reason)] = reason.kind
            if last is None or last.kind != kind:
                self._waits.add(key, _Wait(at=now, reason=reason, kind=kind))
        self._waiting = set(waiting)

    def refused(self, keys: Iterable[ClassKey], type_name: str, error: str, now: float) -> None:
        """Note that the instance on which some classes had claims could not be created."""
        message = f"the create of a {type_name} for it, or for others like it, failed: {error}"
        for key in keys:
            self._setbacks.add(key, HistoryEvent(at=now, kind="create_failed", message=message))

    def place_lost(
        self, keys: Iterable[ClassKey], instance_id: str, type_name: str, why: str, now: float
    ) -> None:
        """Note that the instance on which some classes had claims gets no work before it is ready.

        `why` is what became of it.
        """
        where = f"{instance_id} ({type_name})"
        message = f"the place on {where} for it, or for others like it, was lost: {why}"
        for key in keys:
            self._setbacks.add(key, HistoryEvent(at=now, kind="place_lost", message=message))

    def began(self, locked: Collection[str], now: float) -> None:
        """Note which containers were locked when this process began."""
        for container_id in sorted(locked):
            message = "it had a place when the server started again"
            self._note(container_id, "locked", message, now)

    def published(self, what: Collection[Publication], now: float) -> None:
        """Note who of those that changed was locked or unlocked."""
        for publication in what:
            if isinstance(publication, PublishContainer):
                container = publication.container
                if not container.has_open_attempt:
                    self._note_state(container, now)
                if publication.released:
                    message = "what it waited for, beside room, has ended"
                    self._note(container.id, _RELEASED, message, now)

    def asked(self, event: UserEvent, now: float) -> None:
        """Note what a user asked for of a container or a job; a submission stands in them."""
        match event:
            case Submitted() | JobSubmitted() | JobLaunched():
                pass
            case CancelRequested():
                self._note(event.container_id, "cancel", "a user asked for it to be cancelled", now)
            case PriorityRequested():
                kind, message = _priority("its priority", event.priority)
                self._note(event.container_id, kind, message, now)
            case JobCancelRequested():
                message = "a user asked for its job to be cancelled"
                self._note_job(event.job_id, "cancel", message, now)
            case JobPriorityRequested():
                kind, message = _priority("the priority of all of its job", event.priority)
                self._note_job(event.job_id, kind, message, now)
            case JobHoldRequested() if event.held:
                message = "its job was held: nothing of it starts until it is released"
                self._note_job(event.job_id, _JOB_HELD, message, now)
            case JobHoldRequested():
                self._note_job(event.job_id, _JOB_RELEASED, "its job was released", now)
            case JobRevised():
                self._note_job(event.job.id, "revised", "its job was revised", now)
            case _:
                assert_never(event)

    # ---- what is answered --------------------------------------------------------------------

    def of(
        self,
        container: Container,
        key: ClassKey | None,
        *,
        began_at: float,
        now: float,
        held: WaitReason | None = None,
    ) -> list[HistoryEvent]:
        """Return what has happened to a container, the earliest first.

        `key` is that of its class, None where what a class waits for is not what it does. `held` is
        what it waits for now beside room, None for nothing.
        Times are in seconds since the epoch. `began_at` is when this process began: of what was
        before, only attempts are known, and one entry says so. Another says how many attempts there
        were before those that are told.
        """
        events = self._told_of(container)
        latest = container.attempts[-MOST_ATTEMPTS:]
        delays = list(_delays(container, latest))
        found = [_submitted(container)]
        if container.created_at < began_at:
            message = "the server started again; of what was decided before, only attempts are"
            found.append(HistoryEvent(at=began_at, kind="restart", message=f"{message} known"))
        found += events
        found += _earlier(container.attempts[: -len(latest)] if latest else ())
        found += [one for attempt in latest for one in _of_attempt(attempt)]
        found += [delay for delay, _ in delays]
        waits = _without(_waited(container, latest, now), (span for _, span in delays))
        waits = _without(waits, _held_back(container, events))
        spans = list(_without(waits, _held_with_job(events)))
        kept = list(_kept_back(container, spans, events, held))
        found += [why for why, _ in kept]
        if key is not None:
            spans = list(_without(spans, [span for _, span in kept]))
            found += self._set_back(key, spans)
            found += self._reasons(key, _without(spans, _locked(latest, events)))
        if container.finished_at is not None and container.state.final:
            found.append(_finished(container, container.finished_at))
        return sorted(found, key=lambda each: each.at)

    def _set_back(self, key: ClassKey, spans: Sequence[_Span]) -> Iterator[HistoryEvent]:
        for each in self._setbacks.of(key):
            if any(start <= each.at <= end for start, end in spans):
                yield each

    def _reasons(self, key: ClassKey, spans: Iterable[_Span]) -> Iterator[HistoryEvent]:
        waits = self._waits.of(key)
        for start, end in spans:
            in_force = [wait for wait in waits if wait.at <= start][-1:]
            for wait in [*in_force, *(wait for wait in waits if start < wait.at < end)]:
                if wait.reason is not None:
                    reason = wait.reason
                    at = max(start, wait.at)
                    yield HistoryEvent(
                        at=at, kind=reason.code, message=reason.message, behind=reason.behind
                    )

    def _told_of(self, container: Container) -> list[HistoryEvent]:
        """Return what was decided about a container and, while it lived, its job, in order."""
        end = math.inf if container.finished_at is None else container.finished_at
        of_job = [
            each
            for each in (self._of_jobs.of(container.job_id) if container.job_id else [])
            if container.created_at <= each.at <= end
        ]
        return sorted([*self._events.of(container.id), *of_job], key=lambda each: each.at)

    # ---- inside --------------------------------------------------------------------------------

    def _note_state(self, container: Container, now: float) -> None:
        if container.state is ContainerState.LOCKED:
            message = "it got a place on an instance that is not ready yet"
            self._note(container.id, "locked", message, now)
        elif container.state is ContainerState.QUEUED and container.id in self._events:
            events = self._events.of(container.id)
            moves = [event for event in events if event.kind in ("locked", "unlocked")]
            since = container.attempts[-1].created_at if container.attempts else 0.0
            if moves and moves[-1].kind == "locked" and moves[-1].at >= since:
                self._note(container.id, "unlocked", "its place was given up", now)

    def _note(self, container_id: str, kind: str, message: str, now: float) -> None:
        self._events.add(container_id, HistoryEvent(at=now, kind=kind, message=message))

    def _note_job(self, job_id: str, kind: str, message: str, now: float) -> None:
        self._of_jobs.add(job_id, HistoryEvent(at=now, kind=kind, message=message))


def _events_of_classes() -> BoundedLog[ClassKey, HistoryEvent]:
    return BoundedLog(
        most_of_a_key=MOST_EVENTS,
        most_keys=MOST_CLASSES,
        most_bytes=MOST_BYTES,
        key_bytes=lambda key: _ENTRY_BYTES + len(repr(key)),
        entry_bytes=lambda event: _ENTRY_BYTES + len(event.message),
    )


def _events_of(most_keys: int) -> BoundedLog[str, HistoryEvent]:
    return BoundedLog(
        most_of_a_key=MOST_EVENTS,
        most_keys=most_keys,
        most_bytes=MOST_BYTES,
        key_bytes=lambda key: _ENTRY_BYTES + len(key),
        entry_bytes=lambda event: _ENTRY_BYTES + len(event.message),
    )


def _priority(whose: str, priority: int) -> tuple[str, str]:
    """Return the kind of happening that another priority is, and the sentence that says so."""
    if priority == 0:
        return _HELD, f"{whose} was set to 0: it is held back"
    return "priority", f"{whose} was set to {priority}"


def _waited(container: Container, latest: Sequence[Attempt], now: float) -> Iterator[_Span]:
    """Return from when to when a container waited for one of its latest attempts, or the next.

    Past `now` nobody has waited yet.
    """
    all_are_told = len(latest) == len(container.attempts)
    start: float | None = container.created_at if all_are_told else None
    for attempt in latest:
        if start is not None:
            yield start, attempt.created_at
        start = attempt.finished_at if attempt.outcome is not None else None
    if start is not None and not container.state.final:
        yield start, math.nextafter(now, math.inf)


def _without(spans: Iterable[_Span], others: Iterable[_Span]) -> Iterator[_Span]:
    """Return what is left of spans when others, the earliest first, are taken out of them."""
    taken = list(others)
    for begin, end in spans:
        start = begin
        for low, high in taken:
            if low < end and high > start:
                if start < low:
                    yield start, low
                start = high
        if start < end:
            yield start, end


def _locked(latest: Iterable[Attempt], events: Iterable[HistoryEvent]) -> Iterator[_Span]:
    """Return from when to when a container had a place on something that was not ready."""
    moves = [(e.at, e.kind == "locked") for e in events if e.kind in ("locked", "unlocked")]
    moves += [(attempt.created_at, False) for attempt in latest]
    since: float | None = None
    for at, is_lock in sorted(moves, key=lambda move: move[0]):
        if is_lock:
            since = at if since is None else since
        elif since is not None:
            yield since, at
            since = None
    if since is not None:
        yield since, math.inf


def _held_back(container: Container, events: Iterable[HistoryEvent]) -> Iterator[_Span]:
    """Return from when to when a container's priority was 0."""
    moves = [(e.at, e.kind == _HELD) for e in events if e.kind in ("priority", _HELD)]
    if not moves and container.priority == 0:
        moves = [(container.created_at, True)]
    return _while_held(moves)


def _held_with_job(events: Iterable[HistoryEvent]) -> Iterator[_Span]:
    """Return from when to when a container's job was held."""
    return _while_held(
        [(e.at, e.kind == _JOB_HELD) for e in events if e.kind in (_JOB_HELD, _JOB_RELEASED)]
    )


def _while_held(moves: Sequence[tuple[float, bool]]) -> Iterator[_Span]:
    ends = [at for at, _ in moves[1:]] + [math.inf]
    for (at, is_held), end in zip(moves, ends, strict=False):
        if is_held:
            yield at, end


def _kept_back(
    container: Container,
    waited: Sequence[_Span],
    events: Iterable[HistoryEvent],
    held: WaitReason | None,
) -> Iterator[tuple[HistoryEvent, _Span]]:
    """Return from when to when a container waited for something beside room, and for what.

    What it waits for now is `held`. Of what it waited for before, the end is an event.
    """
    ends = [each.at for each in events if each.kind == _RELEASED]
    for start, end in waited:
        start_at = max(start, _not_before(container))
        if start < start_at:
            until = min(start_at, end)
            message = f"it was not to start before {moment(start_at)}"
            yield HistoryEvent(at=start, kind="not_before", message=message), (start, until)
        released_at = max((at for at in ends if start <= at <= end), default=None)
        if held is not None and (start, end) == waited[-1]:
            yield HistoryEvent(at=start, kind=held.code, message=held.message), (start, end)
        elif released_at is not None and start < released_at:
            code, message = _was_kept(container, start)
            yield HistoryEvent(at=start, kind=code, message=message), (start, released_at)


def _was_kept(container: Container, start: float) -> tuple[str, str]:
    """Return what a container waited for, from `start` on, that has ended since."""
    after = container.spec.after
    if not after or start > container.created_at:
        return "max_running", "as many elements of its array ran as may at once (max_running)"
    names = ", ".join(each.of for each in after[:_AFTER_TOLD])
    more = f" and {len(after) - _AFTER_TOLD} more" if len(after) > _AFTER_TOLD else ""
    return "after", f"it waited for the end of {names}{more}"


def _not_before(container: Container) -> float:
    """Return when a container was to start at the earliest, in seconds since the epoch."""
    return container.spec.not_before or 0.0 if not container.attempts else 0.0


def _delays(
    container: Container, latest: Sequence[Attempt]
) -> Iterator[tuple[HistoryEvent, _Span]]:
    """Return after which of its latest attempts a container's restart had to wait, and how long."""
    earlier = len(container.attempts) - len(latest)
    tries = FailureHistory(container.spec.retries, container.attempts[:earlier])
    for attempt in latest[:-1] if container.state.final else latest:
        tries.take_in(attempt)
        due = tries.due() if attempt.outcome is not None else None
        ended_at = attempt.finished_at
        if due is not None and ended_at is not None and ended_at < due:
            why = tries.reason(due)
            yield HistoryEvent(at=ended_at, kind=why.code, message=why.message), (ended_at, due)


def _earlier(attempts: Sequence[Attempt]) -> Iterator[HistoryEvent]:
    """Return that there were attempts of which no more is told."""
    if attempts:
        last = attempts[-1]
        message = f"{len(attempts)} earlier attempts, of which no more is told here"
        at = last.finished_at or last.created_at
        yield HistoryEvent(at=at, kind="earlier", message=message)


def _submitted(container: Container) -> HistoryEvent:
    message = f"submitted by {container.user or 'nobody'}"
    message += f" for project {container.project}" if container.project else ""
    return HistoryEvent(at=container.created_at, kind="submitted", message=message)


def _finished(container: Container, at: float) -> HistoryEvent:
    code = "" if container.exit_code is None else f" with exit code {container.exit_code}"
    why = f": {container.reason.message}" if container.reason is not None else ""
    return HistoryEvent(
        at=at, kind=container.state.value, message=f"it {_ENDS[container.state]}{code}{why}"
    )


_ENDS = {
    ContainerState.SUCCEEDED: "succeeded",
    ContainerState.FAILED: "failed",
    ContainerState.CANCELLED: "was cancelled",
}


def _of_attempt(attempt: Attempt) -> Iterator[HistoryEvent]:
    """Return what happened to one attempt."""
    name = f"attempt {attempt.number}"
    where = f"{attempt.instance_id} ({attempt.instance_type})"
    yield HistoryEvent(
        at=attempt.created_at, kind="placed", message=f"{name} was placed on {where}"
    )
    if attempt.started_at is not None:
        yield HistoryEvent(at=attempt.started_at, kind="started", message=f"{name} runs")
    if attempt.outcome is not None and attempt.finished_at is not None:
        code = "" if attempt.exit_code is None else f" with exit code {attempt.exit_code}"
        why = f": {attempt.reason.message}" if attempt.reason is not None else ""
        yield HistoryEvent(
            at=attempt.finished_at,
            kind="ended",
            message=f"{name} ended as {attempt.outcome.value}{code}{why}",
        )
