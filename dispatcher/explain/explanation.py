"""Why a container is where it is: all that the engine's memory and the store say about that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from longshore.dispatcher.domain.containers import Container, ContainerState, WaitReason
from longshore.dispatcher.domain.feasibility import need, whole
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.engine.view import EngineView, Position
from longshore.dispatcher.explain.estimate import Estimate, Situation, estimate, never, spread
from longshore.dispatcher.explain.limit_usage import LimitUsage, limit_usages
from longshore.dispatcher.scheduler.placement.feasibility_report import (
    NodeSummary,
    TypeFeasibility,
    node_summary,
    type_feasibility,
)
from longshore.dispatcher.scheduler.placement.fleet import Slot, SlotKind
from longshore.dispatcher.scheduler.placement.workload import NOTHING
from longshore.dispatcher.state.history import HistoryEvent
from longshore.dispatcher.state.queue import ClassKey
from longshore.dispatcher.state.scheduling_gates import Gate
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import clamped
from longshore.pool.holds import CreateBlock, CreateBlockKind, CreateHold
from longshore.pool.model import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The place that a container has on what is not ready yet."""

    #: "" while the cloud has named none.
    instance_id: str
    type_name: str
    #: When it appeared or was asked for, in seconds since the epoch.
    since: float
    #: What went wrong there last, "" for nothing.
    last_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStatus:
    """Why a container waits, in short; empty if it does not."""

    reason: WaitReason | None = None
    #: Its position of all that wait, from 1; 0 for what has none.
    position: int = 0
    of: int = 0
    #: What nobody knows of one that should run, in a sentence.
    doubt: str = ""
    #: When KILL comes to one that was told to end, in seconds since the epoch, None for no such
    #: time.
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


def wait_status(view: EngineView, container: Container) -> WaitStatus:
    """Return why a container, as the store has it, waits, or what nobody knows of it."""
    if container.state not in _WAITING:
        return WaitStatus(doubt=_doubt(view, container), kill_at=_kill_at(view, container))
    reason, doubt = view.wait_reason(container.id), _doubt(view, container)
    position = view.place_in_queue(container.id)
    if reason is None or not position:
        return WaitStatus(reason=reason, doubt=doubt)
    return WaitStatus(reason=reason, position=position, of=view.queue_length, doubt=doubt)


def _doubt(view: EngineView, container: Container) -> str:
    """Return what is not known of where a container runs, "" for nothing."""
    where = container.attempts[-1].instance_id if container.has_open_attempt else ""
    if view.pool.is_unlisted(where):
        return f"the cloud's first listing is to tell whether {where} is there, where it ran"
    worker = view.pool.workers.get(where)
    since = None if worker is None else worker.cloud.missing_since
    if since is None:
        return ""
    return (
        f"{where} is missing from the cloud's listings since {moment(since)}; until one shows it, "
        "it answers, or it counts as gone, nobody knows whether it still runs there"
    )


def _kill_at(view: EngineView, container: Container) -> float | None:
    """Return when KILL comes to what runs of a container, None while nothing sets a time."""
    return view.pool.kill_at(container.attempts[-1].id) if container.has_open_attempt else None


def explain(view: EngineView, container: Container, now: float) -> Explanation:
    """Return all that is known of why a container, as the store has it, is where it is.

    `now` is in seconds since the epoch; the value is a copy.
    """
    key = view.key_of(container)
    type_ = view.job_type(container.job_id)
    own_scheduler = type_ is not None and type_.has_own_scheduler
    if own_scheduler:
        key = replace(key, avoided=())  # these jobs go by no class, and avoid none
    known = view.container(container.id)
    waits = known is not None and not known.has_open_attempt and not container.state.final
    waiting = _waiting(view, container, key, now) if waits else None
    held = view.held_reason(container) if waits else None
    return Explanation(
        container=container,
        sentence=_sentence(view, container, waiting),
        waiting=waiting,
        history=[
            each
            for each in view.history(container, None if own_scheduler else key, now, held)
            if _concerns(view, container.id, each)
        ],
        recorded_since=view.pool.began_at,
    )


def _concerns(view: EngineView, container_id: str, happening: HistoryEvent) -> bool:
    """Return whether what its class waited for is also what this container did.

    It is not behind what comes after it; where the order is known no more it may have been.
    """
    first = happening.behind
    places = (view.place_in_queue(first), view.place_in_queue(container_id)) if first else (0, 0)
    return places[0] < places[1] if all(places) else first != container_id


def _sentence(view: EngineView, container: Container, waiting: Waiting | None) -> str:
    """Return in one sentence where a container is and why."""
    if waiting is None:
        return f"{container.id} {_doing(view, container)}"
    why = wait_status(view, container).sentence or _NOT_LOOKED_AT
    return f"{container.id} waits: {why}{_first_of_chain(view, container)}"


def _doing(view: EngineView, container: Container) -> str:
    """Return what a container does that does not wait for a place, as its id goes before it."""
    last = container.attempts[-1] if container.attempts else None
    if container.state.final:
        why = f": {container.reason.message}" if container.reason is not None else ""
        return f"{_STATES[container.state]}{why}"
    if last is None or last.outcome is not None:
        return f"is {container.state.value}; its next state is being written"
    where = f"{last.instance_id} ({last.instance_type}), attempt {last.number}"
    if last.intended_outcome is not None or container.cancel_requested:
        kill_at = _kill_at(view, container)
        until = "" if kill_at is None else f"; KILL at {moment(kill_at)}"
        doing = "cancelled" if container.cancel_requested else "ended"
        return f"is being {doing} on {where}{until}"
    doing = "runs" if container.state is ContainerState.RUNNING else "is being started"
    if last.is_pulling:
        since = moment(last.pulling_since or 0.0)
        doing = f"waits since {since} for its image {container.spec.image} to be pulled"
    doubt = _doubt(view, container)
    return f"{doing} on {where}{'; but ' if doubt else ''}{doubt}"


def _first_of_chain(view: EngineView, container: Container) -> str:
    """Return who comes first of those that a container waits for and what that one does, or ""."""
    chain = view.blocking_chain(container.id)
    first = view.container(chain.first) if chain.before else None
    whose = "first" if chain.is_whole else "first that was looked at"
    of_chain = f"; the {whose} of its chain is {chain.first} ({chain.before} before it)"
    if first is None:
        # That it waits for just this one, its own reason says.
        return of_chain if chain.before > 1 else ""
    if first.has_open_attempt:
        doing = _doing(view, first)
    else:
        reason = view.wait_reason(first.id)
        doing = f"waits: {_NOT_LOOKED_AT if reason is None else reason.message}"
    return f"{of_chain}, which {doing}" if chain.before > 1 else f"; {first.id} {doing}"


_NOT_LOOKED_AT = "no planning pass has looked at it yet"
_STATES = {
    ContainerState.SUCCEEDED: "has succeeded",
    ContainerState.FAILED: "has failed",
    ContainerState.CANCELLED: "was cancelled",
}


def _waiting(view: EngineView, container: Container, key: ClassKey, now: float) -> Waiting:
    pool = view.pool
    types, workers = _for_it(view, container)
    create_block_of = pool.create_blocks(now)

    def create_block(type_: InstanceType) -> CreateBlock | None:
        # Nothing is created for what is for one instance only.
        if container.pinned_to:
            return None
        return create_block_of(type_)

    verdicts = type_feasibility(
        types,
        key,
        max_price_factor=view.max_price_factor,
        create_block=create_block,
        as_new=whole if container.pinned_to else view.allocatable_left,
        as_found=whole if container.pinned_to else pool.as_found,
        scarce=() if container.pinned_to else view.types_given_up(key),
    )

    def is_offline(worker: Worker) -> bool:
        return pool.is_offline(worker, now)

    instances = node_summary(
        workers,
        key,
        verdicts={verdict.name: verdict for verdict in verdicts},
        rules=view.rules,
        is_offline=is_offline,
        kept=_kept(view, container, workers),
        now=now,
    )
    limits = [] if container.pinned_to else limit_usages(view, container, verdicts, now)
    verdicts = [_but(verdict, limits) for verdict in verdicts]
    eligible = {verdict.name for verdict in verdicts if verdict.eligible}
    created = [type_ for type_ in types if type_.name in eligible and not container.pinned_to]
    slot = view.claimed_slot(container.id)
    claim = _claim(view, slot) if slot is not None else None
    reason = view.wait_reason(container.id)
    due = _due(view, container, reason)
    return Waiting(
        reason=reason,
        position=view.position(container.id),
        types=verdicts,
        instances=instances,
        holds=[
            hold
            for hold in pool.holds(now)
            if any(pool.is_covered(hold, type_) for type_ in created)
        ],
        limits=limits,
        claim=claim,
        estimate=estimate(
            Situation(
                reason=reason,
                cannot_start=_cannot_start(view, container, key, reason),
                none_could_leave=_none_could_leave([create_block(type_) for type_ in created]),
                boots=spread(pool.statistics.time_to_ready_s),
                elapsed_s=_elapsed_s(slot, claim, now),
                due_in_s=None if due is None else due - now,
                held_for_s=_held_for_s([create_block(type_) for type_ in created], now),
                may_free_up=instances.count("exhausted") > 0,
                is_kept=instances.count("kept") > 0,
            )
        ),
    )


def _cannot_start(
    view: EngineView, container: Container, key: ClassKey, reason: WaitReason | None
) -> str:
    """Return who has to go before a container and can never start, and why; "" for nobody."""
    if reason is not None and reason.code == "max_running":
        why = view.class_reason(key)
        if why is None or not never(why):
            return ""
        return f"the others of its array cannot start either: {why.message}"
    chain = view.blocking_chain(container.id)
    first = view.container(chain.first) if chain.before else None
    if first is None:
        return ""
    why = view.wait_reason(first.id)
    if why is not None and why.code == "max_running":
        why = view.class_reason(view.key_of(first))
    if why is None or not never(why):
        return ""
    return f"{first.id} must end first, and cannot start: {why.message}"


def _none_could_leave(create_blocks: Sequence[CreateBlock | None]) -> bool:
    """Return whether the cloud refuses all types that would do though none of them is there."""
    short_of = (CreateBlockKind.NONE_ALLOWED, CreateBlockKind.CAPACITY)
    return bool(create_blocks) and all(h is not None and h.kind in short_of for h in create_blocks)


def _for_it(
    view: EngineView, container: Container
) -> tuple[Sequence[InstanceType], Sequence[Worker]]:
    """Return the types and the instances that it may be for; of a job for each, its own alone."""
    workers = view.pool.workers
    if not container.pinned_to:
        return list(view.types().values()), list(workers.values())
    own = workers.get(container.pinned_to)
    return ([], []) if own is None else ([own.type], [own])


_NOT_PROMISED = frozenset({"no_room", "too_small"})
"""The reasons of those daemons for which no room is kept."""


def _kept(
    view: EngineView, container: Container, workers: Sequence[Worker]
) -> Mapping[str, Resources]:
    """Return the room that others are promised before a container, by instance."""
    type_ = view.job_type(container.job_id)
    if type_ is None or not type_.has_own_scheduler:
        return view.reservations()
    kept = view.daemon_reservations()
    reason = view.wait_reason(container.id)
    if not container.pinned_to or (reason is not None and reason.code in _NOT_PROMISED):
        return kept
    # What is kept may be its own.
    spec, others = container.spec, {}
    for worker in workers:
        wanted = need(worker.type, spec.resources, spec.unnamed)
        others[worker.id] = clamped(kept.get(worker.id, NOTHING).minus(wanted))
    return others


def _due(view: EngineView, container: Container, reason: WaitReason | None) -> float | None:
    """Return when a container may start again at the soonest, None when nothing sets a time."""
    if reason is not None and Gate.OWN_SCHEDULER in view.gates(container.id):
        return reason.until
    return view.released_at(container.id)


def _claim(view: EngineView, slot: Slot) -> Claim:
    worker = view.pool.workers.get(slot.id)
    if worker is not None:
        return Claim(
            instance_id=slot.id,
            type_name=slot.type.name,
            since=worker.appeared_at,
            last_error=worker.health.last_error,
        )
    pending = view.pool.launches.get(slot.id)
    since = pending.launch.created_at if pending is not None else 0.0
    return Claim(instance_id="", type_name=slot.type.name, since=since)


def _elapsed_s(slot: Slot | None, claim: Claim | None, now: float) -> float | None:
    """Return how long the instance of a claim boots, 0.0 while there is none yet."""
    if slot is None or claim is None:
        return None
    return max(0.0, now - claim.since) if slot.kind is SlotKind.COMING else 0.0


def _held_for_s(create_blocks: Sequence[CreateBlock | None], now: float) -> float | None:
    """Return for how long none of some types may be created, None when one may be now."""
    ends = []
    for create_block in create_blocks:
        if create_block is None:
            return None
        ends.append(now if create_block.until is None else create_block.until)
    return max(0.0, min(ends) - now) if ends else None


def _but(verdict: TypeFeasibility, limits: Sequence[LimitUsage]) -> TypeFeasibility:
    """Return a verdict with the limit that keeps one of its type from being created now."""
    if verdict.blocked_by or not verdict.eligible:
        return verdict
    for limit in limits:
        if limit.closes(verdict):
            return replace(verdict, blocked_by=f"{limit.name} of {limit.limit:g} allows none now")
    return verdict
