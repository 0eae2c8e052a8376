"""The JSON of an explanation: why a container is where it is."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.containers import WaitAnswer
from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT


class TypeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One instance type; `blocked_by` is what keeps one from being created now, null for nothing.

    `surcharge` is the share of its price that is put on top when types are chosen from, for what
    was lost of its use with instances that the cloud took back.
    """

    name: str
    price_usd_per_hour: Decimal
    surcharge: float
    preemptible: bool
    eligible: bool
    rejections: tuple[str, ...]
    blocked_by: str | None


class FilterCountAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many instances one cause concerns, in a sentence `what`; `ids` names a few of them."""

    cause: str
    what: str
    count: int
    ids: tuple[str, ...]


class TallyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All instances by what keeps them from taking the container.

    `exhausted` counts those that are full again, by each dimension in which they lack room.
    """

    total: int
    by_cause: tuple[FilterCountAnswer, ...]
    exhausted: dict[str, int]


class HoldAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Creates wait: of one type, of one quota group, or of all where both are null."""

    cause: str
    instance_type: str | None
    quota_group: str | None
    preemptible: bool | None
    since: str | None
    until: str | None
    message: str


class LimitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A limit by its setting; `used` is null where nobody knows.

    `adds` is what the container would add: to a limit of spending the price of a new instance of
    the cheapest type that would do, null where none would. `whose` is the project or the user that
    it is for, null for all. `blocking` says that it is what keeps the container waiting now.
    """

    name: str
    whose: str | None
    limit: float
    used: float | None
    adds: float | None
    reached: bool
    blocking: bool


class HoldsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps instances from being created: holds, by their end, and limits by their settings.

    Of the limits `adds` is null, `blocking` says that something waits for it, and `reached` that
    all of it is used. Projects and users are told that have a limit of spending and spend now.
    """

    holds: tuple[HoldAnswer, ...]
    limits: tuple[LimitAnswer, ...]


class ClaimAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The place it has on what is not ready; `instance` is null while that is being created.

    `last_error` is what went wrong on it last, null for nothing.
    """

    instance: str | None
    instance_type: str
    since: str | None
    last_error: str | None


class EstimateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """When it starts, in seconds from now; null where nobody knows, and `basis` says why."""

    earliest_s: float | None
    latest_s: float | None
    basis: str


class WaitingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say of a container that waits.

    `position` counts from 1 of `queue_length`; it is null for what is held back. `alike` wait for
    just the same. Of those before it `ahead_stuck` can never start while the configuration is what
    it is.
    """

    reason: WaitAnswer | None
    position: int | None
    ahead_stuck: int | None
    queue_length: int | None
    alike: int | None
    types: tuple[TypeAnswer, ...]
    instances: TallyAnswer
    holds: tuple[HoldAnswer, ...]
    limits: tuple[LimitAnswer, ...]
    claim: ClaimAnswer | None
    estimate: EstimateAnswer


class HistoryEventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was decided or came to pass."""

    at: str | None
    kind: str
    message: str


class ExplanationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a container is where it is; `waiting` is null for one that does not wait.

    Of what was decided before `recorded_since` only attempts are known.
    """

    id: Annotated[str, NEVER_ABSENT]
    name: str
    state: str
    sentence: Annotated[str, NEVER_ABSENT]
    waiting: WaitingAnswer | None
    history: tuple[HistoryEventAnswer, ...]
    recorded_since: str | None
