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
    """What would be done on one instance."""

    #: "" for one that is to be created, and for what gets no place.
    instance_id: str
    #: In a word or two.
    action: str
    #: As a sentence.
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What the pass that follows its submission would do for a job; nothing of it is done."""

    counts: Counts
    creates: tuple[PlannedCreate, ...]
    #: How much more all instances together cost an hour, between these two; less than nothing for
    #: fewer.
    least_usd_per_hour: Decimal
    most_usd_per_hour: Decimal
    #: Why what has no place waits.
    waiting: tuple[WaitReason, ...]
    #: Of many only the first, and how many more there are.
    steps: tuple[PlannedStep, ...]
    steps_left_out: int
    #: Whether it is a periodic or parameterized job, of which one run is planned as if it were
    #: launched now.
    of_run: bool = False
