"""The pass over batch containers: who goes where, what is created, and why the rest waits."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from dispatcher.model import Reason
from dispatcher.ordering import Order
from dispatcher.planner import reasons
from dispatcher.planner.buying import Buyer, Demand, Outlook
from dispatcher.planner.limits import Line, Plan, View
from dispatcher.planner.mix import Option
from dispatcher.planner.room import Slot, SlotKind
from drivers.interface import InstanceType
from pool.backoff import Hindrance, HindranceKind


class _Step(Enum):
    """What follows when the first container of a class had its turn."""

    NEXT = "its class has a next one"
    LEAVE = "its class waits, others go on"
    STOP = "everybody from here on waits"


@dataclass(slots=True, kw_only=True)
class _Deed:
    """Something decided for a container (or several from it on), so that it can be undone."""

    order: Order
    line: Line
    slot: Slot
    number: int
    is_start: bool = False
    was_kept: bool = False


@dataclass(slots=True)
class _Pass:
    view: View
    plan: Plan
    outlook: Outlook
    demands: list[Demand] = field(default_factory=list)
    deeds: list[_Deed] = field(default_factory=list)
    containers_left: int | None = None
    supervisors_left: int | None = None
    stopped_by: tuple[str, str] | None = None
    room_came_free: bool = False

    # ---- one container ---------------------------------------------------------------------

    def step(self, order: Order, container_id: str, line: Line) -> _Step:
        """Give the first container of a class without a place its place, or say why it waits."""
        if self.containers_left == 0:
            return self.stop(line, container_id, reasons.TOO_MANY)
        if line.key.supervisor and self.supervisors_left == 0:
            return self._wait(line, reasons.SUPERVISORS)
        request_class = line.request_class
        slot = self.view.fleet.best(line.key, request_class.needs, self.plan.closed)
        if slot is not None and slot.kind is SlotKind.READY:
            return self._give(order, container_id, line, slot)
        if line.kept:
            return self._give_what_is_kept(order, line)
        if slot is not None:
            return self._give(order, container_id, line, slot)
        return self._demand(order, container_id, line)

    def _wait(self, line: Line, reason: Reason) -> _Step:
        self.plan.waiting[line.key] = reason
        return _Step.LEAVE

    def _give(self, order: Order, container_id: str, line: Line, slot: Slot) -> _Step:
        need = line.request_class.need(slot.type)
        budget = self.view.limits.budget
        if budget is not None:
            refusal = budget.refuses_place(line.key.account, slot.type, need)
            if refusal is not None:
                return self._wait(line, refusal.reason)
            budget.place(line.key.account, slot.type, need, 1)
        deed = _Deed(order=order, line=line, slot=slot, number=1)
        if slot.kind is SlotKind.READY:
            deed.is_start = True
            self.view.fleet.take(slot, need)
            line.starts.append((container_id, slot))
            self._give_surplus_up(line)
        else:
            self.view.fleet.claim(line.key, slot, need, 1)
            line.claims.append((slot, 1))
        self._done(deed)
        return _Step.NEXT

    def _give_what_is_kept(self, order: Order, line: Line) -> _Step:
        """Let the next containers of a class have what was claimed for it before."""
        slot, number = line.kept.pop()
        waiting = len(line.request_class) - line.position
        used = min([waiting, number, *self._most(line)])
        used = 0 if slot.type.name in self.plan.closed else used
        if used < number:
            self.view.fleet.unclaim(line.key, slot, number - used)
            self.room_came_free = True
        if used:
            line.claims.append((slot, used))
            self._done(_Deed(order=order, line=line, slot=slot, number=used, was_kept=True))
        return _Step.NEXT

    def _give_surplus_up(self, line: Line) -> None:
        """Give up what a class has claimed for more containers than will wait: one starts now."""
        surplus = sum(number for _, number in line.kept)
        surplus -= len(line.request_class) - line.position - 1
        while surplus > 0:
            slot, number = line.kept.pop(0)
            self.view.fleet.unclaim(line.key, slot, min(surplus, number))
            if number > surplus:
                line.kept.insert(0, (slot, number - surplus))
            surplus -= number
            self.room_came_free = True

    def look_again(self) -> None:
        """Give those that need new instances what room has come free since their turn."""
        if not self.room_came_free:
            return
        fleet = self.view.fleet
        for demand in self.demands:
            line = demand.line
            needs = line.request_class.needs
            while demand.number and (slot := fleet.best(line.key, needs, self.plan.closed)):
                fleet.claim(line.key, slot, needs[slot.type.name], 1)
                line.claims.append((slot, 1))
                demand.number -= 1

    def _done(self, deed: _Deed) -> None:
        self.deeds.append(deed)
        deed.line.position += deed.number
        self._count(deed.line, -deed.number)

    def _most(self, line: Line) -> list[int]:
        """Return the limits of how many more of a class may have a place."""
        left = [self.containers_left]
        left += [self.supervisors_left] if line.key.supervisor else []
        return [number for number in left if number is not None]

    def _count(self, line: Line, number: int) -> None:
        if self.containers_left is not None:
            self.containers_left += number
        if line.key.supervisor and self.supervisors_left is not None:
            self.supervisors_left += number

    # ---- what needs a new instance ---------------------------------------------------------

    def _demand(self, order: Order, container_id: str, line: Line) -> _Step:
        """Note that containers of a class need new instances, if any may be created for them."""
        own = self.own_reason(line)
        if own is not None:
            return self._wait(line, own)
        limits = self.view.limits
        if limits.instances >= limits.max_instances:
            return self._stop_at_quota(line, container_id, reasons.full(limits.max_instances))
        free = [t for t in line.request_class.types if self.outlook.hindrance(t) is None]
        if not free:
            reason, is_quota = reasons.why_held(self._hindrances(line))
            if is_quota:
                return self._stop_at_quota(line, container_id, reason)
            return self._wait(line, reason)
        if limits.creates_left and limits.tokens_left:
            self._add_demand(order, line, free)
            return _Step.NEXT
        self.plan.tokens_short = self.plan.tokens_short or limits.creates_left > 0
        return self._wait(line, reasons.TOKENS if limits.creates_left else reasons.CREATES)

    def _add_demand(self, order: Order, line: Line, free: list[InstanceType]) -> None:
        """Note all containers of the class that have this priority: they are equal in all else."""
        request_class = line.request_class
        number = request_class.before((order[0] + 1, -1)) - line.position
        number = min([number, *self._most(line)])
        need = request_class.need
        self.demands.append(
            Demand(
                order=order,
                line=line,
                number=number,
                options=tuple(Option(type=type_, need=need(type_)) for type_ in free),
            )
        )
        line.position += number
        self._count(line, -number)

    def own_reason(self, line: Line) -> Reason | None:
        """Return what keeps a class waiting whatever the others do, None when nothing does."""
        if not line.request_class.types:
            return reasons.no_type(line.request_class)
        return self.outlook.shortage(line)

    def _hindrances(self, line: Line) -> list[Hindrance]:
        found = [self.outlook.hindrance(type_) for type_ in line.request_class.types]
        return [hindrance for hindrance in found if hindrance is not None]

    # ---- limits that stop others ---------------------------------------------------------------

    def stop(self, line: Line, container_id: str, reason: Reason) -> _Step:
        """Let everybody from a container on wait; it is the next in line."""
        self.plan.waiting[line.key] = reason
        self.plan.next_in_line.append(container_id)
        self.stopped_by = (container_id, reason.message)
        return _Step.STOP

    def _stop_at_quota(self, line: Line, container_id: str, reason: Reason) -> _Step:
        """Close the quotas that keep a container waiting; STOP when one is of everything.

        What is below it must not keep it waiting by keeping their instances busy or alive.
        """
        limits, closed = self.view.limits, self.plan.closed
        found = {t.name: self.outlook.hindrance(t) for t in line.request_class.types}
        quotas = {name: h for name, h in found.items() if h and h.kind is HindranceKind.QUOTA}
        everywhere = limits.instances >= limits.max_instances
        everywhere = everywhere or any(h.everywhere for h in quotas.values())
        if not everywhere and quotas.keys() <= closed.keys():
            first = closed[next(iter(quotas))]
            return self._wait(line, reasons.behind(first, reason.message))
        for hindrance in quotas.values():
            for name in hindrance.covers:
                closed.setdefault(name, container_id)
        step = self.stop(line, container_id, reason)
        self.plan.stopped = everywhere
        if everywhere:
            return step
        self.stopped_by = None
        return _Step.LEAVE

    def take_back(self, order: Order) -> None:
        """Undo what was decided for containers that come after an order."""
        while self.deeds and self.deeds[-1].order > order:
            deed = self.deeds.pop()
            line = deed.line
            line.position -= deed.number
            self._count(line, deed.number)
            if deed.is_start:
                line.starts.pop()
                self.view.fleet.give(deed.slot, line.request_class.need(deed.slot.type))
            else:
                line.claims.pop()
                self.view.fleet.unclaim(line.key, deed.slot, deed.number)
            budget = self.view.limits.budget
            if budget is not None and not deed.was_kept:
                need = line.request_class.need(deed.slot.type)
                budget.place(line.key.account, deed.slot.type, need, -deed.number)

    def tell_the_rest(self) -> None:
        """Note of all behind the one at which the pass stopped why they wait."""
        if self.stopped_by is None:
            return
        reason = reasons.behind(*self.stopped_by)
        for line in self.plan.lines:
            if line.position < len(line.request_class) and line.key not in self.plan.waiting:
                self.plan.waiting[line.key] = self.own_reason(line) or reason

    def give_up_the_rest(self) -> None:
        """Give up the claims of earlier passes of which no use was made."""
        fleet = self.view.fleet
        for line in self.plan.lines:
            for slot, number in line.kept:
                fleet.unclaim(line.key, slot, number)
            line.kept.clear()


def plan(view: View) -> Plan:
    """Decide one pass: containers in order of priority, each to its best place.

    A ready worker is best; then what a class has claimed on instances that come, then other room
    there; what is left over is given to `buying`. At a quota the first that finds no place, and all
    below it that count against the same quota, wait; a class that is short of capacity, or that no
    type serves, is skipped and others go on.

    The fleet is filled with what the plan says: starts and claims are in it afterwards.
    """
    this = _begin(view)
    heads: list[tuple[Order, str, int]] = []
    for index, line in enumerate(this.plan.lines):
        _push_head(heads, line, index)
    while heads:
        order, container_id, index = heapq.heappop(heads)
        line = this.plan.lines[index]
        step = this.step(order, container_id, line)
        if step is _Step.STOP:
            break
        if step is _Step.NEXT:
            _push_head(heads, line, index)
    _buy(this)
    this.tell_the_rest()
    this.give_up_the_rest()
    this.plan.unwanted = [
        slot_id
        for slot_id in sorted(view.fleet.idle)
        if this.plan.uses_up(view.fleet.slots[slot_id].type.name)
    ]
    return this.plan


def _begin(view: View) -> _Pass:
    lines = []
    for request_class in view.classes:
        by_slot: Mapping[str, int] = view.fleet.claims.get(request_class.key, {})
        kept = [(view.fleet.slots[slot_id], by_slot[slot_id]) for slot_id in by_slot]
        # The last is used first: what is nearest to running something.
        kept.sort(key=lambda each: (each[0].kind, each[0].id), reverse=True)
        lines.append(Line(request_class=request_class, kept=kept))
    return _Pass(
        view=view,
        plan=Plan(lines=lines),
        outlook=Outlook(view.limits),
        containers_left=view.limits.containers_left,
        supervisors_left=view.limits.supervisors_left,
    )


def _push_head(heads: list[tuple[Order, str, int]], line: Line, index: int) -> None:
    head = line.request_class.at(line.position)
    if head is not None:
        order, container_id = head
        heapq.heappush(heads, (order, container_id, index))


def _buy(this: _Pass) -> None:
    """Create for what needs it; where a limit of all stops that, those below wait too."""
    this.look_again()
    buyer = Buyer(view=this.view, plan=this.plan, outlook=this.outlook)
    stop = buyer.buy(this.demands)
    for line in this.plan.lines:
        line.position = len(line.starts) + line.claimed
    for demand in this.demands:
        if demand.reason is not None:
            this.plan.waiting.setdefault(demand.line.key, demand.reason)
    if stop is not None:
        head = stop.line.request_class.at(stop.line.position)
        if head is not None:
            this.take_back(head[0])
            this.stop(stop.line, head[1], stop.reason)
