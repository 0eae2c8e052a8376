"""What admins and dashboards are shown of the server: instances, leaks, problems, events; pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from longshore.drivers.interface import Resources
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
    SECRETS = "secrets"
    CERTIFICATE = "certificate"
    ISSUER = "issuer"
    NOTIFICATIONS = "notifications"
    COST_EXPORT = "cost_export"
    PRICES = "prices"
    TRACES = "traces"
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
class PlaceView:
    """What a container has of an instance."""

    container: str
    resources: Resources
    #: The largest of its shares of what the instance's type lets containers use, at most 1.
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """One instance as admins see it; times are seconds since the epoch, 0.0 for never."""

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
    #: Of one that is gone this is why, and no more is known than what the store keeps.
    last_error: str
    #: When its cloud takes it back, as it says itself ("2026-01-31T23:59:59Z"), "" where that is
    #: not known.
    taken_back_at: str = ""
    #: Since when listings lack it.
    missing_since: float = 0.0
    #: What its cloud says of it when it is not simply on, in a sentence.
    cloud_says: str = ""
    gone_at: float = 0.0
    #: What would make it better, "" for nothing.
    advice: str = ""
    #: What its machine has, None while it has not said.
    machine: MachineSize | None = None
    #: What that is less than its type says.
    shortfall: str = ""
    note: BehaviorNote | None = None
    #: What containers may use of it, None where that is not known any more.
    allocatable: Resources | None = None
    #: Who has a place there, by container.
    places: tuple[PlaceView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """A page of the instances that are known, or that are gone, and whether there may be others."""

    instances: tuple[InstanceView, ...]
    #: As in a `LeakReport`.
    listed_at: float
    complete: bool
    #: None on the last page.
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakReport:
    """What is billed and not wanted, and how far that can be told."""

    leaks: tuple[Leak, ...]
    #: When the last complete listing of the cloud began, in seconds since the epoch, 0.0 for never.
    listed_at: float
    #: Whether that is current; if it is not, there may be other leaks.
    complete: bool
    #: Why the store cannot be written, "" when it can: until then instances may be neither listed
    #: nor ended.
    store_problem: str = ""
    #: Why nobody can tell what stays of instances that are gone, "" when it can be told or the
    #: driver has no such thing.
    leftovers_problem: str = ""
    #: None on the last page.
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayView:
    """A stray that is kept, since the store that may know it is another."""

    instance: str
    #: What its instance calls it.
    attempt: str
    #: Whose it says to be, "" for nobody's.
    container: str
    store: str
    #: In seconds since the epoch.
    found_at: float
    #: What an admin said: "undecided", "adopted" or "killed".
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
