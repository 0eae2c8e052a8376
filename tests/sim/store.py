"""The store in virtual time: commits in order, late, sometimes refused; a crash loses the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longshore.dispatcher.domain.containers import Attempt, Container, InstanceRecord
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.ledger import InstanceBill, Interval
from longshore.dispatcher.domain.messages import (
    AddContainer,
    Change,
    DeleteLaunch,
    DropBill,
    InsertContainers,
    InsertJob,
    NoteJobLaunch,
    NoteListing,
    RequestCancel,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    RequestJobRevision,
    RequestPriority,
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
from tests.job_samples import counted, ended_nodes, job_revised, job_saved, latest_ended
from tests.sim.faults import DispatcherFaults
from tests.sim.timeline import Dice, Timeline

COMMIT_S = 0.004


@dataclass(slots=True, kw_only=True)
class _Pending:
    changes: Sequence[Change]
    done: Callable[[bool], None]
    builds: bool


class VirtualStore:
    """What is committed, by kind; `write` adds to it after a while, in order."""

    def __init__(self, timeline: Timeline, dice: Dice, watch: Callable[[Change], None]) -> None:
        self.faults = DispatcherFaults()
        self.containers: dict[str, Container] = {}
        self.unfinished: set[str] = set()
        self.attempts: dict[str, Attempt] = {}
        self.attempts_of: dict[str, list[str]] = {}
        self.jobs: dict[str, Job] = {}
        self.launches: dict[str, Launch] = {}
        self.instances: dict[str, InstanceRecord] = {}
        self.intervals: dict[tuple[str, str, int], Interval] = {}
        self.bills: dict[str, InstanceBill] = {}
        self.listed_ms = 0
        self._timeline = timeline
        self._dice = dice
        self._watch = watch
        self._pending: deque[_Pending] = deque()
        self._life = 0
        self._planned = False
        self._stalled_until = 0.0
        self._refuses = False

    def write(
        self, changes: Sequence[Change], done: Callable[[bool], None], *, builds: bool = False
    ) -> None:
        """Commit changes in their turn, then call `done` with whether they were not refused.

        One that `builds` on those before it is refused when such a one was.
        """
        self._pending.append(_Pending(changes=changes, done=done, builds=builds))
        self._plan()

    def stall(self) -> None:
        """Let nothing be committed for a while, as with a disk that is full."""
        self._stalled_until = self._timeline.now + self._dice.between(
            0, self.faults.longest_stall_s
        )

    @property
    def stalled(self) -> bool:
        """Return whether nothing is committed now."""
        return self._timeline.now < self._stalled_until

    def stalled_in_last(self, seconds: float) -> bool:
        """Return whether there was a time in the last seconds when it committed nothing."""
        return self._timeline.now < self._stalled_until + seconds

    @property
    def caught_up(self) -> bool:
        """Return whether all that was to be written is."""
        return not self._pending

    def crash(self) -> None:
        """Lose what is not committed; of what is being written the dice decide."""
        if self._pending and not self._refuses and self._dice.falls(0.5):
            changes = self._pending[0].changes
            if not any(self._conflicts(change) for change in changes):
                for change in changes:
                    self._commit(change)
        self._pending.clear()
        self._planned = self._refuses = False
        self._life += 1

    def _plan(self) -> None:
        if self._planned or not self._pending:
            return
        self._planned = True
        life = self._life
        due = max(self._timeline.now, self._stalled_until) + COMMIT_S
        self._timeline.at(due, lambda: self._turn(life))

    def _turn(self, life: int) -> None:
        if life != self._life:
            return
        self._planned = False
        if self.stalled:
            self._plan()
            return
        pending = self._pending.popleft()
        refused = self._refuses or self._dice.falls(self.faults.refusals)
        refused = refused or any(self._conflicts(change) for change in pending.changes)
        self._refuses = refused and pending.builds
        if not refused:
            for change in pending.changes:
                self._commit(change)
        pending.done(not refused)
        self._plan()

    def _conflicts(self, change: Change) -> bool:
        """Return whether a change is refused: something else was committed before it."""
        match change:
            case NoteJobLaunch():
                return self.jobs[change.job_id].state.final
            case RequestJobRevision():
                stored = self.jobs[change.job.id]
                new, known = change.job.terms.per_instance, stored.terms.per_instance
                assert new is not None
                assert known is not None
                return stored.state.final or new.revision != known.revision + 1
            case _:
                return False

    def _commit(self, change: Change) -> None:  # noqa: C901, PLR0912 - a table
        self._watch(change)
        match change:
            case InsertContainers():
                self._insert(change.containers)
            case AddContainer():
                job = self.jobs[change.container.job_id]
                new = replace(change.container, priority=job.priority)
                self._insert([replace(new, cancel_requested=job.cancel_requested)])
            case SaveSpec():
                stored = self.containers[change.container.id]
                self.containers[stored.id] = replace(stored, spec=change.container.spec)
            case RequestCancel():
                stored = self.containers[change.container_id]
                if not stored.state.final:
                    self.containers[stored.id] = replace(stored, cancel_requested=True)
            case RequestPriority():
                stored = self.containers[change.container_id]
                if not stored.state.final:
                    self.containers[stored.id] = replace(stored, priority=change.priority)
            case SaveContainer():
                stored = self.containers[change.container.id]
                if change.container.state.final:
                    self.unfinished.discard(stored.id)
                self.containers[stored.id] = replace(
                    change.container,
                    spec=stored.spec,
                    priority=stored.priority,
                    cancel_requested=stored.cancel_requested,
                    attempts=(),
                )
            case SaveAttempt():
                attempt = change.attempt
                if attempt.id not in self.attempts:
                    self.attempts_of[attempt.container_id].append(attempt.id)
                self.attempts[attempt.id] = attempt
            case SaveLaunch():
                self.launches[change.launch.token] = change.launch
            case DeleteLaunch():
                self.launches.pop(change.token, None)
            case SaveInstance():
                self.instances[change.instance.id] = change.instance
            case SaveInterval():
                interval = change.interval
                key = (interval.instance_id, interval.holder, interval.from_ms)
                self.intervals[key] = interval
            case SaveBill():
                self.bills[change.bill.instance_id] = change.bill
            case DropBill():
                self.bills.pop(change.launch_id, None)
            case NoteListing():
                self.listed_ms = change.at_ms
            case _:
                self._commit_of_job(change)

    def _commit_of_job(self, change: Change) -> None:
        match change:
            case InsertJob():
                self.jobs[change.job.id] = change.job
                self._insert(change.containers)
            case RequestJobCancel():
                self._update_job(change.job_id, cancel_requested=True)
                self._update_all(change.job_id, cancel_requested=True)
            case RequestJobPriority():
                self._update_job(change.job_id, priority=change.priority)
                self._update_all(change.job_id, priority=change.priority)
            case RequestJobHold():
                self._update_job(change.job_id, held=change.held)
            case SaveJob():
                self.jobs[change.job.id] = job_saved(self.jobs[change.job.id], change.job)
            case RequestJobRevision():
                self.jobs[change.job.id] = job_revised(self.jobs[change.job.id], change.job)
                self._update_all(change.job.id, priority=change.job.priority)
            case NoteJobLaunch():
                self._update_job(change.job_id, launched_for=change.launched_for)
            case _:
                raise AssertionError(f"nobody writes {change}")

    def _insert(self, containers: Sequence[Container]) -> None:
        for container in containers:
            self.containers[container.id] = container
            self.unfinished.add(container.id)
            self.attempts_of[container.id] = []

    def _update_job(self, job_id: str, **changed: Any) -> None:
        if not self.jobs[job_id].state.final:
            self.jobs[job_id] = replace(self.jobs[job_id], **changed)

    def _update_all(self, job_id: str, **changed: Any) -> None:
        for container in list(self.containers.values()):
            if container.job_id == job_id and not container.state.final:
                self.containers[container.id] = replace(container, **changed)

    def recover(self) -> Recovered:
        """Return what a new process finds."""
        unfinished = [c for c in self.containers.values() if c.id in self.unfinished]
        past = latest_ended(self.jobs, self.containers.values(), self.instances.values())
        return Recovered(
            containers=tuple(self._with_attempts(c) for c in unfinished),
            past=tuple(self._with_attempts(c) for c in past),
            jobs=tuple(
                counted(job, self.containers.values())
                for job in self.jobs.values()
                if not job.state.final
            ),
            ended=ended_nodes(self.jobs, self.containers.values()),
            unreleased=tuple(a for a in self.attempts.values() if self._unreleased(a)),
            launches=tuple(self.launches[token] for token in sorted(self.launches)),
            instances=tuple(i for i in self.instances.values() if i.gone_at is None),
            bills=tuple(self.bills.values()),
            intervals=tuple(i for i in self.intervals.values() if i.until_ms is None),
            listed_ms=self.listed_ms,
        )

    def _with_attempts(self, container: Container) -> Container:
        tried = tuple(self.attempts[a] for a in self.attempts_of[container.id])
        return replace(container, attempts=tried)

    def _unreleased(self, attempt: Attempt) -> bool:
        instance = self.instances.get(attempt.instance_id)
        reachable = instance is not None and instance.gone_at is None
        return reachable and attempt.outcome is not None and not attempt.log_complete
