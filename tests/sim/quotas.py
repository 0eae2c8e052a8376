"""What the cloud refused for its quotas, and how many may be created there all the same.

An account of its own beside the pool's. It counts what there was when a quota refused one more: so
many instances, with so many cpus, are known to be allowed. Beyond that one at a time is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.engine.engine import Engine
from longshore.drivers.interface import InstanceType
from longshore.pool.model import WorkerState
from tests.sim.truth import expect

SLACK = 1e-6
LONGEST_KNOWN_S = 3600.0
HOLDS_KNOWN = 60
QUOTA = "quota"
FROM = "from"
Scope = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Refused:
    """What is known of one scope; `alone` says that it refused one though none was there."""

    until: float
    heard_at: float
    most: int
    most_cpu_millis: int
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    instances: int
    cpu_millis: int

    def plus(self, type_: InstanceType) -> _Count:
        """Return what it would be with one more."""
        more = type_.resources.cpu_millis
        return _Count(instances=self.instances + 1, cpu_millis=self.cpu_millis + more)


def _count(types: Sequence[InstanceType]) -> _Count:
    return _Count(instances=len(types), cpu_millis=sum(t.resources.cpu_millis for t in types))


class Quotas:
    """Keeps account for one process; `scopes_of` names the scopes of a type, () for everything."""

    def __init__(
        self,
        engine: Engine,
        scopes_of: Callable[[InstanceType], tuple[Scope, ...]],
    ) -> None:
        self._engine = engine
        self._scopes_of = scopes_of
        self._hold_s = engine.pool.settings.quota_hold_s
        self._known_s = max(self._hold_s, min(LONGEST_KNOWN_S, HOLDS_KNOWN * self._hold_s))
        self._refused: dict[Scope, _Refused] = {}
        self._there: dict[str, InstanceType] = {}
        self._left_at: dict[str, tuple[InstanceType, float]] = {}
        self._had: list[InstanceType] = []
        self._passes = 0

    def _covers(self, scope: Scope, type_: InstanceType) -> bool:
        size = FROM in scope
        wide = scope[:-2] if size else scope
        is_large = not size or type_.resources.cpu_millis >= int(scope[-1])
        return wide in self._scopes_of(type_) and is_large

    def _in(self, scope: Scope, *, standing: bool = False) -> _Count:
        workers = self._engine.pool.workers.values()
        return _count(
            [
                worker.type
                for worker in workers
                if self._covers(scope, worker.type)
                and not (standing and worker.state is WorkerState.SHUTDOWN)
            ]
        )

    def _coming(self, scope: Scope, under_way: Collection[InstanceType]) -> list[InstanceType]:
        """Return what is under way, and what may yet come of creates in doubt.

        What is under way though a listing shows its instance, with its token or not yet, is there.
        """
        pool = self._engine.pool
        expected = pool.expected_launches()
        tokens = {pending.launch.token for pending in expected}
        shown = Counter(
            pending.launch.type_name
            for token, pending in pool.launches.items()
            if pending.in_flight and token not in tokens
        )
        left = Counter(type_.name for type_ in under_way) - shown
        left.update(p.launch.type_name for p in expected if not p.in_flight)
        types = [pool.types[name] for name in sorted(left.elements()) if name in pool.types]
        return [type_ for type_ in types if self._covers(scope, type_)]

    def _known(self, now: float) -> dict[Scope, _Refused]:
        return {s: r for s, r in self._refused.items() if now < r.heard_at + self._known_s}

    # ---- what happens ----

    def refused(
        self, type_: InstanceType, scope: Scope, under_way: Collection[InstanceType], now: float
    ) -> None:
        """Note a refusal of which the cloud says how far it reaches."""
        of_size = scope
        if scope[:1] != ("type",):
            of_size = (*scope, FROM, str(type_.resources.cpu_millis))
        known_alone = any(
            each.alone and self._covers(key, type_) and scope in (key, key[:-2])
            for key, each in self._known(now).items()
        )
        left = [t for t, at in self._left_at.values() if at > now - self._hold_s]
        nothing = not self._in(scope).instances and not self._coming(scope, under_way)
        is_alone = known_alone or (nothing and not any(self._covers(of_size, t) for t in left))
        if is_alone and not known_alone and of_size != scope:
            self._refused.pop(scope, None)
        key = of_size if is_alone else scope
        count, before = self._in(key), self._refused.get(key)
        self._refused[key] = _Refused(
            until=max(now + self._hold_s, before.until if before is not None else 0.0),
            heard_at=now,
            most=count.instances,
            most_cpu_millis=count.cpu_millis,
            alone=is_alone,
        )

    def had(self, type_: InstanceType) -> None:
        """Note that an instance was had, which the engine may yet have to hear."""
        self._had.append(type_)

    def created(self, type_: InstanceType, under_way: Collection[InstanceType], now: float) -> None:
        """Look at a create that is decided, beside those that are under way."""
        for scope, refused in self._known(now).items():
            if not self._covers(scope, type_):
                continue
            self._expect_allowed(type_, scope, refused, self._coming(scope, under_way), now)

    def _expect_allowed(
        self,
        type_: InstanceType,
        scope: Scope,
        refused: _Refused,
        coming: list[InstanceType],
        now: float,
    ) -> None:
        """Expect that one more is known to be allowed, or the only one, with reason to try it."""
        there, standing = self._in(scope), self._in(scope, standing=True)
        more = _count(coming)
        would_be = _Count(
            instances=there.instances + more.instances,
            cpu_millis=there.cpu_millis + more.cpu_millis,
        ).plus(type_)
        by_number = would_be.instances <= max(refused.most, standing.instances)
        by_cpus = would_be.cpu_millis <= max(refused.most_cpu_millis, standing.cpu_millis)
        if by_number and by_cpus:
            return
        what = f"{type_.name} in {scope}: {would_be} of {refused}"
        names = [each.name for each in coming]
        expect(not names, "at a quota one more than is known is tried", f"{what}, beside {names}")
        free = now >= refused.until - SLACK or by_number or by_cpus
        expect(free, "no more than is known is tried during a hold", what)

    # ---- what is known after an event ----

    def look(self, now: float) -> None:
        """Take in what became of instances, and look at who waits for what."""
        pool = self._engine.pool
        for worker_id in sorted(self._there.keys() - pool.workers.keys()):
            type_ = self._there[worker_id]
            self._left_at[type_.name] = (type_, now)
        self._there = {worker.id: worker.type for worker in pool.workers.values()}
        for type_ in self._had:
            for scope, refused in self._refused.items():
                standing = self._in(scope, standing=True)
                if self._covers(scope, type_):
                    refused.most = max(refused.most, standing.instances)
                    cpu_millis = max(refused.most_cpu_millis, standing.cpu_millis)
                    refused.most_cpu_millis = cpu_millis
                    refused.alone = refused.alone and not standing.instances
        self._had.clear()
        if self._engine.scheduling.passes != self._passes:
            self._passes = self._engine.scheduling.passes
            self._expect_nobody_starves(now)

    def held(self, now: float) -> dict[tuple[str, Scope], float]:
        """Return until when no more than is known is created, by the scopes that are held."""
        held = {scope: r.until for scope, r in self._refused.items() if r.until > now + SLACK}
        return {(QUOTA, scope): until for scope, until in held.items()}

    def _expect_nobody_starves(self, now: float) -> None:
        """Expect that for those who may never be allowed nobody waits, and no place is kept."""
        alone = [
            scope
            for scope, refused in self._known(now).items()
            if refused.alone and not self._in(scope).instances
        ]
        if not alone:
            return
        scheduling, table = self._engine.scheduling, self._engine.table
        for reason in scheduling.waiting.values():
            first = table.queue.class_of(reason.behind) if reason.behind else None
            types = first.types if first is not None else ()
            never = types and all(any(self._covers(s, t) for s in alone) for t in types)
            # At a limit of containers nobody starts, whoever is the first.
            never = never and reason.behind_code != "max_containers"
            expect(not never, "nobody waits for what may never be allowed", reason)
        for request_class in table.queue.classes():
            types = request_class.types
            never = types and all(any(self._covers(s, t) for s in alone) for t in types)
            head = (
                request_class.at(0)
                if never and request_class.key not in scheduling.fleet_sync.fleet.claims
                else None
            )
            locked = head is not None and (table.containers[head[1]].state is ContainerState.LOCKED)
            expect(not locked, "nobody is locked for what may never be allowed", head)
