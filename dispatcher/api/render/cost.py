"""Cost as JSON: amounts as decimals that add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from longshore.dispatcher.api.render.values import rfc3339, usd, without_zeros
from longshore.dispatcher.api.schemas.cost import CostAmounts, CostAnswer, CostRowAnswer
from longshore.dispatcher.cost.money import as_usd
from longshore.dispatcher.cost.report import Amounts, CostRow
from longshore.dispatcher.service.cost_periods import hour_text
from longshore.dispatcher.service.costs import CostQuestion, CostReport

NOT_INCLUDED = (
    "data transfer and NAT",
    "snapshots and images",
    "taxes, discounts, savings plans and credits",
)
_MS_PER_HOUR = Decimal(3_600_000)
_HOURS = Decimal("1e-9")


def cost_answer(
    report: CostReport,
    question: CostQuestion,
    *,
    first: int,
    end: int,
    next_cursor: str | None,
    currency: str,
    time_zone: str,
) -> CostAnswer:
    """Return the rows from `first` to before `end` of a report, with the total of all of them."""
    whole = _decimals([row.amounts for row in report.rows])
    items = tuple(
        CostRowAnswer(
            since=hour_text(question.steps[row.step][0]),
            until=hour_text(question.steps[row.step][1]),
            by=dict(zip(question.by, row.values, strict=True)),
            amounts=amounts,
            **_successes(report, row, amounts),
        )
        for row, amounts in zip(report.rows[first:end], whole[first:end], strict=True)
    )
    return CostAnswer(
        items=items,
        next_cursor=next_cursor,
        total=_total(whole),
        currency=currency,
        time_zone=time_zone,
        as_of=rfc3339(report.as_of),
        booked_until=rfc3339(report.booked_until),
        closed_until=rfc3339(report.closed_until),
        unpriced_instance_hours=_hours(report.unpriced_ms),
        not_included=NOT_INCLUDED,
    )


def _successes(report: CostReport, row: CostRow, amounts: CostAmounts) -> dict[str, Any]:
    """Return how many succeeded of what a row is about, and the cost of each; {} where untold."""
    if report.successes is None:
        return {}
    number = report.successes.get((row.step, row.values), 0)
    each = usd(amounts.total / number) if number else None
    return {"succeeded": number, "usd_per_success": each}


def _decimals(rows: Sequence[Amounts]) -> list[CostAmounts]:
    """Return amounts as decimals: those of all rows are rounded together, so that they add up."""
    parts = as_usd([part for row in rows for part in (row.direct, row.caused, row.shared)])
    lost, uncertain = as_usd([r.lost_work for r in rows]), as_usd([r.uncertain for r in rows])
    found: list[CostAmounts] = []
    for number, row in enumerate(rows):
        direct, caused, shared = parts[3 * number : 3 * number + 3]
        found.append(
            CostAmounts(
                direct=without_zeros(direct),
                caused=without_zeros(caused),
                shared=without_zeros(shared),
                total=without_zeros(direct + caused + shared),
                lost_work=without_zeros(lost[number]),
                uncertain=without_zeros(uncertain[number]),
                instance_hours=_hours(row.quantity_ms),
            )
        )
    return found


def _total(rows: Sequence[CostAmounts]) -> CostAmounts:
    return CostAmounts(
        direct=_sum(row.direct for row in rows),
        caused=_sum(row.caused for row in rows),
        shared=_sum(row.shared for row in rows),
        total=_sum(row.total for row in rows),
        lost_work=_sum(row.lost_work for row in rows),
        uncertain=_sum(row.uncertain for row in rows),
        instance_hours=_sum(row.instance_hours for row in rows),
    )


def _sum(parts: Iterable[Decimal]) -> Decimal:
    return without_zeros(sum(parts, Decimal(0)))


def _hours(quantity_ms: int) -> Decimal:
    return without_zeros((Decimal(quantity_ms) / _MS_PER_HOUR).quantize(_HOURS))
