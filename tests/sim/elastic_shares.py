"""The check that spare cpus are shared fairly: what processes really may use, once all is told."""

from __future__ import annotations

from collections import Counter

from longshore.dispatcher.domain.jobs import JobType
from longshore.pool.messages import UpdateLimits
from longshore.pool.model import Worker
from tests.sim.hosts import Host
from tests.sim.machines import room_on
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import SHARED_CPU_MILLIS, expect

TOLD_S = 15.0
"""After how long what was last sent to an instance has arrived for sure."""

Seen = tuple[float, tuple[tuple[str, bool], ...]]


class Shares:
    """Looks at one process: since when each instance runs what it runs, in the same session."""

    def __init__(
        self, process: DispatcherProcess, timeline: Timeline, hosts: dict[str, Host]
    ) -> None:
        self._pool = process.engine.pool
        self._table = process.engine.table
        self._timeline = timeline
        self._hosts = hosts
        self._told_at: dict[str, float] = {}
        self._unsent: Counter[str] = Counter()
        self._seen: dict[str, Seen] = {}

    def decided(self, command: UpdateLimits) -> None:
        """Note that something is to be said of limits on an instance, once a commit is done."""
        self._unsent[command.worker_id] += 1

    def begun(self, command: UpdateLimits) -> None:
        """Note that it is being said."""
        self._unsent[command.worker_id] -= 1
        self._told_at[command.worker_id] = self._timeline.now

    def look(self) -> None:
        """Look at all instances on which nothing has changed for a while."""
        now = self._timeline.now
        for worker in self._pool.workers.values():
            host = self._hosts.get(worker.id)
            quiet = worker.link.session_up and host is not None and host.frozen_until < now - TOLD_S
            if not quiet or host is None:
                self._seen.pop(worker.id, None)
                continue
            attempts = [self._pool.attempts[id_] for id_ in sorted(worker.load.attempts)]
            here = tuple((each.id, each.is_seen_running) for each in attempts)
            seen: Seen = (worker.link.attached_at, here)
            if self._seen.get(worker.id) != seen:
                self._seen[worker.id] = seen
                self._told_at[worker.id] = now
            sent = not self._unsent[worker.id]
            if sent and now > self._told_at.get(worker.id, now) + TOLD_S:
                self._expect_fair(worker, host)
                self._told_at[worker.id] = now

    def _expect_fair(self, worker: Worker, host: Host) -> None:
        """Expect that nobody has less than it asked for, and all together what there is."""
        extras: list[int] = []
        reserved, shared = 0, False
        for attempt_id, given in worker.load.attempts.items():
            reserved += given.cpu_millis
            shared = shared or not given.cpu_millis
            process = host.processes.get(attempt_id)
            if process is None or process.gone or not self._is_elastic(attempt_id):
                continue
            if not self._pool.attempts[attempt_id].is_seen_running:
                continue
            least = given.cpu_millis or SHARED_CPU_MILLIS
            enough = process.cpu_millis >= least
            expect(enough, "everybody has its own cpus", attempt_id, process.cpu_millis, least)
            extras.append(process.cpu_millis - least)
        room = room_on(worker.type, worker.load.machine)
        spare = room.cpu_millis - reserved - SHARED_CPU_MILLIS * shared
        what = f"{worker.id}: {extras} of {spare}"
        expect(sum(extras) <= max(0, spare), "spare cpus are given once", what)
        if len(extras) == len(self._runs(worker)) and extras:
            even = max(extras) - min(extras) <= 1 and sum(extras) == max(0, spare)
            expect(even, "spare cpus are shared evenly", what)

    def _runs(self, worker: Worker) -> list[str]:
        running = [a for a in worker.load.attempts if self._is_elastic(a)]
        return [a for a in running if self._pool.attempts[a].is_seen_running]

    def _is_elastic(self, attempt_id: str) -> bool:
        container_id = self._table.open_attempts.get(attempt_id)
        if container_id is None:
            return False
        job_id = self._table.containers[container_id].job_id
        return self._table.jobs.type_of(job_id) is JobType.ELASTIC
