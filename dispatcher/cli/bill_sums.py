"""A bill added up, taken apart into pieces that a request has room for, and their answers together.

Rows of one instance, the same hours and the same kind say no more than their sums: there are many
of them where a cloud bills by the second, and only one an hour is sent. All rows of an instance are
in one piece, so that an answer is about whole instances and answers can be added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, Inexact
from typing import Any, Final

import msgspec

from longshore.dispatcher.api.schemas.cost import BILL_ROWS_MOST, BillParts, ReconcileAnswer
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cost.bills import BillLine, ChargeKind
from longshore.dispatcher.cost.reconcile import piece_of
from longshore.dispatcher.cost.utc_calendar import utc_hour_text

SUMS_MOST: Final = 5_000_000
"""How many sums of a bill are held: some gigabytes of memory."""
PAGE_INSTANCES: Final = 1000
"""How many instances are asked for at a time: as many as an answer may have."""
_EXACT: Final = Context(prec=200, traps=[Inexact])
_Key = tuple[str, int, int, str, str]


@dataclass(slots=True)
class _Sums:
    usage_s: Decimal | None = Decimal(0)
    list_cost: Decimal = Decimal(0)
    effective_cost: Decimal = Decimal(0)

    def add(self, line: BillLine) -> None:
        listed = line.effective_cost if line.list_cost is None else line.list_cost
        self.list_cost = _EXACT.add(self.list_cost, listed)
        self.effective_cost = _EXACT.add(self.effective_cost, line.effective_cost)
        # Where one row tells no time, the sum does not either.
        if self.usage_s is None or line.usage_s is None:
            self.usage_s = None
        else:
            self.usage_s = _EXACT.add(self.usage_s, line.usage_s)


@dataclass(slots=True)
class BillSums:
    """What a bill comes to, by instance, hours, kind and cluster."""

    sums: dict[_Key, _Sums] = field(default_factory=dict)
    #: Where its time of instances begins and ends, None where it has none.
    billed_from_hour: int | None = None
    billed_until_hour: int | None = None

    def add(self, line: BillLine) -> None:
        """Add a row; raises `CommandFailure` for more sums than are held."""
        key = (line.resource_id, line.first_hour, line.end_hour, line.kind.value, line.cluster)
        if key not in self.sums and len(self.sums) >= SUMS_MOST:
            raise CommandFailure(
                f"the bill has more than {SUMS_MOST:,} hours of instances",
                remedy="Split it by instance, and compare one part after the other",
                exit_code=USAGE,
            )
        self.sums.setdefault(key, _Sums()).add(line)
        if line.kind is ChargeKind.INSTANCE:
            begun = self.billed_from_hour
            self.billed_from_hour = (
                line.first_hour if begun is None else min(begun, line.first_hour)
            )
            self.billed_until_hour = max(self.billed_until_hour or 0, line.end_hour)

    def month(self) -> str:
        """Return the month in which most of its sums begin, as 2026-10.

        Raises `CommandFailure` where it has no rows.
        """
        if not self.sums:
            raise CommandFailure(
                "the bill has no rows, so that its month is not known",
                remedy="Name the month with --month",
                exit_code=USAGE,
            )
        counts: dict[str, int] = {}
        for _, first_hour, *_others in self.sums:
            month = utc_hour_text(first_hour)[:7]
            counts[month] = counts.get(month, 0) + 1
        return min(counts, key=lambda month: (-counts[month], month))

    def pieces(self) -> Iterator[dict[str, Any]]:
        """Yield the pieces as fields of requests, none with more rows than a request may have.

        Raises `CommandFailure` where one instance alone has more.
        """
        pieces = -(-len(self.sums) // BILL_ROWS_MOST) or 1
        while max(map(len, apart := self._apart(pieces))) > BILL_ROWS_MOST:
            if pieces * 2 > 100_000:
                raise CommandFailure(
                    f"one instance of the bill has more than {BILL_ROWS_MOST:,} rows",
                    remedy="Check that the file is a bill of one month",
                    exit_code=USAGE,
                )
            pieces *= 2
        for number, keys in enumerate(apart):
            rows = [_row(key, self.sums[key]) for key in sorted(keys)]
            yield {"piece": number, "pieces": pieces, "rows": rows}

    def _apart(self, pieces: int) -> list[list[_Key]]:
        apart: list[list[_Key]] = [[] for _ in range(pieces)]
        for key in self.sums:
            apart[piece_of(key[0], pieces)].append(key)
        return apart


def bill_sums(lines: Iterable[BillLine]) -> BillSums:
    """Return what a bill comes to; what reading it raises passes through."""
    found = BillSums()
    for line in lines:
        found.add(line)
    return found


def _row(key: _Key, sums: _Sums) -> dict[str, Any]:
    resource_id, first_hour, end_hour, kind, cluster = key
    return {
        "resource_id": resource_id,
        "first_hour": first_hour,
        "end_hour": end_hour,
        "kind": kind,
        "usage_s": None if sums.usage_s is None else f"{sums.usage_s:f}",
        "list_cost": f"{sums.list_cost:f}",
        "effective_cost": f"{sums.effective_cost:f}",
        "cluster": cluster,
    }


def only_instances(page: ReconcileAnswer) -> ReconcileAnswer:
    """Return a further page of an answer without the sums, which its first one has, too."""
    nothing = Decimal(0)
    return msgspec.structs.replace(
        page,
        billed=nothing,
        booked=nothing,
        elsewhere=nothing,
        outside=nothing,
        parts=BillParts(**dict.fromkeys(BillParts.__struct_fields__, nothing)),
        not_covered_hours=0,
        corrections=0,
    )


def together(answers: Sequence[ReconcileAnswer]) -> ReconcileAnswer:
    """Return the answers to all pieces as one, with all instances, the most different first."""
    instances = sorted(
        (each for answer in answers for each in answer.instances),
        key=lambda each: (-abs(each.parts.total), each.instance_id),
    )
    totals = {
        name: sum((getattr(each.parts, name) for each in answers), Decimal(0))
        for name in BillParts.__struct_fields__
    }
    return msgspec.structs.replace(
        answers[0],
        billed=sum((each.billed for each in answers), Decimal(0)),
        booked=sum((each.booked for each in answers), Decimal(0)),
        elsewhere=sum((each.elsewhere for each in answers), Decimal(0)),
        outside=sum((each.outside for each in answers), Decimal(0)),
        parts=BillParts(**totals),
        coarsest_hours=max(each.coarsest_hours for each in answers),
        instances=tuple(instances),
        next_offset=None,
        not_covered_hours=sum(each.not_covered_hours for each in answers),
        corrections=sum(each.corrections for each in answers),
    )
