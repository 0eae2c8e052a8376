"""The kernel's word that a log grew, so that nobody polls for it."""

from __future__ import annotations

import ctypes
import os
import selectors
import struct
from typing import Callable

IN_MODIFY = 0x2
EVENT = struct.Struct("iIII")
READ_BYTES = 65_536
Q_OVERFLOW = 0x4000
BATCH_S = 0.01
POLL_S = 0.1


class DirectoryWatch:
    """Watches one directory; `descriptor` is readable when something in it changed."""

    def __init__(self, directory: str) -> None:
        """Raise OSError when the kernel has no watch to spare: the caller polls then."""
        library = ctypes.CDLL(None, use_errno=True)
        self.descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "no inotify")
        if library.inotify_add_watch(self.descriptor, os.fsencode(directory), IN_MODIFY) < 0:
            number = ctypes.get_errno()
            self.close()
            raise OSError(number, "no inotify watch")

    def changed(self) -> set[str] | None:
        """Return the names that changed since the last call, None when events were dropped."""
        names: set[str] = set()
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return names
        position = 0
        while position < len(data):
            _, mask, _, length = EVENT.unpack_from(data, position)
            if mask & Q_OVERFLOW:
                return None
            position += EVENT.size
            names.add(os.fsdecode(data[position : position + length].rstrip(b"\0")))
            position += length
        return names

    def close(self) -> None:
        """Give the watch back."""
        os.close(self.descriptor)


class GrowthListener:
    """Tells which files of a directory grew, in batches: a chatty job wakes nobody for each line.

    `grew` is called with their names, or with None when any may have grown. `due_at` is when `tick`
    wants to be called, None while it waits for the kernel.
    """

    def __init__(
        self,
        directory: str,
        selector: selectors.BaseSelector,
        grew: Callable[[set[str] | None], None],
    ) -> None:
        self._selector = selector
        self._grew = grew
        self.due_at: float | None = 0.0
        try:
            self._watch: DirectoryWatch | None = DirectoryWatch(directory)
        except OSError:
            self._watch = None

    def tick(self, now: float) -> None:
        """Listen again, or look again where there is nothing to listen to."""
        if self.due_at is None or now < self.due_at:
            return
        if self._watch is None:
            self._grew(None)
            self.due_at = now + POLL_S
            return
        self._selector.register(self._watch.descriptor, selectors.EVENT_READ, self._hear)
        self.due_at = None

    def _hear(self, descriptor: int, now: float) -> None:
        if self._watch is not None:
            self._grew(self._watch.changed())
            self._selector.unregister(descriptor)
            self.due_at = now + BATCH_S

    def close(self) -> None:
        """Give back what the kernel lent."""
        if self._watch is not None:
            self._watch.close()
