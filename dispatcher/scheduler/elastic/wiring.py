"""Makes the scheduler of elastic jobs from the parts of an engine."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.scheduler.elastic.apply import ElasticApplier
from longshore.dispatcher.scheduler.elastic.capacity import CapacityView
from longshore.dispatcher.scheduler.elastic.controller import ElasticScheduler
from longshore.dispatcher.scheduler.elastic.cpu_shares import SpareCpus
from longshore.dispatcher.scheduler.elastic.purchase import ElasticMarket
from longshore.dispatcher.scheduler.placement.fleet_sync import slot_of
from longshore.dispatcher.scheduler.placement.parts import PlacementParts
from longshore.dispatcher.scheduler.placement.workload import NewInstances, WorkloadScheduler
from longshore.drivers.interface import Resources
from longshore.pool.model import Worker


def elastic_scheduler(
    parts: PlacementParts, daemons: WorkloadScheduler, new: NewInstances
) -> ElasticScheduler:
    """Return what places elastic jobs: after the `daemons`, and before batch work.

    `new` tells what is left of new instances.
    """
    pool, table = parts.pool, parts.table
    capacity = CapacityView(
        pool=pool,
        table=table,
        daemons=daemons,
        new=new,
        fleet_sync=parts.fleet_sync,
        reserved=parts.evictions.reserved,
    )
    applier = ElasticApplier(
        pool=pool,
        table=table,
        capacity=capacity,
        rules=parts.rules,
        most_placed=parts.concurrency.limit,
        is_paid=lambda container, worker, need: _is_paid(parts, container, worker, need),
    )
    return ElasticScheduler(
        pool=pool,
        table=table,
        settings=parts.settings,
        new=new,
        rules=parts.rules,
        capacity=capacity,
        applier=applier,
        market=ElasticMarket(
            pool=pool,
            table=table,
            settings=parts.settings,
            spend=parts.spend,
            fleet_sync=parts.fleet_sync,
        ),
        cpus=SpareCpus(pool, table),
    )


def _is_paid(parts: PlacementParts, container: Container, worker: Worker, need: Resources) -> bool:
    """Return whether whose container it is may spend what room on an instance costs."""
    if parts.spend is None:
        return True
    account = parts.spend.limits.account_of(container)
    if not account:
        return True
    budget = parts.spend.budget((), parts.fleet_sync.fleet)
    return budget.refuses_place(account, slot_of(worker), need) is None
