"""One thread that ends what blocks for ever: calls of paramiko that know no deadline of their own.

The thread exists while somebody `enlist`s, and is joined when the last one has left.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

# --------------------------------------------------------------------------------------------------
# Threads with a small stack: a thousand sessions must not take ten gigabytes of address space.

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


# --------------------------------------------------------------------------------------------------

Action = Callable[[], float | None]
_SPARE_ENTRIES = 64

_log = structlog.get_logger(__name__)


class Alarm:
    """An action that is due at a time; made by `Watchdog.arm`."""

    __slots__ = ("action", "armed")

    def __init__(self, action: Action) -> None:
        self.action = action
        self.armed = True


class Watchdog:
    """Calls actions at their times, from its own thread; every method may be called from any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._armed = 0
        self._members = 0
        self._thread: threading.Thread | None = None

    def enlist(self) -> None:
        """Keep the thread alive until `leave`; needed before `arm`.

        Raises `RuntimeError`, and changes nothing, when the process can have no more threads.
        """
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="ssh-watchdog", daemon=True)
                with small_stack():
                    thread.start()
                self._thread = thread
            self._members += 1

    def leave(self) -> None:
        """Undo one `enlist`; the last one to leave waits for the end of the thread."""
        with self._changed:
            self._members -= 1
            if self._members:
                return
            ended, self._thread = self._thread, None
            self._due.clear()
            self._changed.notify_all()
        if ended is not None:
            ended.join()

    def arm(self, at: float, action: Action) -> Alarm:
        """Have `action` called at `at` (of `time.monotonic`), and again at the time it returns.

        It must not block, and is done with when it returns None, or raises, which is logged.
        """
        alarm = Alarm(action)
        with self._changed:
            self._armed += 1
            self._push(at, alarm)
        return alarm

    def disarm(self, alarm: Alarm) -> None:
        """Let an alarm be; an action that runs at this moment still ends."""
        with self._changed:
            if alarm.armed:
                alarm.armed = False
                self._armed -= 1
                # It stays in the heap for a while, and shall not keep a whole connection there.
                alarm.action = _nothing
            if len(self._due) > 2 * self._armed + _SPARE_ENTRIES:
                self._due = [entry for entry in self._due if entry[2].armed]
                heapq.heapify(self._due)

    @contextmanager
    def alarm(self, at: float, action: Action) -> Iterator[None]:
        """Arm an alarm for the length of a `with` block."""
        alarm = self.arm(at, action)
        try:
            yield
        finally:
            self.disarm(alarm)

    def _push(self, at: float, alarm: Alarm) -> None:
        heapq.heappush(self._due, (at, next(self._order), alarm))
        if self._due[0][2] is alarm:
            self._changed.notify_all()

    def _watch(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                if self._thread is not me:
                    return
                alarm = self._next_alarm()
                if self._thread is not me:
                    return
            if alarm is None:
                continue
            again = _act(alarm)
            if again is not None:
                with self._changed:
                    if alarm.armed and self._thread is me:
                        self._push(again, alarm)

    def _next_alarm(self) -> Alarm | None:
        """Return the alarm that is due, waiting for one; None when it is time to look again."""
        while self._due and not self._due[0][2].armed:
            heapq.heappop(self._due)
        if not self._due:
            self._changed.wait()
            return None
        wait_s = self._due[0][0] - time.monotonic()
        if wait_s > 0:
            self._changed.wait(wait_s)
            return None
        return heapq.heappop(self._due)[2]


def _nothing() -> None:
    """Do what an alarm does that nobody needs any more."""


def _act(alarm: Alarm) -> float | None:
    try:
        return alarm.action()
    except Exception:  # noqa: BLE001 - the deadlines of all others hang on this thread
        _log.exception("an action of the watchdog failed")
        return None


WATCHDOG = Watchdog()
