"""Logging in to the dashboard at the issuer: the pages that a browser comes by on its way.

`/login/methods` tells how one can log in, before anybody has; `/login/start` sends a browser to the
issuer, which sends it back to `/login/callback`. Of what it comes back with the page makes the
cookie by which it is let in. That page is no redirect: a browser that was sent here by another site
sends the cookie with nothing of that chain (SameSite=Strict), but with where our own page leads.

Nothing in the address says where to go on to, so that nobody can be led elsewhere. The cookie of
the login is forgotten whatever comes of it: who tries again begins anew.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from http import HTTPStatus
from typing import assert_never

import structlog
from aiohttp import hdrs, web

from longshore.dispatcher.access.browser_cookies import (
    attempt_cookie,
    attempt_in_cookies,
    attempt_over_cookies,
    login_cookie,
)
from longshore.dispatcher.access.claimed import Denial, DenialKind
from longshore.dispatcher.access.issuer_login import FinishedLogin, IssuerLogin
from longshore.dispatcher.access.login_attempt import LoginAttempt, read_attempt
from longshore.dispatcher.api.dashboard import DashboardPage
from longshore.dispatcher.api.doors import Doors
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.config.single_sign_on import LOGIN_CALLBACK
from longshore.dispatcher.service.audit import AuditOutcome, AuditService
from longshore.dispatcher.service.contracts import Unavailable

_POLICY = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ACTION = f"GET {LOGIN_CALLBACK}"
_NOT_BEGUN = (
    "This browser has not begun to log in at this address, or did so more than ten minutes ago, or"
    " has been back already."
)
_OFTEN = "Too many log in at the moment: try again in {wait_s} s."
_NO_LOGIN = (
    "This server lets nobody log in at an issuer: auth.issuer.login is not set. Use a token."
)
_TOO_LARGE = (
    "You cannot log in in a browser: {why}. Have the issuer put less into the ID token (the groups"
    " of this server alone, say), or log in with a token of the server's own."
)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{head}<title>{title}</title>
<link rel="icon" href="data:,">
</head>
<body>
<h1>{title}</h1>
<p>{said}</p>
<p>{links}</p>
</body>
</html>
"""
_GO_ON = '<meta http-equiv="refresh" content="0; url=../">\n'
_TO_DASHBOARD = '<a href="../">Go to the dashboard</a>'
_AGAIN = '<a href="start">Log in again</a>'


class BrowserLoginPages:
    """Answers for the pages of a login at the issuer.

    `login` is None where the server has none. `now` gives seconds since the epoch, None where
    nobody knows.
    """

    def __init__(
        self,
        doors: Doors,
        audit: AuditService,
        login: IssuerLogin | None,
        *,
        now: Callable[[], float | None],
    ) -> None:
        self._doors = doors
        self._audit = audit
        self._login = login
        self._now = now
        self._log = structlog.get_logger(__name__)

    def pages(self) -> tuple[DashboardPage, ...]:
        """Return who answers for what: public, as nobody has logged in yet."""
        return (
            DashboardPage(method=hdrs.METH_GET, path="/login/methods", handler=self.methods),
            DashboardPage(method=hdrs.METH_GET, path="/login/start", handler=self.start),
            DashboardPage(method=hdrs.METH_GET, path=LOGIN_CALLBACK, handler=self.callback),
        )

    async def methods(self, _request: web.Request) -> web.Response:
        """Answer by what a browser can log in beside a token: the issuer's host, or null."""
        return json_response({"issuer": None if self._login is None else self._login.name})

    async def start(self, request: web.Request) -> web.Response:
        """Send a browser to the issuer, with what it has to come back with."""
        if self._login is None:
            return _page(HTTPStatus.NOT_FOUND, _NO_LOGIN, _TO_DASHBOARD)
        secure = self._login.is_secure(came_over_tls=request.secure)
        begun = await self._login.begin(host=request.host, secure=secure)
        if isinstance(begun, Denial):
            return self._denied(request, begun)
        response = web.Response(
            status=HTTPStatus.FOUND,
            headers={"Location": begun.url, "Referrer-Policy": "no-referrer"},
        )
        cookie = attempt_cookie(begun.attempt.text, host=request.host, secure=secure)
        response.headers.add("Set-Cookie", cookie)
        return response

    async def callback(self, request: web.Request) -> web.Response:
        """Take back a browser from the issuer, and let it in if that is who it says."""
        if self._login is None:
            return _page(HTTPStatus.NOT_FOUND, _NO_LOGIN, _TO_DASHBOARD)
        response = await self._taken_back(request, self._login)
        for cookie in attempt_over_cookies(request.host):
            response.headers.add("Set-Cookie", cookie)
        return response

    async def _taken_back(self, request: web.Request, login: IssuerLogin) -> web.Response:
        attempt = read_attempt(attempt_in_cookies(request.cookies, request.host))
        if attempt is None:
            return self._denied(request, Denial(kind=DenialKind.MALFORMED, sentence=_NOT_BEGUN))
        code = await login.code(lambda name: request.query.getall(name, []), attempt)
        if isinstance(code, Denial):
            return self._denied(request, code)
        if wait_s := login.wait_s(self._doors.address_of(request)):
            said = _OFTEN.format(wait_s=math.ceil(wait_s))
            response = _page(HTTPStatus.TOO_MANY_REQUESTS, said, _AGAIN)
            response.headers["Retry-After"] = str(math.ceil(wait_s))
            return response
        return await self._finished(request, login, code, attempt)

    async def _finished(
        self, request: web.Request, login: IssuerLogin, code: str, attempt: LoginAttempt
    ) -> web.Response:
        secure = login.is_secure(came_over_tls=request.secure)
        found = await login.finish(code, attempt, host=request.host, secure=secure)
        if isinstance(found, Denial):
            return self._denied(request, found)
        now, until = self._now(), found.caller.until
        lasts_s = None if until is None or now is None else until - now
        try:
            cookie = login_cookie(found.token, host=request.host, secure=secure, lasts_s=lasts_s)
        except ValueError as error:
            said = _TOO_LARGE.format(why=error)
            return self._denied(request, Denial(kind=DenialKind.NO_RIGHT, sentence=said))
        try:
            await self._noted(request, found)
        except Unavailable as error:
            return _page(HTTPStatus.SERVICE_UNAVAILABLE, str(error), _AGAIN)
        said = f"You are logged in as {found.caller.user}."
        response = _page(HTTPStatus.OK, said, _TO_DASHBOARD, title="Logged in", head=_GO_ON)
        response.headers.add("Set-Cookie", cookie)
        return response

    async def _noted(self, request: web.Request, found: FinishedLogin) -> None:
        """Write down who logged in, before they do; raises `Unavailable` where that cannot be."""
        address = self._doors.address_of(request)
        noted = self._audit.begin(found.caller, address=address, action=_ACTION)
        await self._audit.confirm(noted)
        self._audit.finish(noted, AuditOutcome(status=HTTPStatus.OK, detail="logged in"))
        self._log.info("browser_login", user=found.caller.user, address=address)

    def _denied(self, request: web.Request, denial: Denial) -> web.Response:
        """Answer why nobody logged in, which the log has too: the code is told to nobody."""
        address = self._doors.address_of(request)
        self._log.warning("browser_login_denied", address=address, why=denial.sentence)
        links = f"{_AGAIN} · {_TO_DASHBOARD}"
        return _page(_status_of(denial.kind), denial.sentence, links)


def _status_of(kind: DenialKind) -> HTTPStatus:
    match kind:
        case DenialKind.WORTHLESS:
            return HTTPStatus.UNAUTHORIZED
        case DenialKind.NO_RIGHT:
            return HTTPStatus.FORBIDDEN
        case DenialKind.MALFORMED:
            return HTTPStatus.BAD_REQUEST
        case DenialKind.UNDECIDED:
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            assert_never(kind)


def _page(
    status: int, said: str, links: str, *, title: str = "You are not logged in", head: str = ""
) -> web.Response:
    """Return a page with a sentence, which may be anybody's, and links, which are ours."""
    return web.Response(
        status=status,
        text=_PAGE.format(head=head, title=title, said=html.escape(said), links=links),
        content_type="text/html",
        headers={"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"},
    )
