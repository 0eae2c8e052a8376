"""Adding lines up: into the rollups of hours, which can be thrown away and made again; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.tiling import lines_of
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    BookedHour,
    CostLine,
    Group,
    Interval,
    Total,
)
from longshore.dispatcher.domain.queries import LedgerFacts

Totals = dict[Group, Total]
"""Sums of lines by group."""


def lines_between(
    facts: LedgerFacts, *, from_hour: int, until_hour: int, now_ms: int
) -> Iterator[CostLine]:
    """Yield the lines of all instances in [from_hour, until_hour), instance by instance, by id."""
    seen = sorted(facts.intervals, key=lambda each: each.instance_id)
    of: dict[str, list[Interval]] = {
        id_: list(found) for id_, found in groupby(seen, key=lambda each: each.instance_id)
    }
    prices = PriceBook(facts.prices)
    for bill in sorted(facts.bills, key=lambda each: each.instance_id):
        yield from lines_of(
            bill,
            of.get(bill.instance_id, ()),
            prices,
            from_ms=from_hour * MS_PER_HOUR,
            until_ms=until_hour * MS_PER_HOUR,
            now_ms=now_ms,
        )


def group_of(line: CostLine, labels: Collection[str]) -> Group:
    """Return the group of a line; `labels` are the keys that are dimensions."""
    account = line.account
    return Group(
        project=account.project,
        user=account.user,
        job_name=account.job_name,
        labels=tuple(pair for pair in account.labels if pair[0] in labels),
        type_name=line.type_name,
        preemptible=line.preemptible,
        zone=line.zone,
        state=line.state,
        column=line.column,
        cause=line.cause,
        outcome=line.outcome,
        price_source=line.price.source,
    )


def add_up(lines: Iterable[CostLine], labels: Collection[str]) -> dict[int, Totals]:
    """Return the sums of lines by hour and group."""
    found: dict[int, Totals] = {}
    for line in lines:
        of_hour = found.setdefault(line.hour, {})
        group = group_of(line, labels)
        total = Total(
            quantity_ms=line.quantity_ms,
            grains=line.grains,
            uncertain_grains=line.uncertain_ms * line.price.nusd_per_hour,
        )
        of_hour[group] = of_hour.get(group, Total()).plus(total)
    return found


def booked_hour(
    facts: LedgerFacts, hour: int, *, labels: Collection[str], marks: int, now_ms: int
) -> BookedHour:
    """Return the rollup of an hour: the same facts give the same rollup, to the byte."""
    lines = lines_between(facts, from_hour=hour, until_hour=hour + 1, now_ms=now_ms)
    totals = add_up(lines, labels).get(hour, {})
    return BookedHour(
        hour=hour, totals=tuple(sorted(totals.items(), key=lambda each: repr(each[0]))), marks=marks
    )
