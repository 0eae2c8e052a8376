"""The JSON of instances: what admins may ask of them, and what is answered."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

import msgspec

from longshore.dispatcher.api.schemas.containers import Moment, Request
from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT, absent_as
from longshore.dispatcher.api.schemas.words import in_order

_Behavior = Literal["run", "hold", "drain"]
Behavior = Annotated[_Behavior, in_order(_Behavior, "What an admin wants of an instance.")]


class IdleBehaviorRequest(Request, frozen=True, kw_only=True):
    """An instance's new idle behavior, and why it is to have it.

    With `until` it runs again by itself at that moment; only a hold may have it.
    """

    idle_behavior: Behavior
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    until: Moment | None = None


class BehaviorNoteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why an instance has its idle behavior, since when, and who wants it.

    `by` is null where it is the server itself; `until` is when it runs again, null for never.
    """

    reason: str
    by: str | None
    at: str
    until: str | None


class KillRequest(Request, frozen=True, kw_only=True):
    """Why an instance is to be destroyed."""

    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class StraysRequest(Request, frozen=True, kw_only=True):
    """What becomes of kept strays on an instance: all of them, or those that are named."""

    fate: Literal["kill", "adopt"]
    attempts: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=128)]],
        msgspec.Meta(max_length=1000),
    ] = []  # noqa: RUF012 - msgspec copies it


class StrayAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A process of another store's that runs on an instance, and is kept.

    `attempt` is what the instance calls it, `container` whose it says to be, null for nobody's;
    `fate` is "undecided" until an admin says "adopted" or "killed".
    """

    instance: str
    attempt: str
    container: str | None
    store: str
    found_at: str | None
    fate: str


class StrayList(msgspec.Struct, frozen=True, kw_only=True):
    """Strays that are kept, by instance and attempt; `next_cursor` is null on the last page."""

    items: Annotated[list[StrayAnswer], NEVER_ABSENT]
    next_cursor: str | None = None


class MachineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine of an instance has: `cpus` that may be used there, `memory` in bytes."""

    cpus: int
    memory: int


class RoomAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance lets containers use in all; sizes in bytes."""

    cpus: float
    memory: int
    disk: int
    gpus: int


class PlaceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a container has of an instance; `share` is the largest part of that, at most 1."""

    container: Annotated[str, NEVER_ABSENT]
    cpus: float
    memory: int
    gpus: int
    share: float


class InstanceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One instance as admins see it; a time is null when it never happened.

    `taken_back_at` is when its cloud takes it back, as it says itself; null where none is known.
    `missing_since` is when the first of the listings began that lack it, null while none does: it
    counts in every limit until it is listed again, answers, or counts as gone. `cloud_says` is what
    its cloud says of it when it is not simply on ("the cloud says that it is stopped: …"); null
    when it is, and with drivers that do not tell.
    `gone_at` is when it was found to be gone, null while it is not: then its `state` is "gone",
    `last_error` is why, and what the store does not keep is empty. `advice` is what
    would make it better by its own word, null for nothing. `idle_behavior_note` is who asked for
    its idle behavior, when and why, null where nobody did.
    `machine` is what the instance says that its machine has, null until it has; `shortfall` is what
    that is less than its type says, in words, "" for nothing; only what is there is placed on.
    `room` is what its type lets containers use, null of one that is gone, and `places` who has how
    much of that, by container; both are left out in events.
    """

    id: Annotated[str, NEVER_ABSENT]
    address: str
    state: Annotated[str, NEVER_ABSENT]
    idle_behavior: str
    instance_type: str
    provider_type: str
    price_usd_per_hour: Decimal
    running: tuple[str, ...]
    last_container: str
    created_at: str | None
    last_busy_at: str | None
    last_contact_at: str | None
    broken: str
    last_error: str
    taken_back_at: str | None
    missing_since: str | None = None
    cloud_says: str | None = None
    gone_at: str | None = None
    advice: str | None = None
    idle_behavior_note: BehaviorNoteAnswer | None = None
    machine: MachineAnswer | None = None
    shortfall: str = ""
    room: RoomAnswer | msgspec.UnsetType | None = msgspec.UNSET
    places: tuple[PlaceAnswer, ...] | msgspec.UnsetType = msgspec.UNSET


class InstanceList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the instances that are known, by id, or of those that are gone, the last first.

    Without a current listing (`complete` is false) there may be others; `listed_at` is when the
    last complete one began, null for never.
    """

    items: list[InstanceAnswer]
    listed_at: str | None
    complete: Annotated[bool, absent_as(True)]
    next_cursor: str | None = None


class LeakAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that is, or one launch that may be, billed and not wanted; or what stays of one.

    `instance` is null for a launch whose instance is not known, `launch` (its token) for an
    instance, both for `resource`, a volume or network interface that an instance left; the price is
    null where nobody knows it. It is that of now; `cost_usd` is what the ledger has of it since it
    became unwanted, and `uncertain_usd` how much may be billed beside that, or not at all.
    """

    instance: str | None
    launch: str | None
    instance_type: str
    price_usd_per_hour: Decimal | None
    kind: str
    since: str | None
    cost_usd: Decimal
    why: Annotated[str, NEVER_ABSENT]
    remedy: str
    resource: str | None = None
    uncertain_usd: Decimal


class LeakList(msgspec.Struct, frozen=True, kw_only=True):
    """Leaks: instances by id, then launches by token, then what instances left, by id.

    `next_cursor` is null on the last page.

    Without a current listing (`complete` is false) there may be others; `listed_at` is when the
    last complete one began, null for never. `store_problem` is why the store cannot be written,
    null when it can: mend that first, since until then instances may be neither listed nor ended.
    `leftovers_problem` is why nobody can tell what stays of instances that are gone, else null.
    """

    store_problem: str | None = None
    leftovers_problem: str | None = None
    items: Annotated[list[LeakAnswer], NEVER_ABSENT]
    listed_at: str | None
    complete: Annotated[bool, NEVER_ABSENT]
    next_cursor: str | None = None
