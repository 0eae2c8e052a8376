"""Rows as CSV (RFC 4180) that a spreadsheet shows and never runs; pure.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, and users choose the
names of their jobs and labels. So a text that begins with one of these, with its full-width form,
or with a tab or a line break, gets an apostrophe before it, in every column. Numbers are left as
they are: what is a number is decided by its type, never by its looks, so that the text `-1` is
changed and the amount -1 is not.

Nothing is held: each line leaves before the next is asked for.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final

from longshore.dispatcher.cost import money
from longshore.dispatcher.cost.correction_lines import CorrectionLine, FileRow
from longshore.dispatcher.cost.running_decimals import RunningDecimal
from longshore.dispatcher.cost.utc_calendar import utc_hour_text
from longshore.dispatcher.domain.ledger import MS_PER_HOUR

Cell = str | int | Decimal | None
"""What may stand in a cell; None is an empty one."""

_DANGEROUS: Final = frozenset("=+-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}") | {
    "\N{FULLWIDTH HYPHEN-MINUS}",
    "\N{FULLWIDTH COMMERCIAL AT}",
}

LINE_COLUMNS: Final = (
    *("hour", "instance", "type", "provider_type", "market", "zone", "state", "attempt"),
    *("project", "user", "job", "job_id", "task", "array_index", "container"),
    *("column", "cause", "outcome", "hours", "uncertain_hours"),
    *("usd_per_hour", "price_source", "flat_usd", "usd"),
)


class _Passing:
    """A file for `csv.writer` that hands back what is written to it."""

    def write(self, text: str) -> str:
        return text


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Yield a CSV file line by line, the names of the columns first; lines end in CR LF.

    Raises ValueError for a row of another length than `columns`: whoever makes the rows is wrong.
    """
    writer = csv.writer(_Passing(), lineterminator="\r\n")
    yield writer.writerow([harmless(name) for name in columns])
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row of {len(row)} cells for {len(columns)} columns")
        yield writer.writerow([_written(cell) for cell in row])


def harmless(text: str) -> str:
    """Return a text as a spreadsheet shows it, whatever it begins with."""
    return f"'{text}" if text[:1] in _DANGEROUS else text


def _written(cell: Cell) -> str:
    match cell:
        case None:
            return ""
        case str():
            return harmless(cell)
        case int():
            return str(cell)
        case Decimal():
            return format(cell, "f")


def lines_csv(rows: Iterable[FileRow], labels: Sequence[str] = ()) -> Iterator[str]:
    """Yield the CSV of lines and corrections, in their order.

    It has a column `label:KEY` for each of `labels`; a row without such a label has an empty cell
    there. The amounts add up to `money.in_dollars` of their sum, and the hours to theirs.
    """
    columns = [*LINE_COLUMNS, *(f"label:{key}" for key in labels)]
    return csv_text(columns, _line_rows(rows, labels))


def _line_rows(rows: Iterable[FileRow], labels: Sequence[str]) -> Iterator[list[Cell]]:
    usd, flat_usd = RunningDecimal(money.GRAINS_PER_USD), RunningDecimal(money.GRAINS_PER_USD)
    hours = RunningDecimal(MS_PER_HOUR)
    uncertain_hours = RunningDecimal(MS_PER_HOUR)
    for row in rows:
        line = row.line if isinstance(row, CorrectionLine) else row
        account, chosen = line.account, dict(line.account.labels)
        yield [
            utc_hour_text(line.hour),
            line.instance_id,
            line.type_name,
            line.provider_type,
            "preemptible" if line.preemptible else "on-demand",
            line.zone,
            line.state.value,
            line.attempt_id,
            account.project,
            account.user,
            account.job_name,
            account.job_id,
            account.task,
            account.array_index,
            account.container_id,
            line.column.value,
            line.cause,
            line.outcome.value,
            hours.next(line.quantity_ms),
            uncertain_hours.next(line.uncertain_ms),
            money.usd_per_hour(line.price.nusd_per_hour) if row is line else None,
            line.price.source.value,
            flat_usd.next(line.flat_grains),
            usd.next(line.grains),
            *(chosen.get(key) for key in labels),
        ]
