"""What a hostile instance sends without end: it is hung up on, or read at a pace."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from paramiko.common import MSG_CHANNEL_DATA, MSG_IGNORE, MSG_KEXINIT

from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import ProbeStageError
from longshore.pool.remote.ssh_keys import PrivateKey, load_or_create_private_key
from longshore.pool.remote.ssh_transport import BoundedPacketizer
from tests.hostile_server import KINDS, HostileServer
from tests.rigs.link import Recorder, genuine, link_settings, make_link
from tests.rigs.session import HELLO, Rig
from tests.sshd_host import wait_until

PACED = ("data", "stderr", "replies", "logs")
"""Of these an honest instance may have much to send, too."""
NO_OUTPUT = "it floods us with SSH messages that carry no output, the last of type"
REASONS = {
    "line": "it does not say its SSH version within 8192 bytes",
    "lines": "it does not say its SSH version within 8192 bytes",
    "login": f"{NO_OUTPUT} 53",
    "ignore": f"{NO_OUTPUT} 2",
    "debug": f"{NO_OUTPUT} 4",
    "unimplemented": f"{NO_OUTPUT} 3",
    "window": f"{NO_OUTPUT} 93",
    "global": f"{NO_OUTPUT} 80",
    "request": f"{NO_OUTPUT} 98",
    "rekey": f"{NO_OUTPUT} 20",
    "heartbeats": "its runner floods us with heartbeats",
}
ENDS = {"rekey": f"{NO_OUTPUT} 21"}


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return load_or_create_private_key(tmp_path / "keys" / "id")


@contextlib.contextmanager
def beside(kind: str, key: PrivateKey) -> Iterator[tuple[HostileServer, WorkerLink, Recorder]]:
    """Have a link to a hostile instance."""
    settings, recorder = link_settings(key, heartbeat_interval_s=5.0), Recorder()
    with (
        HostileServer(kind, cluster=settings.cluster, sha256=settings.bundle.sha256) as server,
        contextlib.closing(make_link(settings, recorder)) as link,
    ):
        yield server, link, recorder


def probe(server: HostileServer, link: WorkerLink) -> None:
    link.probe(address=server.address, host_key="", secret="", boot=True, verify=genuine)


@pytest.mark.parametrize("kind", [each for each in KINDS if each not in PACED])
def test_a_flood_ends_the_connection_with_the_reason(kind: str, key: PrivateKey) -> None:
    with beside(kind, key) as (server, link, recorder):
        said = ""
        try:
            probe(server, link)
            wait_until(lambda: bool(recorder.losses), "the end of the session")
            said = recorder.losses[0][1]
        except ProbeStageError as error:
            said = error.message
        # Whoever wants new keys without end is in the middle of one exchange, or at its end.
        assert any(each in said for each in (REASONS[kind], ENDS.get(kind, REASONS[kind])))


def test_who_floods_nobody_is_not_hung_up_on(key: PrivateKey) -> None:
    with beside("", key) as (server, link, recorder):
        for _ in range(40):
            probe(server, link)
        assert recorder.losses == []


@pytest.fixture
def pair() -> Iterator[tuple[BoundedPacketizer, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(20.0)
    with ours, theirs:
        yield BoundedPacketizer(ours), theirs


def packet(kind: int, size: int = 0) -> bytes:
    """Return a packet as it is before keys are exchanged."""
    padding = 4 + (-(size + 2) - 8) % 8
    return struct.pack(">IBB", size + 2 + padding, padding, kind) + bytes(size + padding)


def sending(theirs: socket.socket, data: bytes) -> threading.Thread:
    def send() -> None:
        with contextlib.suppress(OSError):  # the test has seen enough
            theirs.sendall(data)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def read_until_end(packetizer: BoundedPacketizer) -> None:
    while True:
        packetizer.read_message()


def test_much_output_is_read_at_a_pace(pair: tuple[BoundedPacketizer, socket.socket]) -> None:
    packetizer, theirs = pair
    sender = sending(theirs, packet(MSG_CHANNEL_DATA, 5) * 1600)
    began = time.monotonic()
    for _ in range(1000):
        assert packetizer.read_message()[0] == MSG_CHANNEL_DATA
    first_s = time.monotonic() - began
    for _ in range(600):
        packetizer.read_message()
    sender.join()
    assert time.monotonic() - began > 0.55, "1,000 at once, and 1,000 a second"
    assert first_s < 20
    assert packetizer.fault == ""


@pytest.mark.parametrize(("kind", "passes"), [(MSG_IGNORE, 500), (MSG_KEXINIT, 10)])
def test_so_much_passes_that_carries_no_output(
    pair: tuple[BoundedPacketizer, socket.socket], kind: int, passes: int
) -> None:
    packetizer, theirs = pair
    sender = sending(theirs, packet(kind) * 20_000)
    for _ in range(passes):
        assert packetizer.read_message()[0] == kind
    with pytest.raises(paramiko.SSHException, match=f"the last of type {kind}"):
        read_until_end(packetizer)
    theirs.shutdown(socket.SHUT_RDWR)
    sender.join()


def test_what_we_send_earns_the_far_end_more(
    pair: tuple[BoundedPacketizer, socket.socket],
) -> None:
    packetizer, theirs = pair
    sent = 0
    for _ in range(4):
        sender = sending(theirs, packet(MSG_IGNORE) * 400)
        for _ in range(400):
            packetizer.read_message()
        sender.join()
        taker = threading.Thread(target=theirs.recv, args=(2**20, socket.MSG_WAITALL))
        taker.start()
        packetizer.write_all(bytes(2**20))
        taker.join()
        sent += 400
    assert sent == 1600


def test_many_lines_are_read_at_a_pace() -> None:
    rig = Rig()
    with contextlib.closing(rig):
        rig.start({**HELLO, "boot_id": "b"})
        line = b'{"type":"reply","id":99,"ok":true}\n'
        last = b'{"type":"heartbeat"}\n'
        began = time.monotonic()
        sender = sending(rig.theirs, line * 5000 + last)
        rig.listener.pushes.get(timeout=60)
        assert time.monotonic() - began > 0.45, "4,000 at once, and 2,000 a second"
        sender.join()
        assert rig.listener.ends == []


def test_a_session_that_is_read_at_a_pace_is_closed_at_once() -> None:
    rig = Rig()
    with contextlib.closing(rig):
        session = rig.start()
        sender = sending(rig.theirs, b'{"type":"reply","id":99,"ok":true}\n' * 100_000)
        wait_until(lambda: session._lines.spend(0, time.monotonic()) > 0.01, "a rest")
        began = time.monotonic()
        session.close()
        assert time.monotonic() - began < 5
        sender.join()
        assert rig.listener.ends == []
