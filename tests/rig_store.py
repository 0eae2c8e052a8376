"""What an engine under test has committed, in memory, and what a restart finds of it."""

from __future__ import annotations

from dataclasses import replace

from dispatcher.job_model import Job
from dispatcher.messages import (
    Change,
    DeleteLaunch,
    SaveAttempt,
    SaveContainer,
    SaveInstance,
    SaveJob,
    SaveLaunch,
)
from dispatcher.model import Attempt, Container, InstanceRecord
from dispatcher.queries import Recovered
from pool.model import Launch
from tests.job_samples import counted, ended_nodes


class RigStore:
    """The store of a rig: plain dictionaries that tests look into."""

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}
        self.attempts: dict[str, Attempt] = {}
        self.jobs: dict[str, Job] = {}
        self.launches: dict[str, Launch] = {}
        self.instances: dict[str, InstanceRecord] = {}

    def recovered(self) -> Recovered:
        """Return what a restart finds."""
        unfinished = [c for c in self.containers.values() if not c.state.final]
        return Recovered(
            containers=tuple(
                replace(
                    c,
                    attempts=tuple(
                        sorted(
                            (a for a in self.attempts.values() if a.container_id == c.id),
                            key=lambda a: a.number,
                        )
                    ),
                )
                for c in sorted(unfinished, key=lambda c: c.sequence)
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
        )

    def take_in(self, change: Change) -> None:
        """Commit one change."""
        match change:
            case SaveContainer():
                old = self.containers[change.container.id]
                assert not old.state.final or old.state is change.container.state
                self.containers[old.id] = replace(
                    change.container,
                    priority=old.priority,
                    cancel_requested=old.cancel_requested,
                )
            case SaveJob():
                old_job = self.jobs[change.job.id]
                assert not old_job.state.final, f"{old_job.id} ends twice"
                self.jobs[old_job.id] = replace(
                    change.job,
                    priority=old_job.priority,
                    cancel_requested=old_job.cancel_requested,
                    held=old_job.held,
                )
            case SaveAttempt():
                self.attempts[change.attempt.id] = change.attempt
            case SaveLaunch():
                self.launches[change.launch.token] = change.launch
            case DeleteLaunch():
                self.launches.pop(change.token, None)
            case SaveInstance():
                self.instances[change.instance.id] = change.instance
            case _:
                raise AssertionError(f"the engine does not write {change}")
