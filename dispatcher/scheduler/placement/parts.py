"""What the pass over the queue and elastic jobs place with, made once for both.

Stands alone: neither makes these for the other, so that each has all it needs once it is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from longshore.dispatcher.domain.containers import InstanceRecord, SchedulerSettings
from longshore.dispatcher.scheduler.placement.concurrency import Concurrency
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.scheduler.placement.evict import Evictions
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy
from longshore.dispatcher.scheduler.placement.fleet_sync import FleetSync, Reservations
from longshore.dispatcher.scheduler.placement.spend import InstanceSpend
from longshore.dispatcher.state.spend_limits import SpendLimits
from longshore.pool.port import PoolPort


class PlacementParts:
    """The pool and the table, and what is known of room in them; `spend` is None without limits."""

    def __init__(
        self,
        pool: PoolPort,
        table: ContainerPort,
        settings: SchedulerSettings,
        records: Mapping[str, InstanceRecord],
        reservations: Reservations,
    ) -> None:
        """`records` has what instances were bought for, `reservations` what others keep."""
        self.pool = pool
        self.table = table
        self.settings = settings
        self.reservations = reservations
        self.concurrency = Concurrency(
            max_containers=settings.max_containers,
            supervisor_fraction=settings.supervisor_fraction,
        )
        self.rules = PackingPolicy(
            placement=settings.placement,
            profile=settings.profile,
            max_containers=settings.max_containers_per_instance,
        )
        limits = SpendLimits(settings)
        self.spend = InstanceSpend(pool, records, limits, table.spend) if limits.exist else None
        self.evictions = Evictions(pool, table, settings)
        self.fleet_sync = FleetSync(
            pool, self.rules, self.spend, self.evictions.reserved, reservations
        )
