"""Makes the placer of elastic jobs from the parts of an engine."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.scheduler.batch.scheduling_pass import SchedulingPass
from longshore.dispatcher.scheduler.elastic.apply import ElasticApplier
from longshore.dispatcher.scheduler.elastic.capacity import CapacityView
from longshore.dispatcher.scheduler.elastic.controller import ElasticScheduler
from longshore.dispatcher.scheduler.elastic.cpu_shares import SpareCpus
from longshore.dispatcher.scheduler.elastic.purchase import ElasticMarket
from longshore.dispatcher.scheduler.placement.fleet_sync import slot_of
from longshore.dispatcher.scheduler.placement.workload import WorkloadSchedulers
from longshore.drivers.interface import Resources
from longshore.pool.model import Worker


def elastic_scheduler(placing: SchedulingPass, placers: WorkloadSchedulers) -> ElasticScheduler:
    """Return what places elastic jobs, before the batch work that `placing` does."""
    pool, ledger = placing.pool, placing.ledger
    rooms = CapacityView(
        pool=pool,
        ledger=ledger,
        placers=placers,
        fleet=lambda: placing.roster.fleet,
        reserved=placing.evictions.reserved,
    )
    deeds = ElasticApplier(
        pool=pool,
        ledger=ledger,
        rooms=rooms,
        rules=placing.rules,
        most_placed=placing.concurrency.limit,
        is_paid=lambda container, worker, need: _is_paid(placing, container, worker, need),
    )
    return ElasticScheduler(
        pool=pool,
        ledger=ledger,
        settings=placing.settings,
        placers=placers,
        rules=placing.rules,
        rooms=rooms,
        deeds=deeds,
        market=ElasticMarket(
            pool=pool,
            ledger=ledger,
            settings=placing.settings,
            spend=placing.spend,
            fleet=lambda: placing.roster.fleet,
        ),
        cpus=SpareCpus(pool, ledger, placers),
    )


def _is_paid(
    placing: SchedulingPass, container: Container, worker: Worker, need: Resources
) -> bool:
    """Return whether whose container it is may spend what room on an instance costs."""
    if placing.spend is None:
        return True
    account = placing.spend.limits.account_of(container)
    if not account:
        return True
    budget = placing.spend.budget(placing.ledger.spend, (), placing.roster.fleet)
    return budget.refuses_place(account, slot_of(worker), need) is None
