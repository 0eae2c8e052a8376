"""What a driver tells of billing, made fit to be kept: a plug-in may tell anything.

Stands alone: what is believed of it is decided here, and driver calls are made in `cloud_calls`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from longshore.drivers.billing import NOTHING_BILLED, Billed, Bills, TellsBilling
from longshore.drivers.interface import Instance, InstanceSet

LONGEST_ZONE = 64
OLDEST_S: Final = 800 * 86_400.0
"""How long ago the billing of an instance can have begun: the ledger reckons all hours since."""
_MOST_REFUSED: Final = 1_000
"""Of how many instances it is remembered that a word was refused, to log it once."""

_log = structlog.get_logger(__name__)


class BillWords:
    """Takes in what a driver tells of billing; used on any thread."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._refused: set[str] = set()

    def as_listed(self, instance: Instance) -> Billed:
        """Return what an instance tells of its billing with a listing; nothing where it cannot."""
        if not isinstance(instance, TellsBilling):
            return NOTHING_BILLED
        return self._believed(instance.id, instance.billed)

    def asked(
        self, driver: InstanceSet, instance_ids: Sequence[str]
    ) -> tuple[tuple[str, Billed], ...]:
        """Return what a driver tells of these when it is asked, and of no others, sorted by id.

        Raises what the driver does.
        """
        if not isinstance(driver, Bills):
            return ()
        told = driver.bills(instance_ids)
        known = sorted(set(instance_ids) & told.keys())
        return tuple((id_, self._believed(id_, told[id_])) for id_ in known)

    def _believed(self, instance_id: str, told: Billed) -> Billed:
        billed = _fit(told)
        begun = billed.billed_from
        if begun is None or begun >= self._now() - OLDEST_S:
            return billed
        if instance_id not in self._refused and len(self._refused) < _MOST_REFUSED:
            self._refused.add(instance_id)
            _log.warning(
                "the driver says that an instance is billed since so long ago that it is not"
                " believed: set the driver right",
                instance=instance_id,
                billed_from=begun,
            )
        return replace(billed, billed_from=None, from_slack_s=0.0)


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
