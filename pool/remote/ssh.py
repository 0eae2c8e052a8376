"""SSH connections to instances: with `ssh_channel` and `ssh_transport`, all that knows paramiko.

Paramiko is tuned and fenced in here. Nagle's algorithm is off. Once logged in, its socket times
out every 30 s instead of every 0.1 s, so that a thousand idle connections cost nothing; a close
therefore shuts the socket down first, or the thread would linger that long. Several of its calls
know no deadline (`exec_command`, waiting for an exit status, any send to a frozen peer), so each
runs under an alarm of the watchdog, which shuts the socket down. Its keepalives are not used: they
fire only when a read times out, and sessions have heartbeats.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

import paramiko

from longshore.drivers.errors import CommandFailed, HostKeyMismatch, Unreachable
from longshore.drivers.interface import HostKeyVerdict
from longshore.pool.remote import ssh_channel
from longshore.pool.remote.ssh_channel import FAILURES, SshChannel, converse
from longshore.pool.remote.ssh_keys import PrivateKey
from longshore.pool.remote.ssh_transport import BoundedTransport
from longshore.pool.remote.ssh_watchdog import WATCHDOG, small_stack

_KEY_EXCHANGES: Final = (
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group14-sha256",
)
_HOST_KEY_TYPES: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_CIPHERS: Final = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
_MACS: Final = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
)
_IDLE_WAKE_S: Final = 30.0
_SLOT_WAIT_S: Final = 60.0
_CLOSE_GRACE_S: Final = 1.0
_JOIN_S: Final = 5.0
_REFUSAL_GRACE_S: Final = 2.0
"""For how long a channel is asked for again: a server that takes few counts one that we have closed
until it has tidied up (`MaxSessions 1`)."""
_REFUSAL_PAUSE_S: Final = 0.02

# Whatever paramiko has to say reaches the caller as an error of ours; its own lines would tell it
# a second time, with tracebacks.
_SILENT_LOG: Final = "longshore.paramiko"
logging.getLogger(_SILENT_LOG).addHandler(logging.NullHandler())
logging.getLogger(_SILENT_LOG).propagate = False

Verify = Callable[[str], HostKeyVerdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command that ran to its end left: its exit status, and all that it wrote."""

    exit_status: int
    stdout: bytes
    stderr: bytes


class SshConnection:
    """One connection to one instance, logged in; every method may be called from any thread."""

    def __init__(self, address: str, connected: socket.socket) -> None:
        """Take over a socket that is connected; use `connect` instead."""
        self.address = address
        self.host_key = ""
        self.proven = False
        self.is_full = False
        self._socket = connected
        self._closed = threading.Lock()
        self._transport = BoundedTransport(connected)
        self._transport.set_log_channel(_SILENT_LOG)
        WATCHDOG.enlist()

    @classmethod
    def connect(
        cls,
        address: str,
        *,
        user: str,
        private_key: PrivateKey,
        expected_host_key: str,
        deadline_s: float,
        verify: Verify | None = None,
        handshakes: threading.Semaphore | None = None,
    ) -> Self:
        """Connect to `address` ("host:port"), check its host key, and log in as `user`.

        The key is judged before we log in: by `verify` (the driver's word), and when that is not
        given or says UNKNOWN by `expected_host_key` ("TYPE BASE64"). When that is "", the
        connection has `proven` False and its `host_key` must be proven before anything else is
        sent. `deadline_s` bounds each of reaching the host, exchanging keys, and logging in; the
        wait for a place among `handshakes` comes on top, as does `verify`.

        Raises `Unreachable`, or `HostKeyMismatch` when the key is proven to be wrong.
        """
        connection = cls(address, _dial(address, deadline_s))
        try:
            connection._exchange_keys(expected_host_key, deadline_s, handshakes)
            connection._judge(expected_host_key, verify)
            connection._log_in(user, private_key, deadline_s)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def alive(self) -> bool:
        """Return whether the connection is open as far as this side knows."""
        return self._transport.is_active()

    def run(
        self,
        command: str,
        *,
        stdin: bytes = b"",
        deadline_s: float,
        output_limit_bytes: int = 64 * 1024,
    ) -> CommandResult:
        """Run a command to its end and return what it left; any exit status is a result.

        Raises `Unreachable` when it is not done within `deadline_s` or the connection breaks, and
        `CommandFailed` when it writes more than `output_limit_bytes` or ends without a status
        (killed by a signal). A command that is given up is hung up on, not killed.
        """
        deadline = time.monotonic() + deadline_s
        raw = self._open(command, deadline)
        with WATCHDOG.alarm(deadline + _CLOSE_GRACE_S, self._cut_again):
            try:
                output, channel = converse(raw, stdin, deadline, output_limit_bytes)
                raw.status_event.wait(max(0.0, deadline - time.monotonic()))
                if not raw.status_event.is_set():
                    raise Unreachable(f"{self.address}: no exit status within {deadline_s:g} s")
            except TimeoutError as error:
                raise Unreachable(f"{self.address}: not done in {deadline_s:g} s") from error
            except FAILURES as error:
                raise Unreachable(f"{self.address}: {ssh_channel.say(error)}") from error
            finally:
                with suppress(*FAILURES):
                    raw.close()
        if raw.exit_status == -1:
            if self._transport.ended:
                what = self._transport.fault or "the connection ended while a command ran"
                raise Unreachable(f"{self.address}: {what}")
            raise CommandFailed("ended without a status", exit_status=-1)
        return CommandResult(exit_status=raw.exit_status, stdout=output, stderr=channel.stderr_tail)

    def open_channel(self, command: str, *, deadline_s: float) -> SshChannel:
        """Start a command and return its channel; it ends with the connection.

        Raises `Unreachable` when the far side has not agreed within `deadline_s`.
        """
        return SshChannel(self._open(command, time.monotonic() + deadline_s))

    def cut(self) -> None:
        """Shut the socket down, which ends all calls that block on it; never blocks itself."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection, every channel of it and its thread; twice is no error."""
        self.cut()
        if not self._closed.acquire(blocking=False):
            return
        # Otherwise its timer would live on for as long as a handshake may take.
        self._transport.packetizer.complete_handshake()
        if self._transport.ident is not None:
            self._transport.join(_JOIN_S)
        self._transport.close()
        self._socket.close()
        WATCHDOG.leave()

    def _cut_again(self) -> float:
        self.cut()
        return time.monotonic() + _CLOSE_GRACE_S

    def _exchange_keys(
        self, expected: str, deadline_s: float, handshakes: threading.Semaphore | None
    ) -> None:
        if handshakes is not None and not handshakes.acquire(timeout=_SLOT_WAIT_S):
            raise Unreachable(f"{self.address}: too many handshakes at once")
        try:
            self._prefer(expected.partition(" ")[0])
            done = threading.Event()
            self._transport.banner_timeout = deadline_s
            self._transport.handshake_timeout = deadline_s
            self._transport.auth_timeout = deadline_s
            with small_stack():
                self._transport.start_client(event=done)
            if not done.wait(deadline_s):
                raise Unreachable(f"{self.address}: no key exchange within {deadline_s:g} s")
            if not self._transport.is_active():
                raise Unreachable(f"{self.address}: {self._why_it_ended()}")
            key = self._transport.get_remote_server_key()
        except paramiko.SSHException as error:
            raise Unreachable(
                f"{self.address}: {self._transport.fault or ssh_channel.say(error)}"
            ) from error
        finally:
            if handshakes is not None:
                handshakes.release()
        self.host_key = f"{key.get_name()} {key.get_base64()}"

    def _why_it_ended(self) -> str:
        return self._transport.fault or ssh_channel.say(self._transport.get_exception())

    def _prefer(self, key_type: str) -> None:
        """Offer strong algorithms only, and the type of the expected key before other types."""
        options = self._transport.get_security_options()
        options.kex = _KEY_EXCHANGES
        options.ciphers = _CIPHERS
        options.digests = _MACS
        wanted = [name for name in _HOST_KEY_TYPES if _is_of_type(name, key_type)]
        others = [name for name in _HOST_KEY_TYPES if not _is_of_type(name, key_type)]
        options.key_types = (*wanted, *others)

    def _judge(self, expected: str, verify: Verify | None) -> None:
        verdict = HostKeyVerdict.UNKNOWN if verify is None else verify(self.host_key)
        if verdict is HostKeyVerdict.WRONG:
            raise HostKeyMismatch(f"{self.address}: the cloud says that its host key is wrong")
        if verdict is HostKeyVerdict.UNKNOWN and expected and self.host_key != expected:
            raise HostKeyMismatch(f"{self.address}: its host key is not the one that was proven")
        self.proven = verdict is HostKeyVerdict.GENUINE or bool(expected)

    def _log_in(self, user: str, private_key: PrivateKey, deadline_s: float) -> None:
        key = _paramiko_key(private_key)
        done = threading.Event()
        try:
            with WATCHDOG.alarm(time.monotonic() + deadline_s, self._cut_again):
                self._transport.auth_publickey(user, key, done)
                in_time = done.wait(deadline_s)
        except FAILURES as error:
            raise Unreachable(f"{self.address}: {ssh_channel.say(error)}") from error
        if not in_time:
            raise Unreachable(f"{self.address}: no answer to our login within {deadline_s:g} s")
        if self._transport.fault:
            raise Unreachable(f"{self.address}: {self._transport.fault}")
        if not self._transport.is_authenticated():
            raise Unreachable(f"{self.address}: refuses our key for user {user!r}")
        self._socket.settimeout(_IDLE_WAKE_S)

    def _open(self, command: str, deadline: float) -> paramiko.Channel:
        """Open a channel; `is_full` tells later whether the server took no further one."""
        until = min(deadline, time.monotonic() + _REFUSAL_GRACE_S)
        while True:
            try:
                return self._open_once(command, deadline)
            except paramiko.ChannelException as error:
                if time.monotonic() >= until:
                    self.is_full = True
                    raise Unreachable(f"{self.address}: refuses a channel: {error.text}") from error
            time.sleep(_REFUSAL_PAUSE_S)

    def _open_once(self, command: str, deadline: float) -> paramiko.Channel:
        opened: list[paramiko.Channel] = []

        def give_up() -> float:
            again = self._cut_again()
            # Should the transport have died just before the call began, nobody else would wake it.
            for channel in opened:
                channel.event.set()
            return again

        try:
            with WATCHDOG.alarm(deadline, give_up):
                channel = self._transport.open_session(timeout=deadline - time.monotonic())
                opened.append(channel)
                channel.exec_command(command)
        except paramiko.ChannelException:
            raise
        except FAILURES as error:
            # A server that does not even agree to run a command in time will not get better.
            self.cut()
            raise Unreachable(
                f"{self.address}: {self._transport.fault or ssh_channel.say(error)}"
            ) from error
        return channel


def _paramiko_key(private_key: PrivateKey) -> paramiko.PKey:
    text = io.StringIO(private_key.openssh_text)
    match private_key.key_type:
        case "ssh-ed25519":
            return paramiko.Ed25519Key.from_private_key(text)
        case "ssh-rsa":
            return paramiko.RSAKey.from_private_key(text)
        case _:
            return paramiko.ECDSAKey.from_private_key(text)


def _dial(address: str, deadline_s: float) -> socket.socket:
    """Return a connected socket on which the far side has begun to talk.

    Waiting for the first byte here keeps a dead host out of the limited handshakes.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise Unreachable(f"{address!r} is no address: host:port is wanted")
    deadline = time.monotonic() + deadline_s
    try:
        connected = socket.create_connection((host.strip("[]"), int(port)), timeout=deadline_s)
    except OSError as error:
        raise Unreachable(f"{address}: {ssh_channel.say(error)}") from error
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(max(0.001, deadline - time.monotonic()))
        first = connected.recv(1, socket.MSG_PEEK)
    except OSError as error:
        connected.close()
        raise Unreachable(f"{address}: {ssh_channel.say(error)}") from error
    if not first:
        connected.close()
        raise Unreachable(f"{address}: hung up at once")
    return connected


def _is_of_type(algorithm: str, key_type: str) -> bool:
    return algorithm == key_type or (key_type == "ssh-rsa" and algorithm.startswith("rsa-sha2"))
