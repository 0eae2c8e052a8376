"""A made-up cloud: what is in it, and how it answers the commands of a pool.

It answers as a well-behaved cloud would unless a test takes an answer into its own hands
(`silent` for that kind).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

from longshore.dispatcher.domain.containers import Attempt
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import TOKEN_TAG, Existence
from longshore.pool.messages import (
    AskBills,
    AttemptStarted,
    BillsTold,
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
    PoolCommand,
    PoolEvent,
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
    AttemptReport,
    InstanceSeen,
    Launch,
    MachineSize,
    ProbeReport,
    Worker,
)

CLUSTER = "test"


class MadeUpCloud(ABC):
    """Instances and what runs on them; whose dispatcher it is, is for subclasses."""

    now: float
    attempts: dict[str, Attempt]
    """What was journalled of attempts, and of launches: nothing may happen before."""
    launches: dict[str, Launch]

    def __init__(self) -> None:
        self.sent: list[PoolCommand] = []
        self.cloud: dict[str, InstanceSeen] = {}
        self.on_instance: dict[str, dict[str, AttemptReport]] = {}
        self.boot_id = "b"
        self.boot_error = ""
        self.trial_error = ""
        self.machine: MachineSize | None = None
        self.machines: dict[str, MachineSize] = {}
        """What an instance says that it has; others say what `machine` is, nothing for None."""
        self.silent: set[type[PoolCommand]] = set()
        self.hidden: set[str] = set()
        """What is in the cloud, and neither its listings nor its word on an id tell."""
        self.unreachable: set[str] = set()
        """What is in the cloud and does not answer at its address."""
        self.knows_ended = True
        self.ended_because = ""
        """Whether the cloud says of an id that its instance has ended."""
        self.create_error: Callable[[CreateInstance], CloudError | None] = lambda _command: None
        self._instance_numbers = itertools.count(1)

    @property
    @abstractmethod
    def workers(self) -> Mapping[str, Worker]:
        """What the pool knows of instances."""

    @abstractmethod
    def give(self, event: PoolEvent) -> None:
        """Tell the engine of something."""

    def boot(self, type_name: str, *, instance_id: str = "", **tags: str) -> str:
        """Let an instance of ours be in the cloud that nobody here created; return its id."""
        instance_id = instance_id or f"i-{next(self._instance_numbers):03}"
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

    # ---- answering -------------------------------------------------------------------------

    def carry_out(self, command: PoolCommand) -> None:
        """Keep a command, and answer it unless that is silenced."""
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
        command: ListInstances
        | CreateInstance
        | DestroyInstance
        | SetTags
        | FindInstance
        | AskBills,
    ) -> None:
        match command:
            case ListInstances():
                self.list_now(command.op_id)
            case CreateInstance():
                self.create_now(command)
            case DestroyInstance():
                known = self.cloud.pop(command.instance_id, None) is not None
                self.on_instance.pop(command.instance_id, None)
                self.give(
                    Destroyed(op_id=command.op_id, instance_id=command.instance_id, known=known)
                )
            case SetTags():
                seen = self.cloud.get(command.instance_id)
                if seen is not None:
                    self.cloud[seen.id] = replace(seen, tags=command.tags)
                self.give(TagsSet(op_id=command.op_id, instance_id=command.instance_id))
            case FindInstance():
                self.find_now(command)
            case AskBills():
                self.give(BillsTold(op_id=command.op_id, bills=()))

    def list_now(self, op_id: int) -> None:
        """Answer a listing with what is in the cloud; the sessions of what is not are lost."""
        for worker in list(self.workers.values()):
            if worker.link.session_up and worker.cloud.listed and worker.id not in self.cloud:
                self.give(SessionLost(worker_id=worker.id, last_contact=0.0, reason="reset"))
        shown = sorted(self.cloud.keys() - self.hidden)
        instances = tuple(self.cloud[id_] for id_ in shown)
        self.give(Listed(op_id=op_id, began_at=self.now, instances=instances))

    def find_now(self, command: FindInstance) -> None:
        """Answer what the cloud knows of an instance."""
        existence = Existence.UNKNOWN
        if command.instance_id not in self.hidden:
            if command.instance_id in self.cloud:
                existence = Existence.PRESENT
            elif self.knows_ended:
                existence = Existence.GONE
        self.give(
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
            self.give(CreateFailed(op_id=command.op_id, token=command.launch.token, error=error))
            return
        instance_id = f"i-{next(self._instance_numbers):03}"
        assert dict(command.tags)[TOKEN_TAG] == command.launch.token
        assert command.launch.token in self.launches, "created before it was journalled"
        seen = InstanceSeen(id=instance_id, address=f"{instance_id}:22", tags=command.tags)
        self.cloud[instance_id] = seen
        self.on_instance[instance_id] = {}
        self.give(Created(op_id=command.op_id, token=command.launch.token, instance=seen))

    def probe_now(self, command: Probe) -> None:
        """Answer a probe with what runs on the instance."""
        if command.worker_id not in self.cloud.keys() - self.unreachable:
            self.give(
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
        self.give(
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
            self.give(
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
        self.give(
            AttemptStarted(op_id=command.op_id, worker_id=command.worker_id, attempt_id=attempt_id)
        )
