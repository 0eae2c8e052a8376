"""The JSON of ended runs: the dearest, and how long runs waited."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT, absent_as


class EndedRunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One container that has ended, and what its attempts cost.

    `name` is that of the job, or of a container of none. `waited_s` is how long it waited for its
    first place; it and `instance_type`, which is of its last attempt, are null where it had none.
    """

    container: Annotated[str, NEVER_ABSENT]
    name: str
    job: str | None
    user: str
    project: str
    state: str
    cost_usd: Decimal
    finished_at: str | None
    waited_s: float | None
    instance_type: str | None


class TypeWaitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How long runs whose last attempt was on one type waited, and what they cost together.

    `market` is `on-demand` or `preemptible`. Waits are the median and the 90th percentile, in
    seconds, from submission to the first place.
    """

    instance_type: str
    market: str
    runs: int
    waited_p50_s: float
    waited_p90_s: float
    cost_usd: Decimal


class EndedRunsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What ended in a time: up to 20 of the dearest, and waits by type.

    `ended` is how many there are. The latest 20,000 that have ended are looked at, by when they
    were submitted: `complete` is false where there are more.
    """

    dearest: tuple[EndedRunAnswer, ...]
    by_type: tuple[TypeWaitAnswer, ...]
    ended: int
    complete: Annotated[bool, absent_as(True)]
    since: str | None = msgspec.field(name="from")
    until: str | None = msgspec.field(name="to")
    currency: str
    as_of: str | None
