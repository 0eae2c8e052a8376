"""What keeps the cloud from being used, in sentences for whoever is on call; pure."""

from __future__ import annotations

from drivers.errors import AmbiguousResult, CloudAuthError
from pool.core import PoolCore
from pool.holds import HoldCause
from pool.leaks import listing_is_current
from pool.model import Worker
from pool.room import shortfall

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


def smaller_machines(pool: PoolCore) -> list[str]:
    """Return which types' machines are smaller than the types say, a sentence each.

    That keeps nothing from being placed, but for what fits on none of them.
    """
    by_type: dict[str, list[Worker]] = {}
    for _, worker in sorted(pool.workers.items()):
        if shortfall(worker.type, worker.machine):
            by_type.setdefault(worker.type.name, []).append(worker)
    return [
        f"{_counted(workers, name)} smaller than the type says: {workers[0].id} has only"
        f" {shortfall(workers[0].type, workers[0].machine)}; correct instance_types.{name}, or"
        " have the cloud make what it says"
        for name, workers in sorted(by_type.items())
    ]


def _counted(workers: list[Worker], type_name: str) -> str:
    number = len(workers)
    return (
        f"{number} instances of type {type_name} are"
        if number > 1
        else (f"an instance of type {type_name} is")
    )


def unreached(pool: PoolCore, instance_id: str, now: float, heard_at: float) -> str:
    """Return why nothing comes from an instance, "" while there is a session with it.

    `now` and `heard_at`, when it was last heard (0.0 for never), are in seconds since the epoch.
    """
    worker = pool.workers.get(instance_id)
    if worker is None:
        return f"instance {instance_id} is not reached, since no listing of the cloud shows it"
    if worker.session_up:
        return ""
    heard_at = max(worker.last_contact, heard_at)
    since = f", last heard {now - heard_at:.0f} s ago" if heard_at else ""
    why = f" ({worker.last_error})" if worker.last_error else ""
    return f"instance {instance_id} is not reached{since}{why}"


def unlisted(pool: PoolCore) -> str:
    """Return what is said, with why, until a first listing has told which instances there are."""
    return f"the cloud's first complete listing is not in yet{_listing_problem(pool)}"


def _listing_problem(pool: PoolCore) -> str:
    return f": {pool.listing_problem}" if pool.listing_problem else ""
