"""The checks of what one process does with jobs, dependencies, time limits and times to start."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.dispatcher.domain.containers import AttemptOutcome, Container, ContainerState
from longshore.dispatcher.domain.messages import JobHoldRequested, JobSubmitted, Submitted
from longshore.dispatcher.state.scheduling_gates import Gate
from longshore.pool.messages import PoolCommand, SignalAttempt, StartAttempt
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import Truth, expect

SLACK = 1e-6
PATIENCE_S = 1.0
LOOKED_AGAIN_S = 1.0


class JobConduct:
    """Looks at one process; `offsets` says how each attempt's process had its clock set."""

    def __init__(
        self,
        process: DispatcherProcess,
        timeline: Timeline,
        truth: Truth,
        offsets: dict[str, float],
    ) -> None:
        self._process = process
        self._table = process.engine.table
        self._timeline = timeline
        self._truth = truth
        self._account = truth.jobs
        self._offsets = offsets
        self._offset_s = process.now() - timeline.now
        self._began_at = process.now()
        self._held = {job.id: job.held for job in truth.store.jobs.values()}
        self._limited = _limited(self._table.containers.values())
        self._session_since: dict[str, float] = {}
        self._ran_before = {
            attempt.id
            for attempt in truth.store.attempts.values()
            if attempt.outcome is None and attempt.started_at is not None
        }
        self._passes = 0
        self._version = -1

    # ---- what is heard, and decided ----

    def heard(self, event: object) -> None:
        """Look at an event before the engine gets it."""
        match event:
            case Submitted():
                self._limited += _limited(event.containers)
            case JobSubmitted():
                self._held[event.job.id] = event.job.held
                self._limited += _limited(event.containers)
            case JobHoldRequested():
                self._held[event.job_id] = event.held
            case _:
                pass

    def is_held(self, job_id: str) -> bool:
        """Return whether a job is held, by what was asked for; no job is not held."""
        return self._held.get(job_id, False)

    def decided(self, command: PoolCommand) -> None:
        """Look at a command as it was decided."""
        if isinstance(command, StartAttempt):
            self._on_start(self._table.containers[command.order.container_id])
        elif isinstance(command, SignalAttempt):
            self._on_signal(command.attempt_id)

    def _on_start(self, container: Container) -> None:
        held = self.is_held(container.job_id)
        expect(not held, "a held job starts nothing", container.id, container.job_id)
        not_before = container.spec.not_before
        if not_before is not None and len(container.attempts) == 1:
            early = self._process.now() < not_before - SLACK
            expect(not early, "nothing starts before its time", container.id, not_before)

    def _on_signal(self, attempt_id: str) -> None:
        """Expect that nothing is ended for its time limit before it has run for that."""
        found = self._table.of_attempt(attempt_id)
        if found is None or found[1].intended_outcome is not AttemptOutcome.FAILED:
            return
        container, _ = found
        began_at = self._account.started_at.get(attempt_id)
        limit_s = container.spec.time_limit_s
        if began_at is None or limit_s is None or self._offsets.get(attempt_id) != self._offset_s:
            return
        early = self._timeline.now < began_at + limit_s - SLACK
        expect(not early, "a time limit is not early", attempt_id, began_at, limit_s)

    # ---- what is known after an event ----

    def look(self) -> None:
        """Look at what holds after every event, and at a pass when there was one."""
        for container_id in list(self._limited):
            container = self._table.containers.get(container_id)
            if container is None:
                self._limited.remove(container_id)
            elif container.state is ContainerState.RUNNING:
                self._expect_within_limit(container)
        if self._truth.store.caught_up and self._version != self._account.version:
            self._version = self._account.version
            self._expect_counted()
        if self._process.engine.scheduling.passes != self._passes:
            self._passes = self._process.engine.scheduling.passes
            self._look_at_pass()

    def _expect_within_limit(self, container: Container) -> None:
        """Expect that what has run for as long as it may is being ended."""
        last, limit_s = container.attempts[-1], container.spec.time_limit_s
        if last.outcome is not None or last.intended_outcome is not None or last.started_at is None:
            return
        since = last.started_at
        if last.id in self._ran_before:
            # An earlier process's clock may have been ahead.
            since = min(since, self._began_at)
        due = since + (limit_s or 0.0)
        worker = self._process.engine.pool.workers.get(last.instance_id)
        if worker is None or not worker.link.session_up:
            # Nobody knows whether it has ended by itself, or was lost.
            self._session_since.pop(last.id, None)
            return
        session_since = self._session_since.setdefault(last.id, self._process.now())
        late = self._process.now() > max(due, session_since) + LOOKED_AGAIN_S + PATIENCE_S
        expect(not late, "a time limit is kept", last, limit_s)

    def _expect_counted(self) -> None:
        """Expect that a job's tallies are what the store says of its containers."""
        jobs = self._table.jobs
        for job_id in jobs.job_ids():
            job = jobs.job(job_id)
            assert job is not None
            for task, tally in zip(job.tasks, job.tallies, strict=True):
                states = self._account.states_of(job_id, task.name)
                same = all(getattr(tally, s.value) == states[s] for s in ContainerState)
                expect(same, "a job's tallies are true", job_id, tally, states)
        for stored in self._truth.store.jobs.values():
            known = stored.id in jobs
            expect(
                known != stored.state.final,
                "a job ends with its last container",
                stored.id,
                stored.state,
            )

    def _look_at_pass(self) -> None:
        """Expect that all who are held back have something to wait for."""
        gates = self._table.gates
        turns: dict[tuple[str, str], int] = {}
        waiting: dict[tuple[str, str], Container] = {}
        for container in self._table.containers.values():
            blocks = gates.blocks(container.id)
            if container.spec.after:
                self._expect_to_wait(container, after=Gate.AFTER in blocks)
            self._expect_due(container)
            if not container.job_id:
                continue
            held = self.is_held(container.job_id)
            right = held == (Gate.JOB_HELD in blocks)
            expect(right, "a job is held as was asked", container.id, held, blocks)
            key = (container.job_id, container.task)
            if container.priority == 0 and not container.has_open_attempt:
                continue
            if Gate.MAX_RUNNING in blocks:
                waiting[key] = container
            elif Gate.AFTER not in blocks:
                turns[key] = turns.get(key, 0) + 1
        for key, container in waiting.items():
            most = self._account.task_of(container).max_running
            full = turns.get(key, 0) == most
            expect(full, "an array uses its room", container.id, turns.get(key, 0), most)

    def _expect_to_wait(self, container: Container, *, after: bool) -> None:
        """Expect that what the store knows of others' ends is known of those who wait for them."""
        may = self._account.may_start(container)
        in_vain = may is False
        expect(not in_vain, "who cannot start is cancelled", container.id, container.spec.after)
        free = may is True and after
        expect(not free, "nobody waits for what has ended", container.id, container.spec.after)

    def _expect_due(self, container: Container) -> None:
        """Expect that who may begin is not held back for its time any more."""
        not_before = container.spec.not_before
        if not_before is None or container.attempts:
            return
        due = self._table.gates.due(container.id)
        past = self._process.now() > not_before + PATIENCE_S
        expect(due is None or not past, "who may begin is let", container.id, due)


def _limited(containers: Iterable[Container]) -> list[str]:
    return [c.id for c in containers if c.spec.time_limit_s is not None]
