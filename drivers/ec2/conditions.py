"""How an instance stands, and why, as EC2 describes it; pure.

Stands alone: it is part of the pure core, and the instance set that asks it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longshore.drivers.interface import Condition, Power

_POWERS = {
    "stopping": Power.STOPPING,
    "stopped": Power.STOPPED,
    "shutting-down": Power.ENDING,
    "terminated": Power.ENDING,
}
_REMEDIES = {
    "Client.InternalError": "mostly a KMS key of a volume or image that is disabled, or that this"
    " account may not use",
    "Client.InvalidKMSKey.InvalidState": "enable the KMS key of its volumes, or take another",
    "Client.VolumeLimitExceeded": "ask AWS for a higher limit of volumes",
    "Server.InsufficientInstanceCapacity": "allow other instance types or zones",
}
"""What AWS' own pages say of codes that say little."""


def state_of(described: Mapping[str, Any]) -> str:
    """Return EC2's name of the state, "" where none is told."""
    return str(described.get("State", {}).get("Name", ""))


def condition_of(described: Mapping[str, Any]) -> Condition:
    """Return how an instance stands; what it runs for is not told."""
    power = _POWERS.get(state_of(described), Power.ON)
    return Condition(power=power, reason="" if power is Power.ON else reason_of(described))


def reason_of(described: Mapping[str, Any]) -> str:
    """Return why an instance has stopped, or ended, or is about to, "" where that is not told."""
    told = described.get("StateReason", {})
    code, message = str(told.get("Code", "")), str(told.get("Message", ""))
    # Where there is no such reason, this has at least who did it, and when.
    said = message or code or str(described.get("StateTransitionReason", ""))
    if code and not said.startswith(code):
        said = f"{code}: {said}"
    remedy = _REMEDIES.get(code, "")
    return f"{said}; {remedy}" if remedy else said
