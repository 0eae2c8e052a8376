"""How a simulated instance hears that its cloud takes it back.

Stands alone: it is what the instance's own programs speak with, whatever the cloud around it is.
"""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

from longshore.drivers.local.machine import write_atomically
from longshore.drivers.local.processes import INSTANCE_VARIABLE

_WAIT_FILE = "taken-back"
_TIME_FILE = "taken-back-at"


class NoticeBoard:
    """Where an instance waits for its notice: a FIFO that ends with it, and a file that has it.

    All who wait are woken at once, without looking again and again, and who comes later finds the
    file. `directory` is the instance's.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        fifo = directory / _WAIT_FILE
        os.mkfifo(fifo, 0o600)
        # For both directions: nobody reads yet. Readers wait as long as this is open.
        self._descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def give(self, at: str) -> None:
        """Tell all who wait, now or later, that the instance goes at `at`; without effect twice."""
        if self._descriptor >= 0:
            write_atomically(self._directory / _TIME_FILE, f"{at}\n".encode())
            # Removed before its end: whoever opened it by now is woken, and nobody comes after.
            (self._directory / _WAIT_FILE).unlink(missing_ok=True)
            self.close()

    def close(self) -> None:
        """Let nobody wait any more; twice is no error."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def watch_command(instances: Path) -> str:
    """Return shell that waits on an instance, whose directory is in `instances`, for its notice."""
    directory = f'{shlex.quote(str(instances))}/"${INSTANCE_VARIABLE}"'
    # What the FIFO cannot be opened for, or ends with, is told by the file being there or not.
    wait = f"read -r gone <{_WAIT_FILE}; exec cat {_TIME_FILE}"
    return f"{{ cd {directory} && {{ {wait}; }}; }} 2>/dev/null"


def moment_in(seconds: float) -> str:
    """Return the time in so many seconds, in UTC, as "2026-01-31T23:59:59Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
