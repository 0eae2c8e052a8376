"""When a waiting container may start: a range, with what it rests on; pure.

It never guesses: what was not measured is not known, and what runs has no end that anybody knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from longshore.dispatcher.domain.containers import WaitReason
from longshore.pool.histogram import Histogram

_LOW = 0.1
_HIGH = 0.9
_NEVER = {
    "held": "it starts only after its priority is set above 0",
    "job_held": "it starts only after its job is released",
    "no_type": "it starts only when a type that would do is configured",
    "too_small": "never: the instance that it is for is too small for it, however empty",
}
_FIRST = {
    "behind": "whatever is next in line must get its place first",
    "no_room_on_new": "room must come free on an instance that there is",
    "elsewhere": "room must come free on an instance that has not lost it",
    "at_quota": "an instance must end or room come free first",
    "max_containers": "another container must end first",
    "supervisors": "another supervisor must end first",
    "spend_limit": "something that is paid for must end first",
    "earlier_attempt": "its earlier process must end first",
    "after": "what it waits for must end first",
    "max_running": "another of its array must end first",
    "evicting": "those who make way for it must end first",
}
_NOTHING_IS_PLACED = {
    "not_listed": "the cloud must first tell which instances there are",
    "pass_failed": "a planning pass must succeed first; report the error in the server's log",
}
_ENDING = "nobody knows how long what is running will take"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """When a container starts, in seconds from now; None where nobody knows, as `basis` says."""

    earliest_s: float | None
    latest_s: float | None
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How long most took: between the 10th and the 90th of a hundred, as far as was counted.

    `high_s` is None where that is beyond the histogram's last bound.
    """

    low_s: float
    high_s: float | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What an estimate is made from; times are in seconds."""

    reason: WaitReason | None
    #: None where no boot was measured.
    boots: Spread | None
    #: How long the instance that the container has a place on has been booting, None where it has
    #: none.
    elapsed_s: float | None = None
    #: When its restart is due.
    due_in_s: float | None = None
    #: For how long holds keep all types that would do from being created.
    held_for_s: float | None = None
    #: Whether some instance that would do is only full.
    may_free_up: bool = False
    #: Whether what room there is on one is kept for others.
    is_kept: bool = False
    #: Who has to go first and never can, in a sentence, "" for nobody.
    cannot_start: str = ""
    #: Whether the cloud refuses all types though no instance of them is there.
    none_could_leave: bool = False


def spread(times: Histogram) -> Spread | None:
    """Return how long most took, None when nothing was counted."""
    count = times.count
    if not count:
        return None
    cumulative = times.cumulative()
    low = next(i for i, total in enumerate(cumulative) if total > _LOW * count)
    high = next(i for i, total in enumerate(cumulative) if total >= _HIGH * count)
    return Spread(
        low_s=times.bounds[low - 1] if low else 0.0,
        high_s=times.bounds[high] if high < len(times.bounds) else None,
        count=count,
    )


def never(reason: WaitReason) -> bool:
    """Return whether what waits for a reason never starts while things are what they are."""
    return reason.is_final or reason.code in _NEVER


def estimate(now_is: Situation) -> Estimate:
    """Return when a waiting container may start."""
    code = now_is.reason.code if now_is.reason is not None else ""
    if code in _NEVER:
        return Estimate(earliest_s=None, latest_s=None, basis=_NEVER[code])
    if now_is.reason is not None and now_is.reason.is_final:
        basis = "never, while the limit is what it is"
        return Estimate(earliest_s=None, latest_s=None, basis=basis)
    if now_is.cannot_start:
        basis = f"never, as things are: {now_is.cannot_start}"
        return Estimate(earliest_s=None, latest_s=None, basis=basis)
    if now_is.elapsed_s is not None:
        return _on_what_comes(now_is.boots, now_is.elapsed_s)
    if now_is.due_in_s is not None and code not in _FIRST:
        what = "it may start then" if code == "not_before" else "its restart is due then"
        basis = f"{what}; nobody knows whether there will be room then"
        return Estimate(earliest_s=max(0.0, now_is.due_in_s), latest_s=None, basis=basis)
    return _without_a_place(now_is, code)


def _without_a_place(now_is: Situation, code: str) -> Estimate:
    """Return when one that has no place may start; nobody knows at the latest when."""
    if code in _FIRST and not (code == "at_quota" and now_is.none_could_leave):
        why = f"{_FIRST[code]}, and {_ENDING}"
    elif now_is.held_for_s is not None or code == "creating":
        found = _after_holds(now_is.boots, now_is.held_for_s or 0.0)
        if not (now_is.may_free_up or now_is.is_kept):
            return found
        return replace(found, earliest_s=0.0, basis=f"room comes free first, or {found.basis}")
    elif now_is.is_kept:
        why = f"more room must come free than is kept for daemons or elastic jobs, and {_ENDING}"
    elif now_is.may_free_up:
        why = f"what would do is full: it may start when room comes free, and {_ENDING}"
    else:
        undecided = "the last planning pass does not tell"
        basis = _NOTHING_IS_PLACED.get(code, undecided)
        return Estimate(earliest_s=None, latest_s=None, basis=basis)
    return Estimate(earliest_s=0.0, latest_s=None, basis=why)


def _on_what_comes(boots: Spread | None, elapsed_s: float) -> Estimate:
    """Return when an instance that has been coming for a while is ready."""
    if boots is None:
        basis = "its instance is coming; none has become ready yet from which to tell how long"
        return Estimate(earliest_s=0.0, latest_s=None, basis=f"{basis} that takes")
    earliest = max(0.0, boots.low_s - elapsed_s)
    if boots.high_s is None or elapsed_s > boots.high_s:
        basis = f"its instance takes longer than most of the last did ({_told(boots)})"
        return Estimate(earliest_s=earliest, latest_s=None, basis=basis)
    basis = f"its instance is coming: {_told(boots)}; unless something of higher priority comes"
    return Estimate(earliest_s=earliest, latest_s=boots.high_s - elapsed_s, basis=basis)


def _after_holds(boots: Spread | None, held_for_s: float) -> Estimate:
    """Return when an instance that may be asked for only later may be ready."""
    first = "a new instance must be created"
    first += f", which is not tried for another {held_for_s:.0f} s" if held_for_s > 0 else ""
    how_long = (
        _told(boots) if boots is not None else "how long that takes has not been measured yet"
    )
    basis = f"{first}; {how_long}; nobody knows whether the cloud will create one then"
    low_s = boots.low_s if boots is not None else 0.0
    return Estimate(earliest_s=held_for_s + low_s, latest_s=None, basis=basis)


def _told(boots: Spread) -> str:
    if boots.high_s is None:
        return f"of {boots.count} that became ready, most took longer than {boots.low_s:g} s"
    return f"of {boots.count} that became ready, most took {boots.low_s:g} s to {boots.high_s:g} s"
