"""What processes take of GPUs, as `nvidia-smi pmon` says: their memory, and how busy they keep it.

It takes a second or more, and a driver in trouble may let it hang for ever. So it is spawned, one
at a time, and its output is read when it is there: nobody waits for it. The kernel buries it, as it
does with all that the collector spawns. Without the program there is nothing to tell.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from longshore.pool.runner.spawning import spawn

INTERVAL_S = 10.0
FIRST_S = 0.5  # after the first attempt: its program needs a moment until it is on a GPU
TIMEOUT_S = b"20"
MOST_BYTES = 1 << 20
MIB = 1 << 20
SCRIPT = b'exec timeout -s KILL "$2" "$1" pmon -c 1 -s um'


class GpuUse(NamedTuple):
    """What one process takes of one GPU; None for what is not told."""

    pid: int
    memory_bytes: int | None
    utilization: float | None


def parse_pmon(text: str) -> list[GpuUse]:
    """Return what `nvidia-smi pmon -s um` says; its first line names the columns."""
    columns: list[str] = []
    found = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["#"]:
            columns = columns or words[1:]
            continue
        cells = dict(zip(columns, words))
        pid = _number(cells.get("pid", ""))
        if pid is not None:
            memory_mib, busy = _number(cells.get("fb", "")), _number(cells.get("sm", ""))
            found.append(
                GpuUse(
                    pid,
                    None if memory_mib is None else memory_mib * MIB,
                    None if busy is None else min(1.0, busy / 100),
                )
            )
    return found


def _number(word: str) -> int | None:
    return int(word) if word.isdecimal() else None


class GpuWatch:
    """Asks `program` again and again; with "" there is none, and nothing to tell."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._due_at: float | None = None
        self._answer = -1
        self._said = b""

    def tick(self, now: float) -> list[GpuUse]:
        """Return what is new, mostly nothing; asks when it is time. OSError if it cannot."""
        if not self._program:
            return []
        if self._due_at is None:
            self._due_at = now + FIRST_S
        if self._answer >= 0:
            return self._read()
        if now >= self._due_at:
            self._due_at = now + INTERVAL_S
            self._ask()
        return []

    def rest(self) -> None:
        """Ask no more until the next `tick`: nothing runs."""
        self._due_at = None

    def _ask(self) -> None:
        self._answer, telling = os.pipe()
        try:
            os.set_blocking(self._answer, False)
            words = [b"sh", b"-c", SCRIPT, b"sh", os.fsencode(self._program), TIMEOUT_S]
            spawn(words, dict(os.environb), {1: telling})
        except OSError:
            self._forget()
            raise
        finally:
            os.close(telling)

    def _read(self) -> list[GpuUse]:
        """Return what was said once all of it is there, which is when it has ended."""
        try:
            while True:
                piece = os.read(self._answer, MOST_BYTES)
                self._said = (self._said + piece)[:MOST_BYTES]
                if not piece:
                    break
        except BlockingIOError:
            return []
        said = self._forget()
        return parse_pmon(said.decode("utf-8", "replace"))

    def _forget(self) -> bytes:
        said, self._said = self._said, b""
        os.close(self._answer)
        self._answer = -1
        return said
