"""Whether a server that lives for long goes on growing: churn, and what of it stays in memory.

A whole dispatcher runs in this process over the simulated cloud, whose instances are real runners
on this machine, and come and go all the time: bursts of short containers are followed by pauses
longer than `idle_timeout_s`. Each minute it prints what was done by then and what the process
holds: memory after a collection of garbage, objects, files, threads, children.

    python tools/soak.py [--minutes 120] [--burst 12] [--trace] [--json]

At the end it says by how much memory grew per 1,000 containers in the last half, and which kinds of
objects did most: what levels off is bounded, and what grows to the end is named. `--trace` names
the lines that have allocated it, and is slower. The command exits 1 where the last half grew by
more than GOAL_MB_PER_1000 megabytes per 1,000 containers. Needs the repository as working
directory.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import logging
import os
import sys
import tempfile
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
import urllib3

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from longshore.dispatcher.config.loading import load_config
from longshore.dispatcher.server.serving import running_server

GOAL_MB_PER_1000 = 0.6
"""A million containers a year may take 600 MB before the server is started anew."""

FINAL = ("succeeded", "failed", "cancelled")
KINDS_TOLD = 12
HEADING = (
    "minutes  containers  instances  memory MB  in use MB    blocks   objects  files  threads"
    "  children"
)
CONFIG: dict[str, Any] = {
    "listen": "127.0.0.1:0",
    "driver": {"name": "simulated", "parameters": {"boot_time_s": 0.2, "boot_jitter_s": 0.2}},
    "instance_types": {"node": {"cpus": 4, "memory": "4GiB", "price_per_hour": 0.1}},
    "engine": {"name": "process"},
    "pool": {"idle_timeout_s": 0.5, "sync_interval_s": 2, "shutdown_timeout_s": 2},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the process was at one time."""

    minutes: float
    containers: int
    instances: int
    memory_mb: float
    in_use_mb: float
    """What the C library's allocator has given out: the rest of `memory_mb` is Python's own arenas,
    code, stacks, and what was given back but stays in holes."""
    blocks: int
    """What Python's allocator has given out."""
    objects: int
    files: int
    threads: int
    children: int


class Soak:
    """A server under churn; `containers` and `instances` count what there was."""

    def __init__(self, url: str, burst: int) -> None:
        self._url = url
        self._burst = burst
        self._http = urllib3.PoolManager(retries=False)
        self._began = time.monotonic()
        self._known: set[str] = set()
        self.containers = 0
        self.instances = 0

    def churn(self) -> None:
        """Run one burst of containers to its end, and let the instances go."""
        one = {"command": ["sh", "-c", "echo one line"], "cpus": 1, "memory": "64MiB"}
        made = self._ask("POST", "/v1/containers", [one] * self._burst)
        waiting = [each["id"] for each in made["items"]]
        while waiting:
            time.sleep(0.1)
            waiting = [each for each in waiting if self._state(each) not in FINAL]
        self.containers += self._burst
        while there := self._ask("GET", "/v1/instances")["items"]:
            self._seen(there)
            time.sleep(0.1)

    def sample(self) -> Sample:
        """Return what the process is now, after a collection of garbage."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
        return Sample(
            minutes=round((time.monotonic() - self._began) / 60, 1),
            containers=self.containers,
            instances=self.instances,
            memory_mb=round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
            in_use_mb=round(in_use_bytes() / 2**20, 1),
            blocks=sys.getallocatedblocks(),
            objects=len(gc.get_objects()),
            files=len(list(Path("/proc/self/fd").iterdir())),
            threads=threading.active_count(),
            children=len(children.split()),
        )

    def _state(self, container_id: str) -> str:
        return str(self._ask("GET", f"/v1/containers/{container_id}")["state"])

    def _seen(self, there: list[dict[str, Any]]) -> None:
        ids = {str(each["id"]) for each in there}
        self.instances += len(ids - self._known)
        self._known = ids

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        sent = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        response = self._http.request(method, self._url + path, body=sent, headers=headers)
        if response.status >= 300:
            raise RuntimeError(f"{response.status}: {response.data[:500]!r}")
        return json.loads(response.data)


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later (mallinfo(3)); all of it in bytes or counts."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def in_use_bytes() -> int:
    """Return how much the C library's allocator has given out, over all of its arenas."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _MallInfo
    told = ask()
    return int(told.uordblks) + int(told.hblkhd)


def kinds() -> Counter[str]:
    """Return how many objects there are of each type."""
    return Counter(
        f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects()
    )


def line(sample: Sample) -> str:
    """Return a sample as a line of the table."""
    return (
        f"{sample.minutes:7.1f}  {sample.containers:10}  {sample.instances:9}  "
        f"{sample.memory_mb:9.1f}  {sample.in_use_mb:9.1f}  {sample.blocks:8}  {sample.objects:8}  "
        f"{sample.files:5}  {sample.threads:7}  "
        f"{sample.children:8}"
    )


def growth(samples: Sequence[Sample]) -> float:
    """Return by how many MB memory grew per 1,000 containers in the last half (least squares)."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return 0.0
    xs, ys = [each.containers / 1000 for each in half], [each.memory_mb for each in half]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / (spread or 1.0)


def run(options: argparse.Namespace, directory: Path) -> tuple[list[Sample], list[str]]:
    """Churn for as long as asked; return the samples, and what grew in the last half."""
    path = directory / "longshore.yml"
    path.write_text(json.dumps({**CONFIG, "data_dir": str(directory / "data")}), encoding="utf-8")
    samples: list[Sample] = []
    with running_server(load_config(path)) as url:
        soak = Soak(url, options.burst)
        soak.churn()
        end = time.monotonic() + 60 * options.minutes
        half_at, half = time.monotonic() + 30 * options.minutes, Counter[str]()
        half_containers, traced = 0, None
        while True:
            samples.append(soak.sample())
            if not options.json:
                print(line(samples[-1]), flush=True)
            now = time.monotonic()
            if not half and now >= half_at:
                half, half_containers = kinds(), soak.containers
                traced = tracemalloc.take_snapshot() if options.trace else None
            if now >= end:
                break
            until = min(end, now + 60)
            while time.monotonic() < until:
                soak.churn()
        grown = kinds() - half
        per_1000 = max(1, soak.containers - half_containers) / 1000
        told = [f"{n / per_1000:9.0f}  {kind}" for kind, n in grown.most_common(KINDS_TOLD)]
        if traced is not None:
            later = tracemalloc.take_snapshot().compare_to(traced, "lineno")
            told += [str(each) for each in later[:KINDS_TOLD]]
    return samples, told


def main(arguments: Sequence[str]) -> int:
    """Soak, print the table and what grew, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--burst", type=int, default=12, help="containers at once")
    parser.add_argument("--trace", action="store_true", help="name lines that allocate; slower")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.trace:
        tracemalloc.start()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if not options.json:
        print(HEADING)
    with tempfile.TemporaryDirectory() as directory:
        samples, told = run(options, Path(directory))
    grew = growth(samples)
    if options.json:
        print(json.dumps({"samples": [asdict(each) for each in samples], "mb_per_1000": grew}))
    else:
        print(f"the last half grew by {grew:.2f} MB per 1,000 containers; objects per 1,000:")
        print("\n".join(told))
    return 0 if grew <= GOAL_MB_PER_1000 else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
