"""Events as server-sent events, resumed where a client left off.

An event's id is `EPOCH-NUMBER`: numbers begin anew with each start of the server, so the epoch
tells whether a number still means what it meant. Where events are missing, the client is told. A
stream begins with the id of where it begins, and says with each heartbeat how far it is, so that
also who has not been sent an event yet, or sees few of them, can go on without a gap: an id without
data is noted by clients, and makes no event.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from longshore.dispatcher.api.render.values import encode
from longshore.dispatcher.api.routes.streams import StreamGate, gone, run_stream
from longshore.dispatcher.api.schemas.containers import EventAnswer, StreamNotice
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.domain.budgets import BudgetScope
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.domain.views import ServerEvent
from longshore.dispatcher.service.budgets import concerns
from longshore.dispatcher.service.events import Broker
from longshore.dispatcher.service.visibility import ProjectOf, shown_sentence
from longshore.drivers.errors import InvalidRequest

_EVENT_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_GAP = "Events are missing here: list again what you need to know."

_BATCH_EVENTS = 256
_BATCH_BYTES = 256 * 2**10

Send = Callable[[bytes], Awaitable[None]]


class EventEncoder:
    """Encodes events, each once for all subscribers that are at about the same place."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._encoded: OrderedDict[int, bytes] = OrderedDict()

    def encoded(self, event: ServerEvent) -> bytes:
        """Return an event as it is sent."""
        known = self._encoded.get(event.number)
        if known is not None:
            return known
        made = self.anew(event)
        if len(made) <= _BATCH_BYTES // _BATCH_EVENTS * 4:
            self._encoded[event.number] = made
            if len(self._encoded) > _BATCH_EVENTS:
                self._encoded.popitem(last=False)
        return made

    def anew(self, event: ServerEvent) -> bytes:
        """Return an event as it is sent to one subscriber alone."""
        answer = EventAnswer(number=event.number, kind=event.kind, id=event.id, data=event.data)
        return self._framed(event.kind, encode(answer), event.number)

    def message(self, kind: str, what: str, *, number: int | None = None) -> bytes:
        """Return an event about the stream itself; `number` becomes the client's last id."""
        return self._framed(kind, encode(StreamNotice(message=what)), number)

    def position(self, number: int) -> bytes:
        """Return what makes `number` the client's last id, without an event."""
        return f"id: {self.epoch}-{number}\n\n".encode()

    def _framed(self, kind: str, data: bytes, number: int | None) -> bytes:
        head = "" if number is None else f"id: {self.epoch}-{number}\n"
        return f"{head}event: {kind}\ndata: ".encode() + data + b"\n\n"


class EventStream:
    """Sends server-sent events to one subscriber.

    `last_event_id` is what the client got last ("" for from now on); raises `InvalidRequest` when
    it is no id of an event.
    """

    def __init__(
        self,
        events: Broker,
        gate: StreamGate,
        limits: ApiLimits,
        encoder: EventEncoder,
        *,
        caller: Principal,
        project_of: ProjectOf,
        last_event_id: str,
    ) -> None:
        self._caller = caller
        self._project_of = project_of
        self._events = events
        self._gate = gate
        self._limits = limits
        self._encoder = encoder
        newest = events.last_number
        self._seen, self._gap = newest, False
        if last_event_id:
            after = self._still_valid(last_event_id, newest)
            self._seen, self._gap = (newest, True) if after is None else (after, False)
        self._queue: asyncio.Queue[ServerEvent] = asyncio.Queue(_BATCH_EVENTS)

    def _still_valid(self, last_event_id: str, newest: int) -> int | None:
        match = _EVENT_ID.fullmatch(last_event_id)
        if match is None:
            raise InvalidRequest(
                [("Last-Event-ID", "must be the id of an event, exactly as it was sent")]
            )
        epoch, number = int(match.group(1)), int(match.group(2))
        if number > newest or epoch != self._encoder.epoch:
            return None
        return number

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer once the subscription has ended."""
        response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        await response.prepare(request)

        async def send(text: bytes) -> None:
            async with asyncio.timeout(self._limits.write_timeout_s):
                await response.write(text)

        async def copy() -> bool:
            await send(b"retry: 2000\n: longshore events\n" + self._position())
            if self._gap:
                await send(self._encoder.message("gap", _GAP, number=self._seen))
            return await self._relay(request, send)

        return await run_stream(request, response, copy)

    async def _relay(self, request: web.Request, send: Send) -> bool:
        clock = asyncio.get_running_loop().time
        quiet_since = clock()
        pump = asyncio.create_task(self._pump())
        try:
            while not gone(request):
                batch = await self._batch()
                if batch:
                    await send(batch)
                    quiet_since = clock()
                elif self._gate.closing or pump.done():
                    if pump.done():
                        pump.result()
                    return await self._say_ended(send)
                elif clock() - quiet_since >= self._limits.heartbeat_s:
                    await send(b": heartbeat\n" + self._position())
                    quiet_since = clock()
            return False
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    def _position(self) -> bytes:
        return self._encoder.position(self._seen)

    async def _pump(self) -> None:
        """Queue events as fast as they are sent; the broker keeps the others, or lets them go."""
        events = self._events.follow(self._seen)
        try:
            async for event in events:
                await self._queue.put(event)
        finally:
            await _close(events)

    async def _batch(self) -> bytes:
        """Return what is there to be sent, after a short wait at most."""
        try:
            async with asyncio.timeout(self._limits.watch_interval_s):
                event = await self._queue.get()
        except TimeoutError:
            return b""
        batch = bytearray()
        while True:
            if event.number > self._seen + 1:
                batch += self._encoder.message("gap", _GAP)
            self._seen = event.number
            batch += self._encoded(event)
            if self._queue.empty() or len(batch) > _BATCH_BYTES:
                return bytes(batch)
            event = self._queue.get_nowait()

    def _encoded(self, event: ServerEvent) -> bytes:
        """Return an event as this subscriber gets it, nothing of what it does not see."""
        if self._caller.is_admin:
            return self._encoder.encoded(event)
        if event.kind == "budget":
            data = event.data
            seen = concerns(BudgetScope(data["scope"]), str(data["whose"]), self._caller)
            return self._encoder.encoded(event) if seen else b""
        if not self._caller.sees(str(event.data.get("project", ""))):
            return b""
        shown = without_others(event.data, self._caller, self._project_of)
        if shown is event.data:
            return self._encoder.encoded(event)
        return self._encoder.anew(replace(event, data=shown))

    async def _say_ended(self, send: Send) -> bool:
        newest = self._events.last_number
        if newest > self._seen and not self._gate.closing:
            # What came after the last one sent is no longer kept; a new start must not want it.
            await send(self._encoder.message("gap", _GAP, number=newest))
        else:
            what = "The server is stopping: reconnect with the last id that you received."
            await send(self._encoder.message("stopped", what))
        return True


def without_others(
    data: dict[str, object], caller: Principal, project_of: ProjectOf
) -> dict[str, object]:
    """Return an event's data without the ids of containers and jobs that a caller does not see.

    It is the same object where there are none.
    """

    def shown(value: Any) -> Any:
        if not isinstance(value, dict) or "message" not in value:
            return value
        sentence = shown_sentence(str(value["message"]), caller, project_of)
        return value if sentence == value["message"] else {**value, "message": sentence}

    told = dict(data)
    told["reason"], waits = shown(data.get("reason")), shown(data.get("waiting_for"))
    if isinstance(waits, dict) and waits is not data.get("waiting_for"):
        waits = {**waits, "behind": None}
        told["waiting"] = shown_sentence(str(data.get("waiting") or ""), caller, project_of)
    told["waiting_for"] = waits
    attempts = data.get("attempts")
    if isinstance(attempts, list):
        told["attempts"] = [{**each, "reason": shown(each.get("reason"))} for each in attempts]
    changed = {name: value for name, value in told.items() if value != data.get(name)}
    return {**data, **changed} if changed else data


async def _close(events: AsyncIterator[ServerEvent]) -> None:
    """Close what can be closed: a generator would otherwise wait for the collector."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()
