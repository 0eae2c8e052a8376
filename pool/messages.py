"""The pool's messages: commands it asks to be carried out, and events it hears back.

Each command with an `op_id` ends in exactly one outcome event that carries the same `op_id`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from longshore.drivers.billing import Billed
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import Existence, InstanceType
from longshore.pool.model import (
    AttemptExit,
    AttemptImage,
    AttemptOrder,
    InstanceSeen,
    Launch,
    ProbeReport,
)

# ---- commands ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ListInstances:
    """List the instance set; ends in `Listed` or `ListingFailed`."""

    op_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInstance:
    """Create the instance of a journalled launch; ends in `Created` or `CreateFailed`."""

    op_id: int
    launch: Launch
    instance_type: InstanceType
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyInstance:
    """Destroy an instance; ends in `Destroyed` or `DestroyFailed`."""

    op_id: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTags:
    """Write tags to an instance; ends in `TagsSet` or `TagsFailed`."""

    op_id: int
    instance_id: str
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindInstance:
    """Ask what the cloud knows of an instance; ends in `InstanceFound` or `FindFailed`."""

    op_id: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBills:
    """Ask how instances that are gone were billed; ends in `BillsTold` or `BillsFailed`."""

    op_id: int
    #: Sorted.
    instance_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Reach a worker and attach a session; ends in `ProbeSucceeded` or `ProbeFailed`.

    On the way its key is proven, the boot probe may be run, the runner is deployed, and what runs
    there is listed.
    """

    op_id: int
    worker_id: str
    revision: int
    address: str
    #: The pinned key, "" when none is.
    host_key: str
    #: What the host must prove to know.
    secret: str = field(repr=False)
    #: Whether to run the boot probe.
    boot: bool
    #: Whether the runner is to try its engine (`pool.trials`).
    trial: bool = False
    #: Whether to list what runs there even when the boot probe fails.
    look_anyway: bool = False
    #: Whether to keep the instance from powering itself off while nobody contacts it.
    suspend_lease: bool = False
    #: The attempts that may be there: the logs of no others are kept.
    expected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession:
    """Drop the connection to a worker, without a word about it afterwards."""

    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAttempt:
    """Start an attempt; ends in `AttemptStarted` or one of the other `Start…`.

    `boot_id` is the boot of the instance that it is meant for: in another it is refused as
    "rebooted", since what that needs there has not been probed.
    """

    op_id: int
    worker_id: str
    order: AttemptOrder
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalAttempt:
    """Send TERM or KILL to an attempt; the exit, not an answer, tells that it worked.

    `grace_s` is in how many seconds KILL follows TERM.
    """

    worker_id: str
    attempt_id: str
    signal: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAttempt:
    """Tell the runner to forget an attempt: its exit is committed and its log complete."""

    worker_id: str
    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLease:
    """Let an instance power itself off once nobody contacts it for orphan_timeout, or not.

    There is no outcome: every probe says it again.
    """

    worker_id: str
    suspended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLimits:
    """Let an attempt use `cpu_millis` of cpu from now on (0: without limit), more or less than so
    far; its memory stays as it was ordered.

    There is no outcome: without a session nothing is sent, and an attempt that its instance does
    not know, or that has ended there, is no error. Whoever decides says it again when a session is
    new: the probe that attached it tells what runs there.
    """

    worker_id: str
    attempt_id: str
    cpu_millis: int


PoolCommand = (
    ListInstances
    | CreateInstance
    | DestroyInstance
    | SetTags
    | FindInstance
    | AskBills
    | Probe
    | CloseSession
    | StartAttempt
    | SignalAttempt
    | ReleaseAttempt
    | SetLease
    | UpdateLimits
)

_BEFORE_THE_PROOF = frozenset({"connect", "host_key", "unforeseen"})

# ---- events -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A complete listing; it says nothing of what changed after it `began_at`."""

    op_id: int
    began_at: float
    instances: tuple[InstanceSeen, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFailed:
    """No complete listing was had."""

    op_id: int
    error: CloudError


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The create call returned an instance."""

    op_id: int
    token: str
    instance: InstanceSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFailed:
    """The create call raised; `AmbiguousResult` means that there may be an instance."""

    op_id: int
    token: str
    error: CloudError


@dataclass(frozen=True, slots=True, kw_only=True)
class Destroyed:
    """The destroy call was accepted; or, where it is not `known`, there was nothing to destroy.

    The cloud may know it later, if it is new or the cloud's word is not consistent yet.
    """

    op_id: int
    instance_id: str
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyFailed:
    """The destroy call raised."""

    op_id: int
    instance_id: str
    error: CloudError


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsSet:
    """The tags are written."""

    op_id: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsFailed:
    """The tags may not be written."""

    op_id: int
    instance_id: str
    error: CloudError


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFound:
    """What the cloud says of an instance; `UNKNOWN` too of drivers that cannot ask.

    `reason` is why it has ended, in the cloud's words, "" where that is not told.
    """

    op_id: int
    instance_id: str
    existence: Existence
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindFailed:
    """The cloud said nothing of the instance."""

    op_id: int
    instance_id: str
    error: CloudError


@dataclass(frozen=True, slots=True, kw_only=True)
class BillsTold:
    """What the cloud tells of the billing of instances; nothing of those that are left out."""

    op_id: int
    #: (instance id, what is told) pairs.
    bills: tuple[tuple[str, Billed], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BillsFailed:
    """The cloud said nothing of how instances were billed."""

    op_id: int
    error: CloudError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSucceeded:
    """The worker answers.

    It is ready, unless `boot_error` says why not; what the report shows counts either way.
    """

    op_id: int
    worker_id: str
    revision: int
    began_at: float
    #: The proven key ("TYPE BASE64").
    host_key: str
    report: ProbeReport
    #: Why the boot probe failed; "" if it passed, or was not asked for.
    boot_error: str = ""
    #: Why its engine's trial failed; "" if that passed, None if none was asked for.
    trial_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailed:
    """The probe got no further than `stage` (connect, host_key, boot, deploy, list, attach)."""

    op_id: int
    worker_id: str
    revision: int
    stage: str
    message: str

    @property
    def proven(self) -> bool:
        """Return whether somebody answered who proved the host's key."""
        return self.stage not in _BEFORE_THE_PROOF


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLost:
    """An attached session ended; the last word from the far end came at `last_contact`."""

    worker_id: str
    last_contact: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """The runner has started the attempt (now, or earlier: starting is idempotent)."""

    op_id: int
    worker_id: str
    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRefused:
    """The runner answered that it did not start the attempt and will not; `code` is its word."""

    op_id: int
    worker_id: str
    attempt_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWithheld:
    """The start was never sent: a secret that the attempt is given cannot be had now."""

    op_id: int
    worker_id: str
    attempt_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUnknown:
    """No answer came; the attempt may run. The next run probe decides."""

    op_id: int
    worker_id: str
    attempt_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptExited:
    """The runner pushed (or repeated) an exit."""

    worker_id: str
    attempt_id: str
    exit: AttemptExit


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptImageSeen:
    """The runner says how far it is with the image of an attempt, and which it is."""

    worker_id: str
    attempt_id: str
    image: AttemptImage


@dataclass(frozen=True, slots=True, kw_only=True)
class LogComplete:
    """Every byte of an ended attempt's log is kept on the dispatcher's side."""

    worker_id: str
    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionNoticed:
    """An instance says that its cloud takes it back; `at` is when, as "2026-01-31T23:59:59Z"."""

    worker_id: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenReported:
    """The runner says that its instance should get no more work."""

    worker_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStalled:
    """What was decided `since` then is not done yet: it waits for the store.

    Signals among it are dropped; all else is done in the end.
    """

    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered:
    """What is decided is done at once again, and so is what waited."""


PoolEvent = (
    Listed
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
    | BillsFailed
    | ProbeSucceeded
    | ProbeFailed
    | SessionLost
    | AttemptStarted
    | StartRefused
    | StartWithheld
    | StartUnknown
    | AttemptExited
    | AttemptImageSeen
    | LogComplete
    | BrokenReported
    | InterruptionNoticed
    | StoreStalled
    | StoreRecovered
)
