"""What the runner keeps of each attempt: claimed once, watched by a lock, kept until released.

An attempt is a directory that appears at once and complete, by a rename, so that it is claimed by
exactly one start. Its supervisor inherits a lock on the file `lock` in it: as long as that is held,
a supervisor lives, whatever its pid; the kernel drops it with the process, so a reused pid deceives
nobody and there is no moment between claim and spawn that needs a guess.

The spool may be full at any moment: where it lies in shared memory, any job can fill that. So all
that must be written once an attempt runs is allocated when it is claimed, and written over.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from typing import Any, Iterable, NamedTuple

from longshore.pool.runner import images, machine, usage
from longshore.pool.runner.engine_faults import is_of_the_request, unexecuted
from longshore.pool.runner.stores import Stores
from longshore.pool.runner.wire import NAME

STREAMS = ("stdout", "stderr")
PROGRAM_CHARACTERS_KEPT = 200  # of the name of an attempt's program: more than is told of it
RUNNER_DIR_VARIABLE = "LONGSHORE_RUNNER_DIR"
MESSAGE_CHARACTERS = 500
RECORD_BYTES = 64  # more than any record of an end or a process has
FALLOC_FL_KEEP_SIZE = 1
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - what lies there is checked to be ours before use
KILLED = "killed"  # this file is there once a container's attempt was signalled; before, UNKILLED
UNKILLED = "unkilled"
LOST_MESSAGE = "what watched over it on the instance ended without recording an exit"
REMOVED_MESSAGE = "it ran, and its container was removed by somebody else"
UNSTARTED_MESSAGE = "it was told to end before its program was started"


class SpoolError(Exception):
    """The runner's directories cannot be used; the message says why."""


class SpoolPaths(NamedTuple):
    """Where things lie: the runner's directory, and this cluster's spool, logs and work.

    `apart` is for the work of another user who is not let into the runner's directory.
    """

    runner: str
    spool: str
    logs: str
    work: str
    name: str
    apart: str


class SpooledAttempt(NamedTuple):
    """What was written down when an attempt was claimed.

    `program` is the first word of an order with an image, "" for none, and `overrides` says that it
    takes the place of the image's ENTRYPOINT. What is as by default at the end is not written down.
    """

    attempt_id: str
    container_id: str
    engine: str
    boot_id: str
    cgroup: str
    claimed_at: float
    resident: bool = False
    program: str = ""
    overrides: bool = False


class Ended(NamedTuple):
    """The record of an end: `ran` is false when the program was never started.

    `code` is None where there is none to tell: it was lost, or told to end before the start.
    """

    kind: str
    code: int | None
    ran: bool
    finished_at: float


def places(cluster: str, environ: dict[str, str]) -> SpoolPaths:
    """Return where this cluster's things lie for the user that we are; makes nothing.

    SpoolError when the cluster's name cannot be a directory's.
    """
    if not NAME.fullmatch(cluster):
        raise SpoolError("a cluster's name is letters, digits, dots and dashes")
    default = "/var/lib/longshore" if os.geteuid() == 0 else os.path.expanduser("~/.longshore")
    runner = os.path.abspath(environ.get(RUNNER_DIR_VARIABLE) or default)
    digest = hashlib.sha256(f"{runner}\0{cluster}".encode()).hexdigest()[:16]
    name = f"longshore-{os.geteuid()}-{digest}"
    own = os.path.join(runner, cluster)
    shared = f" {_SHARED_MEMORY} tmpfs " in machine.read_text("/proc/mounts")
    spool = os.path.join(_SHARED_MEMORY, name) if shared else os.path.join(own, "spool")
    apart = f"/var/tmp/longshore-work-{os.geteuid()}-{digest}"  # noqa: S108 - it is checked to be ours before use
    return SpoolPaths(runner, spool, f"{own}/logs", f"{own}/work", name, apart)


def own_directory(path: str) -> None:
    """Make a directory for us alone, or raise SpoolError if what is there is not that."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
    except OSError as error:
        raise SpoolError(f"cannot use {path}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise SpoolError(f"{path} is not a directory of our own: somebody else made it")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(path, 0o700)


def write_whole(path: str, content: bytes) -> None:
    """Replace a file at once: a reader sees the old content or the new, never a part."""
    temporary = f"{path}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)


def write_over(path: str, content: bytes) -> None:
    """Write the begin of a file anew, which needs no room where it was allocated before.

    A few bytes: a reader that comes later sees all of them.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, content, 0)
    finally:
        os.close(descriptor)


def allocate(path: str) -> None:
    """Make an empty file with room for a record; OSError when there is none.

    The room lies beyond its end, so that the file grows by what is written, all at once for a
    reader; `>` in a shell gives it up, `1<>` does not. A file system that cannot do it (NFS) gets
    an empty file: who writes there must be ready to write again.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        error = fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, RECORD_BYTES)
        if error not in (0, errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(error, os.strerror(error), path)
    finally:
        os.close(descriptor)


def fallocate(descriptor: int, mode: int, start: int, length: int) -> int:
    """Change what room a file has on its disk; returns 0, or the number of the error."""
    library = ctypes.CDLL(None, use_errno=True)
    function = library.fallocate if ctypes.sizeof(ctypes.c_long) == 8 else library.fallocate64
    if function(descriptor, mode, ctypes.c_int64(start), ctypes.c_int64(length)) == 0:
        return 0
    return ctypes.get_errno()


class Spool:
    """The attempts of one cluster on this machine; made on first use."""

    def __init__(self, where: SpoolPaths) -> None:
        self.places = where
        self.attempts_dir = os.path.join(where.spool, "attempts")
        self._new_dir = os.path.join(where.spool, "new")
        self.fifo = os.path.join(where.spool, "fifo")
        self.words = os.path.join(where.spool, "words")
        self.boot_id = machine.boot_id()
        self.leaving_dir = os.path.join(where.spool, "leaving")
        # The logs first: who clears up after us finds the spool by the cluster's directory.
        for path in (where.logs, where.spool, self.attempts_dir, self._new_dir, self.leaving_dir):
            own_directory(path)
        os.makedirs(where.work, mode=0o711, exist_ok=True)
        _make_fifo(self.fifo)
        _make_fifo(self.words)
        self.stores = Stores(where.spool)

    @property
    def needs_keeper(self) -> bool:
        """Return whether the spool is safe only while a process of ours lives.

        When the last process of a user's last session has ended, systemd-logind removes what is
        theirs in shared memory (`RemoveIPC`, which is on by default): all but root's, and that of
        users who are the system's.
        """
        return os.geteuid() != 0 and self.is_in_memory

    @property
    def is_in_memory(self) -> bool:
        """Return whether the spool lies in shared memory, which no disk ever has."""
        return os.path.dirname(self.places.spool) == _SHARED_MEMORY

    def let_others_through(self) -> None:
        """Let a job of another user reach its working directory, and nothing else, by path."""
        for path in (self.places.work, os.path.dirname(self.places.work), self.places.runner):
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | 0o011)  # noqa: S103 - to pass through is neither to list nor to read

    def make_apart(self) -> None:
        """Make the place for the work of others; SpoolError when somebody else has made it."""
        own_directory(self.places.apart)
        os.chmod(self.places.apart, 0o711)  # noqa: S103 - to pass through is neither to list nor to read

    def path(self, attempt_id: str, name: str = "") -> str:
        """Return the path of an attempt's directory, or of a file in it."""
        return os.path.join(self.attempts_dir, attempt_id, name)

    def log(self, attempt_id: str, stream: str) -> str:
        """Return the path of an attempt's log of `stream`."""
        return os.path.join(self.places.logs, f"{attempt_id}.{stream}")

    def pipe(self, attempt_id: str, stream: str) -> str:
        """Return the path of the pipe that an attempt writes `stream` into."""
        return self.path(attempt_id, f"{stream}.pipe")

    def collected(self, attempt_id: str) -> str:
        """Return the path of the pipe by which a supervisor is told that its output was taken."""
        return self.path(attempt_id, "collected")

    def kept(self, attempt_id: str, stream: str) -> str:
        """Return the path of the record of what was given up of the begin of `stream`."""
        return self.path(attempt_id, f"kept.{stream}")

    def gap(self, attempt_id: str, stream: str) -> str:
        """Return the path of the record of what is missing within `stream`."""
        return self.path(attempt_id, f"gap.{stream}")

    def tell(self, fifo: str, word: str) -> None:
        """Write a word to one of our fifos; without a reader, or one that keeps up, it is lost."""
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
            try:
                os.write(descriptor, f"{word}\n".encode())
            finally:
                os.close(descriptor)

    # ---- what the session remembers ----

    def epoch(self) -> int:
        """Return the highest epoch that was ever seen here, 0 at first."""
        text = machine.read_text(os.path.join(self.places.spool, "epoch"))
        return int(text) if text.isdecimal() else 0

    def remember_epoch(self, epoch: int) -> None:
        """Keep the highest epoch for the sessions to come.

        Over the last one, since a spool that is full must not keep who leads from taking over.
        """
        write_over(os.path.join(self.places.spool, "epoch"), b"%020d" % epoch)

    def broken(self) -> str:
        """Return the first line of the file `broken`, by which an instance asks to be drained."""
        lines = machine.read_text(os.path.join(self.places.runner, "broken")).splitlines()
        return lines[0][:MESSAGE_CHARACTERS] if lines else ""

    # ---- the life of an attempt ----

    def claim(self, attempt: SpooledAttempt) -> int | None:
        """Claim an attempt and return the lock that its supervisor shall inherit.

        None when it was claimed before. Closing the last copy of the lock without an exit record
        makes the attempt lost.
        """
        if os.path.exists(self.path(attempt.attempt_id)):
            return None
        temporary, lock = os.path.join(self._new_dir, attempt.attempt_id), -1
        os.mkdir(temporary, 0o700)
        try:
            with open(f"{temporary}/order", "w", encoding="utf-8") as record:
                # An older runner, if somebody goes back to one, reads what it knows.
                json.dump(_written(attempt), record)
            lock = os.open(f"{temporary}/lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in ("job", "exit", "grace", UNKILLED):
                allocate(f"{temporary}/{name}")
            os.rename(temporary, self.path(attempt.attempt_id))
        except OSError:
            if lock >= 0:
                os.close(lock)
            remove_flat(temporary)
            raise
        return lock

    def sweep(self) -> None:
        """Remove what a runner left that died while it claimed or forgot; nothing of it runs."""
        for name in os.listdir(self._new_dir):
            remove_flat(os.path.join(self._new_dir, name))
        for name in os.listdir(self.leaving_dir):
            if self.read_leaving(name) is None:
                remove_flat(self.leaving(name))

    def attempts(self) -> list[SpooledAttempt]:
        """Return every attempt that is not released, sorted by id."""
        found = [self.read(name) for name in sorted(os.listdir(self.attempts_dir))]
        return [attempt for attempt in found if attempt is not None]

    def read(self, attempt_id: str) -> SpooledAttempt | None:
        """Return what was claimed under an id, None when nothing is."""
        return _read_order(self.path(attempt_id, "order"))

    def read_leaving(self, attempt_id: str) -> SpooledAttempt | None:
        """Return what is known of a released attempt, None when its container is gone."""
        return _read_order(self.leaving(attempt_id, "order"))

    def ended(self, attempt_id: str) -> Ended | None:
        """Return how an attempt ended, None when no end is recorded or its log is not whole yet."""
        return None if self.is_collected(attempt_id) else self.recorded(attempt_id)

    def is_collected(self, attempt_id: str) -> bool:
        """Return whether anything of what an attempt writes may not be in its log yet."""
        return any(os.path.exists(self.pipe(attempt_id, stream)) for stream in STREAMS)

    def recorded(self, attempt_id: str) -> Ended | None:
        """Return what the record of an end says, None when there is none (yet)."""
        path = self.path(attempt_id, "exit")
        text = machine.read_text(path)
        # The record is one write of a few bytes ending in a newline: without it, it is not there.
        if not text.endswith("\n"):
            return None
        finished_at = self._ended_at(attempt_id)
        if text == "lost\n":
            return Ended("lost", None, True, finished_at)
        code, out_of_memory, state = text.split()
        if state == "never":
            # What its client made of a signal of ours is nobody's exit code.
            told = os.path.exists(self.path(attempt_id, KILLED))
            return Ended("engine_failure", None if told else int(code), False, finished_at)
        kind = "out_of_memory" if out_of_memory == "1" and code != "0" else "exited"
        return Ended(kind, int(code), True, finished_at)

    def _ended_at(self, attempt_id: str) -> float:
        """Return when the program of an ended attempt ended: others may have had a grace after."""
        try:
            return os.stat(self.path(attempt_id, "program-ended")).st_mtime
        except FileNotFoundError:
            return os.stat(self.path(attempt_id, "exit")).st_mtime

    def begin_grace(self, attempt_id: str, grace_s: float) -> None:
        """Have the supervisor leave what outlives the program alone for so long from now on.

        What was said last counts. OSError when it cannot be written down.
        """
        until_cs = machine.uptime_cs() + round(grace_s * 100)
        write_over(self.path(attempt_id, "grace"), b"%020d\n" % until_cs)

    def end_grace(self, attempt_id: str) -> None:
        """Have the supervisor kill what is left at once, if it had been left alone."""
        with contextlib.suppress(FileNotFoundError):  # an older runner made no such file
            descriptor = os.open(self.path(attempt_id, "grace"), os.O_WRONLY)
            try:
                if os.fstat(descriptor).st_size:
                    os.pwrite(descriptor, b"0\n", 0)
            finally:
                os.close(descriptor)

    def seize(self, attempt_id: str) -> int | None:
        """Return the lock of an attempt that has neither supervisor nor exit record, else None.

        Whoever gets it buries the attempt: its processes may live on without a supervisor.
        """
        try:
            lock = os.open(self.path(attempt_id, "lock"), os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        if self.recorded(attempt_id) is not None:
            os.close(lock)
            return None
        return lock

    def record_lost(self, attempt_id: str) -> None:
        """Record that an attempt is lost; the caller has seized it and killed what was left."""
        write_over(self.path(attempt_id, "exit"), b"lost\n")
        self.tell(self.words, attempt_id)

    def mark_killed(self, attempt_id: str) -> int:
        """Mark a container's attempt as signalled and return the mark, open for a lock."""
        path = self.path(attempt_id, KILLED)
        with contextlib.suppress(FileNotFoundError):  # it was signalled before
            os.rename(self.path(attempt_id, UNKILLED), path)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def job(self, attempt: SpooledAttempt) -> tuple[int, int]:
        """Return pid and start of the job (or of the engine's client), zeros when unrecorded."""
        fields = self._job_fields(attempt.attempt_id)
        if len(fields) < 2 or attempt.boot_id != self.boot_id:
            return 0, 0
        return int(fields[0]), int(fields[1])

    def image(self, attempt_id: str) -> images.Image | None:
        """Return what is known of the image of an attempt, None while nothing is (or for none)."""
        if os.path.exists(self.path(attempt_id, images.PULLING)):
            return images.Image(pulling=True)
        text = self._image_record(attempt_id)
        return images.parse(text)[0] if text else None

    def stop_signal(self, attempt_id: str) -> str:
        """Return the signal that the image of an attempt wants in place of TERM, "" for TERM."""
        return images.parse(self._image_record(attempt_id))[1]

    def _image_record(self, attempt_id: str) -> str:
        return machine.read_text(self.path(attempt_id, images.RECORD))[: images.MOST_BYTES]

    def supervisor(self, attempt_id: str) -> int:
        """Return the pid that an attempt's supervisor has, or had; 0 when unrecorded.

        Another process may have it by now, and an earlier runner did not record it.
        """
        fields = self._job_fields(attempt_id)
        return int(fields[2]) if len(fields) > 2 else 0

    def _job_fields(self, attempt_id: str) -> list[str]:
        return machine.read_text(self.path(attempt_id, "job")).split()

    def forget(self, attempt_id: str) -> None:
        """Delete an attempt's record and its logs; half deleted, it is found by `sweep`."""
        self._remove_logs(attempt_id)
        dying = os.path.join(self._new_dir, f"{attempt_id}.released")
        os.rename(self.path(attempt_id), dying)
        remove_flat(dying)

    def set_aside(self, attempt_id: str) -> None:
        """Forget an attempt and its logs, but for what tells how to remove its container."""
        self._remove_logs(attempt_id)
        os.rename(self.path(attempt_id), self.leaving(attempt_id))

    def leaving(self, attempt_id: str, name: str = "") -> str:
        """Return the path of a released attempt's directory, or of a file in it.

        It is there until its container is gone.
        """
        return os.path.join(self.leaving_dir, attempt_id, name)

    def _remove_logs(self, attempt_id: str) -> None:
        for stream in STREAMS:
            with contextlib.suppress(FileNotFoundError):  # a claim that never spawned has none
                os.unlink(self.log(attempt_id, stream))

    # ---- reports ----

    def report(self, attempt: SpooledAttempt) -> dict[str, Any]:
        """Return the REPORT of an attempt."""
        report: dict[str, Any] = {
            "attempt_id": attempt.attempt_id,
            "container_id": attempt.container_id,
            "exit": self.exit_of(attempt),
        }
        store, image = self.stores.of(attempt.attempt_id), self.image(attempt.attempt_id)
        if store:
            report["store"] = store
        if image is not None:
            report["image"] = image.fields()
        return report

    def exit_of(self, attempt: SpooledAttempt) -> dict[str, Any] | None:
        """Return the EXIT of an attempt, None while it runs."""
        ended = self.ended(attempt.attempt_id)
        if ended is None:
            return None
        started_at = attempt.claimed_at
        try:
            started_at = os.stat(self.path(attempt.attempt_id, "job")).st_mtime
        except FileNotFoundError:
            started_at = attempt.claimed_at
        if ended.kind == "engine_failure" and self._stream_bytes(attempt.attempt_id, "stdout"):
            # An engine says nothing there: so it did run, and all trace of its container is gone.
            ended = ended._replace(kind="lost", code=None)
        out_bytes, err_bytes = (self._stream_bytes(attempt.attempt_id, each) for each in STREAMS)
        why = ""
        if (
            attempt.engine != "process"
            and ended.kind == "exited"
            and err_bytes < MESSAGE_CHARACTERS
        ):
            said = last_text(self.log(attempt.attempt_id, "stderr"))
            program = images.program(
                self._image_record(attempt.attempt_id),
                attempt.program,
                overrides=attempt.overrides,
            )
            why = unexecuted(ended.code, out_bytes, said, program)
        # Of what never ran, the counters tell of its engine.
        used = usage.told(self.path(attempt.attempt_id)) if ended.ran and not why else {}
        return {
            **({"usage": used} if used else {}),
            "kind": "engine_failure" if why else ended.kind,
            "code": ended.code,
            "message": why or self._message(attempt.attempt_id, ended),
            "fault": "request" if why else self._fault(attempt.attempt_id, ended),
            "started_at": started_at,
            "finished_at": ended.finished_at,
            "stdout_bytes": out_bytes,
            "stderr_bytes": err_bytes,
        }

    def _stream_bytes(self, attempt_id: str, stream: str) -> int:
        try:
            return os.stat(self.log(attempt_id, stream)).st_size
        except FileNotFoundError:
            return 0  # it wrote nothing

    def _fault(self, attempt_id: str, ended: Ended) -> str:
        """Return whose fault an engine failure is; of other ends nobody asks."""
        if ended.kind != "engine_failure":
            return "instance"
        if os.path.exists(self.path(attempt_id, images.UNPULLED)):
            return "registry"
        said = last_text(self.log(attempt_id, "stderr"))
        return "request" if is_of_the_request(ended.code, said) else "instance"

    def _message(self, attempt_id: str, ended: Ended) -> str:
        if ended.kind == "lost":
            why = machine.read_text(self.path(attempt_id, "why")).strip()
            return why or (LOST_MESSAGE if ended.ran else REMOVED_MESSAGE)
        if ended.kind == "out_of_memory":
            return "it used more memory than it asked for"
        if ended.kind == "exited":
            return ""
        if ended.code is None:
            return UNSTARTED_MESSAGE
        limit_s = machine.read_text(self.path(attempt_id, images.UNPULLED)).strip()
        if limit_s:
            return f"its image was not pulled within {limit_s} s (engine.pull_timeout_s)"
        # Nothing ran, so whatever was written to stderr are the engine's words.
        said = last_words(self.log(attempt_id, "stderr"))
        return said or f"the engine ended with code {ended.code} and started nothing"


def _written(attempt: SpooledAttempt) -> list[Any]:
    """Return the fields of an attempt, without those at the end that are as by default."""
    fields: list[Any] = list(attempt)
    defaults = list(SpooledAttempt._field_defaults.values())
    while defaults and fields[-1] == defaults.pop():
        fields.pop()
    return fields


def _read_order(path: str) -> SpooledAttempt | None:
    text = machine.read_text(path)
    return SpooledAttempt(*json.loads(text)[: len(SpooledAttempt._fields)]) if text else None


def _make_fifo(path: str) -> None:
    """Make a fifo for us alone; one that is there serves, anything else is a SpoolError."""
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            raise SpoolError(f"{path} is no fifo") from None


def attempt_of(
    attempt_id: str,
    container_id: str,
    engine: str,
    boot: str,
    cgroup: str,
    *,
    resident: bool = False,
    program: str = "",
    overrides: bool = False,
) -> SpooledAttempt:
    """Return the record of an attempt that is claimed now."""
    return SpooledAttempt(
        attempt_id,
        container_id,
        engine,
        boot,
        cgroup,
        time.time(),
        resident,
        program[:PROGRAM_CHARACTERS_KEPT],
        overrides,
    )


def keep_instance(live: Iterable[SpooledAttempt]) -> bool:
    """Return whether any of the attempts that live keeps the lease of the instance from its end."""
    return any(not attempt.resident for attempt in live)


def last_text(path: str) -> str:
    """Return the end of a file, some lines of it; "" when there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * MESSAGE_CHARACTERS))
            # What could not be written to it is zeros.
            return file.read().replace(b"\0", b"").decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def last_words(path: str) -> str:
    """Return the last line of a file that is not blank, cut to what a message may hold."""
    said = [line.strip() for line in last_text(path).split("\n") if line.strip()]
    return said[-1][:MESSAGE_CHARACTERS] if said else ""


def remove_flat(directory: str) -> None:
    """Remove a directory of plain files; none is no error."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    for name in names:
        os.unlink(os.path.join(directory, name))
    os.rmdir(directory)
