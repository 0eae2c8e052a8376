"""One planning pass: what the planner sees of the pool, and how its plan is carried out."""

from __future__ import annotations

from dispatcher.ledger import Ledger
from dispatcher.model import ContainerState, Reason, SchedulerSettings
from dispatcher.planner.batch import Limits, Plan, View, plan
from dispatcher.planner.room import Rules, Slot, SlotKind
from dispatcher.queue import ClassKey
from pool import attempts, idle, launching, probing, stillborn
from pool.core import PoolCore
from pool.model import AttemptOrder, AttemptPhase, WorkerState


class Placing:
    """Runs passes; keeps who holds a claim and why everybody else waits."""

    def __init__(self, *, pool: PoolCore, ledger: Ledger, settings: SchedulerSettings) -> None:
        self.pool = pool
        self.ledger = ledger
        self.settings = settings
        self.rules = Rules(
            placement=settings.placement,
            profile=settings.profile,
            max_containers=settings.max_containers_per_instance,
        )
        self.locked: set[str] = set()
        self.claims: dict[str, Reason] = {}
        self.waiting: dict[ClassKey, Reason] = {}
        self.passes = 0
        self.at_quota = False

    def run(self, now: float) -> None:
        """Plan once and carry the plan out."""
        self.passes += 1
        decided = plan(self.view(now))
        self._create(decided, now)
        self._place(decided, now)
        for worker_id in [*decided.unwanted, *self._idle_offline(decided, now)]:
            idle.on_unwanted(self.pool, self.pool.workers[worker_id], now)
        self.waiting = decided.waiting
        self.at_quota = bool(decided.next_in_line) or launching.at_quota(self.pool, now)
        launching.after_pass(
            self.pool, wait=decided.tokens_short, served=bool(decided.creates), now=now
        )

    def concurrency_limit(self) -> int | None:
        """Return how many containers run or have a place, while a quota lets no more be created.

        None while none does. It counts containers, not instances: packing goes on at a quota.
        """
        if not self.at_quota:
            return None
        on_workers = sum(
            attempt.phase is not AttemptPhase.ENDED and not attempt.stray
            for attempt in self.pool.attempts.values()
        )
        return on_workers + len(self.claims)

    def _idle_offline(self, decided: Plan, now: float) -> list[str]:
        """Return idle workers that get no work for want of a session, and use up quota."""
        pool = self.pool
        return [
            worker_id
            for worker_id in sorted(pool.workers)
            if decided.uses_up(pool.workers[worker_id].type.name)
            and pool.workers[worker_id].state is WorkerState.IDLE
            and probing.is_offline(pool, pool.workers[worker_id], now)
        ]

    def view(self, now: float) -> View:
        """Return what the planner decides from."""
        pool = self.pool
        in_flight = launching.types_in_flight(pool)
        unproven = stillborn.unproven(pool)
        creates_left = launching.creates_left(pool)
        limits = Limits(
            instances=len(pool.workers) + len(pool.hoped_for()) + len(pool.missing),
            max_instances=self.settings.max_instances,
            creates_left=creates_left,
            tokens_left=pool.cloud_gate.creates_left(now, creates_left),
            hindrance=lambda type_: pool.holds.hindrance(
                type_, in_flight=in_flight, unproven=unproven, now=now
            ),
            trials=lambda type_: pool.holds.trials(type_, now),
        )
        return View(
            classes=self.ledger.queue.classes(),
            slots=self._slots(now),
            limits=limits,
            rules=self.rules,
        )

    def _slots(self, now: float) -> list[Slot]:
        slots = []
        for worker in self.pool.workers.values():
            if not probing.takes_work(self.pool, worker, now):
                continue
            ready = probing.is_ready(worker)
            slots.append(
                Slot(
                    kind=SlotKind.READY if ready else SlotKind.COMING,
                    id=worker.id,
                    type=worker.type,
                    free=worker.free,
                    count=len(worker.attempts),
                    last_busy=worker.last_busy,
                    idle=worker.state is WorkerState.IDLE and not worker.unreleased,
                )
            )
        for pending in self.pool.hoped_for():
            type_ = self.pool.types.get(pending.launch.type_name)
            if type_ is not None:
                slots.append(
                    Slot(
                        kind=SlotKind.LAUNCHING,
                        id=pending.launch.token,
                        type=type_,
                        free=type_.allocatable,
                        count=0,
                        last_busy=0.0,
                    )
                )
        return slots

    def _create(self, decided: Plan, now: float) -> None:
        for slot in decided.creates:
            launching.request_launch(self.pool, slot.type, now)

    def _place(self, decided: Plan, now: float) -> None:
        claims: dict[str, Reason] = {}
        awaited: set[str] = set()
        for container_id, slot in decided.places:
            if slot.kind is SlotKind.READY:
                self._start(container_id, slot, now)
                continue
            if slot.kind is SlotKind.COMING:
                awaited.add(slot.id)
            claims[container_id] = _claim(slot)
            if self.ledger.containers[container_id].state is ContainerState.QUEUED:
                self.ledger.lock(container_id)
        kept = self.locked.intersection(decided.next_in_line)
        for container_id in sorted(self.locked - claims.keys() - kept):
            if container_id in self.ledger.queue:
                self.ledger.unlock(container_id)
        idle.set_awaited(self.pool, frozenset(awaited), now)
        self.claims = claims
        self.locked = claims.keys() | (kept & self.ledger.containers.keys())

    def _start(self, container_id: str, slot: Slot, now: float) -> None:
        worker = self.pool.workers[slot.id]
        attempt = self.ledger.open_attempt(container_id, worker, now)
        spec = self.ledger.containers[container_id].spec
        order = AttemptOrder(
            attempt_id=attempt.id,
            container_id=container_id,
            image=spec.image,
            command=spec.command,
            env=spec.env,
            cpu_millis=spec.resources.cpu_millis,
            memory_bytes=spec.resources.memory_bytes,
        )
        attempts.place(self.pool, worker, order, spec.resources, now)

    def reason(self, container_id: str) -> Reason | None:
        """Return why a container waits, None when it does not wait or no pass has seen it."""
        container = self.ledger.containers.get(container_id)
        if container is None or container.has_open_attempt:
            return None
        if container.priority == 0:
            return Reason(code="held", message="held back: its priority is 0")
        claim = self.claims.get(container_id)
        if claim is not None:
            return claim
        if not self.pool.listed_once:
            message = "nothing is placed until the cloud's first complete listing is in"
            return Reason(code="not_listed", message=message)
        request_class = self.ledger.queue.class_of(container_id)
        return self.waiting.get(request_class.key) if request_class is not None else None


def _claim(slot: Slot) -> Reason:
    if slot.kind is SlotKind.COMING:
        message = f"it has a place on {slot.id} ({slot.type.name}), which is not ready yet"
        return Reason(code="instance_coming", message=message)
    message = f"it has a place on a new {slot.type.name} that is being created"
    return Reason(code="instance_creating", message=message)
