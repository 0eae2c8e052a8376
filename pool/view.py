"""What those outside of it may know of a pool: its state as it is now, to be read only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from longshore.drivers.interface import TYPE_TAG, InstanceType, Leftover
from longshore.pool import boot_failures, launching, leaks, probing, signals, strays
from longshore.pool.core import PoolCore
from longshore.pool.holds import CreateBlock, CreateHold, InstanceCounts, Scope
from longshore.pool.leaks import Leak
from longshore.pool.model import PendingLaunch, PoolAttempt, PoolSettings, Stopping, Worker
from longshore.pool.statistics import Statistics
from longshore.pool.troubles import Trouble


class PoolView:
    """Reads one pool, on the engine's thread; nothing in here changes it.

    What is returned is of this moment. Workers, launches, attempts and statistics are the pool's
    own, and change with it: they are to be read at once, and not kept. Times are in seconds since
    the epoch.
    """

    def __init__(self, core: PoolCore) -> None:
        self._core = core

    # ---- instances ---------------------------------------------------------------------------

    @property
    def workers(self) -> Mapping[str, Worker]:
        """Return the instances that are known, by id."""
        return self._core.workers

    @property
    def launches(self) -> Mapping[str, PendingLaunch]:
        """Return the launches that have a journal, by token."""
        return self._core.launches

    @property
    def types(self) -> Mapping[str, InstanceType]:
        """Return the configured types, by name."""
        return self._core.types

    @property
    def settings(self) -> PoolSettings:
        """Return the settings of the pool."""
        return self._core.settings

    @property
    def statistics(self) -> Statistics:
        """Return what was counted since the start."""
        return self._core.statistics

    def as_found(self, type_: InstanceType) -> InstanceType:
        """Return a type as its instances turned out to be."""
        return self._core.as_found(type_)

    def is_unlisted(self, instance_id: str) -> bool:
        """Return whether an earlier process knew an instance, and no listing has told yet."""
        return instance_id in self._core.unlisted

    def is_offline(self, worker: Worker, now: float) -> bool:
        """Return whether a worker is not reached, and gets no work for that."""
        return probing.is_offline(self._core, worker, now)

    def number_of_instances(self) -> int:
        """Return how many there are, with those that are missing or may yet come."""
        expected_launches = self._core.expected_launches()
        return (
            len(self.workers)
            + len(expected_launches)
            + len(self._core.unlisted_beside(expected_launches))
        )

    def numbers_by_type(self) -> Mapping[str, int]:
        """Return how many of these there are of each type, by its name; of none it has no entry."""
        core, expected = self._core, self._core.expected_launches()
        missing = (core.unlisted[id_] for id_ in core.unlisted_beside(expected))
        return Counter(
            [
                *(worker.type.name for worker in self.workers.values()),
                *(pending.launch.type_name for pending in expected),
                *(dict(seen.tags).get(TYPE_TAG, "") for seen in missing),
            ]
        )

    def kill_at(self, attempt_id: str) -> float | None:
        """Return when KILL comes to an attempt, None while nothing sets a time."""
        attempt = self._core.attempts.get(attempt_id)
        phase = None if attempt is None else attempt.phase
        if attempt is None or not isinstance(phase, Stopping) or phase.since is None:
            return None
        return phase.since + signals.grace_of(self._core, attempt)

    def strays(self) -> Sequence[PoolAttempt]:
        """Return the strays that are kept, by instance and attempt."""
        return strays.kept(self._core)

    # ---- creating ----------------------------------------------------------------------------

    @property
    def creates_in_flight(self) -> int:
        """Return how many create calls are under way."""
        return len(launching.types_in_flight(self._core))

    def holds(self, now: float) -> Sequence[CreateHold]:
        """Return the holds of creates that last."""
        return self._core.holds.active(now)

    def is_covered(self, hold: CreateHold, type_: InstanceType) -> bool:
        """Return whether a hold is for a type."""
        return self._core.holds.covers(hold.scope, type_)

    def create_blocks(self, now: float) -> Callable[[InstanceType], CreateBlock | None]:
        """Return what tells what keeps a type from being created now, None for nothing."""
        core, tally = self._core, self._tally()
        in_flight = launching.types_in_flight(core)
        unproven = core.boot_failures > 0 and boot_failures.any_untried(core)
        return lambda type_: core.holds.create_block(
            type_, in_flight=in_flight, unproven=unproven, tally=tally, now=now
        )

    def _tally(self) -> Callable[[Scope], InstanceCounts]:
        """Return what counts the instances of a scope, each scope once."""
        return cache(lambda scope: launching.tally_of(self._core, scope))

    def at_quota(self, now: float) -> bool:
        """Return whether a quota of the cloud's holds creates, or is tried just now."""
        return launching.at_quota(self._core, now) or launching.tries_quota(self._core, now)

    def create_troubles(self) -> Sequence[Trouble]:
        """Return the creates that fail."""
        return self._core.troubles.told()

    @property
    def boot_failures(self) -> int:
        """Return how many instances in a row were of no use."""
        return self._core.boot_failures

    @property
    def boot_failure_reason(self) -> str:
        """Return for what the last of these was of no use."""
        return self._core.boot_failure_reason

    @property
    def boot_failures_since(self) -> float:
        """Return when the oldest of these was bought."""
        return self._core.boot_failures_since

    # ---- listings, leaks, and the store ------------------------------------------------------

    @property
    def began_at(self) -> float:
        """Return when this process began."""
        return self._core.began_at

    @property
    def listed_once(self) -> bool:
        """Return whether a complete listing has come."""
        return self._core.listed_once

    @property
    def listed_at(self) -> float:
        """Return when the last complete listing began, 0.0 for never."""
        return self._core.listed_at

    @property
    def listing_failures(self) -> int:
        """Return how many listings in a row have failed."""
        return self._core.listing_failures

    @property
    def listing_problem(self) -> str:
        """Return why the latest listing failed, "" if it did not."""
        return self._core.listing_problem

    @property
    def listing_trouble(self) -> Trouble | None:
        """Return since when listings fail, None while they do not."""
        return self._core.listing_trouble

    def is_listing_current(self, now: float) -> bool:
        """Return whether the last complete listing is new enough to conclude from."""
        return leaks.listing_is_current(self._core, now)

    def leaks(self, now: float) -> list[Leak]:
        """Return what is billed and not wanted, without what it costs."""
        return leaks.find_leaks(self._core, now)

    def leftover_leak(self, leftover: Leftover, since: float) -> Leak:
        """Return what an instance that is gone has left as a leak."""
        return leaks.leftover_leak(self._core, leftover, since)

    @property
    def stalled(self) -> bool:
        """Return whether the store cannot be written, so that nothing is done."""
        return self._core.stalled

    @property
    def recovered_at(self) -> float:
        """Return when it could be written again last, less than all times for never stalled."""
        return self._core.recovered_at
