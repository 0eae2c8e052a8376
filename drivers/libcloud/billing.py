"""What a node tells of its billing: when it was made, where its cloud says that, and its zone.

Stands alone: each provider says for itself what its cloud tells, and reads it with this.

No cloud tells through Libcloud when the billing of a node ended, so that this is no capability.
"""

from __future__ import annotations

from datetime import datetime

from longshore.drivers.billing import Billed

LONGEST_PENDING_S = 300.0
"""How long a node is taken to have been coming up at most, where it is not billed for that."""


def since_made(made: datetime | None, *, slack_s: float, zone: str) -> Billed:
    """Return what is known of a node that was made then, and billed from up to `slack_s` later.

    `made` None, or without an offset from UTC, is a time that nobody knows.
    """
    if made is None or made.tzinfo is None:
        return Billed(zone=zone)
    return Billed(billed_from=made.timestamp(), from_slack_s=slack_s, zone=zone)


def read_time(told: object) -> datetime | None:
    """Return a time as clouds write it (ISO 8601), None where it is none."""
    try:
        return datetime.fromisoformat(told) if isinstance(told, str) else None
    except ValueError:
        return None
