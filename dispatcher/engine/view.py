"""What those outside of it may know of an engine: its memory as it is now, to be read only.

The walls are here: what explains, measures, publishes and admits reads an `EngineView`, and changes
something only by events. So whatever the engine consists of can change its shape, and no look at it
can change a decision: a test calls all of this on engines of which a digest must stay the same.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal

from longshore.dispatcher.domain.budgets import BudgetStop
from longshore.dispatcher.domain.containers import (
    Attempt,
    Container,
    ContainerState,
    InstanceRecord,
    Reason,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import Job, JobState, JobType
from longshore.dispatcher.domain.ledger import InstanceBill, Interval
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot
from longshore.dispatcher.state.dependencies import Chain, blocking_chain
from longshore.dispatcher.state.history import Decision, DecisionKind, HistoryEvent
from longshore.dispatcher.state.queue import ClassKey, Order
from longshore.dispatcher.state.scheduling_gates import Gate
from longshore.dispatcher.state.spend_limits import SpendSubject
from longshore.dispatcher.state.tally import HeldBy
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.histogram import Histogram
from longshore.pool.view import PoolView


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A container's place among all that wait, from 1 on.

    Of those before it `stuck` can never start while the configuration is what it is. `alike` wait
    for just the same, itself among them.
    """

    number: int
    of: int
    alike: int
    stuck: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """How containers wait and how their attempts end, in numbers."""

    #: Since when the one has waited that has done so for longest, None where nobody waits.
    waiting_since: float | None
    #: How many are next in line: locked without a place.
    next_in_line: int
    #: How many are held back by each of the gates; one may be by several.
    held_back: Mapping[Gate, int]
    #: How many wait for a time, and for the process of an earlier attempt.
    held_for_time: int
    held_by_processes: int
    #: From when they were queued until they ran, in seconds.
    queue_to_start_s: Histogram
    #: How many attempts have ended, by outcome.
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassStats:
    """What passes came to since the start; `at_quota` is since the latest."""

    passes: int
    failures: int
    at_quota: bool
    #: How many containers run or have a place, while a quota lets no more be created, else None.
    limit_by_quota: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What is spent an hour of what may be; `subject` is who, None for the cluster.

    `limit_usd_per_hour` is None for the cluster where only projects or users have limits.
    """

    subject: SpendSubject | None
    used_usd_per_hour: Decimal
    limit_usd_per_hour: Decimal | None


class EngineView:
    """Reads one engine, on its thread; nothing in here changes it.

    What is returned is of this moment. Mappings are the engine's own where it does not say that
    they are copies: they are to be read at once, and not kept. Times are in seconds since the
    epoch.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.pool = PoolView(engine.pool)

    # ---- containers --------------------------------------------------------------------------

    @property
    def containers(self) -> Mapping[str, Container]:
        """Return the containers that have not ended, by id."""
        return self._engine.table.containers

    def container(self, container_id: str) -> Container | None:
        """Return a container that has not ended, None for all others."""
        return self._engine.table.containers.get(container_id)

    def of_attempt(self, attempt_id: str) -> tuple[Container, Attempt] | None:
        """Return an open attempt with its container, None for all others."""
        return self._engine.table.of_attempt(attempt_id)

    @property
    def number_of_open_attempts(self) -> int:
        """Return how many attempts are open."""
        return len(self._engine.table.open_attempts)

    def awaits_log(self, attempt_id: str) -> bool:
        """Return whether more of the log of an attempt that has ended is expected."""
        return attempt_id in self._engine.table.unreleased

    @property
    def memory_bytes(self) -> int:
        """Return about how much memory all containers and templates of jobs take."""
        return self._engine.table.memory.total_bytes + self._engine.table.jobs.templates_bytes

    def history(
        self, container: Container, key: ClassKey | None, now: float, held: WaitReason | None
    ) -> list[HistoryEvent]:
        """Return what was decided of a container, a copy; see `History.of`."""
        history, began_at = self._engine.scheduling.history, self.pool.began_at
        return history.of(container, key, began_at=began_at, now=now, held=held)

    def decisions(
        self, *, kinds: frozenset[DecisionKind] | None, before: int | None, limit: int
    ) -> list[Decision]:
        """Return the latest decisions, the newest first; see `DecisionLog.latest`."""
        return self._engine.decisions.latest(kinds=kinds, before=before, limit=limit)

    @property
    def decided_since(self) -> float | None:
        """Return since when decisions are kept, None before the engine's first turn."""
        return self._engine.decisions.since

    # ---- why they wait -----------------------------------------------------------------------

    def wait_reason(self, container_id: str) -> WaitReason | None:
        """Return why a container waits, None when it does not wait or no pass has seen it."""
        return self._engine.why_waiting(container_id)

    def without_key(self) -> list[str]:
        """Return the ids of those that wait for the key to a secret, sorted, as a copy."""
        return self._engine.table.without_key()

    def held_reason(self, container: Container) -> WaitReason | None:
        """Return what a container waits for beside room, None for nothing."""
        return self._engine.workflow.reason(container)

    def class_reason(self, key: ClassKey) -> WaitReason | None:
        """Return why those of a class wait that have no place, by the last pass."""
        return self._engine.scheduling.waiting.get(key)

    def blocking_chain(self, container_id: str) -> Chain:
        """Return who comes first of those that a container waits for."""
        return blocking_chain(
            container_id, table=self._engine.table, workflow=self._engine.workflow
        )

    def gates(self, container_id: str) -> Gate:
        """Return what keeps a container out of the queue."""
        return self._engine.table.gates.blocks(container_id)

    def is_gated(self, container_id: str) -> bool:
        """Return whether a container waits outside of the queue, for whatever."""
        return container_id in self._engine.table.gates

    def released_at(self, container_id: str) -> float | None:
        """Return when a container comes to the queue, None where no time is set."""
        return self._engine.table.gates.due(container_id)

    @property
    def budget_stops(self) -> tuple[BudgetStop, ...]:
        """Return the budgets that let nothing new begin."""
        return self._engine.table.budget_stops

    # ---- the queue ---------------------------------------------------------------------------

    @property
    def queue_length(self) -> int:
        """Return how many containers wait in the queue."""
        return len(self._engine.table.queue)

    def queue_after(self, entry: tuple[Order, str] | None, most: int) -> list[tuple[Order, str]]:
        """Return at most so many that wait in the queue and come after one, the next first.

        An entry is an order and an id, which need not wait any more; None is before all.
        """
        return self._engine.table.queue.following(entry, most)

    def position(self, container_id: str) -> Position | None:
        """Return where a container is in the queue, None where it does not wait there."""
        queue, waiting = self._engine.table.queue, self._engine.scheduling.waiting
        request_class = queue.class_of(container_id)
        if request_class is None:
            return None
        never = (key for key in waiting if waiting[key].is_final)
        return Position(
            number=queue.ahead_of(container_id) + 1,
            of=len(queue),
            alike=len(request_class),
            stuck=queue.ahead_among(container_id, never),
        )

    def place_in_queue(self, container_id: str) -> int:
        """Return a container's place in the queue, from 1 on; 0 where it does not wait there."""
        queue = self._engine.table.queue
        return queue.ahead_of(container_id) + 1 if container_id in queue else 0

    def key_of(self, container: Container) -> ClassKey:
        """Return the class in which a container waits, or would."""
        return self._engine.table.queue.key_of(container)

    def kinds_with(self, keys: AbstractSet[ClassKey]) -> int:
        """Return how many kinds of requests would wait if containers of these did, too."""
        return self._engine.table.queue.classes_with(keys)

    def queue_stats(self) -> QueueStats:
        """Return how containers wait, in numbers."""
        table = self._engine.table
        blocks = Counter(table.gates.all_blocks())
        return QueueStats(
            waiting_since=table.waiting_since.earliest(None),
            next_in_line=len(self._engine.scheduling.next_in_line),
            held_back={
                gate: sum(number for each, number in blocks.items() if gate in each)
                for gate in Gate
            },
            held_for_time=len(table.gates.timed()),
            held_by_processes=table.gates.by_processes,
            queue_to_start_s=table.queue_to_start_s,
            outcomes=table.outcomes,
        )

    def waiting_since(self, projects: Collection[str] | None) -> float | None:
        """Return since when one of some projects has waited for longest, None where nobody does.

        `projects` None are all.
        """
        return self._engine.table.waiting_since.earliest(projects)

    def state_counts(self) -> Mapping[tuple[str, ContainerState], int]:
        """Return how many containers have not ended, by project and state."""
        return self._engine.table.tally.states

    def ended_counts(self, now: float) -> Mapping[tuple[str, ContainerState], int]:
        """Return how many have ended in the last day, by project and state, since the start."""
        return self._engine.table.tally.ended(now)

    def class_counts(self) -> Mapping[tuple[ClassKey, str], int]:
        """Return how many containers are in the queue, by class and project."""
        return self._engine.table.tally.queued

    def held_back(self) -> Mapping[tuple[str, HeldBy], Collection[str]]:
        """Return who is kept out of the queue, by project and what holds them first."""
        return self._engine.table.tally.held

    def first_of_class(self, key: ClassKey, most: int) -> Sequence[str]:
        """Return the ids of the first that wait in a class, at most so many."""
        found = self._engine.table.queue.class_with(key)
        return [] if found is None else found.first(most)

    def waiting_with_place(self) -> Sequence[str]:
        """Return the ids of those in the queue that have a place on what is not ready, sorted."""
        scheduling, queue = self._engine.scheduling, self._engine.table.queue
        return sorted(each for each in scheduling.locked - scheduling.next_in_line if each in queue)

    def number_without_place(self, is_counted: Callable[[WaitReason], bool]) -> int:
        """Return how many containers without a place wait for such a reason, by the last pass.

        Whole classes are counted, so that it costs no more when the queue is long. Who is locked
        and has no place, as the next in line, waits as the others do.
        """
        queue, scheduling = self._engine.table.queue, self._engine.scheduling
        number = 0
        over = set()
        for request_class in queue.classes():
            reason = scheduling.waiting.get(request_class.key)
            if reason is not None and is_counted(reason):
                over.add(request_class.key)
                number += len(request_class)
        for container_id in scheduling.locked - scheduling.next_in_line:
            request_class_of = queue.class_of(container_id)
            if request_class_of is not None and request_class_of.key in over:
                number -= 1
        return number

    # ---- jobs --------------------------------------------------------------------------------

    def job(self, job_id: str) -> Job | None:
        """Return a job that has not ended, with today's counts; None for all others."""
        return self._engine.table.jobs.job(job_id)

    def job_ids(self) -> Sequence[str]:
        """Return the ids of the jobs that have not ended."""
        return self._engine.table.jobs.job_ids()

    def job_type(self, job_id: str) -> JobType | None:
        """Return the type of a job that has not ended, None for all others."""
        return self._engine.table.jobs.type_of(job_id)

    def runs_of(self, parent: str) -> Sequence[str]:
        """Return the ids of the runs of a periodic or parameterised job that have not ended."""
        return self._engine.table.jobs.runs_of(parent)

    def containers_of(self, job_id: str) -> Sequence[str]:
        """Return the ids of the containers of a job that have not ended."""
        return self._engine.table.jobs.containers_of(job_id)

    def job_states(self) -> Mapping[str, int]:
        """Return how many jobs there are by state, those that are held as "held"."""
        return self._engine.table.jobs.states()

    def jobs_ended(self) -> Mapping[JobState, int]:
        """Return how many jobs have ended since the start, by state."""
        return self._engine.table.jobs.ended

    @property
    def lasting_jobs(self) -> int:
        """Return how many jobs do not end by themselves."""
        return self._engine.table.jobs.lasting()

    @property
    def per_instance_jobs(self) -> int:
        """Return how many system and sysbatch jobs there are."""
        return self._engine.table.jobs.per_instance()

    @property
    def elastic_containers(self) -> int:
        """Return how many containers elastic jobs have."""
        return self._engine.table.jobs.elastic_containers()

    def why_nowhere(self, job: Job, now: float) -> WaitReason | None:
        """Return why no instance takes anything of a per-instance job, None for all else."""
        return self._engine.per_instance.why_nowhere(job, now)

    def job_trouble(self, job: Job, now: float) -> Reason | None:
        """Return what is wrong with a per-instance job that goes on, None for all else."""
        return self._engine.per_instance.trouble(job, now)

    def job_troubles(self, now: float) -> Iterator[Reason]:
        """Yield what is wrong with per-instance jobs that go on, but for those that are held."""
        registry = self._engine.table.jobs
        for job_id in registry.job_ids():
            type_ = registry.type_of(job_id)
            if type_ is None or not type_.is_per_instance or registry.is_held(job_id):
                continue
            job = registry.job(job_id)
            trouble = self.job_trouble(job, now) if job is not None else None
            if trouble is not None:
                yield trouble

    # ---- instances, and room on them ---------------------------------------------------------

    def instances(self) -> Mapping[str, InstanceRecord]:
        """Return what the store knows of the instances that there are, by id."""
        return self._engine.records

    def bill_of(self, instance_id: str) -> InstanceBill | None:
        """Return what the ledger keeps of an instance, or a launch in doubt, to reckon its bill by.

        None where it keeps nothing (any more). What an hour costs now, a `PriceBook` tells of it.
        """
        return self._engine.costs.bill_of(instance_id)

    def running_on(self, attempt_ids: Iterable[str]) -> Sequence[str]:
        """Return the containers that some of an instance's attempts are of, sorted."""
        known = self._engine.table.open_attempts
        return sorted(known[each] for each in attempt_ids if each in known)

    def on_the_meter(self) -> Sequence[tuple[InstanceBill, Interval, Sequence[Interval]]]:
        """Return the bill of each instance that is there, with what it is, and its attempts."""
        return self._engine.costs.going_on()

    def types(self) -> Mapping[str, InstanceType]:
        """Return the configured types, by name."""
        return self._engine.types

    def zones_in_use(self) -> tuple[str, ...]:
        """Return the zones in which there are instances, sorted, as far as the cloud tells them."""
        found = {worker.cloud.billed.zone for worker in self._engine.pool.workers.values()}
        return tuple(sorted(found - {""}))

    def eligible_types(self, container: Container) -> Sequence[InstanceType]:
        """Return the types on which batch work like this may run now, cheapest first."""
        return self._engine.eligible_types(container)

    def allocatable_left(self, type_: InstanceType) -> InstanceType:
        """Return a type as batch work finds a new instance of it, as of the latest pass."""
        return self._engine.scheduling.allocatable_left(type_)

    def types_given_up(self, key: ClassKey) -> frozenset[str]:
        """Return the preemptible types that a class does without, since they cannot be had."""
        scarce, allowed = self._engine.market.scarce, self._engine.types_for(key)
        if any(type_.preemptible and type_.name not in scarce.tried for type_ in allowed):
            return frozenset()
        return scarce.held if allowed else frozenset()

    def claimed_slot(self, container_id: str) -> Slot | None:
        """Return where a waiting container has a claim, None when it has none."""
        return self._engine.scheduling.claimed_slot(container_id)

    def place_of(self, container: Container) -> str:
        """Return the slot on which a workload scheduler keeps room for one, "" for none."""
        return self._engine.workloads.place_of(container)

    def reservations(self) -> Mapping[str, Resources]:
        """Return the room that workload schedulers keep, by slot; a copy."""
        return self._engine.workloads.reservations()

    def daemon_reservations(self) -> Mapping[str, Resources]:
        """Return the room that is kept for system and sysbatch jobs, by instance."""
        return self._engine.per_instance.reservations

    # ---- limits and settings -----------------------------------------------------------------

    @property
    def rules(self) -> PackingPolicy:
        """Return how instances are filled."""
        return self._engine.scheduling.rules

    @property
    def max_instances(self) -> int:
        """Return how many instances there may be."""
        return self._engine.settings.max_instances

    @property
    def max_price_factor(self) -> float:
        """Return how many times the cheapest price that would do one may cost."""
        return self._engine.settings.max_price_factor

    def limit_of_containers(self, now: float) -> int | None:
        """Return how many containers may run or have a place, None for any number."""
        # Asked, the engine's own takes in what has passed: a copy is.
        return copy.copy(self._engine.concurrency).limit(now)

    def limit_of_supervisors(self, limit: int | None) -> int | None:
        """Return how many of `limit` containers may be supervisors, None for any number."""
        return self._engine.concurrency.supervisors(limit)

    @property
    def supervisors_placed(self) -> int:
        """Return how many supervisors have an open attempt."""
        return self._engine.table.supervisors_placed

    def spending(self) -> Spending | None:
        """Return what all instances cost, None without any limit of spending."""
        spend = self._engine.scheduling.spend
        if spend is None:
            return None
        limit = spend.limits.cluster
        return Spending(subject=None, used_usd_per_hour=spend.total, limit_usd_per_hour=limit)

    def spending_of(self, container: Container) -> Sequence[Spending]:
        """Return what a container's project and user spend, where there is a limit of it."""
        spend = self._engine.scheduling.spend
        if spend is None:
            return []
        table, fleet = self._engine.table, self._engine.scheduling.fleet_sync.fleet
        budget = spend.budget(table.queue.classes(), fleet)
        found = []
        for kind, name in (("project", container.project), ("user", container.user)):
            subject = SpendSubject(kind, name)
            limit = spend.limits.of(subject)
            if limit is not None:
                used = budget.spent(subject)
                found.append(
                    Spending(subject=subject, used_usd_per_hour=used, limit_usd_per_hour=limit)
                )
        return found

    def all_spending(self) -> Sequence[Spending]:
        """Return what the cluster spends, and each project and user that does and has a limit."""
        total, spend = self.spending(), self._engine.scheduling.spend
        if total is None or spend is None:
            return []
        table, fleet = self._engine.table, self._engine.scheduling.fleet_sync.fleet
        budget = spend.budget(table.queue.classes(), fleet)
        return [
            total,
            *(
                Spending(
                    subject=subject,
                    used_usd_per_hour=budget.spent(subject),
                    limit_usd_per_hour=spend.limits.of(subject),
                )
                for subject in spend.subjects()
            ),
        ]

    def pass_stats(self) -> PassStats:
        """Return what passes came to."""
        scheduling = self._engine.scheduling
        return PassStats(
            passes=scheduling.passes,
            failures=scheduling.failures,
            at_quota=scheduling.at_quota,
            limit_by_quota=scheduling.concurrency_limit(),
        )

    def preemptible_waste(self) -> Mapping[str, Decimal]:
        """Return which share of the recent use of each preemptible type was lost; a copy."""
        return self._engine.market.shares
