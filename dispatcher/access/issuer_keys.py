"""The keys that an issuer signs with, as it publishes them; fetched when they are needed.

An issuer changes its keys when it likes, and tells by signing with one that nobody has seen. So a
key that is not known is a reason to fetch them, but one that anybody can give: it is done once in
`RETRY_S` at most, by one at a time for all who wait, with an end to the time and to the size of
each answer. They are fetched too once they are older than `FRESH_S`, so that a key that the issuer
took back does not count for ever.

An issuer that is away changes nothing: the keys that are known are kept, and who needs another is
told to come again. They change as a whole, when the new ones have been read.

Beside those who come with tokens, `keep_fresh` asks: from the start on, so that an issuer that
cannot be asked is known before somebody has to, and again while it is away, so that it is known to
be back.

Where the keys are, the issuer's discovery document says. It must be that of the issuer that is
configured, both are fetched by https (or on this machine), and nobody is sent elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, TypeVar

import msgspec
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from longshore.dispatcher.access.issuer_calls import UnusableAnswer, ask_issuer
from longshore.dispatcher.config.single_sign_on import url_problem

RETRY_S = 30.0
FRESH_S = 600.0
_DISCOVERY = "/.well-known/openid-configuration"
_KINDS = ("RSA", "EC", "OKP")
_RSA_BITS_LEAST = 2048

_log = structlog.get_logger(__name__)


class _Discovery(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    jwks_uri: str


class IssuerEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where browsers log in at an issuer, as its discovery document says; "" for what it lacks."""

    authorization_endpoint: str = ""
    token_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    #: Whether what it sends a browser back with says who it is (RFC 9207).
    authorization_response_iss_parameter_supported: bool = False


class _Published(msgspec.Struct, frozen=True, kw_only=True):
    keys: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=100)]


class IssuerAnswer(Enum):
    """What became of the last time that keys were fetched."""

    #: It was never tried.
    NOT_ASKED = "not asked"
    GIVEN = "given"
    #: It did not answer, or not with keys.
    AWAY = "away"


Shape = TypeVar("Shape", _Discovery, _Published, IssuerEndpoints)


class IssuerKeys:
    """The keys of one issuer; used on the loop's thread.

    `clock` gives seconds of a clock that never goes back.
    """

    def __init__(self, url: str, *, clock: Callable[[], float]) -> None:
        self._url = url
        self._clock = clock
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._fetch: asyncio.Task[None] | None = None
        #: Those that are known; none at first.
        self.known = KeySet([])
        #: Where browsers log in; nowhere at first.
        self.endpoints = IssuerEndpoints()
        #: Whether the issuer answered when it was last asked.
        self.last = IssuerAnswer.NOT_ASKED
        #: Why it gave no keys then, "" where it did.
        self.why_away = ""

    async def keep_fresh(self, *, look_each_s: float = RETRY_S) -> None:
        """Have keys that are not old, as far as the issuer is there, until it is cancelled."""
        while True:
            if self.last is IssuerAnswer.AWAY:
                await self.fetch()
            await self.freshen()
            await asyncio.sleep(look_each_s)

    async def freshen(self) -> None:
        """Fetch the keys if they are too old, and if that was not just tried."""
        if self._read_at is None or self._clock() - self._read_at >= FRESH_S:
            await self.fetch()

    async def fetch(self) -> None:
        """Fetch the keys, or wait for who does, if that was not just tried."""
        if self._fetch is None:
            now = self._clock()
            if self._tried_at is not None and now - self._tried_at < RETRY_S:
                return
            self._tried_at = now
            self._fetch = asyncio.create_task(self._renew(), name="keys of the issuer")
        # Who goes away while it waits must not end it for the others.
        await asyncio.shield(self._fetch)

    async def close(self) -> None:
        """End a fetch that goes on."""
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.wait([self._fetch])

    async def _renew(self) -> None:
        try:
            found, endpoints = await self._fetched()
        except Exception as error:  # noqa: BLE001 - what an issuer answers ends nobody who asks
            self.last = IssuerAnswer.AWAY
            self.why_away = str(error) or type(error).__name__
            _log.warning("issuer_away", issuer=self._url, why=self.why_away)
        else:
            self.known, self._read_at, self.last = found, self._clock(), IssuerAnswer.GIVEN
            self.endpoints = endpoints
            self.why_away = ""
            _log.info("issuer_keys_read", issuer=self._url, keys=len(found.keys))
        finally:
            self._fetch = None

    async def _fetched(self) -> tuple[KeySet, IssuerEndpoints]:
        answer = await _get(self._url.removesuffix("/") + _DISCOVERY)
        found = _read(answer, _Discovery)
        if found.issuer != self._url:
            raise UnusableAnswer("its discovery document is that of another issuer")
        if why := url_problem(found.jwks_uri.partition("?")[0]):
            raise UnusableAnswer(f"the address of its keys {why}")
        keys = _usable(_read(await _get(found.jwks_uri), _Published))
        if not keys.keys:
            raise UnusableAnswer("it publishes no key that can be used")
        return keys, _endpoints_in(answer)


async def _get(url: str) -> bytes:
    answer = await ask_issuer(url)
    if answer.status != 200:
        raise UnusableAnswer(f"{url} answers {answer.status}")
    return answer.body


def _endpoints_in(document: bytes) -> IssuerEndpoints:
    """Return where browsers log in; what is wrong with that spoils no keys."""
    try:
        found = _read(document, IssuerEndpoints)
    except UnusableAnswer as error:
        _log.warning("issuer_endpoints_unusable", why=str(error))
        return IssuerEndpoints()
    names = ("authorization_endpoint", "token_endpoint", "end_session_endpoint")
    for name in names:
        url = getattr(found, name)
        why = "has a fragment" if "#" in url else url_problem(url.partition("?")[0])
        if url and why:
            _log.warning("issuer_endpoints_unusable", why=f"its {name} {why}")
            found = msgspec.structs.replace(found, **{name: ""})
    return found


def _read(answer: bytes, shape: type[Shape]) -> Shape:
    try:
        return msgspec.json.decode(answer, type=shape)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnusableAnswer(f"it answers with something else than expected: {error}") from error


def _usable(published: _Published) -> KeySet:
    """Return the keys with which a token can be signed; others are none of ours."""
    found = [_key(each) for each in published.keys]
    return KeySet([each for each in found if each is not None])


def _key(data: dict[str, Any]) -> Key | None:
    if data.get("kty") not in _KINDS or data.get("use", "sig") != "sig":
        return None
    try:
        is_short = data["kty"] == "RSA" and _bits(data.get("n", "")) < _RSA_BITS_LEAST
        key = None if is_short else JWKRegistry.import_key(data)
    except (JoseError, ValueError, TypeError, KeyError, UnsupportedAlgorithm) as error:
        _log.warning("issuer_key_unusable", why=str(error) or type(error).__name__)
        return None
    if is_short:
        _log.warning("issuer_key_unusable", why=f"it has less than {_RSA_BITS_LEAST} bits")
    return key


def _bits(number: str) -> int:
    """Return how many bits a number of a key has; raises `ValueError` or `TypeError`."""
    return int.from_bytes(base64.urlsafe_b64decode(number + "=="), "big").bit_length()
