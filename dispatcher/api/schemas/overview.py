"""The JSON of what goes on: containers and instances in numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT


class ContainerCountsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many containers have not ended, by state."""

    queued: int
    locked: int
    running: int


class EndedCountsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many containers have ended since `since`: a day, or less where the server began later."""

    succeeded: int
    failed: int
    cancelled: int
    since: str | None


class WaitGroupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Those that wait for one kind of reason: how many, and in a sentence why.

    `sample` is one of them, for explain; null where none of those that were looked at may be named.
    `limit` is the setting that is reached, `until` when the first of them may go on; null where
    that is none, or nobody knows. `never` says that they cannot start while the configuration is
    what it is.
    """

    code: Annotated[str, NEVER_ABSENT]
    message: str
    count: int
    sample: str | None
    limit: str | None
    until: str | None
    never: bool


class InstanceCountAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many instances are in a state and have an idle behavior."""

    state: str
    idle_behavior: str
    count: int


class InstancesOverviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All instances; `creating` are creates that have no instance yet, which cost nothing here."""

    counts: tuple[InstanceCountAnswer, ...]
    creating: int
    price_usd_per_hour: Decimal


class OverviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes on in the projects that the caller sees, as of `at`.

    `waiting` is what waits, most first. `waiting_since` is since when the one has waited that could
    run and has done so for longest, null where nobody does. `instances` is null for who is no
    admin.
    """

    at: str | None
    containers: ContainerCountsAnswer
    ended: EndedCountsAnswer
    waiting_since: str | None
    waiting: tuple[WaitGroupAnswer, ...]
    instances: InstancesOverviewAnswer | None


class DecisionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, and why, in a sentence; ids are null where it is about none."""

    number: Annotated[int, NEVER_ABSENT]
    at: str | None
    kind: str
    message: str
    instance_type: str | None
    instance: str | None
    container: str | None


class DecisionList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of decisions, the newest first; `next_cursor` is null on the last.

    They are kept in memory, the latest 2,000, `recorded_since` then: the server's start.
    """

    items: tuple[DecisionAnswer, ...]
    recorded_since: str | None
    next_cursor: str | None
