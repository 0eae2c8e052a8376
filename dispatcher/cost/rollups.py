"""Adding lines up: into the rollups of hours, which can be thrown away and made again; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from longshore.dispatcher.cost.prepaid import prepaid_places, unused_lines
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.tiling import lines_of
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    BilledState,
    BookedHour,
    CostGroup,
    CostLine,
    Interval,
    Total,
)
from longshore.dispatcher.domain.queries import LedgerFacts

Totals = dict[CostGroup, Total]
"""Sums of lines by group."""


def lines_between(
    facts: LedgerFacts, *, from_hour: int, until_hour: int, now_ms: int
) -> Iterator[CostLine]:
    """Yield the lines of all instances in [from_hour, until_hour), instance by instance, by id.

    At last come those of what is prepaid and not run.
    """
    seen = sorted(facts.intervals, key=lambda each: each.instance_id)
    of: dict[str, list[Interval]] = {
        id_: list(found) for id_, found in groupby(seen, key=lambda each: each.instance_id)
    }
    places = prepaid_places(
        facts.bills,
        facts.prepaid,
        from_ms=from_hour * MS_PER_HOUR,
        until_ms=until_hour * MS_PER_HOUR,
        now_ms=now_ms,
    )
    prices = PriceBook(facts.prices, places.held)
    for bill in sorted(facts.bills, key=lambda each: each.instance_id):
        yield from lines_of(
            bill,
            of.get(bill.instance_id, ()),
            prices,
            from_ms=from_hour * MS_PER_HOUR,
            until_ms=until_hour * MS_PER_HOUR,
            now_ms=now_ms,
        )
    yield from unused_lines(places, prices)


def group_of(line: CostLine, labels: Collection[str]) -> CostGroup:
    """Return the group of a line; `labels` are the keys that are dimensions."""
    account = line.account
    return CostGroup(
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
    lines: Iterable[CostLine], hour: int, *, labels: Collection[str], marks: int
) -> BookedHour:
    """Return the rollup of the lines of an hour: the same lines give the same, to the byte."""
    totals = add_up(lines, labels).get(hour, {})
    return BookedHour(
        hour=hour, totals=tuple(sorted(totals.items(), key=lambda each: repr(each[0]))), marks=marks
    )


def direct_by_container(lines: Iterable[CostLine]) -> dict[str, int]:
    """Return what the attempts of each container cost in lines, in grains."""
    found: dict[str, int] = {}
    for line in lines:
        if line.state is BilledState.WORK and line.account.container_id:
            id_ = line.account.container_id
            found[id_] = found.get(id_, 0) + line.grains
    return found
