"""The dashboard: its files, and how a browser logs in to it and out.

The files are made by `tools/web_bundle.py` and stand beside this package; all but the page itself
have the hash of their content in their names, and may be kept for ever. Where they were not made,
the page says what to do. Nothing in them is anybody's: what they show they ask the API for, as
whom the browser's cookie says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from aiohttp import hdrs, web

from longshore.dispatcher.access.browser_cookies import (
    login_cookie,
    logout_cookies,
    token_in_cookies,
)
from longshore.dispatcher.access.credentials import Unauthorized
from longshore.dispatcher.access.issuer_login import IssuerLogin
from longshore.dispatcher.access.json_web_tokens import looks_like_jwt
from longshore.dispatcher.api.doors import Doors
from longshore.dispatcher.api.render.problems import Handler, problem
from longshore.dispatcher.api.render.tokens import caller_answer
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.docs import POLICY
from longshore.dispatcher.api.schemas.containers import Request
from longshore.dispatcher.api.validate.bodies import Bodies, decode_one

BUNDLE = Path(__file__).resolve().parent / "bundle"
"""Where the files are, if they were made."""
_TYPES: Mapping[str, str] = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_PAGE = "index.html"
_FOR_EVER = "public, max-age=31536000, immutable"
_LOGIN_MAX_BYTES = 16 * 1024
_NOT_BUILT = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Longshore</title><link rel="icon" href="data:,"></head>
<body>
<h1>Longshore runs, and its dashboard was not built</h1>
<p>Building it takes the npm registry. In the checkout, run <code>.venv/bin/python -m pip install
--editable .</code>, which says what is wrong, or <code>.venv/bin/python tools/web_bundle.py</code>;
then start the server again.</p>
<p>All else works: the command <code>longshore</code>, and <a href="docs">the API</a>.</p>
</body>
</html>
"""


class LoginRequest(Request, frozen=True, kw_only=True):
    """What a browser sends to log in."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=_LOGIN_MAX_BYTES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardPage:
    """One page or file of the dashboard."""

    method: str
    path: str
    handler: Handler


class DashboardPages:
    """Answers for the dashboard's pages.

    `now` gives seconds since the epoch, None where nobody knows; `bundle` is the folder of the
    files, which are read here, once. `login` lets browsers log in at the issuer, None where they
    cannot.
    """

    def __init__(
        self,
        doors: Doors,
        *,
        bodies: Bodies,
        now: Callable[[], float | None],
        bundle: Path = BUNDLE,
        login: IssuerLogin | None = None,
    ) -> None:
        self._doors = doors
        self._bodies = bodies
        self._now = now
        self._login = login
        found = sorted(bundle.iterdir()) if bundle.is_dir() else []
        self._files = {path.name: path.read_bytes() for path in found if path.suffix in _TYPES}
        self._page = _NOT_BUILT
        if (bundle / _PAGE).is_file():
            self._page = (bundle / _PAGE).read_text(encoding="utf-8")

    def pages(self) -> tuple[DashboardPage, ...]:
        """Return who answers for what: public, as there is nothing in it to keep."""
        return (
            DashboardPage(method=hdrs.METH_GET, path="/", handler=self.page),
            DashboardPage(method=hdrs.METH_GET, path="/assets/{name}", handler=self.file),
            DashboardPage(method=hdrs.METH_POST, path="/login", handler=self.login),
            DashboardPage(method=hdrs.METH_POST, path="/logout", handler=self.logout),
        )

    async def page(self, _request: web.Request) -> web.Response:
        """Answer the page that all of it is, which a browser asks for anew each time."""
        headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        return web.Response(text=self._page, content_type="text/html", headers=headers)

    async def file(self, request: web.Request) -> web.Response:
        """Answer a file that the page names."""
        name = request.match_info["name"]
        body = self._files.get(name)
        if body is None:
            return problem(404, "The dashboard has no such file: load its page again.")
        return web.Response(
            body=body,
            content_type=_TYPES[Path(name).suffix],
            charset="utf-8",
            headers={"Cache-Control": _FOR_EVER},
        )

    async def login(self, request: web.Request) -> web.Response:
        """Let a browser show a token from now on, if that lets anybody in."""
        wanted = await self._bodies.decoded(request, partial(decode_one, LoginRequest))
        caller = await self._doors.holder(wanted.token)
        now = self._now()
        lasts_s = None if caller.until is None or now is None else caller.until - now
        try:
            cookie = login_cookie(
                wanted.token, host=request.host, secure=_came_over_tls(request), lasts_s=lasts_s
            )
        except ValueError as error:
            raise Unauthorized(f"You cannot log in with this token: {error}.") from error
        response = json_response(caller_answer(caller))
        response.headers.add("Set-Cookie", cookie)
        return response

    async def logout(self, request: web.Request) -> web.Response:
        """Let a browser forget the token that it showed.

        Where that was the issuer's, it is told where its user logs out there, too: whoever comes
        to this browser next could else log in as them.
        """
        end_url = ""
        if self._login and looks_like_jwt(token_in_cookies(request.cookies, request.host)):
            secure = self._login.is_secure(came_over_tls=_came_over_tls(request))
            end_url = self._login.end_url(host=request.host, secure=secure)
        response = json_response({"issuer_logout": end_url or None})
        for cookie in logout_cookies(request.host):
            response.headers.add("Set-Cookie", cookie)
        return response


def _came_over_tls(request: web.Request) -> bool:
    """Return whether a browser came over TLS: to us, or as its page's origin says, to a proxy."""
    return request.secure or request.headers.get("Origin", "").lower().startswith("https://")
