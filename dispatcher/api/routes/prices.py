"""The route of prices: what an hour of each type costs now, who says so, and since when.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from aiohttp import web

from longshore.dispatcher.api.render.prices import price_list_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.prices import PriceListAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.service.costs import CostService
from longshore.dispatcher.service.price_list import PriceListService


class PricesRoute:
    """Answers for `/v1/prices`."""

    def __init__(self, prices: PriceListService, costs: CostService) -> None:
        self._prices, self._costs = prices, costs

    async def prices(self, request: web.Request) -> web.Response:
        """Answer the prices that hold now."""
        QueryString(request, ())
        as_of = self._prices.now()
        listed = await self._prices.prices()
        answer = price_list_answer(listed, currency=self._costs.currency, as_of=as_of)
        return json_response(answer)


def prices_routes(prices: PricesRoute) -> list[Route]:
    """Return the route of prices."""
    return [
        Route(
            method="GET",
            path="/v1/prices",
            handler=prices.prices,
            operation_id="list_prices",
            summary="List what an hour of each type costs now, by whom and since when",
            description="The prices that the ledger reckons with, of configured types.",
            access=Access.ADMINS,
            answer=(PriceListAnswer,),
        ),
    ]
