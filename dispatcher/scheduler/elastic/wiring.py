"""Makes the placer of elastic jobs from the parts of an engine."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.scheduler.batch.scheduling_pass import Placing
from longshore.dispatcher.scheduler.elastic.apply import Deeds
from longshore.dispatcher.scheduler.elastic.capacity import Rooms
from longshore.dispatcher.scheduler.elastic.controller import ElasticPlacer
from longshore.dispatcher.scheduler.elastic.cpu_shares import SpareCpus
from longshore.dispatcher.scheduler.elastic.purchase import Market
from longshore.dispatcher.scheduler.placement.fleet_sync import slot_of
from longshore.dispatcher.scheduler.placement.workload import Placers
from longshore.drivers.interface import Resources
from longshore.pool.model import Worker


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
        is_paid=lambda container, worker, need: _is_paid(placing, container, worker, need),
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


def _is_paid(placing: Placing, container: Container, worker: Worker, need: Resources) -> bool:
    """Return whether whose container it is may spend what room on an instance costs."""
    if placing.spend is None:
        return True
    account = placing.spend.limits.account_of(container)
    if not account:
        return True
    budget = placing.spend.budget(placing.ledger.spend, (), placing.roster.fleet)
    return budget.refuses_place(account, slot_of(worker), need) is None
