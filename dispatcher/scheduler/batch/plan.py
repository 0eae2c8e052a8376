"""The pass over batch containers: who goes where, what is created, and why the rest waits.

The first container of each request class stands in a heap, and the first of all has its turn
(`_Pass.step`). It gets the first of these that there is:

1. a start, on a slot that is ready;
2. what its class had claimed in earlier passes (`kept`) on slots that are coming, for as many of
   the class as it was claimed for;
3. a claim on other room that is coming;
4. a demand for a new instance, if one may be created.

Else it gets a wait reason. Then its class waits and others go on; or, at a limit that counts for
everything, all from here on wait, but for what is coming for them already. What demands lack is
created at the end (`_buy`).

**What may be undone, and when.** Containers do not get their places strictly in order: a class
takes all of its earlier claims at once, and some limits are reached only when instances are
created. So each start and each group of claims is noted (`UndoEntry`, in `undo_log`), and those for
containers that come *after* a certain order can be undone, the latest first, also in part:

- `take_back`, where a limit stops everybody behind a container, before or after buying. Claims of
  earlier passes stay where instances are short: nobody gains anything if they are lost.
- `_room_of_lower_ones`, where a container is at a quota or has no money for an instance and one is
  coming for lower ones that would do: their claims on that one slot are undone, and they have their
  turn again.

To undo an entry gives the room back to the fleet and the money to the budget, and moves the class
back to that position. Creates are never undone: they are made last. Claims of earlier passes that
are given up (`_give_up`) are no entries; where the pass stopped, a class may take them up again
(`take_up_again`), since what it gave them up for may have been undone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.scheduler.batch.unwanted import make_way
from longshore.dispatcher.scheduler.placement import wait_reasons
from longshore.dispatcher.scheduler.placement.avoiding import has_others, present
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import (
    BudgetDenial,
    ClassPlacement,
    Limits,
    Plan,
    Snapshot,
)
from longshore.dispatcher.scheduler.placement.supervisors import Shares, shares
from longshore.dispatcher.scheduler.scale_up.batch import CreateLimits, ScaleUp, UnmetDemand
from longshore.dispatcher.scheduler.scale_up.solve import Option
from longshore.dispatcher.state.queue import ClassKey, Order
from longshore.drivers.interface import Resources
from longshore.pool.holds import CreateBlock, CreateBlockKind

# ---- what a pass has decided so far, so that it can be undone ------------------------------------


@dataclass(slots=True, kw_only=True)
class UndoEntry:
    """A start, or claims, for containers of one class that follow each other."""

    #: That of the first of them.
    order: Order
    line: ClassPlacement
    slot: Slot
    #: How many they are.
    number: int
    #: The position of the first in the class.
    first: int
    is_start: bool = False
    #: Whether an earlier pass has made these claims.
    is_kept: bool = False

    def after(self, order: Order) -> int:
        """Return how many of its containers come after an order."""
        if self.order > order:
            return self.number
        if self.number <= 1:
            return 0
        before = self.line.request_class.before(order) - self.first
        return min(self.number, max(0, self.number - before))


# ---- the pass over batch containers: who goes where, what is created, and why the rest waits -----

_MOST_DEMANDS = 512


class _Step(Enum):
    """What follows when the first container of a class had its turn."""

    NEXT = "its class has a next one"
    LEAVE = "its class waits, others go on"
    STOP = "everybody from here on waits"


@dataclass(slots=True)
class _Pass:
    view: Snapshot
    plan: Plan
    create_limits: CreateLimits
    heads: list[tuple[Order, str, int]] = field(default_factory=list)
    demands: list[UnmetDemand] = field(default_factory=list)
    undo_log: list[UndoEntry] = field(default_factory=list)
    containers_left: int | None = None
    supervisors_left: int | None = None
    shares: Shares = field(default_factory=lambda: Shares(taken=[]))
    stopped_by: tuple[str, WaitReason] | None = None
    by_turns: bool = False
    room_came_free: bool = False
    refusals: dict[ClassKey, BudgetDenial] = field(default_factory=dict)

    def push_head(self, line: ClassPlacement) -> None:
        """Let the first container of a class that has had no turn have one."""
        head = line.request_class.at(line.position)
        if head is not None:
            order, container_id = head
            heapq.heappush(self.heads, (order, container_id, line.number))

    # ---- one container ---------------------------------------------------------------------

    def step(self, order: Order, container_id: str, line: ClassPlacement) -> _Step:
        """Give the first container of a class without a place its place, or say why it waits."""
        if self.plan.stopped:
            # What comes anyway is no use to who is next in line: who it was created for keeps it.
            few = self.containers_left == 0 or not line.kept
            return _Step.LEAVE if few else self._give_what_is_kept(order, line)
        if self.containers_left == 0:
            # What could not start anyway keeps nobody waiting.
            own = self.create_limits.own_reason(line)
            return (
                self._wait(line, own)
                if own
                else self.stop(line, container_id, wait_reasons.TOO_MANY)
            )
        if self._supervisors_left(line) == 0:
            return self._wait(line, wait_reasons.SUPERVISORS)
        # Room that comes free meanwhile is for the higher ones of the class, which need it too.
        slot = self.best(line) if not line.demanded else None
        if line.kept and (slot is None or slot.kind is not SlotKind.READY):
            return self._give_what_is_kept(order, line)
        if slot is not None:
            return self._give(order, container_id, line, slot)
        return self._demand(order, container_id, line)

    def best(self, line: ClassPlacement) -> Slot | None:
        """Return the best slot with room for one of a class, of those that its account may pay.

        It is none of those that the class avoids.
        """
        avoided = present(line.key, self.view.fleet.slots)
        if not avoided:
            return self._best_of_all(line)
        with self.view.fleet.without(avoided):
            return self._best_of_all(line)

    def _last_resort(self, line: ClassPlacement) -> Slot | None:
        """Return the best slot with room of those that a class avoids, if no other has any."""
        avoided = present(line.key, self.view.fleet.slots)
        return self._best_of_all(line) if avoided else None

    def _best_of_all(self, line: ClassPlacement) -> Slot | None:
        fleet, needs = self.view.fleet, line.request_class.needs
        budget = self.view.limits.budget
        closed: Collection[str] = self.plan.closed
        while (slot := fleet.best(line.key, needs, closed)) is not None:
            if budget is None:
                return slot
            refusal = budget.refuses_place(line.key.account, slot, needs[slot.type.name])
            if refusal is None:
                self.refusals.pop(line.key, None)
                return slot
            self.refusals[line.key] = refusal
            closed = {*closed, slot.type.name}
        return None

    def _wait(self, line: ClassPlacement, reason: WaitReason) -> _Step:
        self.plan.waiting[line.key] = reason
        return _Step.LEAVE

    def _give(self, order: Order, container_id: str, line: ClassPlacement, slot: Slot) -> _Step:
        need = line.request_class.need(slot.type)
        self._spend(line, slot, 1)
        entry = UndoEntry(order=order, line=line, slot=slot, number=1, first=line.position)
        entry.is_start = slot.kind is SlotKind.READY
        if entry.is_start:
            self.view.fleet.take(slot, need)
            if line.claims:
                # Money came free since a higher one took a claim, which is left to this one.
                number = len(line.starts)
                ((_, container_id),) = line.request_class.span(number, number + 1)
            line.starts.append((container_id, slot))
            self.give_surplus_up(line, starting=1)
        else:
            self.view.fleet.claim(line.key, slot, need, 1)
            line.claims.append((slot, 1))
        self._done(entry)
        return _Step.NEXT

    def _give_what_is_kept(self, order: Order, line: ClassPlacement) -> _Step:
        """Let the next containers of a class have what earlier passes claimed on one slot."""
        slot, number = line.kept.pop()
        waiting = len(line.request_class) - line.position
        usable = min([waiting, number, *self._most(line)])
        if usable < number:
            self._give_up(line, slot, number - usable)
        used = min(usable, self._turn(line)) if self.by_turns else usable
        if used < usable:
            line.kept.append((slot, usable - used))
        if used:
            line.claims.append((slot, used))
            entry = UndoEntry(order=order, line=line, slot=slot, number=used, first=line.position)
            entry.is_kept = True
            self._done(entry)
        return _Step.NEXT

    def _turn(self, line: ClassPlacement) -> int:
        """Return how many of a class come before the first of any other, itself counted."""
        if not self.heads:
            return len(line.request_class) - line.position
        return max(1, line.request_class.before(self.heads[0][0]) - line.position)

    def give_surplus_up(self, line: ClassPlacement, *, starting: int = 0) -> None:
        """Give up what a class has claimed for more containers than will wait.

        What is farthest from running something goes first; `starting` of them start now.
        """
        surplus = sum(number for _, number in line.kept)
        surplus -= len(line.request_class) - line.position - starting
        while surplus > 0:
            slot, number = line.kept.pop(0)
            self._give_up(line, slot, min(surplus, number))
            if number > surplus:
                line.kept.insert(0, (slot, number - surplus))
            surplus -= number

    def look_again(self) -> None:
        """Give those that need new instances what room has come free since their turn."""
        if not self.room_came_free:
            return
        fleet = self.view.fleet
        for demand in self.demands:
            line = demand.line
            while demand.number and (slot := self.best(line)):
                if slot.kind is SlotKind.READY:
                    # Money came free: the next pass starts it there.
                    break
                fleet.claim(line.key, slot, line.request_class.need(slot.type), 1)
                self._spend(line, slot, 1)
                line.claims.append((slot, 1))
                entry = UndoEntry(
                    order=demand.order, line=line, slot=slot, number=1, first=line.position
                )
                self.undo_log.append(entry)
                demand.number -= 1

    def _give_up(self, line: ClassPlacement, slot: Slot, number: int) -> None:
        """Give up claims of a class, and what they cost."""
        self.view.fleet.unclaim(line.key, slot, number)
        self._spend(line, slot, -number)
        self.room_came_free = True

    def _spend(self, line: ClassPlacement, slot: Slot, number: int) -> None:
        budget = self.view.limits.budget
        if budget is not None:
            budget.place(line.key.account, slot, line.request_class.need(slot.type), number)

    def _done(self, entry: UndoEntry) -> None:
        self.undo_log.append(entry)
        entry.line.position += entry.number
        self.count(entry.line, -entry.number)

    def _most(self, line: ClassPlacement) -> list[int]:
        """Return the limits of how many more of a class may have a place."""
        left = (self.containers_left, self._supervisors_left(line))
        return [number for number in left if number is not None]

    def _supervisors_left(self, line: ClassPlacement) -> int | None:
        """Return how many more of a class may have a place as supervisors, None for any number."""
        if not line.key.supervisor:
            return None
        left = (self.supervisors_left, self.shares.left(line))
        return min((number for number in left if number is not None), default=None)

    def count(self, line: ClassPlacement, number: int) -> None:
        """Note that so many more of a class may have a place, or fewer."""
        if self.containers_left is not None:
            self.containers_left += number
        self.shares.count(line, -number)
        if line.key.supervisor and self.supervisors_left is not None:
            self.supervisors_left += number

    # ---- what needs a new instance ---------------------------------------------------------

    def _demand(self, order: Order, container_id: str, line: ClassPlacement) -> _Step:
        """Note that containers of a class need new instances, if any may be created for them."""
        last = self._last_resort(line) if not line.demanded else None
        if last is not None:
            return self._elsewhere(order, container_id, line, last)
        own = self.create_limits.own_reason(line) or self._account_reason(line)
        if own is not None:
            return self._wait(line, own)
        limits = self.view.limits
        if limits.instances >= limits.max_instances:
            full = wait_reasons.full(limits.max_instances)
            return self._stop_at_quota(order, line, container_id, full)
        options = self.create_limits.options(line)
        if not options:
            return self._wait_for_hold(order, line, container_id)
        refusal = self.create_limits.refusal(line, (option.type for option in options))
        if refusal is not None:
            return self._wait_for_money(order, line, container_id, refusal)
        return self._demand_of(order, line, options)

    def _elsewhere(
        self, order: Order, container_id: str, line: ClassPlacement, last: Slot
    ) -> _Step:
        """Find one that has room only where it was lost another place, or let it go back there."""
        why = self._why_none_new(line)
        returns_at = self.view.returns_at(container_id)
        if returns_at <= self.view.now:
            return self._give(order, container_id, line, last)
        if why is None:
            return self._demand_of(order, line, self.create_limits.options(line))
        slots = self.view.fleet.slots
        if not has_others(line.key, slots, (t.name for t in self.create_limits.with_room(line))):
            return self._give(order, container_id, line, last)
        return self._wait(line, self.waiting_elsewhere(line, why))

    def waiting_elsewhere(self, line: ClassPlacement, why: WaitReason) -> WaitReason:
        """Return `why` a class has nothing new, and that it does not go where it was lost."""
        head = line.request_class.at(line.position)
        returns_at = self.view.returns_at(head[1]) if head is not None else math.inf
        avoided = present(line.key, self.view.fleet.slots)
        return wait_reasons.elsewhere(avoided, why, returns_at)

    def _why_none_new(self, line: ClassPlacement) -> WaitReason | None:
        """Return why no instance may be created for a class, as things are; None when one may."""
        limits, options = self.view.limits, self.create_limits.options(line)
        own = self.create_limits.own_reason(line) or self._account_reason(line)
        if own is not None:
            return own
        if limits.instances >= limits.max_instances:
            return wait_reasons.full(limits.max_instances)
        if not options:
            return wait_reasons.why_held(self._create_blocks(line))[0]
        refusal = self.create_limits.refusal(line, (option.type for option in options))
        return refusal.reason if refusal is not None else None

    def _demand_of(self, order: Order, line: ClassPlacement, options: tuple[Option, ...]) -> _Step:
        limits = self.view.limits
        if limits.creates_left and limits.tokens_left and len(self.demands) < _MOST_DEMANDS:
            self._add_demand(order, line, options)
            return _Step.NEXT
        tokens_short = bool(limits.creates_left) and not limits.tokens_left
        self.plan.tokens_short = self.plan.tokens_short or tokens_short
        return self._wait(line, wait_reasons.TOKENS if tokens_short else wait_reasons.CREATES)

    def _account_reason(self, line: ClassPlacement) -> WaitReason | None:
        """Return why the limit of a class's account lets it have nothing now, else None."""
        refusal = self.create_limits.refusal(line, self.create_limits.with_room(line))
        if refusal is None or refusal.everywhere:
            return None
        return self.refusals.get(line.key, refusal).reason

    def _wait_for_hold(self, order: Order, line: ClassPlacement, container_id: str) -> _Step:
        reason, is_quota = wait_reasons.why_held(self._create_blocks(line))
        if is_quota:
            return self._stop_at_quota(order, line, container_id, reason)
        return self._wait(line, reason)

    def _wait_for_money(
        self, order: Order, line: ClassPlacement, container_id: str, refusal: BudgetDenial
    ) -> _Step:
        if not refusal.everywhere or self.create_limits.is_doubtful(line):
            return self._wait(line, refusal.reason)
        slot = self._room_of_lower_ones(order, line)
        if slot is not None:
            return self._give(order, container_id, line, slot)
        self.plan.stopped = True
        return self.stop(line, container_id, refusal.reason)

    def _add_demand(self, order: Order, line: ClassPlacement, options: tuple[Option, ...]) -> None:
        """Note the containers of a class that come before the first of any other."""
        number = min([self._turn(line), *self._most(line)])
        demand = UnmetDemand(
            order=order,
            line=line,
            number=number,
            options=options,
            room_where_lost=self._last_resort(line) is not None,
        )
        self.demands.append(demand)
        line.position += number
        line.demanded = True
        self.count(line, -number)

    def _create_blocks(self, line: ClassPlacement) -> list[CreateBlock]:
        found = [
            self.create_limits.create_block(type_) for type_ in self.create_limits.with_room(line)
        ]
        return [create_block for create_block in found if create_block is not None]

    # ---- limits that stop others ---------------------------------------------------------------

    def stop(self, line: ClassPlacement, container_id: str, reason: WaitReason) -> _Step:
        """Let everybody from a container on wait; it is the next in line."""
        self.plan.waiting[line.key] = reason
        self.plan.next_in_line.append(container_id)
        self.stopped_by = (container_id, reason)
        return _Step.STOP

    def _stop_at_quota(
        self, order: Order, line: ClassPlacement, container_id: str, reason: WaitReason
    ) -> _Step:
        """Close the quotas that keep a container waiting; STOP when one is of everything.

        What is below it must not keep it waiting by keeping their instances busy or alive. But for
        what may never be allowed nobody waits.
        """
        if self.create_limits.is_doubtful(line):
            return self._wait(line, wait_reasons.doubtful(reason))
        slot = self._room_of_lower_ones(order, line)
        if slot is not None:
            return self._give(order, container_id, line, slot)
        limits, closed = self.view.limits, self.plan.closed
        found = {
            t.name: self.create_limits.create_block(t) for t in self.create_limits.with_room(line)
        }
        quotas = {name: h for name, h in found.items() if h and h.kind is CreateBlockKind.QUOTA}
        everywhere = limits.instances >= limits.max_instances
        everywhere = everywhere or any(h.everywhere for h in quotas.values())
        if not everywhere and quotas.keys() <= closed.keys():
            first = closed[next(iter(quotas))]
            return self._wait(line, wait_reasons.behind(first, reason))
        for create_block in quotas.values():
            for name in create_block.covers:
                closed.setdefault(name, container_id)
        if everywhere:
            self.plan.stopped = True
            return self.stop(line, container_id, reason)
        self.plan.next_in_line.append(container_id)
        return self._wait(line, reason)

    def take_back(self, order: Order) -> None:
        """Undo what was decided for containers that come after an order.

        Where instances are short, claims of earlier passes stay: who is next in line gains nothing
        if others lose what is coming for them.
        """
        for entry in reversed(self.undo_log):
            number = entry.after(order)
            if number and not (entry.is_kept and self.plan.stopped):
                self._undo(entry, number)

    def _undo(self, entry: UndoEntry, number: int) -> None:
        """Undo what was decided for the last containers of an entry."""
        line = entry.line
        line.position -= number
        self.count(line, number)
        entry.number -= number
        if entry.is_start:
            line.starts.pop()
            self.view.fleet.give(entry.slot, line.request_class.need(entry.slot.type))
            self._spend(line, entry.slot, -1)
        else:
            place = line.claims.index((entry.slot, entry.number + number))
            line.claims[place : place + 1] = [(entry.slot, entry.number)] if entry.number else []
            self._give_up(line, entry.slot, number)

    # ---- what is coming for lower ones ---------------------------------------------------------

    def _room_of_lower_ones(self, order: Order, line: ClassPlacement) -> Slot | None:
        """Return the best slot that is coming for lower ones and does for one of a class, if any.

        They have no claims on it afterwards.
        """
        slots: dict[str, Slot] = {}
        claims: dict[str, list[tuple[Resources, int]]] = {}
        for other, slot, number in self._claims_after(order):
            slots[slot.id] = slot
            need = other.request_class.need(slot.type)
            claims.setdefault(slot.id, []).append((need, number))
        found = [
            slot
            for slot_id, slot in slots.items()
            if slot.type.name not in self.plan.closed
            and self._would_do(line, slot, claims[slot_id])
        ]
        if not found:
            return None
        best = min(found, key=self.view.fleet.rules.key_of)
        for entry in reversed(self.undo_log):
            if entry.slot is best and not entry.is_start and entry.after(order):
                self._undo(entry, entry.after(order))
                self.push_head(entry.line)
        for other in self.plan.lines:
            for slot, number in [each for each in other.kept if each[0] is best]:
                other.kept.remove((slot, number))
                self._give_up(other, slot, number)
        return best

    def _claims_after(self, order: Order) -> Iterator[tuple[ClassPlacement, Slot, int]]:
        """Return the claims of earlier passes for containers that come after an order."""
        for entry in self.undo_log:
            if not entry.is_start and entry.after(order):
                yield entry.line, entry.slot, entry.after(order)
        for line in self.plan.lines:
            for slot, number in line.kept:
                yield line, slot, number

    def _would_do(
        self, line: ClassPlacement, slot: Slot, claims: Sequence[tuple[Resources, int]]
    ) -> bool:
        """Return whether one of a class has room on a slot without some claims there."""
        need = line.request_class.needs.get(slot.type.name)
        if need is None or slot.id in line.key.avoided:
            return False
        without = replace(slot)
        for claimed, number in claims:
            without.release(claimed, number)
        if not self.view.fleet.rules.has_room(without, need):
            return False
        budget = self.view.limits.budget
        return budget is None or budget.refuses_place(line.key.account, slot, need) is None

    def take_up_again(self, before: Sequence[Sequence[tuple[Slot, int]]]) -> None:
        """Let classes claim once more what they had claimed `before` and gave up for nothing.

        That for which they gave it up, a start or room that was to be created, went to others, or
        to nobody, when the pass found that instances are short.
        """
        fleet = self.view.fleet
        for line, kept in zip(self.plan.lines, before, strict=True):
            for slot, number in kept:
                lacking = number - sum(n for each, n in line.claims if each is slot)
                waiting = len(line.request_class) - line.position
                usable = min([waiting, lacking, *self._most(line)])
                while (
                    usable > 0
                    and slot.kind is not SlotKind.READY
                    and self._would_do(line, slot, ())
                ):
                    fleet.claim(line.key, slot, line.request_class.need(slot.type), 1)
                    self._spend(line, slot, 1)
                    line.claims.append((slot, 1))
                    line.position += 1
                    self.count(line, -1)
                    usable -= 1
            if line.position == len(line.request_class):
                self.plan.waiting.pop(line.key, None)

    def tell_the_rest(self) -> None:
        """Note of all behind the one at which the pass stopped why they wait."""
        waiting = self.plan.waiting
        behind = wait_reasons.behind(*self.stopped_by) if self.stopped_by is not None else None
        for line in self.plan.lines:
            if self._supervisors_left(line) and waiting.get(line.key) is wait_reasons.SUPERVISORS:
                # The share was kept for others that have found no place either.
                waiting[line.key] = (
                    self.create_limits.own_reason(line) or behind or wait_reasons.CREATES
                )
            untold = line.position < len(line.request_class) and line.key not in waiting
            if untold and behind is not None:
                waiting[line.key] = self.create_limits.own_reason(line) or behind

    def start_on_unused(self) -> None:
        """Let those who are behind others have the instances that came for lower ones.

        They are ready and ran nothing yet; those that are withheld may have to make way.
        """
        gone = {*self.plan.unwanted, *self.plan.withheld}
        slots = [self.view.fleet.slots[i] for i in sorted(self.view.fleet.idle - gone)]
        unused = [slot for slot in slots if slot.is_unused and slot.kind is SlotKind.READY]
        heads: list[tuple[Order, int]] = []
        for line in self.plan.lines if unused else ():
            self._push_first(heads, line)
        while heads:
            line = self.plan.lines[heapq.heappop(heads)[1]]
            if self._start_on(line, unused):
                self._push_first(heads, line)

    def _push_first(self, heads: list[tuple[Order, int]], line: ClassPlacement) -> None:
        """Note the first of a class that does not start, if not all of it have a place."""
        head = line.request_class.at(len(line.starts))
        if head is not None and line.position < len(line.request_class):
            heapq.heappush(heads, (head[0], line.number))

    def _start_on(self, line: ClassPlacement, slots: Sequence[Slot]) -> bool:
        """Start the first of a class that does not start yet on one of some slots, if it may."""
        found = [slot for slot in slots if self._would_do(line, slot, ())]
        if not found or 0 in self._most(line):
            if found and self._supervisors_left(line) == 0:
                self.plan.waiting[line.key] = wait_reasons.SUPERVISORS
            return False
        slot, number = min(found, key=self.view.fleet.rules.key_of), len(line.starts)
        ((_, container_id),) = line.request_class.span(number, number + 1)
        self.view.fleet.take(slot, line.request_class.need(slot.type))
        self._spend(line, slot, 1)
        line.starts.append((container_id, slot))
        line.position += 1
        self.count(line, -1)
        if line.position == len(line.request_class):
            self.plan.waiting.pop(line.key, None)
        return True

    def give_up_the_rest(self) -> None:
        """Give up the claims of earlier passes of which no use was made."""
        for line in self.plan.lines:
            for slot, number in line.kept:
                self._give_up(line, slot, number)
            line.kept.clear()


def plan(view: Snapshot) -> Plan:
    """Decide one pass: containers in order of priority, each to its best place (see the top).

    At a quota the first that finds no place, and all below it that count against the same quota,
    wait; a class that is short of capacity, or that no type serves, is skipped and others go on.

    The fleet is filled with what the plan says: starts and claims are in it afterwards.
    """
    this = _begin(view)
    before = [list(line.kept) for line in this.plan.lines]
    for line in this.plan.lines:
        this.give_surplus_up(line)
        this.push_head(line)
    while this.heads:
        order, container_id, number = heapq.heappop(this.heads)
        line = this.plan.lines[number]
        if line.request_class.at(line.position) != (order, container_id):
            # One before it has lost its place to a higher one, and has its turn again.
            continue
        step = this.step(order, container_id, line)
        if step is _Step.STOP:
            this.take_back(order)
            if not this.plan.stopped:
                break
        if step is _Step.NEXT:
            this.push_head(line)
    this.give_up_the_rest()
    _buy(this)
    if this.plan.stopped:
        this.take_up_again(before)
    this.tell_the_rest()
    make_way(view, this.plan, this.create_limits)
    if this.plan.stopped or this.plan.closed:
        this.start_on_unused()
    return this.plan


def _begin(view: Snapshot) -> _Pass:
    lines: list[ClassPlacement] = []
    for request_class in view.classes:
        by_slot: Mapping[str, int] = view.fleet.claims.get(request_class.key, {})
        kept = [(view.fleet.slots[slot_id], by_slot[slot_id]) for slot_id in by_slot]
        # The last is used first: what is nearest to running something.
        kept.sort(key=lambda each: (each[0].kind, each[0].id), reverse=True)
        lines.append(ClassPlacement(number=len(lines), request_class=request_class, kept=kept))
    share = shares(view.limits, lines, view.fleet)
    return _Pass(
        view=view,
        plan=Plan(lines=lines),
        create_limits=CreateLimits(view.limits),
        containers_left=view.limits.containers_left,
        supervisors_left=view.limits.supervisors_left,
        shares=share,
        by_turns=_are_short(view.limits, lines) or share.are_short(lines),
    )


def _are_short(limits: Limits, lines: Sequence[ClassPlacement]) -> bool:
    """Return whether not all may have a place at once."""
    supervisors = [line for line in lines if line.key.supervisor]
    found = ((limits.containers_left, lines), (limits.supervisors_left, supervisors))
    return any(n is not None and n < sum(len(x.request_class) for x in of) for n, of in found)


def _buy(this: _Pass) -> None:
    """Create for what needs it; where a limit of all stops that, those below wait too."""
    this.look_again()
    scale_up = ScaleUp(view=this.view, plan=this.plan, create_limits=this.create_limits)
    stop = scale_up.buy(this.demands)
    for line in this.plan.lines:
        line.position = len(line.starts) + line.claimed
    for demand in this.demands:
        this.count(demand.line, demand.unserved)
        if demand.reason is not None:
            line, why = demand.line, demand.reason
            if demand.room_where_lost:
                why = this.waiting_elsewhere(line, why)
            this.plan.waiting.setdefault(line.key, why)
    if stop is not None:
        head = stop.line.request_class.at(stop.line.position)
        if head is not None:
            this.take_back(head[0])
            this.stop(stop.line, head[1], stop.reason)
