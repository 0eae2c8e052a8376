"""The one server-side paramiko: an SSH server inside this process, for instances that are local.

It knows one client key and one kind of request: run a command, as a real subprocess. Passwords,
terminals, shells, subsystems and every kind of forwarding are refused.
"""

from __future__ import annotations

import io
import logging
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_RESOURCE_SHORTAGE,
    OPEN_SUCCEEDED,
)

from longshore.drivers.local.ssh_command import SshCommand, Wake

_log = logging.getLogger(__name__)

_MAX_CHANNELS = 64
"""Open channels of one connection; a further one is refused."""
_READ_TIMEOUT_S = 30.0
_JOIN_S = 15.0
_OUT_OF_DESCRIPTORS_S = 0.2
_COMPLAINT_INTERVAL_S = 20.0

_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
_DIGESTS = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
)
_KEY_EXCHANGES = ("curve25519-sha256@libssh.org", "ecdh-sha2-nistp256")

# Whoever connects and says something else than SSH would fill the log with paramiko's tracebacks;
# what is our own fault is logged by `_Connection.run`.
_TRANSPORT_LOG = f"{__name__}.transport"
logging.getLogger(_TRANSPORT_LOG).setLevel(logging.CRITICAL)


def host_key_in(directory: Path) -> paramiko.Ed25519Key:
    """Return the host key kept in `directory`, made at the first call, with its public half beside.

    The files are called as a real sshd calls them: `ssh_host_ed25519_key` and the same with `.pub`.
    """
    private = directory / "ssh_host_ed25519_key"
    if not private.exists():
        new = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        staged = private.with_suffix(".new")
        staged.touch(mode=0o600)
        staged.write_bytes(new)
        staged.replace(private)
    key = paramiko.Ed25519Key.from_private_key(io.StringIO(private.read_text()))
    private.with_suffix(".pub").write_text(public_key_text(key) + "\n")
    return key


def public_key_text(key: paramiko.PKey) -> str:
    """Return the public half of `key` as "TYPE BASE64"."""
    return f"{key.get_name()} {key.get_base64()}"


class SshServer:
    """A server that is bound to its port at once, and refuses connections until `start`.

    Whoever holds the authorized key may log in, under any name; commands are run by `/bin/sh -c`.
    `port` 0 takes any free one.
    """

    def __init__(
        self,
        host: str,
        port: int = 0,
        *,
        host_key: paramiko.PKey,
        authorized_key: str,
        environment: Mapping[str, str],
        directory: Path,
        max_connections: int = 64,
        login_timeout_s: float = 20.0,
    ) -> None:
        self.host_key = public_key_text(host_key)
        self._key = host_key
        #: The one key that may log in ("TYPE BASE64").
        self._authorized_key = " ".join(authorized_key.split()[:2])
        #: All that commands find in their environment; read at each start of one.
        self._environment = environment
        #: Where commands run.
        self._directory = directory
        #: One beyond this takes the place of the oldest on which nobody has logged in; when all
        #: have logged in, the new one is closed.
        self._max_connections = max_connections
        #: A connection on which nobody has logged in for this long is closed.
        self._login_timeout_s = login_timeout_s
        self._lock = threading.Lock()
        self._closing = False
        self._connections: list[_Connection] = []
        self._commands: list[SshCommand] = []
        self._thread: threading.Thread | None = None
        self._wake = Wake()
        self._complaints = _Complaints()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listener.bind((host, port))
        except OSError:
            self._listener.close()
            self._wake.close()
            raise
        self.address = "{}:{}".format(*self._listener.getsockname())

    def start(self) -> None:
        """Let clients in from now on; without effect after `close`."""
        with self._lock:
            if self._closing or self._thread is not None:
                return
            self._listener.setblocking(False)
            self._listener.listen(self._max_connections)
            self._thread = threading.Thread(target=self._accept, name="ssh-accept", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End all connections and what their commands started directly, and wait for that.

        What commands detached goes on. Twice is no error.
        """
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._listener.close()
        self._wake.close()
        for connection in self._connections:
            connection.hang_up()
        deadline = time.monotonic() + _JOIN_S
        for connection in self._connections:
            connection.join(max(0.0, deadline - time.monotonic()))
        # No connection is left, so no command is added any more.
        for command in self._commands:
            if not command.join(max(0.0, deadline - time.monotonic())):
                _log.error("a command on %s does not end, though it was killed", self.address)

    def run(self, channel: paramiko.Channel, command: bytes) -> None:
        """Start a command on a channel; meant for this module's own connections."""
        new = SshCommand(
            channel, command, environment=dict(self._environment), directory=self._directory
        )
        with self._lock:
            if self._closing:
                return
            self._commands = [each for each in self._commands if not each.ended]
            self._commands.append(new)
            new.start()

    def admits(self, key: paramiko.PKey) -> bool:
        """Return whether `key` is the one that may log in."""
        return public_key_text(key) == self._authorized_key

    def _accept(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._wake.fileno(), select.POLLIN)
        while not self._closing:
            ready = dict(poll.poll(self._patience_ms()))
            self._drop_idlers()
            if self._listener.fileno() not in ready:
                continue
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                continue
            except OSError as error:
                self._complaints.warn(f"cannot accept on {self.address}: {error}")
                self._wait_for_wake(_OUT_OF_DESCRIPTORS_S)
                continue
            self._welcome(_ConnectionSocket(fileno=accepted.detach()))

    def _wait_for_wake(self, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(self._wake.fileno(), select.POLLIN)
        poll.poll(timeout_s * 1000)

    def _patience_ms(self) -> float | None:
        strangers = [each.deadline for each in self._connections if each.is_stranger]
        return max(0.0, min(strangers) - time.monotonic()) * 1000 + 1 if strangers else None

    def _drop_idlers(self) -> None:
        now = time.monotonic()
        self._connections = [each for each in self._connections if each.is_alive()]
        for connection in self._connections:
            if connection.is_stranger and connection.deadline <= now:
                connection.hang_up()

    def _welcome(self, accepted: _ConnectionSocket) -> None:
        if not self._make_room():
            self._complaints.warn(
                f"{self.address} refuses a connection: it has {len(self._connections)} already"
            )
            accepted.close()
            return
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(_Connection(accepted, self, self._key, self._login_timeout_s))
        except (OSError, RuntimeError) as error:
            # The client went before we looked at it, or there is no thread to be had.
            self._complaints.warn(f"cannot serve a client on {self.address}: {error}")
            accepted.close()

    def _make_room(self) -> bool:
        """Return whether one more may come, having hung up on the oldest stranger if need be."""
        if len(self._connections) < self._max_connections:
            return True
        # What was hung up on is as good as gone, but a thread each until it is: these have a limit.
        if len(self._connections) >= 2 * self._max_connections:
            return False
        going = sum(each.is_hung_up for each in self._connections)
        if len(self._connections) - going < self._max_connections:
            return True
        oldest = next((each for each in self._connections if each.is_stranger), None)
        if oldest is None:
            return False
        self._complaints.warn(f"{self.address} is full: it hangs up on who has not logged in")
        oldest.hang_up()
        return True


class _Complaints:
    """Says in the log what strangers can make happen as often as they like, a few times a minute.

    All is called on one thread.
    """

    def __init__(self) -> None:
        self._silent_until = -math.inf
        self._left_out = 0

    def warn(self, message: str) -> None:
        """Log `message`, or count it for the one that is logged next."""
        now = time.monotonic()
        if now < self._silent_until:
            self._left_out += 1
            return
        left_out = f" ({self._left_out} more such lines were left out)" if self._left_out else ""
        _log.warning("%s%s", message, left_out)
        self._silent_until, self._left_out = now + _COMPLAINT_INTERVAL_S, 0


class _ConnectionSocket(socket.socket):
    """A socket that says when its reader comes for more: when all that was read is dealt with."""

    before_reading: Callable[[], None] | None = None

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if self.before_reading is not None:
            self.before_reading()
        return super().recv(size, flags)


class _Connection(paramiko.Transport):
    """One client's connection, served by a thread of its own until either side ends it."""

    def __init__(
        self,
        accepted: _ConnectionSocket,
        server: SshServer,
        key: paramiko.PKey,
        login_timeout_s: float,
    ) -> None:
        super().__init__(accepted)
        # As shipped, paramiko wakes up ten times a second to look whether it was closed; here
        # `hang_up` shuts the socket down, which wakes it at once.
        accepted.settimeout(_READ_TIMEOUT_S)
        self.deadline = time.monotonic() + login_timeout_s
        self.is_hung_up = False
        self._accepted = accepted
        self.set_log_channel(_TRANSPORT_LOG)
        options = self.get_security_options()
        options.ciphers, options.digests, options.kex = _CIPHERS, _DIGESTS, _KEY_EXCHANGES
        self.add_server_key(key)
        requests = _Requests(self, server)
        accepted.before_reading = requests.start_accepted
        self.start_server(event=threading.Event(), server=requests)

    @property
    def is_stranger(self) -> bool:
        """Return whether it is open, and nobody has logged in on it."""
        return self.is_active() and not self.is_hung_up and not self.is_authenticated()

    def hang_up(self) -> None:
        """Make the connection's thread end soon, whatever its client does; `join` tells when.

        The thread itself closes the socket: a descriptor that is closed under a reader may be
        another's by the time it is read.
        """
        self.is_hung_up = True
        with suppress(OSError):
            self._accepted.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        super().run()
        # Ends the timer thread that paramiko leaves behind when a client goes in mid-handshake.
        self.packetizer.complete_handshake()
        error = self.get_exception()
        if error is not None and not isinstance(error, OSError | EOFError | paramiko.SSHException):
            _log.error("an SSH connection failed by our own fault", exc_info=error)


class _Requests(paramiko.ServerInterface):
    """What one connection's client may ask for; all is called on the connection's thread."""

    def __init__(self, connection: _Connection, server: SshServer) -> None:
        self._connection = connection
        self._server = server
        self._channels: list[paramiko.Channel] = []
        self._used: WeakSet[paramiko.Channel] = WeakSet()
        self._accepted: list[tuple[paramiko.Channel, bytes]] = []

    def start_accepted(self) -> None:
        """Start the commands that were accepted, once their acceptance was sent.

        A command that ended before its client heard that it was accepted would look refused.
        """
        accepted, self._accepted = self._accepted, []
        for channel, command in accepted:
            self._server.run(channel, command)

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002 - paramiko's signature
        return "publickey"

    def check_auth_publickey(
        self,
        username: str,  # noqa: ARG002 - paramiko's signature
        key: paramiko.PKey,
    ) -> int:
        return AUTH_SUCCESSFUL if self._server.admits(key) else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002 - paramiko's signature
        # paramiko keeps each new channel until somebody accepts it.
        while (channel := self._connection.accept(timeout=0)) is not None:
            self._channels.append(channel)
        self._channels = [each for each in self._channels if not each.closed]
        if kind != "session":
            return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        if len(self._channels) >= _MAX_CHANNELS:
            return OPEN_FAILED_RESOURCE_SHORTAGE
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        if channel in self._used:
            return False
        self._used.add(channel)
        self._accepted.append((channel, command))
        return True
