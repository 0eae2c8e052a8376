"""An issuer of JSON Web Tokens under the control of a test, on a port of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from longshore.dispatcher.access.json_web_tokens import REGISTRY

AUDIENCE = "longshore"
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})


def signed(key: Key, claims: dict[str, Any], *, alg: str = "RS256", **header: Any) -> str:
    """Return a token with these claims; `header` adds to what names key and algorithm."""
    named = {"kid": key.kid} if key.kid else {}
    return jwt.encode({"alg": alg, **named, **header}, claims, key, registry=REGISTRY)


class TokenIssuer:
    """What the issuer publishes, and what it was asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: list[Key] = [RSA, EC, ED]
        #: Added to the keys as they are.
        self.others: list[dict[str, Any]] = []
        self.asked: list[str] = []
        #: What it answers in place of what it should, by path.
        self.instead: dict[str, web.Response] = {}
        #: Changes what its discovery document says.
        self.said: dict[str, Any] = {}
        #: Set once it was asked for something.
        self.was_asked = asyncio.Event()
        #: Waited for before each answer.
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def token(self, now: float, **claims: Any) -> str:
        """Return one that is good at `now` for an hour, but for what `claims` say."""
        return signed(RSA, self.claims(now, **claims))

    def claims(self, now: float, **claims: Any) -> dict[str, Any]:
        """Return the claims of such a token; None leaves one out."""
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "exp": now + 3600, "iat": now}
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}

    async def answer(self, request: web.Request) -> web.Response:
        """Answer what is asked."""
        self.asked.append(request.path)
        self.was_asked.set()
        await self.may_answer.wait()
        if request.path in self.instead:
            return self.instead[request.path]
        if request.path == "/keys":
            published = [each.as_dict(private=False) for each in self.keys]
            return web.json_response({"keys": [*published, *self.others]})
        document = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.said}
        return web.json_response(document)


@asynccontextmanager
async def token_issuer(made: TokenIssuer | None = None) -> AsyncIterator[TokenIssuer]:
    """Serve an issuer, a new one if none is given, for the length of a `with`."""
    issuer = made or TokenIssuer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", issuer.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield issuer
    finally:
        await runner.cleanup()
