"""Why a class waits: the sentences of a pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import WaitReason
from longshore.dispatcher.domain.feasibility import what_is_left
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.state.queue import RequestClass
from longshore.drivers.interface import InstanceType
from longshore.pool.holds import CreateBlock, CreateBlockKind

_LABELS_TOLD = 5
_TYPES_TOLD = 5
_AVOIDED_TOLD = 5
NEVER = "that can never be, while the limit is what it is"
"""How the sentence ends of what no wait will change."""


def behind(container_id: str, why: WaitReason) -> WaitReason:
    """Return why those wait that come after who is next in line, who waits for `why`."""
    return WaitReason(
        code="behind",
        message=f"behind {container_id}, which is next in line: {why.message}",
        behind=container_id,
        behind_code=why.code,
        topic=why.limit or why.topic,
    )


def no_type(request_class: RequestClass) -> WaitReason:
    """Return why a class waits that no configured type serves."""
    wanted = request_class.key.constraints.labels
    labels = ", ".join(f"{k}={v}" for k, v in wanted[:_LABELS_TOLD])
    more = f" and {len(wanted) - _LABELS_TOLD} more" if len(wanted) > _LABELS_TOLD else ""
    with_labels = f" with {labels}{more}" if labels else ""
    message = f"no configured instance type{with_labels} would do"
    return WaitReason(code="no_type", message=message, is_final=True)


def no_room_on_new(
    request_class: RequestClass,
    as_new: Callable[[InstanceType], InstanceType],
    as_found: Callable[[InstanceType], InstanceType],
) -> WaitReason:
    """Return why a class waits of which a new instance of no type has room for one.

    `as_new` tells a type without what jobs on every instance take of it, `as_found` as its
    instances turned out to be.
    """
    would_do = request_class.fitting
    told, are_smaller = [], False
    for type_ in would_do[:_TYPES_TOLD]:
        wanted = request_class.need(type_)
        found = what_is_left(as_found(type_), wanted)
        told.append(
            f"instances of {type_.name} turned out to have only {found}"
            if found
            else f"{type_.name} has {what_is_left(as_new(type_), wanted)} left"
        )
        are_smaller |= bool(found)
    more = f", and {len(would_do) - _TYPES_TOLD} more" if len(would_do) > _TYPES_TOLD else ""
    why = (
        "a new instance of no type that would do has room for it"
        if are_smaller
        else "jobs that run on every instance leave it too little room on a new one of each type"
        " that would do"
    )
    message = f"{why} ({', '.join(told)}{more}); it waits for room on an instance that there is"
    return WaitReason(code="no_room_on_new", message=message)


def short(types: Sequence[InstanceType], create_blocks: Sequence[CreateBlock]) -> WaitReason:
    """Return why a class waits of each of whose types the cloud has none left, or allows none."""
    of = zip(types, create_blocks, strict=True)
    refused = [(type_, h) for type_, h in of if h.kind is CreateBlockKind.NONE_ALLOWED]
    if not refused:
        return at_capacity(types, create_blocks)
    end, first = _first_end(create_blocks), refused[0][1]
    if end is None:
        return WaitReason(code="creating", message=first.message, topic=first.topic)
    names = ", ".join(type_.name for type_, _ in refused[:_TYPES_TOLD])
    more = f" and {len(refused) - _TYPES_TOLD} more" if len(refused) > _TYPES_TOLD else ""
    message = (
        f"no creates before {moment(end)}: {first.message}; there is no instance of {names}{more}"
        " that could leave, so the cloud may never allow one: ask it for a higher limit, or allow"
        " another instance type"
    )
    return WaitReason(code="at_quota", message=message, until=end, topic=first.topic)


def at_capacity(types: Sequence[InstanceType], create_blocks: Sequence[CreateBlock]) -> WaitReason:
    """Return why a class waits of all of whose types the cloud has none left."""
    message = f"the cloud is short of {', '.join(type_.name for type_ in types)}"
    end = _first_end(create_blocks)
    trying = "one create is being tried"
    message += f"; {trying if end is None else f'tried again at {moment(end)}'}"
    return WaitReason(code="at_capacity", message=message, until=end)


def why_held(create_blocks: Sequence[CreateBlock]) -> tuple[WaitReason, bool]:
    """Return why none of a class's types may be created, and whether that is a quota.

    What ends first is told, a quota last. There is one that is neither a shortage nor a type of
    which none is allowed.
    """
    short_of = (CreateBlockKind.CAPACITY, CreateBlockKind.NONE_ALLOWED)
    remaining = [h for h in create_blocks if h.kind not in short_of]
    told = [h for h in remaining if h.kind is not CreateBlockKind.QUOTA] or remaining
    end = _first_end(told)
    first = next(h for h in told if h.until == end)
    if end is None:
        return WaitReason(code="creating", message=first.message, topic=first.topic), False
    is_quota = first.kind is CreateBlockKind.QUOTA
    code = "at_quota" if is_quota else "creates_held"
    message = f"no creates before {moment(end)}: {first.message}"
    return WaitReason(code=code, message=message, until=end, topic=first.topic), is_quota


def full(max_instances: int) -> WaitReason:
    """Return why a class waits when there are as many instances as there may be."""
    message = f"at quota: max_instances is {max_instances}"
    return WaitReason(code="at_quota", message=message, limit="max_instances")


def elsewhere(avoided: Sequence[str], why: WaitReason, returns_at: float) -> WaitReason:
    """Return why a class waits that has room only where it was lost; `why` it has nothing new."""
    more = f" and {len(avoided) - _AVOIDED_TOLD} more" if len(avoided) > _AVOIDED_TOLD else ""
    where = f"{', '.join(avoided[:_AVOIDED_TOLD])}{more}"
    until = returns_at if math.isfinite(returns_at) else None
    again = "" if until is None else f"; there again at {moment(until)}"
    message = (
        f"it waits for room elsewhere than on {where}, where it was lost or could not run{again};"
        f" no other instance has room, and for a new one: {why.message}"
    )
    return WaitReason(code="elsewhere", message=message, until=until)


def doubtful(why: WaitReason) -> WaitReason:
    """Return why a class waits that a limit keeps from what the cloud may never allow it."""
    message = (
        f"{why.message}; the rest goes on, since the cloud's quota has refused its types though"
        " none was there: ask the cloud for a higher limit, or allow another instance type"
    )
    return replace(why, message=message)


def not_listed(problem: str) -> WaitReason:
    """Return why all wait until a listing is in; `problem` is why the last failed, "" for none."""
    message = "nothing is placed until the cloud's first complete listing is in"
    message += f"; the last try failed: {problem}" if problem else ""
    return WaitReason(code="not_listed", message=message)


PASS_FAILED = WaitReason(
    code="pass_failed",
    message="the last planning pass failed because of a bug (see the server's log); the next one"
    " follows within seconds",
)
TOO_MANY = WaitReason(
    code="max_containers",
    message="the limit of containers that have a place at once is reached (max_containers, or "
    "less while the"
    " store or an instance is overloaded)",
    limit="max_containers",
)
SUPERVISORS = WaitReason(
    code="supervisors",
    message="the limit of supervisors at once is reached: supervisor_fraction of what can run by"
    " max_containers, max_instances, max_hourly_spend or the cloud's quota",
    limit="supervisor_fraction",
)
CREATES = WaitReason(
    code="creating",
    message="as many instances are being created as may be at once",
    limit="max_concurrent_creates",
)
TOKENS = WaitReason(
    code="creating",
    message="its create call waits for its turn: max_cloud_ops_per_second is reached",
    limit="max_cloud_ops_per_second",
)


def spend_limit(
    who: str,
    setting: str,
    *,
    limit: Decimal,
    spent: Decimal,
    price: Decimal,
    is_final: bool,
    room_on: str,
) -> WaitReason:
    """Return why a class waits for money: what `who` may spend an hour, does, and would then."""
    may = f"{who} may spend {dollars(limit)} ({setting})"
    if room_on:
        wanted = f"its share of a {room_on} costs {dollars(price)}"
    else:
        wanted = f"the cheapest instance that would do costs {dollars(price)}"
    if is_final:
        message = f"{may}, and {wanted}: {NEVER}"
    else:
        message = f"{may} and spends {dollars(spent)}; {wanted}"
    return WaitReason(code="spend_limit", message=message, limit=setting, is_final=is_final)


def dollars(amount: Decimal) -> str:
    """Return US dollars an hour as people read them, with two to four decimals."""
    rounded = f"{amount:.4f}"
    while rounded.endswith("0") and rounded[-3] != ".":
        rounded = rounded[:-1]
    return f"${rounded}/h"


def _first_end(create_blocks: Sequence[CreateBlock]) -> float | None:
    """Return when the first of them ends, None when a create is being tried: it may end now."""
    ends = [h.until for h in create_blocks if h.until is not None]
    return min(ends) if len(ends) == len(create_blocks) else None
