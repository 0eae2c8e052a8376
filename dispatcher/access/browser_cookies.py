"""The cookie by which a browser shows a token: what it is called, and how it is kept.

It holds the token that its user logged in with, so that the server need remember no session: what
a token may, until when, and that it was revoked, is found out with each request. The browser gives
it to no script (HttpOnly) and sends it with no request that another site caused (SameSite=Strict).
Over TLS its name begins with `__Host-` (RFC 6265bis, 4.1.3.2), so that no other host, and nobody on
the way, can put one in its place; without TLS browsers refuse such names, and as cookies know no
ports, its name has the server's.

The token is of use for as long as the browser is told to keep it and no longer than itself.

A second cookie is there while its user logs in at the issuer: what the browser has to come back
with (`login_attempt`). The issuer is another site, so that a browser has to send this one with a
link from there (SameSite=Lax), which it does not do with the other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import SimpleCookie

LONGEST_SESSION_S = 12 * 3600
"""After this long a browser's user logs in anew, however long the token is good."""
LARGEST_COOKIE_BYTES = 4000
"""Browsers keep no larger ones (RFC 6265, 6.1), with name and attributes."""

ATTEMPT_S = 600
"""After this long whoever logs in at the issuer begins anew."""

_SECURE_NAME = "__Host-longshore"
_ATTEMPT = "-login"
"""What the name of the cookie of a login at the issuer ends in."""


def token_in_cookies(cookies: Mapping[str, str], host: str) -> str:
    """Return the token that a browser shows, "" for none; `host` is the header Host."""
    return cookies.get(_SECURE_NAME) or cookies.get(_plain_name(host), "")


def login_cookie(token: str, *, host: str, secure: bool, lasts_s: float | None) -> str:
    """Return the value of `Set-Cookie` that lets a browser show a token from now on.

    `secure` says that the browser came over TLS; `lasts_s` is for how many seconds the token is
    good, None for ever. Raises `ValueError` for one that no browser would keep.
    """
    most_s = LONGEST_SESSION_S if lasts_s is None else min(LONGEST_SESSION_S, int(lasts_s))
    name = _SECURE_NAME if secure else _plain_name(host)
    made = _cookie(name, token, secure=secure, lasts_s=max(0, most_s))
    if len(made) > LARGEST_COOKIE_BYTES:
        raise ValueError(f"the token is larger than browsers keep: {len(made)} bytes")
    return made


def logout_cookies(host: str) -> tuple[str, ...]:
    """Return the values of `Set-Cookie` that let a browser forget what it showed."""
    return tuple(
        _cookie(name, "", secure=name == _SECURE_NAME, lasts_s=0)
        for name in (_SECURE_NAME, _plain_name(host))
    )


def attempt_in_cookies(cookies: Mapping[str, str], host: str) -> str:
    """Return what a browser was given as it began to log in at the issuer, "" for nothing."""
    secure = cookies.get(_SECURE_NAME + _ATTEMPT)
    return secure or cookies.get(_plain_name(host) + _ATTEMPT, "")


def attempt_cookie(value: str, *, host: str, secure: bool) -> str:
    """Return the value of `Set-Cookie` that has a browser come back from the issuer with this."""
    name = (_SECURE_NAME if secure else _plain_name(host)) + _ATTEMPT
    return _cookie(name, value, secure=secure, lasts_s=ATTEMPT_S, same_site="Lax")


def attempt_over_cookies(host: str) -> tuple[str, ...]:
    """Return the values of `Set-Cookie` that let a browser forget what it had to come back with."""
    return tuple(
        _cookie(name + _ATTEMPT, "", secure=name == _SECURE_NAME, lasts_s=0, same_site="Lax")
        for name in (_SECURE_NAME, _plain_name(host))
    )


def _plain_name(host: str) -> str:
    port = host.rpartition(":")[2]
    return f"longshore-{port}" if port.isdecimal() else "longshore"


def _cookie(name: str, value: str, *, secure: bool, lasts_s: int, same_site: str = "Strict") -> str:
    cookie: SimpleCookie = SimpleCookie({name: value})
    made = cookie[name]
    made["path"], made["max-age"] = "/", lasts_s
    made["httponly"], made["samesite"] = True, same_site
    if secure:
        made["secure"] = True
    return made.OutputString()
