"""What the JSON of every resource is made of: money, times, reasons; and answers that carry it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
from aiohttp import web

from longshore.dispatcher.api.schemas.containers import ReasonAnswer, WaitAnswer
from longshore.dispatcher.domain.containers import Reason, WaitReason

_SMALLEST_USD = Decimal("1e-8")
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_LAST_SECOND = 253_402_300_799.0


def usd(amount: Decimal) -> Decimal:
    """Return an amount of money as it is answered: with up to eight decimals, and no more zeros.

    A second of the cheapest instance costs a millionth of a dollar: eight tell a hundredth of that.
    """
    return without_zeros(amount.quantize(_SMALLEST_USD))


def without_zeros(amount: Decimal) -> Decimal:
    """Return a decimal without zeros at its end, and a hundred never as 1E+2."""
    short = amount.normalize()
    return short.quantize(Decimal(1)) if short == short.to_integral_value() else short


def encode(value: Any) -> bytes:
    """Return `value` as JSON, decimals as numbers."""
    return _ENCODER.encode(value)


def json_response(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an answer that carries `value` as JSON."""
    return web.Response(
        body=encode(value), status=status, content_type="application/json", headers=headers
    )


def rfc3339(at: float | None) -> str | None:
    """Return seconds since the epoch as RFC 3339 in UTC with milliseconds.

    None and 0.0 (never) give None, as do times that no calendar has: an instance's clock may lie.
    """
    if not at or not math.isfinite(at) or not 0 < at <= _LAST_SECOND:
        return None
    moment = datetime.fromtimestamp(math.floor(at * 1000) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def how_many_fit(sizes: Iterable[int], page_bytes: int) -> int:
    """Return how many answers of `sizes`, from the first, make one of about `page_bytes`.

    At least one: a page that makes no progress would be asked for for ever.
    """
    total = number = 0
    for size in sizes:
        total += size
        if total > page_bytes:
            return max(number, 1)
        number += 1
    return number


def reason_answer(reason: Reason | None) -> ReasonAnswer | None:
    """Return a reason as it is answered, None for none."""
    return None if reason is None else ReasonAnswer(code=reason.code, message=reason.message)


def wait_answer(reason: WaitReason | None) -> WaitAnswer | None:
    """Return why a container waits as it is answered, None for nothing."""
    if reason is None:
        return None
    return WaitAnswer(
        code=reason.code,
        message=reason.message,
        limit=reason.limit or None,
        behind=reason.behind or None,
        behind_code=reason.behind_code or None,
        until=rfc3339(reason.until),
        never=reason.is_final,
    )
