"""The route of budgets: what may be spent, and how much of it is.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.budgets import budgets_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.budgets import BudgetsAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.service.budgets import BudgetService
from longshore.dispatcher.service.costs import CostService


class BudgetRoute:
    """Answers for `/v1/budgets`."""

    def __init__(self, budgets: BudgetService, costs: CostService) -> None:
        self._budgets = budgets
        self._costs = costs

    async def budgets(self, request: web.Request) -> web.Response:
        """Answer the budgets that concern the caller."""
        QueryString(request, ())
        standings = self._budgets.standings(caller_of(request))
        return json_response(budgets_answer(standings, currency=self._costs.currency))


def budget_routes(budgets: BudgetRoute) -> list[Route]:
    """Return the route of budgets."""
    return [
        Route(
            method="GET",
            path="/v1/budgets",
            handler=budgets.budgets,
            operation_id="list_budgets",
            tells_of_more=True,
            summary="What may be spent, and how much of it is",
            description="Each budget in its period that goes on, as it was looked at last, which is"
            " done every 30 s; none before the first look. A user is shown those of its projects"
            " and its own, an admin all.",
            answer=(BudgetsAnswer,),
        ),
    ]
