"""Limits on what a far end may send: windows that it ignores, numbers and words without end."""

from __future__ import annotations

import json
import socket
import struct
import threading
from typing import Any

import pytest
from paramiko import ChannelException
from paramiko.buffered_pipe import BufferedPipe

from longshore.drivers.errors import Unreachable
from longshore.pool.remote.ssh import SshConnection
from longshore.pool.remote.ssh_channel import SshChannel
from longshore.pool.remote.ssh_keys import new_private_key
from longshore.pool.remote.ssh_transport import BoundedTransport
from longshore.pool.remote.wire import MalformedMessageError, decode_listing, decode_message

MIB = 2**20
EXIT = {
    "kind": "exited",
    "code": 0,
    "message": "",
    "started_at": 1.0,
    "finished_at": 2.0,
    "stdout_bytes": 0,
    "stderr_bytes": 0,
}


class Raw:
    """What `SshChannel` uses of a channel of paramiko's, with its real buffers."""

    def __init__(self, sock: socket.socket) -> None:
        self.in_buffer = BufferedPipe()
        self.in_stderr_buffer = BufferedPipe()
        self._transport = BoundedTransport(sock)

    def get_transport(self) -> BoundedTransport:
        return self._transport


def cut_after(stream: str, mebibytes: int) -> bool:
    """Feed a stream that nobody reads; return whether the connection was cut."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        raw = Raw(ours)
        SshChannel(raw)  # type: ignore[arg-type]  # the part of a channel that it needs here
        pipe = raw.in_buffer if stream == "stdout" else raw.in_stderr_buffer
        for _ in range(mebibytes):
            pipe.feed(b"x" * MIB)  # type: ignore[arg-type]  # the stubs are of an older version
        theirs.setblocking(False)
        try:
            return theirs.recv(1) == b""
        except BlockingIOError:
            return False


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_far_end_that_ignores_its_window_is_cut(stream: str) -> None:
    assert not cut_after(stream, 16)
    assert cut_after(stream, 18)


@pytest.mark.parametrize(
    "change",
    [
        {"code": 2**63},
        {"code": -1},
        {"code": 256},
        {"stdout_bytes": 2**63},
        {"stderr_bytes": -1},
        {"message": "x" * 5000},
        {"usage": {"peak_memory_bytes": -1}},
        {"usage": {"mean_memory_bytes": 2**60}},
        {"usage": {"read_bytes": 1.5}},
        {"usage": {"written_bytes": 2**63}},
        {"usage": {"cpu_seconds": -0.1}},
        {"usage": {"cpu_seconds": 1e300}},
        {"usage": {"gpu_peak_memory_bytes": 10**400}},
        {"usage": {"gpu_mean_utilization": 1.01}},
    ],
)
def test_exits_beyond_all_bounds_are_malformed(change: dict[str, Any]) -> None:
    message = {
        "type": "exited",
        "attempt_id": "c-1-1",
        "container_id": "c-1",
        "exit": {**EXIT, **change},
    }
    with pytest.raises(MalformedMessageError):
        decode_message(json.dumps(message).encode())
    listing = {
        "protocol": 1,
        "cluster": "c",
        "boot_id": "b",
        "engine": "process",
        "attempts": [{"attempt_id": "a", "container_id": "c", "exit": {**EXIT, **change}}],
    }
    with pytest.raises(MalformedMessageError):
        decode_listing(json.dumps(listing).encode(), "c")


@pytest.mark.parametrize(
    "message",
    [
        {"type": "heartbeat", "broken": "x" * 5000},
        {"type": "heartbeat", "disk_free_bytes": 10**400},
        {"type": "log", "attempt_id": "x" * 200, "stream": "stdout", "offset": 0, "data": ""},
        {"type": "log", "attempt_id": "a", "stream": "stdout", "offset": 2**60, "data": ""},
        {"type": "reply", "id": 1, "ok": False, "code": "c" * 200, "message": ""},
    ],
)
def test_messages_beyond_all_bounds_are_malformed(message: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessageError):
        decode_message(json.dumps(message).encode())


def test_a_packet_that_is_announced_too_long_ends_the_connection() -> None:
    """Found by an attacker's reading: anybody may announce gibibytes, and send them."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            theirs, _ = server.accept()
            with theirs:
                theirs.sendall(b"SSH-2.0-x\r\n" + struct.pack(">I", 0x7FFFFFFC) + bytes(4))
                while theirs.recv(4096):
                    continue

        peer = threading.Thread(target=answer, daemon=True)
        peer.start()
        with pytest.raises(Unreachable, match="2147483640 bytes to come is too long"):
            SshConnection.connect(
                f"127.0.0.1:{server.getsockname()[1]}",
                user="x",
                private_key=new_private_key(),
                expected_host_key="",
                deadline_s=10.0,
            )
        peer.join(10.0)
        assert not peer.is_alive(), "the connection is closed"


@pytest.mark.parametrize(
    ("active", "failure", "ended"),
    [
        (True, None, False),
        (True, ChannelException(1, "no more sessions"), False),
        (True, EOFError(), True),
        (False, None, True),
    ],
)
def test_a_connection_has_ended_once_its_end_is_known_although_it_is_still_open(
    monkeypatch: pytest.MonkeyPatch, active: bool, failure: Exception | None, ended: bool
) -> None:
    """Paramiko ends a connection's channels, and whoever waits for them, before it says so."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = BoundedTransport(ours)
        monkeypatch.setattr(transport, "active", active)
        monkeypatch.setattr(transport, "saved_exception", failure)
        assert transport.ended is ended
