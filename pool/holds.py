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


class CreateBlockKind(Enum):
    """What kind of thing keeps a type from being created, as far as a plan depends on it.

    A quota that is used up has room again when an instance leaves; where none was there when it
    refused, there is nothing to wait for: none may be allowed, ever.
    """

    QUOTA = "quota"
    NONE_ALLOWED = "none allowed"
    CAPACITY = "capacity"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which types a hold covers; each field that is None covers all.

    `type_name` is one type, `group` a quota group, `preemptible` one market; `cpu_millis_from` are
    the types that have so many cpus or more.
    """

    type_name: str | None = None
    group: str | None = None
    preemptible: bool | None = None
    cpu_millis_from: int | None = None


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateHold:
    """Calls wait `since` a time `until` another, and why.

    One for a quota keeps nobody from the instances that are known to be allowed. Any other goes on
    as a trial after its end: until a create in its scope succeeds, only one is under way at a time.
    `error` is the kind of error that began it, "" where it was none.
    """

    cause: HoldCause
    scope: Scope
    since: float
    until: float
    reason: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBlock:
    """What keeps a type from being created now.

    `until` is when it ends, None when that hangs on a create that is under way. `covers` are the
    names of the configured types that it concerns; `everywhere` says that these are all. `topic`
    is equal for hindrances whose messages differ in ids and numbers at most.
    """

    kind: CreateBlockKind
    message: str
    until: float | None
    covers: frozenset[str]
    everywhere: bool
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How many instances more may be created in a scope now, and what hinders the others `then`.

    Together they may have `cpu_millis`, None for any number. `is_trial` says that nobody knows if
    there may be one: nothing else is created beside it.
    """

    number: int
    then: CreateBlock
    cpu_millis: int | None = None
    is_trial: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCounts:
    """The instances of a scope: `there`, `going` ones among them, and others that are `coming`.

    Nobody knows which of the two a quota counts, and if it counts instances or their cpus.
    """

    there: int
    going: int = 0
    coming: int = 0
    there_cpu_millis: int = 0
    going_cpu_millis: int = 0
    coming_cpu_millis: int = 0

    @property
    def taken(self) -> int:
        """Return how many of a quota are taken at most."""
        return self.there + self.coming

    @property
    def standing(self) -> int:
        """Return how many are there to stay."""
        return self.there - self.going

    @property
    def taken_cpu_millis(self) -> int:
        """Return how many cpus of a quota are taken at most."""
        return self.there_cpu_millis + self.coming_cpu_millis

    @property
    def standing_cpu_millis(self) -> int:
        """Return how many cpus are there to stay."""
        return self.there_cpu_millis - self.going_cpu_millis
