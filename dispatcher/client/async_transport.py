"""Sends calls to a server and waits for what comes: the rim of the async client, on aiohttp."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from typing import assert_never

import aiohttp

from longshore.dispatcher.client.dialogue import (
    READ_TIMEOUT_S,
    AskForTls,
    Close,
    Dialogue,
    Done,
    Item,
    Open,
    Opened,
    Outside,
    Pause,
    Read,
    Result,
    Send,
    Step,
    Steps,
    Tell,
    Telling,
    advanced,
)
from longshore.dispatcher.client.errors import InvalidSettingsError
from longshore.dispatcher.client.exchange import (
    MAX_BODY_BYTES,
    AnswerLost,
    ApiCall,
    Failure,
    NotReached,
    Received,
    RepeatPolicy,
    TryOutcome,
)
from longshore.dispatcher.client.server_address import OverNetwork, OverSocket, not_a_url
from longshore.dispatcher.client.settings import CONNECT_TIMEOUT_S, ClientSettings
from longshore.dispatcher.client.tls import speaks_tls, tls_failure


class AsyncTransport:
    """Carries out what is said, several things at once in one event loop.

    To be closed when done. It connects when it is first used.
    """

    def __init__(self, settings: ClientSettings, policy: RepeatPolicy) -> None:
        self.url = settings.url
        self.dialogue = Dialogue(
            url=settings.url,
            policy=policy,
            outside=Outside(
                now_s=lambda: asyncio.get_running_loop().time(),
                dice=random.random,
                new_key=lambda: uuid.uuid4().hex,
            ),
        )
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def carry_out(self, steps: Steps[Result]) -> Result:
        """Carry out all steps; return what they come to. Raises `ClientError`."""
        held: list[aiohttp.ClientResponse] = []
        came: object = None
        try:
            while True:
                match advanced(steps, came):
                    case Done(result=result):
                        return result
                    case step:
                        came = await self._do(step, held)
        finally:
            _let_go(held)

    async def told(self, steps: Telling[Item]) -> AsyncIterator[Item]:
        """Carry out steps as their items are asked for, and yield these. Raises `ClientError`."""
        held: list[aiohttp.ClientResponse] = []
        came: object = None
        try:
            while True:
                match advanced(steps, came):
                    case Done():
                        return
                    case Tell(item=item):
                        came = yield item
                    case step:
                        came = await self._do(step, held)
        finally:
            steps.close()
            _let_go(held)

    async def _do(self, step: Step, held: list[aiohttp.ClientResponse]) -> object:
        """Do what is asked for, and return what came of it; `held` is the answer that is open."""
        match step:
            case Send(call=call):
                return await _outcome(await self._open(call, READ_TIMEOUT_S))
            case Open(call=call, silence_s=silence_s):
                opened = await self._open(call, silence_s)
                if not isinstance(opened, aiohttp.ClientResponse) or opened.status != 200:
                    return await _outcome(opened)
                held.append(opened)
                return Opened()
            case Read():
                return await _read(held[-1])
            case Close():
                _let_go(held)
            case Pause(after_s=after_s):
                await asyncio.sleep(after_s)
            case AskForTls():
                return await asyncio.to_thread(speaks_tls, self.url)
            case _:
                assert_never(step)
        return None

    async def _open(self, call: ApiCall, silence_s: float) -> aiohttp.ClientResponse | Failure:
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


async def _outcome(opened: aiohttp.ClientResponse | Failure) -> TryOutcome:
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


async def _read(response: aiohttp.ClientResponse) -> bytes | AnswerLost:
    """Return what comes next of an answer, no bytes at its end."""
    try:
        return await response.content.readany()
    except (aiohttp.ClientError, OSError) as error:
        return AnswerLost(late=isinstance(error, TimeoutError))


def _let_go(held: list[aiohttp.ClientResponse]) -> None:
    while held:
        held.pop().close()


def _failure(error: Exception) -> Failure:
    """Return what became of a request that failed with an error of aiohttp's."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return NotReached(cause="its name does not resolve")
        case aiohttp.ConnectionTimeoutError():
            return NotReached(cause=f"it did not answer within {CONNECT_TIMEOUT_S:.0f} s")
        case aiohttp.ClientSSLError():
            return tls_failure(error)
        case aiohttp.ClientConnectorError(os_error=reason):
            return NotReached(cause=(reason.strerror or str(reason)).lower())
        case _:
            return AnswerLost(late=isinstance(error, TimeoutError))
