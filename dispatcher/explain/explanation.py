"""Why a container is where it is: all that the engine's memory and the store say about that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from longshore.dispatcher.domain.containers import Container, ContainerState, WaitReason
from longshore.dispatcher.domain.feasibility import need, whole
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.explain.estimate import Estimate, Situation, estimate, never, spread
from longshore.dispatcher.explain.limits_left import LimitUsage, limit_usages
from longshore.dispatcher.scheduler.placement.create_limits import hindrances
from longshore.dispatcher.scheduler.placement.feasibility_report import (
    NodeSummary,
    TypeFeasibility,
    node_summary,
    type_feasibility,
)
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind
from longshore.dispatcher.scheduler.placement.workload import NOTHING
from longshore.dispatcher.state.dependencies import blocking_chain
from longshore.dispatcher.state.history import HistoryEvent
from longshore.dispatcher.state.queue import ClassKey
from longshore.dispatcher.state.scheduling_gates import Gate
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool import probing, signals
from longshore.pool.charging import clamped
from longshore.pool.holds import CreateBlock, CreateBlockKind, CreateHold
from longshore.pool.model import Stopping, Worker


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
class Claim:
    """The place that a container has on what is not ready yet.

    `instance_id` is "" while the cloud has named none; `since` is when it appeared or was asked
    for, in seconds since the epoch. `last_error` is what went wrong there last, "" for nothing.
    """

    instance_id: str
    type_name: str
    since: float
    last_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStatus:
    """Why a container waits, in short, with its position of all that wait; empty if it does not.

    `position` counts from 1, 0 for what has none. `doubt` says in a sentence what nobody knows of
    one that should run; `kill_at` is when KILL comes to one that was told to end, in seconds since
    the epoch, None for no such time.
    """

    reason: WaitReason | None = None
    position: int = 0
    of: int = 0
    doubt: str = ""
    kill_at: float | None = None

    @property
    def sentence(self) -> str:
        """Return why it waits, with its position; "" when it does not or nobody knows."""
        if self.reason is None:
            return ""
        place = f" (position {self.position} of {self.of})" if self.position else ""
        return f"{self.reason.message}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What there is to say of a container that waits."""

    reason: WaitReason | None
    position: Position | None
    types: Sequence[TypeFeasibility]
    instances: NodeSummary
    holds: Sequence[CreateHold]
    limits: Sequence[LimitUsage]
    claim: Claim | None
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a container is where it is; `waiting` is None for one that does not wait.

    Of what was decided before `recorded_since` (seconds since the epoch) only attempts are known.
    """

    container: Container
    sentence: str
    waiting: Waiting | None
    history: Sequence[HistoryEvent]
    recorded_since: float


_WAITING = frozenset({ContainerState.QUEUED, ContainerState.LOCKED})


def wait_status(engine: Engine, container: Container) -> WaitStatus:
    """Return why a container, as the store has it, waits, or what nobody knows of it."""
    if container.state not in _WAITING:
        return WaitStatus(doubt=_doubt(engine, container), kill_at=_kill_at(engine, container))
    reason, doubt = engine.why_waiting(container.id), _doubt(engine, container)
    queue = engine.table.queue
    if reason is None or container.id not in queue:
        return WaitStatus(reason=reason, doubt=doubt)
    position = queue.ahead_of(container.id) + 1
    return WaitStatus(reason=reason, position=position, of=len(queue), doubt=doubt)


def _doubt(engine: Engine, container: Container) -> str:
    """Return what is not known of where a container runs, "" for nothing."""
    where = container.attempts[-1].instance_id if container.has_open_attempt else ""
    if where in engine.pool.missing:
        return f"the cloud's first listing is to tell whether {where} is there, where it ran"
    worker = engine.pool.workers.get(where)
    since = None if worker is None else worker.missing_since
    if since is None:
        return ""
    return (
        f"{where} is missing from the cloud's listings since {moment(since)}; until one shows it, "
        "it answers, or it counts as gone, nobody knows whether it still runs there"
    )


def _kill_at(engine: Engine, container: Container) -> float | None:
    """Return when KILL comes to what runs of a container, None while nothing sets a time."""
    last = container.attempts[-1] if container.has_open_attempt else None
    running = None if last is None else engine.pool.attempts.get(last.id)
    if running is None or not isinstance(running.phase, Stopping) or running.phase.since is None:
        return None
    return running.phase.since + signals.grace_of(engine.pool, running)


def explain(engine: Engine, container: Container, now: float) -> Explanation:
    """Return all that is known of why a container, as the store has it, is where it is.

    `now` is in seconds since the epoch; the value is a copy.
    """
    key = engine.table.queue.key_of(container)
    type_ = engine.table.jobs.type_of(container.job_id)
    own_placer = type_ is not None and type_.has_own_placer
    if own_placer:
        key = replace(key, avoided=())  # these jobs go by no class, and avoid none
    known = engine.table.containers.get(container.id)
    waits = known is not None and not known.has_open_attempt and not container.state.final
    waiting = _waiting(engine, container, key, now) if waits else None
    began_at = engine.pool.began_at
    return Explanation(
        container=container,
        sentence=_sentence(engine, container, waiting),
        waiting=waiting,
        history=[
            each
            for each in engine.scheduling.history.of(
                container,
                None if own_placer else key,
                began_at=began_at,
                now=now,
                held=engine.workflow.reason(container) if waits else None,
            )
            if _concerns(engine, container.id, each)
        ],
        recorded_since=began_at,
    )


def _concerns(engine: Engine, container_id: str, happening: HistoryEvent) -> bool:
    """Return whether what its class waited for is also what this container did.

    It is not behind what comes after it; where the order is known no more it may have been.
    """
    first, queue = happening.behind, engine.table.queue
    if not first or container_id not in queue or first not in queue:
        return first != container_id
    return queue.ahead_of(first) < queue.ahead_of(container_id)


def _sentence(engine: Engine, container: Container, waiting: Waiting | None) -> str:
    """Return in one sentence where a container is and why."""
    if waiting is None:
        return f"{container.id} {_doing(engine, container)}"
    why = wait_status(engine, container).sentence or _NOT_LOOKED_AT
    return f"{container.id} waits: {why}{_first_of_chain(engine, container)}"


def _doing(engine: Engine, container: Container) -> str:
    """Return what a container does that does not wait for a place, as its id goes before it."""
    last = container.attempts[-1] if container.attempts else None
    if container.state.final:
        why = f": {container.reason.message}" if container.reason is not None else ""
        return f"{_STATES[container.state]}{why}"
    if last is None or last.outcome is not None:
        return f"is {container.state.value}; its next state is being written"
    where = f"{last.instance_id} ({last.instance_type}), attempt {last.number}"
    if last.ending is not None or container.cancel_requested:
        kill_at = _kill_at(engine, container)
        until = "" if kill_at is None else f"; KILL at {moment(kill_at)}"
        doing = "cancelled" if container.cancel_requested else "ended"
        return f"is being {doing} on {where}{until}"
    doing = "runs" if container.state is ContainerState.RUNNING else "is being started"
    if last.is_pulling:
        since = moment(last.pulling_since or 0.0)
        doing = f"waits since {since} for its image {container.spec.image} to be pulled"
    doubt = _doubt(engine, container)
    return f"{doing} on {where}{'; but ' if doubt else ''}{doubt}"


def _first_of_chain(engine: Engine, container: Container) -> str:
    """Return who comes first of those that a container waits for and what that one does, or ""."""
    chain = blocking_chain(container.id, table=engine.table, workflow=engine.workflow)
    first = engine.table.containers.get(chain.first) if chain.before else None
    whose = "first" if chain.is_whole else "first that was looked at"
    of_chain = f"; the {whose} of its chain is {chain.first} ({chain.before} before it)"
    if first is None:
        # That it waits for just this one, its own reason says.
        return of_chain if chain.before > 1 else ""
    if first.has_open_attempt:
        doing = _doing(engine, first)
    else:
        reason = engine.why_waiting(first.id)
        doing = f"waits: {_NOT_LOOKED_AT if reason is None else reason.message}"
    return f"{of_chain}, which {doing}" if chain.before > 1 else f"; {first.id} {doing}"


_NOT_LOOKED_AT = "no planning pass has looked at it yet"
_STATES = {
    ContainerState.SUCCEEDED: "has succeeded",
    ContainerState.FAILED: "has failed",
    ContainerState.CANCELLED: "was cancelled",
}


def _waiting(engine: Engine, container: Container, key: ClassKey, now: float) -> Waiting:
    pool = engine.pool
    types, workers = _for_it(engine, container)
    hindrance_of = hindrances(pool, now)

    def hindrance(type_: InstanceType) -> CreateBlock | None:
        # Nothing is created for what is for one instance only.
        if container.pinned_to:
            return None
        return hindrance_of(type_)

    verdicts = type_feasibility(
        types,
        key,
        max_price_factor=engine.settings.max_price_factor,
        hindrance=hindrance,
        as_new=whole if container.pinned_to else engine.scheduling.left_of,
        as_found=whole if container.pinned_to else pool.as_found,
        scarce=() if container.pinned_to else _given_up(engine, key),
    )

    def is_offline(worker: Worker) -> bool:
        return probing.is_offline(pool, worker, now)

    instances = node_summary(
        workers,
        key,
        verdicts={verdict.name: verdict for verdict in verdicts},
        rules=engine.scheduling.rules,
        is_offline=is_offline,
        kept=_kept(engine, container, workers),
        now=now,
    )
    limits = [] if container.pinned_to else limit_usages(engine, container, verdicts, now)
    verdicts = [_but(verdict, limits) for verdict in verdicts]
    eligible = {verdict.name for verdict in verdicts if verdict.eligible}
    created = [type_ for type_ in types if type_.name in eligible and not container.pinned_to]
    slot = engine.scheduling.claimed_slot(container.id)
    claim = _claim(engine, slot) if slot is not None else None
    reason = engine.why_waiting(container.id)
    due = _due(engine, container, reason)
    return Waiting(
        reason=reason,
        position=_position(engine, container.id),
        types=verdicts,
        instances=instances,
        holds=[
            hold
            for hold in pool.holds.active(now)
            if any(pool.holds.covers(hold.scope, type_) for type_ in created)
        ],
        limits=limits,
        claim=claim,
        estimate=estimate(
            Situation(
                reason=reason,
                cannot_start=_cannot_start(engine, container, key, reason),
                none_could_leave=_none_could_leave([hindrance(type_) for type_ in created]),
                boots=spread(pool.statistics.time_to_ready_s),
                elapsed_s=_elapsed_s(slot, claim, now),
                due_in_s=None if due is None else due - now,
                held_for_s=_held_for_s([hindrance(type_) for type_ in created], now),
                may_free_up=instances.count("exhausted") > 0,
                is_kept=instances.count("kept") > 0,
            )
        ),
    )


def _cannot_start(
    engine: Engine, container: Container, key: ClassKey, reason: WaitReason | None
) -> str:
    """Return who has to go before a container and can never start, and why; "" for nobody."""
    if reason is not None and reason.code == "max_running":
        why = engine.scheduling.waiting.get(key)
        if why is None or not never(why):
            return ""
        return f"the others of its array cannot start either: {why.message}"
    chain = blocking_chain(container.id, table=engine.table, workflow=engine.workflow)
    first = engine.table.containers.get(chain.first) if chain.before else None
    if first is None:
        return ""
    why = engine.why_waiting(first.id)
    if why is not None and why.code == "max_running":
        why = engine.scheduling.waiting.get(engine.table.queue.key_of(first))
    if why is None or not never(why):
        return ""
    return f"{first.id} must end first, and cannot start: {why.message}"


def _none_could_leave(hindrances: Sequence[CreateBlock | None]) -> bool:
    """Return whether the cloud refuses all types that would do though none of them is there."""
    short_of = (CreateBlockKind.NONE_ALLOWED, CreateBlockKind.CAPACITY)
    return bool(hindrances) and all(h is not None and h.kind in short_of for h in hindrances)


def _given_up(engine: Engine, key: ClassKey) -> frozenset[str]:
    """Return the preemptible types that a class does without, since they cannot be had."""
    scarce, allowed = engine.market.scarce, engine.types_for(key)
    if any(type_.preemptible and type_.name not in scarce.tried for type_ in allowed):
        return frozenset()
    return scarce.held if allowed else frozenset()


def _for_it(
    engine: Engine, container: Container
) -> tuple[Sequence[InstanceType], Sequence[Worker]]:
    """Return the types and the instances that it may be for; of a job for each, its own alone."""
    workers = engine.pool.workers
    if not container.pinned_to:
        return list(engine.types.values()), list(workers.values())
    own = workers.get(container.pinned_to)
    return ([], []) if own is None else ([own.type], [own])


_NOT_PROMISED = frozenset({"no_room", "too_small"})
"""The reasons of those daemons for which no room is kept."""


def _kept(
    engine: Engine, container: Container, workers: Sequence[Worker]
) -> Mapping[str, Resources]:
    """Return the room that others are promised before a container, by instance."""
    type_ = engine.table.jobs.type_of(container.job_id)
    if type_ is None or not type_.has_own_placer:
        return engine.workloads.kept()
    kept = engine.per_instance.kept
    reason = engine.why_waiting(container.id)
    if not container.pinned_to or (reason is not None and reason.code in _NOT_PROMISED):
        return kept
    # What is kept may be its own.
    spec, others = container.spec, {}
    for worker in workers:
        wanted = need(worker.type, spec.resources, spec.unnamed)
        others[worker.id] = clamped(kept.get(worker.id, NOTHING).minus(wanted))
    return others


def _due(engine: Engine, container: Container, reason: WaitReason | None) -> float | None:
    """Return when a container may start again at the soonest, None when nothing sets a time."""
    gates = engine.table.gates
    if reason is not None and Gate.OWN_PLACER in gates.blocks(container.id):
        return reason.until
    return gates.due(container.id)


def _position(engine: Engine, container_id: str) -> Position | None:
    queue = engine.table.queue
    request_class = queue.class_of(container_id)
    if request_class is None:
        return None
    number = queue.ahead_of(container_id) + 1
    waiting = engine.scheduling.waiting
    stuck = queue.ahead_among(container_id, (key for key in waiting if waiting[key].is_final))
    return Position(number=number, of=len(queue), alike=len(request_class), stuck=stuck)


def _claim(engine: Engine, slot: Slot) -> Claim:
    worker = engine.pool.workers.get(slot.id)
    if worker is not None:
        return Claim(
            instance_id=slot.id,
            type_name=slot.type.name,
            since=worker.appeared_at,
            last_error=worker.last_error,
        )
    pending = engine.pool.launches.get(slot.id)
    since = pending.launch.created_at if pending is not None else 0.0
    return Claim(instance_id="", type_name=slot.type.name, since=since)


def _elapsed_s(slot: Slot | None, claim: Claim | None, now: float) -> float | None:
    """Return how long the instance of a claim boots, 0.0 while there is none yet."""
    if slot is None or claim is None:
        return None
    return max(0.0, now - claim.since) if slot.kind is SlotKind.COMING else 0.0


def _held_for_s(hindrances: Sequence[CreateBlock | None], now: float) -> float | None:
    """Return for how long none of some types may be created, None when one may be now."""
    ends = []
    for hindrance in hindrances:
        if hindrance is None:
            return None
        ends.append(now if hindrance.until is None else hindrance.until)
    return max(0.0, min(ends) - now) if ends else None


def _but(verdict: TypeFeasibility, limits: Sequence[LimitUsage]) -> TypeFeasibility:
    """Return a verdict with the limit that keeps one of its type from being created now."""
    if verdict.hindrance or not verdict.eligible:
        return verdict
    for limit in limits:
        if limit.closes(verdict):
            return replace(verdict, hindrance=f"{limit.name} of {limit.limit:g} allows none now")
    return verdict
