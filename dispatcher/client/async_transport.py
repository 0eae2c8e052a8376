"""Sends calls to a server and waits for what comes: the rim of the async client, on aiohttp."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp

from longshore.dispatcher.client.calls import TypedCall
from longshore.dispatcher.client.errors import InvalidSettingsError, decoded, stranger
from longshore.dispatcher.client.exchange import (
    MAX_BODY_BYTES,
    Answered,
    AnswerLost,
    ApiCall,
    GaveUp,
    NotReached,
    Received,
    RepeatPolicy,
    SendAgain,
    TryOutcome,
    lost,
    next_step,
)
from longshore.dispatcher.client.server_address import OverNetwork, OverSocket, not_a_url
from longshore.dispatcher.client.settings import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    ClientSettings,
)

Answer = TypeVar("Answer")


class AsyncTransport:
    """Carries out calls of one event loop, several at once; to be closed when done.

    `dice` gives numbers from 0 to 1, which spread pauses. It connects when it is first used.
    """

    def __init__(
        self,
        settings: ClientSettings,
        policy: RepeatPolicy,
        *,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self.url = settings.url
        self._settings = settings
        self._policy = policy
        self._dice = dice
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def run(self, typed: TypedCall[Answer]) -> Answer:
        """Carry out a call; return its answer. Raises `ClientError`."""
        return typed.read(decoded(self.url, await self.body(typed.call)))

    async def body(self, call: ApiCall) -> bytes:
        """Carry out a call; return the body of its answer. Raises `ClientError`."""
        repeated = 0
        while True:
            opened = await self._open(call, READ_TIMEOUT_S)
            received = await self._after(call, await _outcome(opened), repeated)
            if received is not None:
                return received.body
            repeated += 1

    @asynccontextmanager
    async def stream(
        self, call: ApiCall, *, silence_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Hold an answer open that goes on, to be read with `chunks`.

        It counts as broken when nothing comes for `silence_s`. Raises `ClientError`.
        """
        repeated = 0
        while True:
            opened = await self._open(call, silence_s)
            if isinstance(opened, aiohttp.ClientResponse) and opened.status == 200:
                break
            if await self._after(call, await _outcome(opened), repeated) is not None:
                raise stranger(self.url)
            repeated += 1
        try:
            yield opened
        finally:
            opened.close()

    async def chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Yield the bytes of a stream as they come in; raises `LostAnswerError` when it breaks."""
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise lost(self.url, late=isinstance(error, TimeoutError)) from error

    async def pause(self, seconds: float) -> None:
        """Wait, as a reader does that goes on later."""
        await asyncio.sleep(seconds)

    def now_s(self) -> float:
        """Return the time of a steady clock."""
        return asyncio.get_running_loop().time()

    def dice(self) -> float:
        """Return a number from 0 to 1."""
        return self._dice()

    async def _after(self, call: ApiCall, outcome: TryOutcome, repeated: int) -> Received | None:
        """Return the answer, or None after the pause before a repeat; raises what is final."""
        step = next_step(
            call,
            outcome,
            url=self.url,
            repeated=repeated,
            policy=self._policy,
            dice=self._dice(),
        )
        match step:
            case Answered(received=received):
                return received
            case GaveUp(error=error):
                raise error
            case SendAgain(after_s=after_s):
                await self.pause(after_s)
                return None

    async def _open(
        self, call: ApiCall, silence_s: float
    ) -> aiohttp.ClientResponse | NotReached | AnswerLost:
        if self._session is None:
            self._session = _session(self._settings)
        try:
            return await self._session.request(
                call.method,
                self._settings.base_url + call.target,
                data=call.body,
                headers=call.headers(self._settings.token),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s
                ),
                allow_redirects=False,
            )
        except aiohttp.ClientError as error:
            # Some of them are ValueErrors as well, as is what the name of a server raises.
            if isinstance(error, aiohttp.InvalidURL):
                raise InvalidSettingsError(not_a_url(self.url)) from error
            return _failure(error)
        except ValueError as error:
            raise InvalidSettingsError(not_a_url(self.url)) from error
        except OSError as error:
            return _failure(error)


def _session(settings: ClientSettings) -> aiohttp.ClientSession:
    connector: aiohttp.BaseConnector
    match settings.place:
        case OverSocket(path=path):
            connector = aiohttp.UnixConnector(path)
        case OverNetwork(url=url) if url.startswith("https:"):
            connector = aiohttp.TCPConnector(ssl=settings.tls_context())
        case OverNetwork():
            connector = aiohttp.TCPConnector()
    return aiohttp.ClientSession(connector=connector, auto_decompress=False)


async def _outcome(opened: aiohttp.ClientResponse | NotReached | AnswerLost) -> TryOutcome:
    """Return how a try ended, once what it answered is read."""
    if not isinstance(opened, aiohttp.ClientResponse):
        return opened
    body = bytearray()
    try:
        async for chunk in opened.content.iter_any():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                break
    except (aiohttp.ClientError, OSError) as error:
        return AnswerLost(late=isinstance(error, TimeoutError))
    finally:
        opened.release()
    headers = {name.lower(): value for name, value in opened.headers.items()}
    return Received(status=opened.status, headers=headers, body=bytes(body[:MAX_BODY_BYTES]))


def _failure(error: Exception) -> NotReached | AnswerLost:
    """Return what became of a request that failed with an error of aiohttp's."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return NotReached(cause="its name does not resolve")
        case aiohttp.ConnectionTimeoutError():
            return NotReached(cause=f"it did not answer within {CONNECT_TIMEOUT_S:.0f} s")
        case aiohttp.ClientSSLError():
            return NotReached(
                cause=f"TLS failed: {error}", remedy="Check the certificate and the URL's scheme"
            )
        case aiohttp.ClientConnectorError(os_error=reason):
            return NotReached(cause=(reason.strerror or str(reason)).lower())
        case _:
            return AnswerLost(late=isinstance(error, TimeoutError))
