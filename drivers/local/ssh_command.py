"""One command that an SSH client runs here: its process, and the bytes that go either way."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

import paramiko

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 64 * 1024
_GRACE_S = 1.0
_CANNOT_START = 127
_GONE = (OSError, EOFError, paramiko.SSHException)
"""What sending on a channel raises once the client, or its connection, is gone."""


class Wake:
    """Something to poll beside other descriptors, which another thread makes readable for good."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """Return the descriptor to poll for reading."""
        return self._descriptor

    def set(self) -> None:
        """Make it readable; it stays so. Not to be called after `close`."""
        os.eventfd_write(self._descriptor, 1)

    def close(self) -> None:
        """Give the descriptor back; nobody may poll it any more."""
        os.close(self._descriptor)


class SshCommand:
    """A command of one exec request, as a real subprocess in its own session.

    As with a real sshd, its exit status is sent the moment it ends, and the channel stays open
    until nobody holds its outputs any more. One that a signal ended has no exit status: a paramiko
    client reports -1, as it does for the `exit-signal` of a real sshd. When the client vanishes,
    the process gets the end of its stdin, then SIGTERM, then SIGKILL, each with its group, a
    second apart; what it detached into a session of its own goes on.
    """

    def __init__(
        self,
        channel: paramiko.Channel,
        command: bytes,
        *,
        environment: Mapping[str, str],
        directory: Path,
    ) -> None:
        self._channel = channel
        self._command = command
        self._environment = environment
        self._directory = directory
        self._thread = threading.Thread(target=self._run, name="ssh-command", daemon=True)

    def start(self) -> None:
        """Start it, on a thread of its own that ends once the process has ended."""
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Return whether nothing of it is left: no process, no thread."""
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Wait until nothing of it is left, at most `timeout_s`, and return whether that is so."""
        self._thread.join(timeout_s)
        return self.ended

    def _run(self) -> None:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self._command],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                cwd=self._directory,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._refuse(error)
            return
        with process:
            exit_descriptor = os.pidfd_open(process.pid)
            try:
                self._serve(process, exit_descriptor)
            finally:
                os.close(exit_descriptor)

    def _refuse(self, error: Exception) -> None:
        with suppress(*_GONE):
            self._channel.sendall_stderr(f"cannot start: {error}\n".encode())
            self._channel.send_exit_status(_CANNOT_START)
        self._close_channel()

    def _serve(self, process: subprocess.Popen[bytes], exit_descriptor: int) -> None:
        streams = [s for s in (process.stdin, process.stdout, process.stderr) if s is not None]
        stdin, stdout, stderr = streams
        wake = Wake()
        pumps = [
            threading.Thread(target=target, args=arguments, name=name, daemon=True)
            for name, target, arguments in (
                ("ssh-stdin", self._feed, (stdin, wake)),
                ("ssh-output", self._drain, (process.pid, stdout, stderr, exit_descriptor, wake)),
            )
        ]
        for pump in pumps:
            pump.start()
        try:
            self._await_close()
        finally:
            wake.set()
            for pump in pumps:
                pump.join()
            wake.close()
            for stream in streams:
                stream.close()
            _end(process, exit_descriptor)

    def _await_close(self) -> None:
        # The event is also set by an exit status that a strange client sends; `closed` is final.
        event = self._channel.status_event
        while not self._channel.closed:
            event.wait()
            event.clear()

    def _feed(self, stdin: IO[bytes], wake: Wake) -> None:
        os.set_blocking(stdin.fileno(), False)
        wanted = True
        while data := self._channel.recv(_CHUNK_BYTES):
            # What nobody reads is dropped, so that the client's window goes on opening.
            wanted = wanted and _write_all(stdin.fileno(), data, wake)
        stdin.close()

    def _drain(
        self, pid: int, stdout: IO[bytes], stderr: IO[bytes], exit_descriptor: int, wake: Wake
    ) -> None:
        steps: dict[int, Callable[[], bool]] = {
            stdout.fileno(): partial(_forward, stdout.fileno(), self._channel.sendall),
            stderr.fileno(): partial(_forward, stderr.fileno(), self._channel.sendall_stderr),
            exit_descriptor: partial(self._tell_exit, pid),
        }
        poll = select.poll()
        for descriptor in (*steps, wake.fileno()):
            poll.register(descriptor, select.POLLIN)
        try:
            while steps:
                ready = sorted(descriptor for descriptor, _ in poll.poll())
                if wake.fileno() in ready:
                    return
                for descriptor in ready:
                    if not steps[descriptor]():
                        poll.unregister(descriptor)
                        del steps[descriptor]
        except _GONE:
            _log.debug("the client went before its command had told all", exc_info=True)
        self._close_channel()

    def _tell_exit(self, pid: int) -> bool:
        # Looked at, not reaped: its id stays taken as long as its group may be signalled.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if ended is not None and ended.si_code == os.CLD_EXITED:
            self._channel.send_exit_status(ended.si_status)
        return False

    def _close_channel(self) -> None:
        with suppress(*_GONE):
            self._channel.close()


def _forward(descriptor: int, send: Callable[[bytes], object]) -> bool:
    """Pass on what a pipe holds, and return whether there may be more."""
    data = os.read(descriptor, _CHUNK_BYTES)
    if data:
        send(data)
    return bool(data)


def _write_all(descriptor: int, data: bytes, wake: Wake) -> bool:
    """Write all of `data` to a non-blocking pipe; False when its reader or the client is gone."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.register(wake.fileno(), select.POLLIN)
    rest = memoryview(data)
    while rest:
        if wake.fileno() in dict(poll.poll()):
            return False
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            continue
        except BrokenPipeError:
            return False
    return True


def _end(process: subprocess.Popen[bytes], exit_descriptor: int) -> None:
    """End a process whose streams are closed, and reap it."""
    poll = select.poll()
    poll.register(exit_descriptor, select.POLLIN)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if poll.poll(_GRACE_S * 1000):
            break
        # Not reaped yet, so the id is still that of our own child and of its group.
        os.killpg(process.pid, number)
    process.wait()
