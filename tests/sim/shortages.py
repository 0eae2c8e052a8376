"""What the cloud refused or was of no use, and for how long nothing may be created for it.

An account of its own beside the pool's: after each event both must say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import assert_never

from longshore.dispatcher.engine.engine import Engine
from longshore.drivers.errors import (
    CapacityError,
    CloudError,
    ErrorScope,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import InstanceType
from longshore.pool import holds, launching
from longshore.pool.messages import StartRefused
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from longshore.pool.transitions import Trigger
from tests.sim.quotas import Quotas
from tests.sim.truth import expect

FORGOTTEN_AFTER_S = 900.0
LONGEST_TOLD_S = 3600.0
NOT_READY = (WorkerState.UNKNOWN, WorkerState.BOOTING)
SLACK = 1e-6
CAPACITY, QUOTA, RATE_LIMIT, ERROR, BOOT_FAILURE = (
    "capacity",
    "quota",
    "rate_limit",
    "error",
    "boot_failure",
)
Scope = tuple[str, ...]
Key = tuple[str, Scope]


@dataclass(slots=True, kw_only=True)
class _Account:
    until: float
    repeats: int = 0
    others_work: bool = False
    failed_at: float = -inf
    first_at: float = -inf


def _is_over(account: _Account, now: float) -> bool:
    return now >= account.until + FORGOTTEN_AFTER_S


class Shortages:
    """Keeps account for one process; scopes are tuples of names, () is everything.

    `offset_s` is what the process's clock is ahead of the world's.
    """

    def __init__(self, engine: Engine, offset_s: float) -> None:
        self._engine = engine
        self._offset_s = offset_s
        self._settings = engine.pool.settings
        self._groups = engine.pool.quota_groups
        self.quotas = Quotas(engine, self._scopes)
        self._accounts: dict[Key, _Account] = {}
        self._doubted: dict[str, float] = {}
        #: What may yet come of creates without an answer, also of those of earlier processes.
        self._in_doubt = {
            token: (launching.type_of(engine.pool, each.launch), each.launch.created_at - offset_s)
            for token, each in engine.pool.launches.items()
        }
        self._under_way: dict[int, tuple[InstanceType, float]] = {}
        self._booting: dict[str, float] = {}
        self._not_ready: set[str] = set()
        self._overloaded: set[str] = set()
        self._of_use: set[tuple[str, float]] = set()
        self._useless: set[tuple[str, float]] = set()
        self._useless_in_a_row = 0
        self._useless_since = -inf
        self._useless_until = -inf

    def _market(self, type_: InstanceType) -> Scope:
        return ("market", self._groups.get(type_.name, ""), str(type_.preemptible))

    def _scopes(self, type_: InstanceType) -> tuple[Scope, ...]:
        return ((), self._market(type_), ("type", type_.name))

    # ---- creates ----

    def created(self, op_id: int, type_: InstanceType, now: float) -> None:
        """Look at a create that is decided; what has just proven to be of use counts by then."""
        self._note_of_use(now)
        for (cause, scope), account in self._accounts.items():
            if scope not in self._scopes(type_) or now >= account.until + FORGOTTEN_AFTER_S:
                continue
            free = now >= account.until - SLACK
            expect(free, f"no create during a hold: {cause}", f"{type_.name}: {scope} {account}")
            others = [t.name for t, _ in self._under_way.values() if scope in self._scopes(t)]
            expect(not others, "one trial create at a time", f"{scope}: {others}")
            if cause == BOOT_FAILURE:
                self._expect_none_unproven()
        self.quotas.created(type_, self._not_seen(), now)
        self._under_way[op_id] = (type_, now)

    def _expect_none_unproven(self) -> None:
        unproven = [w.id for w in self._engine.pool.workers.values() if self._is_unproven(w)]
        expect(not unproven, "one trial create at a time", f"{unproven} may yet be of use")

    def _is_unproven(self, worker: Worker) -> bool:
        young = worker.appeared_at - self._offset_s > self._useless_until + SLACK
        able = (
            worker.behavior is IdleBehavior.RUN
            and not worker.health.broken
            and not worker.health.has_run
        )
        return young and able and worker.state is not WorkerState.SHUTDOWN

    def _not_seen(self) -> list[InstanceType]:
        """Return the creates that have no answer yet, but for those whose instance is listed."""
        launches = self._engine.pool.launches.values()
        seen = {pending.op_id for pending in launches if pending.instance_id}
        return [type_ for op, (type_, _) in self._under_way.items() if op not in seen]

    @property
    def under_way(self) -> int:
        """Return how many creates have no answer yet."""
        return len(self._under_way)

    def answered(self, op_id: int) -> tuple[InstanceType, float] | None:
        """Note that a create has an answer; return its type and when it was decided."""
        return self._under_way.pop(op_id, None)

    def had(self, type_: InstanceType, began_at: float) -> None:
        """Note that an instance was had: what was short is not any more."""
        self.quotas.had(type_)
        if began_at >= self._doubted.get(type_.name, inf):
            del self._doubted[type_.name]
        for key, account in list(self._accounts.items()):
            cause, scope = key
            of_another = cause == ERROR and scope not in ((), ("type", type_.name))
            if of_another and began_at >= account.failed_at:
                account.others_work = True
            concerned = cause != BOOT_FAILURE and scope in self._scopes(type_)
            if concerned and began_at >= account.until - SLACK:
                del self._accounts[key]

    def doubted(self, token: str, type_: InstanceType, began_at: float, now: float) -> bool:
        """Note a create of which nobody knows what it made; return whether it fails a row."""
        if any(worker.token == token for worker in self._engine.pool.workers.values()):
            self.had(type_, began_at)
            return False
        self._in_doubt[token] = (type_, began_at)
        first_at = self._doubted.get(type_.name)
        held = [
            account.until
            for (cause, scope), account in self._accounts.items()
            if cause == ERROR and scope in self._scopes(type_)
        ]
        until = max([first_at if first_at is not None else -inf, *held])
        if first_at is None or now >= until + FORGOTTEN_AFTER_S:
            self._doubted[type_.name] = now
            return False
        return began_at > first_at

    def _settle_doubts(self) -> None:
        """Note the instances that listings show although their creates left a doubt."""
        if not self._in_doubt:
            return
        shown = {worker.token for worker in self._engine.pool.workers.values()}
        for token in sorted(self._in_doubt.keys() & shown):
            self.had(*self._in_doubt.pop(token))
        for token in sorted(self._in_doubt.keys() - self._engine.pool.launches.keys()):
            del self._in_doubt[token]

    def failed(self, type_: InstanceType, error: CloudError, began_at: float, now: float) -> None:
        """Note what a create call was refused for, and how long that holds."""
        key = self._blamed(type_, error)
        if key[0] == QUOTA:
            self.quotas.refused(type_, key[1], self._not_seen(), now)
            return
        if key == (ERROR, ()) and self._is_its_own(type_, now):
            key = (ERROR, ("type", type_.name))
        known = self._accounts.get(key)
        repeats, until = 0, 0.0
        if known is not None and now < known.until + FORGOTTEN_AFTER_S:
            repeats = known.repeats + (began_at >= known.until - SLACK)
            until = known.until
        until = max(until, now + self._length_s(key[0], error, repeats))
        held = known is not None and now < known.until
        self._accounts[key] = _Account(
            until=until,
            repeats=repeats,
            others_work=known is not None and known.others_work,
            failed_at=known.failed_at if known is not None and held else now,
            first_at=now if known is None or _is_over(known, now) else known.first_at,
        )
        if key == (ERROR, ()):
            self._note_suspect(type_, began_at, now)

    def scarce(self, now: float, patience_s: float) -> frozenset[str]:
        """Return the preemptible types, by name, of which none could be had for some time."""
        short = {
            scope: account.first_at
            for (cause, scope), account in self._accounts.items()
            if cause == CAPACITY and not _is_over(account, now)
        }
        return frozenset(
            type_.name
            for type_ in self._engine.types.values()
            if type_.preemptible
            and any(short.get(s, inf) <= now - patience_s + SLACK for s in self._scopes(type_))
        )

    def _is_its_own(self, type_: InstanceType, now: float) -> bool:
        """Return whether it is known that other types can be created and this one cannot."""
        known = self._accounts.get((ERROR, ("type", type_.name)))
        return known is not None and now < known.until + FORGOTTEN_AFTER_S and known.others_work

    def _note_suspect(self, type_: InstanceType, began_at: float, now: float) -> None:
        """Note that a type failed without a cause: from the second time on others come first."""
        key = (ERROR, ("type", type_.name))
        known = self._accounts.get(key)
        if known is None or now >= known.until + FORGOTTEN_AFTER_S:
            self._accounts[key] = _Account(until=now, failed_at=now)
            return
        repeats = known.repeats + (began_at >= known.until - SLACK)
        until = self._accounts[ERROR, ()].until + 0.1 if repeats else now
        self._accounts[key] = _Account(
            until=max(known.until, until),
            repeats=repeats,
            others_work=known.others_work,
            failed_at=known.failed_at if now < known.until else now,
        )

    def _blamed(self, type_: InstanceType, error: CloudError) -> Key:
        match error:
            case CapacityError():
                return CAPACITY, self._reached(type_, error.scope)
            case QuotaError():
                undivided = error.scope is ErrorScope.GROUP and not any(self._groups.values())
                return QUOTA, () if undivided else self._reached(type_, error.scope)
            case RateLimitError():
                return RATE_LIMIT, ()
            case _:
                return ERROR, ()

    def _reached(self, type_: InstanceType, scope: ErrorScope) -> Scope:
        match scope:
            case ErrorScope.TYPE:
                return ("type", type_.name)
            case ErrorScope.GROUP:
                return self._market(type_)
            case ErrorScope.ALL:
                return ()
            case _:
                assert_never(scope)

    def _length_s(self, cause: str, error: CloudError, repeats: int) -> float:
        told_s = error.retry_after_s if isinstance(error, RateLimitError) else None
        if told_s is not None:
            return min(max(told_s, 1.0), LONGEST_TOLD_S)
        first_s, most_s = {
            CAPACITY: (self._settings.capacity_hold_s, 900.0),
            RATE_LIMIT: (1.0, 60.0),
            ERROR: (0.5, 60.0),
        }[cause]
        doublings = max(0, repeats - 2) if cause == ERROR else repeats
        return float(min(most_s, first_s * 2.0**doublings))

    # ---- instances ----

    def heard(self, event: StartRefused) -> None:
        """Note who refuses a start, before the engine hears of it."""
        attempt = self._engine.pool.attempts.get(event.attempt_id)
        awaited = attempt is not None and attempt.start_op == event.op_id
        if awaited and event.code == "overloaded":
            self._overloaded.add(event.worker_id)

    def _note_of_use(self, now: float) -> None:
        for worker in self._engine.pool.workers.values():
            known = (worker.id, worker.appeared_at)
            if worker.health.has_run and known not in self._of_use:
                self._of_use.add(known)
                self._end_row(worker, now)

    def _end_row(self, worker: Worker, now: float) -> None:
        """End a row of useless ones that is no younger than one that works."""
        if worker.appeared_at < self._useless_since:
            return
        self._useless_in_a_row = 0
        self._useless_since = -inf
        self._useless_until = min(self._useless_until, now)
        self._accounts.pop((BOOT_FAILURE, ()), None)

    def _note_useless(self, now: float) -> None:
        workers = self._engine.pool.workers
        for worker_id in sorted(self._booting.keys() - workers.keys()):
            self._note_one(worker_id, self._booting[worker_id], now)
        self._booting = {
            w.id: w.appeared_at for w in workers.values() if w.state is WorkerState.BOOTING
        }
        for worker in workers.values():
            if worker.health.has_run:
                continue
            given_up = worker.shutdown.reason.startswith(Trigger.BOOT_TIMEOUT.value)
            stopped = worker.shutdown.reason.startswith(Trigger.STOPPED.value)
            given_up = given_up or (stopped and worker.id in self._not_ready)
            by_nothing = worker.id in self._overloaded and not worker.load.busy_with
            of_no_use = given_up or by_nothing or worker.health.complaint or worker.health.verdict
            if of_no_use:
                self._note_one(worker.id, worker.appeared_at, now)
        self._overloaded.clear()
        self._not_ready = {w.id for w in workers.values() if w.state in NOT_READY}

    def _note_one(self, worker_id: str, appeared_at: float, now: float) -> None:
        if (worker_id, appeared_at) in self._useless:
            return
        self._useless.add((worker_id, appeared_at))
        if appeared_at - self._offset_s < self._useless_until - SLACK:
            return
        self._useless_in_a_row += 1
        first = self._useless_in_a_row == 1
        self._useless_since = appeared_at if first else min(self._useless_since, appeared_at)
        if self._useless_in_a_row > 1:
            hold_s = min(900.0, 0.5 * 2.0 ** (self._useless_in_a_row - 2))
            self._useless_until = max(self._useless_until, now + hold_s)
            self._accounts[BOOT_FAILURE, ()] = _Account(until=self._useless_until)

    def look(self, now: float) -> None:
        """Take in what became of instances, and compare the accounts."""
        self._settle_doubts()
        self.quotas.look(now)
        self._note_of_use(now)
        self._note_useless(now)
        mine = {k: a.until for k, a in self._accounts.items() if a.until > now + SLACK}
        pools = {
            (hold.cause.value, self._named(hold.scope)): hold.until - self._offset_s
            for hold in self._engine.pool.holds.active(now + self._offset_s)
            if hold.until - self._offset_s > now + SLACK
        }
        mine |= self.quotas.held(now)
        for key in sorted(mine.keys() | pools.keys()):
            same = abs(mine.get(key, now) - pools.get(key, now)) < SLACK
            what = f"{key}: until {mine.get(key)}, the pool says {pools.get(key)}"
            expect(same, "holds are as long as they must be", what)
        self._expect_same_trial(now)

    def _expect_same_trial(self, now: float) -> None:
        """Expect that one at a time is tried after useless instances until one is of use."""
        account = self._accounts.get((BOOT_FAILURE, ()))
        end = account.until + FORGOTTEN_AFTER_S if account is not None else -inf
        pool = self._engine.pool
        # Once it is over it holds nothing, and nobody but the pool knows that one is tried first.
        latest = [
            record.hold
            for type_ in pool.types.values()
            for record in pool.holds._covering(type_, now + self._offset_s)
            if record.hold.cause is holds.HoldCause.BOOT_FAILURE
        ]
        same = (now < end) == bool(latest) or abs(now - end) < SLACK
        expect(same, "one of use ends the trial", account, "the pool says", latest)

    def _named(self, scope: holds.Scope) -> Scope:
        if scope.type_name is not None:
            return ("type", scope.type_name)
        size = () if scope.cpu_millis_from is None else ("from", str(scope.cpu_millis_from))
        if scope.group is not None:
            return ("market", scope.group, str(scope.preemptible), *size)
        return size
