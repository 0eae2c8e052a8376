"""An SSH server of ours with a client's key, and a plain paramiko client for it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import paramiko

from longshore.drivers.local.processes import INSTANCE_VARIABLE, login_environment
from longshore.drivers.local.ssh_server import SshServer, host_key_in, public_key_text

MIB = 2**20
INSTANCE = f"i-test-{os.getpid()}"


class Site:
    """A server with a client's key, and a plain client."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.client_directory = directory / "client"
        self.client_directory.mkdir()
        self.key = host_key_in(self.client_directory)
        self.server = self.new_server()
        self.host, _, port = self.server.address.rpartition(":")
        self.port = int(port)

    def new_server(self, *, max_connections: int = 64, login_timeout_s: float = 20.0) -> SshServer:
        return SshServer(
            "127.0.0.1",
            host_key=host_key_in(self.directory),
            authorized_key=public_key_text(self.key) + " a comment",
            environment=login_environment({INSTANCE_VARIABLE: INSTANCE, "GREETING": "hello there"}),
            directory=self.directory,
            max_connections=max_connections,
            login_timeout_s=login_timeout_s,
        )

    def connect(self, key: paramiko.PKey | None = None) -> paramiko.Transport:
        transport = paramiko.Transport(socket.create_connection((self.host, self.port), 10.0))
        try:
            transport.connect(username="anybody", pkey=key or self.key)
        except paramiko.SSHException:
            hang_up(transport)
            raise
        return transport


def hang_up(transport: paramiko.Transport) -> None:
    """End a client at once: as shipped, its thread looks only each 0.1 s whether it was closed."""
    with suppress(OSError):
        transport.sock.shutdown(socket.SHUT_RDWR)
    transport.join()
    transport.packetizer.complete_handshake()


def run(transport: paramiko.Transport, command: str) -> tuple[int, bytes, bytes]:
    """Run a command that tells little, and return its status and what it told."""
    channel = transport.open_session()
    channel.exec_command(command)
    output, errors = channel.makefile().read(), channel.makefile_stderr().read()
    return channel.recv_exit_status(), output, errors
