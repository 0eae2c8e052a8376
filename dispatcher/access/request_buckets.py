"""How often each caller may ask: a bucket for each; pure.

A bucket is filled at a rate and holds a burst; each request takes one out of it. Callers that have
not asked for as long as it takes to fill one are forgotten: a full bucket is as good as none.

Stands alone: it is pure, and tables test it.
"""

from __future__ import annotations

from dataclasses import dataclass

_CALLERS_MOST = 10_000
"""How many are known before those with full buckets are forgotten."""


@dataclass(slots=True, kw_only=True)
class _Bucket:
    left: float
    at: float


class RequestBuckets:
    """The buckets of all callers; used on the loop's thread."""

    def __init__(self, *, requests_per_s: float, burst: int) -> None:
        self._requests_per_s = requests_per_s
        self._burst = burst
        self._buckets: dict[str, _Bucket] = {}

    def take(self, caller: str, now_s: float) -> float:
        """Take a request of a caller's; return 0.0, or after how many seconds there is one.

        `now_s` is of a clock that never goes back.
        """
        bucket = self._buckets.get(caller)
        if bucket is None:
            self._forget(now_s)
            bucket = self._buckets[caller] = _Bucket(left=float(self._burst), at=now_s)
        filled = (now_s - bucket.at) * self._requests_per_s
        bucket.left, bucket.at = min(float(self._burst), bucket.left + filled), now_s
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._requests_per_s
        bucket.left -= 1.0
        return 0.0

    def _forget(self, now_s: float) -> None:
        if len(self._buckets) < _CALLERS_MOST:
            return
        full_s = self._burst / self._requests_per_s
        self._buckets = {k: v for k, v in self._buckets.items() if now_s - v.at < full_s}
