"""A command on the far side as a stream: what both a short command and a session are made of.

Both streams are read by one thread, since a standard error that nobody drains fills the window
that it shares with standard output.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Final

import paramiko

from longshore.drivers.errors import BugError, CommandFailed, Unreachable
from longshore.pool.remote.ssh_transport import BoundedTransport

_SEND_SLICE_S: Final = 0.1
_READ_BYTES: Final = 512 * 1024
_SEND_BYTES: Final = 32 * 1024
_STDERR_KEPT_BYTES: Final = 16 * 1024
_MOST_HELD_BYTES: Final = 16 * 1024 * 1024  # eight windows

FAILURES: Final = (OSError, EOFError, paramiko.SSHException)
"""Everything that paramiko raises when a connection breaks."""


class _Wakeup(threading.Event):
    """An event shared by both streams of a channel.

    Paramiko clears it when either stream has been read empty, and would so lose the other's news;
    here only the reader clears it, before it looks at both.
    """

    def __init__(self, raw: paramiko.Channel) -> None:
        super().__init__()
        self._raw = raw

    def set(self) -> None:
        """Wake the reader; cut a far end that sends beyond the window that it was given.

        Paramiko counts the window but holds nobody to it: a far end that ignores it would fill our
        memory. Called by the transport's thread, before it puts more into a buffer.
        """
        super().set()
        held = 0
        for pipe in (self._raw.in_buffer, self._raw.in_stderr_buffer):
            held += len(pipe._buffer)  # type: ignore[attr-defined]  # len(pipe) takes a lock we hold
        if held > _MOST_HELD_BYTES:
            with contextlib.suppress(OSError):  # it is cut already
                _transport(self._raw).hang_up("it sends more output than it was given room for")

    def clear(self) -> None:
        """Do nothing: see `rearm`."""

    def rearm(self) -> None:
        """Clear the event; call it before looking for what there is to read."""
        super().clear()


class SshChannel:
    """One command that runs on the far side; one thread may read while another writes."""

    def __init__(self, raw: paramiko.Channel) -> None:
        self._raw = raw
        self._wakeup = _Wakeup(raw)
        self._stderr = bytearray()
        self.stderr_bytes = 0
        raw.in_buffer.set_event(self._wakeup)
        raw.in_stderr_buffer.set_event(self._wakeup)

    def read(self, timeout_s: float | None) -> bytes | None:
        """Return what has come on standard output, waiting up to `timeout_s` (None: for ever).

        Returns b"" at the end of the stream, and None when nothing came in time or `wake` was
        called. Standard error is drained on the way. Raises `Unreachable` when the connection
        breaks.
        """
        if not self._has_news():
            self._wakeup.wait(timeout_s)
        self._wakeup.rearm()
        try:
            # In this order: what comes after the first look is found by the next.
            ended = bool(self._raw.eof_received or self._raw.closed)
            self._drain_stderr()
            if self._raw.in_buffer.read_ready():
                return self._raw.recv(_READ_BYTES)
        except FAILURES as error:
            raise Unreachable(f"the connection broke: {say(error)}") from error
        fault = _transport(self._raw).fault if ended else ""
        if fault:
            raise Unreachable(f"the connection was cut: {fault}")
        return b"" if ended else None

    def wake(self) -> None:
        """Make a `read` that waits return None; may be called from any thread."""
        self._wakeup.set()

    def write(self, data: bytes) -> None:
        """Send all of `data`, blocking as long as it takes; raises `Unreachable` when it cannot.

        A frozen peer holds this call until the connection is cut by another thread.
        """
        self._raw.settimeout(None)
        try:
            for start in range(0, len(data), _SEND_BYTES):
                self._send_all(data[start : start + _SEND_BYTES])
        except FAILURES as error:
            raise Unreachable(f"the connection broke: {say(error)}") from error

    @property
    def stderr_tail(self) -> bytes:
        """Return a copy of the last 16 KiB that came on standard error."""
        return bytes(self._stderr)

    def _send_all(self, data: bytes) -> None:
        while data:
            sent = self._raw.send(data)
            if sent == 0:
                raise EOFError
            data = data[sent:]

    def _has_news(self) -> bool:
        raw = self._raw
        return bool(
            raw.in_buffer.read_ready()
            or raw.in_stderr_buffer.read_ready()
            or raw.eof_received
            or raw.closed
        )

    def _drain_stderr(self) -> None:
        while self._raw.in_stderr_buffer.read_ready():
            data = self._raw.recv_stderr(_READ_BYTES)
            self.stderr_bytes += len(data)
            self._stderr += data
            del self._stderr[:-_STDERR_KEPT_BYTES]


def _transport(raw: paramiko.Channel) -> BoundedTransport:
    transport = raw.get_transport()
    if not isinstance(transport, BoundedTransport):
        raise BugError("a channel that no SshConnection has opened")
    return transport


def converse(
    raw: paramiko.Channel, stdin: bytes, deadline: float, limit_bytes: int
) -> tuple[bytes, SshChannel]:
    """Send `stdin` and read both streams to their end, turn by turn, since either may fill up."""
    channel = SshChannel(raw)
    output = bytearray()
    raw.settimeout(_SEND_SLICE_S)
    unsent = memoryview(stdin)
    open_for_writing = True
    while True:
        if open_for_writing:
            unsent, open_for_writing = _send_some(raw, unsent)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        data = channel.read(0.0 if open_for_writing else remaining)
        if data == b"":
            return bytes(output), channel
        output += data or b""
        if len(output) + channel.stderr_bytes > limit_bytes:
            raise CommandFailed(f"wrote more than {limit_bytes} bytes", exit_status=-1)


def _send_some(raw: paramiko.Channel, unsent: memoryview) -> tuple[memoryview, bool]:
    """Send a part, and end the stream after the last; return what is left and whether it is open.

    A command may end without having read its input, which is no error.
    """
    try:
        if unsent:
            unsent = unsent[raw.send(bytes(unsent[:_SEND_BYTES])) :]
        if not unsent:
            raw.shutdown_write()
    except TimeoutError:
        return unsent, True
    except OSError:
        return unsent, False
    return unsent, bool(unsent)


def say(error: BaseException | None) -> str:
    """Return an error as words; paramiko's and the system's are often empty."""
    return str(error) or type(error).__name__ if error is not None else "the connection ended"
