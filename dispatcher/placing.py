"""One planning pass: what the planner sees of the pool, and how its plan is carried out."""

from __future__ import annotations

from dispatcher.ledger import Ledger
from dispatcher.model import ContainerState, Reason, SchedulerSettings
from dispatcher.planner.batch import Limits, Plan, View, plan
from dispatcher.planner.room import Rules, Slot, SlotKind
from dispatcher.queue import ClassKey
from pool import attempts, idle, launching, probing
from pool.core import HoldCause, PoolCore
from pool.model import AttemptOrder, WorkerState


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

    def run(self, now: float) -> None:
        """Plan once and carry the plan out."""
        self.passes += 1
        decided = plan(self.view(now))
        self._create(decided, now)
        self._place(decided, now)
        for worker_id in decided.unwanted:
            idle.on_unwanted(self.pool, self.pool.workers[worker_id], now)
        self.waiting = decided.waiting

    def view(self, now: float) -> View:
        """Return what the planner decides from."""
        pool = self.pool
        pending = [p for p in pool.launches.values() if p.counted and not p.instance_id]
        hold = launching.creates_hold(pool, now)
        limits = Limits(
            instances=len(pool.workers) + len(pending),
            max_instances=self.settings.max_instances,
            creates_left=launching.creates_left(pool),
            creates_held=hold[1] if hold else "",
            at_quota=hold is not None and hold[0] is HoldCause.QUOTA,
            type_held=lambda name: launching.type_held(pool, name, now),
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
            idle_here = worker.state is WorkerState.IDLE and not worker.unreleased
            slots.append(
                Slot(
                    kind=SlotKind.READY if ready else SlotKind.COMING,
                    id=worker.id,
                    type=worker.type,
                    free=worker.free,
                    count=len(worker.attempts),
                    last_busy=worker.last_busy,
                    idle=idle_here and ready,
                )
            )
        for pending in self.pool.launches.values():
            type_ = self.pool.types.get(pending.launch.type_name)
            if pending.counted and not pending.instance_id and type_ is not None:
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
        for container_id, slot in decided.places:
            if slot.kind is SlotKind.READY:
                self._start(container_id, slot, now)
                continue
            claims[container_id] = _claim(slot)
            if self.ledger.containers[container_id].state is ContainerState.QUEUED:
                self.ledger.lock(container_id)
        kept = {decided.next_in_line} if decided.next_in_line in self.locked else set()
        for container_id in sorted(self.locked - claims.keys() - kept):
            if container_id in self.ledger.queue:
                self.ledger.unlock(container_id)
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
        request_class = self.ledger.queue.class_of(container_id)
        return self.waiting.get(request_class.key) if request_class is not None else None


def _claim(slot: Slot) -> Reason:
    if slot.kind is SlotKind.COMING:
        message = f"it has a place on {slot.id} ({slot.type.name}), which is not ready yet"
        return Reason(code="instance_coming", message=message)
    message = f"it has a place on a new {slot.type.name} that is being created"
    return Reason(code="instance_creating", message=message)
