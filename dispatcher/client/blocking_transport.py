"""Sends calls to a server and waits for what comes: the rim of the sync client, on urllib3."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import urllib3
import urllib3.exceptions as kinds
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.response import BaseHTTPResponse

from longshore.dispatcher.client.calls import TypedCall
from longshore.dispatcher.client.errors import (
    InvalidSettingsError,
    decoded,
    stranger,
)
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

CONNECTIONS_KEPT = 32


class BlockingTransport:
    """Carries out calls, one after another or from several threads; to be closed when done.

    `dice` gives numbers from 0 to 1, which spread pauses.
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

    def run(self, typed: TypedCall[Answer]) -> Answer:
        """Carry out a call; return its answer. Raises `ClientError`."""
        return typed.read(self.json(typed.call))

    def json(self, call: ApiCall) -> object:
        """Carry out a call; return the JSON that answers it. Raises `ClientError`."""
        return decoded(self.url, self.body(call))

    def body(self, call: ApiCall) -> bytes:
        """Carry out a call; return the body of its answer. Raises `ClientError`."""
        repeated = 0
        while True:
            outcome = self._outcome(self._open(call, READ_TIMEOUT_S))
            received = self._after(call, outcome, repeated)
            if received is not None:
                return received.body
            repeated += 1

    def stream(self, call: ApiCall, *, silence_s: float) -> BaseHTTPResponse:
        """Return an answer that goes on, to be read with `chunks` and closed by the caller.

        It counts as broken when nothing comes for `silence_s`. Raises `ClientError`.
        """
        repeated = 0
        while True:
            opened = self._open(call, silence_s)
            if isinstance(opened, BaseHTTPResponse) and opened.status == 200:
                return opened
            if self._after(call, self._outcome(opened), repeated) is not None:
                raise stranger(self.url)
            repeated += 1

    def chunks(self, response: BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the bytes of a stream as they come in; raises `LostAnswerError` when it breaks."""
        try:
            while chunk := response.read1():
                yield chunk
        except (kinds.HTTPError, OSError, ValueError) as error:
            # ValueError: another thread shut the response down between two reads.
            raise lost(self.url, late=_is_late(error)) from error

    def pause(self, seconds: float) -> None:
        """Wait, as a reader does that goes on later."""
        time.sleep(seconds)

    def now_s(self) -> float:
        """Return the time of a steady clock."""
        return time.monotonic()

    def dice(self) -> float:
        """Return a number from 0 to 1."""
        return self._dice()

    def _after(self, call: ApiCall, outcome: TryOutcome, repeated: int) -> Received | None:
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
                self.pause(after_s)
                return None

    def _open(self, call: ApiCall, silence_s: float) -> BaseHTTPResponse | NotReached | AnswerLost:
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

    def _outcome(self, opened: BaseHTTPResponse | NotReached | AnswerLost) -> TryOutcome:
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


def _failure(error: Exception) -> NotReached | AnswerLost:
    """Return what became of a request that failed with an error of urllib3's."""
    match error:
        case kinds.NameResolutionError():
            return NotReached(cause="its name does not resolve")
        case kinds.ConnectTimeoutError() if not isinstance(error, kinds.NewConnectionError):
            return NotReached(cause=f"it did not answer within {CONNECT_TIMEOUT_S:.0f} s")
        case kinds.SSLError():
            return NotReached(
                cause=f"TLS failed: {error}", remedy="Check the certificate and the URL's scheme"
            )
        case kinds.NewConnectionError():
            cause = str(error.__cause__ or error).rpartition("] ")[2].lower()
            return NotReached(cause=cause)
        case _:
            return AnswerLost(late=_is_late(error))


def _is_late(error: Exception) -> bool:
    return isinstance(error, kinds.ReadTimeoutError | TimeoutError)
