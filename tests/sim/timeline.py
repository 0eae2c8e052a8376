"""Virtual time: what happens when, in one order that hangs on nothing but the seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

Action = Callable[[], None]


class Timeline:
    """A heap of actions; those of one moment come in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Action]] = []
        self._planned = 0

    def at(self, when: float, action: Action) -> None:
        """Let `action` happen at `when`, or now when that has passed."""
        self._planned += 1
        heapq.heappush(self._heap, (max(when, self.now), self._planned, action))

    def after(self, delay_s: float, action: Action) -> None:
        """Let `action` happen in `delay_s` seconds."""
        self.at(self.now + delay_s, action)

    def run(self, until: float, done: Callable[[], bool]) -> None:
        """Let everything happen up to `until`, or until `done` after some action."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, action = heapq.heappop(self._heap)
            action()
            if done():
                return
        self.now = until


class Dice:
    """Dice for one part of the world, so that a change in one leaves the others' throws alone."""

    def __init__(self, seed: int, part: str) -> None:
        self._random = random.Random(f"{seed}:{part}")

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return self._random.random()

    def state(self) -> object:
        """Return what the next numbers follow from."""
        return self._random.getstate()

    def falls(self, share: float) -> bool:
        """Return whether something happens that happens in `share` of cases."""
        return share > 0 and self._random.random() < share

    def between(self, least: float, most: float) -> float:
        """Return a number between two others."""
        return least + (most - least) * self._random.random()

    def whole(self, least: int, most: int) -> int:
        """Return a whole number from `least` to `most`, both included."""
        return least + int((most - least + 1) * self._random.random())

    def soon(self, mean_s: float) -> float:
        """Return a waiting time as of things that come by chance, `mean_s` on average."""
        return self._random.expovariate(1.0 / mean_s)
