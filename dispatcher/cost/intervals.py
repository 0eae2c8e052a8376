"""What was seen of an instance: the facts that lines are reckoned from; pure.

Two kinds of intervals are written while things happen, each with its beginning and, once it is
over, its end: what an instance was (its states follow each other without a gap), and from when
until when an attempt had its place there. Beside them stands one record an instance: what it is,
for whom it was bought, and what its cloud tells of its billing. All that is told of money is
reckoned from these, so that a late word of the cloud changes no interval, only what follows.

Times are whole milliseconds since the epoch, and spans are half-open.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from longshore.dispatcher.cost.lines import CLUSTER, Account, BilledState, Outcome
from longshore.drivers.billing import NOTHING_BILLED, Billed, BillingRule

OF_INSTANCE = ""
"""The holder of an interval that tells what an instance was."""


def ms_of(at: float) -> int:
    """Return a time in seconds as whole milliseconds, rounded to the nearest."""
    return round(at * 1000)


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
    outcome: Outcome = Outcome.OPEN


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
    #: When the create call was sent, or it was first seen.
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
    #: When it was last known to be there, and known to be gone; None while it is there.
    seen_ms: int | None = None
    gone_ms: int | None = None
    #: Whether the cloud has told all that it will.
    final: bool = False
