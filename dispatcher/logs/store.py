"""The log store: what containers wrote, in files, one a stream of an attempt, or one for both.

`LOG_DIR/SHARD/CONTAINER/ATTEMPT.stdout` and `.stderr` hold the text of a stream as it is read.
Beside one that is not whole, or sealed, lies `ATTEMPT.stdout.notes`, one JSON object a line:

- `{"gap": [FROM, TO]}`: the bytes from FROM up to TO never came. In the text one sentence stands
  for them (cut to their number when they are fewer than it has).
- `{"truncated_at": N}`: after N bytes of text nothing more was kept, since a limit was reached. A
  reader finds a sentence there that says so.
- `{"end": N}`: the stream reaches up to N, further than its text; the last such line counts.
- `{"sealed": true}`: the stream is complete; nothing is added to it any more.

Where both streams are sealed and short, one file takes their place (`dispatcher.logs.sealed`),
beside the container's directory, which goes with the last file in it: three bytes cost one inode.
If both are there, as after a crash, the sealed one counts.

There are two ways of counting. Offsets of a *stream* are the runner's: what `append` takes and
`sizes` returns. Offsets of a *text* are a reader's: what `read` takes, one for each byte that it
gave before. They are the same until the first gap; from there on the text is the shorter one, never
the longer one, however large a gap an instance tells of.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from longshore.dispatcher.config.disk_room import room_at
from longshore.dispatcher.domain.vitals import DiskRoom
from longshore.dispatcher.logs.files import (
    NOTES_LIMIT,
    LogFile,
    gap_mark,
    sync_path,
    truncation_mark,
)
from longshore.dispatcher.logs.sealed import SHORT_BYTES, SealedStreams, sealed_path, write_sealed

STREAMS = ("stdout", "stderr")
DEFAULT_MAX_LOG_BYTES = 1024**3
DEFAULT_MAX_OPEN_FILES = 512
DEFAULT_MIN_FREE_BYTES = 256 * 1024**2
MIN_FREE_INODES = 10_000
OFFSET_MAX = 2**53

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


class LogStore:
    """Keeps logs in files below one directory; every method may be called from any thread."""

    def __init__(
        self,
        log_dir: Path,
        *,
        max_log_bytes: int = DEFAULT_MAX_LOG_BYTES,
        max_open_files: int = DEFAULT_MAX_OPEN_FILES,
        min_free_bytes: int = DEFAULT_MIN_FREE_BYTES,
        on_change: Callable[[str], None] | None = None,
    ) -> None:
        """Keep logs in `log_dir`, which is made when it is first needed.

        At most `max_log_bytes` of a stream are kept, and about `max_open_files` files stay open.
        While its file system has less than `min_free_bytes` free, or is short of inodes, nothing
        is added, so that logs do not fill the disk of others.
        `on_change` is called with the id of a container whose log grew, from the thread that
        appended; it must neither block nor raise.
        """
        self._log_dir = log_dir
        # Plain numbers: a subclass of int, as a configuration's sizes are, cannot be noted as JSON.
        self._max_log_bytes = int(max_log_bytes)
        self._max_open_files = int(max_open_files)
        self._min_free_bytes = int(min_free_bytes)
        self._on_change = on_change
        self._lock = threading.Lock()
        # Nobody makes a file in a directory while another removes that as empty.
        self._directories = threading.Lock()
        self._streams: OrderedDict[Path, LogFile] = OrderedDict()
        self._new_directories: set[Path] = set()
        self._problem = ""

    @property
    def problem(self) -> str:
        """Return why logs cannot be kept at present, in one sentence; "" when all is well."""
        return self._shortage() or self._problem

    def room(self) -> DiskRoom:
        """Return how much room the disk of the logs has; raises `OSError`."""
        return room_at(self._log_dir)

    def append(
        self, attempt_id: str, container_id: str, stream: str, offset: int, data: bytes
    ) -> int:
        """Keep `data`, the bytes of "stdout" or "stderr" from `offset` on.

        What is known already is left as it is, so that repeating is harmless; bytes that are
        missing before `offset` become a marked gap; bytes beyond the limit are dropped, which is
        marked too. Returns the offset below which nothing needs to be sent again.

        Raises `OSError` when it cannot be kept (nothing is acknowledged; try again; ENOSPC also
        when others need the rest of the disk), `ValueError` for ids or offsets that cannot be, and
        for what would add to a sealed stream.
        """
        if not 0 <= offset <= OFFSET_MAX - len(data):
            raise ValueError(f"a log cannot have bytes at offset {offset}")
        path = self._path(container_id, attempt_id, stream)
        try:
            with self._using(path, container_id) as log, log.lock:
                self._open(log)
                before = log.end
                self._extend(log, offset, data)
                end = log.end
        except _NoRoomError:
            raise
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
        """Return at most `limit` bytes of the text from `offset` on; b"" when there are none (yet).

        The next ones are at `offset` plus the number of those returned. A sentence stands for each
        gap, and one more ends what was truncated. Raises `OSError`.
        """
        path = self._path(container_id, attempt_id, stream)
        with self._using(path, container_id) as log:
            with log.lock:
                if not log.open(make=False):
                    return b""
                descriptor, base, kept = log.descriptor, log.base, log.kept
                truncated_at = log.truncated_at
            # `log` is in use, so that its descriptor stays open; kept bytes never change.
            if offset < kept:
                return os.pread(descriptor, min(limit, kept - offset), base + offset)
        if truncated_at is None:
            return b""
        return truncation_mark(truncated_at)[offset - kept :][:limit]

    def sync(self, attempt_id: str, container_id: str) -> None:
        """Return when all that was kept of an attempt is on the disk; raises `OSError`."""
        directories: set[Path] = set()
        for stream in STREAMS:
            path = self._path(container_id, attempt_id, stream)
            with self._using(path, container_id) as log, log.lock:
                if log.open(make=False) and log.unsynced:
                    log.sync()
                    directories.add(path.parent)
        self._sync_directories(directories)

    def seal(self, attempt_id: str, container_id: str) -> None:
        """Declare both streams of an attempt complete: from now on nothing is added to them.

        Returns when all that was kept of them is on the disk; of long ones the seal itself survives
        an end of the process only. Repeating it is harmless. Raises `OSError`.
        """
        out, err = (self._path(container_id, attempt_id, stream) for stream in STREAMS)
        with (
            self._using(out, container_id) as stdout,
            self._using(err, container_id) as stderr,
            stdout.lock,
            stderr.lock,
        ):
            if self._seal_as_one(stdout, stderr):
                return
        self.sync(attempt_id, container_id)
        for path in (out, err):
            with self._using(path, container_id) as log, log.lock:
                self._seal_alone(log)

    def close(self) -> None:
        """Close every file; what is kept stays. Nothing may be called at the same time."""
        with self._lock:
            streams = list(self._streams.values())
            self._streams.clear()
        for log in streams:
            with log.lock:
                log.close()

    def _path(self, container_id: str, attempt_id: str, stream: str) -> Path:
        if stream not in STREAMS:
            raise ValueError(f"there is no stream {stream!r}: take stdout or stderr")
        for each in (container_id, attempt_id):
            if not _ID.fullmatch(each):
                raise ValueError(f"{each[:80]!r} is no id of a container or an attempt")
        shard = f"{zlib.crc32(container_id.encode()) & 0xFF:02x}"
        return self._log_dir / shard / container_id / f"{attempt_id}.{stream}"

    @contextmanager
    def _using(self, path: Path, container_id: str) -> Iterator[LogFile]:
        with self._lock:
            log = self._streams.get(path)
            if log is None:
                log = self._streams[path] = LogFile(path, container_id)
            log.users += 1
            self._streams.move_to_end(path)
        try:
            yield log
        finally:
            with self._lock:
                log.users -= 1
                surplus = self._surplus()
            for each in surplus:
                with each.lock:
                    each.close()

    def _surplus(self) -> list[LogFile]:
        """Take the streams that were used least lately out of the table, for closing."""
        excess = max(0, len(self._streams) - self._max_open_files)
        idle = (path for path, log in self._streams.items() if log.users == 0)
        return [self._streams.pop(path) for path in list(islice(idle, excess))]

    def _open(self, log: LogFile) -> None:
        if not log.open(make=False):
            with self._directories:
                self._make_directories(log.path.parent)
                log.open(make=True)

    def _seal_alone(self, log: LogFile) -> None:
        if log.open(make=False):
            log.seal()
            return
        with self._directories:
            self._make_directories(log.path.parent)
            log.seal()

    def _seal_as_one(self, stdout: LogFile, stderr: LogFile) -> bool:
        """Put two short streams into one file; return whether that is done."""
        both = (stdout, stderr)
        there = [log.open(make=False) for log in both]
        path = sealed_path(stdout.path)
        if not path.exists():
            if (all(there) and all(log.sealed for log in both)) or (
                sum(log.kept for log in both) > SHORT_BYTES
            ):
                return False
            streams = SealedStreams(stdout=stdout.as_sealed(), stderr=stderr.as_sealed())
            self._make_directories(path.parent)
            try:
                write_sealed(path, streams, stdout.text() + stderr.text())
            except OSError:
                # A full disk has room for a note: they stay as they are, and are sealed there.
                return False
        # Their own files go only when the disk knows the name of this one.
        self._sync_directories({path.parent})
        for log in both:
            log.give_up_files()
        self._remove_directory(stdout.path.parent)
        return True

    def _sync_directories(self, directories: set[Path]) -> None:
        """Return when the names in directories, and their own if they are new, are on the disk."""
        with self._lock:
            made = sorted(self._new_directories & _ancestry(directories))
        for directory in sorted(directories.union(made)):
            sync_path(directory)
        with self._lock:
            self._new_directories.difference_update(made)

    def _remove_directory(self, directory: Path) -> None:
        """Remove a container's directory, unless there is something of another attempt."""
        with self._directories:
            try:
                directory.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise

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
            return log.end if log.open(make=False) else 0

    def _extend(self, log: LogFile, offset: int, data: bytes) -> None:
        if offset + len(data) <= log.end:
            return
        if log.sealed:
            raise ValueError(f"{log.path.name} is complete: nothing can be added to it")
        if log.truncated_at is None and (shortage := self._shortage()):
            raise _NoRoomError(errno.ENOSPC, shortage)
        if offset > log.end:
            self._leave_gap(log, offset)
        fresh = data[log.end - offset :]
        wanted = fresh[: self._room(log)]
        log.write(wanted)
        if len(fresh) > len(wanted):
            log.truncate()
            log.end += len(fresh) - len(wanted)

    def _leave_gap(self, log: LogFile, offset: int) -> None:
        """Make the bytes from the end of the stream up to `offset` a gap."""
        mark = gap_mark(offset - log.end)
        if len(mark) <= self._room(log) and log.notes < NOTES_LIMIT:
            log.skip(offset, mark)
        else:
            log.truncate()
            log.end = offset

    def _room(self, log: LogFile) -> int:
        return max(0, self._max_log_bytes - log.kept) if log.truncated_at is None else 0

    def _shortage(self) -> str:
        """Return why nothing may be written, in one sentence; "" when there is room."""
        room = self.room()
        free_bytes, free_inodes = room.free_bytes, room.free_inodes
        # Of a small disk a hundredth.
        min_free_inodes = min(MIN_FREE_INODES, room.inodes // 100)
        if free_inodes is not None and free_inodes < min_free_inodes:
            return (
                f"logs cannot be kept: their disk has {free_inodes} inodes free, and the last "
                f"{min_free_inodes} are left to others"
            )
        if free_bytes >= self._min_free_bytes:
            return ""
        mib = 1024**2
        return (
            f"logs cannot be kept: their disk has {free_bytes // mib} MiB free, and the last "
            f"{self._min_free_bytes // mib} MiB are left to others"
        )


class _NoRoomError(OSError):
    """Others need what is left of the disk; `problem` says so for as long as it is so."""


def _ancestry(directories: set[Path]) -> set[Path]:
    return {each for directory in directories for each in (directory, *directory.parents)}
