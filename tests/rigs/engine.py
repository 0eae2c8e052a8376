"""An engine with a made-up cloud around it: literal times, no event loop, every command kept.

The rig answers commands as a well-behaved cloud would unless a test takes an answer into its own
hands (`answers` off for that kind). `Engine.check()` runs after every event.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from longshore.dispatcher.domain.containers import Container, SchedulerSettings
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.messages import (
    CancelRequested,
    Command,
    Confirm,
    Event,
    Following,
    JobCancelRequested,
    JobHoldRequested,
    JobSubmitted,
    PriorityRequested,
    Publication,
    Submitted,
    Woken,
)
from longshore.dispatcher.domain.queries import Recovered
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.fork import EngineFork
from longshore.dispatcher.engine.outbox import Outbox, Write
from longshore.dispatcher.engine.view import EngineView
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import TOKEN_TAG, Existence, InstanceType
from longshore.pool.messages import (
    AttemptExited,
    AttemptStarted,
    CloseSession,
    Created,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyInstance,
    FindInstance,
    InstanceFound,
    Listed,
    ListInstances,
    LogComplete,
    PoolCommand,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    ReleaseAttempt,
    SessionLost,
    SetLease,
    SetTags,
    SignalAttempt,
    StartAttempt,
    StartUnknown,
    TagsSet,
    UpdateLimits,
)
from longshore.pool.model import (
    AttemptExit,
    AttemptReport,
    ExitKind,
    Fault,
    InstanceSeen,
    MachineSize,
    PoolSettings,
    ProbeReport,
)
from tests.job_samples import ended_nodes
from tests.rigs.store import RigStore
from tests.samples import made_container, make_type

CLUSTER = "test"
CommandKind = TypeVar("CommandKind", bound=PoolCommand)


class Rig(RigStore):
    """One engine, the cloud it sees and the store it writes."""

    def __init__(
        self,
        *types: InstanceType,
        pool: PoolSettings | None = None,
        settings: SchedulerSettings | None = None,
        recovered: Recovered | None = None,
        listed: bool = True,
        quota_groups: Mapping[str, str] | None = None,
        store: str = "",
        store_since: float = -math.inf,
    ) -> None:
        super().__init__()
        self.store, self.store_since = store, store_since
        self.store_accepted = False
        self.quota_groups = dict(quota_groups or {})
        self.types = {type_.name: type_ for type_ in types or (make_type(1),)}
        self.pool_settings = pool or PoolSettings()
        self.settings = settings or SchedulerSettings()
        self.now = 1000.0
        self.cloud: dict[str, InstanceSeen] = {}
        self.on_instance: dict[str, dict[str, AttemptReport]] = {}
        self.boot_id = "b"
        self.boot_error = ""
        self.trial_error = ""
        self.machine: MachineSize | None = None
        self.machines: dict[str, MachineSize] = {}
        """What an instance says that it has; others say what `machine` is, nothing for None."""
        self.sent: list[PoolCommand] = []
        self.published: list[Publication] = []
        self.confirmed: list[int] = []
        self.silent: set[type[PoolCommand]] = set()
        self.hidden: set[str] = set()
        """What is in the cloud, and neither its listings nor its word on an id tell."""
        self.unreachable: set[str] = set()
        """What is in the cloud and does not answer at its address."""
        self.knows_ended = True
        self.ended_because = ""
        """Whether the cloud says of an id that its instance has ended."""
        self.create_error: Callable[[CreateInstance], CloudError | None] = lambda _command: None
        self._numbers = itertools.count(1)
        self._instance_numbers = itertools.count(1)
        self._container_numbers = itertools.count(1)
        self._boot(recovered or Recovered(), listed=listed)

    def _boot(self, recovered: Recovered, *, listed: bool) -> None:
        self.engine = Engine(
            cluster=CLUSTER,
            types=self.types,
            pool_settings=self.pool_settings,
            settings=self.settings,
            recovered=recovered,
            new_token=lambda: f"token-{next(self._numbers)}",
            new_secret=lambda: "secret",
            new_container=lambda: made_container(next(self._container_numbers)),
            dice=lambda: 0.5,
            quota_groups=self.quota_groups,
            store=self.store,
            store_since=self.store_since,
            store_accepted=self.store_accepted,
        )
        self.outbox = Outbox()
        self.uncommitted: list[Write] = []
        self.store_lags = False
        if not listed:
            self.silent.add(ListInstances)
        self._carry_out(self.engine.begin(self.now))
        self.settle()

    @property
    def view(self) -> EngineView:
        """Return what others may know of the engine."""
        return EngineView(self.engine)

    def fork(self) -> EngineFork:
        """Return a copy of the engine to try something on."""
        return EngineFork.of(self.engine)

    def crash(self, *, listed: bool = True) -> None:
        """Lose all memory and start again from what was committed; the cloud goes on."""
        self.sent.clear()
        self._boot(self.recovered(), listed=listed)

    # ---- driving ---------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """Give one event to the engine, carry out what it asks for, then let it settle."""
        self._give(event)
        self.settle()

    def settle(self) -> None:
        """Wake the engine as long as it wants to be woken at this moment."""
        for _ in range(10_000):
            due = self.engine.next_wakeup(self.now)
            if due is None or due > self.now:
                return
            self._give(Woken())
        raise AssertionError("the engine never settles")

    def advance(self, seconds: float) -> None:
        """Let time pass, waking the engine at each of its deadlines."""
        end = self.now + seconds
        while True:
            dues = (self.engine.next_wakeup(self.now), self.outbox.next_news())
            due = min((due for due in dues if due is not None), default=None)
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.tell_news()
            self.settle()
        self.now = end
        self.settle()

    def submit(self, *containers: Container) -> None:
        """Commit containers and tell the engine."""
        for container in containers:
            self.containers[container.id] = container
        ended = ended_nodes(self.jobs, self.containers.values())
        self.send(Submitted(containers=containers, ended=ended))

    def submit_job(self, job: Job, containers: tuple[Container, ...]) -> None:
        """Commit a job and tell the engine."""
        before = ended_nodes(self.jobs, self.containers.values())
        self.jobs[job.id] = job
        for container in containers:
            self.containers[container.id] = container
        self.send(JobSubmitted(job=job, containers=containers, ended=before))

    def cancel_job(self, job_id: str) -> None:
        """Commit a job's cancellation and tell the engine."""
        self.jobs[job_id] = replace(self.jobs[job_id], cancel_requested=True)
        for container in [c for c in self.containers.values() if c.job_id == job_id]:
            self.containers[container.id] = replace(container, cancel_requested=True)
        self.send(JobCancelRequested(job_id=job_id))

    def hold_job(self, job_id: str, *, held: bool) -> None:
        """Commit whether a job is held and tell the engine."""
        self.jobs[job_id] = replace(self.jobs[job_id], held=held)
        self.send(JobHoldRequested(job_id=job_id, held=held))

    def cancel(self, container_id: str) -> None:
        """Commit a cancellation and tell the engine."""
        stored = self.containers[container_id]
        self.containers[container_id] = replace(stored, cancel_requested=True)
        self.send(CancelRequested(container_id=container_id))

    def set_priority(self, container_id: str, priority: int) -> None:
        """Commit a priority and tell the engine."""
        stored = self.containers[container_id]
        self.containers[container_id] = replace(stored, priority=priority)
        self.send(PriorityRequested(container_id=container_id, priority=priority))

    def exit(
        self,
        attempt_id: str,
        code: int = 0,
        kind: ExitKind = ExitKind.EXITED,
        fault: Fault = Fault.REQUEST,
    ) -> None:
        """Let an attempt end on its instance, its exit be pushed and its log be complete."""
        worker_id = self.attempts[attempt_id].instance_id
        how = AttemptExit(kind=kind, code=code, fault=fault)
        report = AttemptReport(attempt_id=attempt_id, container_id="", exit=how)
        self.on_instance[worker_id][attempt_id] = report
        self.send(AttemptExited(worker_id=worker_id, attempt_id=attempt_id, exit=how))
        self.send(LogComplete(worker_id=worker_id, attempt_id=attempt_id))

    def boot(self, type_name: str, **tags: str) -> str:
        """Let an instance of ours be in the cloud that nobody here created; return its id."""
        instance_id = f"i-{next(self._instance_numbers):03}"
        all_tags = {
            "longshore-cluster": CLUSTER,
            "longshore-type": type_name,
            "longshore-idle-behavior": "run",
            **{key.replace("_", "-"): value for key, value in tags.items()},
        }
        self.cloud[instance_id] = InstanceSeen(
            id=instance_id, address=f"{instance_id}:22", tags=tuple(sorted(all_tags.items()))
        )
        self.on_instance[instance_id] = {}
        return instance_id

    # ---- looking ---------------------------------------------------------------------------

    def kinds(self) -> list[str]:
        """Return the names of the pool commands sent so far."""
        return [type(command).__name__ for command in self.sent]

    def states(self) -> dict[str, str]:
        """Return the committed state of each container."""
        return {id_: c.state.value for id_, c in sorted(self.containers.items())}

    def started_on(self) -> dict[str, str]:
        """Return where each container's attempts were started, the latest one's instance."""
        return {c.order.container_id: c.worker_id for c in self.sent if isinstance(c, StartAttempt)}

    def created_types(self) -> list[str]:
        """Return the types of the instances that were asked for, in order."""
        return [c.launch.type_name for c in self.sent if isinstance(c, CreateInstance)]

    def worker_states(self) -> dict[str, str]:
        """Return the state of each worker."""
        return {id_: w.state.value for id_, w in sorted(self.engine.pool.workers.items())}

    # ---- the world -------------------------------------------------------------------------

    def _give(self, event: Event) -> None:
        commands = self.engine.handle(event, self.now)
        self.engine.check()
        self._carry_out(commands)

    def tell_news(self) -> None:
        """Let the engine know whether its commands wait for the store."""
        news = self.outbox.news(self.now)
        if news is not None:
            self._give(news)

    def _carry_out(self, commands: list[Command]) -> None:
        writes, ready = self.outbox.put(commands, self.now)
        self.uncommitted += writes
        self._begin(ready)
        if not self.store_lags:
            self.commit()

    def commit(self) -> None:
        """Let the store catch up with everything that is pending."""
        while self.uncommitted:
            write = self.uncommitted.pop(0)
            for change in write.changes:
                self.take_in(change)
            self._begin(self.outbox.committed(write.ticket))
        self.tell_news()

    def _begin(self, commands: list[Following]) -> None:
        for command in commands:
            if isinstance(command, Confirm):
                self.confirmed.append(command.asked)
                continue
            if isinstance(command, Publication):
                self.published.append(command)
                continue
            self.sent.append(command)
            if type(command) not in self.silent:
                self._answer(command)

    def _answer(self, command: PoolCommand) -> None:
        match command:
            case Probe():
                self.probe_now(command)
            case StartAttempt():
                self.start_now(command)
            case ReleaseAttempt():
                self.on_instance.get(command.worker_id, {}).pop(command.attempt_id, None)
            case SignalAttempt() | CloseSession() | SetLease() | UpdateLimits():
                pass
            case _:
                self._answer_call(command)

    def _answer_call(
        self,
        command: ListInstances | CreateInstance | DestroyInstance | SetTags | FindInstance,
    ) -> None:
        match command:
            case ListInstances():
                self.list_now(command.op_id)
            case CreateInstance():
                self.create_now(command)
            case DestroyInstance():
                known = self.cloud.pop(command.instance_id, None) is not None
                self.on_instance.pop(command.instance_id, None)
                self._give(
                    Destroyed(op_id=command.op_id, instance_id=command.instance_id, known=known)
                )
            case SetTags():
                seen = self.cloud.get(command.instance_id)
                if seen is not None:
                    self.cloud[seen.id] = replace(seen, tags=command.tags)
                self._give(TagsSet(op_id=command.op_id, instance_id=command.instance_id))
            case FindInstance():
                self.find_now(command)

    def list_now(self, op_id: int) -> None:
        """Answer a listing with what is in the cloud; the sessions of what is not are lost."""
        for worker in list(self.engine.pool.workers.values()):
            if worker.link.session_up and worker.cloud.listed and worker.id not in self.cloud:
                self._give(SessionLost(worker_id=worker.id, last_contact=0.0, reason="reset"))
        shown = sorted(self.cloud.keys() - self.hidden)
        instances = tuple(self.cloud[id_] for id_ in shown)
        self._give(Listed(op_id=op_id, began_at=self.now, instances=instances))

    def find_now(self, command: FindInstance) -> None:
        """Answer what the cloud knows of an instance."""
        existence = Existence.UNKNOWN
        if command.instance_id not in self.hidden:
            if command.instance_id in self.cloud:
                existence = Existence.PRESENT
            elif self.knows_ended:
                existence = Existence.GONE
        self._give(
            InstanceFound(
                op_id=command.op_id,
                instance_id=command.instance_id,
                existence=existence,
                reason=self.ended_because if existence is Existence.GONE else "",
            )
        )

    def create_now(self, command: CreateInstance) -> None:
        """Answer a create call."""
        error = self.create_error(command)
        if error is not None:
            self._give(CreateFailed(op_id=command.op_id, token=command.launch.token, error=error))
            return
        instance_id = f"i-{next(self._instance_numbers):03}"
        assert dict(command.tags)[TOKEN_TAG] == command.launch.token
        assert command.launch.token in self.launches, "created before it was journalled"
        seen = InstanceSeen(id=instance_id, address=f"{instance_id}:22", tags=command.tags)
        self.cloud[instance_id] = seen
        self.on_instance[instance_id] = {}
        self._give(Created(op_id=command.op_id, token=command.launch.token, instance=seen))

    def probe_now(self, command: Probe) -> None:
        """Answer a probe with what runs on the instance."""
        if command.worker_id not in self.cloud.keys() - self.unreachable:
            self._give(
                ProbeFailed(
                    op_id=command.op_id,
                    worker_id=command.worker_id,
                    revision=command.revision,
                    stage="connect",
                    message="no route",
                )
            )
            return
        reports = self.on_instance[command.worker_id]
        self._give(
            ProbeSucceeded(
                op_id=command.op_id,
                worker_id=command.worker_id,
                revision=command.revision,
                began_at=self.now,
                host_key="ssh-ed25519 AAAA",
                report=ProbeReport(
                    attempts=tuple(reports[id_] for id_ in sorted(reports)),
                    boot_id=self.boot_id,
                    machine=self.machines.get(command.worker_id, self.machine),
                ),
                boot_error=self.boot_error if command.boot else "",
                trial_error=self.trial_error if command.trial else None,
            )
        )

    def start_now(self, command: StartAttempt) -> None:
        """Answer a start: the attempt runs."""
        attempt_id = command.order.attempt_id
        assert self.attempts[attempt_id].outcome is None, "started before it was journalled"
        if command.worker_id not in self.cloud:
            self._give(
                StartUnknown(
                    op_id=command.op_id,
                    worker_id=command.worker_id,
                    attempt_id=attempt_id,
                    message="no session",
                )
            )
            return
        self.on_instance[command.worker_id][attempt_id] = AttemptReport(
            attempt_id=attempt_id, container_id=command.order.container_id
        )
        self._give(
            AttemptStarted(op_id=command.op_id, worker_id=command.worker_id, attempt_id=attempt_id)
        )


def last_commands(rig: Rig, kind: type[CommandKind]) -> list[CommandKind]:
    """Return the commands of one kind, oldest first."""
    return [command for command in rig.sent if isinstance(command, kind)]
