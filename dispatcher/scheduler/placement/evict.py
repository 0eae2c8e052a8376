"""Room for containers that matter more, where a limit lets no instance be created for them.

An instance on which somebody makes way takes nothing else until all who were evicted have ended:
what becomes free bit by bit would else go to small ones, and who needs all of it would evict again.
Then the next pass gives it to who comes first, which is the one that it was made for, or a higher.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf
from typing import assert_never

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    SchedulerSettings,
    StopCause,
    StopReason,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import JobType
from longshore.dispatcher.scheduler.placement.avoiding import has_others
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort, JobPort
from longshore.dispatcher.scheduler.placement.decisions import end_attempt
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind
from longshore.dispatcher.scheduler.placement.preemption import (
    Eviction,
    NodeUsage,
    PreemptionSettings,
    PreemptorKind,
    RunningAttempt,
    choose,
    may_evict,
    victims,
)
from longshore.dispatcher.scheduler.placement.snapshot import Budget, ClassPlacement, Plan
from longshore.dispatcher.state.queue import Order
from longshore.dispatcher.state.restarts import returns_at
from longshore.pool.charging import charge
from longshore.pool.model import Worker
from longshore.pool.port import PoolPort

# ---- who holds resources on an instance, as preemption sees it -----------------------------------


def kind_of(container: Container, jobs: JobPort) -> PreemptorKind:
    """Return what a container is to preemption."""
    match jobs.type_of(container.job_id):
        case JobType.SYSTEM:
            return PreemptorKind.SYSTEM
        case JobType.SYSBATCH:
            return PreemptorKind.SYSBATCH
        case JobType.BATCH | JobType.ELASTIC | None:
            return PreemptorKind.SUPERVISOR if container.spec.supervisor else PreemptorKind.BATCH
        case unknown:
            assert_never(unknown)


def running_attempts_on(
    worker: Worker, table: ContainerPort, by: PreemptorKind
) -> tuple[RunningAttempt, ...]:
    """Return the attempts of containers on a worker, for one who asks for room there; no strays."""
    found = []
    for attempt_id, resources in sorted(worker.load.attempts.items()):
        container_id = table.open_attempts.get(attempt_id)
        if container_id is None:
            continue
        container = table.containers[container_id]
        attempt = container.attempts[-1]
        found.append(
            RunningAttempt(
                attempt_id=attempt_id,
                priority=container.priority,
                resources=resources,
                began_at=attempt.started_at,
                is_ending=attempt.intended_outcome is not None or container.cancel_requested,
                may_be_evicted=may_evict(by, kind_of(container, table.jobs)),
            )
        )
    return tuple(found)


# ---- room for containers that matter more, where a limit lets no instance be created for them ----

_LIMITED = frozenset({"at_quota", "at_capacity"})
"""The codes of waits that no create ends soon."""

_LOOKS_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingEviction:
    """Somebody makes way: the attempts that are to end, and the container that it is for."""

    attempt_ids: frozenset[str]
    container_id: str


class Evictions:
    """Evicts, and knows on which instances room is being made for whom."""

    def __init__(self, pool: PoolPort, table: ContainerPort, settings: SchedulerSettings) -> None:
        """Evict nobody yet; open attempts that were told to make way are found by `restore`."""
        self._pool = pool
        self._table = table
        self._settings = PreemptionSettings(batch=settings.preempt_from_priority)
        self._most_containers = settings.max_containers_per_instance
        self._ways: dict[str, _PendingEviction] = {}
        self._retry_after = ("", -inf)

    @property
    def reserved(self) -> Mapping[str, _PendingEviction]:
        """Return the instances that take nothing else, by id; not a copy."""
        return self._ways

    def restore(self) -> None:
        """Find who was told by an earlier process to make way and has not ended yet."""
        for attempt_id, container_id in sorted(self._table.open_attempts.items()):
            attempt = self._table.containers[container_id].attempts[-1]
            whom = attempt.stop_reason
            if whom.cause is StopCause.FOR_CONTAINER and whom.of in self._table.containers:
                way = self._ways.get(attempt.instance_id)
                others = way.attempt_ids if way is not None else frozenset()
                self._ways[attempt.instance_id] = _PendingEviction(
                    attempt_ids=others | {attempt_id}, container_id=whom.of
                )

    def settle(self) -> None:
        """Let instances take work again on which nobody makes way any more, or for nobody."""
        for worker_id, way in sorted(self._ways.items()):
            going = any(each in self._table.open_attempts for each in way.attempt_ids)
            if not going or not self._is_needed(worker_id, way.container_id):
                del self._ways[worker_id]
                self._pool.touch(worker_id)

    def _is_needed(self, worker_id: str, container_id: str) -> bool:
        """Return whether somebody still needs more room on an instance than is free there."""
        worker = self._pool.workers.get(worker_id)
        waits_in = self._table.queue.class_of(container_id)
        if worker is None or waits_in is None:
            return False
        need = waits_in.need(worker.type)
        on_shared_cpu = self._pool.staying_on_shared_cpu(worker)
        return not charge(need, on_shared_cpu=on_shared_cpu).fits_in(worker.load.free)

    def evict(
        self, decided: Plan, slots: Mapping[str, Slot], budget: Budget | None, now: float
    ) -> bool:
        """Make room for the first container that needs it; return whether anybody is evicted.

        `decided` is what a pass came to, `slots` what there is, `budget` what is left to spend,
        None without limits of it. One such a pass; for whom nobody was found, it looks again after
        a second at the earliest, since it goes through all that runs.
        """
        head = self._head(decided) if self._settings.batch is not None else None
        if head is None:
            return False
        container, line = head
        if self._retry_after[0] == container.id and now < self._retry_after[1]:
            return False
        eviction = choose(self._evictions(container, line, slots, budget, now), now)
        if eviction is None or not eviction.victims:
            self._retry_after = (container.id, now + _LOOKS_AGAIN_S)
            return False
        self._begin(container, eviction, now)
        return True

    def _head(self, decided: Plan) -> tuple[Container, ClassPlacement] | None:
        """Return the first that waits at a limit and may evict, and for whom nobody makes way yet.

        Who is behind somebody else has no use of room unless that one gets some.
        """
        helped = {way.container_id for way in self._ways.values()}
        found = []
        for line in decided.lines:
            why = decided.waiting.get(line.key)
            limited = why is not None and (why.behind_code or why.code) in _LIMITED
            head = self._unhelped(line, helped) if limited else None
            if head is None or why is None or (why.behind and why.behind not in helped):
                continue
            container = self._table.containers[head[1]]
            if self._settings.allows(kind_of(container, self._table.jobs), container.priority):
                found.append((head[0], container, line))
        first = min(found, key=lambda each: each[0], default=None)
        return first[1:] if first is not None else None

    def _unhelped(self, line: ClassPlacement, helped: AbstractSet[str]) -> tuple[Order, str] | None:
        position = line.position
        while (head := line.request_class.at(position)) is not None and head[1] in helped:
            position += 1
        return head

    def _evictions(
        self,
        container: Container,
        line: ClassPlacement,
        slots: Mapping[str, Slot],
        budget: Budget | None,
        now: float,
    ) -> list[Eviction]:
        """Return what could be done for a container: where it was lost only if nowhere else."""
        names = {type_.name for type_ in line.request_class.types}
        patient = returns_at(container, now) > now and has_others(line.key, slots, names)
        found: list[Eviction] = []
        where_lost: list[Eviction] = []
        for slot_id in sorted(slots):
            slot = slots[slot_id]
            worker = self._pool.workers.get(slot_id)
            if slot.kind is not SlotKind.READY or slot.type.name not in names or worker is None:
                continue
            avoids = slot_id in line.key.avoided
            if avoids and patient:
                # It would not go there, and others would be evicted for it again and again.
                continue
            asked = line.request_class.need(slot.type)
            if budget is not None and budget.refuses_place(line.key.account, slot, asked):
                continue
            attempts = running_attempts_on(
                worker, self._table, kind_of(container, self._table.jobs)
            )
            occupied = NodeUsage(
                slot=slot, attempts=attempts, most_containers=self._most_containers
            )
            answer = victims(asked, container.priority, occupied)
            # Where there is room already, and it got no place, evicting nobody would not help.
            of_use = isinstance(answer, Eviction) and answer.victims
            if isinstance(answer, Eviction) and (of_use or any(t.is_ending for t in attempts)):
                (where_lost if avoids else found).append(answer)
        return found or where_lost

    def _begin(self, container: Container, eviction: Eviction, now: float) -> None:
        self._ways[eviction.slot_id] = _PendingEviction(
            attempt_ids=frozenset(victim.attempt_id for victim in eviction.victims),
            container_id=container.id,
        )
        self._pool.touch(eviction.slot_id)
        whom = StopReason(cause=StopCause.FOR_CONTAINER, of=container.id)
        for victim in eviction.victims:
            victim_id = self._table.open_attempts[victim.attempt_id]
            outcome = AttemptOutcome.PREEMPTED
            end_attempt(self._table, self._pool, victim_id, now, outcome=outcome, by=whom)

    def reason(self, container_id: str) -> WaitReason | None:
        """Return what a container waits for that others make way for, None when none do."""
        for worker_id, way in sorted(self._ways.items()):
            if way.container_id == container_id:
                number = len(way.attempt_ids)
                who = "a container" if number == 1 else f"{number} containers"
                message = f"room is made for it on {worker_id}: {who} of lower priority must end"
                return WaitReason(code="evicting", message=message)
        return None
