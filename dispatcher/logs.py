"""The log store: what containers wrote, in files, one a stream of an attempt.

`LOG_DIR/SHARD/CONTAINER/ATTEMPT.stdout` and `.stderr` hold the bytes of a stream at their own
offsets. Beside a stream that is not whole lies `ATTEMPT.stdout.notes`, one JSON object a line:

- `{"gap": [FROM, TO]}`: the bytes from FROM up to TO never came. In the file they are a hole, with
  a sentence that says so at its start, cut to its length.
- `{"truncated_at": N}`: bytes from N on were dropped, since the limit of a stream was reached.
- `{"end": N}`: the stream reaches up to N, further than its file; the last such line counts.

So an offset means the same to the runner, to the file and to a reader, up to the limit; beyond it
a reader finds one sentence that says where the stream was cut.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec

STREAMS = ("stdout", "stderr")
DEFAULT_MAX_LOG_BYTES = 1024**3
DEFAULT_MAX_OPEN_FILES = 512

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_NOTES_LIMIT = 10_000


class _Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    gap: tuple[int, int] | None = None
    truncated_at: int | None = None
    end: int | None = None


_NOTE_DECODER = msgspec.json.Decoder(_Note)


@dataclass(slots=True, eq=False)
class _Stream:
    """One open stream; `users` belongs to the store's lock, everything else to its own.

    `kept` is how far its file reaches, `end` how far the stream does; they differ once it is
    truncated. One that was just opened counts as `unsynced`: who wrote it last is not known.
    """

    path: Path
    container_id: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    descriptor: int = -1
    kept: int = 0
    end: int = 0
    noted_end: int = 0
    truncated_at: int | None = None
    notes: int = 0
    unsynced: bool = True

    @property
    def notes_path(self) -> Path:
        return self.path.with_name(self.path.name + ".notes")


class LogStore:
    """Keeps logs in files below one directory; every method may be called from any thread."""

    def __init__(
        self,
        log_dir: Path,
        *,
        max_log_bytes: int = DEFAULT_MAX_LOG_BYTES,
        max_open_files: int = DEFAULT_MAX_OPEN_FILES,
        on_change: Callable[[str], None] | None = None,
    ) -> None:
        """Keep logs in `log_dir`, which is made when it is first needed.

        At most `max_log_bytes` of a stream are kept, and about `max_open_files` files stay open.
        `on_change` is called with the id of a container whose log grew, from the thread that
        appended; it must neither block nor raise.
        """
        self._log_dir = log_dir
        self._max_log_bytes = max_log_bytes
        self._max_open_files = max_open_files
        self._on_change = on_change
        self._lock = threading.Lock()
        self._streams: OrderedDict[Path, _Stream] = OrderedDict()
        self._new_directories: set[Path] = set()
        self._problem = ""

    @property
    def problem(self) -> str:
        """Return why logs cannot be kept at present, in one sentence; "" when all is well."""
        return self._problem

    def append(
        self, attempt_id: str, container_id: str, stream: str, offset: int, data: bytes
    ) -> int:
        """Keep `data`, the bytes of "stdout" or "stderr" from `offset` on.

        What is known already is left as it is, so that repeating is harmless; bytes that are
        missing before `offset` become a marked gap; bytes beyond the limit are dropped, which is
        marked too. Returns the offset below which nothing needs to be sent again.

        Raises `OSError` when it cannot be kept (nothing is acknowledged; try again), `ValueError`
        for ids or offsets that cannot be.
        """
        if offset < 0:
            raise ValueError(f"a log cannot have bytes at offset {offset}")
        path = self._path(container_id, attempt_id, stream)
        try:
            with self._using(path, container_id) as log, log.lock:
                self._open(log, make=True)
                before = log.end
                self._extend(log, offset, data)
                end = log.end
        except OSError as error:
            self._problem = f"logs cannot be kept: {error.strerror or error}"
            raise
        self._problem = ""
        if end > before and self._on_change is not None:
            self._on_change(container_id)
        return end

    def sizes(self, attempt_id: str, container_id: str) -> tuple[int, int]:
        """Return up to which offsets stdout and stderr are known; sending goes on from there.

        The runner's offsets are meant, dropped and missing bytes included. Raises `OSError`.
        """
        stdout, stderr = (self._end(container_id, attempt_id, stream) for stream in STREAMS)
        return stdout, stderr

    def read(
        self, container_id: str, attempt_id: str, stream: str, offset: int, limit: int
    ) -> bytes:
        """Return at most `limit` bytes from `offset` on; b"" when there are none (yet).

        A truncated stream ends in a sentence that says so. Raises `OSError`.
        """
        path = self._path(container_id, attempt_id, stream)
        with self._using(path, container_id) as log:
            with log.lock:
                if not self._open(log, make=False):
                    return b""
                descriptor, kept, truncated_at = log.descriptor, log.kept, log.truncated_at
            # `log` is in use, so that its descriptor stays open; kept bytes never change.
            if offset < kept:
                return os.pread(descriptor, min(limit, kept - offset), offset)
        if truncated_at is None:
            return b""
        return _truncation_mark(truncated_at)[offset - kept :][:limit]

    def sync(self, attempt_id: str, container_id: str) -> None:
        """Return when all that was kept of an attempt is on the disk; raises `OSError`."""
        directories: set[Path] = set()
        for stream in STREAMS:
            path = self._path(container_id, attempt_id, stream)
            with self._using(path, container_id) as log, log.lock:
                if self._open(log, make=False) and log.unsynced:
                    self._sync_stream(log)
                    directories.add(path.parent)
        with self._lock:
            made = sorted(self._new_directories & _ancestry(directories))
        for directory in sorted(directories.union(made)):
            _sync_path(directory)
        with self._lock:
            self._new_directories.difference_update(made)

    def close(self) -> None:
        """Close every file; what is kept stays. Nothing may be called at the same time."""
        with self._lock:
            streams = list(self._streams.values())
            self._streams.clear()
        for log in streams:
            _close(log)

    def _path(self, container_id: str, attempt_id: str, stream: str) -> Path:
        if stream not in STREAMS:
            raise ValueError(f"there is no stream {stream!r}: take stdout or stderr")
        for each in (container_id, attempt_id):
            if not _ID.fullmatch(each):
                raise ValueError(f"{each[:80]!r} is no id of a container or an attempt")
        shard = f"{zlib.crc32(container_id.encode()) & 0xFF:02x}"
        return self._log_dir / shard / container_id / f"{attempt_id}.{stream}"

    @contextmanager
    def _using(self, path: Path, container_id: str) -> Iterator[_Stream]:
        with self._lock:
            log = self._streams.get(path)
            if log is None:
                log = self._streams[path] = _Stream(path, container_id)
            log.users += 1
            self._streams.move_to_end(path)
        try:
            yield log
        finally:
            with self._lock:
                log.users -= 1
                surplus = self._surplus()
            for each in surplus:
                _close(each)

    def _surplus(self) -> list[_Stream]:
        """Take the streams that were used least lately out of the table, for closing."""
        excess = max(0, len(self._streams) - self._max_open_files)
        idle = (path for path, log in self._streams.items() if log.users == 0)
        return [self._streams.pop(path) for path in list(islice(idle, excess))]

    def _open(self, log: _Stream, *, make: bool) -> bool:
        """Open a stream that is not open; return whether it is."""
        if log.descriptor >= 0:
            return True
        if make:
            self._make_directories(log.path.parent)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0)
        try:
            descriptor = os.open(log.path, flags, 0o600)
        except FileNotFoundError:
            if make:
                raise
            return False
        log.kept = log.end = os.fstat(descriptor).st_size
        log.descriptor = descriptor
        _read_notes(log)
        return True

    def _make_directories(self, directory: Path) -> None:
        missing = [each for each in (directory, *directory.parents) if not each.exists()]
        for each in reversed(missing):
            with suppress(FileExistsError):
                each.mkdir(mode=0o700)
            with self._lock:
                self._new_directories.add(each.parent)

    def _end(self, container_id: str, attempt_id: str, stream: str) -> int:
        path = self._path(container_id, attempt_id, stream)
        with self._using(path, container_id) as log, log.lock:
            return log.end if self._open(log, make=False) else 0

    def _extend(self, log: _Stream, offset: int, data: bytes) -> None:
        if offset + len(data) <= log.end:
            return
        if offset > log.end:
            self._leave_gap(log, offset)
        fresh = data[log.end - offset :]
        room = max(0, self._max_log_bytes - log.kept) if log.truncated_at is None else 0
        wanted = fresh[:room]
        written = 0
        try:
            while written < len(wanted):
                written += os.pwrite(log.descriptor, wanted[written:], log.kept + written)
        finally:
            log.kept += written
            log.end += written
            log.unsynced = True
        if len(fresh) > room:
            self._truncate(log)
            log.end += len(fresh) - room

    def _leave_gap(self, log: _Stream, offset: int) -> None:
        """Make the bytes from the end of the stream up to `offset` a gap, as far as they count."""
        stop = min(offset, max(self._max_log_bytes, log.kept))
        if log.truncated_at is None and stop > log.kept:
            mark = _gap_mark(stop - log.kept)
            _note(log, _Note(gap=(log.kept, stop)))
            os.pwrite(log.descriptor, mark, log.kept)
            os.ftruncate(log.descriptor, stop)
            log.kept = log.end = stop
            log.unsynced = True
        if offset > log.end:
            self._truncate(log)
            log.end = offset

    def _truncate(self, log: _Stream) -> None:
        log.unsynced = True
        if log.truncated_at is None:
            _note(log, _Note(truncated_at=log.kept))
            log.truncated_at = log.kept

    def _sync_stream(self, log: _Stream) -> None:
        os.fsync(log.descriptor)
        if log.end != max(log.kept, log.noted_end):
            _note(log, _Note(end=log.end))
            log.noted_end = log.end
        if log.notes:
            _sync_path(log.notes_path)
        log.unsynced = False


def _gap_mark(length: int) -> bytes:
    return f"\n[longshore: {length} bytes of this log are missing here]\n".encode()[:length]


def _truncation_mark(length: int) -> bytes:
    return f"\n[longshore: this log is cut off here, after {length} bytes]\n".encode()


def _read_notes(log: _Stream) -> None:
    if not log.notes_path.exists():
        return
    truncated_at, end = None, log.kept
    for line in log.notes_path.read_bytes().split():
        try:
            note = _NOTE_DECODER.decode(line)
        except msgspec.DecodeError:
            # Torn by a crash before it was synced, so that nothing was promised of it.
            continue
        log.notes += 1
        truncated_at = truncated_at if note.truncated_at is None else note.truncated_at
        end = end if note.end is None else note.end
    # A file that is shorter than it was cut lost its end with the power: it is asked for again.
    if truncated_at is not None and truncated_at <= log.kept:
        log.truncated_at = truncated_at
        log.end = log.noted_end = max(end, log.kept)


def _note(log: _Stream, note: _Note) -> None:
    if log.notes >= _NOTES_LIMIT and note.gap is not None:
        return
    # The line break before it ends a line that a crash tore.
    line = b"\n" + msgspec.json.encode(note) + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(log.notes_path, flags, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
    log.notes += 1


def _close(log: _Stream) -> None:
    with log.lock:
        if log.descriptor >= 0:
            os.close(log.descriptor)
            log.descriptor = -1


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ancestry(directories: set[Path]) -> set[Path]:
    return {each for directory in directories for each in (directory, *directory.parents)}
