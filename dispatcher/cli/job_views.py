"""What the command line reads of the server's JSON about jobs."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from longshore.dispatcher.cli.client import Json
from longshore.dispatcher.cli.ids import is_job
from longshore.dispatcher.cli.views import (
    FINAL_STATES,
    ContainerView,
    DependencyView,
    ReasonView,
    view,
)

UNFINISHED_JOB_STATES = ("pending", "running")
JOB_STATES = UNFINISHED_JOB_STATES + FINAL_STATES
STANDING = ("running", "locked", "queued")
PER_INSTANCE_TYPES = ("system", "sysbatch")


class CountsView(msgspec.Struct, frozen=True, kw_only=True):
    """How many containers are in which state."""

    queued: int = 0
    locked: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    total: int = 0

    @property
    def ended(self) -> int:
        """Return how many have reached their final state."""
        return self.succeeded + self.failed + self.cancelled

    def phrase(self) -> str:
        """Return how far they are: "37/100 done, 12 running, 1 failed"."""
        noted = ("running", "failed", "cancelled")
        parts = [f"{number} {state}" for state in noted if (number := getattr(self, state))]
        return ", ".join([f"{self.ended}/{self.total} done", *parts])

    def standing(self) -> str:
        """Return how many are there: "3 running, 1 queued", or "none running"."""
        parts = [f"{number} {state}" for state in STANDING if (number := getattr(self, state))]
        return ", ".join(parts) or "none running"

    def outcome(self) -> str:
        """Return how many ended how: "99 succeeded, 1 failed"."""
        return ", ".join(
            f"{number} {state}" for state in FINAL_STATES if (number := getattr(self, state))
        )


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a job; without `array` it is one container, and `size` is 1.

    `role` and `startup_order` are those of an elastic job's components.
    """

    name: str = ""
    size: int = 1
    array: bool = False
    max_running: int | None = None
    after: tuple[DependencyView, ...] = ()
    counts: CountsView = CountsView()
    role: str = ""
    startup_order: int = 0


class UpdateView(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the next revision of a job comes."""

    max_parallel: int = 1
    stagger_s: float = 0.0


class PeriodicView(msgspec.Struct, frozen=True, kw_only=True):
    """When a job begins again and again."""

    cron: tuple[str, ...] = ()
    time_zone: str = ""
    overlap: str = ""


class ParameterizedView(msgspec.Struct, frozen=True, kw_only=True):
    """What a job is dispatched with; `optional` has the values of who is left out."""

    required: tuple[str, ...] = ()
    optional: dict[str, str] = msgspec.field(default_factory=dict)


class NowhereView(msgspec.Struct, frozen=True, kw_only=True):
    """Why no instance takes anything of a job for each of them."""

    message: str = ""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the server answers it; listings and events leave its `tasks` out.

    What is only for jobs of other types is None or "".
    """

    id: str
    state: str
    name: str = ""
    type: str = ""
    user: str = ""
    project: str = ""
    priority: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    held: bool = False
    cancel_requested: bool = False
    exit_code: int | None = None
    reason: ReasonView | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    counts: CountsView = CountsView()
    parent: str = ""
    revision: int | None = None
    update: UpdateView | None = None
    late_joiners: bool | None = None
    on_paused: bool | None = None
    ignore_system: bool | None = None
    mode: str = ""
    size: float | None = None
    runtime_s: float | None = None
    scale_up: bool | None = None
    periodic: PeriodicView | None = None
    parameterized: ParameterizedView | None = None
    launched_for: datetime | None = None
    next_launch: datetime | None = None
    waiting_for: NowhereView | None = None
    trouble: ReasonView | None = None
    tasks: tuple[TaskView, ...] = ()

    @property
    def is_template(self) -> bool:
        """Return whether its runs are jobs of their own, and it has no containers."""
        return self.periodic is not None or self.parameterized is not None

    @property
    def is_per_instance(self) -> bool:
        """Return whether it has a container on each instance that it is for."""
        return self.type in PER_INSTANCE_TYPES and not self.is_template

    @property
    def kind(self) -> str:
        """Return its type, and what else it is: "batch, periodic"."""
        terms = (("periodic", self.periodic), ("parameterized", self.parameterized))
        return ", ".join([self.type, *(name for name, value in terms if value is not None)])

    @property
    def final(self) -> bool:
        """Return whether nothing follows."""
        return self.state in FINAL_STATES

    @property
    def cancelling(self) -> str:
        """Return that it is being cancelled and some of it has not ended, else ""."""
        return "being cancelled" if self.cancel_requested and not self.final else ""

    @property
    def status(self) -> int:
        """Return what a command that waited for it exits with: 0 only when it succeeded."""
        if self.state == "succeeded":
            return 0
        return ((self.exit_code or 0) & 0xFF) or 1

    @property
    def title(self) -> str:
        """Return its id, with its name where it has one."""
        return f"{self.id} {self.name}".rstrip()

    def progress(self) -> str:
        """Return how far it is; of one that goes on for ever, how many containers are there."""
        if self.is_template:
            return "its runs are jobs of their own"
        if self.type == "system" and not self.final:
            return self.counts.standing()
        return self.counts.phrase()

    def ran_for_s(self, now: datetime | None = None) -> float | None:
        """Return how long it is since its first container started, or was until its end.

        None when none did; 0 when the server's clock is ahead of ours.
        """
        if self.started_at is None:
            return None
        ended_at = self.finished_at or now or datetime.now(UTC)
        return max(0.0, (ended_at - self.started_at).total_seconds())

    def note(self) -> str:
        """Return why it ended as it did, else how far it is."""
        if self.final and self.reason is not None and self.reason.message:
            return self.reason.message
        if self.cancelling:
            return f"{self.progress()} ({self.cancelling})"
        return f"{self.progress()}{' (held)' if self.held and not self.final else ''}"


Awaited = ContainerView | JobView
"""What can be waited for."""


def awaited_view(identifier: str, raw: Json) -> Awaited:
    """Return what the server says of a job or a container, told apart by the id."""
    return view(raw, JobView) if is_job(identifier) else view(raw, ContainerView)
