"""What the pool tells the dispatcher's engine, which owns containers and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from longshore.drivers.billing import Billed
from longshore.pool.model import AttemptExit, AttemptImage, Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchMade:
    """A launch was decided; it must be journalled before its create command runs."""

    launch: Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnded:
    """A launch needs no journal any more: its host key is pinned, or nothing came of it."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerChanged:
    """A worker is new, or something that people or the store should know of it changed.

    `state` is what it was at that moment, since several changes may come at once. What `warns` is
    something that somebody should mend.
    """

    worker_id: str
    state: str
    reason: str
    warns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGone:
    """The cloud no longer lists a worker; it is forgotten. `state` is what it was until then.

    `seen_at` is when it was heard of last, by a session or a listing, in seconds since the epoch;
    None where this process never heard of it.
    """

    worker_id: str
    state: str
    reason: str
    seen_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceBilled:
    """More is known of how an instance that is gone was billed, all that ever was told included.

    What is `final` is the last word, told whole or given up; but for an instance that shows again.
    """

    instance_id: str
    billed: Billed
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRunning:
    """The runner confirmed that the attempt runs."""

    attempt_id: str
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptImageKnown:
    """More may be known of the image of an attempt that runs."""

    attempt_id: str
    image: AttemptImage


class EndKind(Enum):
    """From what it is known that an attempt is over."""

    EXITED = "exited"
    """The runner has its exit."""
    REFUSED = "refused"
    """The runner will not start it, for a fault of the request: it never ran, and never will."""
    OVERLOADED = "overloaded"
    """The runner did not start it, since too much runs there."""
    WITHHELD = "withheld"
    """It was never sent, since a secret that it is given could not be had."""
    MISSING = "missing"
    """It is not on its worker, and no exit of it is."""
    INSTANCE_GONE = "instance_gone"
    """Its instance is gone: it may have run there, even if nobody saw it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """An attempt is over: the one word of it, from here to the store."""

    attempt_id: str
    kind: EndKind
    #: How it ended, of one that has `EXITED`; None of all others.
    exit: AttemptExit | None = None
    #: Why there is no exit, in a sentence; "" where there is one.
    cause: str = ""
    #: Whether the cloud had said that it takes the instance back, and that explains the end.
    interrupted: bool = False
    #: When an instance that is gone was heard of last, by a session or a listing, in seconds since
    #: the epoch; None of one that is there.
    seen_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentToldToEnd:
    """A resident was told to end, since its instance is to be destroyed."""

    attempt_id: str
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLogComplete:
    """Every byte of the attempt's log is kept."""

    attempt_id: str
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLogLost:
    """The rest of the attempt's log will never come."""

    attempt_id: str
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayFound:
    """An instance runs an attempt that nobody has placed there (any more).

    It is being ended, but for one that another store (`kept_for`) may know: that one is kept.
    `container_id` is whose it says to be.
    """

    attempt_id: str
    worker_id: str
    container_id: str
    kept_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayGone:
    """A stray has ended, as `exit` says, or its instance is gone: it is None then."""

    attempt_id: str
    worker_id: str
    container_id: str
    exit: AttemptExit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOverloaded:
    """A runner refused a start since its instance has too much to do; `message` is its word."""

    worker_id: str
    message: str


Notice = (
    LaunchMade
    | LaunchEnded
    | WorkerChanged
    | WorkerGone
    | InstanceBilled
    | AttemptRunning
    | AttemptImageKnown
    | AttemptEnd
    | ResidentToldToEnd
    | AttemptLogComplete
    | AttemptLogLost
    | StrayFound
    | StrayGone
    | RunnerOverloaded
)
