"""What the pool knows of instances, workers and attempts; pure data, no effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated, Final, assert_never

import msgspec

from longshore.drivers.billing import NOTHING_BILLED, Billed
from longshore.drivers.interface import Existence, InstanceType, Power, Resources
from longshore.pool.usage import MOST_BYTES, AttemptUsage

# What an instance may say of itself at most: what comes from there is kept, shown and journalled.
MOST_WORDS = 4096
MOST_NAME = 128
MOST_CPUS = 2**16

# All that an instance knows of comes in one line (`pool.remote.wire`), what waits there too.
MOST_UNRELEASED = 1000

# The code of a start that is refused since its instance has booted anew (see `StartAttempt`).
REBOOTED = "rebooted"

Seconds = Annotated[float, msgspec.Meta(ge=0.01, le=30 * 86400)]


class WorkerState(Enum):
    """Where a worker is in its life; the table of moves is in `pool.transitions`."""

    UNKNOWN = "unknown"
    BOOTING = "booting"
    IDLE = "idle"
    RUNNING = "running"
    SHUTDOWN = "shutdown"


READY: Final = frozenset({WorkerState.IDLE, WorkerState.RUNNING})


class IdleBehavior(Enum):
    """What an admin wants of an instance; kept in its cloud tags, so that it survives a restart."""

    RUN = "run"
    HOLD = "hold"
    DRAIN = "drain"


class ExitKind(Enum):
    """How an attempt ended on its instance."""

    EXITED = "exited"
    OUT_OF_MEMORY = "out_of_memory"
    ENGINE_FAILURE = "engine_failure"
    LOST = "lost"


class Fault(Enum):
    """Whose fault it is that an engine could not run an attempt."""

    REQUEST = "request"
    """An image that is unknown or forbidden, a program that is not in it: it fails anywhere."""
    INSTANCE = "instance"
    """The engine or the machine: another instance may well run it."""
    REGISTRY = "registry"
    """Its image did not come in time: nobody knows whether it will, here or on another instance."""


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `pool` section of the configuration; all durations in seconds."""

    boot_timeout_s: Seconds = 600.0
    probe_timeout_s: Seconds = 600.0
    idle_timeout_s: Seconds = 60.0
    shutdown_timeout_s: Seconds = 10.0
    sync_interval_s: Seconds = 60.0
    probe_interval_s: Seconds = 10.0
    boot_probe_command: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] = "true"
    signal_interval_s: Seconds = 5.0
    term_timeout_s: Seconds = 120.0
    offline_timeout_s: Seconds = 180.0
    gone_after_s: Seconds = 180.0
    orphan_timeout_s: Seconds = 1800.0
    quota_hold_s: Seconds = 60.0
    capacity_hold_s: Seconds = 60.0
    cloud_call_timeout_s: Seconds = 120.0
    max_concurrent_creates: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    max_cloud_ops_per_second: Annotated[float, msgspec.Meta(ge=0.1, le=1000)] = 20.0
    max_probes_per_second: Annotated[float, msgspec.Meta(ge=0.1, le=1000)] = 10.0
    image: Annotated[str, msgspec.Meta(max_length=512)] = ""
    init_command: Annotated[str, msgspec.Meta(max_length=16384)] = ""


class SecretKind(Enum):
    """As what an attempt is given a secret."""

    #: A variable of its environment, which is called as the target.
    ENV = "env"
    #: A file on tmpfs, which is called so.
    FILE = "file"
    #: The login at the registry of that name, for the fetching of its image alone.
    REGISTRY = "registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """Which secret of its project an attempt is given, and as what; nothing of its value."""

    secret: str
    kind: SecretKind
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretOrder:
    """What of secrets belongs to an attempt, as it may be kept and shown: no value is in it."""

    #: Whose secrets they are.
    project: str = ""
    uses: tuple[SecretUse, ...] = ()
    #: Variables of the environment whose values are encrypted, sorted by name.
    sealed_env: tuple[tuple[str, str], ...] = field(default=(), repr=False)


NO_SECRETS = SecretOrder()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretValues:
    """The values of an attempt's secrets: they go to its instance, and nowhere else."""

    #: (name, value) pairs each; of registries the value is "USER:PASSWORD".
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    files: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    registries: tuple[tuple[str, str], ...] = field(default=(), repr=False)


NO_SECRET_VALUES = SecretValues()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOrder:
    """What the runner is told to run: one attempt of one container."""

    attempt_id: str
    container_id: str
    #: "" for the process engine.
    image: str
    #: () for the image's own; never without an image.
    command: tuple[str, ...] = field(repr=False)
    #: (name, value) pairs.
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Limits; 0 is none.
    cpu_millis: int = 0
    memory_bytes: int = 0
    #: Whether it belongs to the instance: it keeps it neither busy nor, once no dispatcher is in
    #: contact, from powering itself off.
    resident: bool = False
    #: Takes the place of the image's ENTRYPOINT: () for none, None to keep the image's.
    entrypoint: tuple[str, ...] | None = field(default=None, repr=False)
    #: Whether it gets an init as process 1, where the engine has one.
    init: bool = True
    #: What of secrets it is given; the values are looked up when it is sent.
    secrets: SecretOrder = NO_SECRETS
    #: Whether it finds the dispatcher's API inside.
    api: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptImage:
    """What an instance tells of the image of an attempt."""

    #: True until the image is there.
    pulling: bool = False
    #: What ran ("sha256:…"), "" while it is not known.
    digest: Annotated[str, msgspec.Meta(max_length=256)] = ""
    #: A sentence for whoever made the request, "" for none.
    warning: Annotated[str, msgspec.Meta(max_length=MOST_WORDS)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptExit:
    """How an attempt ended, as the runner recorded it.

    `code` is 128+n after signal n, None when nothing ever ran or its end was not recorded; times
    are seconds since the epoch on the instance's clock; sizes are those of the complete streams.
    `fault` is for an `ENGINE_FAILURE` alone. `usage` is None where nothing was measured, and from
    an older runner.
    """

    kind: ExitKind
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None
    message: Annotated[str, msgspec.Meta(max_length=MOST_WORDS)] = ""
    started_at: float = 0.0
    finished_at: float = 0.0
    stdout_bytes: Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)] = 0
    stderr_bytes: Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)] = 0
    fault: Fault = Fault.INSTANCE
    usage: AttemptUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """One attempt that an instance knows of."""

    attempt_id: Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
    container_id: Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
    #: None while it runs.
    exit: AttemptExit | None = None
    #: The id of the store whose dispatcher started it, "" where that is not known.
    store: Annotated[str, msgspec.Meta(max_length=MOST_NAME)] = ""
    #: None while nothing is known of it, and where there is none.
    image: AttemptImage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSize:
    """What a machine has, as its runner says: cpus that may be used there, and memory."""

    cpus: Annotated[int, msgspec.Meta(ge=1, le=MOST_CPUS)]
    memory_bytes: Annotated[int, msgspec.Meta(ge=1, le=MOST_BYTES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What a successful run probe saw."""

    attempts: tuple[AttemptReport, ...]
    boot_id: str
    engine: str = ""
    #: The runner's reason to drain the instance, "" for none.
    broken: str = ""
    #: What would make the instance better, "" for nothing.
    advice: str = ""
    #: None where the runner does not say what the machine has.
    machine: MachineSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """For whom an instance is bought; whose limits of spending it counts against follows of that.

    `project` and `user` are None where it is nobody in particular.
    """

    project: str | None = None
    user: str | None = None
    #: The job's name, or the container's that is of none; "" for nobody's.
    job_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """An intent to create one instance, journalled before the create call.

    `secret` proves the host key of what comes of it; it is void ("") once the key is pinned.
    `payer` is for the dispatcher, which must know it after a crash too.
    """

    token: str
    type_name: str
    secret: str = field(repr=False)
    created_at: float
    payer: Payer = Payer()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSeen:
    """A driver's instance as a value: what a listing or a create said of it.

    `reason` is why it stands as `power` says, in the cloud's words, "" where that is not told.
    `billed` is what was told of its billing.
    """

    id: str
    address: str
    tags: tuple[tuple[str, str], ...]
    power: Power = Power.ON
    reason: str = ""
    billed: Billed = NOTHING_BILLED


@dataclass(slots=True, kw_only=True)
class Absence:
    """That complete listings lack an instance."""

    #: When the first of these listings began.
    since: float
    #: How many in a row lack it since it was last heard of, and when the first and the latest of
    #: those began.
    listings: int = 0
    first_at: float = 0.0
    latest_at: float = 0.0
    #: Whether a probe that was sent after the operation `mark` found nobody there.
    unanswered: bool = False
    mark: int = 0
    #: What the cloud said of its id last.
    existence: Existence = Existence.UNKNOWN
    #: The question that is under way, 0 for none.
    asked_op: int = 0
    #: When the cloud was asked last.
    asked_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """An instance that a create call answered with and no listing ever showed, until it was let go.

    Nobody knows whether there is (still) one; `let_go_at` is when it ceased to count.
    """

    id: str
    token: str
    type: InstanceType
    appeared_at: float
    let_go_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Swallowed:
    """A container that has not run on one instance, as far as is known, so many `times`.

    `contained` is whether it has an image.
    """

    user: str
    contained: bool
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviorNote:
    """Why an instance has an idle behavior, since when, and who wants it.

    `by` is "" where it is the server itself. Times are in seconds since the epoch; `until` is when
    it is to run again, None for never.
    """

    behavior: IdleBehavior
    reason: str
    by: str
    at: float
    until: float | None = None


@dataclass(slots=True, kw_only=True)
class CloudRecord:
    """What the cloud tells of an instance, and what its absence from listings tells."""

    address: str = ""
    #: When the latest listing that shows it began.
    listed_at: float
    #: Whether a listing has ever shown it.
    listed: bool = False
    #: About those that lack it, None while none does or it has a session.
    absence: Absence | None = None
    #: An earlier process knew it, and no listing has shown it since: its tags are not known.
    remembered: bool = False
    #: How it stands, as the last listing said that shows it, and how many in a row say so.
    power: Power = Power.ON
    power_listings: int = 0
    #: Why it stands so or has ended, in the cloud's words, "" where that is not told.
    reason: str = ""
    #: All that was ever told of its billing.
    billed: Billed = NOTHING_BILLED
    #: What an hour of its type costs in its zone now, None where that is not told.
    zone_usd_per_hour: Decimal | None = None

    @property
    def says(self) -> str:
        """Return what the cloud says of it, in a sentence; "" for one that is on."""
        if self.power is Power.ON:
            return ""
        why = f": {self.reason}" if self.reason else ""
        return f"the cloud says that it is {self.power.value}{why}"

    @property
    def missing_since(self) -> float | None:
        """Return since when it is missing from listings, None if not; too new for them is not."""
        return self.absence.since if self.absence is not None and self.listed else None

    @property
    def unseen(self) -> bool:
        """Return whether it gets no new work until a listing shows it; one too new for them may."""
        return self.missing_since is not None or (self.remembered and self.listed)


@dataclass(slots=True, kw_only=True)
class LinkRecord:
    """How a worker is reached: its keys, its probes and its session."""

    #: The pinned key, "" while it is not proven; by `secret` it is, which is void then.
    host_key: str = ""
    secret: str = field(default="", repr=False)
    #: Counts the changes that make an older probe's result worthless.
    revision: int = 0
    #: The probe that is under way, 0 for none, and how many failed in a row.
    probe_op: int = 0
    probe_failures: int = 0
    #: In shutdown it has a session for as long as its residents are waited for.
    session_up: bool = False
    attached_at: float = 0.0
    last_contact: float = 0.0
    #: Sessions in a row that were lost soon after they were attached.
    flaps: int = 0
    #: The boot whose probe has passed, "" for none yet.
    boot_id: str = ""
    #: When it appeared, or was found to have booted anew.
    boots_since: float
    #: Whether a probe got past the proof of its key, and has shown what runs there.
    reached: bool = False
    shown: bool = False


@dataclass(slots=True, kw_only=True)
class LoadRecord:
    """What a worker has room for, and what takes it; changed by its own methods alone."""

    free: Resources = Resources()
    #: What its machine has, as it says itself, None while it has not.
    machine: MachineSize | None = None
    #: What others of its type have, taken for what it has until it says so itself.
    expected: MachineSize | None = None
    #: The attempts that hold resources here.
    attempts: dict[str, Resources] = field(default_factory=dict)
    #: Those of them that share one cpu, since they ask for none.
    sharing: set[str] = field(default_factory=set)
    #: Those of them that do not keep it busy (see `PoolAttempt`).
    resident: set[str] = field(default_factory=set)
    #: Those of another store, which are kept: nobody knows what room they take.
    unaccounted: set[str] = field(default_factory=set)
    #: Those that ended but whose log is not complete yet.
    unreleased: set[str] = field(default_factory=set)
    last_busy: float = 0.0
    last_container: str = ""

    @property
    def on_shared_cpu(self) -> int:
        """Return how many attempts share the one cpu of those that ask for none."""
        return len(self.sharing)

    @property
    def busy_with(self) -> int:
        """Return how many attempts keep it busy: all that hold resources but the resident ones."""
        return len(self.attempts) - len(self.resident)

    @property
    def backlogged(self) -> bool:
        """Return whether it gets no new work, since too many that ended wait to be released."""
        return len(self.unreleased) > MOST_UNRELEASED

    def found(self, machine: MachineSize) -> None:
        """Note what its machine has; the room that leaves is to be added up anew."""
        self.machine = machine

    def expect(self, machine: MachineSize | None) -> None:
        """Note what its machine is taken to have, None for what its type says; as `found`."""
        self.expected = machine

    def added_up(self, free: Resources) -> None:
        """Take the room that is left as somebody has added it up (`pool.charging`)."""
        self.free = free

    def hold(
        self, attempt_id: str, resources: Resources, *, taken: Resources, shares: bool
    ) -> None:
        """Count an attempt in; it takes `taken` of the room, and may share the one cpu."""
        self.attempts[attempt_id] = resources
        if shares:
            self.sharing.add(attempt_id)
        self.free = self.free.minus(taken)

    def hold_apart(self, attempt_id: str, *, resident: bool, unaccounted: bool) -> None:
        """Note that an attempt that is held is none that keeps it busy, or none of this store."""
        if resident:
            self.resident.add(attempt_id)
        if unaccounted:
            self.unaccounted.add(attempt_id)

    def let_go(self, attempt_id: str) -> Resources | None:
        """Count an attempt out; return what it held, None for nothing, and see `give_back`."""
        self.resident.discard(attempt_id)
        self.unaccounted.discard(attempt_id)
        self.sharing.discard(attempt_id)
        return self.attempts.pop(attempt_id, None)

    def give_back(self, taken: Resources) -> None:
        """Have the room again that an attempt took."""
        self.free = self.free.plus(taken)

    def awaits_log(self, attempt_id: str) -> None:
        """Note that an attempt has ended, and its log is not complete."""
        self.unreleased.add(attempt_id)

    def released(self, attempt_id: str) -> None:
        """Note that nothing more is expected of an attempt that has ended."""
        self.unreleased.discard(attempt_id)

    def was_busy(self, now: float, container_id: str = "") -> None:
        """Note that it is or was busy until now, "" with the same container as before."""
        self.last_busy = now
        self.last_container = container_id or self.last_container


@dataclass(slots=True, kw_only=True)
class HealthRecord:
    """What speaks for and against giving a worker work; changed by its own methods alone."""

    #: Why we ourselves judge it to be of no use, which is final, "" for nothing.
    verdict: str = ""
    #: What it says of itself at present, "" for nothing, and what would make it better.
    complaint: str = ""
    advice: str = ""
    #: When it became broken, 0.0 for never.
    broken_at: float = 0.0
    #: When the cloud takes it back, by its own word, "" where that is not known.
    interruption: str = ""
    #: Starts in a row that failed for a cause that lies with the instance.
    refusals: int = 0
    #: It gets no new work until then, since its runner said that too much runs there.
    overloaded_until: float = 0.0
    #: Who ended there without having run, through no fault of their own, since one of their kind
    #: last ran, by container (`pool.trials`).
    swallowed: dict[str, Swallowed] = field(default_factory=dict)
    #: Whether it gets no work until the next probe has tried whether its engine works.
    on_trial: bool = False
    #: Until when what is swallowed of a user's counts for nothing, by user: a trial has passed.
    acquitted: dict[str, float] = field(default_factory=dict)
    #: Whether a program has run there (`pool.boot_failures`), and whether it was of no use before.
    has_run: bool = False
    boot_failed: bool = False
    last_error: str = ""

    @property
    def broken(self) -> str:
        """Return why it gets no more work: our verdict, else its own complaint, "" for neither."""
        return self.verdict or self.complaint

    def failed(self, what: str) -> None:
        """Note what failed last, "" for nothing any more."""
        self.last_error = what

    def advised(self, advice: str) -> None:
        """Note what would make it better by its own word, "" for nothing."""
        self.advice = advice

    def judged(self, verdict: str) -> None:
        """Note for good why it is of no use."""
        self.verdict = verdict

    def complains(self, complaint: str) -> None:
        """Note what it says of itself, "" for nothing; then it is not broken, unless judged."""
        self.complaint = complaint
        if not self.broken:
            self.broken_at = 0.0

    def reviewed(self, now: float) -> None:
        """Note since when it is broken, if it is."""
        if self.broken and not self.broken_at:
            self.broken_at = now

    def taken_back(self, at: str) -> None:
        """Note when the cloud takes it back."""
        self.interruption = at

    def started_one(self) -> None:
        """Note that it has started what it was to."""
        self.refusals = 0

    def refused_one(self, why: str) -> None:
        """Note that it has not, for a cause that lies with it."""
        self.refusals += 1
        self.last_error = f"start refused: {why}"

    def overloaded(self, until: float) -> None:
        """Give it no new work until then."""
        self.overloaded_until = until

    def ran_one(self) -> None:
        """Note that a program has run there."""
        self.has_run = True

    def was_of_no_use(self) -> None:
        """Note that it was of no use before any had."""
        self.boot_failed = True

    def swallowed_one(self, container_id: str, swallowed: Swallowed, why: str) -> None:
        """Note that a container ended there without having run."""
        self.swallowed[container_id] = swallowed
        self.last_error = why

    def seen_to_run(self, *, contained: bool) -> None:
        """Forget those that were swallowed of a kind of which one has run now."""
        others = {c: s for c, s in self.swallowed.items() if s.contained is not contained}
        self.swallowed = others

    def try_engine(self) -> None:
        """Put its engine on trial."""
        self.on_trial = True

    def tried(self) -> dict[str, Swallowed]:
        """End the trial; return whom it had swallowed, who count no more."""
        self.on_trial = False
        swallowed, self.swallowed = self.swallowed, {}
        return swallowed

    def acquit(self, user: str, until: float) -> None:
        """Let what is swallowed of a user's count for nothing until then."""
        self.acquitted[user] = until


@dataclass(slots=True, kw_only=True)
class ShutdownRecord:
    """How the end of an instance goes; `pool.shutdown` changes it."""

    #: The reason of the admin who ended it, "" for none, and None where nobody did.
    killed: str | None = None
    #: Why it is being shut down, "" while it is not.
    reason: str = ""
    #: When its destroy was asked for, 0.0 before that.
    destroyed_at: float = 0.0
    #: The destroy calls in a row that failed, and what the last of them said.
    destroy_failures: int = 0
    destroy_error: str = ""
    #: Whether the latest did not fail, and whether the cloud has taken one of what it knows.
    destroy_answered: bool = False
    destroy_accepted: bool = False


@dataclass(slots=True, kw_only=True)
class Worker:
    """The pool's record of one instance: who it is, and a part for each subject."""

    id: str
    type: InstanceType
    token: str
    #: Whether this process asked for it.
    launched_here: bool = False
    appeared_at: float
    state: WorkerState
    state_since: float
    behavior: IdleBehavior
    #: What is known of the idle behavior that was asked for last, None for nothing; it may have
    #: another.
    noted: BehaviorNote | None = None
    #: Whether no listing has shown the idle behavior that an admin gave it.
    untagged: bool = False
    cloud: CloudRecord
    link: LinkRecord
    load: LoadRecord
    health: HealthRecord = field(default_factory=HealthRecord)
    shutdown: ShutdownRecord

    @property
    def note(self) -> BehaviorNote | None:
        """Return what is known of the idle behavior that it has, None for nothing."""
        known = self.noted
        return known if known is not None and known.behavior is self.behavior else None

    @property
    def is_ready(self) -> bool:
        """Return whether an attempt can be started on it at once.

        One that an earlier process created and no listing has shown is: the launch's secret has
        proven it, as where no process has ended in between.
        """
        return self.link.session_up and not self.cloud.unseen and self.state in READY

    def invalidate_probe(self) -> None:
        """Let the probe that is under way say nothing of what is missing: something changed."""
        self.link.revision += 1

    def takes_more(self, now: float) -> bool:
        """Return whether it neither rests, nor is on trial, has a backlog or keeps strays."""
        rested = now >= self.health.overloaded_until and not self.health.on_trial
        return rested and not self.load.backlogged and not self.load.unaccounted


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """An attempt not seen to run: its start is on its way, or nobody knows what came of that.

    One that is `to_end` gets TERM, which may come before its start; nothing counts from that.
    """

    to_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An attempt that was seen to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """An attempt that was seen to run, and is told to end (`pool.signals`)."""

    #: When TERM was first sent over a live session, None before that.
    since: float | None = None
    #: How often KILL was sent.
    kills: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """An attempt whose end is known, and whose log is still on its way."""

    #: Whether an earlier process concluded that without an exit: should it run all the same, nobody
    #: wants it.
    without_exit: bool = False
    #: How often KILL was sent before.
    kills: int = 0


AttemptPhase = Starting | Running | Stopping | Finished
"""What is known of an attempt on its worker.

The way is down this list, past what is not seen; `pool.attempts` and `pool.signals` go it.
"""


@dataclass(slots=True, kw_only=True)
class PoolAttempt:
    """The pool's record of one attempt."""

    id: str
    #: What its instance calls it: the same as `id`, but for strays. An instance makes their names
    #: up, and may use those that attempts elsewhere have, or will have.
    remote_id: str
    worker_id: str
    resources: Resources
    phase: AttemptPhase = Starting()
    #: Whose it is, "" where that is not known; of a kept stray, whose it says to be.
    container_id: str = ""
    user: str = ""
    #: Whether it runs from an image.
    contained: bool = False
    #: Whether its image is being fetched, as far as is known.
    pulling: bool = False
    #: When it was first seen to run, or its image to have come; None before that.
    running_since: float | None = None
    #: Its start that is not answered, 0 for none: a probe may show it running before that.
    start_op: int = 0
    #: The operation up to which it was not certain where it stood: a probe that began later can
    #: tell that it is missing.
    settled_op: int = 0
    #: Whether no container wants it.
    stray: bool = False
    #: What it gets between TERM and KILL, None for what all get.
    grace_s: float | None = None
    #: Whether it belongs to its instance: it holds room there, but keeps it neither running nor
    #: busy, and is told to end before its instance is destroyed.
    resident: bool = False
    #: Whether it was told to end for that.
    told_to_end: bool = False
    #: Of a stray that is kept, since another store may know it: that store. "" for all others.
    store: str = ""
    #: When such a stray was found.
    found_at: float = 0.0
    #: Whether an admin adopted it, so that it is nobody's concern any more.
    adopted: bool = False

    @property
    def is_finished(self) -> bool:
        """Return whether its end is known."""
        return isinstance(self.phase, Finished)

    @property
    def is_seen_running(self) -> bool:
        """Return whether it was seen to run, and its end is not known."""
        return isinstance(self.phase, Running | Stopping)

    @property
    def is_to_end(self) -> bool:
        """Return whether it is told to end and has not, as far as is known."""
        match self.phase:
            case Starting(to_end=to_end):
                return to_end
            case Stopping():
                return True
            case Running() | Finished():
                return False
            case unknown:
                assert_never(unknown)


@dataclass(slots=True, kw_only=True)
class PendingLaunch:
    """A launch whose instance is not known yet, or whose host key is not proven yet."""

    launch: Launch
    #: Whether the create call runs.
    in_flight: bool
    #: Whether the planner may count on an instance of it.
    counted: bool
    op_id: int = 0
    instance_id: str = ""
    #: When the answer was found to be ambiguous.
    lost_answer_at: float | None = None
    #: Whether its instance is known to have been there and to be gone.
    seen_and_gone: bool = False

    @property
    def is_in_doubt(self) -> bool:
        """Return whether its answer is lost, and nobody knows whether it made an instance."""
        known = bool(self.instance_id) or self.seen_and_gone
        return self.lost_answer_at is not None and not known


def stray_id(worker_id: str, remote_id: str) -> str:
    """Return the id under which a stray is kept; no attempt of a container has such a one."""
    return f"{worker_id} {remote_id}"
