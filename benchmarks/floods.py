"""What starts on an honest instance take beside hostile ones that flood us with SSH messages.

One process with the links of all of them, as the server has: an honest real sshd with the real
runner, on which attempts are started one after the other, and hostile servers in processes of their
own, each of which is probed again as soon as it is lost, at the intervals of a session that flaps.
Prints p50 and p95 of a start alone and beside each kind of flood. Needs sshd, and the repository as
working directory.

    python benchmarks/floods.py [--hostile 4] [--starts 40] [--kinds ignore,heartbeats] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import LinkSettings, ProbeStageError
from longshore.pool.remote.ssh_keys import load_or_create_private_key, public_key_text
from tests.hostile_server import KINDS
from tests.rigs.link import Recorder, genuine, link_settings, make_link, order, start
from tests.sshd_host import SshdHost, wait_until

ROOT = Path(__file__).resolve().parent.parent
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 10.0
SETTLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The starts of one series in milliseconds, and why the hostile ones were lost at last."""

    kind: str
    p50_ms: float
    p95_ms: float
    said: str = ""

    @classmethod
    def of(cls, kind: str, seconds: list[float], said: str = "") -> Figures:
        """Return the percentiles of a series."""
        cuts = statistics.quantiles(seconds, n=20, method="inclusive")
        return cls(
            kind=kind, p50_ms=round(cuts[9] * 1e3, 1), p95_ms=round(cuts[18] * 1e3, 1), said=said
        )


class Prober:
    """One hostile instance as the pool sees it: probed, lost and probed again."""

    def __init__(self, settings: LinkSettings, kind: str, host: str) -> None:
        """Start its server; its link is made here, too."""
        words = (kind, host, settings.cluster, settings.bundle.sha256)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile_server", *words], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert self._server.stdout is not None
        self._address = self._server.stdout.readline().decode().strip()
        self._recorder = Recorder()
        self._link = make_link(settings, self._recorder)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._probe_again)
        self._thread.start()
        self.said = ""

    def close(self) -> None:
        """End its server and its link."""
        self._over.set()
        self._link.abandon()
        self._server.kill()
        self._server.wait()
        self._thread.join()
        self._link.close()
        assert self._server.stdout is not None
        self._server.stdout.close()

    def _probe_again(self) -> None:
        wait_s = FIRST_WAIT_S
        while not self._over.is_set():
            losses = len(self._recorder.losses)
            try:
                self._link.probe(
                    address=self._address, host_key="", secret="", boot=True, verify=genuine
                )
                while len(self._recorder.losses) == losses and not self._over.wait(0.05):
                    continue
                if self._recorder.losses:
                    self.said = f"session: {self._recorder.losses[-1][1]}"
            except ProbeStageError as error:
                self.said = str(error)
            self._over.wait(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)


@contextlib.contextmanager
def hostile(settings: LinkSettings, kind: str, count: int) -> Iterator[list[Prober]]:
    """Have so many hostile instances beside the honest one."""
    made: list[Prober] = []
    try:
        made += [Prober(settings, kind, f"127.0.0.{10 + index}") for index in range(count)]
        yield made
    finally:
        for each in made:
            each.close()


def time_starts(link: WorkerLink, recorder: Recorder, prefix: str, count: int) -> list[float]:
    """Return the seconds from the order until the runner has said that it runs, each time."""
    seconds = []
    for index in range(count):
        attempt_id = f"{prefix}-{index}"
        begin = time.perf_counter()
        start(link, order(attempt_id, "true"))
        seconds.append(time.perf_counter() - begin)
        wait_until(lambda name=attempt_id: name in recorder.complete, "its end")  # type: ignore[misc] # the default binds the loop's value
        link.release(attempt_id)
    return seconds


def measure(directory: Path, kinds: list[str], hostiles: int, starts: int) -> list[Figures]:
    """Return a series alone, and one beside each kind of flood."""
    key = load_or_create_private_key(directory / "key")
    settings = link_settings(key, bundle=build_runner(), heartbeat_interval_s=5.0)
    recorder = Recorder()
    link = make_link(settings, recorder)
    with (
        SshdHost(directory / "i-1", authorized_key=public_key_text(key)) as host,
        contextlib.closing(link),
    ):
        link.probe(
            address=host.address, host_key=host.host_key, secret="", boot=True, verify=genuine
        )
        time_starts(link, recorder, "warm", 5)
        figures = [Figures.of("alone", time_starts(link, recorder, "alone", starts))]
        for kind in kinds:
            with hostile(settings, kind, hostiles) as probers:
                time.sleep(SETTLE_S)
                seconds = time_starts(link, recorder, kind, starts)
                said = "; ".join(sorted({each.said for each in probers if each.said}))
            figures.append(Figures.of(kind, seconds, said))
        return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hostile", type=int, default=4)
    parser.add_argument("--starts", type=int, default=40)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        kinds = [each for each in given.kinds.split(",") if each]
        figures = measure(Path(directory), kinds, given.hostile, given.starts)
    for each in figures:
        fields = {name: getattr(each, name) for name in each.__slots__}
        if given.json:
            print(json.dumps(fields))
        else:
            print(f"{each.kind:14} p50 {each.p50_ms:8} ms  p95 {each.p95_ms:8} ms  {each.said}")


if __name__ == "__main__":
    main()
