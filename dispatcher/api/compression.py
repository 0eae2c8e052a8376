"""Compressing answers with gzip, for clients that accept it.

Only what a GET answers: what is made, and may be answered this once (the text of a token), is an
answer to a POST, so that no secret is ever compressed beside something that a stranger chose, of
which the length would tell. Streams are left alone, as is what is too small to gain anything, and
what was encoded already. Large bodies are compressed on another thread.

Stands alone: the guards beside it say who is answered, this how.
"""

from __future__ import annotations

import re

from aiohttp import web

from longshore.dispatcher.api.render.problems import Handler

COMPRESSED_FROM_BYTES = 1024
_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


@web.middleware
async def compression_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a large answer be sent compressed where the client accepts that."""
    response = await handler(request)
    if request.method != "GET" or not isinstance(response, web.Response):
        return response
    # Also of one that is sent as it is: for somebody else it would not be the same.
    response.headers["Vary"] = "Accept-Encoding"
    body = response.body
    if isinstance(body, bytes) and len(body) >= COMPRESSED_FROM_BYTES and accepts_gzip(request):
        response.enable_compression(web.ContentCoding.gzip)
    return response


def accepts_gzip(request: web.Request) -> bool:
    """Return whether the header `Accept-Encoding` names gzip, or all, and does not rule it out."""
    weights: dict[str, float] = {}
    for part in ",".join(request.headers.getall("Accept-Encoding", [])).split(","):
        coding, _, parameter = part.partition(";")
        weight = _WEIGHT.fullmatch(parameter.strip() or "q=1")
        weights[coding.strip().lower()] = 0.0 if weight is None else float(weight[1])
    named = {name: weights[name] for name in ("gzip", "x-gzip") if name in weights}
    return max(named.values(), default=weights.get("*", 0.0)) > 0
