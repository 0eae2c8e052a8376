"""Who a request is from: the one place where callers are let in.

What vouches for a caller is tried in this order: the engine's memory, for who asks from inside of a
container; the kernel, for who comes over the Unix socket; a proxy that is trusted, by its headers;
a token, by `Authorization` or else by a browser's cookie, which by its shape is of ours or of the
issuer, and is never shown to the other. Who shows nothing is nobody, or in open mode anybody. What
is shown and no good is refused in every mode and never passed over: whoever shows something means
to be somebody. Where a proxy says who asks, `Authorization` is its business.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

from aiohttp import hdrs, web

from longshore.dispatcher.access.browser_cookies import token_in_cookies
from longshore.dispatcher.access.claimed import Denial, DenialKind
from longshore.dispatcher.access.credentials import TooManyRequests, Unauthorized, bearer_in
from longshore.dispatcher.access.issuer import Issuer
from longshore.dispatcher.access.json_web_tokens import looks_like_jwt
from longshore.dispatcher.access.proxy import TrustedProxy
from longshore.dispatcher.access.request_buckets import RequestBuckets
from longshore.dispatcher.config.model import AuthConfig, AuthMode
from longshore.dispatcher.domain.principals import ANYBODY, Door, Principal, Role
from longshore.dispatcher.service.contracts import Forbidden, Unavailable
from longshore.dispatcher.service.tokens import TokenService
from longshore.drivers.errors import InvalidRequest

_PEER = struct.Struct("3i")
_STREAM_RETRY_S = 5.0
_TOO_OFTEN = "You ask more often than this server answers you: wait as long as Retry-After says."
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_NO_ORIGIN = (
    "A request with a browser's cookie that is to change something says where it comes from, in the"
    " header Origin: programs send Authorization: Bearer and a token."
)
_NO_ISSUER = (
    "This server takes no JSON Web Tokens, as auth.issuer is not set: send a token of its own."
)
NOBODY = "This server answers only who says who they are: send Authorization: Bearer and a token."


class Doors:
    """Lets callers in; used on the loop's thread.

    `issuer` is None where the configuration has none. `now` gives seconds since the epoch, `clock`
    those of a clock that never goes back; `inside` tells who asks on a connection from inside of a
    container, None for all others.
    """

    def __init__(
        self,
        *,
        mode: AuthMode,
        config: AuthConfig,
        tokens: TokenService,
        issuer: Issuer | None,
        now: Callable[[], float],
        clock: Callable[[], float],
        inside: Callable[[asyncio.BaseTransport | None], Principal | None] = lambda _: None,
    ) -> None:
        self._mode = mode
        self._now = now
        self._tokens = tokens
        self._issuer = issuer
        self._proxy = TrustedProxy(config.proxy)
        self._clock = clock
        self._inside = inside
        self._buckets = RequestBuckets(requests_per_s=config.requests_per_s, burst=config.burst)
        self._streams_most = config.streams
        tokens.on_revoked = self.cut_off
        # By identity: requests compare as the mappings that they are.
        self._requests: dict[str, dict[int, web.Request]] = {}
        self._streams: dict[str, set[asyncio.Transport]] = {}

    @property
    def is_open(self) -> bool:
        """Return whether who says nothing is let in."""
        return self._mode is AuthMode.OPEN

    async def enter(self, request: web.Request) -> Principal:
        """Return who a request is from; may wait for the issuer, a few seconds at most.

        Raises `Unauthorized`, `TooManyRequests`, `Forbidden` for who is known and may not ask,
        `InvalidRequest` for headers of the proxy that can be read in several ways, `Unavailable`
        while the issuer does not answer: ask again.
        """
        caller = await self._vouched(request)
        if caller is None and not self.is_open:
            raise Unauthorized(NOBODY)
        caller = caller or ANYBODY
        if not caller.is_local:
            wait_s = self._buckets.take(_name_of(caller), self._clock())
            if wait_s > 0:
                raise TooManyRequests(_TOO_OFTEN, retry_after_s=wait_s)
        return caller

    async def _vouched(self, request: web.Request) -> Principal | None:
        if (inside := self._inside(request.transport)) is not None:
            return inside
        if (peer := peer_of(request)) is not None:
            if not _is_on_path(request):
                raise Unauthorized("Nobody knows whose this connection is.")
            return _on_socket(peer)
        values_of = request.headers.getall
        told = self._proxy.holder(request.remote or "", lambda name: values_of(name, []))
        if told is not None:
            return _expect_let_in(told)
        text = bearer_in(request.headers.getall("Authorization", []))
        text = text or self._shown_by_browser(request)
        return await self.holder(text) if text else None

    async def holder(self, text: str) -> Principal:
        """Return who holds a token, ours or the issuer's; raises as `enter` does."""
        if looks_like_jwt(text):
            if self._issuer is None:
                raise Unauthorized(_NO_ISSUER)
            return _expect_let_in(await self._issuer.holder(text))
        found = self._tokens.holder(text)
        if isinstance(found, str):
            raise Unauthorized(found)
        return found

    def _shown_by_browser(self, request: web.Request) -> str:
        """Return the token in a browser's cookie, "" for none.

        In open mode none is looked at: it is another server's, as cookies know no ports. What is to
        change something has to come from our own page, and say so: nothing but a browser has the
        cookie, and each browser says where such a request comes from.
        """
        text = "" if self.is_open else token_in_cookies(request.cookies, request.host)
        told = {hdrs.ORIGIN, "Sec-Fetch-Site"} & request.headers.keys()
        if text and request.method not in _SAFE_METHODS and not told:
            raise Forbidden(_NO_ORIGIN)
        return text

    def address_of(self, request: web.Request) -> str:
        """Return where a request comes from: an address, "local" for the Unix socket."""
        if peer_of(request) is not None:
            return "local"
        forwarded_for = request.headers.getall("X-Forwarded-For", [])
        return self._proxy.origin(request.remote or "unknown", forwarded_for)

    @contextmanager
    def stream(self, request: web.Request, caller: Principal) -> Iterator[None]:
        """Count an answer that goes on, and cut it off when its caller's right to ask ends.

        Raises `TooManyRequests` when the caller has too many.
        """
        name, transport = _name_of(caller), request.transport
        if not caller.is_local and len(self._streams.get(name, ())) >= self._streams_most:
            said = f"You follow {self._streams_most} logs and events, the most at a time: end one."
            raise TooManyRequests(said, retry_after_s=_STREAM_RETRY_S)
        if transport is None:
            # The client is gone, and the answer goes nowhere.
            yield
            return
        streams = self._streams.setdefault(name, set())
        timer = None
        if caller.until is not None:
            left_s = max(caller.until - self._now(), 0.0)
            timer = asyncio.get_running_loop().call_later(left_s, transport.close)
        streams.add(transport)
        try:
            yield
        finally:
            streams.discard(transport)
            if not streams:
                self._streams.pop(name, None)
            if timer is not None:
                timer.cancel()

    @contextmanager
    def asking(self, request: web.Request, caller: Principal) -> Iterator[None]:
        """Know of a request for as long as it is carried out."""
        requests = self._requests.setdefault(_name_of(caller), {})
        requests[id(request)] = request
        try:
            yield
        finally:
            del requests[id(request)]
            if not requests:
                self._requests.pop(_name_of(caller), None)

    def cut_off(self, token_id: str) -> None:
        """End what a token follows that lets nobody in any more, and what it has not yet said.

        Who began a request before and sends the rest of it later would change something after all.
        """
        for transport in list(self._streams.get(token_id, ())):
            transport.close()
        for request in list(self._requests.get(token_id, {}).values()):
            if request.transport is not None and not request.content.is_eof():
                request.transport.abort()


def peer_of(request: web.Request) -> int | None:
    """Return which user of this machine is at the other end of a Unix socket, None elsewhere."""
    transport = request.transport
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family != socket.AF_UNIX:
        return None
    packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _pid, uid, _gid = _PEER.unpack(packed)
    return int(uid)


def _expect_let_in(found: Principal | Denial) -> Principal:
    """Return a caller; raises what the answer to who is denied is made of."""
    if isinstance(found, Principal):
        return found
    match found.kind:
        case DenialKind.WORTHLESS:
            raise Unauthorized(found.sentence)
        case DenialKind.NO_RIGHT:
            raise Forbidden(found.sentence)
        case DenialKind.MALFORMED:
            raise InvalidRequest([("headers", found.sentence)])
        case DenialKind.UNDECIDED:
            raise Unavailable(found.sentence)
        case _:
            assert_never(found.kind)


def _is_on_path(request: web.Request) -> bool:
    """Return whether a request on a Unix socket came by one with a path, as that for admins has."""
    transport = request.transport
    return transport is not None and bool(transport.get_extra_info("sockname"))


def _on_socket(uid: int) -> Principal:
    if uid not in (0, os.geteuid()):
        raise Forbidden("This socket is for the server's own user and for root.")
    return Principal(user=_user_name(uid), role=Role.ADMIN, door=Door.SOCKET)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _name_of(caller: Principal) -> str:
    """Return by what a caller's requests are counted."""
    return caller.token_id or f"{caller.door.value} {caller.container_id or caller.user}"
