"""How much a far end may send: so much at once, and so much a second after that. Pure."""

from __future__ import annotations


class MessageAllowance:
    """An amount that grows with time up to a most, and that can be overdrawn."""

    def __init__(self, *, most: float, per_second: float) -> None:
        """Begin with all of it; `per_second` is above 0."""
        self._most = most
        self._per_second = per_second
        self._left = most
        self._at: float | None = None

    def spend(self, amount: float, now: float) -> float:
        """Take an amount; return the seconds until what is overdrawn has grown back, 0.0 for none.

        `now` is in seconds, and never goes back.
        """
        if self._at is not None:
            self.grant((now - self._at) * self._per_second)
        self._at = now
        self._left -= amount
        return max(0.0, -self._left / self._per_second)

    def grant(self, amount: float) -> None:
        """Add an amount; what exceeds the most is lost."""
        self._left = min(self._most, self._left + amount)
