"""How long a question about a year of cost takes: `python benchmarks/cost_year.py`.

A year of 1,000 instances and 5 million containers: 20 projects with 5 users each, who have eight
jobs that they run all the year, and one of a new name each day; a job runs on the type that fits
it, of 12, in 3 zones and two markets: 37,300 names of jobs in all. What is booked of it (sums by
hour and group, as the booking writes them) is put into a real store; of the last hour, which is not
booked, there are the intervals. Then each two dimensions are asked for, by month and as a whole,
and days by one, through the service that the API asks. Beside them stands a floor: the bare sums in
SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import create_engine, func, insert, select

from longshore.dispatcher.cost.report import DIMENSIONS, Idle
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    BilledState,
    Column,
    CostGroup,
    CostOutcome,
    PriceSource,
    Total,
)
from longshore.dispatcher.domain.principals import ANYBODY
from longshore.dispatcher.service.costs import CostQuestion, CostService
from longshore.dispatcher.store import ledger_tables
from longshore.dispatcher.store.ledger_groups import group_values, total_values
from longshore.dispatcher.store.store import Store

FIRST_HOUR = 480_000
HOURS = 365 * 24
INSTANCES = 1000
CONTAINERS = 5_000_000
PROJECTS, USERS, TYPES, ZONES = 20, 5, 12, 3
LASTING_JOBS = 8
GROUPS_AN_HOUR = 400


def groups_of(day: int, dice: random.Random) -> list[CostGroup]:
    """Return the groups in which the work of a day is added up, and what is beside it."""
    found: list[CostGroup] = []
    for number in range(GROUPS_AN_HOUR):
        project, user = dice.randrange(PROJECTS), dice.randrange(USERS)
        idle = number % 8 == 0
        of_user = dice.randrange(LASTING_JOBS + 1)
        job = f"day-{day}" if of_user == LASTING_JOBS else f"job-{of_user}"
        kind = dice.randrange(TYPES) if idle else (project * 7 + user * 3 + of_user) % TYPES
        found.append(
            CostGroup(
                project="" if idle else f"project-{project}",
                user="" if idle else f"user-{project}-{user}",
                job_name="" if idle else f"{job}-of-{project}-{user}",
                labels=(),
                type_name=f"type-{kind}",
                preemptible=dice.random() < 0.5,
                zone=f"zone-{dice.randrange(ZONES)}",
                state=BilledState.EMPTY if idle else BilledState.WORK,
                column=Column.SHARED if idle else Column.DIRECT,
                cause="empty" if idle else "work",
                outcome=CostOutcome.USEFUL if number % 9 else CostOutcome.LOST_FAILED,
                price_source=PriceSource.CONFIG,
            )
        )
    return list(dict.fromkeys(found))


def rows_of_day(
    day: int, ids: dict[CostGroup, int], dice: random.Random
) -> Iterator[dict[str, int]]:
    """Yield the sums of a day's hours."""
    for hour in range(day * 24, day * 24 + 24):
        for number in ids.values():
            quantity_ms = INSTANCES * MS_PER_HOUR // len(ids) + dice.randrange(1000)
            total = Total(quantity_ms=quantity_ms, grains=quantity_ms * 123_456_789)
            yield {"hour": FIRST_HOUR + hour, "group_id": number, **total_values(total)}


def fill(path: Path) -> int:
    """Put a year into a store that is there; return how many sums of hours it has."""
    dice = random.Random(7)
    engine = create_engine(f"sqlite:///{path}")
    count, known = 0, dict[CostGroup, int]()
    hours, days = ledger_tables.hours, ledger_tables.days
    names = [column.name for column in hours.columns][2:]
    for day in range(HOURS // 24):
        ids = {group: known.get(group, 0) for group in groups_of(day, dice)}
        new = {group: len(known) + n for n, group in enumerate((g for g in ids if not ids[g]), 1)}
        known |= new
        ids |= new
        rows = list(rows_of_day(day, ids, dice))
        count += len(rows)
        with engine.begin() as connection:
            values = [{"id": number, **group_values(group)} for group, number in new.items()]
            connection.execute(insert(ledger_tables.groups), values)
            connection.execute(insert(hours), rows)
            sums = (func.sum(hours.c[name]) for name in names)
            whole = select(hours.c.hour // 24, hours.c.group_id, *sums)
            first = FIRST_HOUR + day * 24
            whole = whole.where(hours.c.hour >= first, hours.c.hour < first + 24)
            columns = [column.name for column in days.columns]
            grouped = whole.group_by(hours.c.group_id)
            connection.execute(insert(days).from_select(columns, grouped))
    with engine.begin() as connection:
        until = {"id": 1, "until_hour": FIRST_HOUR + HOURS}
        connection.execute(insert(ledger_tables.booked), [until])
    engine.dispose()
    return count


def floor_s(path: Path) -> float:
    """Return how long SQLite takes for the bare sums of a year's days by group."""
    engine = create_engine(f"sqlite:///{path}")
    began = time.perf_counter()
    with engine.connect() as connection:
        days = ledger_tables.days
        sums = select(days.c.group_id, func.sum(days.c.whole)).group_by(days.c.group_id)
        connection.execute(sums).all()
    engine.dispose()
    return time.perf_counter() - began


def questions() -> Iterator[tuple[str, CostQuestion]]:
    """Yield what is asked."""
    whole = [(FIRST_HOUR, FIRST_HOUR + HOURS)]
    months = [(FIRST_HOUR + m * 730, FIRST_HOUR + (m + 1) * 730) for m in range(12)]
    days = [(FIRST_HOUR + d * 24, FIRST_HOUR + (d + 1) * 24) for d in range(365)]
    for by in itertools.combinations(DIMENSIONS, 2):
        for name, steps in (("whole", whole), ("month", months)):
            question = CostQuestion(steps=steps, by=by, idle=Idle.SEPARATE, only={})
            yield f"{'+'.join(by)} by {name}", question
    for dimension in ("project", "type"):
        question = CostQuestion(steps=days, by=(dimension,), idle=Idle.SEPARATE, only={})
        yield f"{dimension} by day", question


def main() -> int:
    """Print what each question takes, and the floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    rounds: int = parser.parse_args().rounds
    with TemporaryDirectory() as directory:
        path = Path(directory) / "longshore.db"
        with closing(Store.open(f"sqlite:///{path}")):
            pass
        began = time.perf_counter()
        rows = fill(path)
        print(
            f"{rows} sums of hours, {path.stat().st_size >> 20} MiB, made in "
            f"{time.perf_counter() - began:.0f} s"
        )
        now = (FIRST_HOUR + HOURS) * 3600.0 + 600
        with closing(Store.open(f"sqlite:///{path}")) as store:
            costs = CostService(store=store, now=lambda: now, labels=(), currency="USD")
            took: list[float] = []
            for name, question in questions():
                each = []
                for _ in range(rounds):
                    began = time.perf_counter()
                    asyncio.run(costs.report(question, ANYBODY))
                    each.append(time.perf_counter() - began)
                took += each
                print(f"{statistics.median(each) * 1000:8.0f} ms  {name}")
        took.sort()
        print(
            f"p50 {statistics.median(took) * 1000:.0f} ms, "
            f"p95 {took[int(len(took) * 0.95)] * 1000:.0f} ms, "
            f"floor {floor_s(path) * 1000:.0f} ms (bare sums by group in SQLite)"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
