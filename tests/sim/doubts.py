"""Which creates may have made an instance that is not known yet: an account beside the pool's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from longshore.drivers.errors import AmbiguousResult
from longshore.pool.messages import Created, CreateFailed, CreateInstance
from longshore.pool.model import WorkerState
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline

DOUBT_S = 10.0
SLACK = 1e-6


@dataclass(slots=True, kw_only=True)
class _Doubt:
    """A create that began, by the process's clock; `since` it is in doubt, None: under way."""

    type_name: str
    began_at: float
    since: float | None


class Doubts:
    """Keeps account for one process; what an earlier one began is in doubt from its start on."""

    def __init__(self, process: DispatcherProcess, timeline: Timeline) -> None:
        self._pool = process.engine.pool
        self._timeline = timeline
        self._process = process
        self._doubts = {
            token: _Doubt(
                type_name=pending.launch.type_name,
                began_at=pending.launch.created_at,
                since=timeline.now,
            )
            for token, pending in self._pool.launches.items()
        }

    def created(self, command: CreateInstance) -> None:
        """Note a create that is decided."""
        self._doubts[command.launch.token] = _Doubt(
            type_name=command.launch.type_name, began_at=self._process.now(), since=None
        )

    def answered(self, event: Created | CreateFailed) -> None:
        """Note the answer: only one that nobody knows leaves a doubt."""
        doubt = self._doubts.get(event.token)
        if doubt is None:
            return
        if isinstance(event, CreateFailed) and isinstance(event.error, AmbiguousResult):
            doubt.since = self._timeline.now
        else:
            del self._doubts[event.token]

    def look(self) -> None:
        """Forget the doubts whose instances are known, and those that are over."""
        for worker in self._pool.workers.values():
            self._doubts.pop(worker.token, None)
        over = self._timeline.now - DOUBT_S + SLACK
        for token in list(self._doubts):
            since = self._doubts[token].since
            if since is not None and since <= over:
                del self._doubts[token]

    def count(self) -> int:
        """Return how many instances there may be that no worker stands for.

        One that is shut down at this very moment stood for its create when the pass decided.
        """
        self.look()
        now = self._process.now()
        began: dict[str, float] = {}
        doubts: Counter[str] = Counter()
        for doubt in self._doubts.values():
            doubts[doubt.type_name] += 1
            first_at = began.get(doubt.type_name, doubt.began_at)
            began[doubt.type_name] = min(first_at, doubt.began_at)
        standing = Counter(
            worker.type.name
            for worker in self._pool.workers.values()
            if (worker.state is not WorkerState.SHUTDOWN or worker.state_since >= now)
            and not worker.token
            and worker.appeared_at >= began.get(worker.type.name, worker.appeared_at) - SLACK
        )
        return sum((doubts - standing).values())
