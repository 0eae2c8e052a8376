"""The rules of the simulated cloud: what its calls answer and what becomes of its instances; pure.

It is handed its time and its dice, so that the same calls at the same times have the same answers:
in real time around real processes (`drivers.simulated.cloud`), and in virtual time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from longshore.drivers.billing import Billed, BillingEnd, BillingStart, EndedBy
from longshore.drivers.errors import (
    AmbiguousResult,
    BugError,
    CapacityError,
    CloudError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import Existence, InstanceType
from longshore.drivers.simulated.parameters import SimulatedFaults, SimulatedParameters

REMEMBERED_TOKENS = 10_000
"""How many tokens of instances that are gone are still recognised."""

REMEMBERED_BILLS = 10_000
"""Of how many instances that are gone it is still told how they were billed."""


class Dice(Protocol):
    """What the rules need of a source of chance."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        ...


class Happening(Enum):
    """What happens to an instance without anybody calling."""

    BOOTED = "booted"
    BROKE = "broke"
    RECLAIM_NOTICE = "reclaim_notice"
    ENDED = "ended"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What the dice have in store for an instance; times are seconds after its creation."""

    #: None for never.
    boots_after_s: float | None
    #: None for never.
    ends_after_s: float | None
    #: How long before its end it is told of it (0: not at all).
    notice_s: float
    listed_after_s: float
    tagged_after_s: float
    #: Without one nothing that is deployed works there.
    has_runner: bool
    #: Whether it says so of itself, from `breaks_after_s` on.
    breaks: bool
    breaks_after_s: float = 0.0
    #: Whether it ends since the cloud takes it back, and not since its host fails.
    reclaimed: bool = False


@dataclass(slots=True, kw_only=True)
class Machine:
    """The cloud's record of one instance."""

    id: str
    token: str
    type: InstanceType
    created_at: float
    fate: Fate
    tags: dict[str, str]
    #: What listings tell in place of its `tags` until `tags_shown_from`.
    shown_tags: dict[str, str]
    tags_shown_from: float
    #: When it runs, if it is not ended before.
    runs_from: float
    #: Where it is, "" where the cloud has no zones.
    zone: str
    booted: bool = False
    #: Whether its end was asked for, and when.
    ending: bool = False
    ending_from: float = 0.0
    #: Whether it no longer runs; it is billed until then, and listings may show it for a while yet.
    ended: bool = False
    ended_at: float = 0.0
    #: Who ended it, None while it is there.
    ended_by: EndedBy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """What came of a create call: an instance, an error, or both when the answer is lost."""

    machine: Machine | None
    is_new: bool
    error: CloudError | None

    def answer(self) -> Machine:
        """Return the instance, or raise the error: what the caller hears."""
        if self.error is not None:
            raise self.error
        if self.machine is None:
            raise BugError("a create call came to nothing")
        return self.machine


@dataclass(slots=True, kw_only=True)
class CloudLimits:
    """What the account and the cloud allow now; whoever runs the cloud may change it any time."""

    #: Counts all instances (0: no limit).
    quota: int = 0
    #: Count those of one quota group and market ("GROUP" or "GROUP/spot").
    group_quotas: dict[str, int] = field(default_factory=dict)
    #: Counts those of one provider type.
    capacity: dict[str, int] = field(default_factory=dict)
    #: The provider types of which none is to be had, with how far the shortage is told to reach.
    shortages: dict[str, ErrorScope] = field(default_factory=dict)


def market_of(group: str, type_: InstanceType) -> str:
    """Return the name of the quota that a type of `group` counts against."""
    return f"{group}/spot" if type_.preemptible else group


def as_thrown(number: int, type_: InstanceType, now: float, fate: Fate) -> Fate:  # noqa: ARG001 - others may look
    """Return the fate that the dice of the instance of this number have thrown."""
    return fate


class CloudModel:
    """One account of the cloud; the caller sees to it that one call is made at a time.

    `dice_of(number)` returns the dice of the instance of that number, so that its fate does not
    hang on the order of other calls; `dice` are those of the calls. `destiny(number, type, now,
    fate)` returns what becomes of it in place of that. `faults` may be replaced.
    """

    def __init__(
        self,
        parameters: SimulatedParameters,
        *,
        name: str,
        dice: Dice,
        dice_of: Callable[[int], Dice],
        destiny: Callable[[int, InstanceType, float, Fate], Fate] = as_thrown,
    ) -> None:
        self.parameters = parameters
        self.faults: SimulatedFaults = parameters.faults
        self.limits = CloudLimits(
            quota=parameters.quota,
            group_quotas=dict(parameters.group_quotas),
            capacity=dict(parameters.capacity),
        )
        self.machines: dict[str, Machine] = {}
        self._name = name
        self._dice = dice
        self._dice_of = dice_of
        self._destiny = destiny
        self._by_token: dict[str, Machine] = {}
        self._gone_tokens: deque[str] = deque()
        self._created = 0
        self._ended: dict[str, Machine] = {}
        self._due: list[tuple[float, int, Happening, Machine, EndedBy]] = []
        self._scheduled = 0

    def group_of(self, type_: InstanceType) -> str:
        """Return the quota group of a type, "" when it has none of its own."""
        return self.parameters.quota_groups.get(type_.provider_type, "")

    # ---- the calls ---------------------------------------------------------------------------

    def create(
        self, type_: InstanceType, *, tags: Mapping[str, str], token: str, now: float
    ) -> Creation:
        """Create an instance, or return the one that this `token` made."""
        error = self._throttled()
        if error is not None:
            return Creation(machine=None, is_new=False, error=error)
        machine = self._by_token.get(token)
        if machine is not None:
            return Creation(machine=machine, is_new=False, error=None)
        error = self._refusal(type_) or self._failure(self.faults.create_errors, "create")
        if type_.provider_type in self.faults.impossible_types:
            error = error or CloudError(f"{type_.provider_type} cannot be created with this image")
        if error is not None:
            return Creation(machine=None, is_new=False, error=error)
        if self._falls(self.faults.false_alarms):
            doubt = AmbiguousResult("the answer to a create call was lost")
            return Creation(machine=None, is_new=False, error=doubt)
        machine = self._add(type_, tags, token, now)
        lost = self._falls(self.faults.lost_answers)
        doubt_ = AmbiguousResult("the answer to a create call was lost") if lost else None
        return Creation(machine=machine, is_new=True, error=doubt_)

    def listing(self, tags: Mapping[str, str], now: float) -> list[tuple[Machine, dict[str, str]]]:
        """Return the instances that a listing shows to carry all of `tags`, with their tags.

        Sorted by id; an instance may come twice. Raises a `CloudError` as the faults say.
        """
        error = self._throttled() or self._failure(self.faults.listing_errors, "listing")
        if error is not None:
            raise error
        shown: list[tuple[Machine, dict[str, str]]] = []
        for _, machine in sorted(self.machines.items()):
            if not self._shows(machine, now):
                continue
            seen = machine.shown_tags if now < machine.tags_shown_from else machine.tags
            if tags.items() <= seen.items():
                shown.append((machine, dict(seen)))
                if self._falls(self.faults.duplicates):
                    shown.append((machine, dict(seen)))
        return shown

    def find(self, instance_id: str, now: float) -> Existence:
        """Return what the cloud says of an instance by its id; raises a `CloudError` as told."""
        error = self._throttled() or self._failure(self.faults.listing_errors, "find")
        if error is not None:
            raise error
        return self.existence(instance_id, now)

    def existence(self, instance_id: str, now: float) -> Existence:
        """Return what the cloud says of an instance where nothing goes wrong with the call."""
        machine = self.machines.get(instance_id)
        if machine is None:
            return Existence.GONE if self._had(instance_id) else Existence.UNKNOWN
        if not self.parameters.finds or not self._shows(machine, now):
            return Existence.UNKNOWN
        return Existence.GONE if machine.ended else Existence.PRESENT

    def bills(self, instance_ids: Sequence[str], now: float) -> dict[str, Billed]:
        """Return what the cloud tells of the billing of instances, also of ended ones.

        On its clock; those that it does not know (any more) are left out. Raises a `CloudError` as
        the faults say.
        """
        error = self._throttled() or self._failure(self.faults.listing_errors, "bills")
        if error is not None:
            raise error
        return self.bills_of(instance_ids, now)

    def bills_of(self, instance_ids: Sequence[str], now: float) -> dict[str, Billed]:
        """Return what the cloud tells of these where nothing goes wrong with the call."""
        told: dict[str, Billed] = {}
        for instance_id in instance_ids:
            machine = self.machines.get(instance_id) or self._ended.get(instance_id)
            if machine is not None and self._shows(machine, now):
                told[instance_id] = self.billed(machine, now)
        return told

    def billed(self, machine: Machine, now: float) -> Billed:
        """Return what the cloud tells now of the billing of an instance, on its clock."""
        rule = self.parameters.billing
        gone = machine.ended_at if machine.ended else None
        leaves = machine.ending_from if machine.ending else gone
        until = leaves if rule.ends is BillingEnd.SHUTTING_DOWN else gone
        starts = machine.runs_from
        if rule.starts is BillingStart.REQUESTED:
            starts = machine.created_at
        begun: float | None = starts if starts <= now else None
        if leaves is not None and leaves <= starts:
            begun = until  # it never ran
        return Billed(
            billed_from=begun,
            billed_until=until,
            ended_by=machine.ended_by if until is not None else None,
            zone=machine.zone,
        )

    def _had(self, instance_id: str) -> bool:
        """Return whether an instance that is not there any more was one of this cloud's."""
        prefix, _, number = instance_id.rpartition("-")
        ours = prefix == f"i-sim-{self._name}" and number.isdecimal()
        return self.parameters.finds and ours and 0 < int(number) <= self._created

    @staticmethod
    def _shows(machine: Machine, now: float) -> bool:
        """Return whether whoever asks is told of an instance: not of one that is too new."""
        return now >= machine.created_at + machine.fate.listed_after_s

    def destroy(self, instance_id: str, now: float) -> bool:
        """Begin to end an instance; return whether it began now (twice is no error)."""
        error = self._throttled() or self._failure(self.faults.destroy_errors, "destroy")
        if error is not None:
            raise error
        machine = self.machines.get(instance_id)
        if machine is None or machine.ending or machine.ended:
            return False
        machine.ending = True
        machine.ending_from = now
        machine.ended_by = EndedBy.REQUEST
        self._schedule(now + self.parameters.destroy_delay_s, Happening.ENDED, machine)
        return True

    def set_tags(self, instance_id: str, tags: Mapping[str, str], now: float) -> None:
        """Set tags of an instance; listings may show the old ones for a while."""
        error = self._throttled() or self._failure(self.faults.tag_errors, "tags")
        if error is not None:
            raise error
        machine = self.machines.get(instance_id)
        if machine is None:
            raise InstanceNotFound(f"there is no instance {instance_id}")
        if now >= machine.tags_shown_from:
            # Else tags that are set again and again would never be shown.
            machine.shown_tags = dict(machine.tags)
            machine.tags_shown_from = now + self.faults.tag_lag_s * self._dice.random()
        machine.tags.update(tags)

    def end(self, machine: Machine, now: float, by: EndedBy = EndedBy.FAILURE) -> None:
        """End an instance as if its host had failed, it had powered itself off, or as `by` says."""
        self._schedule(now, Happening.ENDED, machine, by)

    # ---- what happens by itself ----------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when something happens next, None when nothing is to."""
        return self._due[0][0] if self._due else None

    def run_due(self, now: float) -> list[tuple[Happening, Machine]]:
        """Let happen what is due, and return it in order."""
        happened: list[tuple[Happening, Machine]] = []
        while self._due and self._due[0][0] <= now:
            due, _, happening, machine, by = heapq.heappop(self._due)
            if self._happen(happening, machine, due, by):
                happened.append((happening, machine))
        return happened

    def _happen(self, happening: Happening, machine: Machine, due: float, by: EndedBy) -> bool:
        """Carry out one happening; return whether it still concerned the instance.

        `by` is who ends it; whose end was asked for before is ended by that.
        """
        match happening:
            case Happening.BOOTED:
                if machine.ended or machine.ending:
                    return False
                machine.booted = True
            case Happening.BROKE | Happening.RECLAIM_NOTICE:
                return not machine.ended
            case Happening.ENDED:
                if machine.ended:
                    return False
                machine.ended = True
                machine.ended_at = due
                machine.ended_by = machine.ended_by or by
                lag_s = self.faults.gone_lag_s * self._dice.random()
                self._schedule(due + lag_s, Happening.FORGOTTEN, machine)
            case Happening.FORGOTTEN:
                del self.machines[machine.id]
                self._remember(machine)
        return True

    def _remember(self, machine: Machine) -> None:
        """Keep a token used, since a late call must not create the instance anew; not for ever.

        How it was billed is kept too.
        """
        self._gone_tokens.append(machine.token)
        if len(self._gone_tokens) > REMEMBERED_TOKENS:
            del self._by_token[self._gone_tokens.popleft()]
        self._ended[machine.id] = machine
        if len(self._ended) > REMEMBERED_BILLS:
            del self._ended[next(iter(self._ended))]

    def _schedule(
        self,
        due: float,
        happening: Happening,
        machine: Machine,
        by: EndedBy = EndedBy.FAILURE,
    ) -> None:
        self._scheduled += 1
        heapq.heappush(self._due, (due, self._scheduled, happening, machine, by))

    # ---- the dice ------------------------------------------------------------------------------

    def _falls(self, share: float) -> bool:
        return share > 0 and self._dice.random() < share

    def _throttled(self) -> CloudError | None:
        if not self._falls(self.faults.rate_limits):
            return None
        told = self.faults.retry_after_s or None
        return RateLimitError("the simulated cloud limits the rate of calls", retry_after_s=told)

    def _failure(self, share: float, call: str) -> CloudError | None:
        return (
            CloudError(f"a {call} call failed, as it was told to") if self._falls(share) else None
        )

    def _refusal(self, type_: InstanceType) -> CloudError | None:
        limits = self.limits
        if limits.quota and len(self.machines) >= limits.quota:
            return QuotaError(
                f"the quota of {limits.quota} instances is used up", scope=ErrorScope.ALL
            )
        market = market_of(self.group_of(type_), type_)
        most = limits.group_quotas.get(market)
        if most is not None and self._count_market(market) >= most:
            return QuotaError(f"the quota of {most} instances of {market} is used up")
        scope = limits.shortages.get(type_.provider_type)
        if scope is not None:
            return CapacityError(f"no {type_.provider_type} is available", scope=scope)
        room = limits.capacity.get(type_.provider_type)
        taken = sum(m.type.provider_type == type_.provider_type for m in self.machines.values())
        if room is not None and taken >= room:
            return CapacityError(f"there is no capacity for more than {room} of {type_.name}")
        return None

    def _count_market(self, market: str) -> int:
        return sum(
            market_of(self.group_of(m.type), m.type) == market for m in self.machines.values()
        )

    def _add(self, type_: InstanceType, tags: Mapping[str, str], token: str, now: float) -> Machine:
        self._created += 1
        dice = self._dice_of(self._created)
        thrown = self._fate(type_, dice)
        fate = self._destiny(self._created, type_, now, thrown)
        machine = Machine(
            id=f"i-sim-{self._name}-{self._created:05d}",
            token=token,
            type=type_,
            created_at=now,
            fate=fate,
            tags=dict(tags),
            shown_tags=self._first_tags(tags),
            tags_shown_from=now + fate.tagged_after_s,
            runs_from=now + self.parameters.pending_time_s,
            zone=self._any_zone(dice),
        )
        self.machines[machine.id] = self._by_token[token] = machine
        self._schedule_fate(machine)
        return machine

    def _schedule_fate(self, machine: Machine) -> None:
        fate, now = machine.fate, machine.created_at
        if fate.boots_after_s is not None:
            self._schedule(now + fate.boots_after_s, Happening.BOOTED, machine)
        if fate.breaks:
            self._schedule(now + fate.breaks_after_s, Happening.BROKE, machine)
        if fate.ends_after_s is not None:
            if fate.notice_s:
                at = now + max(0.0, fate.ends_after_s - fate.notice_s)
                self._schedule(at, Happening.RECLAIM_NOTICE, machine)
            by = EndedBy.RECLAIMED if fate.reclaimed else EndedBy.FAILURE
            self._schedule(now + fate.ends_after_s, Happening.ENDED, machine, by)

    def _any_zone(self, dice: Dice) -> str:
        zones = self.parameters.zones
        return zones[int(dice.random() * len(zones))] if zones else ""

    def _first_tags(self, tags: Mapping[str, str]) -> dict[str, str]:
        """Return what listings tell of a new instance's tags while they lag."""
        late = self.parameters.late_tags
        return {key: value for key, value in tags.items() if key not in late}

    def _fate(self, type_: InstanceType, dice: Dice) -> Fate:
        parameters, faults = self.parameters, self.faults
        boots_after_s = parameters.boot_time_s + dice.random() * parameters.boot_jitter_s
        slow, dead = dice.random() < faults.slow_boots, dice.random() < faults.dead_boots
        boots_after_s *= faults.slow_boot_factor if slow else 1.0
        vanishes, at = dice.random() < faults.vanishing, dice.random()
        reclaimed = type_.preemptible and dice.random() < faults.reclaims
        ends = vanishes or reclaimed
        return Fate(
            boots_after_s=None if dead else boots_after_s,
            ends_after_s=at * faults.longest_life_s if ends else None,
            notice_s=faults.reclaim_notice_s if reclaimed else 0.0,
            listed_after_s=dice.random() * faults.listing_lag_s,
            tagged_after_s=dice.random() * faults.tag_lag_s,
            has_runner=dice.random() >= faults.without_runner,
            breaks=dice.random() < faults.breaking,
            breaks_after_s=dice.random() * faults.longest_life_s,
            reclaimed=reclaimed,
        )
