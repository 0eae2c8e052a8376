"""Ended attempts whose logs are still on their way from the instances."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.messages import Change, SaveAttempt
from longshore.dispatcher.model import Attempt


class Unreleased(dict[str, Attempt]):
    """Ended attempts by id, until every byte of their logs is kept, or never will come."""

    def __init__(self, changes: list[Change]) -> None:
        """Make it empty; what it writes goes to `changes`, to be journalled."""
        super().__init__()
        self._changes = changes

    def log_complete(self, attempt_id: str) -> bool:
        """Note that an ended attempt's log is complete; return whether it was awaited."""
        attempt = self.pop(attempt_id, None)
        if attempt is None:
            return False
        self._changes.append(SaveAttempt(attempt=replace(attempt, log_complete=True)))
        return True

    def drop_instance(self, worker_id: str) -> None:
        """Stop waiting for logs from an instance that is gone."""
        for attempt_id in sorted(self):
            if self[attempt_id].instance_id == worker_id:
                del self[attempt_id]
