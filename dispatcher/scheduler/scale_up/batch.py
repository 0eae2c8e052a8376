"""Buying: which instances are created for what finds no place, within the limits of a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.domain.feasibility import has_room
from longshore.dispatcher.scheduler.placement import wait_reasons
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind, empty_slot
from longshore.dispatcher.scheduler.placement.snapshot import (
    BudgetDenial,
    ClassPlacement,
    Limits,
    Plan,
    Snapshot,
)
from longshore.dispatcher.scheduler.scale_up.dominated import worthwhile
from longshore.dispatcher.scheduler.scale_up.problem import options_of, within_factor
from longshore.dispatcher.scheduler.scale_up.solve import (
    Item,
    NewInstance,
    Option,
    cheapest_solution,
)
from longshore.dispatcher.state.queue import Order
from longshore.drivers.interface import InstanceType
from longshore.pool.charging import charge
from longshore.pool.holds import Allowance, CreateBlock, CreateBlockKind, Scope

_MOST_ROUNDS = 8
_MOST_CLASSES = 40
_MANY_TYPES = 24
_SHORT = (CreateBlockKind.CAPACITY, CreateBlockKind.NONE_ALLOWED)
_VOLUME = 2
"""How many times what may be created in a pass is looked at, so that instances are well filled."""


@dataclass(slots=True, kw_only=True)
class UnmetDemand:
    """Containers of one class, one after the other in order of priority, that need instances."""

    order: Order
    line: ClassPlacement
    number: int
    options: tuple[Option, ...]
    #: Whether there is room for it where it was lost: then it keeps nobody waiting.
    room_where_lost: bool = False
    #: How many of them got a claim on a new instance.
    held: int = 0
    reason: WaitReason | None = None

    @property
    def unserved(self) -> int:
        """Return how many of its containers have no claim yet."""
        return self.number - self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Whoever comes after the first of a line without a place waits: a limit of all is reached."""

    line: ClassPlacement
    reason: WaitReason


class CreateLimits:
    """What the limits say of each type, asked once a pass, and what is created in it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[str, tuple[CreateBlock | None, Mapping[Scope, Allowance]]] = {}
        self._made: Counter[Scope] = Counter()
        self._made_cpu_millis: Counter[Scope] = Counter()
        self._made_of: Counter[str] = Counter()
        self._tried: set[Scope] = set()
        self._options: dict[int, tuple[Option, ...]] = {}
        self._with_room: dict[int, tuple[Option, ...]] = {}
        self._types_with_room: dict[int, tuple[InstanceType, ...]] = {}

    def create_block(self, type_: InstanceType) -> CreateBlock | None:
        """Return what keeps a type from being created now, None when nothing does."""
        found, allowances = self._of(type_)
        if found is not None or not self._made:
            return found
        cpu_millis = type_.resources.cpu_millis
        for scope, allowance in allowances.items():
            most_cpu_millis = allowance.cpu_millis
            is_over = most_cpu_millis is not None and (
                self._made_cpu_millis[scope] + cpu_millis > most_cpu_millis
            )
            if scope in self._tried or self._made[scope] >= allowance.number or is_over:
                return allowance.then
        return None

    def options(self, line: ClassPlacement) -> tuple[Option, ...]:
        """Return the types of a class that may be created, before any is."""
        known = self._options.get(line.number)
        if known is None and not self._limits.prepaid_left:
            free_types = (each for each in self.with_room(line) if self._of(each)[0] is None)
            need = line.request_class.need
            known = tuple(Option(type=each, need=need(each)) for each in free_types)
            self._options[line.number] = known
        if known is None:
            options = self._options_with_room(line)
            free = (each for each in options if self._of(each.type)[0] is None)
            known = tuple(each for each in free if self.is_within_price(each))
            self._options[line.number] = known
        return known

    def is_within_price(self, option: Option) -> bool:
        """Return whether a type is not too dear: one that is only so if prepaid needs a place."""
        return not option.only_prepaid or option.type.name in self.prepaid_left

    @property
    def prepaid_left(self) -> dict[str, int]:
        """Return how many more of a type cost nothing more, by its name; above 0."""
        made = self._made_of
        left = {name: each - made[name] for name, each in self._limits.prepaid_left.items()}
        return {name: each for name, each in left.items() if each > 0}

    def with_room(self, line: ClassPlacement) -> tuple[InstanceType, ...]:
        """Return a class's types, as new instances of them come, that have room for one of it.

        Those that are too dear but for what is prepaid are not among them once that is used up.
        """
        if self._limits.prepaid_left:
            options = self._options_with_room(line)
            return tuple(each.type for each in options if self.is_within_price(each))
        # Nearly always: nothing changes in a pass, and asked for of each class.
        known = self._types_with_room.get(line.number)
        if known is None:
            known = within_factor(self._having_room(line), self._limits.max_price_factor)
            self._types_with_room[line.number] = known
        return known

    def _options_with_room(self, line: ClassPlacement) -> tuple[Option, ...]:
        known = self._with_room.get(line.number)
        if known is None:
            factor = self._limits.max_price_factor
            having = self._having_room(line)
            known = options_of(having, line.request_class.need, max_price_factor=factor)
            self._with_room[line.number] = known
        return known

    def _having_room(self, line: ClassPlacement) -> list[InstanceType]:
        needs = line.request_class.needs
        as_new = map(self._limits.as_new, line.request_class.types)
        return [type_ for type_ in as_new if has_room(type_, needs[type_.name])]

    def has_allowances(self, type_: InstanceType) -> bool:
        """Return whether of a type, alone or with others, only some may be created now."""
        return bool(self._of(type_)[1])

    def most_of(self, type_: InstanceType) -> int | None:
        """Return how many of this very type may be created now, None for any number."""
        allowances = self._of(type_)[1].items()
        return min((a.number for scope, a in allowances if scope.type_name), default=None)

    def is_doubtful(self, line: ClassPlacement) -> bool:
        """Return whether of none of a class's types one may ever be allowed, as far as is known.

        Whether that is still so is tried now and then; it must keep nobody waiting.
        """
        types = self.with_room(line)
        return bool(types) and all(map(self._is_doubtful, types))

    def _is_doubtful(self, type_: InstanceType) -> bool:
        found, allowances = self._of(type_)
        kinds = {allowance.then.kind for allowance in allowances.values()}
        return CreateBlockKind.NONE_ALLOWED in kinds or (found is not None and found.kind in _SHORT)

    def create(self, type_: InstanceType) -> None:
        """Note that an instance of a type is created in this pass."""
        self._made_of[type_.name] += 1
        for scope, allowance in self._of(type_)[1].items():
            self._made[scope] += 1
            self._made_cpu_millis[scope] += type_.resources.cpu_millis
            if allowance.is_trial:
                self._tried.add(scope)

    def why_hindered(self, line: ClassPlacement) -> WaitReason:
        """Return why none of a class's types may be created."""
        found = [self.create_block(type_) for type_ in self.with_room(line)]
        short = self.shortage(line)
        return short or wait_reasons.why_held([h for h in found if h is not None])[0]

    def own_reason(self, line: ClassPlacement) -> WaitReason | None:
        """Return what keeps a class waiting whatever the others do, None when nothing does."""
        if not line.request_class.types:
            return wait_reasons.no_type(line.request_class)
        if not self.with_room(line):
            limits = self._limits
            return wait_reasons.no_room_on_new(line.request_class, limits.as_new, limits.as_found)
        return self.shortage(line)

    def shortage(self, line: ClassPlacement) -> WaitReason | None:
        """Return why a class waits if the cloud has or allows none of all its types, else None."""
        create_blocks = []
        # Where there never is room on a new one, it is no matter whether the cloud has any.
        for type_ in self.with_room(line):
            create_block = self.create_block(type_)
            if create_block is None or create_block.kind not in _SHORT:
                return None
            create_blocks.append(create_block)
        return wait_reasons.short(self.with_room(line), create_blocks) if create_blocks else None

    def refusal(self, line: ClassPlacement, types: Iterable[InstanceType]) -> BudgetDenial | None:
        """Return why none of some types (cheapest first) may be paid for a class now, else None.

        Of those that may ever be paid the cheapest is told.
        """
        budget = self._limits.budget
        if budget is None:
            return None
        found: list[BudgetDenial] = []
        for type_ in types:
            refusal = budget.refuses_create(line.key.account, type_)
            if refusal is None:
                return None
            found.append(refusal)
        return next((each for each in found if not each.is_final), found[0]) if found else None

    def _of(self, type_: InstanceType) -> tuple[CreateBlock | None, Mapping[Scope, Allowance]]:
        known = self._known.get(type_.name)
        if known is None:
            limits = self._limits
            known = self._known[type_.name] = (limits.create_block(type_), limits.allowances(type_))
        return known


@dataclass(slots=True, kw_only=True)
class ScaleUp:
    """Creates for the demands of one pass."""

    view: Snapshot
    plan: Plan
    create_limits: CreateLimits
    _again: bool = field(default=False, init=False)
    _most: dict[int, int] = field(default_factory=dict, init=False)
    _affordable: dict[int, tuple[Option, ...]] = field(default_factory=dict, init=False)

    def buy(self, demands: Sequence[UnmetDemand]) -> Stopped | None:
        """Create what is cheapest for demands in order of priority; return what stops all below.

        Each demand says afterwards how many of it have a claim, and why the others have none.
        """
        _leave_out_the_needless(demands, self.create_limits)
        for _ in range(_MOST_ROUNDS):
            open_ = self._open(demands)
            if not open_ or not self._left():
                break
            self._again = False
            self._round(open_)
            if not self._again:
                break
        return self._tell(demands)

    def _open(self, demands: Sequence[UnmetDemand]) -> list[UnmetDemand]:
        """Return the demands to buy for, none below the first for which all have no money left."""
        open_ = []
        for demand in demands:
            if not demand.unserved or demand.reason is not None:
                continue
            if self._options(demand):
                open_.append(demand)
                continue
            refusal = self._refusal(demand)
            if refusal is not None and refusal.everywhere and not self._yields(demand):
                break
        return open_

    def _tell(self, demands: Sequence[UnmetDemand]) -> Stopped | None:
        """Note why the rest got nothing, up to the first for which a limit of all is reached."""
        for demand in demands:
            if not demand.unserved or demand.reason is not None:
                continue
            refusal = self._refusal(demand)
            yields = self._yields(demand)
            if refusal is not None and (yields or not refusal.everywhere):
                demand.reason = refusal.reason
            elif not self._instances_left():
                full = wait_reasons.full(self.view.limits.max_instances)
                if not yields:
                    return self._stop(demand, full)
                demand.reason = full if demand.room_where_lost else wait_reasons.doubtful(full)
            elif refusal is not None:
                return self._stop(demand, refusal.reason)
            else:
                demand.reason = self._why(demand)
        return None

    def _yields(self, demand: UnmetDemand) -> bool:
        """Return whether nobody below is to wait for what a demand lacks."""
        return demand.room_where_lost or self.create_limits.is_doubtful(demand.line)

    # ---- one round -------------------------------------------------------------------------

    def _round(self, demands: list[UnmetDemand]) -> None:
        demands = self._within_reach(demands)
        solution = self._solve(demands)
        short = self._first_short(demands, solution)
        if short is not None:
            # What is below the first that waits for the quota gets nothing of what is created.
            demands = demands[: short + 1]
            solution = self._solve(demands)
        for new in solution:
            if not self._left():
                break
            payer = _payer(new, demands)
            if self.create_limits.refusal(payer.line, (new.type,)) is not None:
                # What is below must not have the money: this one may do with something cheaper.
                self._again = True
                break
            self._create(new, demands, payer)

    def _solve(self, demands: list[UnmetDemand]) -> tuple[NewInstance, ...]:
        rules = self.view.fleet.rules
        types = {option.type.name: option.type for d in demands for option in d.options}
        most = {name: self.create_limits.most_of(type_) for name, type_ in types.items()}
        items = [
            Item(
                index=demand.line.number,
                count=self._count(demand),
                options=self._options(demand),
            )
            for demand in demands
        ]
        return cheapest_solution(
            items,
            placement=rules.placement,
            max_containers=rules.max_containers,
            most_instances=self._instances_left(),
            most_of=lambda name: most[name],
            prepaid_left=self.create_limits.prepaid_left,
        )

    def _first_short(
        self, demands: list[UnmetDemand], solution: tuple[NewInstance, ...]
    ) -> int | None:
        """Return the first demand that the limit of instances leaves short, None for none."""
        if len(solution) < self._instances_left():
            return None
        held: Counter[int] = Counter()
        for new in solution:
            held.update(dict(new.contents))
        for index, demand in enumerate(demands):
            wanted = self._count(demand)
            if held[demand.line.number] < wanted:
                return index
            held[demand.line.number] -= wanted
        return None

    def _create(self, new: NewInstance, demands: list[UnmetDemand], payer: UnmetDemand) -> None:
        """Create one instance of the solution, unless that is not possible any more."""
        if self.create_limits.create_block(new.type) is not None:
            self._again = True
            return
        contents = dict(new.contents)
        self._affordable.clear()
        self.create_limits.create(new.type)
        slot_id = f"new-{len(self.plan.creates):06}"
        slot = empty_slot(SlotKind.NEW, slot_id, new.type)
        self.plan.creates.append(slot)
        self.plan.bought_for[slot_id] = payer.line
        self.view.fleet.put(slot)
        if self.view.limits.budget is not None:
            self.view.limits.budget.create(payer.line.key.account, slot)
        for demand in demands:
            wanted = contents.get(demand.line.number)
            number = self._reserve(demand, slot, min(wanted, demand.unserved)) if wanted else 0
            if number:
                contents[demand.line.number] -= number
                demand.held += number
                line = demand.line
                self.view.fleet.claim(line.key, slot, line.request_class.need(new.type), number)
                line.claims.append((slot, number))

    def _reserve(self, demand: UnmetDemand, slot: Slot, number: int) -> int:
        """Return how many containers may be paid room on a new instance; it is reserved."""
        budget = self.view.limits.budget
        if budget is None or not number:
            return number
        account, need = demand.line.key.account, demand.line.request_class.need(slot.type)
        for reserved in range(number):
            refusal = budget.refuses_place(account, slot, need)
            if refusal is not None:
                demand.reason = refusal.reason
                return reserved
            budget.place(account, slot, need, 1)
        return number

    def _stop(self, demand: UnmetDemand, reason: WaitReason) -> Stopped:
        self.plan.stopped = True
        return Stopped(line=demand.line, reason=reason)

    # ---- limits ------------------------------------------------------------------------------

    def _left(self) -> int:
        """Return how many instances may be created yet in this pass."""
        limits, made = self.view.limits, len(self.plan.creates)
        return min(limits.creates_left, limits.tokens_left) - made

    def _instances_left(self) -> int:
        limits = self.view.limits
        return limits.max_instances - limits.instances - len(self.plan.creates)

    def _options(self, demand: UnmetDemand) -> tuple[Option, ...]:
        number, line = demand.line.number, demand.line
        known = self._affordable.get(number)
        if known is None:
            free = self._unhindered(demand)
            known = tuple(o for o in free if self.create_limits.refusal(line, (o.type,)) is None)
            self._affordable[number] = known
        return known

    def _unhindered(self, demand: UnmetDemand) -> tuple[Option, ...]:
        limits = self.create_limits
        return tuple(
            option
            for option in demand.options
            if limits.create_block(option.type) is None and limits.is_within_price(option)
        )

    def _refusal(self, demand: UnmetDemand) -> BudgetDenial | None:
        """Return why nothing that might be created for a demand may be paid, else None."""
        return self.create_limits.refusal(demand.line, (o.type for o in self._unhindered(demand)))

    def _within_reach(self, demands: list[UnmetDemand]) -> list[UnmetDemand]:
        """Return the first demands, enough to fill what may be created with the largest types."""
        reach: list[UnmetDemand] = []
        classes: set[int] = set()
        volume = 0.0
        for demand in demands:
            classes.add(demand.line.number)
            if len(classes) > _MOST_CLASSES:
                break
            reach.append(demand)
            volume += demand.unserved / self._most_on_one(demand)
            if volume >= _VOLUME * self._left():
                break
        return reach

    def _count(self, demand: UnmetDemand) -> int:
        return min(demand.unserved, _VOLUME * self._left() * self._most_on_one(demand))

    def _most_on_one(self, demand: UnmetDemand) -> int:
        """Return how many of a demand the largest of its types holds at most."""
        known = self._most.get(demand.line.number)
        if known is None:
            fit = max(_how_many(option) for option in demand.options)
            known = max(1, min(self.view.fleet.rules.most_containers, fit))
            self._most[demand.line.number] = known
        return known

    def _why(self, demand: UnmetDemand) -> WaitReason:
        """Return why a demand has no place, when nothing stopped it."""
        limits = self.view.limits
        if not self._options(demand):
            return self.create_limits.why_hindered(demand.line)
        if len(self.plan.creates) >= limits.tokens_left < limits.creates_left:
            self.plan.tokens_short = True
            return wait_reasons.TOKENS
        return wait_reasons.CREATES


def _leave_out_the_needless(demands: Sequence[UnmetDemand], create_limits: CreateLimits) -> None:
    """Take the types from demands, if there are many, that others replace in every solution."""
    options = {demand.line.number: demand.options for demand in demands}
    if max(map(len, options.values()), default=0) < _MANY_TYPES:
        return
    worth = worthwhile(
        list(options.values()), may_replace=lambda t: not create_limits.has_allowances(t)
    )
    left = {
        number: tuple(option for option in each if option.type.name in worth)
        for number, each in options.items()
    }
    for demand in demands:
        demand.options = left[demand.line.number]


def _payer(new: NewInstance, demands: list[UnmetDemand]) -> UnmetDemand:
    """Return for whom an instance is created: the most important of its contents."""
    numbers = {number for number, _ in new.contents}
    return next(d for d in demands if d.unserved and d.line.number in numbers)


def _how_many(option: Option) -> int:
    """Return how many requests an empty instance holds, as far as cpus and memory go."""
    room, need = option.type.allocatable, charge(option.need, on_shared_cpu=1)
    pairs = ((need.cpu_millis, room.cpu_millis), (need.memory_bytes, room.memory_bytes))
    return min((whole // part for part, whole in pairs if part), default=1_000_000)
