"""What goes on, in numbers: containers by state, what waits and why, instances; from memory alone.

Whole classes are counted, by project, so that it costs no more when the queue is long: each class
waits for one reason, which the last pass has told. Who is held back is counted by what holds them.
Reasons of one kind are told together, without the ids in their sentences; one container is named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import ContainerState, WaitReason
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.state.instance_records import price_of
from longshore.dispatcher.state.queue import ClassKey
from longshore.dispatcher.state.tally import ENDED_FOR_S, HeldBy

GROUPS_MOST = 50
"""How many reasons are told apart; the rest is told as one."""
_LOOKED_AT = 50
"""How many of a class are looked at for one that may be named."""
_IDS = re.compile(r"\b[cj]-[0-9a-z]+(?:-\d+)?\b")
_NOT_LOOKED_AT = WaitReason(code="not_looked_at", message="no planning pass has looked at it yet")
_PLACED = WaitReason(
    code="has_place", message="it has a place on an instance that is not ready yet"
)
_OTHERS = WaitReason(code="others", message="for other reasons: ask for each by explain")
_HELD: Mapping[HeldBy, str] = {
    HeldBy.PRIORITY: "held back: its priority is 0",
    HeldBy.AFTER: "it waits for the end of others (after)",
    HeldBy.JOB_HELD: "its job is held: release it",
    HeldBy.MAX_RUNNING: "as many of its array run as may at once (max_running)",
    HeldBy.BUDGET: "a budget that it counts against is spent",
    HeldBy.SECRETS: "a secret that it is given is not there, or cannot be decrypted",
    HeldBy.PROCESS: "an earlier attempt of it still runs",
    HeldBy.TIME: "it is not to start yet: its time, or its restart, is to come",
    HeldBy.OWN_SCHEDULER: "its job has a scheduler of its own, which has no place for it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitGroup:
    """Those that wait for one kind of reason, whose sentence names nobody."""

    reason: WaitReason
    number: int
    #: One of them, "" where none that may be named was found.
    sample: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancesOverview:
    """All instances in numbers."""

    #: By state and idle behavior.
    numbers: Mapping[tuple[str, str], int]
    #: How many creates have no instance yet.
    creating: int
    #: What those that are there cost an hour.
    price_usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What goes on, as one caller sees it."""

    states: Mapping[ContainerState, int]
    #: Who has ended since `ended_since`, in seconds since the epoch: a day, or since the start.
    ended: Mapping[ContainerState, int]
    ended_since: float
    #: Since when the one has waited that could run and has done so for longest, None for nobody.
    waiting_since: float | None
    #: Most first.
    waiting: tuple[WaitGroup, ...]
    #: None for who is not told.
    instances: InstancesOverview | None


def overview(view: EngineView, now: float, projects: Collection[str] | None) -> Overview:
    """Return what goes on in some projects, None for all, and then of instances too.

    `now` is in seconds since the epoch; the value is a copy.
    """
    return Overview(
        states=_by_state(view.state_counts(), projects),
        ended=_by_state(view.ended_counts(now), projects),
        ended_since=max(now - ENDED_FOR_S, view.pool.began_at),
        waiting_since=view.waiting_since(projects),
        waiting=_grouped(_waiting(view, projects)),
        instances=_instances(view) if projects is None else None,
    )


def _by_state(
    counts: Mapping[tuple[str, ContainerState], int], projects: Collection[str] | None
) -> Mapping[ContainerState, int]:
    found: Counter[ContainerState] = Counter()
    for (project, state), number in counts.items():
        if projects is None or project in projects:
            found[state] += number
    return found


def _waiting(view: EngineView, projects: Collection[str] | None) -> Iterator[WaitGroup]:
    """Yield who waits, by class and by what holds them back."""
    numbers: Counter[ClassKey] = Counter()
    for (key, project), number in view.class_counts().items():
        if projects is None or project in projects:
            numbers[key] += number
    placed = [
        container
        for each in view.waiting_with_place()
        if (container := view.container(each)) is not None
        and (projects is None or container.project in projects)
    ]
    numbers.subtract(view.key_of(each) for each in placed)
    if placed:
        yield WaitGroup(reason=_PLACED, number=len(placed), sample=placed[0].id)
    for key, number in numbers.items():
        if number > 0:
            sample = _sample(view, key, projects)
            yield WaitGroup(reason=_why(view, key, sample), number=number, sample=sample)
    for (project, cause), ids in view.held_back().items():
        if projects is None or project in projects:
            reason = WaitReason(code=cause.value, message=_HELD[cause])
            yield WaitGroup(reason=reason, number=len(ids), sample=next(iter(ids)))


def _sample(view: EngineView, key: ClassKey, projects: Collection[str] | None) -> str:
    for container_id in view.first_of_class(key, _LOOKED_AT):
        container = view.container(container_id)
        if container is not None and (projects is None or container.project in projects):
            return container_id
    return ""


def _why(view: EngineView, key: ClassKey, sample: str) -> WaitReason:
    """Return why those of a class wait that have no place."""
    reason = view.class_reason(key) or (view.wait_reason(sample) if sample else None)
    if reason is None:
        return _NOT_LOOKED_AT
    return replace(reason, message=_IDS.sub("another", reason.message), behind="")


def _grouped(groups: Iterator[WaitGroup]) -> tuple[WaitGroup, ...]:
    """Return groups with those of one kind as one, most first; what is too many as one more."""
    found: dict[tuple[str, ...], WaitGroup] = {}
    for each in groups:
        known = found.get(each.reason.kind)
        found[each.reason.kind] = each if known is None else _together(known, each)
    ordered = sorted(found.values(), key=lambda each: (-each.number, each.reason.kind))
    rest = ordered[GROUPS_MOST:]
    if not rest:
        return tuple(ordered)
    number = sum(each.number for each in rest)
    last = WaitGroup(reason=_OTHERS, number=number, sample=rest[0].sample)
    return (*ordered[:GROUPS_MOST], last)


def _together(one: WaitGroup, other: WaitGroup) -> WaitGroup:
    """Return two groups of one kind as one: what the larger says, and the first end of both."""
    larger, smaller = (one, other) if one.number >= other.number else (other, one)
    ends = [each.reason.until for each in (one, other) if each.reason.until is not None]
    return WaitGroup(
        reason=replace(larger.reason, until=min(ends, default=None)),
        number=one.number + other.number,
        sample=larger.sample or smaller.sample,
    )


def _instances(view: EngineView) -> InstancesOverview:
    records, workers = view.instances(), view.pool.workers.values()
    prices = (price_of(worker, records.get(worker.id)) for worker in workers)
    pending = view.pool.launches.values()
    return InstancesOverview(
        numbers=Counter((each.state.value, each.behavior.value) for each in workers),
        creating=sum(1 for each in pending if not each.instance_id),
        price_usd_per_hour=sum(prices, Decimal(0)),
    )
