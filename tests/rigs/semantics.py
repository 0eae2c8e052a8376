"""An engine whose instances may fail their boot probe, or complain of themselves."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.drivers.interface import InstanceType
from longshore.pool.messages import (
    DestroyInstance,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    SessionLost,
    SignalAttempt,
)
from longshore.pool.model import AttemptReport, IdleBehavior, PoolSettings, ProbeReport, Worker
from tests.rigs.engine import CommandKind, Rig, last_commands
from tests.samples import make_container, make_type

QUICK = PoolSettings(
    boot_timeout_s=100,
    probe_timeout_s=200,
    idle_timeout_s=60,
    sync_interval_s=1,
    term_timeout_s=20,
    signal_interval_s=5,
)


class WorkerRig(Rig):
    """A rig with two more things that an instance can say when it is probed."""

    def __init__(
        self,
        *types: InstanceType,
        pool: PoolSettings | None = None,
        settings: SchedulerSettings | None = None,
        listed: bool = True,
    ) -> None:
        self.boot_errors: dict[str, str] = {}
        self.complaints: dict[str, str] = {}
        super().__init__(*types, pool=pool, settings=settings, listed=listed)

    def adopt(self, type_name: str = "t1", *attempt_ids: str, **tags: str) -> str:
        """Let an instance be there whose boot probe fails, and on which these attempts run."""
        made = self.boot(type_name, **tags)
        self.boot_errors[made] = "not yet"
        for attempt_id in attempt_ids:
            self.run_on(made, attempt_id)
        return made

    def run_on(self, worker_id: str, attempt_id: str) -> None:
        """Let an attempt run on an instance."""
        report = AttemptReport(attempt_id=attempt_id, container_id="c")
        self.on_instance[worker_id][attempt_id] = report

    def worker(self, worker_id: str) -> Worker:
        return self.engine.pool.workers[worker_id]

    def state(self, worker_id: str) -> str:
        """Return a worker's state, "gone" when there is none."""
        return self.worker_states().get(worker_id, "gone")

    def outcome(self, attempt_id: str) -> str:
        """Return the committed outcome of an attempt, "" while it has none."""
        outcome = self.attempts[attempt_id].outcome
        return outcome.value if outcome is not None else ""

    def last(self, kind: type[CommandKind]) -> CommandKind:
        return last_commands(self, kind)[-1]

    def count(self, kind: type[CommandKind]) -> int:
        return len(last_commands(self, kind))

    def behave(self, worker_id: str, behavior: IdleBehavior) -> None:
        self.send(BehaviorRequested(worker_id=worker_id, behavior=behavior))

    def lose_session(self, worker_id: str) -> None:
        self.send(SessionLost(worker_id=worker_id, last_contact=self.now, reason="reset"))

    def probe_now(self, command: Probe) -> None:
        """Answer a probe as the instance is now."""
        self.probe_answer(command, began_at=self.now)

    def probe_answer(self, command: Probe, *, began_at: float) -> None:
        """Answer a probe as the instance is: an unknown one is looked at before it has booted."""
        worker_id = command.worker_id
        boot_error = self.boot_errors.get(worker_id, "") if command.boot else ""
        if worker_id not in self.cloud:
            super().probe_now(command)
        elif boot_error and not command.look_anyway:
            self.give(
                ProbeFailed(
                    op_id=command.op_id,
                    worker_id=worker_id,
                    revision=command.revision,
                    stage="boot",
                    message=boot_error,
                )
            )
        else:
            reports = self.on_instance[worker_id]
            report = ProbeReport(
                attempts=tuple(reports[id_] for id_ in sorted(reports)),
                boot_id="b",
                broken=self.complaints.get(worker_id, ""),
            )
            self.give(
                ProbeSucceeded(
                    op_id=command.op_id,
                    worker_id=worker_id,
                    revision=command.revision,
                    began_at=began_at,
                    host_key="ssh-ed25519 AAAA",
                    report=report,
                    boot_error=boot_error,
                )
            )


def rig_of(*cpus: int, pool: PoolSettings = QUICK, instances: int = 1) -> WorkerRig:
    """Return a rig whose destroyed instances stay listed, with types of so many cpus."""
    settings = SchedulerSettings(max_instances=instances)
    rig = WorkerRig(*(make_type(each) for each in cpus or (1,)), pool=pool, settings=settings)
    rig.silent.add(DestroyInstance)
    return rig


def running(*, cpus: int = 1, instances: int = 1) -> WorkerRig:
    """Return a rig on whose i-001 c-1-1 runs."""
    rig = rig_of(cpus, instances=instances)
    rig.submit(make_container(1))
    assert rig.worker_states() == {"i-001": "running"}
    return rig


def signals(rig: WorkerRig) -> list[str]:
    """Return the signals that were sent, oldest first."""
    return [command.signal for command in last_commands(rig, SignalAttempt)]
