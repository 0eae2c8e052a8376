"""An issuer at which browsers log in, under the control of a test: what a real one must hold.

It holds it as RFC 9700 asks: a code is good once, for the client and the address that it was made
for, with the verifier of the challenge that it was asked for with.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
from aiohttp import web

from longshore.dispatcher.access.issuer import Issuer
from longshore.dispatcher.access.issuer_login import IssuerLogin
from longshore.dispatcher.config.model import (
    AuthConfig,
    AuthMode,
    IssuerConfig,
    IssuerLoginConfig,
)
from longshore.dispatcher.domain.principals import Role
from longshore.dispatcher.service.services import Services
from tests.api_server import NOW, serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig
from tests.token_issuer import AUDIENCE, RSA, TokenIssuer, signed, token_issuer


class CodeIssuer(TokenIssuer):
    """What it publishes, the codes that it made, and what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, dict[str, str]] = {}
        #: The forms and the headers `Authorization` that came for codes.
        self.forms: list[tuple[dict[str, str], str]] = []
        #: What is in ID tokens beside what is usual; None leaves a claim out.
        self.claims_more: dict[str, Any] = {}
        #: What it gives in place of an ID token.
        self.gives = ""

    def log_in(self, location: str, **back: str) -> str:
        """Log in at the address that a browser was sent to; return where it is sent back to.

        `back` is added to what is sent along.
        """
        asked = dict(parse_qsl(urlsplit(location).query))
        code = f"code {len(self.codes)}"
        self.codes[code] = asked
        query = {"code": code, "state": asked["state"], **back}
        return f"{asked['redirect_uri']}?{urlencode(query)}"

    async def answer(self, request: web.Request) -> web.Response:
        """Answer what is asked."""
        if request.path != "/token" or request.path in self.instead:
            return await super().answer(request)
        self.asked.append(request.path)
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append((form, request.headers.get("Authorization", "")))
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or (asked["code_challenge"], asked["redirect_uri"]) != (
            challenge,
            form.get("redirect_uri"),
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        claims = self.claims(NOW, **{"nonce": asked["nonce"], **self.claims_more})
        text = self.gives or signed(RSA, claims)
        return web.json_response({"id_token": text, "access_token": "a", "token_type": "Bearer"})


@dataclass(slots=True)
class LoginSite:
    """A server at whose issuer browsers log in, the issuer, and one browser."""

    url: str
    issuer: CodeIssuer
    services: Services
    session: aiohttp.ClientSession
    flow: IssuerLogin
    #: A clock that a test turns.
    clock_s: list[float]

    async def get(self, url: str, **given: Any) -> aiohttp.ClientResponse:
        """Return an answer, read whole; nobody is sent on."""
        whole = url if "://" in url else f"{self.url}{url}"
        async with self.session.get(whole, allow_redirects=False, **given) as response:
            await response.read()
            return response

    async def begun(self) -> str:
        """Begin to log in; return where the browser is sent."""
        answer = await self.get("/login/start")
        assert answer.status == 302, await answer.text()
        return answer.headers["Location"]

    async def who(self) -> str:
        """Return as whom the browser is let in, "" for nobody."""
        answer = await self.get("/v1/whoami")
        return str(json.loads(await answer.text()).get("user", ""))


@asynccontextmanager
async def login_site(*, is_behind_tls: bool = False, **login: Any) -> AsyncIterator[LoginSite]:
    """Serve a server and its issuer for the length of a `with`; `login` changes what is set."""
    jar = aiohttp.CookieJar(unsafe=True)  # which here means: also of addresses
    made = CodeIssuer()
    async with (
        token_issuer(made),
        ApiRig().served() as services,
        aiohttp.ClientSession(cookie_jar=jar) as session,
    ):
        made.said |= {
            "authorization_endpoint": f"{made.url}/authorize",
            "token_endpoint": f"{made.url}/token",
            "end_session_endpoint": f"{made.url}/logout?kind=all",
        }
        config = IssuerConfig(
            url=made.url,
            audience=AUDIENCE,
            default_role=Role.USER,
            login=IssuerLoginConfig(client_id=AUDIENCE, **login),
        )
        clock_s = [100.0]
        end = Issuer(config, now=lambda: NOW, clock=lambda: clock_s[0])
        doors = doors_of(
            services,
            mode=AuthMode.REQUIRED,
            config=AuthConfig(issuer=config),
            issuer=end,
            now=lambda: NOW,
        )
        numbers = iter(range(256))
        flow = IssuerLogin(
            end,
            config,
            is_behind_tls=is_behind_tls,
            random_bytes=lambda count: bytes([next(numbers)] * count),
            clock=lambda: clock_s[0],
        )
        try:
            async with serving(services, doors=doors, login=flow) as (url, _):
                yield LoginSite(
                    url=url,
                    issuer=made,
                    services=services,
                    session=session,
                    flow=flow,
                    clock_s=clock_s,
                )
        finally:
            await end.close()
