"""A histogram, as Prometheus has them: counts up to fixed bounds; pure."""

from __future__ import annotations

import itertools
from bisect import bisect_left

from longshore.drivers.errors import BugError


class Histogram:
    """How often a value was at most each of some fixed bounds, with the sum of all values."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Make an empty one; raises `BugError` unless `bounds` ascend and there is one."""
        if not bounds or any(low >= high for low, high in itertools.pairwise(bounds)):
            raise BugError(f"the bounds of a histogram must ascend: {bounds}")
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value; a negative one is a 0, since clocks may differ a little."""
        value = max(0.0, value)
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """Return how many values were counted."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Return how many values were at most each bound, and last how many there were in all."""
        total, counts = 0, []
        for count in self._counts:
            total += count
            counts.append(total)
        return counts
