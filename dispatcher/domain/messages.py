"""The dispatcher's messages: changes to the store, its own commands, its own events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from longshore.dispatcher.domain.audit import AuditEntry
from longshore.dispatcher.domain.budgets import BudgetMemory, BudgetStop
from longshore.dispatcher.domain.containers import Attempt, Container, InstanceRecord
from longshore.dispatcher.domain.deliveries import Delivery
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.ledger import (
    BookedCorrection,
    BookedHour,
    ClosedMonth,
    InstanceBill,
    Interval,
    PrepaidRow,
    PriceRow,
)
from longshore.dispatcher.domain.secrets import DataKey, KnownSecrets, StoredSecret
from longshore.dispatcher.domain.tokens import Token
from longshore.pool.messages import PoolCommand, PoolEvent
from longshore.pool.model import BehaviorNote, IdleBehavior, Launch

# ---- changes to the store -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertContainers:
    """Add new containers, all or nothing; made by the API, before it acknowledges them.

    `idempotency_key` is "" for none; `fingerprint` tells whether a repeated key means the same.
    """

    containers: tuple[Container, ...]
    user: str
    idempotency_key: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertJob:
    """Add a new job with all of its containers, or nothing; made by the API.

    The specifications are the job's tasks'; the other fields are those of `InsertContainers`.
    """

    job: Job
    containers: tuple[Container, ...]
    user: str
    idempotency_key: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestJobCancel:
    """Note that a job, and with it all of its containers that have not ended, is to be cancelled.

    Made by the API.
    """

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestJobPriority:
    """Note the new priority of a job and of all of its containers that have not ended."""

    job_id: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestJobHold:
    """Note whether a job is held; made by the API."""

    job_id: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestJobRevision:
    """Replace what a per-instance job is by its next revision; made by the API.

    All that a user may name is the new one's: name, labels, priority, tasks, terms.
    """

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteJobLaunch:
    """Note for which time of its schedule a periodic job was begun last; made by the API."""

    job_id: str
    launched_for: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancel:
    """Note that a container is to be cancelled; made by the API."""

    container_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPriority:
    """Note a container's new priority; made by the API."""

    container_id: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveContainer:
    """Write what the engine decides of a container (not its priority or `cancel_requested`)."""

    container: Container


@dataclass(frozen=True, slots=True, kw_only=True)
class AddContainer:
    """Add a container that the engine made: one of a per-instance job, for one instance."""

    container: Container


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveSpec:
    """Write a container's specification and name: a per-instance job's latest revision's."""

    container: Container


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveAttempt:
    """Insert or replace one attempt."""

    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveJob:
    """Write what the engine decides of a job: state, times, exit code, reason, tallies."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveLaunch:
    """Insert or replace a launch intent."""

    launch: Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLaunch:
    """Forget a launch intent: its instance is known, or there never will be one."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveInstance:
    """Insert or replace what is kept of an instance."""

    instance: InstanceRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveInterval:
    """Insert an interval of the ledger, or replace it by the same with its end or outcome.

    `late` says that it has ended before, so that its last hour may be booked already.
    """

    interval: Interval
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveBill:
    """Insert or replace what an instance's bill is reckoned by."""

    bill: InstanceBill


@dataclass(frozen=True, slots=True, kw_only=True)
class DropBill:
    """Remove what is kept of a launch in the ledger; one of which nothing is kept is no error."""

    launch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteListing:
    """Replace when the latest complete listing began that showed what is there (see `Recovered`).

    `at_ms` is in milliseconds since the epoch.
    """

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveBookedHour:
    """Replace the rollup of one hour; what was noted of it meanwhile stays noted."""

    booked: BookedHour


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseMonth:
    """Put on record what a month came to: from then on what changes it is a correction.

    Nothing is, where it comes to something else by the time that this is written.
    """

    month: ClosedMonth


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveBudget:
    """Remember what was told of a budget, and whether it stops new work."""

    name: str
    memory: BudgetMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveUnusualDay:
    """Remember that an unusual day of a project was told; `day` is as "2026-11-28".

    With "" as the project it says that the day was looked at, for all of them.
    """

    project: str
    day: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveDelivery:
    """Keep a notification for a webhook until it is taken, in place of what is kept of it."""

    delivery: Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetDelivery:
    """Keep a notification for a webhook no more; one that is not kept is no error."""

    webhook: str
    notification_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPrices:
    """Insert rows of prices, and mark the hours from then on; one that is there stays as it is.

    `prepaid` are rows of what is paid for whether it runs or not.
    """

    rows: tuple[PriceRow, ...]
    prepaid: tuple[PrepaidRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertToken:
    """Insert a new token, unless the key of its request made one before."""

    token: Token
    #: Who asks, with which key, "" for none, and what the request means.
    user: str
    idempotency_key: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCorrections:
    """Add what is booked beside the lines; what was added before stays as it is."""

    corrections: tuple[BookedCorrection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveToken:
    """Insert or replace what is kept of a token."""

    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteTokenUse:
    """Keep when a token was used last, in seconds since the epoch."""

    token_id: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveAudit:
    """Insert an entry of the audit log, or replace it once it is known what came of it."""

    entry: AuditEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveSecrets:
    """Insert or replace secrets and the keys that they are encrypted with, all or nothing."""

    secrets: tuple[StoredSecret, ...] = ()
    data_keys: tuple[DataKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSecret:
    """Remove a secret; one that is not there is no error."""

    project: str
    name: str


Change = (
    InsertContainers
    | InsertJob
    | RequestCancel
    | RequestPriority
    | RequestJobCancel
    | RequestJobPriority
    | RequestJobHold
    | RequestJobRevision
    | NoteJobLaunch
    | AddContainer
    | SaveSpec
    | SaveJob
    | SaveContainer
    | SaveAttempt
    | SaveLaunch
    | DeleteLaunch
    | SaveInstance
    | SaveInterval
    | SaveBill
    | DropBill
    | NoteListing
    | SaveBookedHour
    | AddCorrections
    | CloseMonth
    | AddPrices
    | InsertToken
    | SaveToken
    | NoteTokenUse
    | SaveAudit
    | SaveSecrets
    | RemoveSecret
    | SaveBudget
    | SaveUnusualDay
    | SaveDelivery
    | ForgetDelivery
)

# ---- commands -----------------------------------------------------------------------------------


class StrayAction(Enum):
    """What became of a stray."""

    ENDED_BY_US = "no container wants it: it is ended"
    KEPT = "another store may know it: it is kept until an admin decides (longshore strays)"
    KILLED = "an admin lets it be ended"
    ADOPTED = "an admin leaves it to its own end"
    GONE = "it has ended, or its instance is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishContainer:
    """Tell the API's subscribers what a container is now.

    `released` says that what held it back has just ended: others that it waited for, or its turn in
    its array.
    """

    container: Container
    released: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishJob:
    """Tell the API's subscribers what a job is now.

    `last_action` says in a few words what was done to it, "" where it is its state that changed.
    """

    job: Job
    last_action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishInstance:
    """Tell the API's subscribers that an instance changed."""

    worker_id: str
    #: What it was at that moment.
    state: str
    #: Why it changed.
    reason: str
    #: Whether somebody should mend it.
    warns: bool = False
    #: Its last record, None while it is there.
    gone: InstanceRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFailedPass:
    """Tell the log that a planning pass failed, by an error of our own code, and did nothing."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStray:
    """Tell the log of a process on an instance that no container wants."""

    #: What became of it.
    action: StrayAction
    worker_id: str
    attempt_id: str
    #: Whose it says to be, "" for nobody's.
    container_id: str
    #: The store that may know it, "" for ours.
    store: str = ""
    #: How it ended, None where that is not known, or it has not.
    exit_code: int | None = None


Publication = PublishContainer | PublishJob | PublishInstance | PublishStray | PublishFailedPass


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """Tell who waits for it that what came of a request is committed: a restart knows of it.

    `asked` is the number that the request came with; one without (None) is not confirmed.
    """

    asked: int


Following = PoolCommand | Publication | Confirm
"""What waits for the commits before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Commit `changes` in one transaction, then (never before) carry out `then`, in order."""

    changes: tuple[Change, ...]
    then: tuple[Following, ...] = ()


Command = Following | Commit

# ---- events -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Containers were committed to the store.

    `ended` says of what they wait for, and what had ended before, whether it succeeded; by node
    (`domain.jobs`), for an array's elements by the element's.
    """

    containers: tuple[Container, ...]
    ended: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """A job was committed to the store with its containers; `ended` as in `Submitted`."""

    job: Job
    containers: tuple[Container, ...]
    ended: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelRequested:
    """The cancellation of a job was committed to the store."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPriorityRequested:
    """A job's new priority was committed to the store."""

    job_id: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHoldRequested:
    """Whether a job is held was committed to the store."""

    job_id: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRevised:
    """The next revision of a per-instance job was committed to the store."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLaunched:
    """A run of a periodic job was committed to the store, for a time of its schedule."""

    job_id: str
    launched_for: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """A cancellation was committed to the store."""

    container_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRequested:
    """A new priority was committed to the store."""

    container_id: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviorRequested:
    """An admin wants another idle behavior of an instance; `asked` is as in `Confirm`.

    `note` is what was said of it, None for nothing.
    """

    worker_id: str
    behavior: IdleBehavior
    note: BehaviorNote | None = None
    asked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceKillRequested:
    """An admin wants an instance destroyed now, whatever runs on it; `asked` is as in `Confirm`."""

    worker_id: str
    reason: str
    asked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StraysDecided:
    """An admin says what becomes of kept strays on an instance: ended, or left to their own end.

    `attempt_ids` are what the instance calls them; `asked` is as in `Confirm`.
    """

    worker_id: str
    attempt_ids: tuple[str, ...]
    adopt: bool
    asked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionsWatched:
    """Somebody is about to wait for containers and jobs, `roots`, as far as they have not ended.

    Their ends are remembered until what waits for them is submitted. `asked` is as in `Confirm`:
    what had ended by then is committed, so that whoever looks finds it.
    """

    roots: tuple[str, ...]
    asked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionsUnwatched:
    """Who had the ends of `roots` watched does not submit what waits for them."""

    roots: tuple[str, ...]


WatchEvent = CompletionsWatched | CompletionsUnwatched

AdminEvent = BehaviorRequested | InstanceKillRequested | StraysDecided
"""What admins ask of instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsChanged:
    """Which secrets can be opened has changed, and that is committed; `known` is what can be."""

    known: KnownSecrets


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStopsChanged:
    """Which budgets let nothing new begin has changed, and that is committed; `stops` are all."""

    stops: tuple[BudgetStop, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesChanged:
    """What an hour of an instance costs now, in USD, where the cloud has told it.

    `usd_per_hour` is by type, `in_zones` by type and zone: that counts first for who is there, and
    0 is no price.
    """

    usd_per_hour: Mapping[str, Decimal]
    in_zones: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overloaded:
    """Something cannot keep up with what runs: `source` is what, `message` how, as a sentence."""

    source: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """The armed wake-up fired; whatever is due by now is done."""


UserEvent = (
    Submitted
    | CancelRequested
    | PriorityRequested
    | JobSubmitted
    | JobCancelRequested
    | JobPriorityRequested
    | JobHoldRequested
    | JobRevised
    | JobLaunched
)

ServerEvent = SecretsChanged | BudgetStopsChanged | PricesChanged | Overloaded | Woken
"""What the server tells by itself."""

Event = PoolEvent | UserEvent | AdminEvent | WatchEvent | ServerEvent
