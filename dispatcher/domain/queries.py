"""What the rest asks the store for, and what it answers: filters, pages, the state at a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from longshore.dispatcher.domain.budgets import BudgetStop
from longshore.dispatcher.domain.containers import (
    Attempt,
    Container,
    ContainerState,
    InstanceRecord,
)
from longshore.dispatcher.domain.jobs import Job, JobState
from longshore.dispatcher.domain.ledger import (
    CostGroup,
    InstanceBill,
    Interval,
    PrepaidRow,
    PriceRow,
    Total,
)
from longshore.dispatcher.domain.secrets import DataKey, StoredSecret
from longshore.pool.model import Launch

LISTED_ATTEMPTS = 10
"""How many of its attempts a container has where containers are listed, the latest."""


LATEST_BILLS = 1000
"""How many bills of instances that are gone a restart finds, the last gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFilter:
    """Which containers to list; (), "" and None mean any. `states` are alternatives."""

    states: tuple[ContainerState, ...] = ()
    user: str = ""
    project: str = ""
    #: Alternatives beside `project`: what the caller sees; None is any.
    projects: tuple[str, ...] | None = None
    name: str = ""
    instance_id: str = ""
    job_id: str = ""
    task: str = ""
    array_index: int | None = None
    #: The container that submitted them from inside.
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; () and "" mean any."""

    #: Alternatives.
    states: tuple[JobState, ...] = ()
    user: str = ""
    project: str = ""
    #: As in a `ContainerFilter`.
    projects: tuple[str, ...] | None = None
    name: str = ""
    #: The periodic or parameterised job whose runs they are, or the container that submitted them.
    parent: str = ""
    #: Whether to leave out all runs.
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """One page of jobs, newest first; `next_cursor` is None on the last.

    They come without their `tasks`, since there can be thousands in each; `tallies` has their sum.
    """

    items: tuple[Job, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """What is known of a container, job or task that others are to wait for (`Dependency.of`).

    `size` is how many elements it has if it is an array, else None; that of a whole job is the one
    of its only task, if that has no name. `ended` says whether it succeeded, by node
    (`domain.jobs`), once it has ended; of an array that is waited for element by element, also of
    each element.
    """

    of: str
    project: str
    size: int | None
    ended: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of containers, newest first; `next_cursor` is None on the last.

    They have their last `LISTED_ATTEMPTS` attempts only.
    """

    items: tuple[Container, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePage:
    """One page of instances that are gone, the last gone first; `next_cursor` as that of `Page`."""

    items: tuple[InstanceRecord, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecrets:
    """All that a store has of secrets: these, encrypted, and the keys of that, encrypted too."""

    secrets: tuple[StoredSecret, ...]
    data_keys: tuple[DataKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What the ledger knows of a span of time, and a little around it."""

    #: Of all instances that may have been billed in it.
    bills: Sequence[InstanceBill]
    intervals: Sequence[Interval]
    prices: Sequence[PriceRow]
    #: What of it is paid for whether it runs or not.
    prepaid: Sequence[PrepaidRow] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedHour:
    """What was booked beside the lines of a group, and counts in one hour.

    That is the hour that it is about, unless its month was closed by then: what that came to stays
    as it is, and the correction counts in the hour in which it was booked.
    """

    hour: int
    group: CostGroup
    quantity_ms: int
    grains: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCorrection:
    """A correction as it was booked, with where it counts (see `CorrectedHour`)."""

    #: Its number in the store: they grow.
    id: int
    counted_hour: int
    about_hour: int
    #: "" where it is of no instance alone.
    instance_id: str
    #: What the cloud calls the type, "" where the ledger does not know the instance.
    provider_type: str
    group: CostGroup
    quantity_ms: int
    grains: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedInstance:
    """What was booked beside the lines of an instance, about one hour."""

    instance_id: str
    hour: int
    quantity_ms: int
    grains: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSums:
    """What is booked in some spans of hours, and the facts of what is not, from one moment."""

    #: For each span that was asked for.
    totals: Sequence[Mapping[CostGroup, Total]]
    #: The hour up to which all is booked, 0 where nothing is.
    booked_until: int
    #: About the time from then on, as far as it was asked for.
    facts: LedgerFacts
    #: What is about that time, or was booked in it.
    corrections: Sequence[CorrectedHour]
    #: The hour up to which months are closed, 0 where none is.
    closed_until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentFacts:
    """Some attempts, by their ids, with all that the ledger knows of their instances meanwhile."""

    attempts: tuple[str, ...]
    facts: LedgerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCost:
    """What the ended attempts of a part of a job cost."""

    task: str
    #: None for a whole task.
    array_index: int | None
    cost_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCosts:
    """What a job's ended attempts cost, by task; and by element, the dearest, if so wanted."""

    tasks: tuple[PartCost, ...]
    elements: tuple[PartCost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Successes:
    """How many containers of one user and name succeeded in a span that was asked for."""

    #: The position of the span.
    span: int
    project: str
    user: str
    job_name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerDue:
    """Which hours are to be booked, in order, with how often each was marked; 0 for never."""

    hours: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What the store knew when the process started."""

    #: Those that have not ended.
    containers: Sequence[Container] = ()
    #: Of sysbatch jobs that have not ended, the latest ended containers, one for each instance that
    #: is not gone.
    past: Sequence[Container] = ()
    #: Those that have not ended, with tallies that count their containers anew, and the highest
    #: exit code of failed ones so far.
    jobs: Sequence[Job] = ()
    #: Of what containers wait for (`ContainerSpec.after`), and what has ended, whether it
    #: succeeded; by node (`domain.jobs`), for an array's elements by the element's.
    ended: Mapping[str, bool] = field(default_factory=dict)
    #: Ended attempts whose log may still be on an instance.
    unreleased: Sequence[Attempt] = ()
    launches: Sequence[Launch] = ()
    #: Those that were not gone.
    instances: Sequence[InstanceRecord] = ()
    #: Of the ledger what goes on: the bills that are not settled, and the latest of the others.
    bills: Sequence[InstanceBill] = ()
    intervals: Sequence[Interval] = ()
    #: When the latest complete listing began that is known, in milliseconds since the epoch; 0 for
    #: none. Whose bill says of no `seen_ms` was there then.
    listed_ms: int = 0
    #: The budgets that let nothing new begin, as far as who starts the process has found out.
    budget_stops: tuple[BudgetStop, ...] = ()
