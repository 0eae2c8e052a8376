"""The engine: events in, commands out; it decides everything and does nothing itself.

Deterministic: the same events at the same times give the same commands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    InstanceRecord,
    SchedulerSettings,
    StopCause,
    StopReason,
    WaitReason,
)
from longshore.dispatcher.domain.feasibility import fitting_types, has_room, need, within_price
from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    BudgetStopsChanged,
    CancelRequested,
    Command,
    Commit,
    CompletionsUnwatched,
    CompletionsWatched,
    Confirm,
    DeleteLaunch,
    Event,
    Following,
    InstanceKillRequested,
    JobCancelRequested,
    JobHoldRequested,
    JobLaunched,
    JobPriorityRequested,
    JobRevised,
    JobSubmitted,
    Overloaded,
    PricesChanged,
    PriorityRequested,
    Publication,
    PublishInstance,
    PublishStray,
    SaveInstance,
    SaveLaunch,
    SecretsChanged,
    StraysDecided,
    Submitted,
    Woken,
)
from longshore.dispatcher.domain.queries import Recovered
from longshore.dispatcher.domain.secrets import NO_SECRETS_KNOWN, KnownSecrets
from longshore.dispatcher.engine import recovery, requests
from longshore.dispatcher.engine.requests import UserRequests
from longshore.dispatcher.scheduler.batch.scheduling_pass import SchedulingPass
from longshore.dispatcher.scheduler.elastic.wiring import elastic_scheduler
from longshore.dispatcher.scheduler.placement import decisions
from longshore.dispatcher.scheduler.placement.fleet_sync import Reservations
from longshore.dispatcher.scheduler.placement.parts import PlacementParts
from longshore.dispatcher.scheduler.placement.preemptible import instead_of_scarce
from longshore.dispatcher.scheduler.placement.preemptible_market import PreemptibleMarket
from longshore.dispatcher.scheduler.placement.workload import NewInstances, WorkloadSchedulers
from longshore.dispatcher.scheduler.system.controller import SystemScheduler
from longshore.dispatcher.state import containers as table_check
from longshore.dispatcher.state.attempt_end import container_of
from longshore.dispatcher.state.containers import ContainerTable, logs_in_words
from longshore.dispatcher.state.cost_recorder import CostRecorder
from longshore.dispatcher.state.decisions import DecisionLog
from longshore.dispatcher.state.dependencies import Workflow
from longshore.dispatcher.state.instance_records import record_of
from longshore.dispatcher.state.queue import ClassKey, Queue
from longshore.dispatcher.state.restarts import is_lasting
from longshore.dispatcher.state.spend_limits import SpendLimits
from longshore.dispatcher.state.stray_news import stray_found, stray_gone
from longshore.drivers.billing import BillingRule
from longshore.drivers.interface import InstanceType
from longshore.pool import attempts, core, probing, reactor
from longshore.pool.core import PoolCore
from longshore.pool.messages import (
    AttemptImageSeen,
    BillsFailed,
    BillsTold,
    CreateFailed,
    Destroyed,
    DestroyFailed,
    FindFailed,
    ListingFailed,
    PoolEvent,
    ProbeFailed,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import PoolSettings, WorkerState
from longshore.pool.pool_events import (
    AttemptEnd,
    AttemptImageKnown,
    AttemptLogComplete,
    AttemptLogLost,
    AttemptRunning,
    InstanceBilled,
    LaunchEnded,
    LaunchMade,
    Notice,
    ResidentToldToEnd,
    RunnerOverloaded,
    StrayFound,
    StrayGone,
    WorkerChanged,
    WorkerGone,
)
from longshore.pool.port import PoolPort

NOTHING_TO_PLAN = (
    AttemptImageSeen,
    BillsFailed,
    BillsTold,
    Destroyed,
    DestroyFailed,
    FindFailed,
    ListingFailed,
    ProbeFailed,
    TagsFailed,
    TagsSet,
)
"""Events after which nobody can be placed who could not be before."""


class Engine:
    """The core of one dispatcher; called from one thread only."""

    def __init__(
        self,
        *,
        cluster: str,
        types: Mapping[str, InstanceType],
        pool_settings: PoolSettings,
        settings: SchedulerSettings,
        recovered: Recovered,
        new_token: Callable[[], str],
        new_secret: Callable[[], str],
        new_container: Callable[[], tuple[str, int]],
        dice: Callable[[], float],
        quota_groups: Mapping[str, str],
        store: str = "",
        store_since: float = -math.inf,
        store_accepted: bool = False,
        secrets: KnownSecrets = NO_SECRETS_KNOWN,
        billing: BillingRule | None = None,
    ) -> None:
        """Make the engine of a cluster from what a store knew, and which `secrets` can be had.

        `store` is its id, which it has had since `store_since`, in seconds since the epoch;
        `store_accepted` says that an operator has just put it in the place of another. `billing` is
        how the cloud bills, None where it does not tell.
        """
        self._store_since, self.decisions = store_since, DecisionLog()
        self.settings, self.new_container = settings, new_container
        self.pool = PoolCore(
            settings=pool_settings,
            types=types,
            cluster=cluster,
            new_token=new_token,
            new_secret=new_secret,
            dice=dice,
            quota_groups=quota_groups,
            store=store,
            spares_unknown=store_accepted,
            asks_bills=billing is not None,
        )
        self.types = self.pool.types
        self.records: dict[str, InstanceRecord] = {}
        self._port = port = PoolPort(self.pool)
        self.market = PreemptibleMarket(pool=port, settings=settings)
        account = SpendLimits(settings).account_of
        queue = Queue(self._fitting, account, self._allowed, self._is_lasting)
        self.table = ContainerTable(queue=queue, types=types, settings=settings, secrets=secrets)
        self.per_instance = SystemScheduler(
            pool=port,
            table=self.table,
            records=self.records,
            settings=settings,
            new_container=new_container,
        )
        self.new_instances = NewInstances(
            as_bought=self._as_bought, daemons_take=self.per_instance.daemon_overhead
        )
        self._reservations = Reservations(self.new_instances)
        parts = PlacementParts(port, self.table, settings, self.records, self._reservations)
        self._elastic = elastic_scheduler(parts, self.per_instance, self.new_instances)
        self.workloads = self._workloads()
        self.scheduling = SchedulingPass(parts, workloads=self.workloads, market=self.market)
        self.concurrency = self.scheduling.concurrency
        self.workflow = Workflow(self.table)
        self.users = UserRequests(port, self.table, self.workflow, self.workloads)
        self.costs = CostRecorder(self.pool, self.table, settings.placement, billing)
        self._instance_news: list[PublishInstance | PublishStray] = []
        self._confirms: list[Confirm] = []
        self._dirty = True
        self._restore(recovered)

    def _workloads(self) -> WorkloadSchedulers:
        return WorkloadSchedulers(
            jobs=self.table.jobs,
            settings=self.settings,
            per_instance=self.per_instance,
            elastic=self._elastic,
        )

    def _restore(self, recovered: Recovered) -> None:
        self.table.budget_stops = recovered.budget_stops
        recovery.restore(
            recovered,
            pool=self.pool,
            table=self.table,
            records=self.records,
            workflow=self.workflow,
            scheduling=self.scheduling,
        )
        self.costs.restore(recovered.bills, recovered.intervals, listed_ms=recovered.listed_ms)

    def eligible_types(self, container: Container) -> tuple[InstanceType, ...]:
        """Return the types on which batch work like this may run now, cheapest first."""
        return self.types_for(self.table.queue.key_of(container))

    def types_for(self, key: ClassKey) -> tuple[InstanceType, ...]:
        """Return the types on which a class of batch work may run now, cheapest first."""
        return self._allowed(key, self._fitting(key))

    def _fitting(self, key: ClassKey) -> tuple[InstanceType, ...]:
        return fitting_types(
            self.types.values(),
            key.resources,
            key.constraints,
            key.unnamed,
            lasting=key.lasting,
        )

    def _is_lasting(self, container: Container) -> bool:
        return is_lasting(container, self.settings)

    def _as_bought(self, type_: InstanceType) -> InstanceType:
        return self.market.priced(self.pool.as_found(type_))

    def _allowed(
        self, key: ClassKey, fitting: tuple[InstanceType, ...]
    ) -> tuple[InstanceType, ...]:
        as_new = self._reservations.allocatable_left

        def within(types: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
            return within_price(
                types,
                key.resources,
                key.unnamed,
                max_price_factor=self.settings.max_price_factor,
                as_new=as_new,
            )

        return instead_of_scarce(
            within(fitting),
            fitting,
            key.constraints,
            scarce=self.market.scarce,
            has_room=lambda t: has_room(as_new(t), need(t, key.resources, key.unnamed)),
            within=within,
            as_new=as_new,
        )

    # ---- the two doors ---------------------------------------------------------------------

    def begin(self, now: float) -> list[Command]:
        """Return the first commands: the listing without which nothing is concluded.

        What users asked for and an earlier process did not get done is taken up again.
        """
        reactor.begin(self.pool, now)
        self.table.begin(now)
        self.scheduling.history.began(self.scheduling.locked, now)
        self.users.begin(now)
        self._take_notices(now)
        return self._commands(now)

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take in one event and return what is to be done, in order."""
        match event:
            case Woken():
                self._dirty = reactor.on_wakeup(self.pool, now) or self._dirty
                self._take_notices(now)
                self._take_turns(now)
                self._plan_when_due(now)
            case Overloaded():
                self._note_overload(event.message, now)
            case (
                Submitted()
                | CancelRequested()
                | PriorityRequested()
                | JobSubmitted()
                | JobCancelRequested()
                | JobPriorityRequested()
                | JobHoldRequested()
                | JobRevised()
                | JobLaunched()
            ):
                self._dirty = True
                self.scheduling.history.asked(event, now)
                self.users.carry_out(event, now)
            case BehaviorRequested() | InstanceKillRequested() | StraysDecided():
                self._dirty = True
                self._instance_news += requests.carry_out(self.pool, event, now)
                self._confirm(event.asked)
            case SecretsChanged() | BudgetStopsChanged():
                self._dirty = True
                self._take_in_terms(event)
            case PricesChanged():
                self._dirty = True
                self._reprice(event)
            case CompletionsWatched():
                self.workflow.watch_completions(event.roots)
                self._confirm(event.asked)
            case CompletionsUnwatched():
                self.workflow.unwatch_completions(event.roots)
            case _:
                self._dirty = self._dirty or not isinstance(event, NOTHING_TO_PLAN)
                self._reacted(event, now)
        self._take_notices(now)
        return self._commands(now)

    def _reacted(self, event: PoolEvent, now: float) -> None:
        if isinstance(event, CreateFailed):
            self.scheduling.create_failed(event.token, str(event.error), now)
        reactor.on_event(self.pool, event, now)
        if isinstance(event, CreateFailed):
            self.decisions.held(self.pool.holds.active(now), now)

    def _take_in_terms(self, event: SecretsChanged | BudgetStopsChanged) -> None:
        """Hold back, and let go, who may begin by what has changed around them."""
        if isinstance(event, SecretsChanged):
            self.table.secrets_changed(event.known)
            return
        self.table.budgets_changed(event.stops)
        for job_id in self.table.jobs.job_ids():
            self.workloads.changed(job_id)

    def _reprice(self, event: PricesChanged) -> None:
        """Let all that is bought, limited and explained go by what types cost now.

        The next pass asks each class anew which types it may have (`Reservations.update`).
        """
        self.pool.reprice(event.usd_per_hour, event.in_zones)
        self.table.queue.refit()

    def _confirm(self, asked: int | None) -> None:
        if asked is not None:
            self._confirms.append(Confirm(asked=asked))

    def next_wakeup(self, now: float) -> float | None:
        """Return when `Woken` is to be handled next: at once for a pass; None for never."""
        next_pass = self.scheduling.next_pass(wanted=self._dirty)
        if next_pass is not None and next_pass <= now:
            return now
        dues = (
            next_pass,
            self.pool.timers.next_due(),
            self.table.gates.next_due(),
            self.table.time_limits.next_due(),
            self.concurrency.next_rise(),
            self._schedulers_due(now),
        )
        return min([due for due in dues if due is not None], default=None)

    def _schedulers_due(self, now: float) -> float | None:
        """Return when a workload scheduler wants a pass; the next one looks at what is overdue."""
        due = self.workloads.next_due()
        if due is None or due > now:
            return due
        return self.scheduling.next_pass(wanted=True)

    def why_waiting(self, container_id: str) -> WaitReason | None:
        """Return why a container waits, None when it does not wait or no pass has seen it."""
        container = self.table.containers.get(container_id)
        if container is not None and container.priority > 0 and not container.has_open_attempt:
            held = (
                self.workflow.reason(container)
                or self.workloads.reason(container)
                or self.table.gates.reason(container)
            )
            if held is not None:
                return held
        return self.scheduling.reason(container_id)

    def check(self) -> None:
        """Raise `BugError` when an invariant does not hold; tests call it after every event."""
        core.check(self.pool)
        table_check.check(self.table)
        self.scheduling.check()
        self._elastic.check()
        self.costs.check()

    def _plan_when_due(self, now: float) -> None:
        next_pass = self.scheduling.next_pass(wanted=self._dirty)
        if next_pass is not None and next_pass <= now:
            self._dirty = False
            self.scheduling.run(now)
            self._elastic.note_pass()

    def _take_turns(self, now: float) -> None:
        """Do what is due of containers, and let the limit of how many run rise.

        Some have run for as long as they may; others are to be restarted, or may begin.
        """
        self.users.end_over_time(now)
        running = self.table.placed
        due = self.workloads.next_due()
        self._dirty = self._dirty or (due is not None and due <= now)
        released = self.table.release_due(now)
        risen = self.concurrency.observe(running, now)
        self._dirty = self._dirty or released or risen

    def _note_overload(self, message: str, now: float) -> None:
        sunk = self.concurrency.overloaded(self.table.placed, now, message)
        self._dirty = self._dirty or sunk

    # ---- outboxes --------------------------------------------------------------------------

    def _commands(self, now: float) -> list[Command]:
        """Empty the outboxes: what follows a change waits for its commit."""
        self._dirty = self.workflow.propagate(now) or self._dirty
        self._elastic.share_cpus()
        self.pool.statistics.begun(self.pool.commands, now)
        self.scheduling.history.published(self.table.published, now)
        told: list[Publication] = [*self.table.published, *self._instance_news]
        self.decisions.take_in(self.pool.commands, told, now)
        then: list[Following] = [*self.pool.commands, *told, *self._confirms]
        changes = (*self.table.changes, *self.costs.record(now))
        self.pool.commands.clear()
        self.table.published.clear()
        self.table.changes.clear()
        self._instance_news.clear()
        self._confirms.clear()
        return [Commit(changes=changes, then=tuple(then))] if changes else list(then)

    def _take_notices(self, now: float) -> None:
        while self.pool.notices:
            notices = list(self.pool.notices)
            self.pool.notices.clear()
            for notice in notices:
                self._on_notice(notice, now)

    def _on_notice(self, notice: Notice, now: float) -> None:  # noqa: C901, PLR0912 - a table
        table = self.table
        match notice:
            case LaunchMade():
                table.changes.append(SaveLaunch(launch=notice.launch))
            case LaunchEnded():
                table.changes.append(DeleteLaunch(token=notice.token))
            case WorkerChanged():
                self._record_worker(notice, now)
            case WorkerGone():
                self._forget_instance(notice, now)
            case InstanceBilled():
                bill = self.costs.billed(notice.instance_id, notice.billed, final=notice.final)
                table.changes += bill
            case AttemptRunning():
                self._on_running(notice.attempt_id, now)
            case AttemptImageKnown():
                table.image_known(notice, now)
            case AttemptEnd():
                self._on_end(notice, now)
            case ResidentToldToEnd():
                self._on_dismissed(notice.attempt_id)
            case AttemptLogComplete():
                table.unreleased.log_complete(notice.attempt_id)
                attempts.release(self.pool, notice.attempt_id, now)
            case AttemptLogLost():
                self._lose_log(notice)
            case StrayFound():
                container_id = container_of(notice.attempt_id)
                table.hold_for_process(
                    container_id,
                    notice.attempt_id,
                    notice.worker_id,
                    forgotten_before=self._store_since if notice.kept_for else -math.inf,
                )
                self._instance_news.append(stray_found(notice))
            case StrayGone():
                table.process_gone(container_of(notice.attempt_id), notice.attempt_id, now)
                self._instance_news.append(stray_gone(notice))
            case RunnerOverloaded():
                self._note_overload(notice.message, now)
            case _:
                assert_never(notice)

    def _on_end(self, end: AttemptEnd, now: float) -> None:
        """Put the end of an attempt on record, then let its scheduler decide what follows."""
        closed = self.table.close(end, now)
        if closed is None:
            return
        if not closed.container.pinned_to:
            self.market.ran(closed.attempt, now)
        decisions.carry_out(self.workloads.decide(closed, now), self.table, self._port, now)

    def _on_dismissed(self, attempt_id: str) -> None:
        """Journal what a resident's end will mean whose instance is shut down: it did not fail."""
        found = self.table.of_attempt(attempt_id)
        if found is not None and found[1].intended_outcome is None:
            container, _ = found
            shut_down = StopReason(cause=StopCause.INSTANCE_SHUT_DOWN)
            self.table.mark_stopping(container.id, AttemptOutcome.CANCELLED, by=shut_down)

    def _on_running(self, attempt_id: str, now: float) -> None:
        self.table.running(attempt_id, now)
        found = self.table.of_attempt(attempt_id)
        if found is not None:
            self.workloads.began(found[0], now)

    # ---- what the store keeps of instances ----------------------------------------------------

    def _record_worker(self, notice: WorkerChanged, now: float) -> None:
        worker_id = notice.worker_id
        worker = self.pool.workers.get(worker_id)
        if worker is None:
            return
        if not probing.takes_work(self.pool, worker, now):
            self.scheduling.place_lost(worker_id, notice.reason, now)
        old = self.records.get(worker_id)
        record = record_of(worker, old)
        if record != old:
            self.records[worker_id] = record
            self.table.changes.append(SaveInstance(instance=record))
        going = notice.state == WorkerState.SHUTDOWN.value
        left = self.table.unreleased.written_on(worker_id) if going else []
        lost = f"; {logs_in_words(left)} goes with it" if left else ""
        self._instance_news.append(
            PublishInstance(
                worker_id=worker_id,
                state=notice.state,
                reason=f"{notice.reason}{lost}",
                warns=notice.warns or bool(lost),
            )
        )

    def _lose_log(self, notice: AttemptLogLost) -> None:
        """Wait no longer for a log that its instance no longer has, and say so if it wrote any."""
        attempt = self.table.unreleased.pop(notice.attempt_id, None)
        worker = self.pool.workers.get(notice.worker_id)
        if attempt is not None and attempt.written_bytes and worker is not None:
            lost = f"{logs_in_words([attempt])} is lost: the instance no longer has it"
            self._instance_news.append(
                PublishInstance(
                    worker_id=worker.id, state=worker.state.value, reason=lost, warns=True
                )
            )

    def _forget_instance(self, notice: WorkerGone, now: float) -> None:
        instance_id, reason = notice.worker_id, notice.reason
        self.table.changes += self.costs.gone(instance_id, seen_at=notice.seen_at, now=now)
        self.scheduling.place_lost(instance_id, reason, now)
        left = self.table.unreleased.written_on(instance_id)
        self.table.unreleased.drop_instance(instance_id)
        record = self.records.pop(instance_id, None)
        if record is not None:
            told = f"{reason}; {logs_in_words(left)} is lost with it" if left else reason
            gone_at = max(now, record.created_at)
            gone = replace(record, gone_at=gone_at, gone_reason=told)
            self.table.changes.append(SaveInstance(instance=gone))
            self._instance_news.append(
                PublishInstance(
                    worker_id=instance_id, state="gone", reason=told, warns=bool(left), gone=gone
                )
            )
