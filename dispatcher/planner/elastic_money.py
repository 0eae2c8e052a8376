"""What the accounts of elastic jobs may spend: a job begins only if all it needs is paid; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dispatcher.model import WaitReason
from dispatcher.planner.elastic_floor import Ask, Seat
from dispatcher.planner.elastic_model import ElasticView
from dispatcher.planner.room import SlotKind, empty_slot

SPEND_LIMIT = "spend_limit"
"""The code of a reason that is about money."""


class Purse:
    """What may still be spent in a pass; what its jobs get is reserved in the view's budget."""

    def __init__(self, view: ElasticView) -> None:
        self._budget = view.budget
        self._accounts = view.accounts
        self._types = {type_.name: type_ for type_ in view.types}

    def never(self, job_id: str, ask: Ask) -> WaitReason | None:
        """Return why a job's account may not even have one such member on any type, if so."""
        account = self._accounts.get(job_id, ())
        if self._budget is None or not account:
            return None
        why = None
        for name, wanted in sorted(ask.needs.items()):
            slot = empty_slot(SlotKind.NEW, "", self._types[name])
            refusal = self._budget.refuses_place(account, slot, wanted)
            if refusal is None or not refusal.is_final:
                return None
            why = why or refusal.reason
        return why

    def pay(self, job_id: str, seats: Sequence[Seat]) -> WaitReason | None:
        """Reserve what seats cost a job's account, or return why it may not have them all.

        Nothing is reserved then.
        """
        account = self._accounts.get(job_id, ())
        if self._budget is None or not account:
            return None
        for number, seat in enumerate(seats):
            refusal = self._budget.refuses_place(account, seat.slot, seat.need)
            if refusal is None:
                self._budget.place(account, seat.slot, seat.need, 1)
                continue
            for paid in seats[:number]:
                self._budget.place(account, paid.slot, paid.need, -1)
            why = refusal.reason
            if number and not why.is_final:
                count = f"with {number} of the {len(seats)} places that it needs at once"
                why = replace(why, message=f"{count}, {why.message}")
            return why
        return None
