"""Whether an instance is shut down, and why: the one place where that is decided; pure.

`shutdown_decision` goes through its cases in order, and the first that says more than when to look
again decides:

1. *Somebody asks for its end*: an admin kills it, or it is listed again that was let go while it
   ended. Whatever runs there and whatever its idle behavior. One that no listing has shown to this
   process, and that has no session, is killed once a listing shows it.
2. *It is held*, or may be, as far as its tags are known: it stays, whatever else is the case.
3. *The planner needs its place in a quota*, and it is idle with nothing left to fetch.
4. *It is of no use*: two listings call it stopped, the cloud says that it failed, or it was silent
   for too long. Not while the store is stalled, as nobody is asked anything then; after that each
   has its whole time anew. One that may run what a lost store has started is held instead.
5. *It drains* and nothing runs there that was not given up: an admin wants it; or we judge it to be
   of no use (starts that it refused in a row, a trial of its engine that failed, an attempt that
   survives KILL); or it says itself that it is broken; or the cloud takes it back; or its type is
   not configured any more.
6. *It is idle* for idle_timeout, and no claim waits for it.

The last two wait for logs that are still on their way, for probe_timeout at most. An instance that
listings lack is none of these: it counts as there, and its silence decides, until `pool.absence`
finds it gone. `pool.shutdown` gathers the facts and carries out what is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

from longshore.drivers.interface import Power
from longshore.pool.model import IdleBehavior, PoolSettings, Worker, WorkerState
from longshore.pool.tags import is_unrecognised
from longshore.pool.transitions import Trigger

NOT_READY: Final = frozenset({WorkerState.UNKNOWN, WorkerState.BOOTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutDown:
    """It is shut down now, for this."""

    trigger: Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """It is held, for an admin to say what becomes of it: it may run what nobody can look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillOnceListed:
    """It is killed as soon as a listing shows it: nobody knows yet whether it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecheckAt:
    """It stays, and is looked at again then, if nothing happens before."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """It stays until something happens."""


Decision = ShutDown | KillOnceListed | Hold | RecheckAt | Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownFacts:
    """What bears on a worker's fate and does not stand in its record."""

    #: What somebody asks for just now: KILLED, LISTED_AGAIN or UNWANTED.
    asked: Trigger | None
    #: Whether a claim waits for it, or it was let run again and no pass has looked at it since.
    is_claimed: bool
    #: Whether something keeps it busy that has not been given up.
    in_use: bool
    #: Whether its idle behavior was asked for, and no listing has shown that yet.
    behavior_asked: bool
    #: Whether another store may have known instances that nobody can reach.
    spares_unknown: bool
    #: Whether the store is stalled, and when that was over last.
    stalled: bool
    recovered_at: float


def shutdown_decision(
    worker: Worker, facts: ShutdownFacts, settings: PoolSettings, now: float
) -> Decision:
    """Return what becomes of a worker, as far as it stands now; see the top for the cases."""
    if worker.state is WorkerState.SHUTDOWN:
        return Keep()
    recheck_at = math.inf
    for case in _CASES:
        found = case(worker, facts, settings, now)
        match found:
            case None:
                pass
            case RecheckAt(at=at):
                recheck_at = min(recheck_at, at)
            case ShutDown() | KillOnceListed() | Hold() | Keep():
                return found
            case _:
                assert_never(found)
    return RecheckAt(at=recheck_at) if recheck_at < math.inf else Keep()


def is_draining(worker: Worker) -> bool:
    """Return whether a worker is to go when nothing runs on it.

    Because an admin wants it; or, unless it is held, because it is broken, the cloud takes it back
    or its type is not configured (any more). The latter are not written to its tags: they may not
    last.
    """
    if worker.behavior is not IdleBehavior.RUN:
        return worker.behavior is IdleBehavior.DRAIN
    return bool(worker.health.broken or worker.health.interruption) or is_unrecognised(worker.type)


def _asked(
    worker: Worker, facts: ShutdownFacts, _settings: PoolSettings, _now: float
) -> Decision | None:
    if facts.asked is Trigger.KILLED and worker.cloud.remembered and not worker.link.session_up:
        return KillOnceListed()
    if facts.asked in (Trigger.KILLED, Trigger.LISTED_AGAIN):
        return ShutDown(trigger=facts.asked)
    return None


def _held(
    worker: Worker, _facts: ShutdownFacts, _settings: PoolSettings, _now: float
) -> Decision | None:
    # Who is only remembered may be held, for all that is known.
    held = worker.behavior is IdleBehavior.HOLD or worker.cloud.remembered
    return Keep() if held else None


def _unwanted(
    worker: Worker, facts: ShutdownFacts, _settings: PoolSettings, _now: float
) -> Decision | None:
    may_go = worker.state is WorkerState.IDLE and not worker.load.unreleased
    asked = facts.asked is Trigger.UNWANTED
    return ShutDown(trigger=Trigger.UNWANTED) if asked and may_go else None


def _of_no_use(
    worker: Worker, facts: ShutdownFacts, settings: PoolSettings, now: float
) -> Decision | None:
    if facts.stalled:
        return None
    trigger, end_at = _told(worker), now
    if trigger is None:
        trigger, end_at = _timeout(worker, facts, settings)
    if trigger is None:
        return None
    if now < end_at:
        return RecheckAt(at=end_at)
    asked = worker.behavior is not IdleBehavior.RUN or facts.behavior_asked
    if not asked and trigger is not Trigger.STOPPED and _may_be_in_use(worker, facts):
        return Hold()
    return ShutDown(trigger=trigger)


def _told(worker: Worker) -> Trigger | None:
    """Return why the cloud's word on a worker ends it, None where it does not.

    Who has a session is there, whatever a listing says; what failed may run if it did so before.
    """
    if worker.link.session_up:
        return None
    if worker.cloud.power is Power.STOPPED and worker.cloud.power_listings > 1:
        # Some clouds say so for a moment while an instance boots, or its machine does.
        return Trigger.STOPPED
    never_ran = worker.state in NOT_READY and not worker.link.shown
    return Trigger.FAILED if worker.cloud.power is Power.FAILED and never_ran else None


def _timeout(
    worker: Worker, facts: ShutdownFacts, settings: PoolSettings
) -> tuple[Trigger | None, float]:
    """Return which timeout a worker has, None for none, and when it ends."""
    heard_at = max(worker.link.last_contact, facts.recovered_at)
    if worker.state in NOT_READY:
        end_at = max(worker.link.boots_since, facts.recovered_at) + settings.boot_timeout_s
        if is_draining(worker):
            # What was found there may end, as long as the instance is heard of (see `_drained`).
            if worker.link.session_up:
                return None, 0.0
            end_at = max(end_at, heard_at + settings.probe_timeout_s)
        return Trigger.BOOT_TIMEOUT, end_at
    if worker.link.session_up:
        return None, 0.0
    return Trigger.PROBE_TIMEOUT, heard_at + settings.probe_timeout_s


def _may_be_in_use(worker: Worker, facts: ShutdownFacts) -> bool:
    """Return whether a worker that was never reached may run what a lost store has started.

    With that store went what its key is proven by, so that nobody can look. It is held: an admin
    sees it among the leaks, and says what becomes of it.
    """
    provable = worker.link.host_key or worker.link.secret or worker.launched_here
    unseen = worker.state in NOT_READY and not worker.link.shown
    return facts.spares_unknown and unseen and not provable


def _drained(
    worker: Worker, facts: ShutdownFacts, settings: PoolSettings, now: float
) -> Decision | None:
    if not is_draining(worker):
        return None
    if worker.state is WorkerState.UNKNOWN and not worker.link.shown:
        return None
    if worker.state is WorkerState.BOOTING:
        return ShutDown(trigger=Trigger.DRAINED)
    if facts.in_use:
        return None
    return _once_released(worker, Trigger.DRAINED, facts, settings, now)


def _idle(
    worker: Worker, facts: ShutdownFacts, settings: PoolSettings, now: float
) -> Decision | None:
    if worker.state is not WorkerState.IDLE or facts.is_claimed or is_draining(worker):
        return None
    # While it rests (see `attempts._pause`) it might not have been used.
    idle_since = max(worker.state_since, worker.health.overloaded_until)
    end_at = idle_since + settings.idle_timeout_s
    if now < end_at:
        return RecheckAt(at=end_at)
    return _once_released(worker, Trigger.IDLE_TIMEOUT, facts, settings, now)


def _once_released(
    worker: Worker, trigger: Trigger, facts: ShutdownFacts, settings: PoolSettings, now: float
) -> Decision | None:
    """Let logs that are still on their way arrive, for probe_timeout at most."""
    if not worker.load.unreleased:
        return ShutDown(trigger=trigger)
    if facts.stalled:
        return None
    waits_since = max(worker.state_since, worker.load.last_busy, facts.recovered_at)
    latest = waits_since + settings.probe_timeout_s
    return RecheckAt(at=latest) if now < latest else ShutDown(trigger=trigger)


_Case = Callable[[Worker, ShutdownFacts, PoolSettings, float], Decision | None]
_CASES: Final[tuple[_Case, ...]] = (_asked, _held, _unwanted, _of_no_use, _drained, _idle)
