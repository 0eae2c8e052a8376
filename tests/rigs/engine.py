"""An engine with a made-up cloud around it: literal times, no event loop, every command kept.

`Engine.check()` runs after every event.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from longshore.dispatcher.domain.budgets import BudgetStop
from longshore.dispatcher.domain.containers import Container, SchedulerSettings
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.messages import (
    CancelRequested,
    Command,
    Confirm,
    Event,
    Following,
    JobCancelRequested,
    JobHoldRequested,
    JobSubmitted,
    PriorityRequested,
    Publication,
    Submitted,
    Woken,
)
from longshore.dispatcher.domain.queries import Recovered
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.fork import EngineFork
from longshore.dispatcher.engine.outbox import Outbox, Write
from longshore.dispatcher.engine.view import EngineView
from longshore.drivers.interface import InstanceType
from longshore.pool.messages import (
    AttemptExited,
    CreateInstance,
    ListInstances,
    LogComplete,
    PoolCommand,
    StartAttempt,
)
from longshore.pool.model import (
    AttemptExit,
    AttemptReport,
    ExitKind,
    Fault,
    PoolSettings,
    Worker,
)
from tests.job_samples import ended_nodes
from tests.rigs.cloud import CLUSTER, MadeUpCloud
from tests.rigs.store import RigStore
from tests.samples import made_container, make_type

CommandKind = TypeVar("CommandKind", bound=PoolCommand)


class Rig(MadeUpCloud, RigStore):
    """One engine, the cloud it sees and the store it writes."""

    def __init__(
        self,
        *types: InstanceType,
        pool: PoolSettings | None = None,
        settings: SchedulerSettings | None = None,
        recovered: Recovered | None = None,
        listed: bool = True,
        quota_groups: Mapping[str, str] | None = None,
        store: str = "",
        store_since: float = -math.inf,
    ) -> None:
        MadeUpCloud.__init__(self)
        RigStore.__init__(self)
        self.store, self.store_since = store, store_since
        self.store_accepted = False
        self.budget_stops: tuple[BudgetStop, ...] = ()
        self.quota_groups = dict(quota_groups or {})
        self.types = {type_.name: type_ for type_ in types or (make_type(1),)}
        self.pool_settings = pool or PoolSettings()
        self.settings = settings or SchedulerSettings()
        self.now = 1000.0
        self.published: list[Publication] = []
        self.confirmed: list[int] = []
        self._numbers = itertools.count(1)
        self._container_numbers = itertools.count(1)
        self._boot(recovered or Recovered(), listed=listed)

    def _boot(self, recovered: Recovered, *, listed: bool) -> None:
        self.engine = Engine(
            cluster=CLUSTER,
            types=self.types,
            pool_settings=self.pool_settings,
            settings=self.settings,
            recovered=replace(recovered, budget_stops=self.budget_stops),
            new_token=lambda: f"token-{next(self._numbers)}",
            new_secret=lambda: "secret",
            new_container=lambda: made_container(next(self._container_numbers)),
            dice=lambda: 0.5,
            quota_groups=self.quota_groups,
            store=self.store,
            store_since=self.store_since,
            store_accepted=self.store_accepted,
        )
        self.outbox = Outbox()
        self.uncommitted: list[Write] = []
        self.store_lags = False
        if not listed:
            self.silent.add(ListInstances)
        self._carry_out(self.engine.begin(self.now))
        self.settle()

    @property
    def view(self) -> EngineView:
        """Return what others may know of the engine."""
        return EngineView(self.engine)

    def fork(self) -> EngineFork:
        """Return a copy of the engine to try something on."""
        return EngineFork.of(self.engine)

    def crash(self, *, listed: bool = True) -> None:
        """Lose all memory and start again from what was committed; the cloud goes on."""
        self.sent.clear()
        self._boot(self.recovered(), listed=listed)

    # ---- driving ---------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """Give one event to the engine, carry out what it asks for, then let it settle."""
        self.give(event)
        self.settle()

    def settle(self) -> None:
        """Wake the engine as long as it wants to be woken at this moment."""
        for _ in range(10_000):
            due = self.engine.next_wakeup(self.now)
            if due is None or due > self.now:
                return
            self.give(Woken())
        raise AssertionError("the engine never settles")

    def advance(self, seconds: float) -> None:
        """Let time pass, waking the engine at each of its deadlines."""
        end = self.now + seconds
        while True:
            dues = (self.engine.next_wakeup(self.now), self.outbox.next_stall_event())
            due = min((due for due in dues if due is not None), default=None)
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.tell_news()
            self.settle()
        self.now = end
        self.settle()

    def submit(self, *containers: Container) -> None:
        """Commit containers and tell the engine."""
        for container in containers:
            self.containers[container.id] = container
        ended = ended_nodes(self.jobs, self.containers.values())
        self.send(Submitted(containers=containers, ended=ended))

    def submit_job(self, job: Job, containers: tuple[Container, ...]) -> None:
        """Commit a job and tell the engine."""
        before = ended_nodes(self.jobs, self.containers.values())
        self.jobs[job.id] = job
        for container in containers:
            self.containers[container.id] = container
        self.send(JobSubmitted(job=job, containers=containers, ended=before))

    def cancel_job(self, job_id: str) -> None:
        """Commit a job's cancellation and tell the engine."""
        self.jobs[job_id] = replace(self.jobs[job_id], cancel_requested=True)
        for container in [c for c in self.containers.values() if c.job_id == job_id]:
            self.containers[container.id] = replace(container, cancel_requested=True)
        self.send(JobCancelRequested(job_id=job_id))

    def hold_job(self, job_id: str, *, held: bool) -> None:
        """Commit whether a job is held and tell the engine."""
        self.jobs[job_id] = replace(self.jobs[job_id], held=held)
        self.send(JobHoldRequested(job_id=job_id, held=held))

    def cancel(self, container_id: str) -> None:
        """Commit a cancellation and tell the engine."""
        stored = self.containers[container_id]
        self.containers[container_id] = replace(stored, cancel_requested=True)
        self.send(CancelRequested(container_id=container_id))

    def set_priority(self, container_id: str, priority: int) -> None:
        """Commit a priority and tell the engine."""
        stored = self.containers[container_id]
        self.containers[container_id] = replace(stored, priority=priority)
        self.send(PriorityRequested(container_id=container_id, priority=priority))

    def exit(
        self,
        attempt_id: str,
        code: int = 0,
        kind: ExitKind = ExitKind.EXITED,
        fault: Fault = Fault.REQUEST,
    ) -> None:
        """Let an attempt end on its instance, its exit be pushed and its log be complete."""
        worker_id = self.attempts[attempt_id].instance_id
        how = AttemptExit(kind=kind, code=code, fault=fault)
        report = AttemptReport(attempt_id=attempt_id, container_id="", exit=how)
        self.on_instance[worker_id][attempt_id] = report
        self.send(AttemptExited(worker_id=worker_id, attempt_id=attempt_id, exit=how))
        self.send(LogComplete(worker_id=worker_id, attempt_id=attempt_id))

    # ---- looking ---------------------------------------------------------------------------

    def kinds(self) -> list[str]:
        """Return the names of the pool commands sent so far."""
        return [type(command).__name__ for command in self.sent]

    def states(self) -> dict[str, str]:
        """Return the committed state of each container."""
        return {id_: c.state.value for id_, c in sorted(self.containers.items())}

    def started_on(self) -> dict[str, str]:
        """Return where each container's attempts were started, the latest one's instance."""
        return {c.order.container_id: c.worker_id for c in self.sent if isinstance(c, StartAttempt)}

    def created_types(self) -> list[str]:
        """Return the types of the instances that were asked for, in order."""
        return [c.launch.type_name for c in self.sent if isinstance(c, CreateInstance)]

    def worker_states(self) -> dict[str, str]:
        """Return the state of each worker."""
        return {id_: w.state.value for id_, w in sorted(self.engine.pool.workers.items())}

    # ---- the world -------------------------------------------------------------------------

    @property
    def workers(self) -> Mapping[str, Worker]:
        return self.engine.pool.workers

    def give(self, event: Event) -> None:
        """Give one event to the engine and carry out what it asks for."""
        commands = self.engine.handle(event, self.now)
        self.engine.check()
        self._carry_out(commands)

    def tell_news(self) -> None:
        """Let the engine know whether its commands wait for the store."""
        news = self.outbox.stall_event(self.now)
        if news is not None:
            self.give(news)

    def _carry_out(self, commands: list[Command]) -> None:
        writes, ready = self.outbox.put(commands, self.now)
        self.uncommitted += writes
        self._begin(ready)
        if not self.store_lags:
            self.commit()

    def commit(self) -> None:
        """Let the store catch up with everything that is pending."""
        while self.uncommitted:
            write = self.uncommitted.pop(0)
            for change in write.changes:
                self.take_in(change)
            self._begin(self.outbox.committed(write.ticket))
        self.tell_news()

    def _begin(self, commands: list[Following]) -> None:
        for command in commands:
            if isinstance(command, Confirm):
                self.confirmed.append(command.asked)
                continue
            if isinstance(command, Publication):
                self.published.append(command)
                continue
            self.carry_out(command)


def last_commands(rig: MadeUpCloud, kind: type[CommandKind]) -> list[CommandKind]:
    """Return the commands of one kind, oldest first."""
    return [command for command in rig.sent if isinstance(command, kind)]
