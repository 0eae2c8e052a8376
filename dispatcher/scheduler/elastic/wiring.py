"""Makes the scheduler of elastic jobs from the parts of an engine."""

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


def elastic_scheduler(
    scheduling: SchedulingPass, workloads: WorkloadSchedulers
) -> ElasticScheduler:
    """Return what places elastic jobs, before the batch work that `scheduling` does."""
    pool, table = scheduling.pool, scheduling.table
    rooms = CapacityView(
        pool=pool,
        table=table,
        workloads=workloads,
        fleet=lambda: scheduling.fleet_sync.fleet,
        reserved=scheduling.evictions.reserved,
    )
    deeds = ElasticApplier(
        pool=pool,
        table=table,
        rooms=rooms,
        rules=scheduling.rules,
        most_placed=scheduling.concurrency.limit,
        is_paid=lambda container, worker, need: _is_paid(scheduling, container, worker, need),
    )
    return ElasticScheduler(
        pool=pool,
        table=table,
        settings=scheduling.settings,
        workloads=workloads,
        rules=scheduling.rules,
        rooms=rooms,
        deeds=deeds,
        market=ElasticMarket(
            pool=pool,
            table=table,
            settings=scheduling.settings,
            spend=scheduling.spend,
            fleet=lambda: scheduling.fleet_sync.fleet,
        ),
        cpus=SpareCpus(pool, table, workloads),
    )


def _is_paid(
    scheduling: SchedulingPass, container: Container, worker: Worker, need: Resources
) -> bool:
    """Return whether whose container it is may spend what room on an instance costs."""
    if scheduling.spend is None:
        return True
    account = scheduling.spend.limits.account_of(container)
    if not account:
        return True
    budget = scheduling.spend.budget(scheduling.table.spend, (), scheduling.fleet_sync.fleet)
    return budget.refuses_place(account, slot_of(worker), need) is None
