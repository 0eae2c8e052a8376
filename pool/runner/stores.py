"""Whose store knows what runs here: the one that its dispatcher named, attempt by attempt.

A dispatcher whose store was lost and made anew knows nothing of what runs. What an earlier store
started is told apart by this: when a session names another store than the one before, what there
is by then belongs to the one before.

Stands alone: it is a file of the spool with a form of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Iterable

from longshore.pool.runner import machine


class Stores:
    """What is written down of it in a spool."""

    def __init__(self, spool: str) -> None:
        self._path = os.path.join(spool, "stores")
        self._current = ""
        self._others: dict[str, str] = {}
        # A loss of power leaves a part of it, but also nothing that runs.
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            said = json.loads(machine.read_text(self._path) or "{}")
            self._current = str(said.get("current", ""))
            self._others = {str(key): str(name) for key, name in said.get("others", {}).items()}

    def of(self, attempt_id: str) -> str:
        """Return the store whose dispatcher started an attempt, "" where that is not known."""
        return self._others.get(attempt_id, self._current)

    def hear(self, store: str, attempt_ids: Iterable[str]) -> None:
        """Take in which store a session's dispatcher has; "" for one that does not say.

        `attempt_ids` are all that there are before anything is started by it.
        """
        if not store or store == self._current:
            return
        self._others = {each: self.of(each) for each in attempt_ids}
        self._current = store
        said = {"current": self._current, "others": self._others}
        temporary = f"{self._path}.{os.getpid()}"
        # Where it cannot be kept this session knows it; the next takes more for the one before.
        with contextlib.suppress(OSError):
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(said, file)
            os.rename(temporary, self._path)
