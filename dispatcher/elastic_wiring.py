"""Makes the placer of elastic jobs from the parts of an engine."""

from __future__ import annotations

from dispatcher.elastic_cpus import SpareCpus
from dispatcher.elastic_deeds import Deeds
from dispatcher.elastic_market import Market
from dispatcher.elastic_placer import ElasticPlacer
from dispatcher.elastic_rooms import Rooms
from dispatcher.placers import Placers
from dispatcher.placing import Placing


def elastic_placer(placing: Placing, placers: Placers) -> ElasticPlacer:
    """Return what places elastic jobs, before the batch work that `placing` does."""
    pool, ledger = placing.pool, placing.ledger
    rooms = Rooms(
        pool=pool,
        ledger=ledger,
        placers=placers,
        fleet=lambda: placing.roster.fleet,
        reserved=placing.evictions.reserved,
    )
    deeds = Deeds(
        pool=pool,
        ledger=ledger,
        rooms=rooms,
        rules=placing.rules,
        most_placed=placing.concurrency.limit,
    )
    return ElasticPlacer(
        pool=pool,
        ledger=ledger,
        settings=placing.settings,
        placers=placers,
        rules=placing.rules,
        rooms=rooms,
        deeds=deeds,
        market=Market(
            pool=pool,
            ledger=ledger,
            settings=placing.settings,
            spend=placing.spend,
            fleet=lambda: placing.roster.fleet,
        ),
        cpus=SpareCpus(pool, ledger, placers),
    )
