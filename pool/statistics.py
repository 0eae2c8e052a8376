"""What the pool counts and times since the process began, read off what passes its doors; pure.

Three calls feed it: `begun` with the commands that leave, `heard` with each outcome that comes
back, `moved` with each move of a worker. It decides nothing, and nothing is decided from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.pool.histogram import Histogram
from longshore.pool.messages import (
    AskBills,
    BillsFailed,
    BillsTold,
    Created,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    FindFailed,
    FindInstance,
    InstanceFound,
    Listed,
    ListingFailed,
    ListInstances,
    PoolCommand,
    PoolEvent,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    SetTags,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import Worker, WorkerState
from longshore.pool.transitions import Removed, Trigger

MOST_UNANSWERED = 10_000

CALL_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
LIFE_BOUNDS_S = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0)

_NOT_READY = (WorkerState.UNKNOWN, WorkerState.BOOTING)


class BootOutcome(Enum):
    """What became of an instance until it was ready, or never was."""

    SUCCESS = "success"
    FAILURE = "failure"
    ABORTED = "aborted"
    DISAPPEARED = "disappeared"


class Operation(Enum):
    """What is asked of a driver."""

    LIST = "list"
    CREATE = "create"
    DESTROY = "destroy"
    TAGS = "tags"
    FIND = "find"
    BILLS = "bills"


class OperationOutcome(Enum):
    """What a driver's call came to: done, or the kind of its error."""

    OK = "ok"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    CAPACITY = "capacity"
    AUTH = "auth"
    AMBIGUOUS = "ambiguous"
    NOT_FOUND = "not_found"
    OTHER = "other"


class ProbeOutcome(Enum):
    """What a probe came to: success, the stage that it failed at, or nobody's business any more."""

    SUCCESS = "success"
    CONNECT = "connect"
    HOST_KEY = "host_key"
    BOOT = "boot"
    DEPLOY = "deploy"
    LIST = "list"
    TRIAL = "trial"
    ATTACH = "attach"
    OTHER = "other"
    DISCARDED = "discarded"


_OPERATION_OF: dict[type[PoolEvent], Operation] = {
    Listed: Operation.LIST,
    ListingFailed: Operation.LIST,
    Created: Operation.CREATE,
    CreateFailed: Operation.CREATE,
    Destroyed: Operation.DESTROY,
    DestroyFailed: Operation.DESTROY,
    TagsSet: Operation.TAGS,
    TagsFailed: Operation.TAGS,
    InstanceFound: Operation.FIND,
    FindFailed: Operation.FIND,
    BillsTold: Operation.BILLS,
    BillsFailed: Operation.BILLS,
}
_KIND_OF: dict[type[CloudError], OperationOutcome] = {
    RateLimitError: OperationOutcome.RATE_LIMIT,
    QuotaError: OperationOutcome.QUOTA,
    CapacityError: OperationOutcome.CAPACITY,
    CloudAuthError: OperationOutcome.AUTH,
    AmbiguousResult: OperationOutcome.AMBIGUOUS,
    InstanceNotFound: OperationOutcome.NOT_FOUND,
}
_STAGES = {
    outcome.value: outcome
    for outcome in ProbeOutcome
    if outcome not in (ProbeOutcome.SUCCESS, ProbeOutcome.DISCARDED)
}


class Statistics:
    """Counters and histograms of one pool; all begin at 0 with the process.

    Times are in seconds. Those to SSH and to ready count from when an instance appeared, of
    instances that this process launched; that of a call or a probe from when it left.
    """

    def __init__(self) -> None:
        self.boots = dict.fromkeys(BootOutcome, 0)
        self.disappeared = dict.fromkeys(WorkerState, 0)
        self.operations = {(o, kind): 0 for o in Operation for kind in OperationOutcome}
        self.operation_s = {operation: Histogram(CALL_BOUNDS_S) for operation in Operation}
        self.probe_s = {outcome: Histogram(CALL_BOUNDS_S) for outcome in ProbeOutcome}
        self.time_to_ssh_s = Histogram(LIFE_BOUNDS_S)
        self.time_to_ready_s = Histogram(LIFE_BOUNDS_S)
        self.time_to_disappear_s = Histogram(LIFE_BOUNDS_S)
        self.interruptions = 0
        self._begun_at: dict[int, float] = {}

    def begun(self, commands: Iterable[PoolCommand], now: float) -> None:
        """Note when commands leave that will be answered.

        Of more than `MOST_UNANSWERED` the oldest are forgotten: they are counted, but not timed.
        """
        for command in commands:
            match command:
                case (
                    ListInstances()
                    | CreateInstance()
                    | DestroyInstance()
                    | SetTags()
                    | FindInstance()
                    | AskBills()
                    | Probe()
                ):
                    self._begun_at[command.op_id] = now
                    if len(self._begun_at) > MOST_UNANSWERED:
                        del self._begun_at[next(iter(self._begun_at))]
                case _:
                    pass

    def heard(self, event: PoolEvent, workers: Mapping[str, Worker], now: float) -> None:
        """Count and time the outcome of a driver's call or of a probe; before it is reacted to."""
        match event:
            case Listed() | Created() | Destroyed() | TagsSet() | InstanceFound() | BillsTold():
                self._count_operation(event, OperationOutcome.OK, now)
            case (
                ListingFailed()
                | CreateFailed()
                | DestroyFailed()
                | TagsFailed()
                | FindFailed()
                | BillsFailed()
            ):
                self._count_operation(
                    event, _KIND_OF.get(type(event.error), OperationOutcome.OTHER), now
                )
            case ProbeSucceeded():
                outcome = ProbeOutcome.BOOT if event.boot_error else ProbeOutcome.SUCCESS
                self._count_probe(event, outcome, workers, proven=True, now=now)
            case ProbeFailed():
                outcome = _STAGES.get(event.stage, ProbeOutcome.OTHER)
                self._count_probe(event, outcome, workers, proven=event.proven, now=now)
            case _:
                pass

    def moved(
        self, worker: Worker, state: WorkerState | Removed, trigger: Trigger, now: float
    ) -> None:
        """Count a move of a worker to `state`; call it while the worker is what it was before.

        A boot ends once: what follows when an instance that was ready boots anew is no other.
        """
        was_ready = bool(worker.link.boot_id)
        if worker.state in _NOT_READY and state not in _NOT_READY and not was_ready:
            self._count_boot(worker, state, trigger, now)
        if isinstance(state, Removed):
            self.disappeared[worker.state] += 1
            if worker.state is WorkerState.SHUTDOWN:
                self.time_to_disappear_s.observe(now - worker.state_since)

    def _count_boot(
        self, worker: Worker, state: WorkerState | Removed, trigger: Trigger, now: float
    ) -> None:
        if isinstance(state, Removed):
            outcome = BootOutcome.DISAPPEARED
        elif state is not WorkerState.SHUTDOWN:
            outcome = BootOutcome.SUCCESS
            if worker.launched_here:
                self.time_to_ready_s.observe(now - worker.appeared_at)
        elif trigger is Trigger.BOOT_TIMEOUT:
            outcome = BootOutcome.FAILURE
        else:
            outcome = BootOutcome.ABORTED
        self.boots[outcome] += 1

    def _count_operation(
        self,
        event: Listed
        | ListingFailed
        | Created
        | CreateFailed
        | Destroyed
        | DestroyFailed
        | TagsSet
        | TagsFailed
        | InstanceFound
        | FindFailed
        | BillsTold
        | BillsFailed,
        outcome: OperationOutcome,
        now: float,
    ) -> None:
        operation = _OPERATION_OF[type(event)]
        self.operations[operation, outcome] += 1
        begun_at = self._begun_at.pop(event.op_id, None)
        if begun_at is not None:
            self.operation_s[operation].observe(now - begun_at)

    def _count_probe(
        self,
        event: ProbeSucceeded | ProbeFailed,
        outcome: ProbeOutcome,
        workers: Mapping[str, Worker],
        *,
        proven: bool,
        now: float,
    ) -> None:
        worker = workers.get(event.worker_id)
        if (
            worker is None
            or worker.state is WorkerState.SHUTDOWN
            or event.op_id != worker.link.probe_op
        ):
            outcome = ProbeOutcome.DISCARDED
        elif proven and not worker.link.reached:
            worker.link.reached = True
            if worker.launched_here:
                self.time_to_ssh_s.observe(now - worker.appeared_at)
        begun_at = self._begun_at.pop(event.op_id, None)
        if begun_at is not None:
            self.probe_s[outcome].observe(now - begun_at)
