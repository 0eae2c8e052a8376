"""Users and admins in virtual time: what they ask of the dispatcher, while it is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    Constraints,
    Container,
    ContainerSpec,
    ContainerState,
    Preemptible,
    Retries,
)
from longshore.dispatcher.domain.messages import (
    CancelRequested,
    Event,
    InsertContainers,
    PriorityRequested,
    RequestCancel,
    RequestPriority,
    Submitted,
)
from longshore.pool.model import BehaviorNote, IdleBehavior, WorkerState
from tests.samples import make_container
from tests.sim.conduct import Conduct
from tests.sim.elastic_users import ElasticUsers
from tests.sim.faults import Demand
from tests.sim.job_users import JobUsers
from tests.sim.per_instance_users import PerInstanceUsers
from tests.sim.plan_users import PlanUsers
from tests.sim.process import DispatcherProcess
from tests.sim.store import VirtualStore
from tests.sim.timeline import Dice, Timeline
from tests.sim.truth import Truth

HOLD_S = (5.0, 120.0)
"""For how long an admin holds an instance who says until when."""

FINE_AT_LAST = 0.2
"""The share of tries that go well of a container that fails as a rule."""

MakeContainer = Callable[[int, Dice], Container]


def any_container(number: int, dice: Dice) -> Container:
    """Return a container of any size and priority, for some of any market."""
    preemptible = Preemptible.ALLOWED if dice.falls(0.7) else Preemptible.FORBIDDEN
    return make_container(
        number,
        cpus=dice.whole(0, 3) + dice.whole(0, 1) * 0.5 + 0.5,
        priority=dice.whole(0, 4) * 100,
        constraints=Constraints(preemptible=preemptible),
        retry_lost=dice.falls(0.8),
    )


def asked_for(spec: ContainerSpec, demand: Demand, dice: Dice) -> ContainerSpec:
    """Return what a container asks for, with the rarer wishes of some of them."""
    if dice.falls(demand.cpuless):
        spec = replace(spec, resources=replace(spec.resources, cpu_millis=0))
    if dice.falls(demand.unnamed):
        spec = replace(spec, unnamed=("cpus", "memory") if dice.falls(0.5) else ("memory",))
    if dice.falls(demand.retrying):
        spec = replace(spec, retries=_any_retries(dice))
    return replace(spec, supervisor=dice.falls(demand.supervising))


def _any_retries(dice: Dice) -> Retries:
    codes = (("failed",), ("exit_code",), ("start_refused",), ("exit_code", "start_refused"))
    return Retries(
        most=dice.whole(1, 4),
        on=codes[dice.whole(0, len(codes) - 1)],
        exit_codes=(1, 2) if dice.falls(0.3) else (),
        delay_s=dice.between(1, 60),
    )


class Users:
    """Submits, cancels, changes priorities; holds, drains and kills instances."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        seed: int,
        demand: Demand,
        store: VirtualStore,
        truth: Truth,
        conduct: Conduct,
        process: Callable[[], DispatcherProcess | None],
        epoch_now: Callable[[], float],
        make: MakeContainer,
        dies_now: Callable[[], bool],
        outside: Callable[[], object],
    ) -> None:
        self._timeline = timeline
        self._dice = Dice(seed, "users")
        self._asking = Dice(seed, "asking")
        self._images = Dice(seed, "images")
        self._ends = Dice(seed, "ends of holds")
        self._demand = demand
        self._store = store
        self._truth = truth
        self._conduct = conduct
        self._process = process
        self._epoch_now = epoch_now
        self._make = make
        self._dies_now = dies_now
        self._plans: dict[str, tuple[float, int]] = {}
        self.submitted = 0
        self.jobs = JobUsers(
            timeline=timeline,
            dice=Dice(seed, "jobs"),
            demand=demand,
            store=store,
            process=process,
            epoch_now=epoch_now,
            new=self._new,
            post=self._post,
            acknowledged=truth.acknowledged,
        )
        self._per_instance = PerInstanceUsers(
            timeline=timeline,
            seed=seed,
            demand=demand,
            store=store,
            process=process,
            post=self._post,
        )
        self._elastic = ElasticUsers(
            timeline=timeline,
            dice=Dice(seed, "elastic jobs"),
            demand=demand,
            store=store,
            process=process,
            new=self._new,
            post=self._post,
            acknowledged=truth.acknowledged,
        )

        self._planning = PlanUsers(
            timeline=timeline,
            dice=Dice(seed, "plans"),
            demand=demand,
            store=store,
            process=process,
            outside=outside,
        )

    def is_amiss(self, attempt_id: str) -> bool:
        """Return whether every instance refuses to start an attempt, for a fault of its own."""
        attempt = self._store.attempts.get(attempt_id)
        pinned = attempt is not None and self._store.containers[attempt.container_id].pinned_to
        return bool(pinned) and self._per_instance.is_amiss(attempt_id)

    def plan_of(self, container_id: str) -> tuple[float, int]:
        """Return how long a container runs, and its exit code; it may be another the next time."""
        if self._store.containers[container_id].pinned_to:
            return self._per_instance.plan_of(container_id)
        if self._truth.jobs.elastic.job_of(self._store.containers[container_id]) is not None:
            return self._elastic.any_plan()
        plan = self._plans.get(container_id)
        if plan is None:
            run_s = self._dice.between(0.05, self._demand.longest_run_s)
            code = self._dice.whole(1, 3) if self._dice.falls(self._demand.failing) else 0
            plan = self._plans[container_id] = (run_s, code)
        retries = self._store.containers[container_id].spec.retries
        if plan[1] and retries.most and self._asking.falls(FINE_AT_LAST):
            return plan[0], 0
        return plan

    def begin(self, until: float) -> None:
        """Plan everything that is asked before `until`."""
        for _ in range(self._demand.containers):
            self._timeline.at(self._dice.between(0, until * 0.9), self._submit)
        self.jobs.begin(until)
        self._per_instance.begin(until)
        self._elastic.begin(until)
        self._planning.begin(until)
        self._often(self._demand.cancels_every_s, until, self._cancel)
        self._often(self._demand.priorities_every_s, until, self._prioritise)
        self._often(self._demand.behaviors_every_s, until, self._behave)
        self._often(self._demand.kills_every_s, until, self._kill)

    def _often(self, mean_s: float, until: float, action: Callable[[], None]) -> None:
        when = 0.0
        while mean_s > 0 and (when := when + self._dice.soon(mean_s)) < until:
            self._timeline.at(when, action)

    def _post(self, process: DispatcherProcess, event: Event) -> None:
        """Tell the process of what is committed, if it lives to hear of it."""
        if process.alive and not self._dies_now():
            process.post(event)

    # ---- containers ----

    def _submit(self) -> None:
        process = self._process()
        if process is None:
            return
        containers = tuple(
            self._new() for _ in range(self._dice.whole(1, self._demand.longest_list))
        )
        containers = tuple(self._like(each, containers[0]) for each in containers)
        containers = tuple(replace(each, spec=self.jobs.wished(each.spec)) for each in containers)
        self.jobs.admit(
            process,
            containers,
            InsertContainers(containers=containers, user="u"),
            lambda ended: Submitted(containers=containers, ended=ended),
        )

    def _new(self) -> Container:
        self.submitted += 1
        container = self._make(self.submitted, self._dice)
        spec = asked_for(container.spec, self._demand, self._asking)
        if self._images.falls(self._demand.imaged):
            spec = replace(spec, image="busybox")
        return replace(container, spec=spec, created_at=self._epoch_now())

    def _like(self, container: Container, first: Container) -> Container:
        """Let a container ask for what the first of its list does, as happens."""
        if not self._dice.falls(self._demand.alike):
            return container
        spec = replace(
            container.spec,
            resources=first.spec.resources,
            constraints=first.spec.constraints,
            unnamed=first.spec.unnamed,
            supervisor=first.spec.supervisor,
        )
        return replace(container, spec=spec)

    def _any_unfinished(self) -> Container | None:
        """Return some container, as a rule one that runs; elastic jobs have users of their own."""
        all_of_them = self._store.containers.values()
        elastic = self._truth.jobs.elastic
        found = [c for c in all_of_them if not c.state.final and elastic.job_of(c) is None]
        running = [c for c in found if c.state is ContainerState.RUNNING]
        if running and self._dice.falls(0.7):
            found = running
        return found[self._dice.whole(0, len(found) - 1)] if found else None

    def _cancel(self) -> None:
        process, container = self._process(), self._any_unfinished()
        if process is None or container is None:
            return
        container_id = container.id

        def done(accepted: bool) -> None:
            if accepted:
                self._post(process, CancelRequested(container_id=container_id))

        self._store.write([RequestCancel(container_id=container_id)], done)

    def _prioritise(self) -> None:
        """Ask for some priority; who holds a container back may want it after all, soon after."""
        container = self._any_unfinished()
        if container is None:
            return
        priority = 0 if self._dice.falls(0.4) else self._dice.whole(1, 4) * 100
        self.set_priority(container.id, priority)
        if priority == 0 and self._dice.falls(0.8):
            soon_s = self._dice.between(0, 5)
            again = container.priority or 100
            self._timeline.after(soon_s, lambda: self.set_priority(container.id, again))

    def set_priority(self, container_id: str, priority: int) -> None:
        """Ask for a container's priority."""
        process = self._process()
        if process is None:
            return

        def done(accepted: bool) -> None:
            if accepted:
                event = PriorityRequested(container_id=container_id, priority=priority)
                self._post(process, event)

        self._store.write([RequestPriority(container_id=container_id, priority=priority)], done)

    def release(self) -> None:
        """Let go on whatever waits for its user's word."""
        for container in list(self._store.containers.values()):
            if container.priority == 0 and not container.state.final:
                self.set_priority(container.id, 100)
        for job in list(self._store.jobs.values()):
            if job.held and not job.state.final:
                self.jobs.hold(job.id, held=False)
        self._per_instance.release()
        self._elastic.release()

    # ---- instances ----

    def _any_worker(self) -> str:
        process = self._process()
        if process is None:
            return ""
        workers = process.engine.pool.workers
        there = sorted(w.id for w in workers.values() if w.state is not WorkerState.SHUTDOWN)
        return there[self._dice.whole(0, len(there) - 1)] if there else ""

    def _behave(self) -> None:
        worker_id = self._any_worker()
        if worker_id:
            behaviors = list(IdleBehavior)
            self.set_behavior(worker_id, behaviors[self._dice.whole(0, len(behaviors) - 1)])

    def set_behavior(self, worker_id: str, behavior: IdleBehavior) -> None:
        """Ask for an instance's idle behavior; some holds have an end."""
        process = self._process()
        if process is None:
            return
        note = None
        if behavior is IdleBehavior.HOLD and self._ends.falls(self._demand.timed_holds):
            now = process.now()
            until = now + self._ends.between(*HOLD_S)
            note = BehaviorNote(behavior=behavior, reason="a look", by="u", at=now, until=until)
        self._conduct.wanted[worker_id] = behavior
        event = self._conduct.steering.behavior(worker_id, behavior, note)
        self._conduct.hold_ends.asked(event)
        process.post(event)

    def _kill(self) -> None:
        process, worker_id = self._process(), self._any_worker()
        if process is not None and worker_id:
            self._conduct.killed.add(worker_id)
            process.post(self._conduct.steering.kill(worker_id, "by chance"))
