"""What a driver tells of billing: the cloud's rule, and of an instance from when until when.

A cloud that bills by its own clock is believed before what we saw: an instance may have ended while
no dispatcher ran, and have been billed before it was first listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Protocol, runtime_checkable


class BillingStart(Enum):
    """What begins the billing of an instance."""

    REQUESTED = "requested"
    """That the cloud has accepted to create it."""
    RUNNING = "running"
    """That it runs: what it needs to come up costs nothing."""


class BillingEnd(Enum):
    """What ends the billing of an instance."""

    SHUTTING_DOWN = "shutting-down"
    """That the cloud has accepted to end it, or has begun to by itself."""
    TERMINATED = "terminated"
    """That it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingRule:
    """How a cloud bills an instance, by its own text; the same for all types."""

    starts: BillingStart = BillingStart.RUNNING
    ends: BillingEnd = BillingEnd.SHUTTING_DOWN
    #: Billed time is rounded up to whole units of this, and it is at least so long.
    unit_s: int = 1
    minimum_s: int = 0
    #: What an instance costs at least in USD, however short it is.
    minimum_amount_usd: Decimal = Decimal(0)
    #: A preemptible instance that the cloud takes back before it has been billed for so long is
    #: free; 0 for none.
    free_if_reclaimed_within_s: int = 0


AS_USED = BillingRule()
"""What is assumed of a cloud that does not tell how it bills: by the second, while it runs."""


class EndedBy(Enum):
    """Who ended an instance, as far as the cloud tells."""

    REQUEST = "request"
    """Somebody asked the cloud to: we, or another with the account."""
    ITSELF = "itself"
    """It was powered off from inside."""
    RECLAIMED = "reclaimed"
    """The cloud took it back, since it was preemptible."""
    FAILURE = "failure"
    """The cloud could not make it or keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """What a cloud tells of the billing of one instance; times in seconds since the epoch.

    A time is told where the cloud knows it, by the rule, and not before it has come: `billed_from`
    of an instance whose billing has begun, `billed_until` of one whose billing has ended. Where a
    cloud tells it only roughly, the other end of what it may be goes with it. Of one that ended
    before its billing began both are its end: nothing was billed, and no minimum.
    """

    #: None where it is not told, or has not come.
    billed_from: float | None = None
    #: How much later it may have begun.
    from_slack_s: float = 0.0
    billed_until: float | None = None
    #: How much later it may have ended.
    until_slack_s: float = 0.0
    #: None while it has not ended, and where that is not told.
    ended_by: EndedBy | None = None
    #: Where it is, as prices depend on it ("eu-central-1a"), "" where that is not told.
    zone: str = ""

    def later_by(self, seconds: float) -> Billed:
        """Return it with all times later by so much: told on another clock."""
        begun, ended = self.billed_from, self.billed_until
        return replace(
            self,
            billed_from=None if begun is None else begun + seconds,
            billed_until=None if ended is None else ended + seconds,
        )

    def once_told(self, more: Billed) -> Billed:
        """Return what is known once the cloud has told `more` of the same instance.

        What was told is never forgotten. Of two words on one time the narrower counts, else the
        first: a cloud may date an instance anew that was stopped and started, and it was billed
        before.
        """
        begun, begun_slack_s = _narrower(
            (self.billed_from, self.from_slack_s), (more.billed_from, more.from_slack_s)
        )
        ended, ended_slack_s = _narrower(
            (self.billed_until, self.until_slack_s), (more.billed_until, more.until_slack_s)
        )
        return Billed(
            billed_from=begun,
            from_slack_s=begun_slack_s,
            billed_until=ended,
            until_slack_s=ended_slack_s,
            ended_by=self.ended_by or more.ended_by,
            zone=self.zone or more.zone,
        )


def _narrower(
    known: tuple[float | None, float], more: tuple[float | None, float]
) -> tuple[float | None, float]:
    if known[0] is None or (more[0] is not None and more[1] < known[1]):
        return more
    return known


NOTHING_BILLED = Billed()
"""What is known of the billing of an instance whose cloud tells nothing."""


@runtime_checkable
class Bills(Protocol):
    """What an instance set has beside the rest when its cloud tells how instances are billed."""

    def billing_rule(self) -> BillingRule:
        """Return how the cloud bills; called once, at start."""
        ...

    def bills(self, instance_ids: Sequence[str]) -> Mapping[str, Billed]:
        """Return what the cloud knows of the billing of these instances, by id, also when ended.

        Those of which it knows nothing (any more) are left out. Asked once an instance has ended,
        for many at a time, and again for a while where the end is not told yet. Raises any
        `CloudError`.
        """
        ...


@runtime_checkable
class TellsBilling(Protocol):
    """What an instance has beside the rest when its cloud tells that with a listing."""

    @property
    def billed(self) -> Billed:
        """Return what was known of its billing when it was listed."""
        ...
