"""Sends calls to a server and waits for what comes: the rim of the sync client, on urllib3."""

from __future__ import annotations

import random
import socket
import time
import uuid
from collections.abc import Iterator
from typing import assert_never

import urllib3
import urllib3.exceptions as kinds
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.response import BaseHTTPResponse

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
from longshore.dispatcher.client.errors import InvalidSettingsError, decoded
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

CONNECTIONS_KEPT = 32


class BlockingTransport:
    """Carries out what is said, one thing after another or from several threads.

    To be closed when done.
    """

    def __init__(self, settings: ClientSettings, policy: RepeatPolicy) -> None:
        self.url = settings.url
        self.dialogue = Dialogue(
            url=settings.url,
            policy=policy,
            outside=Outside(
                now_s=time.monotonic, dice=random.random, new_key=lambda: uuid.uuid4().hex
            ),
        )
        self._settings = settings
        self._pool = _pool(settings)

    def close(self) -> None:
        """Close all connections."""
        if isinstance(self._pool, urllib3.PoolManager):
            # `clear` alone leaves the closing to the garbage collector.
            for key in self._pool.pools.keys():  # noqa: SIM118 - it is no dict, and cannot be iterated
                self._pool.pools[key].close()
            self._pool.clear()
        else:
            self._pool.close()

    def json(self, call: ApiCall) -> object:
        """Carry out a call; return the JSON that answers it. Raises `ClientError`."""
        return decoded(self.url, self.carry_out(self.dialogue.body(call)))

    def carry_out(self, steps: Steps[Result]) -> Result:
        """Carry out all steps; return what they come to. Raises `ClientError`."""
        held: list[BaseHTTPResponse] = []
        try:
            return self._carry_out(steps, held)
        finally:
            _let_go(held)

    def told(self, steps: Telling[Item]) -> Iterator[Item]:
        """Carry out steps as their items are asked for, and yield these. Raises `ClientError`."""
        held: list[BaseHTTPResponse] = []
        came: object = None
        try:
            while True:
                match advanced(steps, came):
                    case Done():
                        return
                    case Tell(item=item):
                        came = yield item
                    case step:
                        came = self._do(step, held)
        finally:
            steps.close()
            _let_go(held)

    def stream(self, call: ApiCall, *, silence_s: float) -> BaseHTTPResponse:
        """Return an answer that goes on, to be read with `chunks` and closed by the caller.

        It counts as broken when nothing comes for `silence_s`. Raises `ClientError`.
        """
        held: list[BaseHTTPResponse] = []
        self._carry_out(self.dialogue.opened(call, silence_s), held)
        return held.pop()

    def chunks(self, response: BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the bytes of a stream as they come in; raises `LostAnswerError` when it breaks."""
        while chunk := self._carry_out(self.dialogue.chunk(), [response]):
            yield chunk

    def _carry_out(self, steps: Steps[Result], held: list[BaseHTTPResponse]) -> Result:
        came: object = None
        while True:
            match advanced(steps, came):
                case Done(result=result):
                    return result
                case step:
                    came = self._do(step, held)

    def _do(self, step: Step, held: list[BaseHTTPResponse]) -> object:
        """Do what is asked for, and return what came of it; `held` is the answer that is open."""
        match step:
            case Send(call=call):
                return _outcome(self._open(call, READ_TIMEOUT_S))
            case Open(call=call, silence_s=silence_s):
                opened = self._open(call, silence_s)
                if not isinstance(opened, BaseHTTPResponse) or opened.status != 200:
                    return _outcome(opened)
                held.append(opened)
                return Opened()
            case Read():
                return _read(held[-1])
            case Close():
                _let_go(held)
            case Pause(after_s=after_s):
                time.sleep(after_s)
            case AskForTls():
                return speaks_tls(self.url)
            case _:
                assert_never(step)
        return None

    def _open(self, call: ApiCall, silence_s: float) -> BaseHTTPResponse | Failure:
        base = self._settings.base_url if isinstance(self._settings.place, OverNetwork) else ""
        try:
            return self._pool.request(
                call.method,
                base + call.target,
                body=call.body,
                headers=call.headers(self._settings.token),
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=silence_s),
                redirect=False,
                retries=False,
                preload_content=False,
            )
        except kinds.LocationValueError as error:
            raise InvalidSettingsError(not_a_url(self.url)) from error
        except kinds.HTTPError as error:
            return _failure(error)


def _outcome(opened: BaseHTTPResponse | Failure) -> TryOutcome:
    """Return how a try ended, once what it answered is read."""
    if not isinstance(opened, BaseHTTPResponse):
        return opened
    try:
        body = opened.read(MAX_BODY_BYTES)
    except (kinds.HTTPError, OSError) as error:
        return AnswerLost(late=_is_late(error))
    opened.release_conn()
    headers = {name.lower(): value for name, value in opened.headers.items()}
    return Received(status=opened.status, headers=headers, body=body)


def _read(response: BaseHTTPResponse) -> bytes | AnswerLost:
    """Return what comes next of an answer, no bytes at its end."""
    try:
        return response.read1()
    except (kinds.HTTPError, OSError, ValueError) as error:
        # ValueError: another thread shut the response down between two reads.
        return AnswerLost(late=_is_late(error))


def _let_go(held: list[BaseHTTPResponse]) -> None:
    while held:
        held.pop().close()


def _pool(settings: ClientSettings) -> urllib3.PoolManager | _SocketPool:
    match settings.place:
        case OverSocket(path=path):
            return _SocketPool(path)
        case OverNetwork(url=url) if url.startswith("https:"):
            return urllib3.PoolManager(maxsize=CONNECTIONS_KEPT, ssl_context=settings.tls_context())
        case OverNetwork():
            return urllib3.PoolManager(maxsize=CONNECTIONS_KEPT)


class _SocketConnection(HTTPConnection):
    """A connection to a Unix socket; the name in its requests is this machine's."""

    path = ""

    def _new_conn(self) -> socket.socket:
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.settimeout(CONNECT_TIMEOUT_S)
            connecting.connect(self.path)
        except TimeoutError as error:
            connecting.close()
            raise kinds.ConnectTimeoutError(self, str(error)) from error
        except OSError as error:
            connecting.close()
            raise kinds.NewConnectionError(self, str(error)) from error
        return connecting


class _SocketPool(HTTPConnectionPool):
    """Connections to one Unix socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        super().__init__("localhost", maxsize=CONNECTIONS_KEPT)

    def _new_conn(self) -> _SocketConnection:
        made = _SocketConnection(self.host, timeout=self.timeout.connect_timeout)
        made.path = self._path
        return made


def _failure(error: Exception) -> Failure:
    """Return what became of a request that failed with an error of urllib3's."""
    match error:
        case kinds.NameResolutionError():
            return NotReached(cause="its name does not resolve")
        case kinds.ConnectTimeoutError() if not isinstance(error, kinds.NewConnectionError):
            return NotReached(cause=f"it did not answer within {CONNECT_TIMEOUT_S:.0f} s")
        case kinds.SSLError():
            return tls_failure(error)
        case kinds.NewConnectionError():
            cause = str(error.__cause__ or error).rpartition("] ")[2].lower()
            return NotReached(cause=cause)
        case _:
            return AnswerLost(late=_is_late(error))


def _is_late(error: Exception) -> bool:
    return isinstance(error, kinds.ReadTimeoutError | TimeoutError)
