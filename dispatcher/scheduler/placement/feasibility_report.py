"""What each type and each instance says to a request class: yes, or what speaks against it; pure.

How all that is put together for one container is in `dispatcher.explain.explanation`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from longshore.dispatcher.domain.feasibility import (
    amounts_told,
    cheapest_with_room,
    label_rejections,
    need,
    price_order,
    rejections,
    what_is_left,
    whole,
)
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy
from longshore.dispatcher.scheduler.placement.wait_reasons import dollars
from longshore.dispatcher.state.queue import ClassKey
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge
from longshore.pool.holds import CreateBlock, CreateBlockKind
from longshore.pool.model import IdleBehavior, Worker, WorkerState

MOST_NAMED = 5
_NOTHING = Resources()


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFeasibility:
    """One instance type: whether it would do, why not, and why none is created all the same."""

    name: str
    price_usd_per_hour: Decimal
    preemptible: bool
    #: Why it never would do.
    rejections: tuple[str, ...]
    #: What keeps one from being created now, "" for nothing.
    blocked_by: str
    #: What daemons leave of a new instance, where that is too little, else "": one that is there
    #: may have room all the same.
    left: str = ""
    #: What its instances turned out to have, where that is too little, else "".
    found: str = ""
    #: The share of its price that is put on top where types are chosen from.
    waste: Decimal = Decimal(0)

    @property
    def eligible(self) -> bool:
        """Return whether a new instance of it would do."""
        return not self.rejections and not self.left

    @property
    def reasons_against(self) -> tuple[str, ...]:
        """Return why a new instance of it would not do, () when it would."""
        if self.found:
            return (*self.rejections, f"its instances turned out to have only {self.found}")
        daemons = (f"daemons leave {self.left}",) if self.left else ()
        return self.rejections + daemons


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterCount:
    """How many instances one cause keeps from taking a container; `ids` names a few of them.

    `detail` says of a single one what room is kept there, "" of others.
    """

    cause: str
    count: int
    ids: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """All instances by the first thing that keeps each from taking a container.

    `exhausted` counts the full ones again, by each dimension in which they lack room.
    """

    total: int
    fates: tuple[FilterCount, ...]
    exhausted: tuple[tuple[str, int], ...] = field(default=())

    def count(self, cause: str) -> int:
        """Return how many instances a cause concerns."""
        return next((fate.count for fate in self.fates if fate.cause == cause), 0)


def type_feasibility(
    types: Iterable[InstanceType],
    key: ClassKey,
    *,
    max_price_factor: float,
    create_block: Callable[[InstanceType], CreateBlock | None],
    as_new: Callable[[InstanceType], InstanceType] = whole,
    as_found: Callable[[InstanceType], InstanceType] = whole,
    scarce: Collection[str] = (),
) -> list[TypeFeasibility]:
    """Return what is to be said of each type, the cheapest first.

    `as_new` tells a type without what daemons take of each new instance, `as_found` as its
    instances turned out to be. Those that are `scarce`
    count no more for the class, since the cloud has had none for as long as it waits for them.
    """
    ordered = sorted(types, key=lambda type_: price_order(as_new(type_)))
    found = {
        type_.name: rejections(type_, key.resources, key.constraints, key.unnamed)
        for type_ in ordered
    }
    would_do = [type_ for type_ in ordered if not found[type_.name]]
    needs = {t.name: need(t, key.resources, key.unnamed) for t in would_do}
    left = {t.name: what_is_left(as_new(t), needs[t.name]) for t in would_do}
    turned_out = {t.name: what_is_left(as_found(t), needs[t.name]) for t in would_do}
    fitting = [type_ for type_ in would_do if not _given_up(type_, key, scarce)]
    for type_ in would_do if fitting else ():
        found[type_.name] += _given_up(type_, key, scarce)
    fitting = fitting or would_do
    if fitting:
        having = cheapest_with_room(fitting, key.resources, key.unnamed, as_new=as_new)
        cheapest = as_new(having or fitting[0])
        limit = cheapest.effective_usd_per_hour * Decimal(str(max_price_factor))
        for type_ in map(as_new, fitting):
            if not type_.prepaid and type_.effective_usd_per_hour > limit:
                found[type_.name].append(_too_dear(type_, cheapest, max_price_factor))
    return [
        TypeFeasibility(
            name=type_.name,
            price_usd_per_hour=type_.price_usd_per_hour,
            preemptible=type_.preemptible,
            rejections=tuple(found[type_.name]),
            blocked_by=_told(create_block(type_)),
            left=left.get(type_.name, ""),
            found=turned_out.get(type_.name, ""),
            waste=as_new(type_).waste,
        )
        for type_ in ordered
    ]


def _given_up(type_: InstanceType, key: ClassKey, scarce: Collection[str]) -> list[str]:
    """Return why a class has given a preemptible type up that would do, [] where it has not."""
    if key.lasting and type_.preemptible:
        return ["preemptible, and the cloud took too many back (max_reclaimed_attempts)"]
    if type_.name in scarce:
        return ["preemptible, and the cloud had none for too long (preemptible_patience_s)"]
    return []


def _too_dear(type_: InstanceType, cheapest: InstanceType, max_price_factor: float) -> str:
    return (
        f"{_priced(type_)} is more than {max_price_factor:g} times the "
        f"{_priced(cheapest)} of {cheapest.name}, the cheapest that would do "
        "(max_price_factor)"
    )


def _priced(type_: InstanceType) -> str:
    """Return what a type counts for where types are chosen from, with what is put on its price."""
    told = dollars(type_.effective_usd_per_hour)
    return f"{told} ({type_.waste:.0%} more, for lost work)" if type_.waste else told


_HELD = {
    CreateBlockKind.QUOTA: "at quota",
    CreateBlockKind.NONE_ALLOWED: "none allowed by the cloud's quota",
    CreateBlockKind.CAPACITY: "at capacity",
    CreateBlockKind.OTHER: "creates held",
}


def _told(create_block: CreateBlock | None) -> str:
    if create_block is None:
        return ""
    if create_block.until is None:
        return create_block.message
    return f"{_HELD[create_block.kind]} until {moment(create_block.until)}: {create_block.message}"


def node_summary(
    workers: Iterable[Worker],
    key: ClassKey,
    *,
    verdicts: Mapping[str, TypeFeasibility],
    rules: PackingPolicy,
    is_offline: Callable[[Worker], bool],
    kept: Mapping[str, Resources],
    now: float,
) -> NodeSummary:
    """Return what keeps each instance from taking one container of a class.

    `verdicts` are by the name of the type, `kept` is the room that others are promised, by the id
    of the instance. An instance whose labels are not the wanted ones counts
    there, whatever else there is to be said of it.
    """
    of_types: dict[str, str] = {}
    most = rules.most_containers
    alike: dict[_Shape, tuple[list[str], Worker]] = {}
    ids: dict[str, list[str]] = defaultdict(list)
    exhausted: Counter[str] = Counter()
    details: list[str] = []
    for worker in workers:
        name = worker.type.name
        if name not in of_types:
            of_types[name] = _of_type(worker.type, key, verdicts.get(name))
        cause = of_types[name] or _condition(worker, offline=is_offline(worker), now=now)
        if not cause and worker.id in key.avoided:
            cause = "avoided"
        if cause:
            ids[cause].append(worker.id)
            continue
        promised = kept.get(worker.id, _NOTHING)
        shape = (
            name,
            worker.load.free,
            promised,
            worker.load.on_shared_cpu,
            worker.load.busy_with >= most,
        )
        alike.setdefault(shape, ([], worker))[0].append(worker.id)
    for (_, _, promised, _, _), (found, worker) in alike.items():
        short = _shortages(worker, key, rules, worker.load.free)
        exhausted.update(dict.fromkeys(short, len(found)))
        kept_of = [] if short else _shortages(worker, key, rules, worker.load.free.minus(promised))
        details += [amounts_told(promised, kept_of)] if kept_of else []
        ids["exhausted" if short else "kept" if kept_of else "fits"] += found
    fates = tuple(
        FilterCount(
            cause=cause,
            count=len(ids[cause]),
            ids=tuple(sorted(ids[cause])[:MOST_NAMED]),
            detail=details[0] if cause == "kept" and len(ids[cause]) == 1 else "",
        )
        for cause in CAUSES
        if ids.get(cause)
    )
    total = sum(fate.count for fate in fates)
    return NodeSummary(total=total, fates=fates, exhausted=tuple(sorted(exhausted.items())))


_Shape = tuple[str, Resources, Resources, int, bool]
"""What instances have in common that lack room for the same: type, room, what is kept of it,
how many share the cpu, fullness."""


def _of_type(type_: InstanceType, key: ClassKey, verdict: TypeFeasibility | None) -> str:
    """Return what keeps all instances of a type from taking anything of a class, "" for nothing."""
    if label_rejections(type_, key.constraints):
        return "label"
    return "" if verdict is not None and not verdict.rejections else "type"


CAUSES: Mapping[str, tuple[str, str]] = {
    "label": ("lacks a wanted label", "lack a wanted label"),
    "type": ("is of a type that would not do", "are of a type that would not do"),
    "shutdown": ("is being shut down", "are being shut down"),
    "held": ("is held by an admin", "are held by an admin"),
    "draining": ("is drained", "are drained"),
    "interrupted": ("is being taken back", "are being taken back"),
    "broken": ("is broken", "are broken"),
    "missing": ("is missing from the cloud's listings", "are missing from the cloud's listings"),
    "offline": ("has lost contact", "have lost contact"),
    "booting": ("is not ready yet", "are not ready yet"),
    "overloaded": ("reports that it is overloaded", "report that they are overloaded"),
    "on_trial": (
        "is having its container engine tested, since nothing that was started there ran",
        "are having their container engine tested, since nothing that was started there ran",
    ),
    "backlogged": (
        "has too much output that the server cannot keep yet",
        "have too much output that the server cannot keep yet",
    ),
    "strays": (
        "runs what another store has started (see longshore strays list)",
        "run what another store has started (see longshore strays list)",
    ),
    "exhausted": ("is full", "are full"),
    "avoided": (
        "has lost it or could not run it before, so that it goes there last",
        "have lost it or could not run it before, so that it goes there last",
    ),
    "kept": (
        "has room that is kept for daemons or elastic jobs",
        "have room that is kept for daemons or elastic jobs",
    ),
    "fits": ("has room", "have room"),
}
"""What may be said of one instance, and of several, in the order in which it is told."""


def said_of(cause: str, count: int) -> str:
    """Return what is said of so many instances."""
    one, several = CAUSES[cause]
    return one if count == 1 else several


_UP = (WorkerState.IDLE, WorkerState.RUNNING)


def _condition(worker: Worker, *, offline: bool, now: float) -> str:
    """Return what keeps a worker from taking anything, "" for nothing."""
    is_up = worker.state in _UP and worker.behavior is IdleBehavior.RUN and not offline
    is_sound = (
        not worker.health.broken and not worker.health.interruption and not worker.cloud.unseen
    )
    if is_up and is_sound and worker.takes_more(now):
        return ""
    facts = (
        ("shutdown", worker.state is WorkerState.SHUTDOWN),
        ("held", worker.behavior is IdleBehavior.HOLD),
        ("draining", worker.behavior is IdleBehavior.DRAIN),
        ("interrupted", bool(worker.health.interruption)),
        ("broken", bool(worker.health.broken)),
        ("missing", worker.cloud.unseen),
        ("booting", worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING)),
        ("offline", offline),
        ("overloaded", now < worker.health.overloaded_until),
        ("on_trial", worker.health.on_trial),
        ("backlogged", worker.load.backlogged),
        ("strays", bool(worker.load.unaccounted)),
    )
    return next((cause for cause, is_so in facts if is_so), "")


def _shortages(worker: Worker, key: ClassKey, rules: PackingPolicy, free: Resources) -> list[str]:
    """Return in which dimensions a worker lacks room of which so much is free, [] for none."""
    wanted = charge(
        need(worker.type, key.resources, key.unnamed), on_shared_cpu=worker.load.on_shared_cpu
    )
    short = wanted.shortages(free)
    if rules.is_full(worker.load.busy_with):
        short.append("containers")
    return short
