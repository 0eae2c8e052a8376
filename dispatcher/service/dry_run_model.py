"""What a job would come to if it were submitted now; frozen data only."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.scheduler.system.dry_run_counts import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCreate:
    """So many instances of one type that would be created, and what each costs an hour."""

    type_name: str
    number: int
    price_usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """What would be done on one instance: `action` in a word or two, `detail` as a sentence.

    `instance_id` is "" for one that is to be created, and for what gets no place.
    """

    instance_id: str
    action: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What the pass that follows its submission would do for a job; nothing of it is done.

    All instances together cost between `least_usd_per_hour` and `most_usd_per_hour` more an hour,
    less than nothing for fewer. `waiting` says why what has no place waits. Of many steps only the
    first are in `steps`, and `steps_left_out` says how many more there are. `of_run` says that it
    is a periodic or parameterized job, of which one run is planned as if it were launched now.
    """

    counts: Counts
    creates: tuple[PlannedCreate, ...]
    least_usd_per_hour: Decimal
    most_usd_per_hour: Decimal
    waiting: tuple[WaitReason, ...]
    steps: tuple[PlannedStep, ...]
    steps_left_out: int
    of_run: bool = False
