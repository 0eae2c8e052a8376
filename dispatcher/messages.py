"""The dispatcher's messages: changes to the store, its own commands, its own events."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.model import Attempt, Container, InstanceRecord
from pool.messages import PoolCommand, PoolEvent
from pool.model import IdleBehavior, Launch

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
class SaveAttempt:
    """Insert or replace one attempt."""

    attempt: Attempt


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


Change = (
    InsertContainers
    | RequestCancel
    | RequestPriority
    | SaveContainer
    | SaveAttempt
    | SaveLaunch
    | DeleteLaunch
    | SaveInstance
)

# ---- commands -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishContainer:
    """Tell the API's subscribers what a container is now."""

    container: Container


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishInstance:
    """Tell the API's subscribers that an instance changed.

    `state` is what it was at that moment, `reason` why it changed; `gone` is its last record, None
    while it is there.
    """

    worker_id: str
    state: str
    reason: str
    gone: InstanceRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFailedPass:
    """Tell the log that a planning pass failed, by an error of our own code, and did nothing."""

    error: Exception


Publication = PublishContainer | PublishInstance | PublishFailedPass


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Commit `changes` in one transaction, then (never before) carry out `then`, in order."""

    changes: tuple[Change, ...]
    then: tuple[PoolCommand | Publication, ...] = ()


Command = PoolCommand | Commit | Publication

# ---- events -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Containers were committed to the store."""

    containers: tuple[Container, ...]


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
    """An admin wants another idle behavior of an instance."""

    worker_id: str
    behavior: IdleBehavior


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceKillRequested:
    """An admin wants an instance destroyed now, whatever runs on it."""

    worker_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overloaded:
    """Something cannot keep up with what runs: `source` is what, `message` how, as a sentence."""

    source: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """The armed wake-up fired; whatever is due by now is done."""


Event = (
    PoolEvent
    | Submitted
    | CancelRequested
    | PriorityRequested
    | BehaviorRequested
    | InstanceKillRequested
    | Overloaded
    | Woken
)
