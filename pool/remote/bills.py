"""What a driver tells of billing, made fit to be kept: a plug-in may tell anything.

Stands alone: what is believed of it is decided here, and driver calls are made in `cloud_calls`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from longshore.drivers.billing import NOTHING_BILLED, Billed, Bills, TellsBilling
from longshore.drivers.interface import Instance, InstanceSet

LONGEST_ZONE = 64


def billed_as_listed(instance: Instance) -> Billed:
    """Return what an instance tells of its billing with a listing; nothing where it cannot."""
    return _fit(instance.billed) if isinstance(instance, TellsBilling) else NOTHING_BILLED


def bills_of(driver: InstanceSet, instance_ids: Sequence[str]) -> tuple[tuple[str, Billed], ...]:
    """Return what a driver tells of these when it is asked, and of no others, sorted by id.

    Raises what the driver does.
    """
    if not isinstance(driver, Bills):
        return ()
    told = driver.bills(instance_ids)
    return tuple((id_, _fit(told[id_])) for id_ in sorted(set(instance_ids) & told.keys()))


def _fit(billed: Billed) -> Billed:
    """Return it with a time that is none taken as not told, and the zone as a short word."""
    begun, ended = _time(billed.billed_from), _time(billed.billed_until)
    return Billed(
        billed_from=begun,
        from_slack_s=_slack_s(billed.from_slack_s),
        billed_until=ended if ended is None or begun is None else max(begun, ended),
        until_slack_s=_slack_s(billed.until_slack_s),
        ended_by=billed.ended_by,
        zone=" ".join(billed.zone.split())[:LONGEST_ZONE],
    )


def _time(told: float | None) -> float | None:
    return told if told is not None and math.isfinite(told) and told > 0 else None


def _slack_s(told: float) -> float:
    return told if math.isfinite(told) and told > 0 else 0.0
