"""Lines of a ledger for tests: one that says all, and many that differ in what files depend on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from longshore.dispatcher.cost.focus import FocusContext
from longshore.dispatcher.cost.utc_calendar import month_hours
from longshore.dispatcher.domain.ledger import (
    CLUSTER,
    MS_PER_HOUR,
    Account,
    BilledState,
    Column,
    CostLine,
    CostOutcome,
    PriceSource,
    UnitPrice,
)

MONTH: Final = month_hours("2026-10")

ALIGN: Final = Account(
    project="genome",
    user="ana",
    job_name="align",
    job_id="j-1",
    task="sort",
    array_index=3,
    container_id="c-1",
    labels=(("stage", "prod"), ("team", "cells")),
)

WORK: Final = CostLine(
    hour=MONTH.start,
    instance_id="i-0a1",
    type_name="large",
    provider_type="m5.large",
    preemptible=False,
    zone="eu-central-1a",
    state=BilledState.WORK,
    attempt_id="a-1",
    account=ALIGN,
    column=Column.DIRECT,
    cause="work",
    outcome=CostOutcome.USEFUL,
    quantity_ms=MS_PER_HOUR // 2,
    uncertain_ms=0,
    price=UnitPrice(nusd_per_hour=115_000_000, source=PriceSource.CONFIG),
)

IDLE: Final = replace(
    WORK,
    state=BilledState.EMPTY,
    attempt_id="",
    account=CLUSTER,
    column=Column.SHARED,
    cause="empty",
    outcome=CostOutcome.OPEN,
)

UNUSED: Final = replace(
    IDLE,
    instance_id="",
    zone="",
    state=BilledState.UNUSED,
    cause="unused",
    outcome=CostOutcome.NEVER_USED,
    price=UnitPrice(nusd_per_hour=115_000_000, source=PriceSource.PREPAID),
)
"""What is prepaid and not run."""

CONTEXT: Final = FocusContext(
    provider="AWS",
    service="Amazon EC2",
    account_id="acct-1",
    account_name="Laboratory",
    cluster="lab",
    regions={"eu-central-1a": "eu-central-1"},
)


def many(count: int, seed: int = 1) -> Iterator[CostLine]:
    """Yield lines of a month whose amounts are no decimals: odd times at odd prices."""
    dice = random.Random(seed)
    for number in range(count):
        base = dice.choice((WORK, IDLE))
        source = dice.choice(list(PriceSource))
        nusd = 0 if source is PriceSource.NONE else dice.randrange(1, 98_000_000_000)
        yield replace(
            base,
            hour=MONTH.start + number * len(MONTH) // count,
            instance_id=f"i-{dice.randrange(50):04x}",
            preemptible=dice.random() < 0.5,
            zone=dice.choice(("", "eu-central-1a", "eu-central-1b")),
            quantity_ms=dice.randrange(MS_PER_HOUR + 1),
            uncertain_ms=dice.choice((0, 1000)),
            price=UnitPrice(nusd_per_hour=nusd, source=source),
            flat_grains=dice.choice((0, 0, 0, dice.randrange(10**15))),
        )
