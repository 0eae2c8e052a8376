"""A cloud's bill against the ledger: compared by pieces, and booked as corrections if asked to.

A bill of a large cluster is larger than any request. So whoever has it sends it in pieces by
instance (`piece_of`): all rows of an instance are in one, which is compared with all that the
ledger has of the instances of that piece. Windows are about one instance, so that the parts of
all pieces add up to those of the whole, and nothing has to be kept between two requests.

**What is booked** is what is missing to the bill's cost, counting what was booked before. So a bill
that is applied twice books nothing the second time, an answer that got lost does no harm, and a
later bill of the same month books what it has changed. Two that come at once are taken in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from longshore.dispatcher.cost.bills import BillLine
from longshore.dispatcher.cost.reconcile import (
    CORRECTION,
    Correction,
    Coverage,
    Reconciliation,
    corrections,
    not_covered,
    piece_of,
    reconcile,
    shared_out,
)
from longshore.dispatcher.cost.rollups import group_of, lines_between
from longshore.dispatcher.domain.ledger import (
    CLUSTER,
    BilledState,
    BookedCorrection,
    Column,
    CostGroup,
    CostLine,
    CostOutcome,
    PriceSource,
    Total,
    UnitPrice,
)
from longshore.dispatcher.domain.messages import AddCorrections
from longshore.dispatcher.domain.queries import CorrectedInstance
from longshore.dispatcher.service.contracts import Unavailable
from longshore.dispatcher.service.cost_exports import HOURS_AT_ONCE
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest

_Groups = dict[str, dict[int, dict[CostGroup, Total]]]
"""What the lines of each instance and hour come to, by group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillPiece:
    """A piece of a bill: all rows of the instances that are in it."""

    hours: range
    piece: int
    pieces: int
    rows: Sequence[BillLine]
    #: Of the whole bill: where its time of instances begins and ends so far, None where it has
    #: none.
    billed_from_hour: int | None
    billed_until_hour: int | None
    coverage: Coverage
    file_name: str
    sha256: str


class Reconciler:
    """Compares bills with the ledger; used on the loop's thread."""

    def __init__(
        self, *, store: Store, now: Callable[[], float], labels: Collection[str], cluster: str
    ) -> None:
        """`labels` are the keys of labels that are dimensions, `cluster` the name in our tags."""
        self._store, self._now, self._labels = store, now, labels
        self._cluster = cluster
        self._turn = asyncio.Lock()

    async def compare(self, piece: BillPiece) -> Reconciliation:
        """Return where a piece and the ledger differ; raises `Unavailable`."""
        try:
            found, _ = await asyncio.to_thread(self._compared, piece)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        return found

    async def apply(self, piece: BillPiece, *, made_by: str) -> tuple[Reconciliation, int]:
        """Book what is missing to a piece; return how it differed, and how many rows were booked.

        Raises `Unavailable`: then none was, or all were, and asking again books the rest; and
        `InvalidRequest` where the bill is plainly a part of what it is said to be: nothing was.
        """
        async with self._turn:
            try:
                found, groups = await asyncio.to_thread(self._compared, piece)
                _refuse_a_part(found, piece.coverage)
                rows = tuple(self._rows(piece, found, groups, made_by))
                await asyncio.wrap_future(self._store.write([AddCorrections(corrections=rows)]))
            except StoreBusy as error:
                raise Unavailable(str(error)) from error
        return found, len(rows)

    def _compared(self, piece: BillPiece) -> tuple[Reconciliation, _Groups]:
        groups: _Groups = {}
        found = reconcile(self._lines(piece, groups), piece.rows, piece.hours, self._cluster)
        whole = replace(
            found,
            billed_from_hour=piece.billed_from_hour,
            billed_until_hour=piece.billed_until_hour,
        )
        return whole, groups

    def _lines(self, piece: BillPiece, groups: _Groups) -> Iterator[CostLine]:
        """Yield the lines of a piece's instances, and what was booked beside them before; note
        what the lines come to by group.
        """
        now_ms, hours = round(self._now() * 1000), piece.hours
        for first in range(hours.start, hours.stop, HOURS_AT_ONCE):
            end = min(first + HOURS_AT_ONCE, hours.stop)
            facts = self._store.ledger.facts(first, end)
            ours = [b for b in facts.bills if piece_of(b.instance_id, piece.pieces) == piece.piece]
            # What is prepaid and not run is no instance's: a bill has its own rows for that.
            facts = replace(facts, bills=ours, prepaid=())
            for line in lines_between(facts, from_hour=first, until_hour=end, now_ms=now_ms):
                of_hour = groups.setdefault(line.instance_id, {}).setdefault(line.hour, {})
                group = group_of(line, self._labels)
                total = Total(quantity_ms=line.quantity_ms, grains=line.grains)
                of_hour[group] = of_hour.get(group, Total()).plus(total)
                yield line
        for each in self._store.ledger.corrections(hours.start, hours.stop):
            if piece_of(each.instance_id, piece.pieces) == piece.piece:
                yield _as_line(each)

    def _rows(
        self, piece: BillPiece, found: Reconciliation, groups: _Groups, made_by: str
    ) -> Iterator[BookedCorrection]:
        now = self._now()
        for each in corrections(found, piece.coverage):
            for group, total in shared_out(each, _in_window(each, groups)):
                yield BookedCorrection(
                    booked_hour=int(now // 3600),
                    about_hour=each.first_hour,
                    instance_id=each.instance_id,
                    group=group,
                    quantity_ms=total.quantity_ms,
                    grains=total.grains,
                    reason=each.part.value,
                    made_by=made_by,
                    made_at=now,
                    file_name=piece.file_name,
                    sha256=piece.sha256,
                )


def _refuse_a_part(found: Reconciliation, coverage: Coverage) -> None:
    """Raise `InvalidRequest` where a bill lacks what it plainly does not tell of."""
    hours = not_covered(found, coverage)
    if hours:
        sentence = (
            f"the ledger has instance hours ({hours}) before the bill's first hour or after its"
            " last one, which would be taken for not billed: send all of the month's bill, or say"
            " partial, by which only hours within it count"
        )
        raise InvalidRequest([("partial", sentence)])


def _in_window(correction: Correction, groups: _Groups) -> Mapping[CostGroup, Total]:
    """Return what the lines of the hours that a correction is about come to, by group."""
    found: dict[CostGroup, Total] = {}
    for hour, totals in sorted(groups.get(correction.instance_id, {}).items()):
        if correction.first_hour <= hour < correction.end_hour:
            for group, total in totals.items():
                found[group] = found.get(group, Total()).plus(total)
    return found


def _as_line(corrected: CorrectedInstance) -> CostLine:
    """Return what was booked before as a line: it counts as the ledger's."""
    return CostLine(
        hour=corrected.hour,
        instance_id=corrected.instance_id,
        type_name="",
        provider_type="",
        preemptible=False,
        zone="",
        state=BilledState.UNWANTED,
        attempt_id="",
        account=CLUSTER,
        column=Column.SHARED,
        cause=CORRECTION,
        outcome=CostOutcome.OPEN,
        quantity_ms=corrected.quantity_ms,
        uncertain_ms=0,
        price=UnitPrice(nusd_per_hour=0, source=PriceSource.BILL),
        flat_grains=corrected.grains,
    )
