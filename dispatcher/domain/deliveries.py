"""Notifications on their way, as they are kept until somebody has taken them."""

from __future__ import annotations

from dataclasses import dataclass


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
