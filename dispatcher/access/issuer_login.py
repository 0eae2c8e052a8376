"""Logging in at the issuer, for browsers: the authorization code flow of OpenID Connect.

A browser is sent to the issuer with what `login_attempt` throws for it, logs in there, and is sent
back with a code. This server exchanges the code for an ID token, at the address that the issuer's
discovery document names, and looks at the token as at one that a program brings (`issuer`), and at
its nonce. The token is then the browser's, in its cookie: nothing of a login is kept here. An
access token or a refresh token that comes along is dropped.

What makes this server ask the issuer is counted, by address and altogether: who can reach this
server could else have it send the issuer as many codes as they like.

The issuer must send browsers back to the very address that it knows. That is what is configured, or
else is made of what the browser itself asks: a wrong header Host gets an address that the issuer
does not know, and so a refusal there.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
import msgspec
import structlog

from longshore.dispatcher.access.claimed import Denial, DenialKind
from longshore.dispatcher.access.issuer import Issuer, caller_in
from longshore.dispatcher.access.issuer_calls import UnusableAnswer, ask_issuer
from longshore.dispatcher.access.issuer_keys import IssuerEndpoints
from longshore.dispatcher.access.login_attempt import (
    LoginAttempt,
    code_returned,
    new_attempt,
    token_problem,
)
from longshore.dispatcher.access.request_buckets import RequestBuckets
from longshore.dispatcher.config.model import IssuerConfig
from longshore.dispatcher.config.single_sign_on import LOGIN_CALLBACK, login_secret
from longshore.dispatcher.domain.principals import Principal

PER_ADDRESS_EACH_S, PER_ADDRESS_BURST = 6.0, 20
"""How often one address has codes exchanged: a lecture hall may be behind it, at once."""
ALL_PER_S, ALL_BURST = 10.0, 100
_AWAY = "The issuer does not answer as it should, so that nobody can log in there: try again later."
_REFUSED = (
    "The issuer takes the code of this login for nothing: it is too old, was used already, or this"
    " server is not set up there as its configuration says."
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunLogin:
    """Where a browser is sent, and what it takes along."""

    url: str
    attempt: LoginAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLogin:
    """Who logged in, and the ID token that says so."""

    caller: Principal
    token: str


class _Tokens(msgspec.Struct, frozen=True, kw_only=True):
    id_token: str


class _TokenError(msgspec.Struct, frozen=True, kw_only=True):
    error: str = ""


class IssuerLogin:
    """Lets browsers log in at the issuer; used on the loop's thread.

    `is_behind_tls` says that a proxy in front speaks TLS with browsers. `random_bytes` throws the
    dice, `clock` gives seconds of a clock that never goes back.
    """

    def __init__(
        self,
        issuer: Issuer,
        config: IssuerConfig,
        *,
        is_behind_tls: bool,
        random_bytes: Callable[[int], bytes],
        clock: Callable[[], float],
    ) -> None:
        self._issuer = issuer
        self._config = config
        self._login = config.login
        self._is_behind_tls = is_behind_tls
        self._random_bytes = random_bytes
        self._clock = clock
        self._by_address = RequestBuckets(
            requests_per_s=1 / PER_ADDRESS_EACH_S, burst=PER_ADDRESS_BURST
        )
        self._all = RequestBuckets(requests_per_s=ALL_PER_S, burst=ALL_BURST)

    @property
    def name(self) -> str:
        """Return what users know the issuer by: its host."""
        return urlsplit(self._config.url).hostname or ""

    def is_secure(self, *, came_over_tls: bool) -> bool:
        """Return whether browsers speak TLS, with this server or with a proxy in front."""
        return came_over_tls or self._is_behind_tls or self._login.redirect_url.startswith("https:")

    async def begin(self, *, host: str, secure: bool) -> BegunLogin | Denial:
        """Return where to send a browser that asks for `host`, the header; waits for the issuer."""
        found = await self._issuer.freshened()
        if not found.authorization_endpoint or not found.token_endpoint:
            _log.warning("issuer_has_no_login", issuer=self._config.url)
            return Denial(kind=DenialKind.UNDECIDED, sentence=_AWAY)
        attempt = new_attempt(self._random_bytes)
        query = {
            "response_type": "code",
            "client_id": self._login.client_id,
            "redirect_uri": self._redirect_url(host=host, secure=secure),
            "scope": " ".join(self._login.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        url = _with_query(found.authorization_endpoint, query)
        return BegunLogin(url=url, attempt=attempt)

    def wait_s(self, address: str) -> float:
        """Take a try to log in of an address's; return 0.0, or after how many seconds there is one.

        It comes before `finish`.
        """
        now_s = self._clock()
        return self._by_address.take(address, now_s) or self._all.take("", now_s)

    async def code(
        self, values_of: Callable[[str], Sequence[str]], attempt: LoginAttempt
    ) -> str | Denial:
        """Return the code that a browser came back with, as `code_returned` does."""
        found = await self._issuer.freshened()
        return code_returned(
            values_of,
            attempt,
            issuer=self._config.url,
            says_who=found.authorization_response_iss_parameter_supported,
        )

    async def finish(
        self, code: str, attempt: LoginAttempt, *, host: str, secure: bool
    ) -> FinishedLogin | Denial:
        """Return who logged in, or why nobody did; `host` and `secure` are as they were to begin.

        It asks the issuer, a few seconds at most.
        """
        back_to = self._redirect_url(host=host, secure=secure)
        try:
            token = await self._exchanged(code, attempt, back_to)
        except (UnusableAnswer, aiohttp.ClientError, TimeoutError, ValueError) as error:
            why = str(error) or type(error).__name__
            _log.warning("issuer_login_failed", issuer=self._config.url, why=why)
            return Denial(kind=DenialKind.UNDECIDED, sentence=_AWAY)
        if isinstance(token, Denial):
            return token
        signed = await self._issuer.signed(token)
        if isinstance(signed, Denial):
            return signed
        if why := token_problem(signed.claims, attempt, self._login.client_id):
            return Denial(kind=DenialKind.WORTHLESS, sentence=why)
        caller = caller_in(signed, self._config)
        if isinstance(caller, Denial):
            return caller
        return FinishedLogin(caller=caller, token=token)

    def end_url(self, *, host: str, secure: bool) -> str:
        """Return where a user logs out of the issuer, "" where it has no such place.

        The token is not in it: it would stand in the browser's history and in logs, and the issuer
        asks its user without it.
        """
        endpoint = self._issuer.endpoints.end_session_endpoint
        if not endpoint:
            return ""
        back_to = self._redirect_url(host=host, secure=secure).removesuffix(LOGIN_CALLBACK) + "/"
        query = {"client_id": self._login.client_id, "post_logout_redirect_uri": back_to}
        return _with_query(endpoint, query)

    async def _exchanged(self, code: str, attempt: LoginAttempt, back_to: str) -> str | Denial:
        """Return the ID token that a code is worth."""
        endpoints = self._issuer.endpoints
        if not endpoints.token_endpoint:
            raise UnusableAnswer("its discovery document has no token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back_to,
            "code_verifier": attempt.verifier,
        }
        secret = await asyncio.to_thread(login_secret, self._login)
        shown, authorization = _client_shown(self._login.client_id, secret, endpoints)
        answer = await ask_issuer(
            endpoints.token_endpoint, form={**form, **shown}, authorization=authorization
        )
        if answer.status == 200:
            return _id_token_in(answer.body)
        error = _error_in(answer.body)
        _log.warning("issuer_login_refused", issuer=self._config.url, why=error or answer.status)
        if not error or answer.status >= 500:
            raise UnusableAnswer(f"it answers {answer.status} to a code")
        return Denial(kind=DenialKind.WORTHLESS, sentence=_REFUSED)

    def _redirect_url(self, *, host: str, secure: bool) -> str:
        """Return where the issuer sends a browser back to that asks for `host`."""
        scheme = "https" if secure else "http"
        return self._login.redirect_url or f"{scheme}://{host}{LOGIN_CALLBACK}"


def _client_shown(
    client_id: str, secret: str, endpoints: IssuerEndpoints
) -> tuple[dict[str, str], str]:
    """Return by what this server is known to the issuer: fields of a form, and `Authorization`.

    Raises `ValueError` where the issuer takes a secret in neither way (RFC 6749, 2.3.1).
    """
    ways = endpoints.token_endpoint_auth_methods_supported
    if not secret:
        return {"client_id": client_id}, ""
    if "client_secret_basic" in ways:
        pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
        return {}, f"Basic {base64.b64encode(pair.encode()).decode()}"
    if "client_secret_post" in ways:
        return {"client_id": client_id, "client_secret": secret}, ""
    raise ValueError("it takes a client's secret neither by client_secret_basic nor by _post")


def _id_token_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Tokens).id_token
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnusableAnswer(f"it gives no ID token for a code: {error}") from error


def _error_in(body: bytes) -> str:
    """Return what an issuer calls the error of its answer, "" where it does not."""
    try:
        return msgspec.json.decode(body, type=_TokenError).error[:100]
    except (msgspec.DecodeError, RecursionError):
        return ""


def _with_query(url: str, query: dict[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"
