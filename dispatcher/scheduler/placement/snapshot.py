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
    """Why money keeps something from being done.

    `who` (the cluster if `of_all`) may spend `limit_usd_per_hour`, by `setting`; `room_on` is the
    type on which room was wanted, "" where it was a whole instance. `price_usd_per_hour` is what
    that would add.
    """

    who: str
    setting: str
    of_all: bool
    limit_usd_per_hour: Decimal
    spent_usd_per_hour: Decimal
    price_usd_per_hour: Decimal
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
    """What a pass may do.

    `instances` is how many there are (with those being created). `creates_left` is how many create
    calls more may be under way, `tokens_left` how many the rate of cloud operations allows now.
    `hindrance` says what keeps a type from being created, None when nothing does; `allowances` in
    which scopes only some may be, and what hinders the others then.
    `containers_left` is how many more may have a place at once, `supervisors_left` how many of
    those that submit others, None for any number; `budget` is None without limits of spending.
    `as_new` tells a type as a new instance of it comes to this pass: without what others take of it
    as soon as it is there, `as_found` as its instances turned out to be. `quotas` are what errors
    have told of quotas; that may have changed. At each of the `ceilings` supervisors, of which some
    run (`supervisors_on`, by type), may be `supervisor_fraction` of what can have a place there.
    """

    instances: int
    max_instances: int
    creates_left: int
    tokens_left: int
    hindrance: Callable[[InstanceType], CreateBlock | None]
    allowances: Callable[[InstanceType], Mapping[Scope, Allowance]]
    containers_left: int | None = None
    supervisors_left: int | None = None
    budget: Budget | None = None
    as_new: Callable[[InstanceType], InstanceType] = whole
    as_found: Callable[[InstanceType], InstanceType] = whole
    quotas: tuple[QuotaBound, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    supervisor_fraction: float = 1.0
    supervisors_on: Mapping[str, int] = field(default_factory=dict)


def never(_container_id: str) -> float:
    """Return that a container never goes back to where it was lost, if others could hold it."""
    return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a pass decides from. It fills the fleet with what it decides, and nothing else.

    `returns_at` tells when a container may go back to where it was lost, though others could hold
    it (`placement.avoiding`).
    `resting` are idle instances that get no work and use up quotas all the same, `leaving` the
    types of the instances that are soon gone. `now` is when it is.
    """

    classes: Sequence[RequestClass]
    fleet: Fleet
    limits: Limits
    returns_at: Callable[[str], float] = never
    resting: Sequence[Slot] = ()
    leaving: Sequence[InstanceType] = ()
    now: float = 0.0


@dataclass(slots=True, kw_only=True)
class ClassPlacement:
    """One class in a pass: its containers in order have starts first, then claims, then nothing.

    `number` is its place among the classes of the pass, `position` that of the first container that
    has neither. `kept` are the claims of earlier passes of which no use was made yet; `demanded`
    says that some of it need new instances.
    """

    number: int
    request_class: RequestClass
    position: int = 0
    starts: list[tuple[str, Slot]] = field(default_factory=list)
    claims: list[tuple[Slot, int]] = field(default_factory=list)
    kept: list[tuple[Slot, int]] = field(default_factory=list)
    demanded: bool = False

    @property
    def key(self) -> ClassKey:
        """Return the key of its class."""
        return self.request_class.key

    @property
    def claimed(self) -> int:
        """Return how many of its containers have a claim."""
        return sum(number for _, number in self.claims)

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
    """What a pass decided.

    `next_in_line` are the first containers that found no place, one for each quota that is used
    up; they keep their claims. `closed` are the types (by name) of these quotas, with who is next
    in line there: of those below only who these were created for is placed on them. `stopped` says
    that there is such a quota of everything. `unwanted` are idle workers whose place in a quota is
    needed, no more than are; `withheld` are those that came for lower ones and will be unwanted if
    no other becomes idle in time. `tokens_short` says that more would have been created but for the
    rate of cloud operations.
    """

    lines: list[ClassPlacement]
    creates: list[Slot] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    waiting: dict[ClassKey, WaitReason] = field(default_factory=dict)
    next_in_line: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    tokens_short: bool = False

    @property
    def places(self) -> list[tuple[str, Slot]]:
        """Return each container that has a place, with it, before the queue changes."""
        return [place for line in self.lines for place in line.places()]
