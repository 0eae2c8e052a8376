"""Which drivers there are, and how each is made: the built-in ones, plug-ins, and named objects."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import msgspec

from drivers.errors import ConfigError
from drivers.interface import InstanceSet

ENTRY_POINT_GROUP = "longshore.drivers"

_BUILT_IN = {
    "loopback": "drivers.loopback:DRIVER",
    "simulated": "drivers.simulated.driver:DRIVER",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverContext:
    """What the dispatcher gives to every driver, beside its parameters.

    `state_dir` is a directory for this driver alone (made when missing), for the few that keep
    something on disk; `clock` tells monotonic seconds.
    """

    cluster: str
    state_dir: Path
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverInfo:
    """A driver as it registers itself.

    `parameters` is the type that the configuration's `driver.parameters` are decoded into;
    `make` gets a value of it. `make` may raise `ConfigError`, and `CloudError`.
    """

    name: str
    summary: str
    parameters: type[msgspec.Struct]
    make: Callable[[Any, DriverContext], InstanceSet]


def driver_names() -> list[str]:
    """Return the names of the built-in and plugged-in drivers, sorted; none of them is loaded."""
    return sorted(_BUILT_IN.keys() | {point.name for point in _plug_ins()})


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
        raise _problem(
            f"driver {point.name!r} ({point.value}) cannot be loaded: {error!r};"
            " mend or uninstall its package"
        ) from error
    if not isinstance(loaded, DriverInfo):
        raise _problem(
            f"driver {point.name!r} ({point.value}) is no drivers.registry.DriverInfo"
            f" but a {type(loaded).__name__}"
        )
    return loaded


def _problem(what: str) -> ConfigError:
    return ConfigError([("driver.name", what)])
