"""The JSON of a timeline: instances over time, with what ran on them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT


class TimelineStateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance was from a time to a time; `to` is null while it goes on.

    `room` is that attempts have a place on it, beside which there may be room; the others are as in
    the cost ledger (`pending`, `booting`, `empty`, `held`, `draining`, `unreachable`, `unwanted`).
    """

    state: str
    since: str | None = msgspec.field(name="from")
    until: str | None = msgspec.field(name="to")


class TimelineAttemptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that had a place on an instance; `to` is null while it has.

    `share` is what it keeps of the instance from others, from 0 to 1. `name` is that of the job, or
    of a container of none. `outcome` is null while nobody knows it; `cause` is `daemon` for one of
    a job on every instance, and `leak` for what nobody knows, which has no container.
    """

    attempt: str
    container: str | None
    name: str
    job: str | None
    task: str | None
    array_index: int | None
    user: str
    project: str
    share: float
    since: str | None = msgspec.field(name="from")
    until: str | None = msgspec.field(name="to")
    outcome: str | None
    cause: str | None


class TimelineInstanceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that was there in the window, with its states and attempts by time.

    Their times are as they were, also where that is outside of the window. Of too many the latest
    are told: `states_left_out` and `attempts_left_out` are how many earlier ones are not. `for`
    is for whom it was bought, null where that is not known. `gone_at` is null while it is there.
    """

    id: Annotated[str, NEVER_ABSENT]
    instance_type: str
    provider_type: str
    preemptible: bool
    zone: str | None
    price_usd_per_hour: Decimal
    created_at: str | None
    ready_at: str | None
    gone_at: str | None
    bought_for: str | None = msgspec.field(name="for")
    states: tuple[TimelineStateAnswer, ...]
    states_left_out: int
    attempts: tuple[TimelineAttemptAnswer, ...]
    attempts_left_out: int


class TimelineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page of instances, by when they were created; `next_cursor` is null on the last.

    `from` and `to` are the window: pass both on with a cursor, since what is left out moves on.
    """

    since: str | None = msgspec.field(name="from")
    until: str | None = msgspec.field(name="to")
    items: tuple[TimelineInstanceAnswer, ...]
    next_cursor: str | None
