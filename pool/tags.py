"""The tags on an instance, in both directions: what we write, and what we read from them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from longshore.drivers.interface import (
    CLUSTER_TAG,
    IDLE_BEHAVIOR_TAG,
    TOKEN_TAG,
    TYPE_TAG,
    InstanceType,
    Resources,
)
from longshore.pool.model import IdleBehavior, Launch, Worker

_UNRECOGNISED_SUFFIX = " (not configured)"


def launch_tags(cluster: str, launch: Launch) -> tuple[tuple[str, str], ...]:
    """Return the tags that an instance carries from its first moment, sorted by key."""
    return _sorted_tags(cluster, launch.type_name, launch.token, IdleBehavior.RUN)


def tags_of(cluster: str, worker: Worker) -> tuple[tuple[str, str], ...]:
    """Return the tags that a worker's instance should carry now, as far as known, sorted by key."""
    type_name = worker.type.name.removesuffix(_UNRECOGNISED_SUFFIX)
    return _sorted_tags(cluster, type_name, worker.token, worker.behavior)


def _sorted_tags(
    cluster: str, type_name: str, token: str, behavior: IdleBehavior
) -> tuple[tuple[str, str], ...]:
    tags = {CLUSTER_TAG: cluster, IDLE_BEHAVIOR_TAG: behavior.value}
    if type_name:
        tags[TYPE_TAG] = type_name
    if token:
        tags[TOKEN_TAG] = token
    return tuple(sorted(tags.items()))


def behavior_from(tags: Mapping[str, str]) -> IdleBehavior:
    """Return the idle behavior that an instance's tags tell; run when they tell none we know."""
    value = tags.get(IDLE_BEHAVIOR_TAG, "")
    return next((b for b in IdleBehavior if b.value == value), IdleBehavior.RUN)


def type_from(tags: Mapping[str, str], types: Mapping[str, InstanceType]) -> InstanceType:
    """Return the configured type that an instance's tags name, or a stand-in without room."""
    name = tags.get(TYPE_TAG, "")
    return types.get(name) or without_room(name)


def without_room(name: str) -> InstanceType:
    """Return the stand-in for a type that is not configured (any more): nothing fits on it."""
    return InstanceType(
        name=name + _UNRECOGNISED_SUFFIX,
        provider_type="",
        resources=Resources(),
        price_usd_per_hour=Decimal(0),
    )


def is_unrecognised(type_: InstanceType) -> bool:
    """Return whether a type is the stand-in of one that is not configured."""
    return is_stand_in(type_.name)


def is_stand_in(type_name: str) -> bool:
    """Return whether a name is that of a stand-in (see `without_room`)."""
    return type_name.endswith(_UNRECOGNISED_SUFFIX)
