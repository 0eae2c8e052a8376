"""The ledger as files in a folder, one a month, for programs that take them up by themselves.

At the start and at each time of a cron expression every month that may have changed is made anew
and compared with the file that is there; only another content replaces it. `manifest.json` names
the files, each with its sums and the hash of its content.

A crash at any instant leaves whole files: a new one is written beside the old one, synced, and then
takes its name, and the folder is synced; the manifest the same way. Before a file is replaced the
manifest stops to name it, and names it again once the new one is there. So it never tells of a file
with another content; what it does not name, the next look makes and names, and what was begun is
begun anew.

A month that is over and booked is not made again while what is booked of it is the same: making
years of lines each day is work for nothing. The sums by day and group are compared for that, as
they were before the file was made, so that what changes meanwhile is seen the next time.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import structlog

from longshore.dispatcher.cost.correction_lines import FileRow
from longshore.dispatcher.cost.focus import ExportFormat
from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.cost.report import Seen
from longshore.dispatcher.cost.utc_calendar import HOUR_S, utc_hour_text
from longshore.dispatcher.domain import schedules
from longshore.dispatcher.domain.jobs import Schedule
from longshore.dispatcher.domain.ledger import CostGroup
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.service.cost_exports import HOURS_AT_ONCE, CostExport, CostExports
from longshore.dispatcher.service.cost_periods import month_in
from longshore.dispatcher.store.errors import StoreBusy, StoreClosed
from longshore.dispatcher.store.ledger_reader import LedgerReader

MANIFEST: Final = "manifest.json"
MONTHS_MOST: Final = 25
"""How far back files are written: as long as the ledger is kept."""
RETRY_S: Final = 300.0
LOOK_EACH_S: Final = 30.0
"""How often the clock is looked at, which may be set meanwhile."""
_ROWS_AT_ONCE: Final = 1000
_FILE_MODE: Final = 0o640
_FOLDER_MODE: Final = 0o750
"""What all users cost is for the server's user and its group."""
_EVERYTHING: Final = Seen(everything=True)
_FIELDS: Final = frozenset(each.name for each in fields(CostGroup))

_log = structlog.get_logger(__name__)


class ExportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest says of one file; times are in UTC, `total` is in `currency`."""

    file: str
    period: str
    since: str = msgspec.field(name="from")
    until: str
    rows: int
    total: str
    currency: str
    bytes: int
    sha256: str
    #: Of what was booked of the month when the file was made, "" where it was not all booked.
    booked_sha256: str
    written_at: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the folder, by period."""

    version: int = 1
    cluster: str
    format: str
    files: tuple[ExportedFile, ...] = ()
    written_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTerms:
    """Where files are written to, which, and when."""

    directory: Path
    cron: str
    format: ExportFormat
    #: The zone of `cron`, and of the months of CSV.
    time_zone: str
    cluster: str
    currency: str


@dataclass(slots=True)
class _Sums:
    grains: int = 0

    def counted(self, lines: Iterable[FileRow]) -> Iterator[FileRow]:
        """Yield what a file is of, and add them up."""
        for line in lines:
            self.grains += line.grains
            yield line


class ExportFolder:
    """Keeps a folder of files up to date."""

    def __init__(
        self,
        terms: ExportTerms,
        *,
        exports: CostExports,
        ledger: LedgerReader,
        wall: Callable[[], float],
    ) -> None:
        """`wall` is what time it is for people, in seconds since the epoch."""
        self._terms, self._exports, self._ledger, self._wall = terms, exports, ledger, wall
        self._wrong = ""

    def problem(self) -> str:
        """Return why the last try failed and what to do about it, "" if it did not."""
        return self._wrong

    async def keep_for_ever(self) -> None:
        """Write the files now and at each time of the schedule, until cancelled.

        What fails is tried again after `RETRY_S`.
        """
        schedule = Schedule(cron=(self._terms.cron,), time_zone=self._terms.time_zone)
        due: float | None = self._wall()
        while True:
            now = self._wall()
            if due is not None and now >= due:
                await self.write_once()
                due = now + RETRY_S if self._wrong else schedules.next_after(schedule, now)
            await asyncio.sleep(LOOK_EACH_S)

    async def write_once(self) -> None:
        """Write what has changed; a failure is told by `problem`, and in the log."""
        steps = self.writing()
        done = object()
        try:
            # In steps, so that a server that stops waits for one of them at most.
            while await asyncio.to_thread(next, steps, done) is not done:
                pass
        except (OSError, StoreBusy, StoreClosed) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self._wrong = (
                f"the files of cost cannot be written to {self._terms.directory}: {why}; make the"
                " folder writable and room on its disk, or name another one in cost.export.dir:"
                f" it is tried again every {RETRY_S / 60:g} minutes"
            )
            _log.warning("the files of cost were not written", why=why)
        else:
            self._wrong = ""

    def writing(self) -> Iterator[None]:
        """Write what has changed, in steps that block; raises OSError, `StoreBusy`, `StoreClosed`.

        What was written by then stays, and is whole.
        """
        terms = self._terms
        terms.directory.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        known = self._manifest()
        for period, hours in self._months():
            booked = self._booked(hours)
            name = f"{terms.cluster}-{period}-{terms.format.value}.csv"
            before = next((each for each in known.files if each.file == name), None)
            if before is not None and self._is_up_to_date(before, booked):
                continue
            made = yield from self._staged(name, period, hours, booked)
            if before is not None and before.sha256 == made.sha256:
                made = msgspec.structs.replace(made, written_at=before.written_at)
            path, staged = terms.directory / name, _staged_at(terms.directory, name)
            if path.exists() and _hash_of(path) == made.sha256:
                staged.unlink()
            else:
                if before is not None:
                    known = self._without(known, name)
                    self._tell(known)
                _take_place(staged, path)
            if made not in known.files:
                known = self._with(known, made)
                self._tell(known)
            yield

    def _manifest(self) -> Manifest:
        terms = self._terms
        new = Manifest(cluster=terms.cluster, format=terms.format.value)
        try:
            found = msgspec.json.decode((terms.directory / MANIFEST).read_bytes(), type=Manifest)
        except FileNotFoundError:
            return new
        except msgspec.DecodeError as error:
            _log.warning("the manifest of the files of cost is written anew", why=str(error))
            return new
        return found if (found.cluster, found.format) == (new.cluster, new.format) else new

    def _without(self, known: Manifest, name: str) -> Manifest:
        files = tuple(each for each in known.files if each.file != name)
        return msgspec.structs.replace(known, files=files, written_at=moment(self._wall()))

    def _with(self, known: Manifest, made: ExportedFile) -> Manifest:
        others = self._without(known, made.file)
        files = tuple(sorted([*others.files, made], key=lambda each: each.period))
        return msgspec.structs.replace(others, files=files)

    def _months(self) -> list[tuple[str, range]]:
        """Return the months of which anything is known, with their hours, the last ones."""
        first = self._ledger.first_hour()
        is_csv = self._terms.format is ExportFormat.CSV
        zone, now = self._terms.time_zone if is_csv else "UTC", self._wall()
        found: list[tuple[str, range]] = []
        at = now if first is None else max(first * HOUR_S, now - MONTHS_MOST * 31 * 86_400)
        while first is not None and at <= now:
            hours = month_in("", time_zone=zone, now=at)
            # The middle of a month is in that month in each zone.
            found.append((utc_hour_text((hours.start + hours.stop) // 2)[:7], hours))
            at = hours.stop * HOUR_S
        return found[-MONTHS_MOST:]

    def _booked(self, hours: range) -> str:
        """Return the hash of what is booked of some hours, "" where not all is."""
        days = range(hours.start, hours.stop, HOURS_AT_ONCE)
        spans = [(day, min(day + HOURS_AT_ONCE, hours.stop)) for day in days]
        sums = self._ledger.sums(spans, _FIELDS)
        if sums.booked_until < hours.stop:
            return ""
        told = [sorted(totals.items(), key=repr) for totals in sums.totals]
        beside = sorted(sums.corrections, key=repr)
        return hashlib.sha256(repr((told, beside) if beside else told).encode()).hexdigest()

    def _is_up_to_date(self, before: ExportedFile, booked: str) -> bool:
        if not booked or before.booked_sha256 != booked:
            return False
        path = self._terms.directory / before.file
        return path.exists() and path.stat().st_size == before.bytes

    def _staged(
        self, name: str, period: str, hours: range, booked: str
    ) -> Generator[None, None, ExportedFile]:
        """Make a file beside its place, and return what it is."""
        terms, sums, digest = self._terms, _Sums(), hashlib.sha256()
        export = CostExport(hours=hours, format=terms.format)
        lines = sums.counted(self._exports.lines(hours, _EVERYTHING))
        texts = self._exports.file_of(lines, export)
        count, size = 0, 0
        with _begun_anew(_staged_at(terms.directory, name)) as file:
            while some := list(islice(texts, _ROWS_AT_ONCE)):
                piece = "".join(some).encode()
                file.write(piece)
                digest.update(piece)
                count, size = count + len(some), size + len(piece)
                yield
            file.flush()
            os.fsync(file.fileno())
        return ExportedFile(
            file=name,
            period=period,
            since=utc_hour_text(hours.start),
            until=utc_hour_text(hours.stop),
            rows=count - 1,
            total=format(in_dollars(sums.grains), "f"),
            currency=terms.currency,
            bytes=size,
            sha256=digest.hexdigest(),
            booked_sha256=booked,
            written_at=moment(self._wall()),
        )

    def _tell(self, known: Manifest) -> None:
        """Put a manifest in the place of the one before."""
        staged = _staged_at(self._terms.directory, MANIFEST)
        with _begun_anew(staged) as file:
            file.write(msgspec.json.format(msgspec.json.encode(known)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _take_place(staged, self._terms.directory / MANIFEST)


def _staged_at(directory: Path, name: str) -> Path:
    return directory / f".{name}.part"


def _begun_anew(path: Path) -> BinaryIO:
    """Open a new file for writing, in the place of what an earlier try left there.

    What somebody else put there, as a link to another file, is not written to.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, _FILE_MODE), "wb")


def _take_place(staged: Path, path: Path) -> None:
    """Give a synced file its name, so that the name survives a loss of power, too."""
    staged.rename(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
