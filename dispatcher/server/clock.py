"""The one clock of a real process: seconds since the epoch that never step.

Stands alone: it is the one module of the server that reads the clock, as the tidy test lists it.
"""

from __future__ import annotations

import time


class SteadyClock:
    """The wall clock as it was at start, carried on by the monotonic clock.

    A step of the wall clock (NTP, an admin) neither fires nor delays a timeout.
    """

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._offset_s + time.monotonic()
