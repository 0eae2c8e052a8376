"""The check of when an instance is called gone: an account of its own beside the pool's."""

from __future__ import annotations

from pool.messages import Listed, PoolEvent
from tests.sim.process import DispatcherProcess
from tests.sim.truth import expect

LONGEST_LAG_S = 30.0
"""For how long an instance that no listing has shown may be too new for them."""


class Presence:
    """Looks at one process: which listings it was told of, and whom it gave up after which."""

    def __init__(self, process: DispatcherProcess) -> None:
        self._pool = process.engine.pool
        self._listing: Listed | None = None
        self._shown_at: dict[str, float] = {}
        self._appeared_at: dict[str, float] = {}

    def heard(self, event: PoolEvent) -> None:
        """Look at an event before the engine gets it."""
        self._listing = event if isinstance(event, Listed) else None

    def look(self) -> None:
        """Look at who is not there any more after an event, and who is new."""
        workers = self._pool.workers
        for worker_id in sorted(self._appeared_at.keys() - workers.keys()):
            self._expect_gone(worker_id, self._appeared_at.pop(worker_id))
            self._shown_at.pop(worker_id, None)
        for worker_id, worker in workers.items():
            self._appeared_at[worker_id] = worker.appeared_at
        for seen in self._listing.instances if self._listing is not None else ():
            if seen.id in workers and self._listing is not None:
                before = self._shown_at.get(seen.id, self._listing.began_at)
                self._shown_at[seen.id] = max(before, self._listing.began_at)
        self._listing = None

    def _expect_gone(self, worker_id: str, appeared_at: float) -> None:
        """Expect that a listing lacks an instance that began when it should have shown it."""
        listing = self._listing
        lag_s = min(LONGEST_LAG_S, self._pool.settings.boot_timeout_s)
        since = self._shown_at.get(worker_id, appeared_at + lag_s)
        lacking = listing is not None and listing.began_at > since
        expect(lacking, "who is gone is not listed", worker_id, "due at", since, listing)
