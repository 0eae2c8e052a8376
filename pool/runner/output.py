"""What goes out: lines that wait for a reader without ever making the session wait."""

from __future__ import annotations

import os
from typing import Any

from longshore.pool.runner import wire

PACE_BYTES = 524_288
MAX_WAITING_BYTES = 33_554_432


class Output:
    """Lines for a descriptor that may not take them now."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._waiting = bytearray()
        os.set_blocking(descriptor, False)

    @property
    def waiting(self) -> bool:
        """Return whether anything is still to be written."""
        return bool(self._waiting)

    @property
    def paced(self) -> bool:
        """Return whether what can wait (log, heartbeats) should, since the reader is behind."""
        return len(self._waiting) >= PACE_BYTES

    def push(self, message: dict[str, Any]) -> None:
        """Queue a message; ProtocolError when the other side asks and asks but never reads."""
        self._waiting += wire.encode(message)
        if len(self._waiting) > MAX_WAITING_BYTES:
            raise wire.ProtocolError("the other side does not read its replies")

    def flush(self) -> None:
        """Write what is taken at once; an OSError means that nobody reads any more."""
        while self._waiting:
            try:
                written = os.write(self.descriptor, self._waiting[:PACE_BYTES])
            except BlockingIOError:
                return
            del self._waiting[:written]
