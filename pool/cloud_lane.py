"""Threads for one kind of driver calls; a call that still waits for one can be taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Lane:
    """Carries calls out, so many at once, first come first served; usable from any thread.

    A call that hangs keeps its place for as long as it does.
    """

    def __init__(self, name: str, places: int) -> None:
        self.places = places
        self._threads = ThreadPoolExecutor(places, thread_name_prefix=name)
        # Not the executor's own queue: that keeps what was cancelled until a thread comes by.
        self._waiting: dict[Future[Any], Callable[[], None]] = {}
        self._taken = 0
        self._closed = False
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """Return at how many of the places there is a call."""
        return self._taken

    def submit(self, call: Callable[[], _Result]) -> Future[_Result]:
        """Have a call carried out as soon as there is a place; raises `RuntimeError` if closed."""
        future: Future[_Result] = Future()

        def carry_out() -> None:
            future.set_running_or_notify_cancel()
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - whoever has the future is told
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise RuntimeError("no driver call is begun any more")
            self._waiting[future] = carry_out
            if self._taken < self.places:
                self._taken += 1
                self._threads.submit(self._work)
        return future

    def withdraw(self, future: Future[_Result]) -> bool:
        """Cancel a call that waits and return True; one that has begun goes on."""
        with self._lock:
            if self._waiting.pop(future, None) is None:
                return False
        return future.cancel()

    def close(self) -> None:
        """Cancel what waits, and begin nothing any more; returns at once."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, {}
        for future in waiting:
            future.cancel()
        self._threads.shutdown(wait=False)

    def join(self) -> None:
        """Wait for the end of all threads."""
        self._threads.shutdown(wait=True)

    def _work(self) -> None:
        while (carry_out := self._next()) is not None:
            carry_out()

    def _next(self) -> Callable[[], None] | None:
        """Return the call that waits for longest; None gives the place up."""
        with self._lock:
            if not self._waiting:
                self._taken -= 1
                return None
            return self._waiting.pop(next(iter(self._waiting)))
