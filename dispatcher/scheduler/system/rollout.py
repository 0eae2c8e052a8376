"""How fast a per-instance job is updated, and how often a plan is tried again; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from longshore.dispatcher.domain.containers import Reason

# ---- rounds of updates ---------------------------------------------------------------------------
from longshore.dispatcher.domain.jobs import PerInstanceKind, UpdateStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """So many destructive updates that began at one moment, in seconds since the epoch."""

    began_at: float
    updates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The waves of a job's updates that still keep others waiting.

    They belong to the job, not to a revision: a revision that follows at once is no faster for it.
    """

    rounds: tuple[Wave, ...] = ()

    def at(self, now: float, update: UpdateStrategy) -> Rollout:
        """Return it without the rounds that are over, the oldest first."""
        rounds = self.not_after(now).rounds
        left = [each for each in rounds if now < each.began_at + update.stagger_s]
        return Rollout(rounds=tuple(sorted(left, key=lambda each: each.began_at)))

    def not_after(self, now: float) -> Rollout:
        """Return it with no round of the future, which a clock that was set back leaves.

        Such a one counts as one of this moment.
        """
        rounds = (replace(each, began_at=min(now, each.began_at)) for each in self.rounds)
        return Rollout(rounds=tuple(rounds))

    def left(self, update: UpdateStrategy) -> int:
        """Return how many updates may begin now; it is to be as of now (`at`)."""
        return max(0, update.max_parallel - sum(each.updates for each in self.rounds))

    def next_at(self, update: UpdateStrategy) -> float | None:
        """Return when more may begin, None while nothing keeps them waiting."""
        return self.rounds[0].began_at + update.stagger_s if self.rounds else None

    def having_begun(self, updates: int, now: float) -> Rollout:
        """Return it with some more updates that begin now."""
        if not updates:
            return self
        return Rollout(rounds=(*self.rounds, Wave(began_at=now, updates=updates)))


# ---- plans that are not carried out in full ------------------------------------------------------


class TryResult(Enum):
    """What became of a plan: all was carried out, a part, or nothing (it was stale, say)."""

    ACCEPTED = "accepted"
    PROGRESSED = "progressed"
    REJECTED = "rejected"


class RestartVerdict(Enum):
    """What follows from the tries so far."""

    DONE = "done"
    AGAIN = "again"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAttempts:
    """How often in a row the plans for a job made no progress.

    A first plan and as many more as its kind allows. One that makes progress starts the count anew,
    so that a job on many instances is not given up while it gets on.
    """

    kind: PerInstanceKind
    retries: int = 0
    verdict: RestartVerdict = RestartVerdict.AGAIN
    #: Why it failed, None while it has not.
    reason: Reason | None = None

    def after(self, result: TryResult, why: str = "") -> RestartAttempts:
        """Return it after one more try; `why` says what kept a plan from being carried out."""
        match result:
            case TryResult.ACCEPTED:
                return RestartAttempts(kind=self.kind, verdict=RestartVerdict.DONE)
            case TryResult.PROGRESSED:
                return RestartAttempts(kind=self.kind, retries=1)
            case TryResult.REJECTED if self.retries < self.kind.most_retries:
                return RestartAttempts(kind=self.kind, retries=self.retries + 1)
            case TryResult.REJECTED:
                message = f"its plan was tried again {self.retries} times without progress: {why}"
                reason = Reason(code="plan_rejected", message=message)
                return replace(self, verdict=RestartVerdict.FAILED, reason=reason)
            case _:
                assert_never(result)
