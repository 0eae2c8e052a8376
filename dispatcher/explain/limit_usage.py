"""The limits of the configuration as one waiting container meets them: what is used, what is left.

What a pass may do within them is in `dispatcher.scheduler.placement.snapshot`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.engine.view import EngineView, Spending
from longshore.dispatcher.scheduler.placement.feasibility_report import TypeFeasibility

_ROUNDING = 1e-9
_SPEND = "max_hourly_spend"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUsage:
    """A limit of the configuration, how much of it is used, and what the container would add.

    None is for what nobody knows. To a limit of spending it adds the price of a new instance of the
    cheapest type that would do, in US dollars an hour. `whose` is whom the limit is for, "" for
    all; `blocking` says that it is what keeps the container waiting now.
    """

    name: str
    limit: float
    used: float | None
    adds: float | None = 1.0
    whose: str = ""
    blocking: bool = False

    @property
    def is_reached(self) -> bool:
        """Return whether what is left of it, as far as is known, does not do for the container."""
        return self._is_exceeded_by(self.adds or 0.0)

    @property
    def is_used_up(self) -> bool:
        """Return whether nothing of it is left, as far as is known."""
        return self.used is not None and self.used >= self.limit

    def closes(self, verdict: TypeFeasibility) -> bool:
        """Return whether it keeps an instance of a type from being created for the container."""
        price = float(verdict.price_usd_per_hour)
        adds = price if self.name.startswith(_SPEND) else self.adds
        return self.blocking or self._is_exceeded_by(adds or 0.0)

    def _is_exceeded_by(self, more: float) -> bool:
        if self.used is None:
            return False
        is_used_up = self.used >= self.limit and more > 0
        return is_used_up or self.used + more > self.limit + _ROUNDING


def limit_usages(
    view: EngineView, container: Container, verdicts: Sequence[TypeFeasibility], now: float
) -> list[LimitUsage]:
    """Return the limits that can keep a container from being placed; `verdicts` are for its class.

    `now` is in seconds since the epoch.
    """
    reason = view.wait_reason(container.id)
    blocking = reason.limit if reason is not None else ""
    of_numbers = _of_numbers(view, now, supervisors=container.spec.supervisor)
    found = [*of_numbers, *_of_spending(view, container, verdicts)]
    return [replace(limit, blocking=limit.name == blocking) for limit in found]


def all_limits(view: EngineView, now: float) -> list[LimitUsage]:
    """Return the limits as they are met by all, with those whom limits of spending are for.

    Nothing is added to them; `blocking` says that somebody waits for it. `now` is in seconds since
    the epoch.
    """
    limited = (each for each in view.all_spending() if each.limit_usd_per_hour is not None)
    found = [
        *_of_numbers(view, now, supervisors=True),
        *(_of_spending_by(each, adds=None) for each in limited),
    ]
    keys = {key for key, _ in view.class_counts()}
    reasons = (view.class_reason(key) for key in keys)
    blocking = {reason.limit for reason in reasons if reason is not None}
    return [replace(each, adds=None, blocking=each.name in blocking) for each in found]


def _of_numbers(view: EngineView, now: float, *, supervisors: bool) -> Iterator[LimitUsage]:
    """Return the limits of how many there may be of something, of supervisors if so wanted."""
    pool = view.pool
    there = pool.number_of_instances()
    yield LimitUsage(name="max_instances", limit=view.max_instances, used=there)
    yield LimitUsage(
        name="max_concurrent_creates",
        limit=pool.settings.max_concurrent_creates,
        used=pool.creates_in_flight,
    )
    rate = pool.settings.max_cloud_ops_per_second
    yield LimitUsage(name="max_cloud_ops_per_second", limit=rate, used=None)
    limit = view.limit_of_containers(now)
    if limit is not None:
        used = view.number_of_open_attempts
        yield LimitUsage(name="max_containers", limit=limit, used=used)
    of_supervisors = view.limit_of_supervisors(limit)
    if of_supervisors is not None and supervisors:
        used = view.supervisors_placed
        yield LimitUsage(name="supervisor_fraction", limit=of_supervisors, used=used)


def _of_spending(
    view: EngineView, container: Container, verdicts: Sequence[TypeFeasibility]
) -> Iterator[LimitUsage]:
    """Return the limits of what the cluster, its project and its user may spend an hour."""
    total = view.spending()
    if total is None:
        return
    prices = [verdict.price_usd_per_hour for verdict in verdicts if verdict.eligible]
    adds = float(min(prices)) if prices else None
    for each in (total, *view.spending_of(container)):
        if each.limit_usd_per_hour is not None:
            yield _of_spending_by(each, adds=adds)


def _of_spending_by(each: Spending, *, adds: float | None) -> LimitUsage:
    """Return the limit of one who has a limit of spending."""
    subject = each.subject
    return LimitUsage(
        name=_SPEND if subject is None else f"{_SPEND}_per_{subject.kind}",
        whose="" if subject is None else subject.name,
        limit=float(each.limit_usd_per_hour or 0),
        used=float(each.used_usd_per_hour),
        adds=adds,
    )
