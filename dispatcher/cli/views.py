"""What the command line reads of the server's JSON; fields it does not know are left alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeVar

import msgspec

from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.output import moment

FINAL_STATES = ("succeeded", "failed", "cancelled")
WAITING_STATES = ("queued", "locked")
UNFINISHED_STATES = (*WAITING_STATES, "running")
CONTAINER_STATES = UNFINISHED_STATES + FINAL_STATES

View = TypeVar("View")


class ReasonView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a container is where it is."""

    code: str = ""
    message: str = ""


class WaitView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a container waits: `limit` is the setting that is reached, `behind` who is next in line.

    `behind_code` says why that one waits.
    """

    code: str = ""
    limit: str | None = None
    behind: str | None = None
    behind_code: str | None = None


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a container."""

    id: str = ""
    number: int = 0
    revision: int = 0
    instance: str | None = None
    instance_type: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    reason: ReasonView | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    log_complete: bool = True
    pulling_since: datetime | None = None
    pulled_at: datetime | None = None
    image_digest: str | None = None
    warning: str | None = None

    @property
    def is_pulling(self) -> bool:
        """Return whether its image is still being fetched."""
        return self.pulling_since is not None and self.pulled_at is None and self.outcome is None


class GpusView(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of which more is asked than their number."""

    count: int
    memory: int = 0
    model: str = ""


class ConstraintsView(msgspec.Struct, frozen=True, kw_only=True):
    """What the instance must be, beside large enough."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    instance_types: tuple[str, ...] = ()
    preemptible: str = "allowed"
    max_price_per_hour: Decimal | None = None


class RetriesView(msgspec.Struct, frozen=True, kw_only=True):
    """How often which failures of the program are tried again, and whether what was `lost` is."""

    max: int = 0
    on: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    delay_s: float = 15.0
    first_delay_s: float = 0.0
    lost: bool = True


class DependencyView(msgspec.Struct, frozen=True, kw_only=True):
    """What something waits for, and which end of it counts."""

    of: str
    on: str = "success"
    each: bool = False

    def phrase(self, job_id: str = "") -> str:
        """Return it for people; what belongs to the same job by its task alone."""
        of = self.of.removeprefix(f"{job_id}/") if job_id else self.of
        how = ("any end" if self.on == "end" else "", "element by element" if self.each else "")
        parts = [part for part in how if part]
        return f"{of} ({', '.join(parts)})" if parts else of


class ContainerView(msgspec.Struct, frozen=True, kw_only=True):
    """A container as the server answers it, or as far as an event tells of it."""

    id: str
    state: str
    name: str = ""
    user: str = ""
    project: str = ""
    image: str = ""
    entrypoint: tuple[str, ...] | None = None
    init: bool = True
    command: tuple[str, ...] = ()
    cpus: float = 0
    memory: int = 0
    disk: int = 0
    gpus: int | GpusView = 0
    resources: dict[str, int] = msgspec.field(default_factory=dict)
    constraints: ConstraintsView = ConstraintsView()
    retries: RetriesView = RetriesView()
    supervisor: bool = False
    priority: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    exit_code: int | None = None
    reason: ReasonView | None = None
    waiting: str | None = None
    waiting_for: WaitView | None = None
    position: int | None = None
    queue_length: int | None = None
    doubt: str | None = None
    cancel_requested: bool = False
    kill_at: datetime | None = None
    log_problem: str | None = None
    job: str | None = None
    task: str | None = None
    array_index: int | None = None
    for_instance: str = ""
    after: tuple[DependencyView, ...] = ()
    time_limit_s: float | None = None
    grace_period_s: float | None = None
    not_before: datetime | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    instance: str | None = None
    instance_type: str | None = None
    attempts: tuple[AttemptView, ...] = ()
    attempt_count: int = 0
    cost_usd: Decimal = Decimal(0)

    @property
    def final(self) -> bool:
        """Return whether nothing follows."""
        return self.state in FINAL_STATES

    @property
    def shown_state(self) -> str:
        """Return its state for people, who want to know that its program does not run yet."""
        pulling = self.state == "running" and self.attempts and self.attempts[-1].is_pulling
        return "pulling" if pulling else self.state

    @property
    def status(self) -> int:
        """Return what a command that waited for it exits with: 0 only when it succeeded."""
        if self.state == "succeeded":
            return 0
        return ((self.exit_code or 0) & 0xFF) or 1

    @property
    def earlier_attempts(self) -> int:
        """Return how many attempts there were before those that the server answered."""
        return max(0, self.attempt_count - len(self.attempts))

    @property
    def title(self) -> str:
        """Return its name, or else its task's, with its place in an array: "align[7]"."""
        place = "" if self.array_index is None else f"[{self.array_index}]"
        return f"{self.name or self.task or ''}{place}"

    @property
    def waits(self) -> bool:
        """Return whether it does not run yet, or not any more before its next attempt."""
        return self.state in WAITING_STATES

    @property
    def cancelling(self) -> str:
        """Return that it is being cancelled, and when KILL comes where that is known, else ""."""
        if self.final or not self.cancel_requested:
            return ""
        return "being cancelled" + (f", KILL at {moment(self.kill_at)}" if self.kill_at else "")

    @property
    def attempt_started_at(self) -> datetime | None:
        """Return when its last attempt began to run; None while it waits for one."""
        if self.waits:
            return None
        return self.attempts[-1].started_at if self.attempts else self.started_at

    def ran_for_s(self, now: datetime | None = None) -> float | None:
        """Return how long its last attempt has been running, or ran, in seconds.

        None when it never did, and while it waits; 0 when the server's clock is ahead of ours.
        """
        began_at = self.attempt_started_at
        if began_at is None:
            return None
        ended_at = self.attempts[-1].finished_at if self.attempts else None
        ended_at = ended_at or self.finished_at or now or datetime.now(UTC)
        return max(0.0, (ended_at - began_at).total_seconds())

    def short_note(self) -> str:
        """Return the note in few words, for a listing's row."""
        wait = self.waiting_for
        if not self.waits or wait is None or wait.behind is None or wait.code != "behind":
            note = self.note()
            if self.for_instance not in note:
                note = f"{self.for_instance}: {note}" if note else self.for_instance
            return f"{note} (in doubt)" if self.doubt else note
        why = f" ({wait.behind_code.replace('_', ' ')})" if wait.behind_code else ""
        place = f" (position {self.position} of {self.queue_length})" if self.position else ""
        return f"behind {wait.behind}{why}{place}"

    def note(self) -> str:
        """Return why it waits, else where it runs, else why it ended, in one line."""
        if self.final:
            return self.reason.message if self.reason else ""
        if self.cancelling:
            return f"{self.instance}: {self.cancelling}" if self.instance else self.cancelling
        if self.waits and (self.waiting or self.state == "queued"):
            # Its last attempt's instance may be gone.
            return self.waiting or ""
        return self.instance or self.waiting or ""


class BehaviorNoteView(msgspec.Struct, frozen=True, kw_only=True):
    """Why an instance has its idle behavior, and who wants it."""

    reason: str = ""
    by: str | None = None
    at: datetime | None = None
    until: datetime | None = None


class ShownInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance as the server answers it, or as far as an event tells of it."""

    id: str
    state: str
    address: str = ""
    idle_behavior: str = ""
    instance_type: str = ""
    provider_type: str = ""
    price_usd_per_hour: Decimal = Decimal(0)
    running: tuple[str, ...] = ()
    last_container: str | None = None
    created_at: datetime | None = None
    last_busy_at: datetime | None = None
    last_contact_at: datetime | None = None
    broken: str | None = None
    last_error: str | None = None
    taken_back_at: str | None = None
    missing_since: datetime | None = None
    cloud_says: str | None = None
    gone_at: datetime | None = None
    advice: str | None = None
    shortfall: str = ""
    idle_behavior_note: BehaviorNoteView | None = None


class InstancesView(msgspec.Struct, frozen=True, kw_only=True):
    """Instances; there may be others if the listing that they come from is not `complete`."""

    items: tuple[ShownInstance, ...] = ()
    complete: bool = True
    listed_at: datetime | None = None
    next_cursor: str | None = None


class LeakView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is billed and not wanted; a price of None is one that nobody knows."""

    why: str
    instance: str | None = None
    launch: str | None = None
    instance_type: str = ""
    price_usd_per_hour: Decimal | None = None
    kind: str = ""
    since: datetime | None = None
    cost_usd: Decimal = Decimal(0)
    remedy: str = ""
    resource: str | None = None


class LeaksView(msgspec.Struct, frozen=True, kw_only=True):
    """All leaks; there may be others if the listing that they come from is not `complete`.

    `store_problem` is why the server's store cannot be written, None when it can;
    `leftovers_problem` is why it cannot tell what stays of instances that are gone.
    """

    items: tuple[LeakView, ...]
    complete: bool
    listed_at: datetime | None = None
    store_problem: str | None = None
    leftovers_problem: str | None = None


class ProblemView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong, since when."""

    kind: str
    message: str
    since: datetime | None = None


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """The store's files and disk; None for inodes where their number is not fixed."""

    database_bytes: int = 0
    wal_bytes: int = 0
    pending_writes: int = 0
    free_bytes: int = 0
    free_inodes: int | None = None


class LogsView(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of the logs."""

    free_bytes: int = 0
    free_inodes: int | None = None


class HealthView(msgspec.Struct, frozen=True, kw_only=True):
    """How the server does."""

    ready: bool
    degraded: bool
    problems: tuple[ProblemView, ...]
    store: StoreView
    logs: LogsView
    advice: tuple[str, ...] = ()


class ShownStray(msgspec.Struct, frozen=True, kw_only=True):
    """A process of another store's that runs on an instance, and is kept."""

    instance: str
    attempt: str
    container: str | None = None
    store: str = ""
    found_at: datetime | None = None
    fate: str = ""


class StraysView(msgspec.Struct, frozen=True, kw_only=True):
    """Strays that are kept."""

    items: tuple[ShownStray, ...]


def view(data: Mapping[str, object], kind: type[View]) -> View:
    """Return `data` as a view; raises `CommandFailure` when the server speaks another dialect."""
    try:
        return msgspec.convert(data, kind, strict=False)
    except msgspec.ValidationError as error:
        raise CommandFailure(
            f"cannot read what the server says ({error})",
            remedy="Its version differs from this command's: update the older one",
        ) from error
