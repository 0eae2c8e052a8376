"""Months of a ledger in a real store: what was booked before a test's server began.

No test has months of time: hours are saved as the booking of the server saves them, into a store
that a server then goes on with.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from longshore.dispatcher.domain.ledger import (
    BilledState,
    BookedHour,
    Column,
    CostGroup,
    CostOutcome,
    PriceSource,
)
from longshore.dispatcher.domain.messages import SaveBookedHour
from longshore.dispatcher.store.store import Store


def cost_group(
    project: str = "",
    user: str = "",
    job_name: str = "",
    *,
    kind: str = "here",
    preemptible: bool = False,
    zone: str = "",
    state: BilledState = BilledState.WORK,
    column: Column = Column.DIRECT,
    cause: str = "work",
    outcome: CostOutcome = CostOutcome.USEFUL,
    source: PriceSource = PriceSource.CONFIG,
    labels: tuple[tuple[str, str], ...] = (),
) -> CostGroup:
    """Return a group, of work that succeeded where nothing else is said."""
    return CostGroup(
        project=project,
        user=user,
        job_name=job_name,
        labels=labels,
        type_name=kind,
        preemptible=preemptible,
        zone=zone,
        state=state,
        column=column,
        cause=cause,
        outcome=outcome,
        price_source=source,
    )


def book(directory: Path, hours: Iterable[BookedHour]) -> None:
    """Save hours, in order, in a new store in a data directory."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / "longshore.db"
    with closing(Store.open(f"sqlite:///{path}", data_dir=directory)) as store:
        store.write([SaveBookedHour(booked=each) for each in hours], wait=True).result()
