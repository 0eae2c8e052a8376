"""Threads with a small stack: a thousand sessions must not take ten gigabytes of address space."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STACK_BYTES = 256 * 1024
_changing = threading.Lock()


@contextmanager
def small_stack() -> Iterator[None]:
    """Give the threads that are started in this block a stack of 256 KiB.

    The size is a setting of the process, so a thread that others start meanwhile may get it too;
    it is put back at the end of the block, which should start threads and do nothing else.
    """
    with _changing:
        before = threading.stack_size(_STACK_BYTES)
        try:
            yield
        finally:
            threading.stack_size(before)
