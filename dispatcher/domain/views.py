"""What admins and dashboards are shown of the server: instances, leaks, problems, events; pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from longshore.pool.leaks import Leak
from longshore.pool.model import BehaviorNote, MachineSize


class ProblemKind(Enum):
    """What sort of thing is wrong: each is a value of the metric's label `kind`."""

    STORE = "store"
    """Nothing can be written: requests that change something are refused."""
    STOPPING = "stopping"
    """The process ends after an error."""
    LOGS = "logs"
    DISK = "disk"
    CREDENTIALS = "credentials"
    LISTINGS = "listings"
    CREATES = "creates"
    CREATES_IN_DOUBT = "creates_in_doubt"
    BOOTS = "boots"
    DESTROYS = "destroys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong; `since` is when that became known, in seconds since the epoch."""

    kind: ProblemKind
    since: float
    message: str

    @property
    def blocks_requests(self) -> bool:
        """Return whether requests cannot be served; else the server is at work all the same."""
        return self.kind in (ProblemKind.STORE, ProblemKind.STOPPING)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """One instance as admins see it; times are seconds since the epoch, 0.0 for never.

    `taken_back_at` is when its cloud takes it back, as it says itself ("2026-01-31T23:59:59Z"), ""
    where that is not known. `missing_since` is since when listings lack it. `cloud_says` is what
    its cloud says of it when it is not simply on, in a sentence. Of one that is gone `last_error`
    is why, and no more is known than what the store keeps. `advice` is what
    would make it better, "" for nothing. `machine` is
    what its machine has, None while it has not said; `shortfall` is what that is less than its
    type says.
    """

    id: str
    address: str
    state: str
    idle_behavior: str
    instance_type: str
    provider_type: str
    price_usd_per_hour: Decimal
    running: tuple[str, ...]
    last_container: str
    created_at: float
    last_busy_at: float
    last_contact_at: float
    broken: str
    last_error: str
    taken_back_at: str = ""
    missing_since: float = 0.0
    cloud_says: str = ""
    gone_at: float = 0.0
    advice: str = ""
    machine: MachineSize | None = None
    shortfall: str = ""
    note: BehaviorNote | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """A page of the instances that are known, or that are gone, and whether there may be others.

    `listed_at` and `complete` are as those of a `LeakReport`; `next_cursor` is None on the last.
    """

    instances: tuple[InstanceView, ...]
    listed_at: float
    complete: bool
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakReport:
    """What is billed and not wanted, and how far that can be told.

    `listed_at` is when the last complete listing of the cloud began, in seconds since the epoch,
    0.0 for never; without a current one (`complete` is false) there may be other leaks.
    `store_problem` is why the store cannot be written, "" when it can: until then instances may be
    neither listed nor ended. `leftovers_problem` is why nobody can tell what stays of instances
    that are gone, "" when it can be told or the driver has no such thing. `next_cursor` is None on
    the last page.
    """

    leaks: tuple[Leak, ...]
    listed_at: float
    complete: bool
    store_problem: str = ""
    leftovers_problem: str = ""
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayView:
    """A stray that is kept, since the store that may know it is another.

    `attempt` is what its instance calls it, `container` whose it says to be, "" for nobody's;
    `found_at` is in seconds since the epoch. `fate` is what an admin said: "undecided", "adopted"
    or "killed".
    """

    instance: str
    attempt: str
    container: str
    store: str
    found_at: float
    fate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the server can do its work; `problems` says in sentences what is wrong.

    `advice` says what would make instances better, which work without.
    """

    problems: tuple[Problem, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Return whether requests can be served, whatever the cloud does."""
        return not any(each.blocks_requests for each in self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One server-sent event: `number` grows by one, `kind` is container, job or instance."""

    number: int
    kind: str
    id: str
    data: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayPage:
    """A page of the strays that are kept; `next_cursor` is None on the last."""

    items: tuple[StrayView, ...]
    next_cursor: str | None = None
