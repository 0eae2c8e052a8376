"""What a request shows to be let in, read from its `Authorization` header (RFC 6750, RFC 7617)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

_LONGEST = 16 * 1024


class Unauthorized(Exception):  # noqa: N818 - reads as the answer it becomes
    """Nobody vouches for the caller; the message says what to do."""


class TooManyRequests(Exception):  # noqa: N818 - reads as the answer it becomes
    """The caller asks for more than it may; again in `retry_after_s` seconds."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def bearer_in(headers: Sequence[str]) -> str:
    """Return the token in the values of `Authorization`, "" without that header.

    `Basic` carries one as its password, or as its user where the password is empty, for clients
    that know nothing else. Raises `Unauthorized` for what is none.
    """
    if not headers:
        return ""
    if len(headers) > 1:
        raise Unauthorized("The header Authorization is given twice: give it once.")
    scheme, _, value = headers[0].partition(" ")
    value = value.strip()
    if len(value) > _LONGEST:
        raise Unauthorized("The header Authorization is too long.")
    match scheme.lower():
        case "bearer" if value and value.isascii() and " " not in value:
            return value
        case "basic":
            return _of_basic(value)
        case "bearer":
            raise Unauthorized("The header Authorization has no token behind Bearer.")
        case _:
            raise Unauthorized("Send the header Authorization: Bearer and your token.")


def _of_basic(value: str) -> str:
    try:
        text = base64.b64decode(value, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    user, colon, password = text.partition(":")
    token = password or user
    if not colon or not token:
        raise Unauthorized("The header Authorization has no user and password behind Basic.")
    return token
