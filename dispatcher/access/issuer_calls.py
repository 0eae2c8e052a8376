"""Asking an issuer: for its keys, and for what a code is worth.

An issuer is a server of somebody else, so that there is an end to the time and to the size of each
answer, what it packs is not unpacked, and nobody is sent elsewhere: what is told to it (a code, a
secret) is for the address that its discovery document names. TLS is verified as everywhere, by the
authorities of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

FETCH_TIMEOUT_S = 5.0
ANSWER_BYTES_MOST = 256 * 1024


class UnusableAnswer(Exception):  # noqa: N818 - a reason, which becomes a line of the log
    """What an issuer answered is of no use; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerReply:
    """What an issuer answered."""

    status: int
    body: bytes


async def ask_issuer(
    url: str, *, form: Mapping[str, str] | None = None, authorization: str = ""
) -> IssuerReply:
    """Return what an issuer answers: to a POST where there is a `form`, else to a GET.

    `authorization` is the header of that name, "" for none. Raises `UnusableAnswer` for an answer
    that is too large, `aiohttp.ClientError` or `TimeoutError` for none: ask again later.
    """
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if authorization:
        headers["Authorization"] = authorization
    method = "GET" if form is None else "POST"
    timeout = aiohttp.ClientTimeout(total=FETCH_TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
        session.request(method, url, data=form, headers=headers, allow_redirects=False) as answer,
    ):
        content = b""
        async for chunk in answer.content.iter_chunked(64 * 1024):
            content += chunk
            if len(content) > ANSWER_BYTES_MOST:
                raise UnusableAnswer(f"{url} answers with more than {ANSWER_BYTES_MOST} bytes")
        return IssuerReply(status=answer.status, body=content)
