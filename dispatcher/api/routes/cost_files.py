"""The route of the ledger's files: a month of lines, sent as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Final

from aiohttp import web

from longshore.dispatcher.api.routes.callers import caller_of, holder_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.routes.streams import StreamGate, gone, run_stream
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.api.validate.parameters import Choice, Text
from longshore.dispatcher.cost.focus import ExportFormat
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.service.cost_exports import (
    LABELS_MOST,
    CostExport,
    CostExports,
    Unwanted,
)
from longshore.dispatcher.service.cost_periods import month_in
from longshore.dispatcher.store.errors import StoreBusy
from longshore.drivers.errors import InvalidRequest

_ROWS_AT_ONCE: Final = 1000
_MONTH = Text(name="month", description="The month, as `2026-10`. Left out it is this one.")
_FORMAT = Choice(
    name="format",
    description="The form of the file: FOCUS of one of two versions, for admins, or plain CSV.",
    words=tuple(each.value for each in ExportFormat),
    default=ExportFormat.CSV.value,
)
_TZ = Text(
    name="tz",
    description="The IANA time zone of the month, as `Europe/Berlin`. Left out it is UTC, which the"
    " months of FOCUS always are.",
)
_LABELS = Text(
    name="label",
    description="The keys of labels that have a column of their own, with commas between. Of CSV"
    " alone: FOCUS has all labels in one.",
)
_PARAMETERS = (_MONTH, _FORMAT, _TZ, _LABELS)


class CostFileRoutes:
    """Answers for `/v1/cost/export`."""

    def __init__(self, exports: CostExports, *, gate: StreamGate, limits: ApiLimits) -> None:
        self._exports = exports
        self._gate = gate
        self._limits = limits

    async def export(self, request: web.Request) -> web.StreamResponse:
        """Stream a month of lines."""
        export = self._asked(QueryString(request, _PARAMETERS))
        rows = self._exports.file_for(
            caller_of(request), export, wanted=lambda: self._is_wanted(request)
        )
        with self._gate.admit(holder_of(request)):
            try:
                # Before the answer begins, so that a store that cannot be read is told as such.
                first = await _some(rows)
            except (StoreBusy, Unwanted) as error:
                raise Unavailable(str(error)) from error
            return await self._send(request, first, rows)

    def _asked(self, query: QueryString) -> CostExport:
        """Return what is asked for; raises `InvalidRequest`."""
        form, time_zone = ExportFormat(query.choice(_FORMAT)), query.text(_TZ) or "UTC"
        keys = [key.strip() for key in query.text(_LABELS).split(",")]
        labels = tuple(dict.fromkeys(key for key in keys if key))
        problems: list[tuple[str, str]] = []
        if form is not ExportFormat.CSV and time_zone != "UTC":
            problems.append(("tz", "must be UTC for FOCUS, as clouds' months are: leave it out"))
        if form is not ExportFormat.CSV and labels:
            problems.append(("label", "is of format=csv alone: FOCUS has all labels in one column"))
        if len(labels) > LABELS_MOST:
            problems.append(("label", f"names {len(labels)}, and {LABELS_MOST} are the most"))
        try:
            hours = month_in(query.text(_MONTH), time_zone=time_zone, now=self._exports.now())
        except InvalidRequest as error:
            raise InvalidRequest([*error.problems, *problems]) from error
        if problems:
            raise InvalidRequest(problems)
        return CostExport(hours=hours, format=form, labels=labels)

    def _is_wanted(self, request: web.Request) -> bool:
        """Return whether a file is still to be made; suits any thread."""
        return not (self._gate.closing or gone(request))

    async def _send(
        self, request: web.Request, first: bytes, rows: Iterator[str]
    ) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_type, response.charset = "text/csv", "utf-8"
        await response.prepare(request)

        async def copy() -> bool:
            piece = first
            while piece:
                if not self._is_wanted(request):
                    return False
                async with asyncio.timeout(self._limits.write_timeout_s):
                    await response.write(piece)
                try:
                    piece = await _some(rows)
                except Unwanted:
                    return False
            return True

        return await run_stream(request, response, copy)


async def _some(rows: Iterator[str]) -> bytes:
    """Return the next rows, no bytes at the end; they are reckoned in a thread."""

    def next_rows() -> bytes:
        return "".join(islice(rows, _ROWS_AT_ONCE)).encode()

    return await asyncio.to_thread(next_rows)


def cost_file_routes(files: CostFileRoutes) -> list[Route]:
    """Return the route of the ledger's files."""
    return [
        Route(
            method="GET",
            path="/v1/cost/export",
            handler=files.export,
            operation_id="export_cost",
            tells_of_more=True,
            summary="Stream the lines of a month as a file",
            description="A row for each instance, hour and attempt or cause. Of CSV a user is given"
            " its own, a lead its projects', an admin everything; FOCUS is for admins. A file that"
            " was cut off ends without the mark of a proper end: ask for it anew.",
            media_type="text/csv",
            parameters=_PARAMETERS,
            streams=True,
        ),
    ]
