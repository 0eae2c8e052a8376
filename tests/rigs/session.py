"""Both ends of a session over a real pair of sockets: one under test, one that the test plays."""

from __future__ import annotations

import json
import queue
import socket
import threading
from typing import Any

from longshore.drivers.errors import Unreachable
from longshore.pool.remote.session import Session, SessionListener, SessionSettings
from longshore.pool.remote.session_requests import RequestFailed
from longshore.pool.remote.wire import Push, Reply

HELLO: dict[str, Any] = {
    "type": "hello",
    "protocol": 1,
    "cluster": "c1",
    "epoch": 1,
    "runner_sha256": "abc",
    "boot_id": "b",
    "engine": "process",
    "attempts": [],
    "broken": "",
}


class SocketStream:
    """The stream below a session, over a socket."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._news = threading.Condition()
        self._chunks: list[bytes] = []
        self._woken = False
        self.stderr_tail = b"last words"
        self._pump = threading.Thread(target=self._fill)
        self._pump.start()

    def _fill(self) -> None:
        while True:
            try:
                data = self._socket.recv(65536)
            except OSError:
                data = b""
            with self._news:
                self._chunks.append(data)
                self._news.notify_all()
            if not data:
                return

    def read(self, timeout_s: float | None) -> bytes | None:
        with self._news:
            self._news.wait_for(lambda: self._chunks or self._woken, timeout_s)
            self._woken = False
            if not self._chunks:
                return None
            return self._chunks.pop(0) if self._chunks[0] else b""

    def wake(self) -> None:
        with self._news:
            self._woken = True
            self._news.notify_all()

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Unreachable(str(error)) from error

    def cut(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self.cut()
        self._pump.join()
        self._socket.close()


class Recorder:
    """A listener that keeps what it hears; `hold` makes it slow, `fault` makes it fail."""

    def __init__(self) -> None:
        self.pushes: queue.Queue[Push] = queue.Queue()
        self.ends: list[str] = []
        self.hold = threading.Event()
        self.hold.set()
        self.fault: Exception | None = None

    def opened(self) -> None:
        return

    def pushed(self, message: Push) -> None:
        self.hold.wait(20)
        if self.fault is not None:
            raise self.fault
        self.pushes.put(message)

    def heard(self) -> None:
        return

    def ended(self, reason: str) -> None:
        self.ends.append(reason)


class Rig:
    """Both ends: `session` is under test, the methods play the runner."""

    def __init__(self, **settings: float) -> None:
        ours, self.theirs = socket.socketpair()
        self.stream = SocketStream(ours)
        self.input = self.theirs.makefile("rb")
        self.listener = Recorder()
        self.replies: queue.Queue[Reply | RequestFailed] = queue.Queue()
        values: dict[str, Any] = {
            "attach_timeout_s": 10.0,
            "request_timeout_s": 10.0,
            "heartbeat_timeout_s": 10.0,
            **settings,
        }
        self.settings = SessionSettings(
            cluster="c1", epoch=7, runner_sha256="abc", heartbeat_interval_s=5.0, **values
        )
        self.session: Session | None = None

    def attach(self) -> Session:
        self.session = Session.attach(self.stream, cut=self.stream.cut, settings=self.settings)
        return self.session

    def start(
        self, hello: dict[str, Any] = HELLO, listener: SessionListener | None = None
    ) -> Session:
        self.say(hello)
        session = self.attach()
        session.start(self.listener if listener is None else listener)
        self.hear()
        return session

    def say(self, message: dict[str, Any]) -> None:
        self.theirs.sendall(json.dumps(message).encode() + b"\n")

    def hear(self) -> Any:
        return json.loads(self.input.readline())

    def close(self) -> None:
        self.listener.hold.set()
        if self.session is not None:
            self.session.close()
        self.stream.close()
        self.input.close()
        self.theirs.close()
