"""Which instances were there when, and what ran on them: what is asked, and a page of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longshore.dispatcher.domain.ledger import InstanceBill, Interval

INSTANCES_MOST = 200
"""How many instances a page has at most."""
PARTS_MOST = 200
"""How many states, and how many attempts, are told of each of several instances: the latest."""
PARTS_OF_ONE_MOST = 2000
"""The same where one instance is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineWindow:
    """The time that is asked for, in milliseconds since the epoch: [from_ms, until_ms)."""

    from_ms: int
    until_ms: int
    #: The one instance that is asked for, "" for all.
    instance_id: str = ""

    @property
    def parts_most(self) -> int:
        """Return how many states, and how many attempts, are told of an instance."""
        return PARTS_OF_ONE_MOST if self.instance_id else PARTS_MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineInstance:
    """An instance that was there: its states, and the attempts that had a place on it.

    Both in order of time, as they were, also before and after the window.
    """

    bill: InstanceBill
    states: Sequence[Interval]
    attempts: Sequence[Interval]
    #: How many earlier ones in the window are not told.
    states_left_out: int = 0
    attempts_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePage:
    """Some of the instances of a window, by when they were created, and then by id."""

    items: Sequence[TimelineInstance]
    next_cursor: str | None
