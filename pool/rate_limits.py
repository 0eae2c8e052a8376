"""Gates: how many calls of the cloud's, and how many probes, may begin in a second.

Pure. What finds no token waits here: each kind of call in the order in which it was asked for,
probes too. Creates do not wait here: who plans them is told how many may begin.
"""

from __future__ import annotations

from math import inf

from longshore.drivers.errors import BugError
from longshore.pool.backoff import CallDelay
from longshore.pool.messages import (
    AskBills,
    DestroyInstance,
    FindInstance,
    ListInstances,
    SetTags,
)

QueuedCall = DestroyInstance | ListInstances | FindInstance | SetTags | AskBills

# By how many seconds later ones of the kinds before may overtake: those of equal age go in this
# order, and none waits for ever.
_PATIENCE_S: dict[type[QueuedCall], float] = {
    DestroyInstance: 0.0,
    ListInstances: 2.0,
    FindInstance: 3.0,
    SetTags: 6.0,
    AskBills: 10.0,
}
_PATIENCE_OF_CREATES_S = 4.0


class TokenBucket:
    """Tokens that come at a rate; at most one second's worth, or one, lie ready."""

    def __init__(self, per_second: float) -> None:
        """Start full; `per_second` is above 0."""
        self._interval_s = 1.0 / per_second
        # With n tokens lying ready the next one could have been taken n - 1 intervals ago.
        self._slack_s = max(0.0, (per_second - 1.0) * self._interval_s)
        self._next_at = -inf

    def take(self, now: float) -> bool:
        """Take a token; False when there is none."""
        if now < self._next_at:
            return False
        self._next_at = self._after(self._earliest(now))
        return True

    def ready(self, now: float, most: int) -> int:
        """Return how many tokens may be taken at once now, counting up to `most`."""
        count, next_at = 0, self._earliest(now)
        while count < most and next_at <= now:
            count, next_at = count + 1, self._after(next_at)
        return count

    def next_at(self, now: float) -> float:
        """Return when a token may be taken: `now`, or later."""
        return max(now, self._next_at)

    def _earliest(self, now: float) -> float:
        return max(self._next_at, now - self._slack_s)

    def _after(self, taken_at: float) -> float:
        return taken_at + self._interval_s


class CloudGate:
    """One rate for all calls of the cloud's, and the holds of those that are no creates.

    One call per kind and instance waits at a time, so that what waits is bounded by the workers.
    """

    def __init__(self, per_second: float) -> None:
        self._bucket = TokenBucket(per_second)
        self.listings = CallDelay()
        self.changes = CallDelay()
        self.finds = CallDelay()
        self.bills = CallDelay()
        self._waiting: dict[type[QueuedCall], dict[str, tuple[float, QueuedCall]]] = {
            kind: {} for kind in _PATIENCE_S
        }
        self.creates_since: float | None = None

    def __len__(self) -> int:
        """Return how many calls wait."""
        return sum(len(waiting) for waiting in self._waiting.values())

    def ask(self, call: QueuedCall, now: float) -> None:
        """Let a call wait for its turn, in place of a waiting one that does the same."""
        instance_id = "" if isinstance(call, ListInstances | AskBills) else call.instance_id
        if isinstance(call, DestroyInstance):
            # Nobody reads the tags of what is being destroyed.
            self._waiting[SetTags].pop(instance_id, None)
        waiting = self._waiting[type(call)]
        since = waiting[instance_id][0] if instance_id in waiting else now
        waiting[instance_id] = (since, call)

    def drop(self, instance_id: str) -> None:
        """Forget what waits for an instance that is gone."""
        for kind in (DestroyInstance, FindInstance, SetTags):
            self._waiting[kind].pop(instance_id, None)

    def release(self, now: float) -> list[QueuedCall]:
        """Return the calls whose turn it is, in order; their tokens are taken."""
        released = []
        while (kind := self._next_kind(now)) is not None and self._bucket.take(now):
            instance_id, (_, call) = next(iter(self._waiting[kind].items()))
            del self._waiting[kind][instance_id]
            released.append(call)
        return released

    def take_for_create(self, now: float) -> None:
        """Take the token of a create; `BugError` when `creates_left` says that there is none."""
        if not self._bucket.take(now):
            raise BugError("a create without a token: max_cloud_ops_per_second is exceeded")

    def creates_left(self, now: float, most: int) -> int:
        """Return for how many creates there are tokens now, counting up to `most`."""
        return self._bucket.ready(now, most)

    def creates_wait(self, *, wait: bool, served: bool, now: float) -> None:
        """Note whether creates wait for tokens, so that their turn comes and wakes the planner.

        `served` says that some had one just now.
        """
        if not wait:
            self.creates_since = None
        elif served or self.creates_since is None:
            self.creates_since = now

    def is_turn_of_creates(self, now: float) -> bool:
        """Return whether creates wait for tokens and there are some now."""
        return self.creates_since is not None and self._bucket.next_at(now) <= now

    def next_at(self, now: float) -> float | None:
        """Return when the next call, or create, has its turn; None when none waits."""
        times = [self._held_until(kind) for kind, waiting in self._waiting.items() if waiting]
        if self.creates_since is not None:
            times.append(now)
        return max(min(times), self._bucket.next_at(now)) if times else None

    def _held_until(self, kind: type[QueuedCall]) -> float:
        if kind is ListInstances:
            return self.listings.until
        if kind is AskBills:
            return self.bills.until
        return self.finds.until if kind is FindInstance else self.changes.until

    def _next_kind(self, now: float) -> type[QueuedCall] | None:
        """Return the kind of the call that is next, None when none is or it is creates' turn."""
        ranked = [
            (next(iter(waiting.values()))[0] + _PATIENCE_S[kind], order, kind)
            for order, (kind, waiting) in enumerate(self._waiting.items())
            if waiting and now >= self._held_until(kind)
        ]
        if not ranked:
            return None
        rank, _, kind = min(ranked, key=lambda entry: entry[:2])
        creates_since = self.creates_since
        if creates_since is not None and creates_since + _PATIENCE_OF_CREATES_S < rank:
            return None
        return kind


class ProbeGate:
    """The rate of probes: first come, first served."""

    def __init__(self, per_second: float) -> None:
        self._bucket = TokenBucket(per_second)
        self._waiting: dict[str, None] = {}

    def __len__(self) -> int:
        """Return how many workers wait for a probe."""
        return len(self._waiting)

    def __contains__(self, worker_id: str) -> bool:
        """Return whether a worker waits for its probe."""
        return worker_id in self._waiting

    def ask(self, worker_id: str) -> None:
        """Let a worker wait for its turn; one that waits already keeps its place."""
        self._waiting.setdefault(worker_id)

    def first(self) -> str | None:
        """Return the worker that is next, None when none waits."""
        return next(iter(self._waiting), None)

    def drop(self, worker_id: str) -> None:
        """Let a worker wait no longer; one that does not is no error."""
        self._waiting.pop(worker_id, None)

    def take(self, now: float) -> bool:
        """Take the token of a probe; False when there is none."""
        return self._bucket.take(now)

    def next_at(self, now: float) -> float | None:
        """Return when the next probe has its turn, None when none waits."""
        return self._bucket.next_at(now) if self._waiting else None
