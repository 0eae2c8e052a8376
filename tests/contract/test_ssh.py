"""Connections, commands and deployment over a real OpenSSH server."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.drivers.errors import CommandFailed, HostKeyMismatch, Unreachable
from longshore.drivers.interface import HostKeyVerdict
from longshore.pool.remote.deploy import deploy, run_runner
from longshore.pool.remote.ssh import SshConnection
from longshore.pool.remote.ssh_keys import PrivateKey, load_or_create_private_key, public_key_text
from tests.rigs.link import ScriptBundle
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return load_or_create_private_key(tmp_path / "keys" / "id")


@pytest.fixture
def host(tmp_path: Path, key: PrivateKey) -> Iterator[SshdHost]:
    with SshdHost(tmp_path / "i-1", authorized_key=public_key_text(key)) as made:
        yield made


def connect(host: SshdHost, key: PrivateKey, **changes: object) -> SshConnection:
    values: dict[str, object] = {
        "user": "root",
        "private_key": key,
        "expected_host_key": host.host_key,
        "deadline_s": 60.0,
    }
    return SshConnection.connect(host.address, **(values | changes))  # type: ignore[arg-type]  # a test names what it changes


@pytest.fixture
def connection(host: SshdHost, key: PrivateKey) -> Iterator[SshConnection]:
    made = connect(host, key)
    yield made
    made.close()


# ---- connecting ---------------------------------------------------------------------------------


def test_a_connection_knows_its_key_and_runs_commands(
    host: SshdHost, connection: SshConnection
) -> None:
    assert connection.host_key == host.host_key
    assert connection.proven
    result = connection.run("cat; echo err >&2; exit 3", stdin=b"in\x00put", deadline_s=60)
    assert (result.exit_status, result.stdout, result.stderr) == (3, b"in\x00put", b"err\n")


@pytest.mark.parametrize(
    ("options", "algorithms"),
    [
        (("-t", "ecdsa", "-b", "256"), "ecdsa-sha2-nistp256"),
        (("-t", "rsa", "-b", "3072"), "rsa-sha2-512"),
    ],
)
def test_who_takes_no_ed25519_takes_the_other_keys(
    tmp_path: Path, options: tuple[str, ...], algorithms: str
) -> None:
    """As a machine does whose cryptography is that of FIPS 140."""
    made = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", *options, "-N", "", "-f", str(made)], check=True)
    key = load_or_create_private_key(made)
    configuration = (
        f"PubkeyAcceptedAlgorithms {algorithms}",
        "KexAlgorithms ecdh-sha2-nistp256",
        "Ciphers aes256-gcm@openssh.com",
    )
    with SshdHost(
        tmp_path / "i-1", authorized_key=public_key_text(key), configuration=configuration
    ) as host:
        connection = connect(host, key)
        assert connection.run("echo in", deadline_s=60).stdout == b"in\n"
        connection.close()


def test_an_exchange_that_has_only_its_new_name_is_known(tmp_path: Path, key: PrivateKey) -> None:
    configuration = ("KexAlgorithms curve25519-sha256",)
    with SshdHost(
        tmp_path / "i-1", authorized_key=public_key_text(key), configuration=configuration
    ) as host:
        connect(host, key).close()


def test_an_unknown_key_is_not_proven(host: SshdHost, key: PrivateKey) -> None:
    connection = connect(host, key, expected_host_key="")
    assert connection.host_key == host.host_key
    assert not connection.proven
    connection.close()


def test_a_wrong_pinned_key_is_noticed_before_we_log_in(host: SshdHost, key: PrivateKey) -> None:
    with pytest.raises(HostKeyMismatch):
        connect(host, key, expected_host_key=public_key_text(key))
    connect(host, key).close()
    wait_until(lambda: "Accepted publickey" in host.log_file.read_text(), "the login in the log")
    assert host.log_file.read_text().count("Accepted publickey") == 1


@pytest.mark.parametrize(
    ("verdict", "pinned", "accepted"),
    [
        (HostKeyVerdict.GENUINE, "", True),
        (HostKeyVerdict.GENUINE, "ssh-ed25519 AAAAother", True),
        (HostKeyVerdict.WRONG, "", False),
        (HostKeyVerdict.WRONG, None, False),
        (HostKeyVerdict.UNKNOWN, None, True),
        (HostKeyVerdict.UNKNOWN, "ssh-ed25519 AAAAother", False),
    ],
)
def test_the_drivers_word_comes_first(
    host: SshdHost, key: PrivateKey, verdict: HostKeyVerdict, pinned: str | None, accepted: bool
) -> None:
    asked: list[str] = []

    def verify(presented: str) -> HostKeyVerdict:
        asked.append(presented)
        return verdict

    expected = host.host_key if pinned is None else pinned
    if accepted:
        connection = connect(host, key, expected_host_key=expected, verify=verify)
        assert connection.proven
        connection.close()
    else:
        with pytest.raises(HostKeyMismatch):
            connect(host, key, expected_host_key=expected, verify=verify)
    assert asked == [host.host_key]


@pytest.mark.parametrize(
    "weak",
    [
        "KexAlgorithms diffie-hellman-group14-sha1",
        "KexAlgorithms diffie-hellman-group-exchange-sha256",
        "Ciphers aes128-cbc,3des-cbc",
        "MACs hmac-sha1\nCiphers aes128-ctr",
    ],
)
def test_a_server_that_offers_only_what_is_weak_is_refused(
    tmp_path: Path, key: PrivateKey, weak: str
) -> None:
    with (
        SshdHost(
            tmp_path / "i-w", authorized_key=public_key_text(key), configuration=[weak]
        ) as host,
        pytest.raises(Unreachable, match="no acceptable"),
    ):
        connect(host, key)


def test_the_cheap_and_strong_algorithms_are_preferred(tmp_path: Path, key: PrivateKey) -> None:
    with SshdHost(
        tmp_path / "i-p", authorized_key=public_key_text(key), configuration=["LogLevel DEBUG1"]
    ) as host:
        connect(host, key).close()
        log = host.log_file.read_text()
    assert "kex: algorithm: curve25519-sha256" in log
    assert "kex: host key algorithm: ssh-ed25519" in log
    assert "cipher: aes128-gcm@openssh.com" in log


def test_a_key_that_may_not_log_in_is_told(host: SshdHost, tmp_path: Path) -> None:
    stranger = load_or_create_private_key(tmp_path / "stranger")
    with pytest.raises(Unreachable, match="refuses our key"):
        connect(host, stranger)


def test_twenty_connections_at_once_with_few_handshakes(host: SshdHost, key: PrivateKey) -> None:
    handshakes = threading.BoundedSemaphore(4)
    results: list[bytes] = []

    def work(number: int) -> None:
        connection = connect(host, key, handshakes=handshakes, deadline_s=60.0)
        results.append(connection.run(f"echo {number}", deadline_s=60).stdout)
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, results)) == list(range(20))
    assert [handshakes.acquire(blocking=False) for _ in range(5)] == [True] * 4 + [False]


@pytest.mark.parametrize("says", [b"", b"SSH-2.0-frozen\r\n", b"no ssh here\r\n" * 3])
def test_a_host_that_stalls_does_not_hold_us(key: PrivateKey, says: bytes) -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        address = f"127.0.0.2:{server.getsockname()[1]}"
        accepted: list[socket.socket] = []

        def accept() -> None:
            peer, _ = server.accept()
            peer.sendall(says)
            accepted.append(peer)

        thread = threading.Thread(target=accept)
        thread.start()
        began = time.monotonic()
        with pytest.raises(Unreachable):
            SshConnection.connect(
                address, user="root", private_key=key, expected_host_key="", deadline_s=0.5
            )
        assert time.monotonic() - began < 8
        thread.join()
        accepted[0].close()


@pytest.mark.parametrize("address", ["", "host", ":22", "127.0.0.2:", "127.0.0.2:1"])
def test_an_address_that_leads_nowhere_is_unreachable(key: PrivateKey, address: str) -> None:
    with pytest.raises(Unreachable):
        SshConnection.connect(
            address, user="root", private_key=key, expected_host_key="", deadline_s=5
        )


# ---- commands -----------------------------------------------------------------------------------


def test_much_goes_both_ways(connection: SshConnection) -> None:
    data = os.urandom(4_000_000)
    result = connection.run("cat", stdin=data, deadline_s=60, output_limit_bytes=5_000_000)
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(data).digest()


def test_a_command_need_not_read_its_input(connection: SshConnection) -> None:
    result = connection.run("echo done", stdin=b"x" * 4_000_000, deadline_s=60)
    assert (result.exit_status, result.stdout) == (0, b"done\n")


@pytest.mark.parametrize("stream", ["1", "2"])
def test_output_has_a_limit(connection: SshConnection, stream: str) -> None:
    with pytest.raises(CommandFailed, match="more than 1000 bytes"):
        connection.run(f"yes >&{stream}", deadline_s=60, output_limit_bytes=1000)
    assert connection.run("echo alive", deadline_s=60).stdout == b"alive\n"


def test_a_command_that_is_killed_has_failed(connection: SshConnection) -> None:
    with pytest.raises(CommandFailed, match="without a status"):
        connection.run("kill -KILL $$", deadline_s=60)


def test_a_command_that_hangs_is_given_up_and_the_connection_lives(
    connection: SshConnection,
) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match="not done"):
        connection.run("exec sleep 10", deadline_s=1.0)
    assert time.monotonic() - began < 8
    assert connection.run("echo alive", deadline_s=60).stdout == b"alive\n"


@pytest.mark.parametrize("stdin", [b"", b"x" * 8_000_000])
def test_a_frozen_host_holds_no_command_past_its_deadline(
    host: SshdHost, connection: SshConnection, stdin: bytes
) -> None:
    (frozen,) = host.session_pids()
    os.kill(frozen, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(Unreachable):
            connection.run("cat > /dev/null", stdin=stdin, deadline_s=0.5)
        assert time.monotonic() - began < 10
        began = time.monotonic()
        connection.close()
        assert time.monotonic() - began < 10
    finally:
        os.kill(frozen, signal.SIGCONT)


def test_a_host_that_freezes_while_it_reads_holds_no_command_past_its_deadline(
    host: SshdHost, connection: SshConnection
) -> None:
    (frozen,) = host.session_pids()
    timer = threading.Timer(0.2, os.kill, (frozen, signal.SIGSTOP))
    timer.start()
    try:
        began = time.monotonic()
        with pytest.raises(Unreachable):
            connection.run("cat > /dev/null", stdin=b"x" * 400_000_000, deadline_s=1.5)
        assert time.monotonic() - began < 12
    finally:
        timer.join()
        os.kill(frozen, signal.SIGCONT)


def test_a_connection_that_dies_ends_its_command(host: SshdHost, connection: SshConnection) -> None:
    timer = threading.Timer(0.2, host.kill_sessions)
    timer.start()
    with pytest.raises(Unreachable):
        connection.run("exec sleep 60", deadline_s=60)
    timer.join()
    assert not connection.alive
    with pytest.raises(Unreachable):
        connection.run("true", deadline_s=60)


def test_closing_ends_a_command_and_is_done_twice_without_harm(
    host: SshdHost, key: PrivateKey
) -> None:
    connection = connect(host, key)
    timer = threading.Timer(0.2, connection.close)
    timer.start()
    with pytest.raises(Unreachable):
        connection.run("exec sleep 5", deadline_s=60)
    timer.join()
    connection.close()
    assert not connection.alive


# ---- deployment ---------------------------------------------------------------------------------


def bundle_of(source: bytes) -> ScriptBundle:
    return ScriptBundle(data=source, sha256=hashlib.sha256(source).hexdigest())


BUNDLE = bundle_of(b"import sys\nsys.stdout.write(repr(sys.argv[1:]))\n" + b"#" * 300_000)


def run_deployed(connection: SshConnection) -> bytes | None:
    arguments = ("list", "a 'quoted' $word")
    return run_runner(connection, BUNDLE, arguments, deadline_s=60, output_limit_bytes=10_000)


def test_the_runner_is_deployed_once_and_run(host: SshdHost, connection: SshConnection) -> None:
    assert run_deployed(connection) is None
    deploy(connection, BUNDLE, deadline_s=60)
    assert run_deployed(connection) == b"""['list', "a 'quoted' $word"]"""
    names = [each.name for each in host.runner_directory.iterdir()]
    assert names == [f"runner-{BUNDLE.sha256}.pyz"]
    deploy(connection, BUNDLE, deadline_s=60)
    assert run_deployed(connection) is not None


def test_a_runner_that_was_altered_is_not_executed(
    host: SshdHost, connection: SshConnection
) -> None:
    deploy(connection, BUNDLE, deadline_s=60)
    file = host.runner_directory / f"runner-{BUNDLE.sha256}.pyz"
    marker = host.directory / "was-executed"
    file.write_text(f"open({str(marker)!r}, 'w')")
    assert run_deployed(connection) is None
    assert not marker.exists()
    deploy(connection, BUNDLE, deadline_s=60)
    assert run_deployed(connection) is not None


def test_an_upload_that_does_not_arrive_whole_is_not_kept(
    host: SshdHost, connection: SshConnection
) -> None:
    cut_short = ScriptBundle(data=BUNDLE.data[:1000], sha256=BUNDLE.sha256)
    with pytest.raises(CommandFailed, match="could not be deployed"):
        deploy(connection, cut_short, deadline_s=60)
    assert list(host.runner_directory.iterdir()) == []


def test_a_host_that_cannot_keep_the_runner_says_why(
    host: SshdHost, connection: SshConnection
) -> None:
    host.runner_directory.write_text("a file in the way")
    with pytest.raises(CommandFailed, match="exists"):
        deploy(connection, BUNDLE, deadline_s=60)


def test_a_runner_that_fails_is_told_with_its_words(connection: SshConnection) -> None:
    bundle = bundle_of(b"import sys\nsys.exit('no engine here')\n")
    deploy(connection, bundle, deadline_s=60)
    with pytest.raises(CommandFailed, match="no engine here"):
        run_runner(connection, bundle, (), deadline_s=60, output_limit_bytes=1000)
