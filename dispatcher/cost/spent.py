"""What attempts have cost up to now: their own lines, reckoned from the facts; pure."""

from __future__ import annotations

from collections.abc import Collection

from longshore.dispatcher.cost.rollups import lines_between
from longshore.dispatcher.domain.ledger import MS_PER_HOUR
from longshore.dispatcher.domain.queries import LedgerFacts


def direct_grains(facts: LedgerFacts, attempts: Collection[str], *, now_ms: int) -> dict[str, int]:
    """Return what attempts cost up to now, in grains, by their ids: 0 for what has no line.

    `facts` are all of the instances on which they had their places, for as long as they had them.
    """
    found = dict.fromkeys(sorted(attempts), 0)
    began_ms = [each.from_ms for each in facts.intervals if each.holder in found]
    if not began_ms:
        return found
    first, until = min(began_ms) // MS_PER_HOUR, now_ms // MS_PER_HOUR + 1
    for line in lines_between(facts, from_hour=first, until_hour=until, now_ms=now_ms):
        if line.attempt_id in found:
            found[line.attempt_id] += line.grains
    return found
