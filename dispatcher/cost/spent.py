"""What attempts and instances have cost up to now: their own lines, from the facts; pure.

Stands alone: rollups add up by group, and have neither attempts nor instances.
"""

from __future__ import annotations

from collections.abc import Collection

from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.rollups import lines_between
from longshore.dispatcher.cost.tiling import lines_of
from longshore.dispatcher.domain.ledger import MS_PER_HOUR, InstanceBill, Total
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


def cost_since(bill: InstanceBill, prices: PriceBook, *, since_ms: int, now_ms: int) -> Total:
    """Return what an instance costs from a time up to now, whoever pays; or a launch in doubt.

    Times are in milliseconds since the epoch. What had its place there does not matter: the lines
    of an instance are all of its billed time.
    """
    until_ms = max(since_ms, now_ms) + MS_PER_HOUR
    total = Total()
    for line in lines_of(bill, (), prices, from_ms=since_ms, until_ms=until_ms, now_ms=now_ms):
        uncertain_grains = line.uncertain_ms * line.price.nusd_per_hour
        total = total.plus(
            Total(
                quantity_ms=line.quantity_ms,
                grains=line.grains,
                uncertain_grains=uncertain_grains,
            )
        )
    return total
