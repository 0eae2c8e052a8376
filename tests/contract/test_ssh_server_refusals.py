"""What the SSH server in this process refuses: strangers, weak algorithms, and too much."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import paramiko
import pytest

from longshore.drivers.local.ssh_server import host_key_in
from tests.ssh_site import Site, hang_up, run
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


def test_another_key_is_refused(site: Site, tmp_path: Path) -> None:
    tmp_path.joinpath("other").mkdir()
    with pytest.raises(paramiko.AuthenticationException):
        site.connect(host_key_in(tmp_path / "other"))


def test_nothing_but_the_key_and_commands_is_to_be_had(
    site: Site, client: paramiko.Transport
) -> None:
    stranger = paramiko.Transport(socket.create_connection((site.host, site.port), 10.0))
    stranger.start_client(timeout=10.0)
    with pytest.raises(paramiko.BadAuthenticationType) as refused:
        stranger.auth_password("root", "secret", fallback=False)
    assert refused.value.allowed_types == ["publickey"]
    with pytest.raises(paramiko.BadAuthenticationType):
        stranger.auth_none("root")
    hang_up(stranger)
    for ask in ("get_pty", "invoke_shell"):
        with pytest.raises(paramiko.SSHException):
            getattr(client.open_session(), ask)()
    with pytest.raises(paramiko.SSHException):
        client.open_session().invoke_subsystem("sftp")
    with pytest.raises(paramiko.ChannelException):
        client.open_channel("direct-tcpip", ("127.0.0.1", 22), ("127.0.0.1", 1))
    with pytest.raises(paramiko.SSHException):
        client.request_port_forward("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("ciphers", ["aes128-cbc", "3des-cbc"]),
        ("digests", ["hmac-sha1", "hmac-md5"]),
        ("kex", ["diffie-hellman-group14-sha256", "diffie-hellman-group-exchange-sha256"]),
    ],
)
def test_weak_algorithms_are_refused(site: Site, kind: str, names: list[str]) -> None:
    transport = paramiko.Transport(socket.create_connection((site.host, site.port), 10.0))
    if kind == "digests":
        transport.get_security_options().ciphers = ("aes128-ctr",)
    setattr(transport.get_security_options(), kind, tuple(names))
    with pytest.raises((paramiko.SSHException, EOFError)):
        transport.start_client(timeout=10.0)
    hang_up(transport)


def test_a_second_command_on_a_channel_and_too_many_channels_are_refused(
    client: paramiko.Transport,
) -> None:
    channel = client.open_session()
    channel.exec_command("exec cat")
    with pytest.raises(paramiko.SSHException):
        channel.exec_command("true")
    # Kept, because paramiko closes a channel that nobody holds any more.
    channels = [channel]
    with suppress(paramiko.ChannelException):
        while len(channels) < 100:
            channels.append(client.open_session())
    assert 10 < len(channels) < 100


def test_connections_have_a_limit(site: Site) -> None:
    server = site.new_server(max_connections=2)
    server.start()
    site.port = int(server.address.rpartition(":")[2])
    transports = [site.connect() for _ in range(2)]
    with pytest.raises((paramiko.SSHException, EOFError, ConnectionError)):
        site.connect()
    hang_up(transports.pop())
    wait_until(lambda: _can_connect(site), "room for another connection")
    hang_up(transports.pop())
    server.close()


def test_untrusted_clients_make_room_for_who_logs_in_and_fill_no_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    server = site.new_server(max_connections=3, login_timeout_s=60.0)
    server.start()
    site.port = int(server.address.rpartition(":")[2])
    known = site.connect()
    with ExitStack() as strangers:
        for _ in range(9):
            stranger = socket.create_connection((site.host, site.port), 10.0)
            strangers.enter_context(stranger)
        wait_until(lambda: _can_connect(site), "room among the strangers")
        assert run(known, "echo kept")[1] == b"kept\n"
        logger = "longshore.drivers.local.ssh_server"
        mine = [each for each in caplog.records if each.name == logger]
        assert [each.levelname for each in mine] == ["WARNING"]
    hang_up(known)
    server.close()


def _can_connect(site: Site) -> bool:
    try:
        hang_up(site.connect())
    except (paramiko.SSHException, EOFError, ConnectionError):
        return False
    return True


def test_strangers_do_not_harm(site: Site, client: paramiko.Transport) -> None:
    for greeting in (b"", b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-stranger\r\n", b"\0" * 100_000):
        with socket.create_connection((site.host, site.port), 10.0) as stranger:
            stranger.sendall(greeting)
    assert run(client, "echo fine")[1] == b"fine\n"


def test_who_does_not_log_in_is_hung_up_on(site: Site) -> None:
    server = site.new_server(login_timeout_s=1.0)
    server.start()
    site.port = int(server.address.rpartition(":")[2])
    known = site.connect()
    with socket.create_connection((site.host, site.port), 10.0) as silent:
        assert silent.recv(8) == b"SSH-2.0-"
        while silent.recv(1024):
            continue
    assert run(known, "echo still here")[1] == b"still here\n"
    hang_up(known)
    server.close()
