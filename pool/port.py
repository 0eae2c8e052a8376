"""The one way in which schedulers reach the pool: to look at it, and to start, stop and create.

All that a scheduler can do to instances and attempts is in `PoolPort`; how the pool does it, and
what else it knows, is the pool's alone. What is done here is journalled by whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from longshore.drivers.interface import InstanceType, Resources
from longshore.pool import attempts, launching, probing, shutdown, shutdown_decision
from longshore.pool.changes import ChangeFeed
from longshore.pool.holds import Allowance, Scope
from longshore.pool.messages import UpdateLimits
from longshore.pool.model import AttemptOrder, Launch, Payer, PendingLaunch, PoolAttempt, Worker
from longshore.pool.quotas import QuotaBound
from longshore.pool.view import PoolView


class PoolPort(PoolView):
    """What schedulers see of a pool, beside what all may see, and all that they do to it.

    Times are in seconds since the epoch.
    """

    # ---- what they do ------------------------------------------------------------------------

    def start(
        self,
        worker: Worker,
        order: AttemptOrder,
        resources: Resources,
        now: float,
        *,
        grace_s: float | None,
        user: str,
    ) -> None:
        """Put an attempt on a ready worker and ask for its start; see `attempts.place`."""
        attempts.place(self._core, worker, order, resources, now, grace_s=grace_s, user=user)

    def stop(self, attempt_id: str, now: float) -> None:
        """Ask an attempt to end; one that is unknown, has ended or is to is left alone."""
        attempts.kill(self._core, attempt_id, now)

    def evict(self, attempt_id: str, now: float) -> None:
        """Ask an attempt to end for which somebody waits: it gets no more time than all get."""
        attempts.shorten_grace(self._core, attempt_id)
        attempts.kill(self._core, attempt_id, now)

    def limit_cpus(self, worker_id: str, attempt_id: str, cpu_millis: int) -> None:
        """Let what runs use so much of the cpus of its instance from now on."""
        limit = UpdateLimits(worker_id=worker_id, attempt_id=attempt_id, cpu_millis=cpu_millis)
        self._core.commands.append(limit)

    def launch(self, type_: InstanceType, payer: Payer, now: float) -> str:
        """Create an instance of a type for somebody; return the launch's token."""
        return launching.request_launch(self._core, type_, payer, now)

    def release(self, worker_id: str, now: float) -> None:
        """Shut down an idle worker whose place somebody needs; one that is not idle stays."""
        shutdown.on_unwanted(self._core, self._core.workers[worker_id], now)

    def set_awaited(self, worker_ids: frozenset[str], now: float) -> None:
        """Say which workers somebody waits for: these are not idle for too long."""
        shutdown.set_awaited(self._core, worker_ids, now)

    def after_pass(self, *, wait: bool, served: bool, now: float) -> None:
        """Say whether creates `wait` for a token, so that there is a pass at the next one."""
        launching.after_pass(self._core, wait=wait, served=served, now=now)

    def try_quota(self, scope: Scope, now: float) -> None:
        """Note that a create tries whether a quota still is what errors told of it."""
        self._core.holds.quotas.begin_trial(scope, now)

    def follow(self) -> ChangeFeed:
        """Return a feed of the workers that change from now on, for one reader that drains it."""
        return self._core.follow()

    def touch(self, worker_id: str) -> None:
        """Let all who follow look at a worker again."""
        self._core.touch(worker_id)

    # ---- what they see -----------------------------------------------------------------------

    @property
    def claimed_workers(self) -> frozenset[str]:
        """Return the workers that somebody waits for."""
        return self._core.claimed_workers

    def attempt(self, attempt_id: str) -> PoolAttempt | None:
        """Return an attempt that is or may be on a worker, None for all others."""
        return self._core.attempts.get(attempt_id)

    def has_strays(self, worker_id: str) -> bool:
        """Return whether something runs on a worker that no container wants."""
        return any(attempt.stray for attempt in self._core.attempts_on(worker_id))

    def is_draining(self, worker: Worker) -> bool:
        """Return whether a worker is to go once it is empty."""
        return shutdown_decision.is_draining(worker)

    def takes_work(self, worker: Worker, now: float) -> bool:
        """Return whether work may be planned onto a worker, now or when it is ready."""
        return probing.takes_work(self._core, worker, now)

    def staying_on_shared_cpu(self, worker: Worker) -> int:
        """Return how many of those who share a cpu on a worker are not told to end."""
        return attempts.staying_on_shared_cpu(self._core, worker)

    def expected_launches(self) -> Sequence[PendingLaunch]:
        """Return the launches, oldest first, that may still bring an instance not known here."""
        return self._core.expected_launches()

    def unlisted(self) -> Mapping[str, str]:
        """Return the token of the launch, "" for none, of each missing instance."""
        return self._core.unlisted_tokens()

    def number_unlisted_beside(self, expected_launches: Sequence[PendingLaunch]) -> int:
        """Return how many instances are missing, but for those that such launches made."""
        return len(self._core.unlisted_beside(expected_launches))

    def leaving(self, now: float) -> Sequence[InstanceType]:
        """Return the types of the instances whose places in quotas will soon be free."""
        return shutdown.leaving(self._core, now)

    def type_of(self, launch: Launch) -> InstanceType:
        """Return a launch's type; one that is not configured (any more) has no room."""
        return launching.type_of(self._core, launch)

    @property
    def creates_left(self) -> int:
        """Return how many create calls more may be under way, holds and tokens aside."""
        return launching.creates_left(self._core)

    def create_tokens_left(self, now: float) -> int:
        """Return how many of these the rate of calls of the cloud allows now."""
        return self._core.cloud_gate.creates_left(now, self.creates_left)

    def allowances(self, now: float) -> Callable[[InstanceType], Mapping[Scope, Allowance]]:
        """Return what tells how many more of a type the holds and quotas allow."""
        tally = self._tally()
        return lambda type_: self._core.holds.allowances(type_, tally=tally, now=now)

    def may_be_refused(self, type_: InstanceType, now: float) -> bool:
        """Return whether one more of a type would be the last that a quota allows, or more."""
        return launching.may_be_refused(self._core, type_, now)

    def is_quota_reached(self, now: float) -> bool:
        """Return whether a quota of the cloud's holds creates, all or some."""
        return launching.at_quota(self._core, now)

    def known_quotas(self, now: float) -> Sequence[tuple[frozenset[str], int]]:
        """Return the types of each quota that errors told of, and how many more may be had."""
        return launching.known_quotas(self._core, now)

    def told_quotas(self, now: float) -> tuple[QuotaBound, ...]:
        """Return what errors have told of quotas, and what they leave."""
        return launching.told_quotas(self._core, now)

    def short_since(self, type_: InstanceType, now: float) -> float | None:
        """Return since when the cloud is short of a type, None while it is not."""
        return self._core.holds.short_since(type_, now)

    def is_short(self, type_: InstanceType, now: float) -> bool:
        """Return whether no create of a type is tried now, since the cloud is short of it."""
        return self._core.holds.is_short(type_, now)
