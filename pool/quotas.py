"""What errors have told of quotas, remembered when the holds that followed are over; pure.

A refused create tells that its scope may have as many instances, and as many cpus, as it had then:
nobody knows which of the two the quota counts. From then on:

- When an instance leaves, creates go on up to these numbers, and no further.
- Whether more are allowed by now is tried by one create at a time, with nothing else beside it:
  when the hold is over; or before that where one of the two numbers still allows it, as when an
  instance that left makes room for a larger one, or for two smaller ones.
- When there are more instances than the numbers say, the numbers are raised to that.

A job that needs many instances at once has no use for some of them: they would idle, be shut down,
and be created again and again. For such jobs a quota is taken as it was told, and whether it still
is so is tried after delays that double (`begin_trial`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from longshore.drivers.interface import InstanceType
from longshore.pool.backoff import doubled_s
from longshore.pool.holds import EVERYTHING, InstanceCounts, Scope

_LONGEST_S = 3600.0
_LONGEST_OF_FIRST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQuota:
    """So many instances, of so many cpus, are known to be allowed in a scope.

    `reason` is what an error said; `alone` says that it refused one though none was there, so that
    none may be allowed, ever.
    """

    scope: Scope
    most: int
    most_cpu_millis: int
    reason: str
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaBound:
    """How many instances there may be in a scope, as an error of the cloud told."""

    #: How many instances there may be in the scope.
    most: int
    #: How many of these there are not yet.
    left: int
    #: Whether it may be tried if more are allowed by now: from `again_at` on, and always where all
    #: are there to stay, since one create tells then, and nothing stands by for it.
    may_try: bool
    again_at: float
    #: What the error said.
    reason: str
    scope: Scope
    #: The names of the types in the scope.
    covers: frozenset[str]
    #: Whether these are all types.
    everywhere: bool


@dataclass(slots=True, kw_only=True)
class _Told:
    """What is known of one scope."""

    most: int
    most_cpu_millis: int
    #: When it was told, or its trial began.
    since: float
    #: When an error told it last.
    heard_at: float
    again_at: float
    reason: str
    alone: bool
    #: Whether it is tried if all of a job can be had.
    is_tried: bool = False
    #: How many trials there were.
    trials: int = 0


class ObservedQuotas:
    """What errors have told, by scope."""

    def __init__(
        self,
        *,
        covers: Callable[[Scope, InstanceType], bool],
        types: Collection[InstanceType],
        first_s: float,
    ) -> None:
        """Know nothing yet; `first_s` is how long what is told first is taken for true."""
        self._covers = covers
        self._types = types
        self._first_s = first_s
        self._longest_s = max(first_s, min(_LONGEST_S, _LONGEST_OF_FIRST * first_s))
        self._told: dict[Scope, _Told] = {}

    def refused(
        self,
        scope: Scope,
        counted: InstanceCounts,
        reason: str,
        *,
        alone: bool,
        began_at: float,
        now: float,
    ) -> None:
        """Note that beside the instances of a scope no other may be, by a call's error.

        `alone` says that there was none, and that there is nothing else to wait for.
        """
        instances, cpu_millis = counted.there, counted.there_cpu_millis
        known = self._known(scope, now)
        if known is None:
            self._told[scope] = _Told(
                most=instances,
                most_cpu_millis=cpu_millis,
                since=now,
                heard_at=now,
                again_at=now + self._delay_s(0),
                reason=reason,
                alone=alone,
            )
            return
        known.heard_at = now
        if known.is_tried and began_at < known.since:
            # It says nothing of what is tried, but beside what is there one more was too much.
            known.most, known.most_cpu_millis, known.reason = instances, cpu_millis, reason
            return
        if known.is_tried or instances < known.most:
            known.again_at = max(known.again_at, now + self._delay_s(known.trials))
        if known.is_tried or began_at >= known.since:
            known.since = now
        known.most, known.most_cpu_millis = instances, cpu_millis
        known.reason, known.alone, known.is_tried = reason, alone, False

    def made(
        self,
        type_: InstanceType,
        tally: Callable[[Scope], InstanceCounts],
        *,
        began_at: float,
        now: float,
    ) -> None:
        """Note that a create, begun at `began_at`, succeeded: what was told may be too few."""
        for scope in list(self._told):
            known = self._known(scope, now)
            if known is None or not self._covers(scope, type_):
                continue
            counted = tally(scope)
            count = counted.standing
            known.most_cpu_millis = max(known.most_cpu_millis, counted.standing_cpu_millis)
            if count <= known.most:
                continue
            known.most, known.alone = count, False
            if began_at >= known.since and not known.is_tried:
                self.begin_trial(scope, now)

    def begin_trial(self, scope: Scope, now: float) -> None:
        """Let it be tried if there is enough for all of a job, until an error tells anew."""
        known = self._known(scope, now)
        if known is not None:
            known.trials += 1
            known.is_tried, known.since = True, now
            known.again_at = now + self._delay_s(known.trials)

    def forget(self, scope: Scope) -> None:
        """Forget what was told of a scope; nothing is no error."""
        self._told.pop(scope, None)

    def known(self, now: float) -> list[KnownQuota]:
        """Return what is known to be allowed, in the order in which it was told first."""
        found = []
        for scope in list(self._told):
            known = self._known(scope, now)
            if known is not None:
                found.append(
                    KnownQuota(
                        scope=scope,
                        most=known.most,
                        most_cpu_millis=known.most_cpu_millis,
                        reason=known.reason,
                        alone=known.alone,
                    )
                )
        return found

    def bounds(
        self, tally: Callable[[Scope], InstanceCounts], *, now: float
    ) -> tuple[QuotaBound, ...]:
        """Return what was told, in that order, but for what is being tried."""
        found = []
        for scope in list(self._told):
            known = self._known(scope, now)
            if known is None or known.is_tried:
                continue
            counted = tally(scope)
            left = max(0, known.most - counted.taken)
            is_free = not counted.coming and counted.standing >= known.most
            found.append(
                QuotaBound(
                    most=known.most,
                    left=left,
                    may_try=is_free or (left > 0 and known.again_at <= now),
                    again_at=known.again_at,
                    reason=known.reason,
                    scope=scope,
                    covers=frozenset(t.name for t in self._types if self._covers(scope, t)),
                    everywhere=scope == EVERYTHING,
                )
            )
        return tuple(found)

    def _known(self, scope: Scope, now: float) -> _Told | None:
        """Return what is known of a scope, forgetting what nobody has tried for long."""
        known = self._told.get(scope)
        if known is not None and now >= max(known.again_at, known.heard_at) + self._longest_s:
            del self._told[scope]
            return None
        return known

    def _delay_s(self, trials: int) -> float:
        return doubled_s(self._first_s, trials, self._longest_s)
