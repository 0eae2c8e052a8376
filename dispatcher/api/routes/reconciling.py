"""The route that compares a cloud's bill with the ledger.

Stands alone: what it takes is nothing like the questions about cost.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from aiohttp import web

from longshore.dispatcher.api.render.reconciliation import reconcile_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access, caller_of, note_change
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.cost import (
    BillRowRequest,
    ReconcileAnswer,
    ReconcileRequest,
)
from longshore.dispatcher.api.validate.bodies import Bodies, decode_one
from longshore.dispatcher.cost.bills import BillLine
from longshore.dispatcher.cost.reconcile import Coverage, not_covered, piece_of
from longshore.dispatcher.cost.utc_calendar import month_hours
from longshore.dispatcher.input.problems import Problems
from longshore.dispatcher.service.cost_reconciling import BillPiece, Reconciler
from longshore.dispatcher.service.costs import CostService
from longshore.drivers.errors import InvalidRequest

_EXAMPLE = {
    "month": "2026-10",
    "piece": 0,
    "pieces": 1,
    "rows": [
        {
            "resource_id": "i-0a1",
            "first_hour": 497_640,
            "end_hour": 497_641,
            "kind": "instance",
            "usage_s": "3600",
            "list_cost": "0.115",
            "effective_cost": "0.1",
            "cluster": "lab",
        }
    ],
    "billed_from_hour": 497_640,
    "billed_until_hour": 497_641,
    "file": "october.csv",
    "sha256": "0" * 64,
}


class ReconcileRoutes:
    """Answers for `/v1/cost/reconcile`."""

    def __init__(self, reconciler: Reconciler, costs: CostService, *, bodies: Bodies) -> None:
        self._reconciler = reconciler
        self._bodies = bodies
        self._costs = costs

    async def reconcile(self, request: web.Request) -> web.Response:
        """Answer how a piece of a bill differs from the ledger; book that if asked to."""
        asked = await self._bodies.decoded(request, partial(decode_one, ReconcileRequest))
        piece, booked = _piece_of(asked), 0
        if asked.apply:
            note_change(request, f"book corrections by {asked.file}")
            made_by = caller_of(request).user
            found, booked = await self._reconciler.apply(piece, made_by=made_by)
        else:
            note_change(request, f"compare {asked.file}, and change nothing")
            found = await self._reconciler.compare(piece)
        answer = reconcile_answer(
            found,
            currency=self._costs.currency,
            offset=asked.offset,
            limit=asked.limit,
            not_covered_hours=not_covered(found, piece.coverage),
            corrections=booked,
        )
        return json_response(answer)


def _piece_of(asked: ReconcileRequest) -> BillPiece:
    """Return what is asked for; raises `InvalidRequest` with all that is wrong."""
    problems = Problems()
    hours = range(0)
    try:
        hours = month_hours(asked.month)
    except ValueError as error:
        problems.add("month", str(error))
    if asked.piece >= asked.pieces:
        problems.add("piece", "must be below pieces: they are counted from 0")
    for number, row in enumerate(asked.rows):
        if row.first_hour >= row.end_hour:
            problems.add(f"rows[{number}].end_hour", "must be after first_hour")
        if piece_of(row.resource_id, asked.pieces) != asked.piece:
            problems.add(f"rows[{number}].resource_id", "is of another piece: send it there")
    if problems:
        raise InvalidRequest(problems.listed())
    return BillPiece(
        hours=hours,
        piece=asked.piece,
        pieces=asked.pieces,
        rows=[_line(row) for row in asked.rows],
        billed_from_hour=asked.billed_from_hour,
        billed_until_hour=asked.billed_until_hour,
        coverage=_coverage_of(asked),
        file_name=asked.file,
        sha256=asked.sha256,
    )


def _coverage_of(asked: ReconcileRequest) -> Coverage:
    if asked.partial:
        return Coverage.WITHIN
    return Coverage.WHOLE if asked.final else Coverage.SO_FAR


def _line(row: BillRowRequest) -> BillLine:
    cost = Decimal(row.effective_cost)
    return BillLine(
        resource_id=row.resource_id,
        first_hour=row.first_hour,
        end_hour=row.end_hour,
        kind=row.kind,
        usage_s=None if row.usage_s is None else Decimal(row.usage_s),
        list_cost=None if row.list_cost is None else Decimal(row.list_cost),
        billed_cost=cost,
        effective_cost=cost,
        currency="",
        cluster=row.cluster,
    )


def reconcile_routes(reconciling: ReconcileRoutes) -> list[Route]:
    """Return the route that compares a bill."""
    return [
        Route(
            method="POST",
            path="/v1/cost/reconcile",
            handler=reconciling.reconcile,
            operation_id="reconcile_cost",
            summary="Compare a piece of a cloud's bill with the ledger",
            description="The difference in total and by instance, split by why. With `apply` what"
            " is missing to the bill is booked as corrections, which reports of that month count;"
            " the same bill again books nothing more.",
            request=(ReconcileRequest,),
            examples={"an hour of one instance": _EXAMPLE},
            answer=(ReconcileAnswer,),
            access=Access.ADMINS,
        ),
    ]
