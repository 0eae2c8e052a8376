"""What tests of a worker's link share: the scripted runner as a bundle, a recording listener."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longshore.drivers.interface import HostKeyVerdict
from longshore.pool.model import AttemptExit, AttemptImage, AttemptOrder
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_attempts import LinkListener
from longshore.pool.remote.link_model import LinkSettings, StartResult
from longshore.pool.remote.ssh_keys import PrivateKey
from tests.sshd_host import wait_until

SCRIPTED_RUNNER = Path(__file__).parent.parent / "scripted_runner.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptBundle:
    """The scripted runner in the place of the real one."""

    data: bytes
    sha256: str


def scripted_bundle(addition: str = "") -> ScriptBundle:
    """Return the scripted runner; with an addition it is another one."""
    data = SCRIPTED_RUNNER.read_bytes() + addition.encode()
    return ScriptBundle(data=data, sha256=hashlib.sha256(data).hexdigest())


def unknown(_: str) -> HostKeyVerdict:
    """Be a driver that knows no host keys."""
    return HostKeyVerdict.UNKNOWN


def genuine(_: str) -> HostKeyVerdict:
    """Be a driver that vouches for every key."""
    return HostKeyVerdict.GENUINE


class Recorder(LinkListener):
    """Keeps what a link tells, with logs put together as a log store would."""

    def __init__(self) -> None:
        self.exits: dict[str, AttemptExit] = {}
        self.exits_told = 0
        self.logs: dict[tuple[str, str], bytearray] = {}
        self.complete: list[str] = []
        self.images: list[tuple[str, AttemptImage]] = []
        self.losses: list[tuple[float, str]] = []
        self.faults: list[str] = []
        self.interruptions: list[str] = []
        self.gaps: list[tuple[str, int, int]] = []
        self.workers: set[str] = set()

    def exited(self, worker_id: str, attempt_id: str, how: AttemptExit) -> None:
        self.workers.add(worker_id)
        self.exits[attempt_id] = how
        self.exits_told += 1

    def image(self, worker_id: str, attempt_id: str, image: AttemptImage) -> None:
        self.workers.add(worker_id)
        self.images.append((attempt_id, image))

    def log(self, worker_id: str, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        self.workers.add(worker_id)
        kept = self.logs.setdefault((attempt_id, stream), bytearray())
        if offset != len(kept):
            self.gaps.append((attempt_id, len(kept), offset))
        kept += data

    def log_complete(self, worker_id: str, attempt_id: str) -> None:
        self.workers.add(worker_id)
        self.complete.append(attempt_id)

    def lost(self, worker_id: str, last_contact: float, reason: str) -> None:
        self.workers.add(worker_id)
        self.losses.append((last_contact, reason))

    def interrupted(self, worker_id: str, at: str) -> None:
        self.workers.add(worker_id)
        self.interruptions.append(at)

    def broken(self, worker_id: str, message: str) -> None:
        self.workers.add(worker_id)
        self.faults.append(message)

    def offsets(self, attempt_id: str) -> tuple[int, int]:
        """Return what is kept of an attempt's streams."""
        stdout = self.logs.get((attempt_id, "stdout"), b"")
        stderr = self.logs.get((attempt_id, "stderr"), b"")
        return len(stdout), len(stderr)


def link_settings(key: PrivateKey, **changes: Any) -> LinkSettings:
    """Return settings with the scripted runner and timeouts for a busy machine."""
    values: dict[str, Any] = {
        "user": "root",
        "private_key": key,
        "cluster": "c1",
        "epoch": 1,
        "bundle": scripted_bundle(),
        "engine_json": "{}",
        "handshakes": threading.BoundedSemaphore(8),
        "clock": time.monotonic,
        "connect_timeout_s": 20.0,
        "command_timeout_s": 20.0,
        "heartbeat_interval_s": 0.2,
        "heartbeat_timeout_s": 20.0,
    }
    return LinkSettings(**(values | changes))


def make_link(settings: LinkSettings, recorder: Recorder) -> WorkerLink:
    """Return a link that keeps its logs in the recorder."""
    return WorkerLink("w-1", settings=settings, listener=recorder, log_offsets=recorder.offsets)


def order(attempt_id: str, *command: str, image: str = "") -> AttemptOrder:
    """Return an order for the process engine."""
    return AttemptOrder(
        attempt_id=attempt_id, container_id=f"c-{attempt_id}", image=image, command=command
    )


def boot_of(link: WorkerLink) -> str:
    """Return the boot in which the link's session was attached, "" when there is none."""
    session = link._session
    return "" if session is None else session.hello.boot_id


def start(link: WorkerLink, wanted: AttemptOrder) -> StartResult:
    """Start an attempt and return what came of it."""
    results: list[StartResult] = []
    link.start(wanted, boot_of(link), results.append)
    wait_until(lambda: bool(results), "the result of a start")
    return results[0]
