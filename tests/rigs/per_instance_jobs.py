"""An engine with system and sysbatch jobs under test, whose processes obey."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import Constraints, Container, ContainerSpec, Retries
from longshore.dispatcher.domain.jobs import (
    Job,
    JobTask,
    JobType,
    JobTypeSpec,
    PerInstanceTerms,
    Tally,
)
from longshore.dispatcher.domain.messages import JobRevised, JobSubmitted
from longshore.drivers.interface import Resources
from longshore.pool.messages import (
    AttemptExited,
    LogComplete,
    PoolCommand,
    SignalAttempt,
    StartAttempt,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, PoolSettings
from tests.rigs.engine import Rig

ANYWHERE = Constraints()
AS_ALL = Retries()
FOO = Constraints(labels=(("foo", "yes"),))
LONG = PoolSettings(idle_timeout_s=3600, sync_interval_s=60)


def daemon(
    number: int = 1,
    *,
    type_: JobType = JobType.SYSTEM,
    cpus: int = 100,
    priority: int = 500,
    constraints: Constraints = ANYWHERE,
    retries: Retries = AS_ALL,
    env: tuple[tuple[str, str], ...] = (),
    **terms: object,
) -> Job:
    """Return a per-instance job as the API would commit it; `cpus` in thousandths."""
    spec = ContainerSpec(
        name=f"d{number}",
        image="",
        command=("run",),
        env=env,
        resources=Resources(cpu_millis=cpus, memory_bytes=1),
        constraints=constraints,
        retries=retries,
    )
    return Job(
        id=f"j-{number}",
        sequence=number,
        name=f"d{number}",
        user="ann",
        project="p",
        priority=priority,
        created_at=1000.0,
        type=type_,
        tasks=(JobTask(name="", spec=spec, size=0),),
        tallies=(Tally(),),
        terms=JobTypeSpec(per_instance=PerInstanceTerms(revised_at=1000.0, **terms)),  # type: ignore[arg-type]  # fields of the terms
    )


class DaemonRig(Rig):
    """A rig whose processes obey TERM at once, unless they are `deaf`."""

    deaf = False

    def _answer(self, command: PoolCommand) -> None:
        super()._answer(command)
        if isinstance(command, SignalAttempt) and not self.deaf:
            self.terminated(command.worker_id, command.attempt_id)

    def terminated(self, worker_id: str, attempt_id: str) -> None:
        """Let an attempt end by a signal."""
        how = AttemptExit(kind=ExitKind.EXITED, code=143)
        report = AttemptReport(attempt_id=attempt_id, container_id="", exit=how)
        self.on_instance[worker_id][attempt_id] = report
        self.give(AttemptExited(worker_id=worker_id, attempt_id=attempt_id, exit=how))
        self.give(LogComplete(worker_id=worker_id, attempt_id=attempt_id))

    def submit_daemon(self, job: Job) -> None:
        """Commit a per-instance job and tell the engine."""
        terms = job.terms.per_instance
        assert terms is not None
        job = replace(job, terms=JobTypeSpec(per_instance=replace(terms, revised_at=self.now)))
        self.jobs[job.id] = job
        self.send(JobSubmitted(job=job, containers=()))

    def revise(self, job_id: str, **of_spec: object) -> None:
        """Commit the next revision of a job and tell the engine."""
        old = self.jobs[job_id]
        terms = old.terms.per_instance
        assert terms is not None
        task = replace(old.tasks[0], spec=replace(old.tasks[0].spec, **of_spec))  # type: ignore[arg-type]  # fields of a specification
        new_terms = replace(terms, revision=terms.revision + 1, revised_at=self.now)
        job = replace(old, tasks=(task,), terms=JobTypeSpec(per_instance=new_terms))
        self.jobs[job_id] = job
        self.send(JobRevised(job=job))

    def join(self, type_name: str = "t1", number: int = 1, **tags: str) -> list[str]:
        """Let instances be found in the cloud; return their ids."""
        found = [self.boot(type_name, **tags) for _ in range(number)]
        self.advance(60)
        return found

    def starts(self) -> list[tuple[str, str]]:
        """Return the attempts started since the last look, with where."""
        found = [
            (command.order.attempt_id, command.worker_id)
            for command in self.sent
            if isinstance(command, StartAttempt)
        ]
        self.sent.clear()
        return found

    def of_job(self, job_id: str) -> list[Container]:
        """Return a job's containers that have not ended, by their instance."""
        found = (c for c in self.containers.values() if c.job_id == job_id and not c.state.final)
        return sorted(found, key=lambda c: c.pinned_to)
