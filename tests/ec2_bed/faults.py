"""The trouble that a test orders: which call it meets, what happens then, and what has happened."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What happens to a call, or to what a listing says."""

    ERROR = "error"
    """It is refused with an error code, and nothing is done."""
    LOST_ANSWER = "lost answer"
    """It is done, and the connection ends without an answer."""
    LATE_ANSWER = "late answer"
    """It is done, and the answer comes after `delay_s`, when nobody waits for it any more."""
    ERROR_AFTER = "error after"
    """It is done, and the answer is an error code all the same."""
    LOST_REQUEST = "lost request"
    """The connection ends without an answer, and nothing was done."""
    LACKS_NEW = "lacks new"
    """A listing does not know yet of an instance that runs."""
    LACKS_ALL = "lacks all"
    """A listing knows of no instance any more, as one of a stale endpoint does."""
    SHOWS_GONE = "shows gone"
    """A listing still shows, as running, an instance that has been terminated."""
    STALE_TAGS = "stale tags"
    """A listing shows an instance with the tags of its launch, not with those set since."""
    TWICE = "twice"
    """A listing shows every instance twice."""
    CUT = "cut"
    """A listing has a further page, and that cannot be had."""


IN_LISTINGS = frozenset(
    {
        Kind.LACKS_NEW,
        Kind.LACKS_ALL,
        Kind.SHOWS_GONE,
        Kind.STALE_TAGS,
        Kind.TWICE,
        Kind.CUT,
    }
)
ANY_ACTION = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One order: what happens to a call of `action` (`ANY_ACTION`: whatever it is).

    `code` and `status` are those of an error; `where` are parameters that the call must have
    (name as in the query, value); `after` calls that it would meet pass before it comes.
    """

    kind: Kind
    action: str = "RunInstances"
    code: str = ""
    status: int = 400
    where: tuple[tuple[str, str], ...] = ()
    after: int = 0
    delay_s: float = 0.0

    def meets(self, action: str, parameters: Mapping[str, str]) -> bool:
        """Return whether this call is one that it can happen to."""
        return self.action in (action, ANY_ACTION) and all(
            parameters.get(name) == value for name, value in self.where
        )

    @property
    def name(self) -> str:
        """Return what it is counted under."""
        return f"{self.action}: {self.code or self.kind.value}"


class FaultPlan:
    """The orders that are open, first come first served, and the count of what has happened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[tuple[Fault, list[int]]] = []
        self._standing: list[Fault] = []
        self.happened: Counter[str] = Counter()

    def order(self, *faults: Fault) -> None:
        """Add orders behind the others."""
        with self._lock:
            self._open += [(fault, [fault.after]) for fault in faults]

    @contextmanager
    def standing(self, *faults: Fault) -> Iterator[None]:
        """Let these happen to every call that they can happen to, as long as the context lasts."""
        with self._lock:
            self._standing += faults
        try:
            yield
        finally:
            with self._lock:
                for fault in faults:
                    self._standing.remove(fault)

    def clear(self) -> None:
        """Forget what is open and what has happened."""
        with self._lock:
            self._open.clear()
            self.happened.clear()

    def still_open(self) -> list[Fault]:
        """Return the orders that have not happened yet."""
        with self._lock:
            return [fault for fault, _ in self._open]

    def take(
        self,
        action: str,
        parameters: Mapping[str, str],
        possible: Callable[[Fault], bool] = lambda _: True,
    ) -> Fault | None:
        """Return the order that this call meets, as happened; None when it passes unharmed.

        `possible` says whether an order can come true now; one that cannot stays open.
        """
        with self._lock:
            for place, (fault, left) in enumerate(self._open):
                if not fault.meets(action, parameters) or not possible(fault):
                    continue
                if left[0]:
                    left[0] -= 1
                    return None
                del self._open[place]
                self.happened[fault.name] += 1
                return fault
            for fault in self._standing:
                if fault.meets(action, parameters) and possible(fault):
                    self.happened[fault.name] += 1
                    return fault
        return None
