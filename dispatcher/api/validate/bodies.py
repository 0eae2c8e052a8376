"""Reading what a request carries: body, query and headers, each within its limits."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from aiohttp import web

from longshore.dispatcher.access.credentials import TooManyRequests
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.api.validate.parameters import (
    CURSOR,
    CURSOR_MAX_CHARACTERS,
    LIMIT,
    TEXT_MAX_CHARACTERS,
    Choice,
    Choices,
    Instant,
    Parameter,
    Switch,
    Text,
    Whole,
)
from longshore.dispatcher.api.validate.rfc3339 import parse_moment
from longshore.dispatcher.input.problems import did_you_mean, quoted
from longshore.dispatcher.input.text_rules import UNPLAIN
from longshore.dispatcher.input.validation import decode_checked, parse_json
from longshore.dispatcher.service.contracts import Unavailable
from longshore.drivers.errors import InvalidRequest

T = TypeVar("T")
_PLACE_RETRY_S = 5.0

_PLAIN = re.compile(rf"[^{UNPLAIN}\ud800-\udfff]{{0,{TEXT_MAX_CHARACTERS}}}")
_CURSOR = re.compile(rf"[\x21-\x7e]{{0,{CURSOR_MAX_CHARACTERS}}}")
_WHOLE = re.compile(r"[0-9]{1,18}")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


class Bodies:
    """Reads bodies; large ones are few at a time, and one at a time is decoded, in a thread.

    Decoding 16 MiB takes a good part of a second and many times its size in memory; neither may
    hold up the event loop or add up. A body may take its time to come, and has its place meanwhile:
    nobody may have more than half of the places.
    """

    def __init__(self, limits: ApiLimits, *, holder_of: Callable[[web.Request], str]) -> None:
        """`holder_of` says by whom places are counted, "" for who may have all of them."""
        self._limits = limits
        self._holder_of = holder_of
        self._held: Counter[str] = Counter()
        self._one_at_a_time = asyncio.Lock()

    async def decoded(self, request: web.Request, decode: Callable[[bytes], T]) -> T:
        """Return `decode(body)`.

        Raises what `decode` raises, `Unavailable` when too many large bodies are under way,
        `TooManyRequests` when too many are one user's, aiohttp's 413 for a body over the limit and
        408 for one that comes too slowly.
        """
        declared = request.content_length
        if request.can_read_body and (declared is None or declared > self._limits.large_body_bytes):
            return await self._large_decoded(request, decode)
        return decode(await self._read(request))

    async def _large_decoded(self, request: web.Request, decode: Callable[[bytes], T]) -> T:
        with self._place(self._holder_of(request)):
            body = await self._read(request)
            if len(body) <= self._limits.large_body_bytes:
                return decode(body)
            async with self._one_at_a_time:
                return await asyncio.to_thread(decode, body)

    @contextmanager
    def _place(self, holder: str) -> Iterator[None]:
        """Have one of the places of large bodies; raises as `decoded`."""
        most = self._limits.concurrent_large_bodies
        most_of_one = max(most // 2, 1)
        if holder and self._held[holder] >= most_of_one:
            said = (
                f"You are sending {most_of_one} large requests, the most that one user may send at"
                " a time: wait until one of them is answered."
            )
            raise TooManyRequests(said, retry_after_s=_PLACE_RETRY_S)
        if self._held.total() >= most:
            raise Unavailable("Too many large requests are under way: try again in a moment.")
        self._held[holder] += 1
        try:
            yield
        finally:
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]

    async def _read(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                return await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(text="The body came too slowly.") from None


def decode_one(wanted: type[T], body: bytes) -> T:
    """Return a body as a `wanted`; an empty one is taken as {}. Raises `InvalidRequest`."""
    return decode_checked(wanted, parse_json(body) if body else {})


class QueryString:
    """A query string of which only `known` parameters are allowed; raises `InvalidRequest`."""

    def __init__(self, request: web.Request, known: Collection[Parameter]) -> None:
        self._query = request.query
        names = [each.name for each in known]
        unknown = [name for name in dict.fromkeys(self._query) if name not in names]
        if unknown:
            said = "is not a parameter here"
            raise InvalidRequest(
                [(name[:60], f"{said}: {did_you_mean(name, names)}") for name in unknown[:10]]
            )

    def text(self, parameter: Text) -> str:
        """Return the one value, "" without any."""
        return self._one(parameter) or ""

    def page(self) -> tuple[str, int]:
        """Return which page is asked for: its cursor, "" for the first, and how many at most."""
        limit = self.whole(LIMIT)
        assert limit is not None  # noqa: S101 - it has a default
        return self._cursor(), limit

    def whole(self, parameter: Whole) -> int | None:
        """Return a whole number, the parameter's default where none is given."""
        text = self._one(parameter)
        if text is None:
            return parameter.default
        low, high = parameter.low, parameter.high
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise InvalidRequest([(parameter.name, f"must be a whole number from {low} to {high}")])
        return int(text)

    def choice(self, parameter: Choice) -> str:
        """Return the one word, the parameter's default where none is given."""
        text = self._one(parameter)
        if text is None:
            return parameter.default
        return _one_of(parameter.name, text, parameter.words)

    def switch(self, parameter: Switch) -> bool:
        """Return whether it is switched on."""
        text = self._one(parameter)
        return text is not None and _one_of(parameter.name, text, ("true", "false")) == "true"

    def instant(self, parameter: Instant) -> float | None:
        """Return a time in seconds since the epoch, None where none is given."""
        text = self._one(parameter)
        if text is None:
            return None
        try:
            return parse_moment(text)
        except ValueError as error:
            raise InvalidRequest([(parameter.name, str(error))]) from error

    def choices(self, parameter: Choices) -> list[str]:
        """Return some words, each once; several may be in one value, with commas."""
        texts = self._all(parameter)
        words = [word for text in texts for word in text.split(",")]
        if any(word not in parameter.words for word in words):
            listed = ", ".join(parameter.words)
            raise InvalidRequest([(parameter.name, f"must be among {listed} (comma-separated)")])
        return list(dict.fromkeys(words))

    def _cursor(self) -> str:
        """Return the cursor: it may be longer than a text, as an id in it may."""
        values = self._query.getall(CURSOR.name, [])
        if len(values) > 1:
            raise InvalidRequest([(CURSOR.name, "is given twice: give it once")])
        if any(not _CURSOR.fullmatch(value) for value in values):
            raise InvalidRequest([(CURSOR.name, "must be the next_cursor of the page before")])
        return values[0] if values else ""

    def _all(self, parameter: Parameter) -> list[str]:
        """Return every value, at most 100, of which each is plain text."""
        values = self._query.getall(parameter.name, [])
        if len(values) > 100 or not all(_PLAIN.fullmatch(value) for value in values):
            raise InvalidRequest([(parameter.name, "must be one line of at most 255 characters")])
        return values

    def _one(self, parameter: Parameter) -> str | None:
        values = self._all(parameter)
        if len(values) > 1:
            raise InvalidRequest([(parameter.name, "is given twice: give it once")])
        return values[0] if values else None


def _one_of(name: str, text: str, words: Collection[str]) -> str:
    if text not in words:
        listed = ", ".join(sorted(words))
        raise InvalidRequest([(name, f"must be one of {listed}, not {quoted(text)}")])
    return text


def idempotency_key(request: web.Request) -> str:
    """Return the header `Idempotency-Key`, "" without one; raises `InvalidRequest`."""
    keys = request.headers.getall("Idempotency-Key", [])
    if not keys:
        return ""
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
        what = "must be one value of 1 to 200 printable ASCII characters without spaces"
        raise InvalidRequest([("Idempotency-Key", what)])
    return keys[0]


def trace_header(request: web.Request) -> str:
    """Return the header `traceparent`, "" without one, or with several."""
    said = request.headers.getall("traceparent", [])
    return said[0] if len(said) == 1 else ""
