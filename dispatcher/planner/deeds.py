"""What a pass has decided so far, so that it can be undone."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.dispatcher.planner.limits import Line
from longshore.dispatcher.planner.room import Slot
from longshore.dispatcher.queueing.ordering import Order


@dataclass(slots=True, kw_only=True)
class Deed:
    """A start, or claims, for `number` containers of a class from one on.

    `order` is that of the first, `first` its position in the class. Claims that an earlier pass has
    made are `kept`.
    """

    order: Order
    line: Line
    slot: Slot
    number: int
    first: int
    is_start: bool = False
    is_kept: bool = False

    def after(self, order: Order) -> int:
        """Return how many of its containers come after an order."""
        if self.order > order:
            return self.number
        if self.number <= 1:
            return 0
        before = self.line.request_class.before(order) - self.first
        return min(self.number, max(0, self.number - before))
