"""The pass over batch containers: who goes where, what is created, and why the rest waits."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher.model import Reason
from dispatcher.planner.room import Candidates, Rules, Slot, SlotKind
from dispatcher.queue import ClassKey, Order, RequestClass
from drivers.interface import InstanceType
from pool.backoff import Hindrance, HindranceKind, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a pass may create.

    `instances` is how many there are (with those being created). `creates_left` is how many create
    calls more may be under way, `tokens_left` how many the rate of cloud operations allows now.
    `hindrance` says what keeps a type from being created, None when nothing does; `trials` in
    which scopes one may be created to try, and what that hinders until its answer is there.
    """

    instances: int
    max_instances: int
    creates_left: int
    tokens_left: int
    hindrance: Callable[[InstanceType], Hindrance | None]
    trials: Callable[[InstanceType], Mapping[Scope, Hindrance]]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a pass decides from: read-only, valid for the length of the pass."""

    classes: Sequence[RequestClass]
    slots: Sequence[Slot]
    limits: Limits
    rules: Rules


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a pass decided. `places` are (container id, slot) in the order of priority.

    `next_in_line` are the first containers that found no place, one for each quota that is used
    up; they keep their claims. `closed` are the types (by name) of these quotas, with who is next
    in line there: nothing below is placed on them. `stopped` says that there is such a quota of
    everything. `unwanted` are idle workers whose place in a quota is needed. `tokens_short` says
    that more would have been created but for the rate of cloud operations.
    """

    places: list[tuple[str, Slot]] = field(default_factory=list)
    creates: list[Slot] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)
    waiting: dict[ClassKey, Reason] = field(default_factory=dict)
    next_in_line: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    tokens_short: bool = False

    def uses_up(self, type_name: str) -> bool:
        """Return whether a worker of a type takes up a quota that somebody waits for."""
        return self.stopped or type_name in self.closed


class _Pass:
    def __init__(self, view: View) -> None:
        self.view = view
        self.plan = Plan()
        self.candidates: dict[ClassKey, Candidates] = {}
        self.tried: dict[Scope, Hindrance] = {}
        self.known: dict[str, tuple[Hindrance | None, Mapping[Scope, Hindrance]]] = {}

    def place(self, request_class: RequestClass) -> Slot | None:
        """Find or create a slot for one more container of a class."""
        candidates = self.candidates.get(request_class.key)
        if candidates is None:
            slots = [
                slot
                for slot in (*self.view.slots, *self.plan.creates)
                if slot.type.name not in self.plan.closed
            ]
            candidates = Candidates(request_class, slots, self.view.rules)
            self.candidates[request_class.key] = candidates
        slot = candidates.best()
        return slot if slot is not None else self._create(request_class)

    def _create(self, request_class: RequestClass) -> Slot | None:
        """Think of a new instance of the cheapest type that is to be had; None when none is."""
        type_ = self._creatable(request_class)
        if isinstance(type_, Reason):
            self.plan.waiting[request_class.key] = type_
            return None
        for scope, hindrance in self._outlook(type_)[1].items():
            self.tried.setdefault(scope, hindrance)
        slot = Slot(
            kind=SlotKind.NEW,
            id=f"new-{len(self.plan.creates):06}",
            type=type_,
            free=type_.allocatable,
            count=0,
            last_busy=0.0,
        )
        self.plan.creates.append(slot)
        for candidates in self.candidates.values():
            candidates.offer(slot)
        return slot

    def _creatable(self, request_class: RequestClass) -> InstanceType | Reason:
        limits = self.view.limits
        own = self.own_hindrance(request_class)
        if own is not None:
            return own
        if self._is_full():
            message = f"at quota: max_instances is {limits.max_instances}"
            return Reason(code="at_quota", message=message)
        found = self._hindrances(request_class)
        free = next((t for t, hindrance in found if hindrance is None), None)
        if free is None:
            return _why_held([hindrance for _, hindrance in found if hindrance is not None])
        if len(self.plan.creates) >= limits.creates_left:
            return Reason(code="creating", message="as many as may be are being created")
        if len(self.plan.creates) >= limits.tokens_left:
            self.plan.tokens_short = True
            message = "its create waits for its turn: max_cloud_ops_per_second is reached"
            return Reason(code="creating", message=message)
        return free

    def _hindrances(
        self, request_class: RequestClass
    ) -> list[tuple[InstanceType, Hindrance | None]]:
        return [(type_, self._hindrance(type_)) for type_ in request_class.types]

    def _hindrance(self, type_: InstanceType) -> Hindrance | None:
        found, trials = self._outlook(type_)
        if found is not None:
            return found
        return next((self.tried[scope] for scope in trials if scope in self.tried), None)

    def _outlook(self, type_: InstanceType) -> tuple[Hindrance | None, Mapping[Scope, Hindrance]]:
        """Return what the limits say of a type, asked once a pass."""
        known = self.known.get(type_.name)
        if known is None:
            limits = self.view.limits
            known = self.known[type_.name] = (limits.hindrance(type_), limits.trials(type_))
        return known

    def _is_full(self) -> bool:
        limits = self.view.limits
        return limits.instances + len(self.plan.creates) >= limits.max_instances

    def own_hindrance(self, request_class: RequestClass) -> Reason | None:
        """Return what keeps a class waiting whatever the others do, None when nothing does."""
        if not request_class.types:
            labels = ", ".join(f"{k}={v}" for k, v in request_class.key.constraints.labels)
            wanted = f" with {labels}" if labels else ""
            message = f"no configured instance type{wanted} would do"
            return Reason(code="no_type", message=message)
        hindrances = [hindrance for _, hindrance in self._hindrances(request_class)]
        if all(h is not None and h.kind is HindranceKind.CAPACITY for h in hindrances):
            message = f"the cloud is short of {', '.join(t.name for t in request_class.types)}"
            end = _first_end([hindrance for hindrance in hindrances if hindrance is not None])
            trying = "one create is being tried"
            message += f"; {trying if end is None else f'tried again at {_clock(end)}'}"
            return Reason(code="at_capacity", message=message)
        return None

    def stop_at_quota(self, request_class: RequestClass, container_id: str) -> bool:
        """Close the quotas that keep a container waiting; True when one is of everything.

        What is below it must not keep it waiting by keeping their instances busy or alive.
        """
        closed = self.plan.closed
        quotas = {
            type_.name: hindrance
            for type_, hindrance in self._hindrances(request_class)
            if hindrance is not None and hindrance.kind is HindranceKind.QUOTA
        }
        everywhere = self._is_full() or any(h.everywhere for h in quotas.values())
        if not everywhere and quotas.keys() <= closed.keys():
            first = closed[next(iter(quotas))]
            why = self.plan.waiting[request_class.key].message
            self.plan.waiting[request_class.key] = _behind(first, why)
            return False
        self.plan.next_in_line.append(container_id)
        self.plan.stopped = everywhere
        for hindrance in quotas.values():
            for name in hindrance.covers:
                closed.setdefault(name, container_id)
        self.candidates.clear()
        return everywhere

    def free_idle(self) -> None:
        """Note the idle workers that use up a quota and to which nobody is mapped."""
        self.plan.unwanted = sorted(
            slot.id
            for slot in self.view.slots
            if slot.idle and not slot.assigned and self.plan.uses_up(slot.type.name)
        )


def _behind(container_id: str, why: str) -> Reason:
    message = f"behind {container_id}, which is next in line: {why}"
    return Reason(code="behind", message=message)


def _why_held(hindrances: Sequence[Hindrance]) -> Reason:
    """Return why none of a class's types may be created: what ends first, a quota last."""
    remaining = [h for h in hindrances if h.kind is not HindranceKind.CAPACITY]
    told = [h for h in remaining if h.kind is not HindranceKind.QUOTA] or remaining
    end = _first_end(told)
    first = next(h for h in told if h.until == end)
    if end is None:
        return Reason(code="creating", message=first.message)
    code = "at_quota" if first.kind is HindranceKind.QUOTA else "creates_held"
    return Reason(code=code, message=f"no creates before {_clock(end)}: {first.message}")


def _first_end(hindrances: Sequence[Hindrance]) -> float | None:
    """Return when the first of them ends, None when a create is being tried: it may end now."""
    ends = [h.until for h in hindrances if h.until is not None]
    return min(ends) if len(ends) == len(hindrances) else None


def _clock(at: float) -> str:
    """Return a time, in seconds since the epoch, as people read it."""
    seconds = int(at) % 86400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def plan(view: View) -> Plan:
    """Decide one pass: containers in order of priority, each to its best place.

    Costs grow with classes, slots and decisions, not with the number of containers that wait. At a
    quota the first that finds no place, and all below it that count against the same quota, wait;
    a class that is short of capacity, or that no type serves, is skipped and others go on.
    """
    this = _Pass(view)
    heads: list[tuple[Order, str, int]] = []
    taken: list[list[tuple[Order, str]]] = [[] for _ in view.classes]
    for index, request_class in enumerate(view.classes):
        _push_head(heads, request_class, index)
    while heads:
        _, container_id, index = heapq.heappop(heads)
        request_class = view.classes[index]
        slot = this.place(request_class)
        if slot is None:
            reason = this.plan.waiting[request_class.key]
            if reason.code == "at_quota" and this.stop_at_quota(request_class, container_id):
                _tell_those_behind(this, container_id, reason, heads)
                break
            continue
        slot.assign(request_class.key.resources)
        this.plan.places.append((container_id, slot))
        taken[index].append(request_class.take())
        _push_head(heads, request_class, index)
    for request_class, entries in zip(view.classes, taken, strict=True):
        request_class.put_back(entries)
    this.free_idle()
    return this.plan


def _push_head(
    heads: list[tuple[Order, str, int]], request_class: RequestClass, index: int
) -> None:
    head = request_class.first()
    if head is not None:
        order, container_id = head
        heapq.heappush(heads, (order, container_id, index))


def _tell_those_behind(
    this: _Pass, container_id: str, why: Reason, heads: Sequence[tuple[Order, str, int]]
) -> None:
    """Note why everything from here on waits."""
    for _, _, index in sorted(heads):
        request_class = this.view.classes[index]
        own = this.own_hindrance(request_class)
        behind = _behind(container_id, why.message)
        this.plan.waiting[request_class.key] = own if own is not None else behind
