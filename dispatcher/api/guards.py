"""What protects the server from web pages of others in the browser of somebody whom it lets in.

A page can make a browser send requests to 127.0.0.1: under a name of its own that resolves there
(so in open mode Host must be a loopback address), from its own origin (so Origin must be ours, and
what the browser itself says in Sec-Fetch-Site too, as not every request has an Origin), or as a
form without asking (so a body must be declared as JSON, which no form can). Nor may a page of
another origin, which no answer is for, load one as a picture or a script. Where callers say who
they are, a name of somebody else's is no use, since no browser sends it a credential of ours; but
a proxy that is trusted may know them by a cookie, so origins are looked at there too. Two
addresses are for links of others: that to which the issuer sends a browser back, which has to bring
along what it was given as it began to log in; and the dashboard's page, in which nothing is
anybody's, and to which the issuer's logout leads.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Middleware

from longshore.dispatcher.api.doors import peer_of
from longshore.dispatcher.api.render.problems import Handler, problem
from longshore.dispatcher.config.single_sign_on import LOGIN_CALLBACK

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"(https?)://(.*)", re.IGNORECASE)
_JSON = re.compile(r'application/json\s*(;\s*charset="?utf-8"?\s*)?', re.IGNORECASE)
_LED_TO = frozenset({"/", LOGIN_CALLBACK})
_OUR_SITES = frozenset({"same-origin", "none"})
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
ANSWER_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def guard_for(*, is_open: bool) -> Middleware:
    """Return what stands before all else, where anybody on this machine is let in or is not."""
    return open_mode_middleware if is_open else required_mode_middleware


@web.middleware
async def open_mode_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what a browser may have been talked into, where anybody on this machine is let in."""
    if peer_of(request) is None and (refusal := _refuse_open(request)) is not None:
        return refusal
    return await _with_json(request, handler)


@web.middleware
async def required_mode_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what a browser may have been talked into, where callers say who they are."""
    if peer_of(request) is None and not _is_own_page(request):
        return problem(403, "This server refuses requests made by pages of other origins.")
    return await _with_json(request, handler)


async def _with_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    # Where nobody takes a body of this method, that is what is told.
    takes_body = request.method in _METHODS_WITH_BODY and request.match_info.http_exception is None
    # No form sends a DELETE, and the page of another origin has to ask for leave first.
    takes_body = takes_body and (request.method != "DELETE" or request.can_read_body)
    if takes_body and (refusal := _refuse_body(request)) is not None:
        return refusal
    return await handler(request)


def _refuse_open(request: web.Request) -> web.Response | None:
    hosts = request.headers.getall("Host", [])
    port = loopback_port(hosts[0], default=80) if len(hosts) == 1 else None
    if port is None:
        return problem(
            403,
            "This server lets in everybody on its machine (auth.mode is open) and answers only"
            " requests to localhost, 127.0.0.1 or [::1]: its Host header must be one of them.",
        )
    origins = request.headers.getall("Origin", [])
    sites = request.headers.getall("Sec-Fetch-Site", [])
    if not _OUR_SITES.issuperset(sites) or not all(_same_port(each, port) for each in origins):
        return problem(
            403,
            "This server lets in everybody on its machine (auth.mode is open) and refuses requests"
            " made by pages of other origins.",
        )
    return None


def _is_own_page(request: web.Request) -> bool:
    """Return whether no page, or one of the origin that it asks, makes a request."""
    hosts = request.headers.getall("Host", [])
    origins = request.headers.getall("Origin", [])
    sites = request.headers.getall("Sec-Fetch-Site", [])
    if len(hosts) != 1 or not (_OUR_SITES.issuperset(sites) or _is_followed_link(request)):
        return False
    ours = {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}
    return all(each.lower() in ours for each in origins)


def _is_followed_link(request: web.Request) -> bool:
    """Return whether a browser asks for a page that others may lead to, to show it as a whole."""
    shown = request.headers.getall("Sec-Fetch-Dest", []) == ["document"]
    return shown and request.method == "GET" and request.path in _LED_TO


def loopback_port(authority: str, *, default: int) -> int | None:
    """Return the port of `host[:port]` if the host is this machine, else None.

    `default` is the port when none is written.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None or not _is_loopback(match.group(1)):
        return None
    port = default if match.group(2) is None else int(match.group(2))
    return port if port <= 65535 else None


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _same_port(origin: str, port: int) -> bool:
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return False
    default = 443 if match.group(1).lower() == "https" else 80
    return loopback_port(match.group(2), default=default) == port


def _refuse_body(request: web.Request) -> web.Response | None:
    types = request.headers.getall("Content-Type", [])
    if len(types) != 1 or not _JSON.fullmatch(types[0]):
        return problem(415, "Send the header Content-Type: application/json, and JSON in UTF-8.")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        return problem(415, "Send the body as it is, without a Content-Encoding.")
    return None
