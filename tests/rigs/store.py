"""What an engine under test has committed, in memory, and what a restart finds of it."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import Attempt, Container, InstanceRecord
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.ledger import InstanceBill, Interval
from longshore.dispatcher.domain.messages import (
    AddContainer,
    Change,
    DeleteLaunch,
    DropBill,
    NoteListing,
    SaveAttempt,
    SaveBill,
    SaveContainer,
    SaveInstance,
    SaveInterval,
    SaveJob,
    SaveLaunch,
    SaveSpec,
)
from longshore.dispatcher.domain.queries import Recovered
from longshore.pool.model import Launch
from tests.job_samples import counted, ended_nodes, job_saved, latest_ended


class RigStore:
    """The store of a rig: plain dictionaries that tests look into."""

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}
        self.attempts: dict[str, Attempt] = {}
        self.jobs: dict[str, Job] = {}
        self.launches: dict[str, Launch] = {}
        self.instances: dict[str, InstanceRecord] = {}
        self.intervals: dict[tuple[str, str, int], Interval] = {}
        self.bills: dict[str, InstanceBill] = {}
        self.listed_ms = 0

    def recovered(self) -> Recovered:
        """Return what a restart finds."""
        unfinished = [c for c in self.containers.values() if not c.state.final]
        return Recovered(
            containers=tuple(
                self._with_attempts(c) for c in sorted(unfinished, key=lambda c: c.sequence)
            ),
            past=tuple(
                self._with_attempts(c)
                for c in latest_ended(self.jobs, self.containers.values(), self.instances.values())
            ),
            unreleased=tuple(
                a
                for a in self.attempts.values()
                if a.outcome is not None
                and not a.log_complete
                and a.instance_id in self.instances
                and self.instances[a.instance_id].gone_at is None
            ),
            jobs=tuple(
                counted(job, self.containers.values())
                for job in self.jobs.values()
                if not job.state.final
            ),
            ended=ended_nodes(self.jobs, self.containers.values()),
            launches=tuple(self.launches.values()),
            instances=tuple(i for i in self.instances.values() if i.gone_at is None),
            bills=tuple(self.bills.values()),
            intervals=tuple(i for i in self.intervals.values() if i.until_ms is None),
            listed_ms=self.listed_ms,
        )

    def _with_attempts(self, container: Container) -> Container:
        tried = (a for a in self.attempts.values() if a.container_id == container.id)
        return replace(container, attempts=tuple(sorted(tried, key=lambda a: a.number)))

    def take_in(self, change: Change) -> None:  # noqa: C901, PLR0912 - a table
        """Commit one change."""
        match change:
            case AddContainer():
                new, job = change.container, self.jobs[change.container.job_id]
                assert new.pinned_to, f"{new.id} is for no instance"
                assert not new.attempts, f"{new.id} is new, but has attempts"
                assert new.id not in self.containers, f"{new.id} is added twice"
                self.containers[new.id] = replace(
                    new, priority=job.priority, cancel_requested=job.cancel_requested
                )
            case SaveSpec():
                old = self.containers[change.container.id]
                self.containers[old.id] = replace(old, spec=change.container.spec)
            case SaveContainer():
                old = self.containers[change.container.id]
                assert not old.state.final or old.state is change.container.state
                self.containers[old.id] = replace(
                    change.container,
                    spec=old.spec,
                    priority=old.priority,
                    cancel_requested=old.cancel_requested,
                )
            case SaveJob():
                old_job = self.jobs[change.job.id]
                assert not old_job.state.final, f"{old_job.id} ends twice"
                self.jobs[old_job.id] = job_saved(old_job, change.job)
            case SaveAttempt():
                self.attempts[change.attempt.id] = change.attempt
            case SaveLaunch():
                self.launches[change.launch.token] = change.launch
            case DeleteLaunch():
                self.launches.pop(change.token, None)
            case SaveInstance():
                self.instances[change.instance.id] = change.instance
            case SaveInterval():
                kept = change.interval
                self.intervals[kept.instance_id, kept.holder, kept.from_ms] = kept
            case SaveBill():
                self.bills[change.bill.instance_id] = change.bill
            case DropBill():
                self.bills.pop(change.launch_id, None)
            case NoteListing():
                self.listed_ms = change.at_ms
            case _:
                raise AssertionError(f"the engine does not write {change}")
