"""The JSON of what work asks for against what it really takes."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.containers import GivenAnswer
from longshore.dispatcher.api.schemas.reading import absent_as


class SavingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What asking for less would have saved over the runs that were counted.

    `now` is the cheapest type for what is asked, `instead` the one for what is suggested.
    """

    usd: Decimal
    now: str
    instead: str


class SuggestionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask for; null for what is asked now. The memory is in bytes."""

    cpus: float | None
    memory: int | None


class EfficiencyItem(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of work: runs of one name that asked for the same.

    `name` is that of the job, `task` is null for a container of no job. `asked` is what each run
    was given, sizes in bytes. `runs` are those that succeeded and were measured; `runs_missing` is
    how many more it takes until anything is suggested. `peak_memory_p95_bytes` and `cpus_p95` are
    the 95th percentiles of the peak of memory and of the cpus that were busy on average, null
    where nobody measured them. `saving` is null where asking for less would not let the work go
    to a cheaper type that can be bought now.
    """

    user: str
    project: str
    name: str
    task: str | None
    asked: GivenAnswer
    runs: int
    runs_missing: int
    peak_memory_p95_bytes: int | None
    cpus_p95: float | None
    suggested: SuggestionAnswer | None
    saving: SavingAnswer | None


class EfficiencyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Kinds of work, what would save most first; `complete` is false where some were left out.

    The latest 20,000 containers that succeeded are looked at, and 1,000 kinds are told: narrow it
    down by user or project where that is not all.
    """

    items: tuple[EfficiencyItem, ...]
    complete: Annotated[bool, absent_as(True)]
