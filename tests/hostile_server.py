"""An SSH server that floods whoever connects: what a hostile instance can send, kind by kind.

It is played by paramiko, since a real sshd sends none of this. In a process of its own it prints
the port that it has:

    python -m tests.hostile_server KIND HOST CLUSTER RUNNER_SHA256
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any, Self

import paramiko
from paramiko.common import (
    AUTH_SUCCESSFUL,
    OPEN_SUCCEEDED,
    cMSG_CHANNEL_DATA,
    cMSG_CHANNEL_EXTENDED_DATA,
    cMSG_CHANNEL_REQUEST,
    cMSG_CHANNEL_SUCCESS,
    cMSG_CHANNEL_WINDOW_ADJUST,
    cMSG_DEBUG,
    cMSG_GLOBAL_REQUEST,
    cMSG_IGNORE,
    cMSG_UNIMPLEMENTED,
    cMSG_USERAUTH_BANNER,
)

from tests.rigs.session import HELLO

BATCH_LINES = 500
BROKEN = (OSError, EOFError, paramiko.SSHException)
SESSIONS = ("rekey", "data", "stderr", "heartbeats", "replies", "logs")
KINDS = (
    "line",
    "lines",
    "login",
    "ignore",
    "debug",
    "unimplemented",
    "window",
    "global",
    "request",
    *SESSIONS,
)
"""Before the handshake, while we log in, right after it, and in a session that is attached."""


def _message(kind: bytes, *parts: object) -> paramiko.Message:
    message = paramiko.Message()
    message.add_byte(kind)
    for part in parts:
        match part:
            case bool():
                message.add_boolean(part)
            case int():
                message.add_int(part)
            case bytes():
                message.add_string(part)
    return message


def _lines(kind: str) -> bytes:
    line: dict[str, object] = {"type": "heartbeat"}
    if kind == "replies":
        line = {"type": "reply", "id": 0, "ok": True}
    elif kind == "logs":
        line = {"type": "log", "attempt_id": "a", "stream": "stdout", "offset": 0, "data": ""}
    return (json.dumps(line) + "\n").encode() * BATCH_LINES


class _Transport(paramiko.Transport):
    """A server's side that sends what it likes."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.agreed: list[Callable[[], None]] = []

    def _send_message(self, data: paramiko.Message) -> None:
        super()._send_message(data)  # type: ignore[misc]  # not in the stubs
        if data.asbytes()[:1] == cMSG_CHANNEL_SUCCESS:
            self.agreed.pop()()

    def flood(self, message: Callable[[], paramiko.Message]) -> None:
        """Send for as long as anybody takes it."""
        with contextlib.suppress(*BROKEN):
            while self.is_active():
                self._send_message(message())


class _Answers(paramiko.ServerInterface):
    """Lets everybody in, and answers as an instance does whose runner is deployed."""

    def __init__(self, server: HostileServer, transport: _Transport) -> None:
        self._server = server
        self._transport = transport

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002 - the interface asks for it
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002 - so does this
        if self._server.kind == "login":
            self._transport.flood(lambda: _message(cMSG_USERAUTH_BANNER, b"hello\n", b""))
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002 - so does this
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        # Not before our client has been told: it would take the end for a refusal.
        self._transport.agreed.append(lambda: self._server.spawn(self._execute, channel, command))
        return True

    def _execute(self, channel: paramiko.Channel, command: bytes) -> None:
        hello = {**HELLO, "cluster": self._server.cluster, "runner_sha256": self._server.sha256}
        # It comes in pieces, and begins its answer with a mark (`pool.remote.remote_shell`).
        command = command.replace(b"' '", b"")
        with contextlib.suppress(*BROKEN):
            channel.sendall(b"longshore-answers-here\n")
            if b" attach " in command:
                channel.sendall(json.dumps(hello).encode() + b"\n")
                if self._server.kind in SESSIONS:
                    self._flood_session(channel)
                return
            if b" list " in command:
                channel.sendall(json.dumps(hello).encode() + b"\n")
            channel.send_exit_status(0)
            channel.close()

    def _flood_session(self, channel: paramiko.Channel) -> None:
        far = channel.remote_chanid
        match self._server.kind:
            case "rekey":
                while self._transport.is_active():
                    self._transport.renegotiate_keys()
            case "data":
                self._transport.flood(lambda: _message(cMSG_CHANNEL_DATA, far, b" "))
            case "stderr":
                self._transport.flood(lambda: _message(cMSG_CHANNEL_EXTENDED_DATA, far, 1, b" "))
            case kind:
                lines = _lines(kind)
                while True:
                    channel.sendall(lines)


class HostileServer:
    """Listens on `host` until `close`; `kind` is one of `KINDS`, and "" floods nobody."""

    def __init__(self, kind: str, host: str = "127.0.0.1", *, cluster: str, sha256: str) -> None:
        self.kind = kind
        self.cluster = cluster
        self.sha256 = sha256
        self._key = paramiko.RSAKey.generate(2048)
        self.host_key = f"{self._key.get_name()} {self._key.get_base64()}"
        self._listening = socket.create_server((host, 0))
        self.address = "{}:{}".format(*self._listening.getsockname())
        self._transports: list[_Transport] = []
        self._sockets: list[socket.socket] = [self._listening]
        self._threads: list[threading.Thread] = []
        self.spawn(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def spawn(self, target: Callable[..., None], *arguments: object) -> None:
        """Run something on a thread that `close` waits for."""
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Hang up on everybody, and wait for all threads."""
        for each in self._sockets:
            with contextlib.suppress(OSError):  # the far side has hung up
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for transport in self._transports:
            transport.close()
            transport.join()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                connected, _ = self._listening.accept()
                self._sockets.append(connected)
                self.spawn(self._serve, connected)

    def _serve(self, connected: socket.socket) -> None:
        if self.kind in ("line", "lines"):
            data = (b"x" * 126 + (b"\r\n" if self.kind == "lines" else b"xx")) * 100
            with contextlib.suppress(OSError):  # the far side has had enough
                while True:
                    connected.sendall(data)
            return
        transport = _Transport(connected)
        self._transports.append(transport)
        transport.add_server_key(self._key)
        with contextlib.suppress(*BROKEN):
            transport.start_server(server=_Answers(self, transport), event=threading.Event())
            while transport.is_active() and not transport.is_authenticated():
                transport.join(0.01)
            if self.kind in ("window", "request"):
                # What names a channel that is not open yet ends the connection at once, and so
                # would be no flood. Paramiko closes a channel that nobody holds.
                opened = None
                while transport.is_active() and opened is None:
                    opened = transport.accept(0.1)
            self._flood(transport)

    def _flood(self, transport: _Transport) -> None:
        messages: dict[str, tuple[Any, ...]] = {
            "ignore": (cMSG_IGNORE, b""),
            "debug": (cMSG_DEBUG, False, b"", b""),
            "unimplemented": (cMSG_UNIMPLEMENTED, 0),
            "window": (cMSG_CHANNEL_WINDOW_ADJUST, 0, 0),
            "global": (cMSG_GLOBAL_REQUEST, b"flood", True),
            "request": (cMSG_CHANNEL_REQUEST, 0, b"flood", True),
        }
        if self.kind in messages:
            transport.flood(lambda: _message(*messages[self.kind]))


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    for name in ("host", "cluster", "sha256"):
        parser.add_argument(name)
    given = parser.parse_args()
    server = HostileServer(given.kind, given.host, cluster=given.cluster, sha256=given.sha256)
    print(server.address, flush=True)  # noqa: T201 - it is what the parent waits for
    threading.Event().wait()


if __name__ == "__main__":
    main()
