"""What a driver implements, and the vocabulary it needs: resources, instance types, instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Protocol, runtime_checkable

import msgspec

CLUSTER_TAG = "longshore-cluster"
TYPE_TAG = "longshore-type"
TOKEN_TAG = "longshore-token"  # noqa: S105 - the name of a tag, not a password
IDLE_BEHAVIOR_TAG = "longshore-idle-behavior"

SECRET = msgspec.Meta(extra={"secret": True})
"""Marks a driver's parameter as one that nothing shows: `Annotated[str, SECRET]`."""

DIMENSIONS = ("cpus", "memory", "disk", "gpus")
"""The dimensions that every instance has; no custom resource has such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """An amount in every dimension that is scheduled.

    `cpu_millis` are thousandths of a cpu; `custom` are (name, amount) pairs sorted by name.
    """

    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    gpus: int = 0
    custom: tuple[tuple[str, int], ...] = ()

    def fits_in(self, room: Resources) -> bool:
        """Return whether `room` has at least this amount in every dimension."""
        return (
            self.cpu_millis <= room.cpu_millis
            and self.memory_bytes <= room.memory_bytes
            and self.disk_bytes <= room.disk_bytes
            and self.gpus <= room.gpus
            and (not self.custom or self._custom_fits_in(room))
        )

    def _custom_fits_in(self, room: Resources) -> bool:
        amounts = dict(room.custom)
        return all(amount <= amounts.get(name, 0) for name, amount in self.custom)

    def shortages(self, room: Resources) -> list[str]:
        """Return the names of the dimensions in which `room` is too small, in a fixed order."""
        if self.fits_in(room):
            return []
        pairs = (
            ("cpus", self.cpu_millis, room.cpu_millis),
            ("memory", self.memory_bytes, room.memory_bytes),
            ("disk", self.disk_bytes, room.disk_bytes),
            ("gpus", self.gpus, room.gpus),
        )
        short = [name for name, wanted, free in pairs if wanted > free]
        amounts = dict(room.custom)
        short += [name for name, amount in self.custom if amount > amounts.get(name, 0)]
        return short

    def having(self, amounts: Iterable[tuple[str, int]]) -> Resources:
        """Return this with other amounts in the named dimensions (cpus in thousandths)."""
        wanted = dict(amounts)
        return Resources(
            cpu_millis=wanted.pop("cpus", self.cpu_millis),
            memory_bytes=wanted.pop("memory", self.memory_bytes),
            disk_bytes=wanted.pop("disk", self.disk_bytes),
            gpus=wanted.pop("gpus", self.gpus),
            custom=tuple(
                (name, amount)
                for name, amount in sorted({**dict(self.custom), **wanted}.items())
                if amount
            ),
        )

    def plus(self, other: Resources) -> Resources:
        """Return the sum in every dimension."""
        return self._combined(other, 1)

    def minus(self, other: Resources) -> Resources:
        """Return the difference in every dimension; a negative one fits nothing that is asked."""
        return self._combined(other, -1)

    def _combined(self, other: Resources, sign: int) -> Resources:
        custom = self.custom
        if other.custom:
            amounts = dict(self.custom)
            for name, amount in other.custom:
                amounts[name] = amounts.get(name, 0) + sign * amount
            custom = tuple(sorted(amounts.items()))
        return Resources(
            cpu_millis=self.cpu_millis + sign * other.cpu_millis,
            memory_bytes=self.memory_bytes + sign * other.memory_bytes,
            disk_bytes=self.disk_bytes + sign * other.disk_bytes,
            gpus=self.gpus + sign * other.gpus,
            custom=custom,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A priced bundle of resources under our own name."""

    name: str
    #: The cloud's name for it.
    provider_type: str
    #: What an instance has in all.
    resources: Resources
    price_usd_per_hour: Decimal
    #: What the operating system keeps of it.
    reserve: Resources = Resources()
    preemptible: bool = False
    #: (key, value) pairs sorted by key.
    labels: tuple[tuple[str, str], ...] = ()
    #: "" where it is not known.
    gpu_model: str = ""
    #: Of each GPU; 0 where it is not known.
    gpu_memory_bytes: int = 0
    #: What a container gets there that does not name a dimension: (dimension, amount) pairs sorted
    #: by dimension, named as `Resources.shortages` names it, cpus in thousandths.
    defaults: tuple[tuple[str, int], ...] = ()
    #: The share of its price that is put on top when types are chosen from, for work that was lost
    #: with instances that the cloud took back.
    waste: Decimal = Decimal(0)
    #: How many instances of it are paid for whether they run or not: so many cost nothing more.
    prepaid: int = 0
    #: The cloud's id of the reserved capacity in which an instance is tried first, "" for none.
    reservation: str = ""
    #: What containers may use.
    allocatable: Resources = field(init=False, repr=False, compare=False)
    #: The price with `waste` on top: only to choose by, and never a cost.
    effective_usd_per_hour: Decimal = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Asked for all the time, by the planner and by every check.
        object.__setattr__(self, "allocatable", self.resources.minus(self.reserve))
        effective = self.price_usd_per_hour * (1 + self.waste)
        object.__setattr__(self, "effective_usd_per_hour", effective)


class HostKeyVerdict(Enum):
    """What a driver says of a host key: proven, proven wrong, or it has no means to tell."""

    GENUINE = "genuine"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class Existence(Enum):
    """What a cloud says of an instance by its id: it is there, it has ended, or it cannot tell."""

    PRESENT = "present"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a cloud says of an instance by its id, with `reason`: why it has ended, "" untold."""

    existence: Existence
    reason: str = ""


class Power(Enum):
    """What a cloud says of how an instance stands; each value is what people are told."""

    ON = "on"
    """It runs, or is about to: what is assumed of drivers that do not tell."""
    SUSPENDED = "suspended"
    """What runs there stands still, and may go on."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    """Nothing runs there any more, and it is there."""
    ENDING = "ending"
    """It will be gone."""
    FAILED = "failed"
    """The cloud could not make it, or not do what it was asked to: it may run, or never will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How an instance stands, and why, in the cloud's words; `reason` is "" where it is not told.

    Why one is on is nobody's concern.
    """

    power: Power
    reason: str = ""


@runtime_checkable
class TellsCondition(Protocol):
    """What an instance has beside the rest when its cloud tells how it stands."""

    @property
    def condition(self) -> Condition:
        """Return how it stood when it was listed.

        `STOPPED` has what cannot be reached there ended at once, `FAILED` what was never ready: so
        only where the cloud says just that. All else is for people.
        """
        ...


class Instance(Protocol):
    """A cloud VM as the driver reports it: a value read once, and the calls that act on the VM."""

    @property
    def id(self) -> str:
        """Return the cloud's own id; it never changes and is never used again."""
        ...

    @property
    def address(self) -> str:
        """Return `host:port` of its SSH server, or "" while it has none yet."""
        ...

    @property
    def tags(self) -> Mapping[str, str]:
        """Return the tags it had when it was listed."""
        ...

    def destroy(self) -> None:
        """Ask the cloud to end it; returns when accepted, not when gone. Twice is no error."""
        ...

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Set these tags, leaving others as they are."""
        ...

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        """Say whether `public_key` ("TYPE BASE64") is this instance's, from the cloud itself."""
        ...


class InstanceSet(Protocol):
    """One cloud account as a driver sees it; every call is synchronous and made from any thread."""

    def create(
        self,
        *,
        instance_type: InstanceType,
        image: str,
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        """Create one instance, tagged from its first moment, and return it as it is then.

        `init_command` is a POSIX shell script that the instance runs as root (or its only user)
        before it can be reached; `public_key` ("TYPE BASE64") may log in. Called twice with the
        same `token` it returns the same instance.

        Raises any `CloudError`; `AmbiguousResult` when it may have been created.
        """
        ...

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List every instance that carries all of `tags`; an incomplete list is an error."""
        ...

    def close(self) -> None:
        """Let go of connections and threads; instances go on."""
        ...


@runtime_checkable
class QuotaGroups(Protocol):
    """What an instance set has beside the rest when its account's limits are per group of types."""

    def quota_group(self, instance_type: InstanceType) -> str:
        """Return the name of the limit that instances of this type count against.

        Called once per configured type, at start. Types of one group that differ in `preemptible`
        have limits of their own. A driver without this method has one limit for everything.
        """
        ...


@runtime_checkable
class PowersOff(Protocol):
    """What an instance set has beside the rest when an instance can end its own billing."""

    def power_off_command(self) -> str:
        """Return the POSIX shell command that, run on an instance, makes the cloud end it.

        Only where that ends the billing: it is what a forgotten instance runs at last. Called once,
        at start. A driver without this method, or one that returns "", leaves instances running.
        """
        ...


@runtime_checkable
class Prices(Protocol):
    """What an instance set has beside the rest when its cloud tells what instances cost now."""

    def prices(self, instance_types: Sequence[InstanceType]) -> Mapping[str, Decimal]:
        """Return what an hour of each type costs now, in USD, by our name of the type.

        Types whose price the cloud does not tell are left out. Raises any `CloudError`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonePrice:
    """What an hour of a type costs in a zone, from a time on."""

    #: Our name of the type.
    type_name: str
    zone: str
    #: By the cloud's clock, in seconds since the epoch.
    valid_from: float
    usd_per_hour: Decimal


@runtime_checkable
class ZonePrices(Protocol):
    """What a set that is `Prices` has beside the rest when prices differ by zone, and move."""

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        """Return what an hour cost in zones since a time: what held then, and each change.

        `since` is in seconds since the epoch. Types whose price is the same everywhere are left
        out. Sorted by time. Raises any `CloudError`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What was made with an instance, and is there, and billed, without it."""

    #: What people call it ("volume").
    kind: str
    #: The cloud's.
    id: str
    #: More of it, "" for nothing.
    detail: str = ""


@runtime_checkable
class Leftovers(Protocol):
    """What an instance set has beside the rest when more than an instance can stay of one."""

    def leftovers(self, tags: Mapping[str, str]) -> Sequence[Leftover]:
        """List what carries all of `tags`, is no instance, and belongs to none at this moment.

        What is on its way from an instance that ends may be among it; what goes on with an
        instance that is listed may not. Sorted by kind and id, without duplicates; an incomplete
        list is an error. Asked every few minutes. Raises any `CloudError`; `CloudAuthError` where
        the credentials may not look.
        """
        ...


@runtime_checkable
class Finds(Protocol):
    """What an instance set has beside the rest when its cloud can tell that an instance has ended.

    It is asked of instances that a complete listing lacks, since a listing may lack what is there.
    """

    def find(self, instance_id: str) -> Existence | Found:
        """Return what the cloud knows of one instance, by its id, with why it ended if it tells.

        `GONE` ends what ran there, so only where the cloud knows the instance and says that it has
        ended for good; `PRESENT` also of what is ending, or stopped. That the cloud does not know
        an id says neither: the instance may be too new, or elsewhere. That is `UNKNOWN`. Raises any
        `CloudError`, which means the same.
        """
        ...


@runtime_checkable
class WarnsOfInterruption(Protocol):
    """What an instance set has beside the rest when its cloud takes instances back with notice."""

    def interruption_watch(self) -> str:
        """Return the POSIX shell command that waits on an instance for the cloud's notice.

        The runner starts it there as the login user and reads its standard output. It ends only
        once there is a notice, having printed one line: the time at which the instance goes, as
        `YYYY-MM-DDTHH:MM:SSZ`. One that ends otherwise is started again after some seconds. Called
        once, at start; "" where there is no notice.
        """
        ...
