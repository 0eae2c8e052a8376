"""A notification on its way: what is sent, how it is signed, and when it is tried again; pure.

It is sent as Standard Webhooks have it: its id is the same at each try, so that who has taken it
already knows; the time of the try and the signature are new. A try has failed unless the answer is
2xx. Then it is made again after a pause that doubles, and a part of it by chance, so that not all
come at once to who has just come back; for a day, and then it is given up. A receiver that says
that it is gone for good (410) is not asked again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import msgspec

from longshore.dispatcher.cost.anomalies import UnusualDay
from longshore.dispatcher.cost.budgets import BudgetNotice
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.domain.timefmt import moment
from longshore.pool.backoff import doubled_s

JITTER: Final = 0.25
"""By how much of itself a pause is longer at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One thing to be told, to whoever is told anything."""

    #: Of letters, digits, `_` and `-`; the same for the same thing.
    id: str
    #: The JSON that is sent, as it is signed.
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notification for one receiver; what a restart needs to go on. Times since the epoch."""

    notification: Notification
    #: The name of the webhook.
    webhook: str
    queued_at: float
    tries: int = 0
    next_try_at: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """Return what no other delivery has."""
        return self.webhook, self.notification.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long tries pause, and when they end."""

    first_s: float = 10.0
    most_s: float = 3600.0
    given_up_after_s: float = 86_400.0


class TryOutcome(Enum):
    """What became of a try."""

    TAKEN = "taken"
    FAILED = "failed"
    #: The receiver said that it is gone for good.
    GONE = "gone"


def notification_of_budget(notice: BudgetNotice, at: float) -> Notification:
    """Return what is sent of a budget; `at` is when it came to that, since the epoch."""
    data = {
        "budget": notice.budget,
        "period": notice.period,
        "percent": notice.percent or None,
        "limit_usd": _told_usd(notice.limit_grains),
        "spent_usd": _told_usd(notice.spent_grains),
        "committed_usd": _told_usd(notice.committed_grains),
        "message": notice.sentence,
    }
    return Notification(id=notice.key, body=_body(f"budget.{notice.kind.value}", at, data))


def notification_of_day(day: UnusualDay, at: float) -> Notification:
    """Return what is sent of an unusual day; `at` is when it was found, since the epoch."""
    data = {
        "project": day.project,
        "day": day.day,
        "spent_usd": _told_usd(day.spent_grains),
        "usual_usd": _told_usd(day.usual_grains),
        "message": day.sentence,
    }
    # Names of projects have characters that an id may not have.
    whose = hashlib.sha256(day.project.encode()).hexdigest()[:16]
    return Notification(
        id=f"unusual-day_{day.day}_{whose}", body=_body("spending.unusual_day", at, data)
    )


def deliveries_of(
    notification: Notification, webhooks: Iterable[str], now: float
) -> tuple[Delivery, ...]:
    """Return what is to be stored and sent, for each webhook by its name."""
    return tuple(
        Delivery(notification=notification, webhook=name, queued_at=now, next_try_at=now)
        for name in sorted(webhooks)
    )


def after_try(
    delivery: Delivery, outcome: TryOutcome, now: float, *, chance: float, pace: Pace
) -> Delivery | None:
    """Return the delivery as it is to be tried again, None for not at all.

    `chance` is from 0 to 1, and new each time.
    """
    if outcome is not TryOutcome.FAILED:
        return None
    pause_s = doubled_s(pace.first_s, delivery.tries, pace.most_s) * (1 + JITTER * chance)
    if now + pause_s > delivery.queued_at + pace.given_up_after_s:
        return None
    return replace(delivery, tries=delivery.tries + 1, next_try_at=now + pause_s)


def outcome_of(status: int) -> TryOutcome:
    """Return what an HTTP status says of a try."""
    if 200 <= status < 300:
        return TryOutcome.TAKEN
    return TryOutcome.GONE if status == 410 else TryOutcome.FAILED


def headers_of(notification: Notification, key: bytes, now: float) -> dict[str, str]:
    """Return the headers of a try: those of Standard Webhooks, and what the body is."""
    signed = b".".join((notification.id.encode(), str(int(now)).encode(), notification.body))
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {
        "Content-Type": "application/json",
        "User-Agent": "longshore",
        "webhook-id": notification.id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": f"v1,{signature}",
    }


def _body(kind: str, at: float, data: Mapping[str, str | int | None]) -> bytes:
    return msgspec.json.encode({"type": kind, "timestamp": moment(at), "data": data})


def _told_usd(grains: int) -> str:
    """Return an amount exactly, as a decimal without an exponent."""
    return f"{in_dollars(grains):f}"
