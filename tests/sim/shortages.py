"""What the cloud refused for lack of quota or capacity, and what may not be asked again yet."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.engine import Engine
from drivers.errors import CapacityScope
from drivers.interface import InstanceType
from tests.sim.truth import expect

LONGEST_S = 900.0
SLACK = 1e-6
Scope = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Shortage:
    until: float
    repeats: int


@dataclass(slots=True, kw_only=True)
class _Quota:
    until: float
    instances: int


class Shortages:
    """Keeps account for one process; scopes are tuples of names, () is everything."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._settings = engine.pool.settings
        self._groups = engine.pool.quota_groups
        self._capacity: dict[Scope, _Shortage] = {}
        self._quota: dict[Scope, _Quota] = {}
        self._under_way: dict[int, tuple[InstanceType, float]] = {}

    def _market(self, type_: InstanceType) -> Scope:
        return ("market", self._groups.get(type_.name, ""), str(type_.preemptible))

    def _scopes(self, type_: InstanceType) -> tuple[Scope, ...]:
        return ((), self._market(type_), ("type", type_.name))

    def _quota_scope(self, type_: InstanceType) -> Scope:
        return self._market(type_) if any(self._groups.values()) else ()

    def _count(self, scope: Scope) -> int:
        workers = self._engine.pool.workers.values()
        return sum(scope in self._scopes(worker.type) for worker in workers)

    # ---- creates ----

    def created(self, op_id: int, type_: InstanceType, now: float) -> None:
        """Look at a create that is decided."""
        for scope in self._scopes(type_):
            shortage = self._capacity.get(scope)
            if shortage is None:
                continue
            expect(now >= shortage.until - SLACK, "no create during a capacity hold", f"{scope}")
            others = [t.name for t, _ in self._under_way.values() if scope in self._scopes(t)]
            expect(not others, "one trial create at a time", f"{scope}: {others}")
        quota = self._quota.get(self._quota_scope(type_))
        if quota is not None:
            expect(now >= quota.until - SLACK, "no create during a quota hold", f"{type_.name}")
        self._under_way[op_id] = (type_, now)

    def answered(self, op_id: int) -> tuple[InstanceType, float] | None:
        """Note that a create has an answer; return its type and when it was decided."""
        return self._under_way.pop(op_id, None)

    def had(self, type_: InstanceType, began_at: float) -> None:
        """Note that an instance was had: what was short is not any more."""
        for scope in self._scopes(type_):
            shortage = self._capacity.get(scope)
            if shortage is not None and began_at >= shortage.until - SLACK:
                del self._capacity[scope]

    def short(self, type_: InstanceType, scope: CapacityScope, began_at: float, now: float) -> None:
        """Note a shortage, told to reach as far as `scope` says."""
        reach = {
            CapacityScope.TYPE: ("type", type_.name),
            CapacityScope.GROUP: self._market(type_),
            CapacityScope.ALL: (),
        }[scope]
        known = self._capacity.get(reach)
        repeats = 0
        if known is not None and now < known.until + LONGEST_S:
            repeats = known.repeats + (began_at >= known.until - SLACK)
        hold_s = min(LONGEST_S, self._settings.capacity_hold_s * 2.0**repeats)
        self._capacity[reach] = _Shortage(until=now + hold_s, repeats=repeats)

    def quota(self, type_: InstanceType, now: float) -> None:
        """Note that the account's limit was reached."""
        scope = self._quota_scope(type_)
        until = now + self._settings.quota_hold_s
        self._quota[scope] = _Quota(until=until, instances=self._count(scope))

    def look(self) -> None:
        """End the quota holds in whose scope an instance has left."""
        for scope in list(self._quota):
            quota = self._quota[scope]
            if quota.instances and self._count(scope) < quota.instances:
                del self._quota[scope]
