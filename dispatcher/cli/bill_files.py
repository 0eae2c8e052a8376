"""Files of clouds' bills, read row by row: CSV, also packed with gzip, and Parquet.

A bill has millions of rows, and may come from anywhere, so nothing of it is held but the row at
hand, and each part of a file has a bound (`BillFileLimits`): a file that unpacks without end, a
row without end, a cell of a gigabyte are problems like any other. What kind of file it is, its
first bytes tell, not its name.

Parquet is read by pyarrow, which is not installed with Longshore by itself. Its row groups are
taken in batches, and only the columns that are needed.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from longshore.dispatcher.cost.bill_formats import BillRows, columns_to_read
from longshore.dispatcher.cost.bills import BillLine
from longshore.dispatcher.input.problems import Problems, ProblemsFull

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_ARCHIVE = b"PK\x03\x04"
_BATCH_ROWS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BillFileLimits:
    """How much of a file is read at most."""

    rows: int = 100_000_000
    columns: int = 2_000
    #: Of one row, as it stands in the file.
    row_characters: int = 1024 * 1024
    #: Of the whole file, unpacked.
    characters: int = 32 * 1024**3
    #: Of the columns that are read in one row group of Parquet, unpacked.
    group_bytes: int = 2 * 1024**3


LIMITS: Final = BillFileLimits()


class BillFileError(Exception):
    """A bill cannot be used as it is.

    `problems` are all that were found, (place, sentence) pairs; at most 100, and a line that says
    so. Whoever reads the bill shows them, and takes nothing of what was read before.
    """

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__(
            "; ".join(f"{place}: {what}" if place else what for place, what in problems)
        )
        self.problems = tuple(problems)


class _Unreadable(Exception):  # noqa: N818 - it ends the reading of one file, and becomes a problem
    """The rest of a file cannot be read; `where` and `sentence` say why."""

    def __init__(self, where: str, sentence: str) -> None:
        super().__init__(sentence)
        self.where = where
        self.sentence = sentence


def read_bill(
    path: Path, currency: str = "USD", limits: BillFileLimits = LIMITS
) -> Iterator[BillLine]:
    """Yield the lines of a bill in the order of its rows; `currency` is the ledger's.

    Raises `BillFileError` with all problems once the file has been read to its end, or as far as it
    can be. So what was yielded counts only when the iterator has ended by itself.
    """
    problems = Problems()
    try:
        yield from _lines(path, currency, limits, problems)
    except _Unreadable as error:
        raise BillFileError([*problems.listed(), (error.where, error.sentence)]) from error
    except ProblemsFull:
        raise BillFileError(problems.listed()) from None
    if problems:
        raise BillFileError(problems.listed())


def _lines(
    path: Path, currency: str, limits: BillFileLimits, problems: Problems
) -> Iterator[BillLine]:
    rows = _rows_of_file(path, limits)
    names = next(rows)
    found = columns_to_read(names, problems)
    if found is None:
        return
    form, wanted = found
    places = [(name, names.index(name)) for name in wanted]
    made = BillRows(form, currency, problems)
    for number, cells in enumerate(rows, 2):
        if number > limits.rows + 1:
            raise _Unreadable(f"row {number}", f"a bill has {limits.rows:,} rows at most; split it")
        if len(cells) != len(names):
            sentence = (
                f"there are {len(cells)} cells for {len(names)} columns; export the bill anew"
            )
            problems.add(f"row {number}", sentence)
            continue
        line = made.line(f"row {number}", {name: cells[index] for name, index in places})
        # In another currency no amount is worth anything, and each row would say so.
        if line is not None and not made.is_of_other_currency:
            yield line


def _rows_of_file(path: Path, limits: BillFileLimits) -> Iterator[list[str]]:
    """Yield the names of a file's columns, then its rows, as text.

    Of Parquet the columns that are not read are left out of both.
    """
    try:
        with path.open("rb") as file:
            first = file.read(4)
            file.seek(0)
            if first == _PARQUET:
                yield from _parquet_rows(path, limits)
            elif first == _ARCHIVE:
                raise _Unreadable("", "this is a ZIP archive; unpack it, and name what is in it")
            else:
                yield from _csv_rows(file, limits, is_packed=first.startswith(_GZIP))
    except IsADirectoryError as error:
        raise _Unreadable("", "this is a folder; name the files in it") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _Unreadable("", "the file is damaged or cut off; fetch it again") from error
    except OSError as error:
        raise _Unreadable("", f"the file cannot be read: {error.strerror or error}") from error


# ---- CSV ----------------------------------------------------------------------------------------


class _BoundedLines:
    """The lines of a text, none of which and no row of which is longer than it may be."""

    def __init__(self, text: io.TextIOBase, limits: BillFileLimits) -> None:
        self._text = text
        self._limits = limits
        self._all = 0
        self._of_row = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(self._limits.row_characters + 1)
        if not line:
            raise StopIteration
        self._all += len(line)
        self._of_row += len(line)
        if self._of_row > self._limits.row_characters:
            most = self._limits.row_characters
            raise _Unreadable("", f"a row is longer than {most:,} characters; is it a bill?")
        if self._all > self._limits.characters:
            most = self._limits.characters
            raise _Unreadable("", f"the file has more than {most:,} characters; split it")
        return line

    def next_row(self) -> None:
        """Begin to count for the next row."""
        self._of_row = 0


def _csv_rows(file: BinaryIO, limits: BillFileLimits, *, is_packed: bool) -> Iterator[list[str]]:
    binary = gzip.GzipFile(fileobj=file) if is_packed else file
    with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
        lines = _BoundedLines(text, limits)
        number = 1
        try:
            for row in csv.reader(lines, strict=True):
                lines.next_row()
                if row:
                    _check_width(row, limits)
                    yield row
                    number += 1
        except csv.Error as error:
            raise _Unreadable(f"row {number}", f"this is no CSV: {error}") from error
        except UnicodeDecodeError as error:
            raise _Unreadable(f"row {number}", "this is no UTF-8; export the bill anew") from error
        if number == 1:
            raise _Unreadable("", "the file is empty; export the bill anew")


def _check_width(row: Sequence[object], limits: BillFileLimits) -> None:
    if len(row) > limits.columns:
        raise _Unreadable("", f"a row has more than {limits.columns:,} cells; is it a bill?")


# ---- Parquet ------------------------------------------------------------------------------------


def _parquet_rows(path: Path, limits: BillFileLimits) -> Iterator[list[str]]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and not always there
        import pyarrow.parquet as pq  # noqa: PLC0415 - as above
    except ImportError as error:
        raise _Unreadable(
            "",
            "reading Parquet takes pyarrow, which is not installed; run"
            " pip install 'longshore[parquet]', or export the bill as CSV",
        ) from error
    try:
        with pq.ParquetFile(path) as file:
            names = [str(name) for name in file.schema_arrow.names]
            _check_width(names, limits)
            found = columns_to_read(names, Problems())
            wanted = found[1] if found else []
            _check_groups(file, frozenset(wanted), limits)
            yield wanted or names
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
                columns = [map(_as_text, column.to_pylist()) for column in batch.columns]
                yield from map(list, zip(*columns, strict=True))
    except pa.ArrowException as error:
        sentence = "the Parquet file is damaged or of a kind that pyarrow does not know"
        raise _Unreadable("", f"{sentence}; fetch it again") from error


def _check_groups(file: pq.ParquetFile, wanted: frozenset[str], limits: BillFileLimits) -> None:
    """Refuse a row group that is too large to be unpacked, as the file itself tells its sizes."""
    for group in range(file.metadata.num_row_groups):
        described = file.metadata.row_group(group)
        chunks = (described.column(index) for index in range(described.num_columns))
        size = sum(
            chunk.total_uncompressed_size
            for chunk in chunks
            if chunk.path_in_schema.partition(".")[0] in wanted
        )
        if size > limits.group_bytes:
            raise _Unreadable(
                "",
                f"a row group unpacks to more than {limits.group_bytes:,} bytes;"
                " export the bill with smaller ones, or as CSV",
            )


def _as_text(value: object) -> str:
    """Return a cell of Parquet as CSV would have it."""
    match value:
        case None:
            return ""
        case datetime():
            in_utc = value.astimezone(UTC) if value.tzinfo else value
            return in_utc.isoformat(timespec="seconds")
        case list() if all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return json.dumps({str(key): each for key, each in value}, default=str)
        case list() | dict():
            return json.dumps(value, default=str)
        case _:
            return str(value)
