"""What keeps the cloud from being used, in sentences for whoever is on call; pure."""

from __future__ import annotations

from drivers.errors import AmbiguousResult, CloudAuthError
from pool.core import PoolCore
from pool.holds import HoldCause
from pool.leaks import listing_is_current

STILLBORN_PROBLEM = 3


def cloud_problems(pool: PoolCore, now: float) -> list[str]:
    """Return what is wrong with the cloud or with what it makes, each with why, [] for nothing.

    `now` is in seconds since the epoch.
    """
    problems = []
    if not pool.listed_once:
        problems.append(unlisted(pool))
    elif pool.listing_failures:
        why = _listing_problem(pool)
        problems.append(f"the last {pool.listing_failures} listings of the cloud failed{why}")
    elif not listing_is_current(pool, now):
        old_s = now - pool.listed_at
        problems.append(f"the last complete listing of the cloud is {old_s:.0f} s old")
    refused = pool.holds.unended(HoldCause.ERROR, now)
    if refused is not None and refused.error == CloudAuthError.__name__:
        problems.append(f"the last create failed: {refused.reason}")
    if refused is not None and refused.error == AmbiguousResult.__name__:
        told = "nobody knows whether the last creates made instances"
        problems.append(f"{told}: {refused.reason}")
    stillborn = pool.holds.of(HoldCause.STILLBORN, now)
    if stillborn is not None and pool.stillborn >= STILLBORN_PROBLEM:
        problems.append(f"creating is slowed down: {stillborn.reason}")
    return problems


def unlisted(pool: PoolCore) -> str:
    """Return what is said, with why, until a first listing has told which instances there are."""
    return f"the cloud's first complete listing is not in yet{_listing_problem(pool)}"


def _listing_problem(pool: PoolCore) -> str:
    return f": {pool.listing_problem}" if pool.listing_problem else ""
