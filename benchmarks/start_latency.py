"""How long from POST to the process running, beside a bare exec on an open SSH connection.

One run over real sshd on this machine: in turn, `exec true` on an open, tuned paramiko connection
(until its exit status is known), and POST of a container to an idle worker of a real `longshore
serve` process (until the container's own process has opened a FIFO). Prints p50 and p99 of both
and their ratios. Needs root, sshd, and the repository as working directory.

    python benchmarks/start_latency.py [--count 200] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from longshore.pool.remote.ssh import SshConnection
from longshore.pool.remote.ssh_keys import load_or_create_private_key, public_key_text
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.sshd_host import SshdHost

CONFIG = {
    "driver": {"name": "tests.sshd_driver:DRIVER", "parameters": {"quota": 1}},
    "instance_types": {
        "node": {"provider_type": "node", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.1}
    },
    "engine": {"name": "process"},
    "pool": {"idle_timeout_s": 600},
}
GOAL = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One series in milliseconds."""

    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, seconds: list[float]) -> Figures:
        """Return the percentiles of a series."""
        cuts = statistics.quantiles(seconds, n=100, method="inclusive")
        return cls(p50_ms=round(cuts[49] * 1e3, 2), p99_ms=round(cuts[98] * 1e3, 2))


def time_exec(connection: SshConnection) -> float:
    """Return the seconds that a bare exec of `true` takes."""
    begin = time.perf_counter()
    result = connection.run("true", deadline_s=10, output_limit_bytes=1024)
    assert result.exit_status == 0
    return time.perf_counter() - begin


def time_start(server: DispatcherProcess, fifo: Path) -> float:
    """Return the seconds from POST to the container's process having opened the FIFO."""
    begin = time.perf_counter()
    container_id = server.submit("sh", "-c", f": > {fifo}", cpus=1, memory="64MiB")
    with fifo.open("rb"):
        seconds = time.perf_counter() - begin
    server.wait_final(container_id)
    return seconds


def measure(directory: Path, count: int) -> tuple[list[float], list[float]]:
    """Return both series, taken in turn."""
    fifo = directory / "fifo"
    os.mkfifo(fifo)
    key = load_or_create_private_key(directory / "key")
    execs: list[float] = []
    starts: list[float] = []
    with (
        SshdHost(directory / "bare", authorized_key=public_key_text(key)) as host,
        DispatcherProcess(directory / "server", CONFIG, is_measured=True) as server,
    ):
        connection = SshConnection.connect(
            host.address,
            user="root",
            private_key=key,
            expected_host_key=host.host_key,
            deadline_s=10,
        )
        try:
            first = server.submit("true")
            server.wait_final(first)
            for number in range(count + 10):
                pair = (time_exec(connection), time_start(server, fifo))
                if number >= 10:
                    execs.append(pair[0])
                    starts.append(pair[1])
        finally:
            connection.close()
        for instance_id in server.instances():
            server.call("POST", f"/v1/instances/{instance_id}/kill", {})
        wait_for(lambda: not server.instances(), "the instance is gone")
    return execs, starts


def main() -> int:
    """Measure and print; exit 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="longshore-bench-") as directory:
        execs, starts = measure(Path(directory), options.count)
    bare, ours = Figures.of(execs), Figures.of(starts)
    ratio_p50, ratio_p99 = ours.p50_ms / bare.p50_ms, ours.p99_ms / bare.p99_ms
    if options.json:
        figures = {
            "count": options.count,
            "exec_true_p50_ms": bare.p50_ms,
            "exec_true_p99_ms": bare.p99_ms,
            "post_to_running_p50_ms": ours.p50_ms,
            "post_to_running_p99_ms": ours.p99_ms,
            "ratio_p50": round(ratio_p50, 2),
            "ratio_p99": round(ratio_p99, 2),
        }
        print(json.dumps(figures))
    else:
        print(f"over real sshd, {options.count} of each, in turn        p50 ms    p99 ms")
        print(f"  exec of `true` on an open connection  {bare.p50_ms:>16} {bare.p99_ms:>9}")
        print(f"  POST to the process running           {ours.p50_ms:>16} {ours.p99_ms:>9}")
        print(f"  ratio                                 {ratio_p50:>16.2f} {ratio_p99:>9.2f}")
        print(f"  goal: within {GOAL:g} x")
    return 0 if ratio_p50 <= GOAL and ratio_p99 <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
