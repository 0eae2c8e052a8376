"""A small ledger in a real store: an instance that is bought, is used by ana, and is idle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Final

from longshore.dispatcher.cost.utc_calendar import month_hours
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    OF_INSTANCE,
    Account,
    BilledState,
    CostOutcome,
    InstanceBill,
    Interval,
)
from longshore.dispatcher.domain.messages import Change, SaveBill, SaveInterval
from longshore.drivers.billing import AS_USED, Billed
from tests.cost_samples import ALIGN

OCTOBER: Final = month_hours("2026-10")
BEGAN_MS: Final = OCTOBER.start * MS_PER_HOUR
NOW: Final = (OCTOBER.stop + 48) * 3600.0
OTHER: Final = replace(
    ALIGN, project="vision", user="bob", job_name="=cmd()", job_id="j-2", container_id="c-2"
)
BILL: Final = InstanceBill(
    instance_id="i-0a1",
    type_name="large",
    provider_type="m5.large",
    preemptible=False,
    nusd_per_hour=100_000_000,
    payer=ALIGN,
    created_ms=BEGAN_MS,
    rule=AS_USED,
    billed=Billed(
        billed_from=BEGAN_MS / 1000,
        billed_until=(BEGAN_MS + 3 * MS_PER_HOUR) / 1000,
        zone="eu-central-1a",
    ),
    running_ms=BEGAN_MS,
    ready_ms=BEGAN_MS,
    used_ms=BEGAN_MS,
    gone_ms=BEGAN_MS + 3 * MS_PER_HOUR,
    final=True,
)
"""Three hours at $0.10, in October."""


def work(
    attempt_id: str, account: Account, *, hour: int, share: Fraction, instance_id: str = "i-0a1"
) -> Interval:
    """Return that an attempt had a place for an hour, so many after the beginning."""
    from_ms = BEGAN_MS + hour * MS_PER_HOUR
    return Interval(
        instance_id=instance_id,
        holder=attempt_id,
        from_ms=from_ms,
        until_ms=from_ms + MS_PER_HOUR,
        state=BilledState.WORK,
        share=share,
        account=account,
        outcome=CostOutcome.USEFUL,
    )


def idle(bill: InstanceBill) -> Interval:
    """Return that an instance was empty but for what attempts keep of it."""
    return Interval(
        instance_id=bill.instance_id,
        holder=OF_INSTANCE,
        from_ms=bill.created_ms,
        until_ms=bill.gone_ms,
        state=BilledState.EMPTY,
    )


def small_ledger(bills: Iterable[InstanceBill] = (BILL,)) -> list[Change]:
    """Return the changes that write it: $0.10 of ana, $0.05 of bob, and $0.15 of nobody each."""
    changes: list[Change] = []
    for bill in bills:
        id_ = bill.instance_id
        changes += [
            SaveBill(bill=bill),
            SaveInterval(interval=idle(bill)),
            *(
                SaveInterval(interval=work(a, w, hour=hour, share=Fraction(share), instance_id=id_))
                for a, w, hour, share in (
                    (f"c-1-{id_}", ALIGN, 0, "1"),
                    (f"c-2-{id_}", OTHER, 1, "1/2"),
                )
            ),
        ]
    return changes
