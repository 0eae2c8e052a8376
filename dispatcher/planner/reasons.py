"""Why a class waits: the sentences of a pass."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dispatcher.model import Reason
from dispatcher.queue import RequestClass
from pool.backoff import Hindrance, HindranceKind

_LABELS_TOLD = 5
_NEVER = "that can never be, while the limit is what it is"


def behind(container_id: str, why: str) -> Reason:
    """Return why those wait that come after who is next in line."""
    message = f"behind {container_id}, which is next in line: {why}"
    return Reason(code="behind", message=message)


def no_type(request_class: RequestClass) -> Reason:
    """Return why a class waits that no configured type serves."""
    wanted = request_class.key.constraints.labels
    labels = ", ".join(f"{k}={v}" for k, v in wanted[:_LABELS_TOLD])
    more = f" and {len(wanted) - _LABELS_TOLD} more" if len(wanted) > _LABELS_TOLD else ""
    with_labels = f" with {labels}{more}" if labels else ""
    return Reason(code="no_type", message=f"no configured instance type{with_labels} would do")


def at_capacity(request_class: RequestClass, hindrances: Sequence[Hindrance]) -> Reason:
    """Return why a class waits of all of whose types the cloud has none left."""
    message = f"the cloud is short of {', '.join(t.name for t in request_class.types)}"
    end = _first_end(hindrances)
    trying = "one create is being tried"
    message += f"; {trying if end is None else f'tried again at {clock(end)}'}"
    return Reason(code="at_capacity", message=message)


def why_held(hindrances: Sequence[Hindrance]) -> tuple[Reason, bool]:
    """Return why none of a class's types may be created, and whether that is a quota.

    What ends first is told, a quota last.
    """
    remaining = [h for h in hindrances if h.kind is not HindranceKind.CAPACITY]
    told = [h for h in remaining if h.kind is not HindranceKind.QUOTA] or remaining
    end = _first_end(told)
    first = next(h for h in told if h.until == end)
    if end is None:
        return Reason(code="creating", message=first.message), False
    is_quota = first.kind is HindranceKind.QUOTA
    code = "at_quota" if is_quota else "creates_held"
    return Reason(code=code, message=f"no creates before {clock(end)}: {first.message}"), is_quota


def full(max_instances: int) -> Reason:
    """Return why a class waits when there are as many instances as there may be."""
    return Reason(code="at_quota", message=f"at quota: max_instances is {max_instances}")


PASS_FAILED = Reason(
    code="pass_failed",
    message="the last planning pass failed by an error of our own (see the server's log); the next"
    " one comes within seconds",
)
TOO_MANY = Reason(
    code="max_containers",
    message="as many containers have a place as may at once (max_containers, or less while the"
    " store or an instance is overloaded)",
)
SUPERVISORS = Reason(
    code="supervisors",
    message="as many supervisors have a place as supervisor_fraction allows",
)
CREATES = Reason(code="creating", message="as many as may be are being created")
TOKENS = Reason(
    code="creating",
    message="its create waits for its turn: max_cloud_ops_per_second is reached",
)


def spend_limit(
    limit: str, *, spent: Decimal, price: Decimal, is_final: bool, room_on: str
) -> Reason:
    """Return why a class waits for money: `limit` says who may spend what, an hour by setting."""
    if room_on:
        wanted = f"its share of a {room_on} costs {dollars(price)}"
    else:
        wanted = f"the cheapest instance that would do costs {dollars(price)}"
    if is_final:
        message = f"{limit}, and {wanted}: {_NEVER}"
    else:
        message = f"{limit} and spends {dollars(spent)}; {wanted}"
    return Reason(code="spend_limit", message=message)


def can_never_be(reason: Reason) -> bool:
    """Return whether a limit of spending is too small for it even if nothing else were spent."""
    return reason.code == "spend_limit" and reason.message.endswith(_NEVER)


def dollars(amount: Decimal) -> str:
    """Return US dollars an hour as people read them, with two to four decimals."""
    rounded = f"{amount:.4f}"
    while rounded.endswith("0") and rounded[-3] != ".":
        rounded = rounded[:-1]
    return f"${rounded}/h"


def clock(at: float) -> str:
    """Return a time, in seconds since the epoch, as people read it."""
    seconds = int(at) % 86400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def _first_end(hindrances: Sequence[Hindrance]) -> float | None:
    """Return when the first of them ends, None when a create is being tried: it may end now."""
    ends = [h.until for h in hindrances if h.until is not None]
    return min(ends) if len(ends) == len(hindrances) else None
