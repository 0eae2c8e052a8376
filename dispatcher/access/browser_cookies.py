"""The cookie by which a browser shows a token: what it is called, and how it is kept.

It holds the token that its user logged in with, so that the server need remember no session: what
a token may, until when, and that it was revoked, is found out with each request. The browser gives
it to no script (HttpOnly) and sends it with no request that another site caused (SameSite=Strict).
Over TLS its name begins with `__Host-` (RFC 6265bis, 4.1.3.2), so that no other host, and nobody on
the way, can put one in its place; without TLS browsers refuse such names, and as cookies know no
ports, its name has the server's.

The token is of use for as long as the browser is told to keep it and no longer than itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import SimpleCookie

LONGEST_SESSION_S = 12 * 3600
"""After this long a browser's user logs in anew, however long the token is good."""
LARGEST_COOKIE_BYTES = 4000
"""Browsers keep no larger ones (RFC 6265, 6.1), with name and attributes."""

_SECURE_NAME = "__Host-longshore"


def token_in_cookies(cookies: Mapping[str, str], host: str) -> str:
    """Return the token that a browser shows, "" for none; `host` is the header Host."""
    return cookies.get(_SECURE_NAME) or cookies.get(_plain_name(host), "")


def login_cookie(token: str, *, host: str, secure: bool, lasts_s: float | None) -> str:
    """Return the value of `Set-Cookie` that lets a browser show a token from now on.

    `secure` says that the browser came over TLS; `lasts_s` is for how many seconds the token is
    good, None for ever. Raises `ValueError` for one that no browser would keep.
    """
    most_s = LONGEST_SESSION_S if lasts_s is None else min(LONGEST_SESSION_S, int(lasts_s))
    made = _cookie(token, host=host, secure=secure, lasts_s=max(0, most_s))
    if len(made) > LARGEST_COOKIE_BYTES:
        raise ValueError(f"the token is larger than browsers keep: {len(made)} bytes")
    return made


def logout_cookies(host: str) -> tuple[str, ...]:
    """Return the values of `Set-Cookie` that let a browser forget what it showed."""
    return tuple(_cookie("", host=host, secure=secure, lasts_s=0) for secure in (True, False))


def _plain_name(host: str) -> str:
    port = host.rpartition(":")[2]
    return f"longshore-{port}" if port.isdecimal() else "longshore"


def _cookie(value: str, *, host: str, secure: bool, lasts_s: int) -> str:
    name = _SECURE_NAME if secure else _plain_name(host)
    cookie: SimpleCookie = SimpleCookie({name: value})
    made = cookie[name]
    made["path"], made["max-age"] = "/", lasts_s
    made["httponly"], made["samesite"] = True, "Strict"
    if secure:
        made["secure"] = True
    return made.OutputString()
