"""The pass over batch containers: who goes where, what is created, and why the rest waits."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dispatcher.model import Reason
from dispatcher.planner.room import Candidates, Rules, Slot, SlotKind
from dispatcher.queue import ClassKey, Order, RequestClass
from drivers.interface import InstanceType


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a pass may create.

    `instances` is how many there are (with those being created), `creates_left` how many create
    calls may be begun now, `creates_held` why none may ("" when they may), `at_quota` whether that
    is the account's quota, `type_held` whether a type is at capacity.
    """

    instances: int
    max_instances: int
    creates_left: int
    creates_held: str
    at_quota: bool
    type_held: Callable[[str], bool]


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

    `next_in_line` is the first container that found no place at quota; it keeps its claim.
    `unwanted` are idle workers whose place in the quota it needs.
    """

    places: list[tuple[str, Slot]] = field(default_factory=list)
    creates: list[Slot] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)
    waiting: dict[ClassKey, Reason] = field(default_factory=dict)
    next_in_line: str = ""


class _Pass:
    def __init__(self, view: View) -> None:
        self.view = view
        self.plan = Plan()
        self.new_slots: list[Slot] = []
        self.candidates: dict[ClassKey, Candidates] = {}

    def place(self, request_class: RequestClass) -> Slot | None:
        """Find or create a slot for one more container of a class."""
        candidates = self.candidates.get(request_class.key)
        if candidates is None:
            slots = [*self.view.slots, *self.new_slots]
            candidates = Candidates(request_class, slots, self.view.rules)
            self.candidates[request_class.key] = candidates
        slot = candidates.best()
        return slot if slot is not None else self.create(request_class)

    def create(self, request_class: RequestClass) -> Slot | None:
        """Think of a new instance of the cheapest type that is to be had; None when none is."""
        type_ = self._creatable(request_class)
        if isinstance(type_, Reason):
            self.plan.waiting[request_class.key] = type_
            return None
        slot = Slot(
            kind=SlotKind.NEW,
            id=f"new-{len(self.new_slots):06}",
            type=type_,
            free=type_.allocatable,
            count=0,
            last_busy=0.0,
        )
        self.new_slots.append(slot)
        self.plan.creates.append(slot)
        for candidates in self.candidates.values():
            candidates.offer(slot)
        return slot

    def _creatable(self, request_class: RequestClass) -> InstanceType | Reason:
        limits = self.view.limits
        own = self.own_hindrance(request_class)
        if own is not None:
            return own
        if limits.instances + len(self.new_slots) >= limits.max_instances:
            message = f"at quota: max_instances is {limits.max_instances}"
            return Reason(code="at_quota", message=message)
        if limits.creates_held:
            code = "at_quota" if limits.at_quota else "creates_held"
            return Reason(code=code, message=f"no creates now: {limits.creates_held}")
        if len(self.new_slots) >= limits.creates_left:
            return Reason(code="creating", message="as many as may be are being created")
        return next(t for t in request_class.types if not limits.type_held(t.name))

    def own_hindrance(self, request_class: RequestClass) -> Reason | None:
        """Return what keeps a class waiting whatever the others do, None when nothing does."""
        if not request_class.types:
            labels = ", ".join(f"{k}={v}" for k, v in request_class.key.constraints.labels)
            wanted = f" with {labels}" if labels else ""
            message = f"no configured instance type{wanted} would do"
            return Reason(code="no_type", message=message)
        if all(self.view.limits.type_held(type_.name) for type_ in request_class.types):
            names = ", ".join(type_.name for type_ in request_class.types)
            return Reason(code="at_capacity", message=f"the cloud is short of {names}")
        return None


def plan(view: View) -> Plan:
    """Decide one pass: containers in order of priority, each to its best place.

    Costs grow with classes, slots and decisions, not with the number of containers that wait. At
    quota the first that finds no place, and all below it, wait; a class that is short of capacity,
    or that no type serves, is skipped and others go on.
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
            if reason.code == "at_quota":
                _stop_at_quota(this, container_id, reason)
                break
            continue
        slot.assign(request_class.key.resources)
        this.plan.places.append((container_id, slot))
        taken[index].append(request_class.take())
        _push_head(heads, request_class, index)
    for request_class, entries in zip(view.classes, taken, strict=True):
        request_class.put_back(entries)
    return this.plan


def _push_head(
    heads: list[tuple[Order, str, int]], request_class: RequestClass, index: int
) -> None:
    head = request_class.first()
    if head is not None:
        order, container_id = head
        heapq.heappush(heads, (order, container_id, index))


def _stop_at_quota(this: _Pass, container_id: str, reason: Reason) -> None:
    """Note why everything from here on waits, and free idle workers that nobody is mapped to."""
    this.plan.next_in_line = container_id
    behind = Reason(
        code="behind", message=f"behind {container_id}, which is next in line: {reason.message}"
    )
    for request_class in this.view.classes:
        if request_class.key in this.plan.waiting:
            continue
        own = this.own_hindrance(request_class)
        this.plan.waiting[request_class.key] = own if own is not None else behind
    for slot in this.view.slots:
        if slot.idle and not slot.assigned:
            this.plan.unwanted.append(slot.id)
    this.plan.unwanted.sort()
