"""The containers that have not ended, and the attempts whose logs are still on their way.

Every change of a container goes through here, so that it is journalled and published once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.budgets import BudgetStop
from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerSpec,
    ContainerState,
    Reason,
    SchedulerSettings,
    StopReason,
    WaitReason,
)
from longshore.dispatcher.domain.feasibility import given_on
from longshore.dispatcher.domain.jobs import Job, JobType
from longshore.dispatcher.domain.may_begin import stop_of, why_job_not_begin, why_not_begin
from longshore.dispatcher.domain.messages import (
    AddContainer,
    Change,
    Publication,
    PublishContainer,
    SaveAttempt,
    SaveContainer,
    SaveSpec,
)
from longshore.dispatcher.domain.secrets import (
    KEY_MISSING,
    NO_SECRETS_KNOWN,
    KnownSecrets,
    has_secrets,
    why_withheld,
)
from longshore.dispatcher.state.attempt_end import (
    ClosedAttempt,
    close,
    first_start,
    latest,
    was_placed,
)
from longshore.dispatcher.state.attempt_spend import AttemptSpend
from longshore.dispatcher.state.job_registry import JobRegistry
from longshore.dispatcher.state.memory_limit import QueuedMemory
from longshore.dispatcher.state.queue import Queue
from longshore.dispatcher.state.restarts import held_until, restart_due
from longshore.dispatcher.state.scheduling_gates import Deadlines, Gate, SchedulingGates
from longshore.dispatcher.state.spend_limits import SpendLimits
from longshore.dispatcher.state.tally import ContainerTally, held_by
from longshore.drivers.errors import BugError
from longshore.drivers.interface import InstanceType
from longshore.pool.histogram import Histogram
from longshore.pool.model import Worker
from longshore.pool.pool_events import AttemptEnd, AttemptImageKnown

# ---- what a new attempt of a container is --------------------------------------------------------


def new_attempt(container: Container, worker: Worker, now: float, *, revision: int) -> Attempt:
    """Return the next attempt of a container, on a worker."""
    number = len(container.attempts) + 1
    return Attempt(
        id=f"{container.id}-{number}",
        container_id=container.id,
        number=number,
        instance_id=worker.id,
        instance_type=worker.type.name,
        price_usd_per_hour=worker.type.price_usd_per_hour,
        created_at=now,
        resources=given_on(worker.type, container),
        revision=revision,
    )


# ---- ended attempts whose logs are still on their way from the instances -------------------------

_LOGS_NAMED = 20


class AwaitingLogs(dict[str, Attempt]):
    """Ended attempts by id, until every byte of their logs is kept, or never will come."""

    def __init__(self, changes: list[Change]) -> None:
        """Make it empty; what it writes goes to `changes`, to be journalled."""
        super().__init__()
        self._changes = changes

    def log_complete(self, attempt_id: str) -> bool:
        """Note that an ended attempt's log is complete; return whether it was awaited."""
        attempt = self.pop(attempt_id, None)
        if attempt is None:
            return False
        self._changes.append(SaveAttempt(attempt=replace(attempt, log_complete=True)))
        return True

    def written_on(self, worker_id: str) -> list[Attempt]:
        """Return whose logs are awaited from an instance, of those that wrote something, by id."""
        return [
            attempt
            for _, attempt in sorted(self.items())
            if attempt.instance_id == worker_id and attempt.written_bytes
        ]

    def drop_instance(self, worker_id: str) -> None:
        """Stop waiting for logs from an instance that is gone."""
        for attempt_id in sorted(self):
            if self[attempt_id].instance_id == worker_id:
                del self[attempt_id]


def logs_in_words(attempts: Sequence[Attempt]) -> str:
    """Return whose logs they are, and how much these wrote, for a sentence of what is lost."""
    named = [f"{each.id} ({each.written_bytes} bytes)" for each in attempts[:_LOGS_NAMED]]
    more = len(attempts) - _LOGS_NAMED
    told = ", ".join([*named, *([f"{more} more"] if more > 0 else [])])
    return f"what has not come yet of the log{'s' if len(attempts) > 1 else ''} of {told}"


# ---- since when containers wait ------------------------------------------------------------------


class WaitingSince:
    """Since when containers wait that could run, in seconds since the epoch, by project."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, float]] = {}

    def ids(self) -> set[str]:
        """Return whose ids are in it; a copy."""
        return {container_id for since in self._of.values() for container_id in since}

    def earliest(self, projects: Collection[str] | None) -> float | None:
        """Return since when one waits that has done so for longest, None where nobody waits.

        `projects` are those whose containers count, None for all.
        """
        wanted = self._of.keys() if projects is None else projects
        found = (min(self._of[each].values()) for each in wanted if self._of.get(each))
        return min(found, default=None)

    def add(self, container: Container, at: float) -> None:
        """Note since when one waits, unless it waits already."""
        self._of.setdefault(container.project, {}).setdefault(container.id, at)

    def pop(self, container: Container) -> float | None:
        """Forget one; return since when it has waited, None where it has not."""
        of_project = self._of.get(container.project, {})
        since = of_project.pop(container.id, None)
        if since is not None and not of_project:
            del self._of[container.project]
        return since

    def limit(self, now: float) -> None:
        """Let nobody have waited since later than now."""
        for since in self._of.values():
            for container_id, at in since.items():
                since[container_id] = min(at, now)


# ---- the containers that have not ended, and the attempts whose logs are still on their way ------

_START_BOUNDS_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0)


def _nothing(_attempt: Attempt, _ended_at: float) -> Decimal:
    """Return that an attempt costs nothing, where nobody keeps a ledger."""
    return Decimal(0)


class ContainerTable:
    """All unfinished containers by id, the queue of those that wait, and the changes to journal."""

    def __init__(
        self,
        *,
        queue: Queue,
        types: Mapping[str, InstanceType],
        settings: SchedulerSettings,
        secrets: KnownSecrets = NO_SECRETS_KNOWN,
    ) -> None:
        self.containers: dict[str, Container] = {}
        self.open_attempts: dict[str, str] = {}
        self.supervisors_placed = 0
        self.queue = queue
        #: Those that wait outside the queue, for a time or for somebody.
        self.gates = SchedulingGates()
        #: Counts the containers of jobs.
        self.jobs = JobRegistry()
        #: Which secrets could be given to who starts now.
        self.known_secrets = secrets
        self._given_secrets: set[str] = set()
        #: The budgets that let nothing new begin.
        self.budget_stops: tuple[BudgetStop, ...] = ()
        #: Those of which nobody has heard yet that they have ended.
        self.finished: list[Container] = []
        #: When which running attempt has run for long enough.
        self.time_limits = Deadlines()
        #: How many of the open attempts are of per-instance jobs.
        self.residents = 0
        self.changes: list[Change] = []
        self.unreleased = AwaitingLogs(self.changes)
        self.published: list[Publication] = []
        self.memory = QueuedMemory()
        #: For each container that could run and is not known to, since when.
        self.waiting_since = WaitingSince()
        #: How many there are, for who wants an overview.
        self.tally = ContainerTally()
        self.queue_to_start_s = Histogram(_START_BOUNDS_S)
        #: Tells what an attempt costs that ended at a time.
        self.cost_usd: Callable[[Attempt, float], Decimal] = _nothing
        #: How attempts have ended in this event, by id; who writes that down empties it.
        self.ended_as: dict[str, AttemptOutcome] = {}
        self.outcomes: dict[str, int] = {outcome.value: 0 for outcome in AttemptOutcome}
        self._types = types
        self._settings = settings
        #: What the open attempts cost those who have a limit of it.
        self.spend = AttemptSpend(SpendLimits(settings), types, settings.placement)

    def admit(self, container: Container) -> None:
        """Take in a container that the store holds; it waits unless an attempt of it is open."""
        self.containers[container.id] = container
        self.tally.moved(None, container)
        self.memory.add(container.spec)
        if has_secrets(container):
            self._given_secrets.add(container.id)
            self._gate_by_secrets(container)
        self._gate_by_budgets(container)
        if not container.has_open_attempt:
            due = restart_due(container) if container.attempts else container.spec.not_before
            elastic = self.jobs.type_of(container.job_id) is JobType.ELASTIC  # its job says when
            if due is not None and not elastic:
                self.gates.until(container.id, due)
            self.wait(container, latest(container))
            return
        attempt = container.attempts[-1]
        self._limit_time(container, attempt)
        self._opened(container, attempt)
        if attempt.started_at is None:
            self.waiting_since.add(container, latest(container))

    def make(self, container: Container, *, held: bool) -> None:
        """Take in a new container of a job with a scheduler of its own; `held` with its job."""
        self.jobs.add(container)
        self.gates.block(container.id, Gate.OWN_SCHEDULER | (Gate.JOB_HELD if held else Gate.NONE))
        self.changes.append(AddContainer(container=container))
        self.published.append(PublishContainer(container=container))
        self.admit(container)

    def respecify(self, container_id: str, spec: ContainerSpec) -> None:
        """Give a container the specification of its job's latest revision."""
        container = self.containers[container_id]
        self.memory.remove(container.spec)
        self.memory.add(spec)
        self.containers[container_id] = replace(container, spec=spec)
        self.changes.append(SaveSpec(container=self.containers[container_id]))

    def publish(self, what: Publication) -> None:
        """Tell people of something that changes no container."""
        self.published.append(what)

    def begin(self, now: float) -> None:
        """Limit times to now: if the clock was set back, nobody has waited since the future."""
        self.waiting_since.limit(now)
        for container_id in self.gates.timed():
            until = held_until(self.containers[container_id], now)
            if until is not None:
                self.gates.until(container_id, until)
        for attempt_id in sorted(self.time_limits.keys()):
            limit_s = self.containers[self.open_attempts[attempt_id]].spec.time_limit_s or 0.0
            self.time_limits.hasten(attempt_id, now + limit_s)

    def release_due(self, now: float) -> bool:
        """Queue the containers whose restart is due, unless a gate holds them; return whether any
        was.
        """
        released = self.gates.release_due(now)
        for container_id, due in released:
            self.wait(self.containers[container_id], due)
        return bool(released)

    def _limit_time(self, container: Container, attempt: Attempt) -> None:
        limit_s = container.spec.time_limit_s
        if limit_s is None or attempt.started_at is None or attempt.intended_outcome is not None:
            return
        if attempt.is_pulling:
            self.time_limits.discard(attempt.id)
        else:
            began_at = attempt.pulled_at or attempt.started_at
            self.time_limits.set(attempt.id, began_at + limit_s)

    def hold_for_process(
        self, container_id: str, attempt_id: str, worker_id: str, *, forgotten_before: float
    ) -> None:
        """Let a container wait until the process of an earlier attempt of it on a worker ends.

        What an instance says of attempts that were never placed there holds nobody back, but for a
        container that is older than `forgotten_before`: what was placed by then, in seconds since
        the epoch, another store knew.
        """
        container = self.containers.get(container_id)
        if container is None:
            return
        forgotten = container.created_at < forgotten_before
        if not forgotten and not was_placed(container, attempt_id, worker_id):
            return
        self.gates.by_process(container_id, attempt_id, worker_id)
        if not container.has_open_attempt:
            if container.state is ContainerState.LOCKED:
                self.unlock(container_id)
            self.wait(self.containers[container_id], now=0.0)

    def secrets_changed(self, known: KnownSecrets) -> None:
        """Hold back who is given a secret that cannot be had now, and let those go who were held.

        What runs has its secrets already, and goes on.
        """
        self.known_secrets = known
        for container_id in sorted(self._given_secrets):
            container = self.containers[container_id]
            self._gate_by_secrets(container)
            if not container.has_open_attempt:
                # A claim of one that does not wait any more is given up by the next pass.
                self.wait(container, latest(container))

    def without_key(self) -> list[str]:
        """Return the ids of those that wait for the key to a secret, sorted, as a new list."""
        given = [self.containers[each] for each in sorted(self._given_secrets)]
        withheld = [
            (each.id, why_withheld(each, self.known_secrets))
            for each in given
            if not each.has_open_attempt
        ]
        return [name for name, why in withheld if why is not None and why.topic == KEY_MISSING]

    def _gate_by_secrets(self, container: Container) -> None:
        if why_withheld(container, self.known_secrets) is None:
            self.gates.unblock(container.id, Gate.SECRETS)
        else:
            self.gates.block(container.id, Gate.SECRETS)

    def budgets_changed(self, stops: tuple[BudgetStop, ...]) -> None:
        """Hold back whose budget is spent, and let those go who were held; what runs goes on."""
        self.budget_stops = stops
        for container_id in sorted(self.containers):
            container = self.containers[container_id]
            before = self.gates.blocks(container_id)
            self._gate_by_budgets(container)
            if self.gates.blocks(container_id) != before and not container.has_open_attempt:
                # A claim of one that does not wait any more is given up by the next pass.
                self.wait(container, latest(container))

    def why_not_begin(self, container: Container) -> WaitReason | None:
        """Return what holds a container back, whatever room there is; None for nothing."""
        job_is_held = Gate.JOB_HELD in self.gates.blocks(container.id)
        return why_not_begin(container, job_is_held=job_is_held, stops=self.budget_stops)

    def why_job_not_begin(self, job: Job) -> WaitReason | None:
        """Return what holds back all of a job of one task; None for nothing."""
        return why_job_not_begin(job, stops=self.budget_stops)

    def _gate_by_budgets(self, container: Container) -> None:
        if stop_of(container, self.budget_stops) is None:
            self.gates.unblock(container.id, Gate.BUDGET)
        else:
            self.gates.block(container.id, Gate.BUDGET)

    def process_gone(self, container_id: str, attempt_id: str, now: float) -> None:
        """Note that the process of an earlier attempt has ended, or its instance is gone."""
        held = self.gates.process_gone(container_id, attempt_id)
        container = self.containers.get(container_id)
        if held and container is not None and not container.has_open_attempt:
            self.wait(container, now)

    def wait(self, container: Container, now: float) -> None:
        """Let a container wait for a place, since `now`, unless something holds it back."""
        if container.priority > 0 and container.id not in self.gates:
            self._enqueue(container)
            self.waiting_since.add(container, now)
        else:
            self._dequeue(container)
            self.tally.hold(container, held_by(self.gates, container))
            self.waiting_since.pop(container)
        if container.priority == 0:
            self.jobs.hold_back(container)

    def _enqueue(self, container: Container) -> None:
        self.tally.release(container.id)
        is_new = container.id not in self.queue
        self.queue.add(container)
        request_class = self.queue.class_of(container.id)
        if is_new and request_class is not None:
            self.tally.queue(request_class.key, container.project)

    def _dequeue(self, container: Container) -> None:
        """Let a container wait in the queue no more; not waiting is no error."""
        request_class = self.queue.class_of(container.id)
        if request_class is not None:
            self.tally.unqueue(request_class.key, container.project)
            self.queue.discard(container.id)

    def of_attempt(self, attempt_id: str) -> tuple[Container, Attempt] | None:
        """Return an open attempt with its container, None when it is not open (any more)."""
        container_id = self.open_attempts.get(attempt_id)
        if container_id is None:
            return None
        container = self.containers[container_id]
        attempt = container.attempts[-1]
        if attempt.id != attempt_id:
            raise BugError(f"the open attempt of {container_id} is not {attempt_id}")
        return container, attempt

    def save(self, container: Container, attempt: Attempt | None = None) -> None:
        """Note a container's new value (and its latest attempt's), to be journalled."""
        before = self.containers[container.id].state
        self.jobs.moved(before, container)
        self.tally.moved(before, container)
        self.containers[container.id] = container
        self.changes.append(SaveContainer(container=container))
        if attempt is not None:
            self.changes.append(SaveAttempt(attempt=attempt))
        self.published.append(PublishContainer(container=container))

    def lock(self, container_id: str) -> None:
        """Claim a place for a waiting container."""
        container = self.containers[container_id]
        self.save(replace(container, state=ContainerState.LOCKED))

    def unlock(self, container_id: str) -> None:
        """Give a waiting container's claim up."""
        container = self.containers[container_id]
        self.save(replace(container, state=ContainerState.QUEUED))

    def _opened(self, container: Container, attempt: Attempt) -> None:
        self.open_attempts[attempt.id] = container.id
        self.residents += bool(container.pinned_to)
        self.supervisors_placed += container.is_supervisor
        self.spend.opened(container, attempt)

    @property
    def placed(self) -> int:
        """Return how many containers have a place that count against limits of how many may."""
        return len(self.open_attempts) - self.residents

    def supervisors_on(self) -> dict[str, int]:
        """Return how many supervisors have a place on instances of each type, by its name."""
        if not self.supervisors_placed:
            return {}
        open_ = (self.containers[container_id] for container_id in self.open_attempts.values())
        return dict(Counter(c.attempts[-1].instance_type for c in open_ if c.is_supervisor))

    def open_attempt(
        self, container_id: str, worker: Worker, now: float, *, revision: int = 0
    ) -> Attempt:
        """Begin an attempt of a waiting container on a worker; it waits no more."""
        container = self.containers[container_id]
        attempt = new_attempt(container, worker, now, revision=revision)
        self._dequeue(container)
        self.tally.release(container_id)
        self._opened(container, attempt)
        self.save(
            replace(
                container,
                state=ContainerState.LOCKED,
                attempts=(*container.attempts, attempt),
            ),
            attempt,
        )
        return attempt

    def running(self, attempt_id: str, now: float) -> None:
        """Note that an attempt runs; what is known already changes nothing."""
        found = self.of_attempt(attempt_id)
        if found is None:
            return
        container, attempt = found
        if attempt.started_at is not None and container.state is ContainerState.RUNNING:
            return
        since = self.waiting_since.pop(container)
        if since is not None:
            self.queue_to_start_s.observe(now - since)
        attempt = replace(attempt, started_at=attempt.started_at or now)
        self._limit_time(container, attempt)
        self.save(
            replace(
                container,
                state=ContainerState.RUNNING,
                started_at=first_start(container, now),
                attempts=(*container.attempts[:-1], attempt),
            ),
            attempt,
        )

    def image_known(self, notice: AttemptImageKnown, now: float) -> None:
        """Note what an instance tells of an attempt's image; what is known already changes nothing.

        The time that it takes to fetch it does not count against the time limit.
        """
        found = self.of_attempt(notice.attempt_id)
        if found is None:
            return
        container, before = found
        image, pulled_at = notice.image, before.pulled_at
        if image.pulling:
            attempt = replace(before, pulling_since=before.pulling_since or now)
        else:
            if before.is_pulling:
                pulled_at = now
            attempt = replace(
                before, pulled_at=pulled_at, image_digest=image.digest, warning=image.warning
            )
        if attempt == before:
            return
        self._limit_time(container, attempt)
        container = replace(container, attempts=(*container.attempts[:-1], attempt))
        self.containers[container.id] = container
        self.changes.append(SaveAttempt(attempt=attempt))
        # The digest alone is told with what comes next: it is news to nobody who watches.
        if attempt.is_pulling is not before.is_pulling or attempt.warning != before.warning:
            self.published.append(PublishContainer(container=container))

    def mark_stopping(self, container_id: str, outcome: AttemptOutcome, *, by: StopReason) -> str:
        """Note what the outcome of a container's open attempt will be; return the attempt's id.

        It is journalled, so that a restart judges the exit as this process would have.
        """
        container = self.containers[container_id]
        attempt = replace(container.attempts[-1], intended_outcome=outcome, stop_reason=by)
        self.time_limits.discard(attempt.id)
        attempts = (*container.attempts[:-1], attempt)
        self.containers[container_id] = replace(container, attempts=attempts)
        self.changes.append(SaveAttempt(attempt=attempt))
        return attempt.id

    def close(self, end: AttemptEnd, now: float) -> ClosedAttempt | None:
        """Put on record how an attempt ended; return that, None where it is not open (any more).

        What becomes of its container is to be decided at once: until then it neither waits nor has
        ended.
        """
        found = self.of_attempt(end.attempt_id)
        if found is None:
            return None
        container, attempt = found
        closed = close(container, end, now, cost_usd=self.cost_usd)
        del self.open_attempts[attempt.id]
        self.residents -= bool(container.pinned_to)
        self.time_limits.discard(attempt.id)
        self.supervisors_placed -= container.is_supervisor
        self.spend.closed(attempt.id)
        self.waiting_since.pop(container)
        attempt = closed.attempt
        if attempt.outcome is not None:
            self.outcomes[attempt.outcome.value] += 1
            self.ended_as[attempt.id] = attempt.outcome
        self.containers[container.id] = closed.container
        self.changes.append(SaveAttempt(attempt=attempt))
        if end.exit is not None:
            self.unreleased[attempt.id] = attempt
        return closed

    def requeue(self, container_id: str, now: float, *, until: float | None = None) -> None:
        """Let a container wait again whose attempt is over; None: it may be placed at once."""
        if until is not None:
            self.gates.until(container_id, until)
        waiting = replace(self.containers[container_id], state=ContainerState.QUEUED)
        self.save(waiting)
        self.wait(waiting, now)

    def finish(
        self,
        container: Container,
        state: ContainerState,
        reason: Reason | None,
        now: float,
        *,
        exit_code: int | None = None,
    ) -> None:
        """Bring a container to its final state and let go of it; it stays in the store.

        It ends no earlier than what is known of it, though a later process's clock was set back.
        """
        self._dequeue(container)
        self.gates.drop(container.id)
        self._given_secrets.discard(container.id)
        self.waiting_since.pop(container)
        self.save(
            replace(
                container,
                state=state,
                reason=reason,
                finished_at=max(now, latest(container)),
                exit_code=exit_code,
            )
        )
        ended = self.containers.pop(container.id)
        self.tally.end(ended, now)
        self.finished.append(ended)
        self.memory.remove(container.spec)


# ---- what must always hold of the table; tests look after every event ----------------------------


def check(table: ContainerTable) -> None:
    """Raise `BugError` when an invariant of the container table does not hold."""
    for container in table.containers.values():
        _check_container(table, container)
    for container_id in table.gates.ids():
        if container_id not in table.containers:
            raise BugError(f"{container_id} is held back and is not in memory")
    for container_id in sorted(table.waiting_since.ids() - table.containers.keys()):
        raise BugError(f"{container_id} waits for a start and is not in memory")
    _check_tally(table)
    table.spend.check(table.containers.values())
    for attempt_id, container_id in table.open_attempts.items():
        if container_id not in table.containers:
            raise BugError(f"{attempt_id} is open, its container is not in memory")
    placed = (table.containers[each] for each in table.open_attempts.values())
    if table.supervisors_placed != sum(each.is_supervisor for each in placed):
        raise BugError(f"{table.supervisors_placed} supervisors are not those that are placed")


def _check_tally(table: ContainerTable) -> None:
    """Check that what is counted is what there is."""
    there = table.containers.values()
    if table.tally.states != Counter((each.project, each.state) for each in there):
        raise BugError("the containers are not in the states in which they are counted")
    classes = [(table.queue.class_of(each.id), each.project) for each in there]
    queued = Counter((found.key, project) for found, project in classes if found is not None)
    if table.tally.queued != queued:
        raise BugError("the queue is not what is counted of it")
    held = {each for ids in table.tally.held.values() for each in ids}
    out = {each.id for each in there if not each.has_open_attempt and each.id not in table.queue}
    for container_id in sorted(held ^ out):
        raise BugError(f"{container_id} is counted as held back and is not, or the other way round")


def _check_container(table: ContainerTable, container: Container) -> None:
    """Check where one container waits, and that it has no claim while it is held back."""
    if container.state.final:
        raise BugError(f"{container.id} has ended and is still in memory")
    if container.has_open_attempt:
        should_wait = False
    elif container.priority == 0:
        should_wait = False
        if container.state is ContainerState.LOCKED:
            raise BugError(f"{container.id} is held back and keeps its claim")
    else:
        should_wait = container.id not in table.gates
    if should_wait != (container.id in table.queue):
        raise BugError(f"{container.id} waits and should not, or the other way round")
