"""The lines of a month as a file, for whoever may see them.

A month of a large cluster has millions of lines, so it is read day by day: of each day the facts
are read from one moment of the store, its lines are reckoned, written and let go. A line is about
one hour, and each hour is read once, so that none is left out and none comes twice, whatever is
written meanwhile. Corrections follow at the end. Amounts are rounded as they leave, so that those
of any file add up to its sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from longshore.dispatcher.cost.correction_lines import (
    FileRow,
    correction_line,
    taken_back,
)
from longshore.dispatcher.cost.csv_export import lines_csv
from longshore.dispatcher.cost.focus import ExportFormat, FocusContext, FocusVersion, focus_csv
from longshore.dispatcher.cost.report import Seen
from longshore.dispatcher.cost.rollups import group_of, lines_between
from longshore.dispatcher.domain.ledger import MS_PER_HOUR
from longshore.dispatcher.domain.principals import Principal, Role
from longshore.dispatcher.domain.queries import CountedCorrection
from longshore.dispatcher.service.contracts import Forbidden
from longshore.dispatcher.service.costs import seen_by
from longshore.dispatcher.store.store import Store

HOURS_AT_ONCE: Final = 24
LABELS_MOST: Final = 20
UNKNOWN_BILLER: Final = FocusContext(
    provider="unknown", service="unknown", account_id="unknown", cluster="default"
)
"""What FOCUS files say where nobody has told who bills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostExport:
    """A file that somebody asks for."""

    #: Whole hours since the epoch, UTC.
    hours: range
    format: ExportFormat
    #: The keys of labels that have a column each; of CSV alone.
    labels: Sequence[str] = ()


class Unwanted(Exception):  # noqa: N818 - it names a condition
    """Nobody waits for the file any more: let go what there is of it."""

    def __init__(self) -> None:
        super().__init__("the file was given up: its reader has gone, or the server stops")


def _always() -> bool:
    return True


class CostExports:
    """Makes files of the ledger; what it returns blocks, and suits any thread."""

    def __init__(self, *, store: Store, now: Callable[[], float], context: FocusContext) -> None:
        """`context` is what FOCUS files say of the cluster; `now` is in seconds since the epoch."""
        self._store, self.now = store, now
        self._context = context

    def file_for(
        self, caller: Principal, export: CostExport, *, wanted: Callable[[], bool] = _always
    ) -> Iterator[str]:
        """Return the file with what a caller sees, line by line: a user its own, a lead its own
        projects', an admin everything.

        FOCUS is a bill of the whole, and for admins alone: raises `Forbidden` for others. The
        iterator raises `StoreBusy`, and `Unwanted` where that is what `wanted` says before a day is
        read: of one who sees little, most days have no line. What came by then is no whole file.
        """
        if export.format is not ExportFormat.CSV and caller.role is not Role.ADMIN:
            raise Forbidden(
                "Only an admin may have a FOCUS file, which is of the whole cluster: ask for"
                " format=csv, which has what you see."
            )
        return self.file_of(self.lines(export.hours, seen_by(caller), wanted), export)

    def file_of(self, lines: Iterable[FileRow], export: CostExport) -> Iterator[str]:
        """Return the file of lines and corrections, in their order, line by line."""
        match export.format:
            case ExportFormat.CSV:
                return lines_csv(lines, export.labels)
            case ExportFormat.FOCUS_1_4:
                return focus_csv(lines, FocusVersion.V1_4, self._context)
            case ExportFormat.FOCUS_1_2:
                return focus_csv(lines, FocusVersion.V1_2, self._context)
            case _:
                assert_never(export.format)

    def lines(
        self, hours: range, seen: Seen, wanted: Callable[[], bool] = _always
    ) -> Iterator[FileRow]:
        """Yield the lines of some hours, by day and then by instance, and then the corrections that
        count in these hours; raises `StoreBusy`, and `Unwanted` (see `file_for`).
        """
        now_ms, ledger = round(self.now() * 1000), self._store.ledger
        until = min(hours.stop, now_ms // MS_PER_HOUR + 1)
        for first in range(hours.start, until, HOURS_AT_ONCE):
            if not wanted():
                raise Unwanted
            end = min(first + HOURS_AT_ONCE, until)
            facts = ledger.facts(first, end)
            for line in lines_between(facts, from_hour=first, until_hour=end, now_ms=now_ms):
                if seen.everything or seen.sees(group_of(line, ())):
                    yield line
        for counted in _all(ledger.counted, hours, lambda each: each.counted_hour, wanted):
            if seen.sees(counted.group):
                yield correction_line(counted)
        for late in _all(ledger.told_late, hours, lambda each: each.about_hour, wanted):
            if seen.sees(late.group):
                yield taken_back(late)


class _Reading(Protocol):
    """Reads the next corrections of some hours."""

    def __call__(
        self, from_hour: int, until_hour: int, *, after: tuple[int, int]
    ) -> list[CountedCorrection]: ...


def _all(
    read: _Reading,
    hours: range,
    hour_of: Callable[[CountedCorrection], int],
    wanted: Callable[[], bool],
) -> Iterator[CountedCorrection]:
    """Yield all corrections of some hours, of which some are held at a time."""
    after = (hours.start, 0)
    while some := read(hours.start, hours.stop, after=after):
        if not wanted():
            raise Unwanted
        yield from some
        after = (hour_of(some[-1]), some[-1].id)
