"""A driver with parameters of every kind, some of them secret, and with opinions on them.

Name it in a configuration as `tests.typed_driver:DRIVER`; `ODD` has its secrets in odder places.
Neither makes instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec

from longshore.drivers.errors import CloudAuthError
from longshore.drivers.interface import SECRET, InstanceSet, InstanceType
from longshore.drivers.registry import DriverContext, DriverInfo

Password = Annotated[str, SECRET]


class Market(Enum):
    """What instances are bought as."""

    SPOT = "spot"
    DEMAND = "demand"


class Account(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who we are there."""

    user: str = "nobody"
    password: Password = ""


class TypedParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and as whom; `zone` must not be "moon"."""

    zone: Annotated[str, msgspec.Meta(min_length=1)]
    account: Account = Account()
    pin: Annotated[int, msgspec.Meta(ge=1000, le=9999), SECRET] = 1000
    more: dict[str, Password] = {}
    keys: tuple[Password, ...] = ()
    options: Annotated[dict[str, Any], SECRET] = {}
    maybe: Password | None = None
    market: Market = Market.DEMAND
    share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A secret in a dataclass."""

    password: Password = ""


class Mapped(TypedDict):
    """A secret in a mapping with known keys."""

    password: Password


class Named(NamedTuple):
    """A secret in a tuple with names."""

    user: str
    password: Password


class OddParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Secrets in whatever else msgspec knows."""

    login: Login | None = None
    mapped: Mapped | None = None
    named: Named | None = None
    pair: tuple[int, Password] = (1, "")
    some: frozenset[Password] = frozenset()


def _check(parameters: TypedParameters) -> list[tuple[str, str]]:
    if parameters.zone == "mars":
        raise RuntimeError(f"no idea of {parameters.account.password}")
    problems = []
    if parameters.zone == "moon":
        problems.append(("zone", "is too far away: take another"))
    if parameters.account.user == "root":
        problems.append(("account.user", "must not be root"))
    return problems


def _fault_of_type(parameters: TypedParameters, type_: InstanceType) -> str | None:
    return f"{parameters.zone} has no GPUs: leave them out" if type_.resources.gpus else None


def _make(_: msgspec.Struct, __: DriverContext) -> InstanceSet:
    raise CloudAuthError("nobody has an account here")


DRIVER = DriverInfo(
    name="typed",
    summary="no cloud at all, for tests",
    parameters=TypedParameters,
    make=_make,
    check=_check,
    fault_of_type=_fault_of_type,
)
ODD = DriverInfo(
    name="odd", summary="no cloud either, for tests", parameters=OddParameters, make=_make
)
