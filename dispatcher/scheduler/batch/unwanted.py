"""Which idle instances are shut down where a limit keeps somebody waiting: no more than are needed.

Who waits for the limit is gone through in order, from the next in line on. Who fits on an idle
instance keeps it; who does not needs a new one, and the place, or the money, of idle ones for it.
What is being shut down gives its own. Of the idle instances that nobody keeps those go first that
are least likely to be wanted: without a session, then those of a type that the fewest wait for,
then the least recently busy, then the dearest.

An instance that has come and ran nothing yet was created for somebody who is lower by now. To end
it for who is next in line would swap one boot for another, so that it is spared for as long as it
took to boot: by then, as a rule, something else has become idle. While nothing has, as many of them
are withheld from the lower ones as the next in line needs; the others are used.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby

from longshore.dispatcher.domain.feasibility import has_room
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.snapshot import ClassPlacement, Plan, Snapshot
from longshore.dispatcher.scheduler.scale_up.batch import CreateLimits
from longshore.dispatcher.state.queue import Order
from longshore.drivers.interface import InstanceType

_MOST_STEPS = 512
"""Of how many containers it is looked at most where they would go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shortage:
    """A limit that is reached, and who waits for it."""

    #: Who is next in line for it.
    container_id: str
    #: The classes whose first containers wait behind that one.
    lines: tuple[ClassPlacement, ...]
    #: The types that it counts, None for all.
    types: frozenset[str] | None
    #: Whether it is one of their price an hour, not of their number.
    of_money: bool
    #: By how much it is exceeded already.
    over: Decimal

    def covers(self, type_: InstanceType) -> bool:
        """Return whether an instance of a type takes up what is short."""
        return self.types is None or type_.name in self.types

    def takes(self, types: Iterable[InstanceType]) -> Decimal:
        """Return how much of what is short some instances take up."""
        covered = [type_ for type_ in types if self.covers(type_)]
        if self.of_money:
            return sum((type_.price_usd_per_hour for type_ in covered), Decimal(0))
        return Decimal(len(covered))


def make_way(view: Snapshot, plan: Plan, create_limits: CreateLimits) -> None:
    """Say in a plan which idle instances make way for those who wait at limits."""
    found: list[Slot] = []
    withheld: set[str] = set()
    for shortage in _shortages(view, plan, create_limits):
        ranked = _ranked(view, plan, shortage, found)
        if not ranked:
            continue
        leaving = [*view.leaving, *(slot.type for slot in found)]
        lacking = shortage.over - shortage.takes(leaving)
        going, kept_back = _making_way(view, create_limits, shortage, ranked, lacking)
        found += going
        withheld.update(slot.id for slot in kept_back)
    plan.unwanted = sorted(slot.id for slot in found)
    plan.withheld = sorted(withheld)


def _shortages(view: Snapshot, plan: Plan, create_limits: CreateLimits) -> Iterator[_Shortage]:
    """Return the limits that kept somebody waiting: of some types first, then of everything."""
    closed = sorted(plan.closed, key=lambda name: (plan.closed[name], name))
    for container_id, names in groupby(closed, key=lambda name: plan.closed[name]):
        lines = tuple(_waiting(plan, container_id))
        yield _Shortage(
            container_id=container_id,
            lines=lines,
            types=frozenset(names),
            of_money=False,
            over=Decimal(0),
        )
    if plan.stopped:
        yield _of_everything(view, plan, create_limits)


def _of_everything(view: Snapshot, plan: Plan, create_limits: CreateLimits) -> _Shortage:
    """Return the limit at which the pass stopped, as it is now that all has been bought."""
    container_id, limits = plan.next_in_line[-1], view.limits
    lines = tuple(_waiting(plan, container_id))
    over = Decimal(max(0, limits.instances + len(plan.creates) - limits.max_instances))
    of_money = False
    if limits.instances + len(plan.creates) < limits.max_instances and lines:
        refusal = create_limits.refusal(lines[0], create_limits.with_room(lines[0]))
        if refusal is not None and refusal.everywhere:
            of_money = True
            over = refusal.spent_usd_per_hour - refusal.limit_usd_per_hour
    return _Shortage(
        container_id=container_id, lines=lines, types=None, of_money=of_money, over=over
    )


def _waiting(plan: Plan, container_id: str) -> list[ClassPlacement]:
    """Return the classes of which the first without a place waits for a limit, or behind another.

    The one that is next in line comes first.
    """
    found = []
    for line in plan.lines:
        head = line.request_class.at(line.position)
        reason = plan.waiting.get(line.key)
        if head is None or reason is None:
            continue
        if container_id in (head[1], reason.behind):
            found.append((head[0], line.number, line))
    return [line for _, _, line in sorted(found, key=lambda each: each[:2])]


def _ranked(view: Snapshot, plan: Plan, shortage: _Shortage, found: Sequence[Slot]) -> list[Slot]:
    """Return the idle instances that take up what is short, but for those that were `found`.

    The one that is least likely to be wanted comes first.
    """
    resting = {slot.id for slot in view.resting}
    gone = {slot.id for slot in found}
    idle = [view.fleet.slots[slot_id] for slot_id in view.fleet.idle]
    idle += [slot for slot in view.resting if slot.idle]
    idle = [slot for slot in idle if slot.id not in gone and shortage.covers(slot.type)]
    wanted = {type_.name: _wanted(plan, type_) for type_ in (slot.type for slot in idle)}
    return sorted(
        idle,
        key=lambda slot: (
            slot.id not in resting,
            wanted[slot.type.name],
            slot.last_busy,
            -slot.type.price_usd_per_hour,
            slot.id,
        ),
    )


def _making_way(
    view: Snapshot,
    create_limits: CreateLimits,
    shortage: _Shortage,
    ranked: Sequence[Slot],
    lacking: Decimal,
) -> tuple[list[Slot], list[Slot]]:
    """Return which of some idle instances make way for what a shortage keeps waiting.

    Then those that will if no others do in time. `lacking` is what is short before anything is
    created, less than nothing where some is free.
    """
    resting = {slot.id for slot in view.resting}
    spared = [slot for slot in ranked if slot.is_unused and view.now < slot.spared_until]
    at_once = [slot for slot in ranked if slot not in spared]
    ahead = _LookAhead(
        view=view,
        create_limits=create_limits,
        shortage=shortage,
        lacking=lacking,
        left=shortage.takes(slot.type for slot in at_once),
        spared=frozenset(slot.id for slot in spared),
        rooms=[replace(slot) for slot in reversed(ranked) if slot.id not in resting],
    )
    ahead.look()
    going = _enough([s for s in at_once if s.id not in ahead.kept], shortage, ahead.lacking)
    rest = ahead.first - shortage.takes(slot.type for slot in going)
    return going, _enough(sorted(spared, key=lambda slot: slot.spared_until), shortage, rest)


def _enough(slots: Sequence[Slot], shortage: _Shortage, lacking: Decimal) -> list[Slot]:
    """Return the first of some instances that take up what is lacking, all if they take less."""
    found: list[Slot] = []
    for slot in slots:
        if lacking <= shortage.takes(each.type for each in found):
            break
        found.append(slot)
    return _without_surplus(found, shortage, lacking)


def _without_surplus(found: list[Slot], shortage: _Shortage, lacking: Decimal) -> list[Slot]:
    """Return instances without those that are not needed beside the others, which take up more."""
    needed = list(found)
    for slot in reversed(found):
        others = [each for each in needed if each is not slot]
        if shortage.takes(each.type for each in others) >= lacking:
            needed = others
    return needed


def _wanted(plan: Plan, type_: InstanceType) -> int:
    """Return how many containers wait that might go on an instance of a type."""
    found = 0
    for line in plan.lines:
        need = line.request_class.needs.get(type_.name)
        if need is not None and has_room(type_, need):
            found += len(line.request_class) - line.position
    return found


@dataclass(slots=True, kw_only=True)
class _LookAhead:
    """Where those who wait for a limit would go, in order."""

    view: Snapshot
    create_limits: CreateLimits
    shortage: _Shortage
    #: What has to come free for the new instances that are thought of; more than `left` at most for
    #: the first of them.
    lacking: Decimal
    #: What is idle, not kept and not spared.
    left: Decimal
    #: Idle instances that are not to be shut down.
    spared: frozenset[str]
    #: The idle instances, and what is thought of beside them.
    rooms: list[Slot]
    #: Those of the idle instances that are filled.
    kept: set[str] = field(default_factory=set)
    #: What the first of those who wait lacks.
    first: Decimal = Decimal(0)
    _steps: int = 0

    def look(self) -> None:
        """Go through them until what is idle is spoken for, or nobody waits any more."""
        heads: list[tuple[Order, int, int]] = []
        lines = self.shortage.lines
        for number, line in enumerate(lines):
            self._push(heads, number, line, line.position)
        while heads:
            _, number, position = heapq.heappop(heads)
            line = lines[number]
            end = line.request_class.before(heads[0][0]) if heads else len(line.request_class)
            for _ in range(position, max(end, position + 1)):
                self._steps += 1
                if self._steps > _MOST_STEPS or not self._place(line):
                    return
            self._push(heads, number, line, max(end, position + 1))

    def _push(
        self, heads: list[tuple[Order, int, int]], number: int, line: ClassPlacement, position: int
    ) -> None:
        head = line.request_class.at(position)
        if head is not None:
            heapq.heappush(heads, (head[0], number, position))

    def _place(self, line: ClassPlacement) -> bool:
        """Find room for one of a class; return False where there is no more for anybody."""
        if any(self._fill(slot, line) for slot in self.rooms):
            return True
        other = self.view.fleet.best(line.key, line.request_class.needs, ())
        if other is not None and all(slot.id != other.id for slot in self.rooms):
            # It is busy, and has room all the same.
            return self._fill(self._beside(other), line)
        if not self.create_limits.with_room(line):
            return True  # it waits for something else, and nothing that goes would help it
        type_ = self._new_type(line)
        more = self.shortage.takes([type_])
        is_first = not any(slot.kind is SlotKind.NEW for slot in self.rooms)
        if self.lacking + more > self.left and not is_first:
            return False
        self.lacking += more
        if is_first:
            self.first = self.lacking
        return self._fill(self._beside(empty_slot(SlotKind.NEW, "", type_)), line)

    def _new_type(self, line: ClassPlacement) -> InstanceType:
        """Return the type that would be created for a class: the cheapest that may be."""
        options = [option.type for option in self.create_limits.options(line)]
        types = options or self.create_limits.with_room(line)
        covered = [type_ for type_ in types if self.shortage.covers(type_)]
        return (covered or types)[0]

    def _beside(self, slot: Slot) -> Slot:
        copy = replace(slot)
        self.rooms.append(copy)
        return copy

    def _fill(self, slot: Slot, line: ClassPlacement) -> bool:
        need = line.request_class.needs.get(slot.type.name)
        if need is None or not self.view.fleet.rules.has_room(slot, need):
            return False
        at_once = slot.idle and slot.id not in self.spared
        if at_once and slot.id not in self.kept:
            left = self.left - self.shortage.takes([slot.type])
            if left < self.lacking:
                # Who comes before needs all that is left.
                return False
            self.kept.add(slot.id)
            self.left = left
        slot.assign(need)
        return True
