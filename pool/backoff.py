"""How long to wait before trying again: delays that double, and what the cloud itself says.

Pure: `now` comes in, ends come out.
"""

from __future__ import annotations

from math import inf

from longshore.drivers.errors import CloudAuthError, CloudError, RateLimitError

_RATE_LIMIT_FIRST_S = 1.0
_RATE_LIMIT_MOST_S = 60.0
_TOLD_MOST_S = 3600.0
REASON_LENGTH = 500


class CallDelay:
    """Calls of one kind wait: as long as the cloud says, else 1 s, doubling to 60 s."""

    def __init__(self) -> None:
        self.until = -inf
        self._failures = 0

    def failed(self, error: CloudError, now: float) -> None:
        """Hold the calls; errors of calls that were under way together count once."""
        if now >= self.until:
            self._failures += 1
        self.until = max(self.until, now + rate_limited_s(error, max(0, self._failures - 1)))

    def succeeded(self, now: float) -> None:
        """Let the next delay be a short one; while the hold is on, a success says nothing."""
        if now >= self.until:
            self._failures = 0


def doubled_s(first_s: float, repeats: int, most_s: float) -> float:
    """Return a delay that doubles with each repeat, up to `most_s` (or `first_s`, if longer)."""
    return min(max(first_s, most_s), first_s * 2.0 ** min(repeats, 30))


def rate_limited_s(error: CloudError, repeats: int) -> float:
    """Return how long to wait: as the cloud says (1 s to an hour), else 1 s, doubling to 60 s."""
    told_s = error.retry_after_s if isinstance(error, RateLimitError) else None
    if told_s is None:
        return doubled_s(_RATE_LIMIT_FIRST_S, repeats, _RATE_LIMIT_MOST_S)
    # In this order, what is no number comes out as 1 s.
    return max(_RATE_LIMIT_FIRST_S, min(told_s, _TOLD_MOST_S))


def sentence(error: CloudError) -> str:
    """Return what an error said, cut, with the remedy where we know one."""
    said = str(error)[:REASON_LENGTH] or type(error).__name__
    if isinstance(error, CloudAuthError):
        remedy = "mend their rights, or give the server others and start it again"
        return f"the cloud refuses our credentials, {remedy}: {said}"
    return said
