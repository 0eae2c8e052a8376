"""One stream of a log on disk: the file with its text, and beside it the notes on what is missing.

What the notes say is told in `dispatcher.logs.store`. Nothing here locks: a `LogFile` is used under
its own lock.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from longshore.dispatcher.logs.sealed import SealedStream, read_header, sealed_path

NOTES_LIMIT = 10_000


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the notes; exactly one of its fields is set."""

    gap: tuple[int, int] | None = None
    truncated_at: int | None = None
    end: int | None = None
    sealed: bool = False


_NOTE_DECODER = msgspec.json.Decoder(Note)


@dataclass(slots=True, eq=False)
class LogFile:
    """One stream of a log. `users` belongs to the store's lock, everything else to its own."""

    path: Path
    container_id: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    descriptor: int = -1
    #: Where its text begins in the file.
    base: int = 0
    #: How far its text reaches.
    kept: int = 0
    #: How far the stream does: by `skipped` further, and further still once it is truncated.
    end: int = 0
    #: The bytes of its gaps, less the sentences that stand for them.
    skipped: int = 0
    noted_end: int = 0
    truncated_at: int | None = None
    sealed: bool = False
    notes: int = 0
    #: Also True of one that was just opened: who wrote it last is not known.
    unsynced: bool = True

    @property
    def notes_path(self) -> Path:
        """Return where its notes are, if there are any."""
        return self.path.with_name(self.path.name + ".notes")

    def open(self, *, make: bool) -> bool:
        """Open the file, unless it is open, and learn from its notes; return whether it is.

        Without `make` a file that does not exist is none. Raises `OSError`.
        """
        if self.descriptor >= 0 or self._open_sealed():
            return True
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0)
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            if make:
                raise
            return False
        try:
            self._learn(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self.descriptor = descriptor
        return True

    def close(self) -> None:
        """Close the file; opening it again is harmless."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def write(self, data: bytes) -> None:
        """Put `data` at the end; raises `OSError` when not all of it could be, and keeps the rest.

        `kept` and `end` tell how much there is now.
        """
        written = 0
        self.unsynced = True
        try:
            while written < len(data):
                written += os.pwrite(self.descriptor, data[written:], self.kept + written)
        finally:
            self.kept += written
            self.end += written

    def skip(self, offset: int, mark: bytes) -> None:
        """Let `mark` stand for the bytes from the end of the stream up to `offset`, all or none.

        Raises `OSError`.
        """
        self.unsynced = True
        # On the disk before its mark is, or a loss of power could turn the mark into text.
        self.note(Note(gap=(self.end, offset)))
        self.sync_notes()
        written = 0
        try:
            while written < len(mark):
                written += os.pwrite(self.descriptor, mark[written:], self.kept + written)
        except OSError:
            os.ftruncate(self.descriptor, self.kept)
            raise
        self.kept += len(mark)
        self.skipped += offset - self.end - len(mark)
        self.end = offset

    def truncate(self) -> None:
        """Note that nothing is kept from here on; raises `OSError`."""
        self.unsynced = True
        if self.truncated_at is None:
            self.note(Note(truncated_at=self.kept))
            self.truncated_at = self.kept

    def text(self) -> bytes:
        """Return all of the text that is kept, b"" where there is no file; raises `OSError`."""
        return os.pread(self.descriptor, self.kept, self.base) if self.descriptor >= 0 else b""

    def as_sealed(self) -> SealedStream:
        """Return what is to be known of it beside its text, once it is sealed."""
        return SealedStream(kept=self.kept, end=self.end, truncated_at=self.truncated_at)

    def give_up_files(self) -> None:
        """Remove its own files, since the sealed one has all of it; raises `OSError`.

        Where it is open it stays so, for those who read it.
        """
        self.sealed, self.unsynced = True, False
        self.path.unlink(missing_ok=True)
        self.notes_path.unlink(missing_ok=True)

    def seal(self) -> None:
        """Note that nothing more comes; raises `OSError`."""
        if not self.sealed:
            self.note(Note(sealed=True))
            self.sealed = True

    def sync(self) -> None:
        """Return when text and notes are on the disk; raises `OSError`."""
        os.fsync(self.descriptor)
        if self.end != max(self.kept + self.skipped, self.noted_end):
            self.note(Note(end=self.end))
            self.noted_end = self.end
        if self.notes:
            sync_path(self.notes_path)
        self.unsynced = False

    def note(self, note: Note) -> None:
        """Append a line to the notes; raises `OSError`."""
        # The line break before it ends a line that a crash tore.
        line = b"\n" + msgspec.json.encode(note) + b"\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self.notes_path, flags, 0o600)
        try:
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.notes_path))
        finally:
            os.close(descriptor)
        self.notes += 1

    def sync_notes(self) -> None:
        """Return when the notes, and that there are any, are on the disk; raises `OSError`."""
        sync_path(self.notes_path)
        sync_path(self.path.parent)

    def _open_sealed(self) -> bool:
        path = sealed_path(self.path)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            streams, texts_at = read_header(descriptor, path)
        except BaseException:
            os.close(descriptor)
            raise
        stream = self.path.suffix.removeprefix(".")
        known = streams.stderr if stream == "stderr" else streams.stdout
        self.base = texts_at + streams.base(stream)
        self.kept, self.end, self.truncated_at = known.kept, known.end, known.truncated_at
        self.sealed, self.unsynced = True, False
        self.descriptor = descriptor
        return True

    def _learn(self, descriptor: int) -> None:
        self.base = 0
        notes = list(self._read_notes())
        self.notes = len(notes)
        self.kept = os.fstat(descriptor).st_size
        self.skipped = 0
        for note in notes:
            if note.gap is not None:
                self._learn_gap(descriptor, *note.gap)
        self.end = self.kept + self.skipped
        self.sealed = any(note.sealed for note in notes)
        cuts = [note.truncated_at for note in notes if note.truncated_at is not None]
        # A file that is shorter than it was cut lost its end with the power: it is asked for again.
        if cuts and cuts[-1] <= self.kept:
            self.truncated_at = cuts[-1]
            ends = [note.end for note in notes if note.end is not None]
            self.end = self.noted_end = max([self.end, *ends[-1:]])

    def _learn_gap(self, descriptor: int, start: int, stop: int) -> None:
        """Count a gap whose mark is in the file; cut off one that was torn while it was written."""
        mark = gap_mark(stop - start)
        at = start - self.skipped
        found = os.pread(descriptor, len(mark), at) if 0 <= at < self.kept else b""
        if found == mark:
            self.skipped += stop - start - len(mark)
        elif found and mark.startswith(found):
            os.ftruncate(descriptor, at)
            self.kept = at

    def _read_notes(self) -> Iterable[Note]:
        if not self.notes_path.exists():
            return
        for line in self.notes_path.read_bytes().split():
            try:
                yield _NOTE_DECODER.decode(line)
            except msgspec.DecodeError:
                # Torn by a crash before it was synced, so that nothing was promised of it.
                continue


def gap_mark(length: int) -> bytes:
    """Return what stands in the file for `length` missing bytes, never longer than they are."""
    return f"\n[longshore: {length} bytes of this log are missing here]\n".encode()[:length]


def truncation_mark(length: int) -> bytes:
    """Return what a reader finds after a log of which `length` bytes were kept."""
    return f"\n[longshore: this log is cut off here, after {length} bytes]\n".encode()


def sync_path(path: Path) -> None:
    """Return when a file, or the names in a directory, are on the disk; raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
