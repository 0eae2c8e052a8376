"""How EC2 bills an instance, and what its description tells of that; pure.

Stands alone: it is part of the pure core, and what asks EC2 is not.

By AWS' own text an instance is billed by the second, for at least a minute, from when it enters
`running` until it enters `shutting-down`; a spot instance that EC2 takes back in its first hour is
free, and so is one that fails at launch. What a description tells of that is rough at one end:

- `LaunchTime` is when it was launched, and it runs some seconds later. So the beginning is told as
  `LaunchTime` with how much later it may have been: until the answer that shows it, but five
  minutes at most, since nobody knows what passed before the first. Whoever keeps the narrowest of
  what he was told has it to within a listing.
- Where somebody or the service ended it, `StateTransitionReason` has when, to the second: "User
  initiated (2026-11-28 12:00:00 GMT)". What ends by itself has no such time: its end is not told.
- `stopped` is not billed, but may go on, with a new `LaunchTime`: so nothing is told of its end.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from typing import Any, Final

from longshore.drivers.billing import Billed, BillingRule, EndedBy
from longshore.drivers.ec2.conditions import state_of

RULE: Final = BillingRule(minimum_s=60, free_if_reclaimed_within_s=3600)

LONGEST_PENDING_S = 300.0
"""How long an instance is taken to have been pending at most that was first seen later."""

_OVER = ("shutting-down", "terminated")
_TIME = re.compile(r"\((\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) (?:GMT|UTC)\)")
_USER = "User initiated"
_ENDED_BY: Final = {
    "Client.UserInitiatedShutdown": EndedBy.REQUEST,
    "Client.InstanceInitiatedShutdown": EndedBy.ITSELF,
    "Server.SpotInstanceTermination": EndedBy.RECLAIMED,
    "Server.SpotInstanceShutdown": EndedBy.RECLAIMED,
}
_AT_LAUNCH: Final = frozenset(
    {
        "Client.InternalError",
        "Client.InvalidSnapshot.NotFound",
        "Client.VolumeLimitExceeded",
        "Server.InsufficientInstanceCapacity",
        "Server.InternalError",
    }
)
"""The codes of what never ran."""


def billed_of(described: Mapping[str, Any], told_at: float | None) -> Billed:
    """Return what the description of an instance tells of its billing.

    `told_at` is EC2's time in the answer, in seconds since the epoch, None where it says none.
    """
    zone = str(described.get("Placement", {}).get("AvailabilityZone", ""))
    state, launched = state_of(described), described.get("LaunchTime")
    if launched is None or state == "pending":
        return Billed(zone=zone)
    begun = float(launched.timestamp())
    over = state in _OVER
    ended = _ended_at(described, begun) if over else None
    code = str(described.get("StateReason", {}).get("Code", ""))
    if over and code in _AT_LAUNCH:
        return _never_ran(begun if ended is None else ended, zone)
    known_by = ended if ended is not None else told_at
    slack_s = LONGEST_PENDING_S if known_by is None else min(known_by - begun, LONGEST_PENDING_S)
    return Billed(
        billed_from=begun,
        from_slack_s=max(0.0, slack_s),
        billed_until=ended,
        ended_by=_ended_by(code, described) if over else None,
        zone=zone,
    )


def _never_ran(at: float, zone: str) -> Billed:
    return Billed(billed_from=at, billed_until=at, ended_by=EndedBy.FAILURE, zone=zone)


def _ended_at(described: Mapping[str, Any], begun: float) -> float | None:
    found = _TIME.search(str(described.get("StateTransitionReason", "")))
    if found is None:
        return None
    return max(begun, float(calendar.timegm(tuple(map(int, found.groups())))))


def _ended_by(code: str, described: Mapping[str, Any]) -> EndedBy | None:
    if not code:
        said = str(described.get("StateTransitionReason", ""))
        return EndedBy.REQUEST if said.startswith(_USER) else None
    return _ENDED_BY.get(code, EndedBy.FAILURE)
