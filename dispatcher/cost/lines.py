"""The lines of the ledger: who pays for which time of an instance, and why; pure.

A line is about one instance, one UTC hour, and one attempt or cause. The lines of an instance are
all of its billed time, and no more: their quantities add up to what the cloud bills, in whole
milliseconds (COST of the design). Everything that is told of money is a sum of lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MS_PER_HOUR = 3_600_000


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


class Column(Enum):
    """How a line is charged."""

    DIRECT = "direct"
    """An attempt's share of its instance."""
    CAUSED = "caused"
    """What an instance cost before it was of use, to whom it was bought for."""
    SHARED = "shared"
    """All else: empty time, room, holds, daemons, leaks."""


class Outcome(Enum):
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


class PriceSource(Enum):
    """Where a price is from, the best first."""

    BILL = "bill"
    HISTORY = "history"
    DRIVER = "driver"
    CONFIG = "config"
    NONE = "none"
    """Nobody knows it: the amount is 0, and an alert."""


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
class Price:
    """What an hour of an instance costs at a time."""

    nusd_per_hour: int
    source: PriceSource


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """A part of one hour of one instance."""

    #: Whole hours since the epoch, UTC; the line is about [hour, hour + 1).
    hour: int
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
    outcome: Outcome
    #: Instance time: an attempt with half of an instance for an hour has 1,800,000.
    quantity_ms: int
    #: How much of that may not have been billed, or may have been billed beside it.
    uncertain_ms: int
    price: Price

    @property
    def grains(self) -> int:
        """Return what it costs, in grains (`money`)."""
        return self.quantity_ms * self.price.nusd_per_hour
