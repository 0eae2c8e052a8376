"""The latest attempts of per-instance jobs that have ended, on the instances that there are.

Stands alone: they outlive a pass, and are indexed twice, all by job and instance, and once more by
job those that failed for good. Only this module has to keep the two alike.
"""

from __future__ import annotations

from collections.abc import Collection

from longshore.dispatcher.scheduler.system.model import PastAttempt
from longshore.dispatcher.scheduler.system.snapshot import not_after


class PastAttempts:
    """Knows, of each job and instance, the attempt that ended last.

    Those that failed for good are kept apart: what is asked for each job of a list is about them.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], PastAttempt] = {}
        self._failed: dict[str, dict[str, PastAttempt]] = {}

    def put(self, past: PastAttempt) -> None:
        """Take in an attempt that has ended after all others of its job on its instance."""
        self._latest[past.job_id, past.instance_id] = past
        if past.has_failed:
            self._failed.setdefault(past.job_id, {})[past.instance_id] = past
        else:
            self._failed.get(past.job_id, {}).pop(past.instance_id, None)

    def limit_times(self, now: float) -> None:
        """Let none of them have ended in the future: the clock may have been set back."""
        for past in list(self._latest.values()):
            self.put(not_after(past, now))

    def forget_instances(self, names: Collection[str]) -> None:
        """Let go of what was on instances that are gone."""
        for job_id, name in [key for key in self._latest if key[1] in names]:
            del self._latest[job_id, name]
            self._failed.get(job_id, {}).pop(name, None)

    def forget_job(self, job_id: str) -> None:
        """Let go of those that failed of a job that has ended; not knowing it is no error."""
        self._failed.pop(job_id, None)

    def on(self, names: Collection[str]) -> list[PastAttempt]:
        """Return those on some instances, by job and instance."""
        return [past for (_, name), past in sorted(self._latest.items()) if name in names]

    def failed(self, job_id: str, revision: int) -> list[PastAttempt]:
        """Return those of a job that failed for good at a revision, by instance."""
        found = self._failed.get(job_id, {})
        return [past for _, past in sorted(found.items()) if past.revision == revision]

    def all_refused(self, job_id: str, revision: int) -> list[PastAttempt]:
        """Return those of a job that failed, if each of its starts at a revision was refused."""
        wanted = (job_id, revision)
        of_job = (past for past in self._latest.values() if wanted == (past.job_id, past.revision))
        return self.failed(*wanted) if all(past.was_refused for past in of_job) else []
