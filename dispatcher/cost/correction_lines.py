"""Corrections as rows of the ledger's files, beside its lines; pure.

A correction is about an hour, as a line is, and has an amount without a price an hour. It counts in
that hour, unless the month was closed when it was booked: then it counts in the hour in which it
was booked, and stands in the file of that month.

The lines of a closed month are reckoned from what is known now. So what was told late is in them,
and counts in a later month as a correction too: in the file of the closed month a row takes it back
(`taken_back`). That keeps each file at what its month comes to in reports, to the last place.
"""

from __future__ import annotations

from dataclasses import dataclass

from longshore.dispatcher.domain.ledger import Account, CostLine, UnitPrice
from longshore.dispatcher.domain.queries import CountedCorrection


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionLine:
    """A correction, as a line that costs beside its time alone."""

    line: CostLine
    #: Hours since the epoch, UTC: where it counts.
    counted_hour: int

    @property
    def grains(self) -> int:
        """Return by how much it changes the cost, in grains."""
        return self.line.grains


FileRow = CostLine | CorrectionLine
"""What a row of a file is made of."""


def correction_line(correction: CountedCorrection) -> CorrectionLine:
    """Return a correction as it stands in the file of the month in which it counts."""
    return CorrectionLine(line=_line(correction, sign=1), counted_hour=correction.counted_hour)


def taken_back(correction: CountedCorrection) -> CorrectionLine:
    """Return what takes back, in a closed month, what was told late of it."""
    return CorrectionLine(line=_line(correction, sign=-1), counted_hour=correction.about_hour)


def _line(correction: CountedCorrection, *, sign: int) -> CostLine:
    group = correction.group
    account = Account(
        project=group.project, user=group.user, job_name=group.job_name, labels=group.labels
    )
    return CostLine(
        hour=correction.about_hour,
        instance_id=correction.instance_id,
        type_name=group.type_name,
        provider_type=correction.provider_type or group.type_name,
        preemptible=group.preemptible,
        zone=group.zone,
        state=group.state,
        attempt_id="",
        account=account,
        column=group.column,
        cause=f"correction: {correction.reason}",
        outcome=group.outcome,
        quantity_ms=sign * correction.quantity_ms,
        uncertain_ms=0,
        price=UnitPrice(nusd_per_hour=0, source=group.price_source),
        flat_grains=sign * correction.grains,
    )
