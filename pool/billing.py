"""How the pool learns what the cloud bills: from listings, and by asking once an instance is gone.

A listing tells of an instance that is there when its billing began. When it ended, the cloud alone
knows: an instance may have ended long before a listing lacked it, while no dispatcher ran. So once
it is gone, the cloud is asked by its id, with others that went at about the same time. It may know
a little later only; then it is asked again, with growing delay, for an hour. What a driver cannot
be asked is settled at once with what listings told.

Each bill ends in one last word to the engine (`InstanceBilled` that is final), unless the instance
shows again before; a final word on one that does may be followed by another.
"""

from __future__ import annotations

from longshore.drivers.billing import NOTHING_BILLED, Billed
from longshore.drivers.errors import RateLimitError
from longshore.pool.core import PoolCore
from longshore.pool.messages import AskBills, BillsFailed, BillsTold
from longshore.pool.model import InstanceSeen, Worker
from longshore.pool.pool_events import InstanceBilled
from longshore.pool.timers import TimerKind


def look(core: PoolCore, now: float) -> None:
    """Take up what was handed in, and ask the cloud for the bills that are due."""
    for instance_id, billed in core.bills.take_up(now):
        core.notices.append(InstanceBilled(instance_id=instance_id, billed=billed, final=True))
    op_id = core.next_op()
    asked = core.bills.ask(op_id, now)
    if asked:
        core.ask_cloud(AskBills(op_id=op_id, instance_ids=asked), now)
    core.timers.arm(TimerKind.BILLS, core.bills.next_at())


def hear(core: PoolCore, worker: Worker, seen: InstanceSeen) -> None:
    """Take in what a listing tells of the billing of a worker's instance."""
    before = worker.cloud.billed
    worker.cloud.billed = before.once_told(seen.billed)
    if worker.cloud.billed != before:
        core.price_in_zone(worker)
        core.note_changed(worker, _news(before, worker.cloud.billed))


def _news(before: Billed, billed: Billed) -> str:
    if before.billed_until is None and billed.billed_until is not None:
        return "the cloud says that its billing has ended"
    if before.billed_from is None and billed.billed_from is not None:
        return "the cloud says that its billing has begun"
    return "the cloud says more of its billing"


def on_told(core: PoolCore, event: BillsTold, now: float) -> None:
    """Take in what the cloud tells of those that it was asked of."""
    core.cloud_gate.bills.succeeded(now)
    _take_in(core, event.op_id, dict(event.bills), now)


def on_failed(core: PoolCore, event: BillsFailed, now: float) -> None:
    """Ask again later; after a rate limit, when the cloud allows."""
    if isinstance(event.error, RateLimitError):
        core.cloud_gate.bills.failed(event.error, now)
    _take_in(core, event.op_id, {}, now)


def _take_in(core: PoolCore, op_id: int, told: dict[str, Billed], now: float) -> None:
    for instance_id in core.bills.answered(op_id):
        before = core.bills.known(instance_id)
        billed = before.once_told(told.get(instance_id, NOTHING_BILLED))
        final = core.bills.told(instance_id, billed, now)
        if final or billed != before:
            core.notices.append(InstanceBilled(instance_id=instance_id, billed=billed, final=final))
    core.timers.arm(TimerKind.BILLS, core.bills.next_at())
