"""What is wrong, and lasts, in sentences for whoever is on call; pure.

It is told until it is over, or until something succeeds, and not only between two tries.
"""

from __future__ import annotations

from typing import Final, assert_never

from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.domain.views import Problem, ProblemKind
from longshore.pool.charging import shortfall
from longshore.pool.leaks import REFUSALS
from longshore.pool.model import Worker, WorkerState
from longshore.pool.troubles import Trouble, TroubleKind
from longshore.pool.view import PoolView

BOOT_FAILURES_PROBLEM = 3
_QUIET_S: Final = 600.0
"""How long nobody asks for creates that fail until nobody is taken to wait for them."""


def cloud_problems(pool: PoolView, now: float) -> list[Problem]:
    """Return what is wrong with the cloud or with what it makes, each with why, [] for nothing.

    `now` is in seconds since the epoch.
    """
    problems = [*_listings(pool, now)]
    problems += [
        _creates(each) for each in pool.create_troubles() if not _is_quiet(pool, each, now)
    ]
    if pool.boot_failures >= BOOT_FAILURES_PROBLEM:
        problems.append(
            Problem(
                kind=ProblemKind.BOOTS,
                since=pool.boot_failures_since,
                message=f"creating is slowed down: the last {pool.boot_failures} instances were of"
                f" no use: {pool.boot_failure_reason}",
            )
        )
    return problems + _destroys(pool)


def _listings(pool: PoolView, now: float) -> list[Problem]:
    trouble, kind, since = pool.listing_trouble, ProblemKind.LISTINGS, pool.listed_at
    if trouble is not None:
        since = trouble.since
        if trouble.kind is TroubleKind.REFUSED:
            kind = ProblemKind.CREDENTIALS
    if not pool.listed_once:
        since, message = pool.began_at, unlisted(pool)
    elif pool.listing_failures:
        times = f"{pool.listing_failures} listings" if pool.listing_failures > 1 else "listing"
        message = f"the last {times} of the cloud failed{_listing_problem(pool)}"
    elif not pool.is_listing_current(now):
        message = f"the last complete listing of the cloud is {now - pool.listed_at:.0f} s old"
    else:
        return []
    return [Problem(kind=kind, since=since, message=message)]


def _creates(trouble: Trouble) -> Problem:
    of_type = f" of type {trouble.type_name}" if trouble.type_name else ""
    match trouble.kind:
        case TroubleKind.REFUSED:
            kind, told = ProblemKind.CREDENTIALS, f"the last create{of_type} failed"
        case TroubleKind.DOUBT:
            kind = ProblemKind.CREATES_IN_DOUBT
            told = f"nobody knows whether the last creates{of_type} made instances"
        case TroubleKind.FAILED:
            kind, told = ProblemKind.CREATES, f"no create{of_type} succeeds"
        case _:
            assert_never(trouble.kind)
    return Problem(kind=kind, since=trouble.since, message=f"{told}: {trouble.reason}")


def failed_last(pool: PoolView, now: float) -> list[str]:
    """Return which creates failed when they were last tried, and that nobody has asked for since.

    Nobody is kept waiting by that: it is worth a look by day, and no page at night.
    """
    found = []
    for trouble in pool.create_troubles():
        if _is_quiet(pool, trouble, now):
            of_type = f" of type {trouble.type_name}" if trouble.type_name else ""
            found.append(
                f"creates{of_type} failed from {moment(trouble.since)} until they were last tried,"
                f" at {moment(trouble.latest_at)}, and nobody has waited for one since:"
                f" {trouble.reason}"
            )
    return found


def _is_quiet(pool: PoolView, trouble: Trouble, now: float) -> bool:
    """Return whether creates that fail are asked for by nobody any more.

    They would have been tried again by now. What refuses credentials is wrong with all that comes.
    """
    if trouble.kind is TroubleKind.REFUSED or pool.stalled:
        return False
    if now - max(trouble.latest_at, pool.recovered_at) < _QUIET_S:
        return False
    name = trouble.type_name
    if any(not name or each.launch.type_name == name for each in pool.launches.values()):
        return False
    type_ = pool.types.get(name)
    return not any(type_ is None or pool.is_covered(each, type_) for each in pool.holds(now))


def _destroys(pool: PoolView) -> list[Problem]:
    """Return that instances cannot be ended; `longshore leaks` has each of them."""
    refused = [
        worker
        for _, worker in sorted(pool.workers.items())
        if worker.state is WorkerState.SHUTDOWN and worker.shutdown.destroy_failures >= REFUSALS
    ]
    if not refused:
        return []
    first = refused[0]
    who = first.id if len(refused) == 1 else f"{len(refused)} instances ({first.id} and others)"
    why = first.shutdown.destroy_error
    return [
        Problem(
            kind=ProblemKind.DESTROYS,
            since=min(worker.state_since for worker in refused),
            message=f"{who} cannot be destroyed, and is still billed: {why}",
        )
    ]


def advice_of(pool: PoolView) -> list[str]:
    """Return what would make instances better by their own word, each once, with who says it."""
    said: dict[str, list[str]] = {}
    for worker in sorted(pool.workers.values(), key=lambda w: w.id):
        if worker.health.advice:
            said.setdefault(worker.health.advice, []).append(worker.id)
    return [f"{_some(ids)}: {advice}" for advice, ids in sorted(said.items())]


def _some(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"


def without_price(pool: PoolView) -> list[str]:
    """Return which types have instances and no price, in a sentence, [] for none.

    What they cost is in no total, and no limit of spending ends their use.
    """
    workers = pool.workers.values()
    names = sorted({w.type.name for w in workers if not w.type.price_usd_per_hour})
    known = ", ".join(name for name in names if name in pool.types)
    told = f"instances of {known} have no price, and are counted as costing nothing"
    return [f"{told}: set price_per_hour of the type in instance_types"] if known else []


def smaller_machines(pool: PoolView) -> list[str]:
    """Return which types' machines are smaller than the types say, a sentence each.

    That keeps nothing from being placed, but for what fits on none of them.
    """
    by_type: dict[str, list[Worker]] = {}
    for _, worker in sorted(pool.workers.items()):
        if shortfall(worker.type, worker.load.machine):
            by_type.setdefault(worker.type.name, []).append(worker)
    return [
        f"{_counted(workers, name)} smaller than the type says: {workers[0].id} has only"
        f" {shortfall(workers[0].type, workers[0].load.machine)}; correct instance_types.{name}, or"
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


def unreached(pool: PoolView, instance_id: str, now: float, heard_at: float) -> str:
    """Return why nothing comes from an instance, "" while there is a session with it.

    `now` and `heard_at`, when it was last heard (0.0 for never), are in seconds since the epoch.
    """
    worker = pool.workers.get(instance_id)
    if worker is None:
        return f"instance {instance_id} is not reached, since no listing of the cloud shows it"
    if worker.link.session_up:
        return ""
    heard_at = max(worker.link.last_contact, heard_at)
    since = f", last heard {now - heard_at:.0f} s ago" if heard_at else ""
    told = worker.cloud.says or worker.health.last_error
    why = f" ({told})" if told else ""
    return f"instance {instance_id} is not reached{since}{why}"


def unlisted(pool: PoolView) -> str:
    """Return what is said, with why, until a first listing has told which instances there are."""
    return f"the cloud's first complete listing is not in yet{_listing_problem(pool)}"


def _listing_problem(pool: PoolView) -> str:
    return f": {pool.listing_problem}" if pool.listing_problem else ""
