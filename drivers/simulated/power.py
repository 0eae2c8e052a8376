"""How what runs on a simulated instance tells its cloud that it powers itself off.

Stands alone: it is what the instance's own programs speak with, whatever the cloud around it is.
"""

from __future__ import annotations

import os
import select
import shlex
import threading
from collections.abc import Callable
from pathlib import Path

from longshore.drivers.local.ssh_command import Wake

_READ_BYTES = 4096


class PowerLine:
    """A FIFO into which the id of an instance is written that shall end, a line each.

    `power_off` is called with each, on a thread of its own. What is written while nobody reads any
    more is lost, and nobody who writes is ever blocked.
    """

    def __init__(self, path: Path, power_off: Callable[[str], None]) -> None:
        self._path = path
        self._power_off = power_off
        os.mkfifo(path, 0o600)
        # Opened for both directions, so that it never ends.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake = Wake()
        self._thread = threading.Thread(target=self._listen, name="simulated-power", daemon=True)
        self._thread.start()

    def command(self, instance_id: str) -> str:
        """Return shell that powers an instance off; `instance_id` is a word of shell."""
        # For both directions: to open it for writing alone waits for a reader, perhaps for ever.
        return f"echo {instance_id} 1<>{shlex.quote(str(self._path))}"

    def close(self) -> None:
        """Stop listening, and remove the FIFO."""
        self._wake.set()
        self._thread.join()
        self._wake.close()
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        poll.register(self._wake.fileno(), select.POLLIN)
        rest = b""
        while self._wake.fileno() not in dict(poll.poll()):
            *lines, rest = (rest + os.read(self._descriptor, _READ_BYTES)).split(b"\n")
            rest = rest[-_READ_BYTES:]
            for line in lines:
                self._power_off(line.decode(errors="replace").strip())
