"""Looks at each day of each project once it is over and booked, and finds the unusual ones.

Stands alone: what is unusual is `cost.anomalies`' to say, and who is told `Teller`'s.

Days are those of UTC, as on the clouds' bills. Each is looked at once, in order: the store has the
last one that was, in one commit with what was told of it, so that a restart leaves none out and
tells none again. After an outage that took longer than `DAYS_MOST` only so many are looked at, and
the first look ever is at the last day alone: what comes later is no news.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from longshore.dispatcher.cost.anomalies import MOST_WEEKS, UnusualDay, unusual_day
from longshore.dispatcher.cost.budgets import Included, columns_of
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.domain.ledger import CostGroup, Total
from longshore.dispatcher.domain.messages import SaveUnusualDay
from longshore.dispatcher.domain.periods import Period, PeriodKind, days_of, period_at
from longshore.dispatcher.notifications.delivery import notification_of_day
from longshore.dispatcher.service.telling import Told
from longshore.dispatcher.store.store import Store

DAYS_MOST: Final = 31
_DAY_S = 86_400.0
_HOUR_S = 3600


def days_to_look_at(after: str, now: float) -> Sequence[Period]:
    """Return the days that are over and were not looked at, in order.

    `after` is the last one that was, as "2026-11-28", "" where none was yet.
    """
    today = period_at(PeriodKind.DAY, "UTC", now).starts_at
    first = today - (DAYS_MOST if after else 1) * _DAY_S
    return [day for day in days_of("UTC", first, today) if day.name > after]


def looked_at(day: Period) -> SaveUnusualDay:
    """Return that a day was looked at, for all projects."""
    return SaveUnusualDay(project="", day=day.name)


def last_looked_at(known: Collection[tuple[str, str]]) -> str:
    """Return the last day that was looked at, "" for none; `known` are projects with days."""
    return max((day for project, day in known if not project), default="")


def unusual_days(store: Store, day: Period, *, least_grains: int) -> Sequence[UnusualDay] | None:
    """Return the projects to which a day was unusual, by name; None where it is not booked yet.

    It blocks, and raises `StoreBusy`.
    """
    first = day.starts_at - 7 * MOST_WEEKS * _DAY_S
    spans = [
        (int(each.starts_at) // _HOUR_S, int(each.ends_at) // _HOUR_S)
        for each in days_of("UTC", first, day.ends_at)
    ]
    sums = store.ledger.sums(spans, ("project",))
    if sums.booked_until < spans[-1][1]:
        return None
    of_days = [_by_project(totals) for totals in sums.totals]
    found = []
    for project in sorted(of_days[-1]):
        amounts = [each.get(project, 0) for each in of_days]
        since = next(at for at, each in enumerate(amounts) if each)
        unusual = unusual_day(
            project, day, amounts[-1], amounts[since:-1], least_grains=least_grains
        )
        if unusual is not None:
            found.append(unusual)
    return found


def _by_project(totals: Mapping[CostGroup, Total]) -> dict[str, int]:
    columns = columns_of(Included.DIRECT)
    found: dict[str, int] = {}
    for group, total in totals.items():
        if group.project and group.column in columns and total.grains:
            found[group.project] = found.get(group.project, 0) + total.grains
    return found


def told_of_day(day: UnusualDay, now: float) -> tuple[SaveUnusualDay, Told]:
    """Return what is to be remembered and to be told of an unusual day."""
    data: dict[str, object] = {
        "project": day.project,
        "day": day.day,
        "spent": in_dollars(day.spent_grains),
        "usual": in_dollars(day.usual_grains),
        "message": day.sentence,
    }
    told = Told(
        kind="unusual_day",
        subject=day.project,
        data=data,
        notification=notification_of_day(day, now),
    )
    return SaveUnusualDay(project=day.project, day=day.day), told
