"""The watch for the cloud's word that it takes this instance back: a command of the driver's.

The command waits as long as there is no such word, so that the word is pushed as soon as the cloud
has said it, and a session that comes later starts it again and hears it again.
"""

from __future__ import annotations

import os
import re
import selectors
from typing import Callable

from longshore.pool.runner import machine
from longshore.pool.runner.launch import end_session
from longshore.pool.runner.spawning import spawn
from longshore.pool.runner.wire import Refusal

MAX_COMMAND_CHARACTERS = 16_384
MAX_ANSWER_BYTES = 1024
RETRY_S = 5.0
TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\dZ", re.ASCII)


def parse_watch(value: object) -> str:
    """Return the command of a hello, "" when it has none; Refusal says what is wrong with it."""
    if value is None:
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_COMMAND_CHARACTERS:
        raise Refusal(
            "invalid", f"interruption_watch must be text of 1 to {MAX_COMMAND_CHARACTERS}"
        )
    if "\0" in value or not value.isascii():
        raise Refusal("invalid", "interruption_watch must be ASCII, without a zero byte")
    return value


class InterruptionWatch:
    """Runs the command of one session until it says when the instance goes."""

    def __init__(
        self,
        command: str,
        environ: dict[str, str],
        selector: selectors.PollSelector,
        found: Callable[[str], None],
    ) -> None:
        """Start nothing yet; `found` gets the time, once. Without a command nothing is watched."""
        self._command = command
        self._environ = environ
        self._selector = selector
        self._found = found
        self._process = 0, 0
        self._pipe = -1
        self._answer = b""
        self._begin_at = 0.0 if command else None

    def tick(self, now: float) -> float | None:
        """Start the command if it is time; return when to be called again, None for not at all."""
        if self._begin_at is not None and now >= self._begin_at:
            self._begin_at = None
            try:
                self._begin()
            except OSError:
                # The machine is short of something; heartbeats tell of that.
                self._begin_at = now + RETRY_S
        return self._begin_at

    def close(self) -> None:
        """End the command, and all that it has started in its session."""
        pid, ticks = self._process
        if pid:
            end_session(pid, ticks)
        self._process = 0, 0
        if self._pipe >= 0:
            self._selector.unregister(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def _begin(self) -> None:
        reading, writing = os.pipe()
        env = {os.fsencode(key): os.fsencode(value) for key, value in self._environ.items()}
        env.setdefault(b"PATH", machine.SYSTEM_PATH.encode())
        try:
            pid = spawn([b"sh", b"-c", self._command.encode()], env, {1: writing})
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._process = pid, machine.start_ticks(pid)
        self._pipe = reading
        self._answer = b""
        self._selector.register(reading, selectors.EVENT_READ, self._read)

    def _read(self, pipe: int, now: float) -> None:
        try:
            data = os.read(pipe, MAX_ANSWER_BYTES)
        except BlockingIOError:
            return
        self._answer += data
        line, ended, _ = self._answer.partition(b"\n")
        if data and not ended and len(self._answer) <= MAX_ANSWER_BYTES:
            return
        self.close()
        text = line.decode("utf-8", "replace").strip()
        if TIME.fullmatch(text):
            self._found(text)
        else:
            self._begin_at = now + RETRY_S
