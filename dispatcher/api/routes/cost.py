"""The route of cost: what was spent, by whom, for what and when."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections import Counter

import msgspec
from aiohttp import web

from longshore.dispatcher.api.render.cost import cost_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import caller_of, holder_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.routes.turns import Turns
from longshore.dispatcher.api.schemas.cost import CostAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.parameters import (
    PAGE_PARAMETERS,
    PROJECT,
    USER,
    Choice,
    Text,
)
from longshore.dispatcher.api.validate.rfc3339 import parse_moment
from longshore.dispatcher.cost.report import DIMENSIONS, LABEL, CostRow, Idle, is_dimension
from longshore.dispatcher.input.problems import did_you_mean, quoted
from longshore.dispatcher.service.cost_periods import Step, steps_between
from longshore.dispatcher.service.costs import CostQuestion, CostService
from longshore.drivers.errors import InvalidRequest

BY_MOST = 4
_FROM = Text(
    name="from",
    description="From when on: a day or month of the time zone (`2026-10-01`, `2026-10`), or a time"
    " in RFC 3339. Left out it is the beginning of this month.",
)
_TO = Text(name="to", description="Before when, as `from`. Left out it is now.")
_TZ = Text(
    name="tz",
    description="The IANA time zone of days and months, as `Europe/Berlin`. Left out it is UTC.",
)
_BY = Text(
    name="by",
    description="By what rows are told apart, with commas between: "
    + ", ".join(f"`{each}`" for each in DIMENSIONS)
    + ", or `label:KEY` of a label that the configuration names.",
)
_STEP = Choice(
    name="step",
    description="How long what a row is about is; `whole` is all of the time.",
    words=tuple(step.value for step in Step),
    default=Step.WHOLE.value,
)
_IDLE = Choice(
    name="idle",
    description="Who pays for idle time: nobody (`separate`), or those who had work on such"
    " instances at that time, by what it cost (`share`).",
    words=tuple(idle.value for idle in Idle),
    default=Idle.SEPARATE.value,
)
_JOB = Text(name="job", description="Only of jobs of this name.")
_TYPE = Text(name="type", description="Only of instances of this type.")
_PARAMETERS = (_FROM, _TO, _TZ, _BY, _STEP, _IDLE, PROJECT, USER, _JOB, _TYPE, *PAGE_PARAMETERS)
_PLACE = msgspec.json.Decoder(tuple[float, int, tuple[str, ...]])


class CostRoutes:
    """Answers for `/v1/cost`."""

    def __init__(self, costs: CostService, *, turns: Turns) -> None:
        self._costs, self._turns = costs, turns

    async def cost(self, request: web.Request) -> web.Response:
        """Answer a page of what was spent; later pages are up to the same time as the first."""
        query = QueryString(request, _PARAMETERS)
        cursor, limit = query.page()
        as_of, after = _place_in(cursor, now=self._costs.now())
        time_zone = query.text(_TZ) or "UTC"
        question = CostQuestion(
            steps=steps_between(
                since=query.text(_FROM),
                until=query.text(_TO),
                time_zone=time_zone,
                step=Step(query.choice(_STEP)),
                now=as_of,
                moment=parse_moment,
            ),
            by=self._dimensions(query.text(_BY)),
            idle=Idle(query.choice(_IDLE)),
            only={
                each.name: wanted
                for each in (PROJECT, USER, _JOB, _TYPE)
                if (wanted := query.text(each))
            },
        )
        async with self._turns.turn(holder_of(request)):
            report = await self._costs.report(question, caller_of(request), as_of=as_of)
            done = ((row.step, row.values) <= after for row in report.rows) if after else ()
            first = sum(done)
            end = first + limit
            more = end < len(report.rows)
            # In a thread: the amounts of all rows are rounded together.
            answer = await asyncio.to_thread(
                cost_answer,
                report,
                question,
                first=first,
                end=end,
                next_cursor=_cursor_of(as_of, report.rows[end - 1]) if more else None,
                currency=self._costs.currency,
                time_zone=time_zone,
            )
        return json_response(answer)

    def _dimensions(self, text: str) -> tuple[str, ...]:
        """Return the dimensions that are asked for; raises `InvalidRequest`."""
        given = Counter(name.strip() for name in text.split(",") if name.strip())
        names = tuple(given)
        problems = [("by", wrong) for name in names if (wrong := self._wrong_with(name))]
        problems += [
            ("by", f"names {quoted(name)} {times} times: name it once")
            for name, times in given.items()
            if times > 1
        ]
        if len(names) > BY_MOST:
            problems.append(("by", f"names {len(names)}, and {BY_MOST} are the most"))
        if problems:
            raise InvalidRequest(problems)
        return names

    def _wrong_with(self, name: str) -> str:
        known = [*DIMENSIONS, *(f"{LABEL}{key}" for key in sorted(self._costs.labels))]
        if not is_dimension(name):
            return f"{quoted(name)} is no dimension: {did_you_mean(name, known)}"
        if name.startswith(LABEL) and name not in known:
            return f"{quoted(name)} is not kept apart: an admin names it in cost.labels"
        return ""


def _cursor_of(as_of: float, row: CostRow) -> str:
    place = msgspec.json.encode((as_of, row.step, row.values))
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def _place_in(cursor: str, *, now: float) -> tuple[float, tuple[int, tuple[str, ...]] | None]:
    """Return up to when an answer counts, and the last row of the page before, None for the first.

    Times are in seconds since the epoch. Raises `InvalidRequest` for a cursor that is not ours.
    """
    if not cursor:
        return now, None
    try:
        place = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        as_of, step, values = _PLACE.decode(place)
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise _not_our_cursor() from error
    if as_of < 0:
        raise _not_our_cursor()
    return min(as_of, now), (step, values)


def _not_our_cursor() -> InvalidRequest:
    return InvalidRequest([("cursor", "must be the next_cursor of the page before")])


def cost_routes(cost: CostRoutes) -> list[Route]:
    """Return the route of cost."""
    return [
        Route(
            method="GET",
            path="/v1/cost",
            handler=cost.cost,
            operation_id="get_cost",
            tells_of_more=True,
            summary="What was spent, by whom, for what and when",
            description="Rows by dimension and step, and a total that is their sum. A user is shown"
            " its own, a lead its projects, an admin everything.",
            answer=(CostAnswer,),
            parameters=_PARAMETERS,
        ),
    ]
