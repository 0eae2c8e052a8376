"""One call at a time for each name, whoever else calls meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Lets calls for one name wait for each other, and those for several names go on together."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: set[str] = set()

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Wait until nobody else is at `name`, and keep others from it as long as this lasts."""
        with self._changed:
            while name in self._busy:
                self._changed.wait()
            self._busy.add(name)
        try:
            yield
        finally:
            with self._changed:
                self._busy.discard(name)
                self._changed.notify_all()
