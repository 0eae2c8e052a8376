"""What a pass may do, what it decides from, and what it decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.domain.feasibility import whole
from longshore.dispatcher.scheduler.placement.fleet import Fleet, Slot
from longshore.dispatcher.scheduler.placement.wait_reasons import spend_limit
from longshore.dispatcher.state.queue import ClassKey, RequestClass
from longshore.dispatcher.state.spend_limits import SpendSubjects
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.holds import Allowance, CreateBlock, Scope
from longshore.pool.quotas import QuotaBound


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDenial:
    """Why money keeps something from being done."""

    #: Who may spend no more: the cluster if `of_all`, else a project or user.
    who: str
    #: The setting that says so.
    setting: str
    of_all: bool
    #: What it allows, and what is spent by now.
    limit_usd_per_hour: Decimal
    spent_usd_per_hour: Decimal
    #: What the denied thing would add.
    price_usd_per_hour: Decimal
    #: The type on which room was wanted, "" where it was a whole instance.
    room_on: str = ""

    @property
    def is_final(self) -> bool:
        """Return whether the limit would be exceeded even if nothing else were spent."""
        return self.price_usd_per_hour > self.limit_usd_per_hour

    @property
    def everywhere(self) -> bool:
        """Return whether all below wait too: for what can never be, nobody need wait."""
        return self.of_all and not self.is_final

    @property
    def reason(self) -> WaitReason:
        """Return it as a sentence; for a create it is to be that of the cheapest type."""
        return spend_limit(
            self.who,
            self.setting,
            limit=self.limit_usd_per_hour,
            spent=self.spent_usd_per_hour,
            price=self.price_usd_per_hour,
            is_final=self.is_final,
            room_on=self.room_on,
        )


class Budget(Protocol):
    """What may still be spent an hour; what a pass decides is reserved in it."""

    def refuses_place(
        self, account: SpendSubjects, slot: Slot, need: Resources
    ) -> BudgetDenial | None:
        """Return why an account may not have room on an instance, None when it may."""
        ...

    def place(self, account: SpendSubjects, slot: Slot, need: Resources, number: int) -> None:
        """Reserve what room for some containers costs; a negative number gives it back."""
        ...

    def refuses_create(self, account: SpendSubjects, type_: InstanceType) -> BudgetDenial | None:
        """Return why no instance of a type may be created for an account, None when one may."""
        ...

    def create(self, account: SpendSubjects, slot: Slot) -> None:
        """Reserve the price of a new instance; an account's claims on it are covered by that."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A limit of instances: so many more may be `left` of the types it covers, None for all.

    Less than 0 where more are asked for than are known to be allowed.
    """

    covers: frozenset[str] | None
    left: int

    def has(self, type_name: str) -> bool:
        """Return whether it covers a type."""
        return self.covers is None or type_name in self.covers


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a pass may do."""

    #: How many there are, with those being created.
    instances: int
    max_instances: int
    #: How many more create calls may be under way.
    creates_left: int
    #: How many calls the rate of cloud operations allows now.
    tokens_left: int
    #: Returns what keeps a type from being created, None when nothing does.
    create_block: Callable[[InstanceType], CreateBlock | None]
    #: Returns in which scopes only some of a type may be created, and what blocks the others.
    allowances: Callable[[InstanceType], Mapping[Scope, Allowance]]
    #: How many more containers may have a place at once, None for any number.
    containers_left: int | None = None
    #: How many more of those that submit others may, None for any number.
    supervisors_left: int | None = None
    #: None without limits of spending.
    budget: Budget | None = None
    #: Returns a type as a new instance of it comes to this pass: without what others take of it as
    #: soon as it is there.
    as_new: Callable[[InstanceType], InstanceType] = whole
    #: Returns a type as its instances turned out to be.
    as_found: Callable[[InstanceType], InstanceType] = whole
    #: How many more of a type are paid for whether they run or not, by its name; above 0.
    prepaid_left: Mapping[str, int] = field(default_factory=dict)
    #: How many times the cheapest type's price one may have that is not prepaid, None for any.
    max_price_factor: float | None = None
    #: What errors have told of quotas; that may have changed.
    quotas: tuple[QuotaBound, ...] = ()
    #: Of what can have a place at each of these, supervisors may have `supervisor_fraction`.
    ceilings: tuple[Ceiling, ...] = ()
    supervisor_fraction: float = 1.0
    #: How many supervisors run, by type.
    supervisors_on: Mapping[str, int] = field(default_factory=dict)


def never(_container_id: str) -> float:
    """Return that a container never goes back to where it was lost, if others could hold it."""
    return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a pass decides from. It fills the fleet with what it decides, and nothing else."""

    classes: Sequence[RequestClass]
    fleet: Fleet
    limits: Limits
    #: Tells when a container may go back to where it was lost, though others could hold it
    #: (`placement.avoiding`).
    returns_at: Callable[[str], float] = never
    #: Idle instances that get no work, and use up quotas all the same.
    resting: Sequence[Slot] = ()
    #: The types of the instances that are soon gone.
    leaving: Sequence[InstanceType] = ()
    now: float = 0.0


@dataclass(slots=True, kw_only=True)
class ClassPlacement:
    """One class in a pass: its containers in order have starts first, then claims, then nothing."""

    #: Its place among the classes of the pass.
    number: int
    request_class: RequestClass
    #: The position in the class of the first container that has neither a start nor a claim.
    position: int = 0
    starts: list[tuple[str, Slot]] = field(default_factory=list)
    claims: list[tuple[Slot, int]] = field(default_factory=list)
    #: The claims of earlier passes of which no use was made yet, what is nearest to running last.
    kept: list[tuple[Slot, int]] = field(default_factory=list)
    #: Whether some of it need new instances.
    demanded: bool = False

    @property
    def key(self) -> ClassKey:
        """Return the key of its class."""
        return self.request_class.key

    @property
    def claimed(self) -> int:
        """Return how many of its containers have a claim."""
        return sum(number for _, number in self.claims)

    def first_on(self, slot: Slot) -> str:
        """Return the first of its containers that has a claim on a slot.

        Where none has, it is the first of all: it was bought for them.
        """
        position = len(self.starts)
        for claimed, number in self.claims:
            if claimed is slot and number:
                break
            position += number
        else:
            position = 0
        return next((id_ for _, id_ in self.request_class.span(position, position + 1)), "")

    def places(self) -> Iterator[tuple[str, Slot]]:
        """Return each container that has a place, with it, in order."""
        yield from self.starts
        position = len(self.starts)
        for slot, number in self.claims:
            for _, container_id in self.request_class.span(position, position + number):
                yield container_id, slot
            position += number


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a pass decided."""

    lines: list[ClassPlacement]
    creates: list[Slot] = field(default_factory=list)
    #: For which class each of them is, by its slot's id.
    bought_for: dict[str, ClassPlacement] = field(default_factory=dict)
    #: Idle workers whose place in a quota is needed, no more than are.
    unwanted: list[str] = field(default_factory=list)
    #: Idle workers that came for lower ones, and will be unwanted if no other becomes idle in time.
    withheld: list[str] = field(default_factory=list)
    waiting: dict[ClassKey, WaitReason] = field(default_factory=dict)
    #: The first containers that found no place, one for each quota that is used up; they keep their
    #: claims.
    next_in_line: list[str] = field(default_factory=list)
    #: The types, by name, of these quotas, with who is next in line there. Of those below, only who
    #: such an instance was created for is placed on it.
    closed: dict[str, str] = field(default_factory=dict)
    #: Whether such a quota is one of everything.
    stopped: bool = False
    #: Whether more would have been created but for the rate of cloud operations.
    tokens_short: bool = False

    @property
    def places(self) -> list[tuple[str, Slot]]:
        """Return each container that has a place, with it, before the queue changes."""
        return [place for line in self.lines for place in line.places()]
