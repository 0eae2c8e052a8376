"""Reading what containers and jobs have cost: their sums, and the facts that attempts go by.

The facts of an attempt are all of its instance for as long as it was there, since what others keep
of an instance changes what it pays. Of a busy instance these are many: beyond `MOST_INTERVALS`
nothing is read, and it is said that nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Connection, Double, Integer, Row, Select, cast, func, or_, select

from longshore.dispatcher.domain.ledger import MS_PER_HOUR, CostOutcome, Interval
from longshore.dispatcher.domain.queries import JobCosts, LedgerFacts, PartCost, SpentFacts
from longshore.dispatcher.store import ledger_records
from longshore.dispatcher.store.ledger_tables import bills, intervals
from longshore.dispatcher.store.tables import containers

_FOR_EVER_MS: Final = 2**60
MOST_INTERVALS: Final = 20_000
MOST_ELEMENTS: Final = 1000
"""How many elements of arrays are told, the dearest first."""

_LOST = tuple(each.value for each in CostOutcome if each.value.startswith("lost:"))
_STEPS_PER_USD: Final = 10**8
# In whole steps, so that the parts of a job add up to it exactly.
_STEPS = func.sum(cast(func.round(cast(containers.c.cost_usd, Double) * _STEPS_PER_USD), Integer))


def fetch_facts_of_container(connection: Connection, container_id: str) -> SpentFacts | None:
    """Return the facts of a container's attempts, None for too many."""
    return _facts(connection, select(intervals).where(intervals.c.container_id == container_id))


def fetch_facts_of_lost(connection: Connection, job_id: str) -> SpentFacts | None:
    """Return the facts of a job's attempts that came to nothing, None for too many."""
    lost = (
        select(intervals)
        .join(containers, containers.c.id == intervals.c.container_id)
        .where(containers.c.job_id == job_id, intervals.c.outcome.in_(_LOST))
    )
    return _facts(connection, lost)


def fetch_job_costs(connection: Connection, job_id: str, *, by_index: bool) -> JobCosts:
    """Return what a job's ended attempts cost by task, and of arrays by element if so wanted."""
    columns = (containers.c.task, _STEPS.label("steps"))
    of_job = containers.c.job_id == job_id
    tasks = select(*columns).where(of_job).group_by(containers.c.task).order_by(containers.c.task)
    elements: Sequence[Row[Any]] = ()
    if by_index:
        keys = (containers.c.task, containers.c.array_index)
        query = select(*columns, containers.c.array_index).where(
            of_job, containers.c.array_index.is_not(None)
        )
        dearest = query.group_by(*keys).order_by(_STEPS.desc(), *keys).limit(MOST_ELEMENTS)
        elements = connection.execute(dearest).all()
    return JobCosts(
        tasks=tuple(
            PartCost(task=row.task, array_index=None, cost_usd=_usd(row.steps))
            for row in connection.execute(tasks)
        ),
        elements=tuple(
            PartCost(task=row.task, array_index=row.array_index, cost_usd=_usd(row.steps))
            for row in elements
        ),
    )


def _usd(steps: int) -> Decimal:
    return Decimal(steps) / _STEPS_PER_USD


def _facts(connection: Connection, chosen: Select[Any]) -> SpentFacts | None:
    rows = connection.execute(chosen.limit(MOST_INTERVALS + 1)).all()
    own = [ledger_records.interval_from_row(row) for row in rows]
    instances = sorted({each.instance_id for each in own})
    around = _around(connection, instances, own, MOST_INTERVALS - len(own))
    if around is None:
        return None
    found = select(bills).where(bills.c.instance_id.in_(instances)).order_by(bills.c.instance_id)
    known = [ledger_records.bill_from_row(row) for row in connection.execute(found)]
    since_ms = min((each.created_ms for each in known), default=0) - MS_PER_HOUR
    return SpentFacts(
        attempts=tuple(sorted({each.holder for each in own})),
        facts=LedgerFacts(
            bills=tuple(known),
            intervals=tuple(around),
            prices=tuple(ledger_records.fetch_prices(connection, since_ms, _FOR_EVER_MS)),
        ),
    )


def _around(
    connection: Connection, instances: Sequence[str], own: Sequence[Interval], most: int
) -> list[Interval] | None:
    """Return all intervals of instances while attempts had a place there, None for too many."""
    found: list[Interval] = []
    for instance_id in instances:
        there = [each for each in own if each.instance_id == instance_id]
        ends_ms = [each.until_ms for each in there]
        known_ms = [ms for ms in ends_ms if ms is not None]
        query = select(intervals).where(
            intervals.c.instance_id == instance_id,
            or_(
                intervals.c.until_ms.is_(None),
                intervals.c.until_ms >= min(each.from_ms for each in there),
            ),
        )
        if len(known_ms) == len(ends_ms):
            query = query.where(intervals.c.from_ms <= max(known_ms))
        rows = connection.execute(query.limit(most - len(found) + 1)).all()
        found += map(ledger_records.interval_from_row, rows)
        if len(found) > most:
            return None
    return found
