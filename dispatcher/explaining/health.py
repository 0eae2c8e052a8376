"""What keeps the cloud from being used, in sentences for whoever is on call; pure."""

from __future__ import annotations

from drivers.errors import CloudAuthError
from pool.core import PoolCore
from pool.holds import HoldCause

STILLBORN_PROBLEM = 3


def cloud_problems(pool: PoolCore, now: float) -> list[str]:
    """Return what is wrong with the cloud or with what it makes, each with why, [] for nothing.

    `now` is in seconds since the epoch.
    """
    problems = []
    why = f": {pool.listing_problem}" if pool.listing_problem else ""
    if not pool.listed_once:
        problems.append(f"the cloud's first complete listing is not in yet{why}")
    elif pool.listing_failures:
        problems.append(f"the last {pool.listing_failures} listings of the cloud failed{why}")
    refused = pool.holds.unended(HoldCause.ERROR, now)
    if refused is not None and refused.error == CloudAuthError.__name__:
        problems.append(f"the last create failed: {refused.reason}")
    stillborn = pool.holds.of(HoldCause.STILLBORN, now)
    if stillborn is not None and pool.stillborn >= STILLBORN_PROBLEM:
        problems.append(f"creating is slowed down: {stillborn.reason}")
    return problems
