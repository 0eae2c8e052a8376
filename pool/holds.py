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
    BOOT_FAILURE = "boot_failure"


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
    """Which types a hold covers; each field that is None covers all."""

    #: One type.
    type_name: str | None = None
    #: A quota group.
    group: str | None = None
    #: One market.
    preemptible: bool | None = None
    #: The types that have so many cpus or more.
    cpu_millis_from: int | None = None


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateHold:
    """Create calls in a scope wait until a time, and why.

    One for a quota keeps nobody from the instances that are known to be allowed. Any other goes on
    as a trial after its end: until a create in its scope succeeds, only one is under way at a time.
    """

    cause: HoldCause
    scope: Scope
    #: When it began.
    since: float
    #: When it ends, or its trial begins.
    until: float
    reason: str
    #: The kind of error that began it, "" where it was none.
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBlock:
    """What keeps a type from being created now."""

    kind: CreateBlockKind
    message: str
    #: When it ends, None when that hangs on a create that is under way.
    until: float | None
    #: The names of the configured types that it concerns.
    covers: frozenset[str]
    #: Whether these are all.
    everywhere: bool
    #: Equal for blocks whose messages differ in ids and numbers at most.
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How many more instances may be created in a scope now."""

    number: int
    #: What keeps further ones from being created.
    then: CreateBlock
    #: How many cpus they may have together, None for any number.
    cpu_millis: int | None = None
    #: Whether nobody knows if there may be one: nothing else is created beside it.
    is_trial: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCounts:
    """The instances of a scope, by number and by cpus.

    Nobody knows whether a quota counts instances that are going or coming, and if it counts
    instances or their cpus.
    """

    #: Those that are there.
    there: int
    #: Those of them that are going.
    going: int = 0
    #: Those that are not there yet.
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
