"""What the store keeps of an instance, made from the pool's record of it."""

from __future__ import annotations

from decimal import Decimal

from longshore.dispatcher.domain.containers import InstanceRecord
from longshore.pool.model import Worker
from longshore.pool.tags import is_stand_in


def price_of(worker: Worker, record: InstanceRecord | None) -> Decimal:
    """Return a worker's price; where its type is not known (any more), what it was bought for.

    What is told of its zone counts first, as in the ledger. It is 0 where nobody knows it. `record`
    is what is kept of the worker, None for nothing.
    """
    if worker.cloud.zone_usd_per_hour is not None:
        return worker.cloud.zone_usd_per_hour
    if is_stand_in(worker.type.name) and record is not None:
        return record.price_usd_per_hour
    return worker.type.price_usd_per_hour


def record_of(worker: Worker, old: InstanceRecord | None) -> InstanceRecord:
    """Return what is to be kept of a worker; `old` is what is kept so far, None for nothing.

    Its type and price stay what it was bought as, whatever the configuration says now.
    """
    type_name, price = worker.type.name, worker.type.price_usd_per_hour
    if old is not None and not is_stand_in(old.type_name):
        type_name, price = old.type_name, old.price_usd_per_hour
    return InstanceRecord(
        id=worker.id,
        token=worker.token,
        type_name=type_name,
        price_usd_per_hour=price,
        created_at=old.created_at if old is not None else worker.appeared_at,
        host_key=worker.link.host_key,
        address=worker.cloud.address,
        behavior=worker.behavior.value if worker.untagged else "",
        note=worker.noted,
        killed=worker.shutdown.killed,
    )
