"""The words of the ledger: what was seen of an instance, and the lines that follow; pure.

Two kinds of intervals are written while things happen, each with its beginning and, once it is
over, its end: what an instance was (its states follow each other without a gap), and from when
until when an attempt had its place there. Beside them stands one record an instance: what it is,
for whom it was bought, and what its cloud tells of its billing. All that is told of money is
reckoned from these, so that a late word of the cloud changes no interval, only what follows.

A line is about one instance, one UTC hour, and one attempt or cause. The lines of an instance are
all of its billed time, and no more: their quantities add up to what the cloud bills, in whole
milliseconds (COST of the design). Everything that is told of money is a sum of lines.

Times are whole milliseconds since the epoch, and spans are half-open.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any

from longshore.drivers.billing import NOTHING_BILLED, Billed, BillingRule

MS_PER_HOUR = 3_600_000

OF_INSTANCE = ""
"""The holder of an interval that tells what an instance was."""

_LAUNCH = "launch "


def launch_id(token: str) -> str:
    """Return as what a launch stands in the ledger while nobody knows whether it made an instance.

    No instance is called so: an id of a cloud has no spaces.
    """
    return _LAUNCH + token


def ms_of(at: float) -> int:
    """Return a time in seconds as whole milliseconds, rounded to the nearest."""
    return round(at * 1000)


class BilledState(Enum):
    """What an instance is at an instant at which it is billed: exactly one of these."""

    PENDING = "pending"
    """It was asked for, and does not run yet."""
    BOOTING = "booting"
    """It runs, and was not ready yet for the first time."""
    WORK = "work"
    """What attempts keep of it for themselves."""
    ROOM = "room"
    """The rest of it, while attempts keep a part."""
    EMPTY = "empty"
    HELD = "held"
    """It is empty, since an admin holds it."""
    DRAINING = "draining"
    """It is empty and on its way to its end, which was not asked for yet."""
    UNREACHABLE = "unreachable"
    """It is empty, and has no session, though it had one."""
    UNWANTED = "unwanted"
    """Its end was asked for, or it is none that we know, and it is there."""
    MINIMUM = "minimum"
    """It was gone: what the cloud bills at least, or up to its next whole unit."""
    UNUSED = "unused"
    """It is none: what is prepaid of a type, and not run."""


class CostOutcome(Enum):
    """What came of a line's time."""

    USEFUL = "useful"
    """The attempt succeeded; or the time served those that ran there."""
    LOST_FAILED = "lost:failed"
    LOST_LOST = "lost:lost"
    LOST_PREEMPTED = "lost:preempted"
    LOST_CANCELLED = "lost:cancelled"
    FAILED_BOOT = "failed_boot"
    """The instance was of no use before any attempt ran there."""
    NEVER_USED = "never_used"
    """The instance was ready, and nothing ran there to its end."""
    OPEN = "open"
    """Nobody knows yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom a line is booked to; "" for what is nobody's."""

    project: str = ""
    user: str = ""
    #: The job's name, or of a container of its own, the container's.
    job_name: str = ""
    job_id: str = ""
    #: The part of the job, and the element of its array, None where it is no array.
    task: str = ""
    array_index: int | None = None
    container_id: str = ""
    #: As at submission: (key, value) pairs sorted by key.
    labels: tuple[tuple[str, str], ...] = ()


CLUSTER = Account()
"""Whom that is booked to which is nobody's in particular."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A span in which an instance was something, or an attempt had its place there."""

    instance_id: str
    #: The id of the attempt, `OF_INSTANCE` for what the instance was.
    holder: str
    from_ms: int
    #: None while it goes on.
    until_ms: int | None = None
    #: What the instance was beside what attempts keep of it; of attempts `WORK`.
    state: BilledState
    #: What an attempt keeps from others: its share of the allocatable; of an instance 1.
    share: Fraction = Fraction(1)
    #: Whom it is booked to: of an attempt its container's, of a hold who asked for it.
    account: Account = CLUSTER
    #: Why an attempt is not its user's expense ("daemon", "leak"), "" where it is.
    cause: str = ""
    #: Of an attempt; of an instance `OPEN`, since that follows from the whole of it.
    outcome: CostOutcome = CostOutcome.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceBill:
    """What is kept of one instance to reckon its bill by."""

    instance_id: str
    #: Our name of its type, and the cloud's.
    type_name: str
    provider_type: str
    preemptible: bool
    #: What the configuration said that it costs when it was bought.
    nusd_per_hour: int
    #: For whom it was bought.
    payer: Account
    #: When the create call was sent, or it was first seen; where its cloud bills it since earlier,
    #: that.
    created_ms: int
    #: How its cloud bills.
    rule: BillingRule
    #: What its cloud has told of its billing.
    billed: Billed = NOTHING_BILLED
    #: When it was first seen to be more than asked for, to be ready, and to have an attempt; when
    #: its end was first asked for. None while it was not.
    running_ms: int | None = None
    ready_ms: int | None = None
    used_ms: int | None = None
    unwanted_ms: int | None = None
    #: When it was last known to be there, None while the latest listing shows it or it is heard of,
    #: and when it was known to be gone, where its cloud bills it for longer the end of that, None
    #: while it counts as there.
    seen_ms: int | None = None
    gone_ms: int | None = None
    #: Whether the cloud has told all that it will.
    final: bool = False

    @property
    def is_launch(self) -> bool:
        """Return whether it is of a launch of which nobody knows whether it made an instance."""
        return self.instance_id.startswith(_LAUNCH)


class Column(Enum):
    """How a line is charged."""

    DIRECT = "direct"
    """An attempt's share of its instance."""
    CAUSED = "caused"
    """What an instance cost before it was of use, to whom it was bought for."""
    SHARED = "shared"
    """All else: empty time, room, holds, daemons, leaks."""


class PriceSource(Enum):
    """Where a price is from, the best first."""

    BILL = "bill"
    HISTORY = "history"
    DRIVER = "driver"
    CONFIG = "config"
    PREPAID = "prepaid"
    """Any of these, of what is paid for whether it runs or not."""
    NONE = "none"
    """Nobody knows it: the amount is 0, and an alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPrice:
    """What an hour of an instance costs at a time."""

    nusd_per_hour: int
    source: PriceSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """What an hour of a type costs in a zone, from a time on."""

    type_name: str
    #: "" for all zones.
    zone: str
    #: In milliseconds since the epoch.
    valid_from_ms: int
    price: UnitPrice


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepaidRow:
    """How many instances of a type are paid for whether they run or not, from a time on."""

    #: Our name of the type, and the cloud's.
    type_name: str
    provider_type: str
    #: In milliseconds since the epoch.
    valid_from_ms: int
    #: 0 ends it.
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """A part of one hour of one instance, or of what is prepaid and not run."""

    #: Whole hours since the epoch, UTC; the line is about [hour, hour + 1).
    hour: int
    #: "" for what is prepaid and not run.
    instance_id: str
    #: Our name of the type, and the cloud's.
    type_name: str
    provider_type: str
    preemptible: bool
    #: Where it is, "" where that is not told.
    zone: str
    state: BilledState
    #: Of `WORK` alone, else "".
    attempt_id: str
    account: Account
    column: Column
    #: Why it is charged so, in a few words of a fixed set ("boot", "empty", "held", "daemon").
    cause: str
    outcome: CostOutcome
    #: Instance time: an attempt with half of an instance for an hour has 1,800,000.
    quantity_ms: int
    #: How much of that may not have been billed, or may have been billed beside it.
    uncertain_ms: int
    price: UnitPrice
    #: What is billed beside time, in grains: what an instance costs at least.
    flat_grains: int = 0

    @property
    def grains(self) -> int:
        """Return what it costs, in grains (see `dispatcher.cost.money`)."""
        return self.quantity_ms * self.price.nusd_per_hour + self.flat_grains


@dataclass(frozen=True, slots=True, kw_only=True)
class CostGroup:
    """What the lines have in common that are added up in a rollup."""

    project: str
    user: str
    job_name: str
    #: Those that are dimensions: (key, value) pairs sorted by key.
    labels: tuple[tuple[str, str], ...]
    type_name: str
    preemptible: bool
    zone: str
    state: BilledState
    column: Column
    cause: str
    outcome: CostOutcome
    price_source: PriceSource

    def but_for(self, needed: Collection[str]) -> CostGroup:
        """Return it with nothing in those fields that can be left out and are not `needed`."""
        left_out: dict[str, Any] = {n: v for n, v in _NOTHING_IN.items() if n not in needed}
        return replace(self, **left_out)


_NOTHING_IN = {
    "project": "",
    "user": "",
    "job_name": "",
    "labels": (),
    "type_name": "",
    "preemptible": False,
    "zone": "",
    "cause": "",
}
GROUP_FIELDS = frozenset(_NOTHING_IN)
"""The fields of a group that may be left out of a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum of lines: their time, what they cost, and how much of that is uncertain, in grains."""

    quantity_ms: int = 0
    grains: int = 0
    uncertain_grains: int = 0

    def plus(self, other: Total) -> Total:
        """Return the sum."""
        return Total(
            quantity_ms=self.quantity_ms + other.quantity_ms,
            grains=self.grains + other.grains,
            uncertain_grains=self.uncertain_grains + other.uncertain_grains,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedCorrection:
    """What was booked beside the lines, since a bill says something else; it never changes."""

    #: Hours since the epoch, UTC: when it was booked, and what it is about.
    booked_hour: int
    about_hour: int
    instance_id: str
    group: CostGroup
    #: By how much time and cost change, in milliseconds of instance time and in grains.
    quantity_ms: int
    grains: int
    #: Why, in a few words of a fixed set ("time", "price", "only in the bill").
    reason: str
    made_by: str
    #: In seconds since the epoch.
    made_at: float
    #: The bill: the file's name and the SHA-256 of its content.
    file_name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedHour:
    """The rollup of one UTC hour: all of its lines, added up by group."""

    hour: int
    #: Sorted by group.
    totals: tuple[tuple[CostGroup, Total], ...]
    #: How often something was noted to have changed in it when it was reckoned.
    marks: int
    #: What containers cost in all whose last attempt ended in it, by id, in grains.
    containers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedMonth:
    """What a month of UTC came to, for good; `sha256` is that of all of its sums."""

    #: As "2026-10".
    month: str
    #: The hour since the epoch at which it ended.
    until_hour: int
    quantity_ms: int
    grains: int
    sha256: str
