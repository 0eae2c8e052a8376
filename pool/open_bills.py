"""Of which instances that are gone the cloud is still to tell when their billing ended; pure.

Stands alone: it is the state of `pool.billing`, which the pool keeps with the rest of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from longshore.drivers.billing import Billed
from longshore.pool.model import InstanceSeen

ASKED_FOR_S = 3600.0
"""For how long a cloud is asked that does not tell."""

MOST_AT_ONCE = 100
"""Of how many instances it is asked with one call."""

# Others that go at the same time are asked of with the same call.
_GATHERED_S = 5.0
_FIRST_DELAY_S = 15.0
_LONGEST_DELAY_S = 600.0


@dataclass(slots=True, kw_only=True)
class _OpenBill:
    billed: Billed
    #: When it is given up, and when it is asked of next.
    until: float
    ask_at: float
    delay_s: float = _FIRST_DELAY_S


class OpenBills:
    """The instances whose bill is awaited, by id, and the question that is under way.

    `asks` says whether the cloud can be asked at all. `handed_in` are those that are gone, with
    what is known of their bills, until `pool.billing` takes them up: whoever knows of one puts it
    in, before the pool begins or with a timer that has it look.
    """

    def __init__(self, *, asks: bool) -> None:
        self.asks = asks
        self.handed_in: dict[str, Billed] = {}
        self._open: dict[str, _OpenBill] = {}
        self._asked_op = 0
        self._asked: tuple[str, ...] = ()

    def __contains__(self, instance_id: str) -> bool:
        """Return whether the bill of an instance is awaited."""
        return instance_id in self._open

    def __len__(self) -> int:
        """Return how many are awaited."""
        return len(self._open)

    def there(self, seen: InstanceSeen, known: InstanceSeen | None) -> Billed:
        """Await no bill of an instance that is there (again); return all that was told of it.

        `known` is what an earlier process knew of it, None for nothing.
        """
        told = seen.billed if known is None else known.billed.once_told(seen.billed)
        handed_in = self.handed_in.pop(seen.id, None)
        told = told if handed_in is None else handed_in.once_told(told)
        found = self._open.pop(seen.id, None)
        return told if found is None else found.billed.once_told(told)

    def next_at(self) -> float | None:
        """Return when the cloud is to be asked next; None for not before it answers, if at all."""
        if self._asked_op:
            return None
        return min((each.ask_at for each in self._open.values()), default=None)

    def ask(self, op_id: int, now: float) -> tuple[str, ...]:
        """Begin a question about those that are due, at most `MOST_AT_ONCE`; return them sorted.

        None of them while another is under way.
        """
        if self._asked_op:
            return ()
        due = sorted((each.ask_at, id_) for id_, each in self._open.items() if each.ask_at <= now)
        self._asked = tuple(sorted(id_ for _, id_ in due[:MOST_AT_ONCE]))
        self._asked_op = op_id if self._asked else 0
        return self._asked

    def answered(self, op_id: int) -> tuple[str, ...]:
        """End the question that is under way; return whose bill it was about and is awaited.

        None of them when this was not the question.
        """
        if not op_id or op_id != self._asked_op:
            return ()
        asked, self._asked, self._asked_op = self._asked, (), 0
        return tuple(id_ for id_ in asked if id_ in self._open)

    def known(self, instance_id: str) -> Billed:
        """Return what is known of a bill that is awaited."""
        return self._open[instance_id].billed

    def told(self, instance_id: str, billed: Billed, now: float) -> bool:
        """Take in what is known of an awaited bill; return whether that was the last word.

        It is where the end is told, and where it was asked for long enough.
        """
        bill = self._open[instance_id]
        bill.billed = billed
        if billed.billed_until is not None or now >= bill.until:
            del self._open[instance_id]
            return True
        bill.ask_at = min(now + bill.delay_s, max(now, bill.until))
        bill.delay_s = min(2 * bill.delay_s, _LONGEST_DELAY_S)
        return False

    def take_up(self, now: float) -> list[tuple[str, Billed]]:
        """Await the bills of those that are handed in; return of whom that was the last word.

        It is where the end is known, and where the cloud cannot be asked.
        """
        handed_in, self.handed_in = self.handed_in, {}
        settled = []
        for instance_id, billed in sorted(handed_in.items(), key=lambda pair: pair[0]):
            if billed.billed_until is not None or not self.asks:
                settled.append((instance_id, billed))
                continue
            self._open[instance_id] = _OpenBill(
                billed=billed, until=now + ASKED_FOR_S, ask_at=now + _GATHERED_S
            )
        return settled
