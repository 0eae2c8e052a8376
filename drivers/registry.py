"""Which drivers there are, and how each is made: the built-in ones, plug-ins, and named objects."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import msgspec

from longshore.drivers.errors import ConfigError
from longshore.drivers.interface import InstanceSet, InstanceType

# ---- one call at a time for each name, whoever else calls meanwhile ------------------------------


class KeyedLock:
    """Lets calls for one name wait for each other, and those for several names go on together."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: set[str] = set()

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Wait until nobody else is at `name`, and keep others from it as long as this lasts."""
        with self._changed:
            while name in self._busy:
                self._changed.wait()
            self._busy.add(name)
        try:
            yield
        finally:
            with self._changed:
                self._busy.discard(name)
                self._changed.notify_all()


# --------------------------------------------------------------------------------------------------

ENTRY_POINT_GROUP = "longshore.drivers"

_MOVED = frozenset({"dispatcher", "drivers", "pool"})
"""The names by which plug-ins imported ours before all of it was `longshore.…`."""

_BUILT_IN = {
    "ec2": "longshore.drivers.ec2.driver:DRIVER",
    "libcloud": "longshore.drivers.libcloud.driver:DRIVER",
    "loopback": "longshore.drivers.local.loopback:DRIVER",
    "simulated": "longshore.drivers.simulated.driver:DRIVER",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverContext:
    """What the dispatcher gives to every driver, beside its parameters."""

    cluster: str
    #: A directory for this driver alone (made when missing), for the few that keep something on
    #: disk.
    state_dir: Path
    #: Tells monotonic seconds.
    clock: Callable[[], float]
    #: Who the dispatcher logs in as, so the one whom a new instance must let in with the public key
    #: of its create call.
    ssh_user: str = "root"


class Capability(Enum):
    """What a driver says of itself that it can do beside creating, listing and destroying.

    `longshore driver list` shows them, and the conformance kit holds a driver to each it claims.
    """

    IDEMPOTENT_CREATE = "idempotent-create"
    """A second create with one token returns the first's instance, also after a lost answer."""
    OUTLIVES_PROCESS = "outlives-process"
    """Instances live on without the process: another set lists them and knows their tokens."""
    MANY_INSTANCES = "many-instances"
    """There may be more than one instance at a time."""
    HOST_KEYS = "host-keys"
    """`verify_host_key` tells genuine keys from wrong ones."""
    PREEMPTIBLE = "preemptible"
    """Preemptible types are created as such; another driver refuses them in `fault_of_type`."""
    QUOTA_GROUPS = "quota-groups"
    """It is `QuotaGroups`."""
    POWER_OFF = "power-off"
    """It is `PowersOff`, and its command is not ""."""
    PRICES = "prices"
    """It is `Prices`."""
    FINDS = "finds"
    """It is `Finds`."""
    LEFTOVERS = "leftovers"
    """It is `Leftovers`: it lists what stays of an instance, such as volumes."""
    INTERRUPTION_NOTICES = "interruption-notices"
    """It is `WarnsOfInterruption`, and its command is not ""."""
    BILLING = "billing"
    """It is `Bills`, and its instances tell when they are billed (`TellsBilling`)."""
    RESERVATIONS = "reservations"
    """A type's `reservation` is where its instances are tried first, and done without when full."""
    OFFERS = "offers"
    """`DriverInfo.offers` tells which instance types the account can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferQuery:
    """Which instance types somebody wants to be told of."""

    #: "" for that of the parameters.
    region: str = ""
    #: The cloud's names of families (such as "m5"), none for all.
    families: tuple[str, ...] = ()
    #: Whether to tell of the preemptible market beside the other.
    preemptible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverInfo:
    """A driver as it registers itself. Only `make` and `offers` may ask the cloud."""

    name: str
    summary: str
    #: The type that the configuration's `driver.parameters` are decoded into.
    parameters: type[msgspec.Struct]
    #: Gets a value of that type; may raise `ConfigError`, and `CloudError`.
    make: Callable[[Any, DriverContext], InstanceSet]
    capabilities: frozenset[Capability] = frozenset()
    #: Gets such a value too, and returns what is wrong with it beyond its types, as (path below
    #: `driver.parameters`, what and remedy).
    check: Callable[[Any], Sequence[tuple[str, str]]] | None = None
    #: Returns why the driver cannot create a configured type, None when it can.
    fault_of_type: Callable[[Any, InstanceType], str | None] | None = None
    #: Returns the image that a type boots where `pool.image` is "", "" for none: one of the two
    #: must be named then. Drivers without it need no image.
    image_of: Callable[[Any, InstanceType], str] | None = None
    #: Asks the cloud for the instance types that the account can have, sorted by name; raises as
    #: `make` does.
    offers: Callable[[Any, OfferQuery], Sequence[InstanceType]] | None = None
    #: How many there can ever be, None where only the cloud knows: more are never asked for.
    most_instances: int | None = None


def driver_names() -> list[str]:
    """Return the names of the built-in and plugged-in drivers, sorted; none of them is loaded."""
    return sorted(_BUILT_IN.keys() | {point.name for point in _plug_ins()})


def origin_of(name: str) -> str:
    """Return where a driver comes from: "built-in", or the object that its plug-in names."""
    if name in _BUILT_IN:
        return "built-in"
    return ", ".join(sorted(point.value for point in _plug_ins() if point.name == name))


def driver(name: str) -> DriverInfo:
    """Load and return a driver.

    `name` is that of a built-in one, of an entry point in the group `longshore.drivers`, or
    "module:attribute" of a `DriverInfo` that can be imported, for one that is tried out. A built-in
    name is never taken over. Raises `ConfigError` when there is none, or it is broken.
    """
    if name in _BUILT_IN:
        return _load(EntryPoint(name, _BUILT_IN[name], ENTRY_POINT_GROUP))
    found = [point for point in _plug_ins() if point.name == name]
    if len(found) > 1:
        origins = ", ".join(sorted(point.value for point in found))
        raise _problem(f"two plug-ins are called {name!r} ({origins}); uninstall one")
    if found:
        return _load(found[0])
    if ":" in name:
        return _load(EntryPoint(name, name, ENTRY_POINT_GROUP))
    known = ", ".join(driver_names())
    raise _problem(
        f"there is no driver {name!r}; use one of {known}, or module:attribute of your own"
    )


def _plug_ins() -> list[EntryPoint]:
    found = entry_points(group=ENTRY_POINT_GROUP)
    return sorted(found, key=lambda point: (point.name, point.value))


def _load(point: EntryPoint) -> DriverInfo:
    module_name, _, attributes = point.value.partition(":")
    try:
        loaded: object = importlib.import_module(module_name)
        for attribute in attributes.split("."):
            loaded = getattr(loaded, attribute)
    except Exception as error:
        # A plug-in's module may raise anything at all.
        if isinstance(error, ImportError) and (bare := _bare_name(error.name or "")):
            raise _problem(_new_name(point, bare)) from error
        raise _problem(
            f"driver {point.name!r} ({point.value}) cannot be loaded: {error!r};"
            " mend or uninstall its package"
        ) from error
    if not isinstance(loaded, DriverInfo):
        if bare := _bare_name(type(loaded).__module__):
            raise _problem(_new_name(point, bare))
        raise _problem(
            f"driver {point.name!r} ({point.value}) is no longshore.drivers.registry.DriverInfo"
            f" but a {type(loaded).__name__}"
        )
    return loaded


def _bare_name(module_name: str) -> str:
    """Return a module's name where it begins with a folder of ours that has moved, else ""."""
    return module_name if module_name.partition(".")[0] in _MOVED else ""


def _new_name(point: EntryPoint, bare: str) -> str:
    return (
        f"driver {point.name!r} ({point.value}) imports {bare!r}, a name that is no longer ours;"
        f" write `from longshore.{bare} import …` in its package"
    )


def _problem(what: str) -> ConfigError:
    return ConfigError([("driver.name", what)])
