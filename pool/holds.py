"""What holds of creates are: causes, scopes, ends, and what they keep from being created."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class HoldCause(Enum):
    """Why creates may have to wait, in the order in which they are told of."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    RATE_LIMIT = "rate_limit"
    ERROR = "error"
    STILLBORN = "stillborn"


class HindranceKind(Enum):
    """What kind of thing keeps a type from being created, as far as a plan depends on it."""

    QUOTA = "quota"
    CAPACITY = "capacity"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which types a hold covers; each field that is None covers all.

    `type_name` is one type, `group` a quota group, `preemptible` one market.
    """

    type_name: str | None = None
    group: str | None = None
    preemptible: bool | None = None


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Calls wait `since` a time `until` another, and why.

    A hold for quota ends early when fewer than `instances` are left in its scope (None: it does
    not). It goes on as a trial after its end: until a create in its scope succeeds, only one is
    under way at a time. `error` is the kind of error that began it, "" where it was none.
    """

    cause: HoldCause
    scope: Scope
    since: float
    until: float
    reason: str
    instances: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrance:
    """What keeps a type from being created now.

    `until` is when it ends, None when that hangs on a create that is under way. `covers` are the
    names of the configured types that it concerns; `everywhere` says that these are all. `topic`
    is equal for hindrances whose messages differ in ids and numbers at most.
    """

    kind: HindranceKind
    message: str
    until: float | None
    covers: frozenset[str]
    everywhere: bool
    topic: str = ""
