"""What errors have told of quotas, remembered when the holds that followed are over; pure.

A hold ends when an instance leaves. For one who needs many instances at once that would be too
soon: with those that are within the quota it can do nothing, they go, and it would create them
again and again. Whether a quota is still what it was is tried after delays that double.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from drivers.interface import InstanceType
from pool.delays import doubled_s
from pool.holds import EVERYTHING, Scope

_LONGEST_S = 3600.0
_LONGEST_OF_FIRST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaBound:
    """There may be no more than `most` instances in a scope, an error has told.

    `left` is how many of these there are not yet. `may_try` says that it may be tried whether there
    may be more by now: from `again_at` on, and always where all are there to stay, since one create
    tells then, and nothing stands by for it. `covers` are the names of the types, `everywhere` says
    that these are all; `reason` is what the error said.
    """

    most: int
    left: int
    may_try: bool
    again_at: float
    reason: str
    scope: Scope
    covers: frozenset[str]
    everywhere: bool


@dataclass(slots=True, kw_only=True)
class _Told:
    """What is known of one scope; `most` is None while it is tried whether there may be more.

    `since` is when that was told, or the trial began; `trials` is how many there were.
    """

    most: int | None
    since: float
    again_at: float
    reason: str
    trials: int = 0


class ToldQuotas:
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
        self, scope: Scope, instances: int, reason: str, *, began_at: float, now: float
    ) -> None:
        """Note that beside so many instances in a scope no other may be, by a call's error."""
        known = self._known(scope, now)
        if known is None:
            until = now + self._delay_s(0)
            self._told[scope] = _Told(most=instances, since=now, again_at=until, reason=reason)
            return
        if known.most is None and began_at < known.since:
            return
        if known.most is None or instances < known.most:
            known.again_at = max(known.again_at, now + self._delay_s(known.trials))
        if known.most is None or began_at >= known.since:
            known.since = now
        known.most, known.reason = instances, reason

    def made(
        self, type_: InstanceType, instances: Callable[[Scope], int], *, began_at: float, now: float
    ) -> None:
        """Note that a create, begun at `began_at`, succeeded: what was told may be too few.

        `instances` counts those in a scope that are not going.
        """
        for scope in list(self._told):
            known = self._known(scope, now)
            if known is None or known.most is None or not self._covers(scope, type_):
                continue
            count = instances(scope)
            if count <= known.most:
                continue
            if began_at < known.since:
                known.most = count
            else:
                self.begin_trial(scope, now)

    def begin_trial(self, scope: Scope, now: float) -> None:
        """Take nothing for true that was told of a scope, until an error tells it anew."""
        known = self._known(scope, now)
        if known is not None:
            known.trials += 1
            known.most, known.since = None, now
            known.again_at = now + self._delay_s(known.trials)

    def bounds(
        self,
        *,
        instances: Callable[[Scope], int],
        going: Callable[[Scope], int],
        coming: Callable[[Scope], int],
        now: float,
    ) -> tuple[QuotaBound, ...]:
        """Return what was told, in that order.

        `instances` counts those that there are in a scope; of these some are `going`, beside them
        others are `coming`. Nobody knows which of both the quota counts.
        """
        found = []
        for scope in list(self._told):
            known = self._known(scope, now)
            if known is None or known.most is None:
                continue
            there, on_their_way = instances(scope), coming(scope)
            left = max(0, known.most - there - on_their_way)
            is_free = not on_their_way and there - going(scope) >= known.most
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
        if known is not None and now >= known.again_at + self._longest_s:
            del self._told[scope]
            return None
        return known

    def _delay_s(self, trials: int) -> float:
        return doubled_s(self._first_s, trials, self._longest_s)
