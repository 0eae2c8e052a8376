"""Drives the real runner, as one zipapp in a directory of its own, over pipes as SSH would."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from longshore.drivers.local.processes import end_groups
from longshore.pool.remote.deploy import build_runner
from longshore.pool.runner import containment, machine
from longshore.pool.runner.collector import Takings
from longshore.pool.runner.engines import ContainerEngine
from longshore.pool.runner.launch import Launcher
from longshore.pool.runner.spool import Spool, places

DEADLINE_S = 60.0
PYTHON = os.environ.get("LONGSHORE_TEST_RUNNER_PYTHON", sys.executable)
"""What executes the runner; set it to try the oldest Python that instances may have."""
PROCESS_ENGINE = {"name": "process"}


class Attached:
    """One `runner attach`; messages that nobody asked for yet are kept in `pushed`."""

    def __init__(self, process: subprocess.Popen[bytes], *, epoch: int, acknowledge: bool) -> None:
        self.process = process
        self.epoch = epoch
        self.acknowledge = acknowledge
        self.pushed: list[dict[str, Any]] = []
        self.logs: dict[tuple[str, str], bytearray] = {}
        self.gaps: list[tuple[int, int]] | None = None
        """From where to where zeros were put for what is missing; None where nothing may be."""
        self.ended = False
        self._replies: dict[int, dict[str, Any]] = {}
        self._rest = b""
        self._number = 0

    def send(self, message: Mapping[str, Any]) -> None:
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def request(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return its reply."""
        number = self.ask(kind, **fields)
        self.until(lambda: number in self._replies)
        return self._replies.pop(number)

    def ask(self, kind: str, **fields: Any) -> int:
        """Send a request and return its number, without waiting for the reply."""
        self._number += 1
        self.send({"type": kind, "id": self._number, "epoch": self.epoch, **fields})
        return self._number

    def start(self, attempt_id: str, *command: str, **fields: Any) -> dict[str, Any]:
        return self.request("start", attempt=order(attempt_id, *command, **fields))

    def run(self, attempt_id: str, *command: str, **fields: Any) -> dict[str, Any]:
        """Start an attempt and return its exit, with its log complete in `logs`."""
        reply = self.start(attempt_id, *command, **fields)
        assert reply["ok"], reply
        return self.finish(attempt_id)

    def finish(self, attempt_id: str) -> dict[str, Any]:
        """Return the exit of an attempt, with its log complete in `logs`."""
        exit_ = self.exit_of(attempt_id)
        for stream in ("stdout", "stderr"):
            wanted = exit_[f"{stream}_bytes"]
            self.until(lambda s=stream, n=wanted: len(self.logs.get((attempt_id, s), b"")) >= n)  # type: ignore[misc] # defaults bind the loop's values
        return exit_

    def exit_of(self, attempt_id: str) -> dict[str, Any]:
        found = self.wait_for("exited", lambda each: each["attempt_id"] == attempt_id)
        exit_: dict[str, Any] = found["exit"]
        return exit_

    def log(self, attempt_id: str, stream: str = "stdout") -> bytes:
        return bytes(self.logs.get((attempt_id, stream), b""))

    def wait_for(
        self, kind: str, accept: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> dict[str, Any]:
        """Return the first pushed message of a kind that is accepted, and forget it."""

        def match() -> list[dict[str, Any]]:
            return [each for each in self.pushed if each["type"] == kind and accept(each)]

        self.until(lambda: bool(match()))
        found = match()[0]
        self.pushed.remove(found)
        return found

    def until(self, done: Callable[[], bool], timeout_s: float = DEADLINE_S) -> None:
        """Read messages until something is so."""
        deadline = time.monotonic() + timeout_s
        while not done():
            assert not self.ended, "the runner ended"
            assert self.read(deadline - time.monotonic()), f"not within {timeout_s} s"

    def read(self, timeout_s: float) -> bool:
        """Take in what has come, waiting for it; False when nothing came in time."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        if not select.select([descriptor], [], [], max(0.0, timeout_s))[0]:
            return False
        data = os.read(descriptor, 65_536)
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        return True

    def read_to_end(self) -> None:
        while not self.ended:
            assert self.read(DEADLINE_S), "the runner did not end"

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "reply":
            self._replies[message["id"]] = message
        elif message["type"] == "log":
            self._take_log(message)
        else:
            self.pushed.append(message)

    def _take_log(self, message: dict[str, Any]) -> None:
        key = message["attempt_id"], message["stream"]
        log = self.logs.setdefault(key, bytearray())
        if self.gaps is not None and message["offset"] > len(log):
            self.gaps.append((len(log), message["offset"]))
            log += bytes(message["offset"] - len(log))
        assert message["offset"] == len(log), (key, message["offset"], len(log))
        log += base64.b64decode(message["data"])
        if self.acknowledge:
            self.send(
                {"type": "log_ack", "attempt_id": key[0], "stream": key[1], "offset": len(log)}
            )

    def close(self) -> int:
        """End the session as a dispatcher does, and return the runner's exit status."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.read_to_end()
        return self.reap()

    def kill(self) -> None:
        self.process.kill()
        self.reap()

    def reap(self) -> int:
        status = self.process.wait(DEADLINE_S)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        return status


class Runner:
    """A runner directory with the zipapp in it, its spool, and the processes that came of it."""

    def __init__(
        self,
        *,
        cluster: str = "test",
        engine: Mapping[str, Any] = PROCESS_ENGINE,
        environment: Mapping[str, str] | None = None,
        user: int | None = None,
        shared_memory: Path | None = None,
        disk: Path | None = None,
    ) -> None:
        """`user` is whose runner it is, our own by default; only root can have another's.

        `shared_memory` is a directory that it and its jobs find as /dev/shm, in a mount namespace
        of their own; with `disk` there is none of it, and all is in that directory. Only root can
        make that.
        """
        # Not below pytest's own directory: that is closed to the user whose jobs must get in.
        self.directory = Path(tempfile.mkdtemp(prefix="longshore-runner-"))
        self.cluster = cluster
        self.engine = engine
        self.bundle = build_runner()
        self.program = self.directory / f"runner-{self.bundle.sha256}.pyz"
        self.program.write_bytes(self.bundle.data)
        self._user = user
        if user is not None:
            os.chown(self.directory, user, user)
            os.chown(self.program, user, user)
        self.errors = self.directory / "stderr"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "LONGSHORE_RUNNER_DIR": str(disk or self.directory),
            **(environment or {}),
        }
        with _acting_as(user):
            self.places = places(cluster, self.environment)
        self._mounts: list[str] = []
        if disk is not None:
            self.places = self.places._replace(spool=f"{disk}/{cluster}/spool")
            self._mounts = ["while umount -l /dev/shm 2>/dev/null; do :; done", ""]
        self.spool = Path(self.places.spool)
        if shared_memory is not None:
            self.spool = shared_memory / self.spool.name
            self._mounts = ['mount --bind "$1" /dev/shm', str(shared_memory)]
        self._attached: list[Attached] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def command(self, name: str) -> list[str]:
        words = [name, "--cluster", self.cluster, "--engine-json", json.dumps(self.engine)]
        # Ours may lie where only we can read.
        python = PYTHON if self._user is None else machine.find_program("python3")
        apart = []
        if self._mounts:
            script, place = self._mounts
            script += ' && shift && exec "$@"'
            apart = ["unshare", "--mount", "sh", "-c", script, "sh", place]
        return [*apart, python, str(self.program), *words]

    def open(self, *, epoch: int = 1, acknowledge: bool = True) -> Attached:
        """Start `runner attach` without a word."""
        with self.errors.open("ab") as errors:
            process = subprocess.Popen(
                self.command("attach"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self.environment,
                **self._identity(),
            )
        attached = Attached(process, epoch=epoch, acknowledge=acknowledge)
        self._attached.append(attached)
        return attached

    def attach(
        self, *, epoch: int = 1, acknowledge: bool = True, interval_s: float = 0.1, **hello: Any
    ) -> tuple[Attached, dict[str, Any]]:
        """Start `runner attach`, exchange hellos, and return the session and the answer."""
        attached = self.open(epoch=epoch, acknowledge=acknowledge)
        first = {
            "type": "hello",
            "protocol": 1,
            "cluster": self.cluster,
            "epoch": epoch,
            "runner_sha256": self.bundle.sha256,
            "heartbeat_interval_s": interval_s,
        }
        attached.send({**first, **hello})
        attached.until(lambda: bool(attached.pushed))
        return attached, attached.pushed.pop(0)

    def listing(self) -> dict[str, Any]:
        """Return what `runner list` prints."""
        done = subprocess.run(
            self.command("list"),
            env=self.environment,
            capture_output=True,
            check=True,
            timeout=DEADLINE_S,
            **self._identity(),
        )
        assert done.stdout.count(b"\n") == 1
        listing: dict[str, Any] = json.loads(done.stdout)
        return listing

    def _identity(self) -> dict[str, Any]:
        """Return what makes a process that of the user whose runner it is."""
        if self._user is None:
            return {}
        return {"user": self._user, "group": self._user, "extra_groups": []}

    def said(self) -> str:
        """Return what all of its processes said on standard error."""
        return self.errors.read_text()

    def job(self, attempt_id: str) -> int:
        """Return the pid of an attempt's job, once it is recorded."""
        record = self.spool / "attempts" / attempt_id / "job"
        eventually(lambda: record.exists() and record.read_text().endswith("\n"))
        return int(record.read_text().split()[0])

    def supervisor(self, attempt_id: str) -> int:
        """Return the pid of an attempt's supervisor, while it lives."""
        return int(stat_fields(self.job(attempt_id))[1])

    def collector(self) -> int:
        """Return the pid of the process that has output collected, once there is one."""
        words = str(self.spool / "words")
        found: list[int] = []

        def look() -> bool:
            found[:] = [pid for pid in self.processes() if words in _open_files(pid)]
            return len(found) == 1  # who was forked just now has it, too

        eventually(look)
        return found[0]

    def takers(self, attempt_id: str) -> list[int]:
        """Return the pids of who takes the output of an attempt."""
        collected = str(self.spool / "attempts" / attempt_id / "collected")
        found = [pid for pid in self.processes() if collected in _open_files(pid)]
        program = os.fsencode(self.program)
        return [pid for pid in found if program in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def processes(self) -> list[int]:
        """Return every process that carries this runner's spool or directory in its environment."""
        marks = (
            f"_ls_spool={self.places.spool}/",
            f"HOME={self.places.work}/",
            f"LONGSHORE_RUNNER_DIR={self.environment['LONGSHORE_RUNNER_DIR']}",
        )
        found = []
        for pid, environment in environments():
            if any(each.startswith(marks) for each in environment):
                found.append(pid)
        return found

    def close(self) -> None:
        """End every process that this runner started, and remove what it left."""
        for attached in self._attached:
            if attached.process.stdout is not None and not attached.process.stdout.closed:
                attached.process.kill()
                attached.reap()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.processes())
        # Containers are given back by who made them: their groups are full while they run.
        if self.engine["name"] == "process":
            assert end_groups(self.places.name)
        shutil.rmtree(self.spool, ignore_errors=True)
        shutil.rmtree(f"{self.spool}-secrets", ignore_errors=True)
        shutil.rmtree(self.directory)


def settle_on(runner: Runner, hierarchy: str) -> None:
    """Have the runner make its control groups in a hierarchy that it would not have chosen."""
    runner.listing()
    record = runner.spool / "engine"
    key, engine = json.loads(record.read_text())
    assert ContainerEngine(*engine).hierarchy in [*containment.hierarchies()[:1], ""]
    record.write_text(json.dumps([key, ContainerEngine(*engine)._replace(hierarchy=hierarchy)]))


def reap_one(launcher: Launcher, spool: Spool, attempt_id: str) -> None:
    """Wait for the supervisor of an attempt, as the only one, and collect what it waits for."""
    collected = os.open(spool.collected(attempt_id), os.O_RDWR | os.O_NONBLOCK)
    with contextlib.closing(Takings(spool, os.open(spool.words, os.O_RDWR))) as takings:
        takings.begin(attempt_id, collected)

        def reaped() -> bool:
            if takings.has(attempt_id):
                takings.look(attempt_id)
            return launcher.reap() == [attempt_id]

        eventually(reaped)


@contextlib.contextmanager
def _acting_as(user: int | None) -> Iterator[None]:
    before = os.geteuid()
    os.seteuid(before if user is None else user)
    try:
        yield
    finally:
        os.seteuid(before)


def order(
    attempt_id: str,
    *command: str,
    image: str = "",
    env: Mapping[str, str] | None = None,
    cpu_millis: int = 0,
    memory_bytes: int = 0,
    resident: bool = False,
    **more: object,
) -> dict[str, Any]:
    """Return the order for an attempt of container `c-ATTEMPT`."""
    return {
        "attempt_id": attempt_id,
        "container_id": f"c-{attempt_id}",
        "image": image,
        "command": list(command),
        "env": dict(env or {}),
        "cpu_millis": cpu_millis,
        "memory_bytes": memory_bytes,
        "resident": resident,
        **more,
    }


def environments() -> Iterator[tuple[int, list[str]]]:
    """Return the environment of every process that has one we may read."""
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                text = (entry / "environ").read_bytes().decode("utf-8", "replace")
                yield int(entry.name), text.split("\0")


class Onlooker:
    """Reads the arguments of every process, over and over, as any user of the machine may.

    What ran already when it began to look is left out, so that each look is quick.
    """

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._known = set(_process_ids())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(DEADLINE_S)

    def _look(self) -> None:
        while not self._over.is_set():
            for pid in _process_ids():
                if pid not in self._known:
                    with contextlib.suppress(OSError):  # it has just ended
                        self.seen.add(Path(f"/proc/{pid}/cmdline").read_bytes())


def _process_ids() -> list[str]:
    return [path.name for path in Path("/proc").iterdir() if path.name.isdecimal()]


def stat_fields(pid: int) -> list[str]:
    """Return the fields of a process's state from the third on, [] when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _open_files(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return [str(entry.readlink()) for entry in sorted(Path(f"/proc/{pid}/fd").iterdir())]
    return []


def alive(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    return stat_fields(pid)[:1] not in ([], ["Z"])


def eventually(done: Callable[[], bool], timeout_s: float = DEADLINE_S) -> None:
    """Wait until something is so that nobody tells us of."""
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        select.select([], [], [], 0.01)
