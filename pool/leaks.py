"""What is billed and not wanted: instances that the pool would end, if only it could.

A normal boot, work, an idle instance within its timeout, and one that is held and well are wanted.
What an admin holds although it is of no use, what the cloud does not end, and what nobody can see
is not; nor is what an instance has left behind, of which `pool/remote/leftovers.py` knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import assert_never

from longshore.drivers.interface import TOKEN_TAG, Leftover
from longshore.pool import strays
from longshore.pool.core import PoolCore
from longshore.pool.model import (
    Doubtful,
    IdleBehavior,
    PendingLaunch,
    PoolAttempt,
    Worker,
    WorkerState,
)
from longshore.pool.shutdown import in_use
from longshore.pool.tags import is_unrecognised

_LEAST_PATIENCE_S = 300.0
"""Real clouds list an instance that is ending for minutes."""
_SHUTDOWN_TIMEOUTS = 3
"""After how many repetitions of the destroy call an instance should have left the listing."""
_MISSING_PATIENCE_S = 60.0
"""For how long an instance may be missing from listings: a single one that lacks it is passing."""
_NAMED = 5
"""How many strays are named in a sentence."""
_NOTHING = Decimal(0)
REFUSALS = 2
"""How many destroy calls in a row must fail: a single failure is passing, as a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What `looks` looks in a row have shown, the first at `since`, in seconds since the epoch."""

    leftover: Leftover
    since: float
    looks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverReport:
    """What stays of instances that are gone, and why that cannot be told ("": it can)."""

    items: tuple[LeftBehind, ...] = ()
    problem: str = ""


NO_LEFTOVERS = LeftoverReport()


class LeakKind(Enum):
    """Why something is billed and not wanted, the gravest first."""

    DESTROY_FAILING = "destroy_failing"
    NOT_ENDING = "not_ending"
    UNCONFIRMED = "unconfirmed"
    MISSING = "missing"
    DOUBTFUL = "doubtful"
    LAUNCH_UNANSWERED = "launch_unanswered"
    SILENT_HELD = "silent_held"
    BROKEN_HELD = "broken_held"
    STRAYS_KEPT = "strays_kept"
    UNCONFIGURED_HELD = "unconfigured_held"
    LEFT_BEHIND = "left_behind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """What is, or may be, billed and not wanted: an instance, a launch, or what is left of an
    instance.
    """

    #: "" for a launch whose instance is not known, and for what an instance left behind.
    instance_id: str
    #: "" for an instance, and for what one left behind.
    launch_token: str
    type_name: str
    kind: LeakKind
    #: When it became unwanted, in seconds since the epoch, as far as this process knows.
    since: float
    why: str
    remedy: str
    #: The id of what an instance left behind, "" for the others.
    resource_id: str = ""
    #: What an hour of it costs now, what it has cost since it became unwanted, and how much of that
    #: is uncertain. The pool knows nothing of money: whoever has the ledger fills them in. 0 where
    #: nobody knows it.
    price_usd_per_hour: Decimal = _NOTHING
    cost_usd: Decimal = _NOTHING
    uncertain_usd: Decimal = _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    kind: LeakKind
    since: float
    why: str


def find_leaks(core: PoolCore, now: float) -> list[Leak]:
    """Return what is billed and not wanted: instances by id, then launches by token; a copy.

    `now` is in seconds since the epoch. Before the first complete listing nothing is concluded, and
    the list is empty: see `listing_is_current`.
    """
    if not core.listed_once:
        return []
    leaks = []
    for _, worker in sorted(core.workers.items()):
        finding = _of_worker(core, worker, now)
        if finding is not None:
            leaks.append(_instance_leak(core, worker, finding))
    leaks += [_doubtful_leak(core, doubtful) for _, doubtful in sorted(core.doubtful.items())]
    for _, pending in sorted(core.launches.items()):
        if _may_be_billed(core, pending, now):
            leaks.append(_launch_leak(core, pending))
    return leaks


def listing_is_current(core: PoolCore, now: float) -> bool:
    """Return whether the last listing that was due came, and was complete.

    When it did not, there may be instances that the pool cannot know of.
    """
    settings = core.settings
    latest_s = settings.sync_interval_s + 2 * settings.cloud_call_timeout_s
    return core.listed_once and not core.listing_failures and now - core.listed_at <= latest_s


def _of_worker(core: PoolCore, worker: Worker, now: float) -> _Finding | None:
    if worker.state is WorkerState.SHUTDOWN:
        return _of_shutdown(core, worker, now) or _missing(worker, now)
    if worker.cloud.missing_since is not None or worker.cloud.remembered:
        return _missing(worker, now)
    if found := strays.undecided_on(core, worker):
        return _kept(found)
    if worker.behavior is IdleBehavior.HOLD:
        return _silent(core, worker, now) or _useless(core, worker)
    return None


def _kept(found: Sequence[PoolAttempt]) -> _Finding:
    """Return what is told of strays that wait for an admin's word."""
    names = [each.container_id or each.remote_id for each in found]
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return _Finding(
        kind=LeakKind.STRAYS_KEPT,
        since=min(each.found_at for each in found),
        why=f"it runs {len(names)} attempts of another store, which nobody here knows: {shown}",
    )


def _patience_s(core: PoolCore) -> float:
    return max(_LEAST_PATIENCE_S, _SHUTDOWN_TIMEOUTS * core.settings.shutdown_timeout_s)


def _of_shutdown(core: PoolCore, worker: Worker, now: float) -> _Finding | None:
    if worker.link.session_up:
        # Its residents have their time, which is bounded.
        return None
    since = worker.shutdown.destroyed_at
    reason = worker.shutdown.reason
    told = f"it is being shut down ({reason})" if reason else "it shuts down"
    if worker.shutdown.destroy_failures >= REFUSALS:
        return _Finding(
            kind=LeakKind.DESTROY_FAILING,
            since=since,
            why=f"{told}, and the last {worker.shutdown.destroy_failures} destroy calls failed: "
            f"{worker.shutdown.destroy_error}",
        )
    lasts_s = worker.cloud.listed_at - since
    if lasts_s >= _patience_s(core):
        return _Finding(
            kind=LeakKind.NOT_ENDING,
            since=since,
            why=f"{told}, and the cloud still lists it {lasts_s:.0f} s later",
        )
    unseen_s = now - max(since, core.listed_at)
    if not listing_is_current(core, now) and unseen_s >= _patience_s(core):
        return _Finding(
            kind=LeakKind.UNCONFIRMED,
            since=since,
            why=f"{told}, and for {unseen_s:.0f} s no complete listing could tell whether it is "
            f"gone ({core.listing_failures} failed)",
        )
    return None


def _missing(worker: Worker, now: float) -> _Finding | None:
    """Return that nobody can use a worker while listings lack it, though it counts as there."""
    since = worker.appeared_at if worker.cloud.remembered else worker.cloud.missing_since
    if since is None or now - since < _MISSING_PATIENCE_S:
        return None
    why = (
        f"the cloud's listings have lacked it for {now - since:.0f} s, and nothing says it is gone"
    )
    return _Finding(kind=LeakKind.MISSING, since=since, why=why)


def _silent(core: PoolCore, worker: Worker, now: float) -> _Finding | None:
    """Return what would have ended a worker by its boot or probe timeout, were it not held."""
    settings = core.settings
    because = f" ({worker.health.last_error})" if worker.health.last_error else ""
    if worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING):
        if worker.link.session_up and in_use(core, worker):
            return None
        since, limit_s = worker.appeared_at, settings.boot_timeout_s
        why = f"it is held, and has not become ready in {now - since:.0f} s{because}"
    elif not worker.link.session_up:
        since, limit_s = worker.link.last_contact, settings.probe_timeout_s
        why = f"it is held, and has been silent for {now - since:.0f} s{because}"
    else:
        return None
    if now - since < limit_s:
        return None
    return _Finding(kind=LeakKind.SILENT_HELD, since=since, why=why)


def _useless(core: PoolCore, worker: Worker) -> _Finding | None:
    """Return why a worker that is reached is of no use, once nothing keeps it busy any more."""
    if worker.state in (WorkerState.UNKNOWN, WorkerState.BOOTING) or in_use(core, worker):
        return None
    empty_since = max(worker.load.last_busy, worker.appeared_at)
    if worker.health.broken:
        return _Finding(
            kind=LeakKind.BROKEN_HELD,
            since=max(empty_since, worker.health.broken_at),
            why=f"it is held, and broken: {worker.health.broken}",
        )
    if is_unrecognised(worker.type):
        return _Finding(
            kind=LeakKind.UNCONFIGURED_HELD,
            since=empty_since,
            why="it is held, and gets no work: its type is not in the configuration",
        )
    return None


def _may_be_billed(core: PoolCore, pending: PendingLaunch, now: float) -> bool:
    """Return whether a launch's answer is lost and the planner does not wait for it (any more)."""
    if pending.lost_answer_at is None or not pending.is_in_doubt:
        # What came of it is told as such, where that is in doubt.
        return False
    return not pending.counted or now - pending.lost_answer_at >= _patience_s(core)


def _instance_leak(core: PoolCore, worker: Worker, finding: _Finding) -> Leak:
    return Leak(
        instance_id=worker.id,
        launch_token="",
        type_name=worker.type.name,
        kind=finding.kind,
        since=finding.since,
        why=finding.why,
        remedy=_remedy(core, finding.kind, worker.id),
    )


def _doubtful_leak(core: PoolCore, doubtful: Doubtful) -> Leak:
    since, until = doubtful.appeared_at, doubtful.let_go_at
    return Leak(
        instance_id=doubtful.id,
        launch_token="",
        type_name=doubtful.type.name,
        kind=LeakKind.DOUBTFUL,
        since=since,
        why="a create call was answered with it, and in "
        f"{until - since:.0f} s no listing showed it: nobody knows whether it is there",
        remedy=_remedy(core, LeakKind.DOUBTFUL, doubtful.id),
    )


def _launch_leak(core: PoolCore, pending: PendingLaunch) -> Leak:
    launch = pending.launch
    return Leak(
        instance_id="",
        launch_token=launch.token,
        type_name=launch.type_name,
        kind=LeakKind.LAUNCH_UNANSWERED,
        since=launch.created_at,
        why="nobody knows whether its create call made an instance, and no listing has shown one",
        remedy=_remedy(core, LeakKind.LAUNCH_UNANSWERED, launch.token),
    )


def leftover_leak(core: PoolCore, leftover: Leftover, since: float) -> Leak:
    """Return the leak that something is which an instance has left behind.

    `since` is when it was first seen without one, in seconds since the epoch. What it costs nobody
    knows.
    """
    detail = f" ({leftover.detail})" if leftover.detail else ""
    return Leak(
        instance_id="",
        launch_token="",
        resource_id=leftover.id,
        type_name="",
        kind=LeakKind.LEFT_BEHIND,
        since=since,
        why=f"this {leftover.kind}{detail} has the tag of this cluster, and no instance has it",
        remedy=_remedy(core, LeakKind.LEFT_BEHIND, leftover.id),
    )


_COMMANDS = {
    LeakKind.SILENT_HELD: "repair it, or destroy it: longshore instance kill {0}",
    LeakKind.STRAYS_KEPT: "end or adopt them: longshore strays kill {0}, or strays adopt {0}",
    LeakKind.BROKEN_HELD: "let it end: longshore instance drain {0}",
    LeakKind.UNCONFIGURED_HELD: "let it end: longshore instance drain {0}",
}
"""What an admin may say, with the instance's id, of what is kept for its hold or its strays."""


def _remedy(core: PoolCore, kind: LeakKind, name: str) -> str:
    """Return what an admin can do; `name` is the id of what leaks, or the launch's token."""
    again_s = f"{core.settings.shutdown_timeout_s:g} s"
    match kind:
        case LeakKind.DESTROY_FAILING:
            remedy = f"mend what the error says; it is tried again every {again_s}"
        case LeakKind.NOT_ENDING:
            remedy = f"end it in the cloud's console; destroy is repeated every {again_s}"
        case LeakKind.UNCONFIRMED:
            remedy = "repair the listings: check credentials, network and the cloud's status page"
        case LeakKind.MISSING:
            remedy = (
                "see that the server asks the right region, endpoint and account; it counts until "
                "it is listed, or the cloud says that it has ended, or it neither answers nor is "
                f"listed for gone_after_s ({core.settings.gone_after_s:g} s)"
            )
        case LeakKind.DOUBTFUL:
            remedy = (
                f"look for {name} in the cloud's console, and end it there if it is; it is taken "
                "up, or destroyed, if a listing shows it after all"
            )
        case LeakKind.LAUNCH_UNANSWERED:
            remedy = (
                f"look in the cloud's console for the tag {TOKEN_TAG}={name} and end what has it"
            )
        case LeakKind.LEFT_BEHIND:
            remedy = f"make sure that nobody needs it, and delete {name} in the cloud's console"
        case (
            LeakKind.SILENT_HELD
            | LeakKind.STRAYS_KEPT
            | LeakKind.BROKEN_HELD
            | LeakKind.UNCONFIGURED_HELD
        ):
            remedy = _COMMANDS[kind].format(name)
        case _:
            assert_never(kind)
    return remedy
