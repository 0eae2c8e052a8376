"""The SSH server in this process, as its clients see it: paramiko's, and OpenSSH's own."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from longshore.drivers.local.processes import processes_of
from longshore.drivers.local.ssh_server import SshServer, host_key_in, public_key_text
from tests.conftest import RequireTool
from tests.ssh_site import INSTANCE, MIB, Site, hang_up, run
from tests.sshd_host import wait_until


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.server.start()
    yield made
    made.server.close()


@pytest.fixture
def client(site: Site) -> Iterator[paramiko.Transport]:
    transport = site.connect()
    yield transport
    hang_up(transport)


def test_a_server_refuses_connections_until_it_is_started(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((site.host, site.port), 5.0)
    site.server.start()
    hang_up(site.connect())
    site.server.close()
    site.server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((site.host, site.port), 5.0)


def test_its_host_key_is_kept_with_its_public_half(site: Site, client: paramiko.Transport) -> None:
    shown = public_key_text(client.get_remote_server_key())
    assert shown == site.server.host_key == public_key_text(host_key_in(site.directory))
    assert site.directory.joinpath("ssh_host_ed25519_key.pub").read_text() == shown + "\n"
    assert site.directory.joinpath("ssh_host_ed25519_key").stat().st_mode & 0o777 == 0o600


def test_a_command_has_its_directory_and_only_its_environment(
    site: Site, client: paramiko.Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHORE_TOKEN", "not for instances")
    _, output, _ = run(client, "pwd; env")
    directory, *environment = output.decode().splitlines()
    assert directory == str(site.directory)
    assert "GREETING=hello there" in environment
    assert "not for instances" not in output.decode()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("true", (0, b"", b"")),
        ("exit 7", (7, b"", b"")),
        ("echo out; echo err >&2; exit 255", (255, b"out\n", b"err\n")),
        ("kill -TERM $$", (-1, b"", b"")),
        ("read line; echo got $line", (0, b"got\n", b"")),
    ],
)
def test_a_command_tells_how_it_ended(
    client: paramiko.Transport, command: str, expected: tuple[int, bytes, bytes]
) -> None:
    channel = client.open_session()
    channel.exec_command(command)
    channel.shutdown_write()
    output, errors = channel.makefile().read(), channel.makefile_stderr().read()
    assert (channel.recv_exit_status(), output, errors) == expected


def test_a_command_that_cannot_start_says_why(site: Site) -> None:
    site.directory.joinpath("client", "gone").mkdir()
    server = SshServer(
        "127.0.0.1",
        host_key=host_key_in(site.directory),
        authorized_key=public_key_text(site.key),
        environment={},
        directory=site.directory / "never made",
    )
    server.start()
    site.port = int(server.address.rpartition(":")[2])
    transport = site.connect()
    status, _, errors = run(transport, "true")
    hang_up(transport)
    server.close()
    assert status == 127
    assert b"never made" in errors


def test_16_mib_go_both_ways_at_once(client: paramiko.Transport) -> None:
    channel = client.open_session()
    channel.exec_command("tee /dev/stderr")
    sent = os.urandom(MIB) * 16
    received: dict[str, bytes] = {}

    def collect(name: str, read: str) -> None:
        received[name] = getattr(channel, read)().read()

    readers = [
        threading.Thread(target=collect, args=arguments)
        for arguments in (("stdout", "makefile"), ("stderr", "makefile_stderr"))
    ]
    for reader in readers:
        reader.start()
    channel.sendall(sent)
    channel.shutdown_write()
    for reader in readers:
        reader.join(60.0)
    assert channel.recv_exit_status() == 0
    # Not compared by pytest, whose picture of a difference of 16 MiB takes minutes.
    assert bool(received["stdout"] == sent)
    assert bool(received["stderr"] == sent)


def test_output_that_nobody_takes_holds_the_command_up(
    site: Site, client: paramiko.Transport
) -> None:
    channel = client.open_session()
    channel.exec_command("head -c 16777216 /dev/zero; touch through")
    wait_until(lambda: len(channel.in_buffer) >= 2 * MIB, "the client's window to be full")
    assert len(channel.in_buffer) == 2 * MIB
    assert not site.directory.joinpath("through").exists()
    assert len(channel.makefile().read()) == 16 * MIB
    assert channel.recv_exit_status() == 0
    assert site.directory.joinpath("through").exists()


def _await_processes(count: int) -> list[int]:
    wait_until(lambda: len(processes_of(INSTANCE)) >= count, f"{count} processes to run")
    return processes_of(INSTANCE)


def test_input_that_nobody_reads_is_dropped(site: Site, client: paramiko.Transport) -> None:
    gate = site.directory / "gate"
    os.mkfifo(gate)
    channel = client.open_session()
    channel.exec_command("exec <&-; echo closed; read line <gate")
    channel.sendall(bytes(8 * MIB))
    gate.write_text("go on\n")
    assert channel.makefile().read() == b"closed\n"
    assert channel.recv_exit_status() == 0


def test_lines_go_back_and_forth_without_delay(client: paramiko.Transport) -> None:
    channel = client.open_session()
    channel.exec_command("exec cat")
    answers = channel.makefile("r")
    for number in range(500):
        channel.sendall(f"line {number}\n".encode())
        assert answers.readline() == f"line {number}\n"
    channel.shutdown_write()
    assert channel.recv_exit_status() == 0


def test_the_exit_is_told_while_a_descendant_holds_the_output(client: paramiko.Transport) -> None:
    channel = client.open_session()
    channel.exec_command("sleep 604 & echo $!; exit 5")
    output = channel.makefile("r")
    sleeper = int(output.readline())
    assert channel.recv_exit_status() == 5
    assert not channel.closed
    os.kill(sleeper, 9)
    wait_until(lambda: channel.closed, "the channel to close")


def test_a_client_that_vanishes_takes_its_command_along(
    site: Site, client: paramiko.Transport
) -> None:
    vanishing = site.connect()
    # One that ignores everything but SIGKILL, one that ends with its stdin, one that is detached.
    vanishing.open_session().exec_command("trap '' TERM HUP; while :; do sleep 605; done")
    vanishing.open_session().exec_command("cat >copy; echo over >>copy")
    detach = "setsid sh -c 'echo $$; exec sleep 606 >/dev/null 2>&1 </dev/null' & wait"
    channel = vanishing.open_session()
    channel.exec_command(detach)
    detached = int(channel.makefile("r").readline())
    wait_until(site.directory.joinpath("copy").exists, "the commands to run")
    vanishing.sock.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: processes_of(INSTANCE) == [detached], "all but the detached one to end")
    assert site.directory.joinpath("copy").read_text() == "over\n"
    assert run(client, "echo still serving")[1] == b"still serving\n"
    os.kill(detached, 9)
    wait_until(lambda: processes_of(INSTANCE) == [], "the detached one to end")
    hang_up(vanishing)


def test_closing_one_channel_ends_its_command_even_with_a_full_stdin(
    client: paramiko.Transport,
) -> None:
    channel = client.open_session()
    channel.exec_command("exec sleep 607")
    channel.sendall(bytes(MIB))
    _await_processes(1)
    channel.close()
    wait_until(lambda: processes_of(INSTANCE) == [], "the command to end")
    assert run(client, "echo next")[1] == b"next\n"


def test_closing_the_server_ends_commands_but_nothing_detached(site: Site) -> None:
    transport = site.connect()
    channel = transport.open_session()
    channel.exec_command("setsid sleep 608 >/dev/null 2>&1 </dev/null & echo $!; exec sleep 609")
    detached = int(channel.makefile("r").readline())
    _await_processes(2)
    site.server.close()
    wait_until(lambda: not transport.is_active(), "the client to notice")
    assert processes_of(INSTANCE) == [detached]
    os.kill(detached, 9)
    hang_up(transport)


def test_fifty_connections_leave_no_thread_and_no_descriptor(site: Site) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts without opening more

    hang_up(site.connect())
    wait_until(lambda: threading.active_count() <= 2, "the first connection to end")
    before = descriptors()
    for number in range(50):
        transport = site.connect()
        assert run(transport, f"echo {number}")[1] == f"{number}\n".encode()
        hang_up(transport)
    wait_until(lambda: threading.active_count() <= 2, "the connections' threads to end")
    wait_until(lambda: descriptors() <= before, "the connections' descriptors to be closed")


@pytest.mark.real
def test_the_openssh_client_gets_along_with_it(site: Site, require_tool: RequireTool) -> None:
    ssh = require_tool("ssh", "openssh-client")
    known = site.directory / "known_hosts"
    known.write_text(f"[{site.host}]:{site.port} {site.server.host_key}\n")
    options = ("BatchMode=yes", f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes")
    done = subprocess.run(
        [ssh, "-F", "none", "-i", str(site.client_directory / "ssh_host_ed25519_key")]
        + [part for option in options for part in ("-o", option)]
        + ["-p", str(site.port), f"root@{site.host}", "wc -c; echo bad >&2; exit 9"],
        input=bytes(8 * MIB),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (9, b"8388608\n", b"bad\n")
