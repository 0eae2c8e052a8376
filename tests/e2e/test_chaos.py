"""Must show: on the worst day of a cloud every container succeeds once, and nothing is left.

The reference does it with stubs, in milliseconds: 150 to boot and to be idle, 15 without a probe,
5 to shut down, 20 to heed TERM. Here a boot is real: an SSH handshake, a proof, three starts of
Python and an upload, ten at a time on two cores, which takes about 2 s. So all its times are FACTOR
times as long; the 5 s within which something must move are not.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import containment
from longshore.pool.runner.spool import places
from tests.dispatcher_process import FINAL_STATES, DispatcherProcess, processes_marked

FACTOR = 30
MS = FACTOR / 1000

CONTAINERS = 200
QUOTA = 10
PROGRESS_S = 5.0
HELD_S = 30.0
DEADLINE_S = 300.0
LOOK_S = 0.25
GIB = 2**30

CONFIG: dict[str, Any] = {
    "driver": {
        "name": "tests.chaos_cloud:DRIVER",
        "parameters": {
            "cloud": {
                "boot_time_s": 0,
                "boot_jitter_s": 5 * MS,
                "seed": 7,
                "quota": QUOTA,
                "capacity": {"t6": 0},
                "faults": {"create_errors": 0.1, "destroy_errors": 0.1},
            },
            "life_s": 90 * MS,
            "sound_s": 200 * MS,
            "dead_s": 300 * MS,
        },
    },
    "instance_types": {
        f"t{n}": {"cpus": n, "memory": n * 11 * GIB // 10, "price_per_hour": round(0.123 * n, 3)}
        for n in (1, 2, 3, 4, 6, 8, 16)
    },
    "engine": {"name": "process"},
    "ssh": {"heartbeat_interval_s": 2 * MS, "heartbeat_timeout_s": 10 * MS},
    "pool": {
        "idle_timeout_s": 150 * MS,
        "boot_timeout_s": 150 * MS,
        "probe_timeout_s": 15 * MS,
        "gone_after_s": 150 * MS,
        "shutdown_timeout_s": 5 * MS,
        "term_timeout_s": 20 * MS,
        "signal_interval_s": 3 * MS,
        "probe_interval_s": 5 * MS,
        "sync_interval_s": 10 * MS,
        "quota_hold_s": 50 * MS,
        "capacity_hold_s": 50 * MS,
        "max_cloud_ops_per_second": 500,
        "max_probes_per_second": 1000,
    },
    "scheduler": {"max_price_factor": 1.5, "max_lost_attempts": 100},
}

HELD = re.compile("of no use|as told")

# Each start is counted, and two of one container at a time are noticed: the kernel drops the lock
# with the last process of an attempt, which must not outlive it. On an instance that has no fault
# of its own, one start in ten kills its supervisor, and one in ten the session, leaving behind a
# lock that names nobody.
SCRIPT = """
number=$1 book=$2
exec 8>>"$book/lock-$number"
flock -n 8 || echo "$LONGSHORE_ATTEMPT_ID" >>"$book/twice"
echo "$LONGSHORE_ATTEMPT_ID" >>"$book/begun-$number"
tries=$(wc -l <"$book/begun-$number")
instance=${LONGSHORE_INSTANCE_ID##*-}
if [ $(( (1$instance - 100000) % 7 )) -gt 2 ]; then
  case $(( (number + 3 * tries) % 10 )) in
    0) echo "$number" >>"$book/crashed"; kill -9 "$PPID"; sleep 9 ;;
    1)
      session=/dev/shm/$LONGSHORE_SPOOL/session
      read -r holder started <"$session"
      if grep -q attach "/proc/$holder/cmdline"; then
        kill -9 "$holder"
        echo "$number" >>"$book/stale"
        exec 7<>"$session"
        flock -n 7 && echo "1 1" >"$session"
      fi ;;
  esac
fi
sleep "0.$((number % 4))"
echo "$number is done"
"""


def _requests(registry: Path) -> list[dict[str, Any]]:
    return [
        {
            "command": ["sh", "-c", SCRIPT, "sh", str(number), str(registry)],
            "cpus": number % 8 + 1,
            "memory": (number % 3 + 1) * GIB,
            "priority": number % 20 + 1,
        }
        for number in range(CONTAINERS)
    ]


class Watch:
    """Looks on while all goes wrong: what moves, and whether what has ended stays as it is.

    While it is told that creates are held back, for useless instances or calls that fail, nothing
    need move for a while: that is how slowly they are meant to be bought then.
    """

    def __init__(self, server: DispatcherProcess) -> None:
        self._server = server
        self._seen: object = None
        self._moved_at = self._free_since = time.monotonic()
        self._ended: dict[str, str] = {}
        self.instances: set[str] = set()

    def over(self) -> bool:
        """Look once, and return whether the queue is empty and no instance is left."""
        containers, instances = self._server.containers(), self._server.instances()
        self.instances |= instances.keys()
        self._check_progress(containers, instances)
        final = {id_: c["state"] for id_, c in containers.items() if c["state"] in FINAL_STATES}
        assert final.items() >= self._ended.items(), "what has ended has ended for ever"
        self._ended = final
        return len(final) == len(containers) and not instances

    def _check_progress(self, containers: dict[str, Any], instances: dict[str, Any]) -> None:
        seen = (
            [
                (one["attempt_count"], [each["outcome"] for each in one["attempts"]])
                for one in containers.values()
            ],
            [(each["id"], each["state"]) for each in instances.values()],
        )
        now = time.monotonic()
        waiting = Counter(each["waiting"] for each in containers.values() if each["waiting"])
        if seen != self._seen:
            self._seen, self._moved_at = seen, now
        if any(HELD.search(each) for each in waiting):
            self._free_since = now
        still_s = now - max(self._moved_at, self._free_since)
        assert still_s < PROGRESS_S, (waiting, seen[1])
        assert now - self._moved_at < HELD_S, (waiting, seen[1])


def _follow(watch: Watch) -> None:
    """Look on until all is over."""
    deadline = time.monotonic() + DEADLINE_S
    while not watch.over():
        assert time.monotonic() < deadline, "not over in time"
        time.sleep(LOOK_S)


def _check_containers(server: DispatcherProcess, ids: list[str]) -> None:
    containers = server.containers()
    assert Counter(containers[id_]["state"] for id_ in ids) == {"succeeded": CONTAINERS}
    for container in containers.values():
        *before, last = [each["outcome"] for each in container["attempts"]]
        assert last == "succeeded"
        assert set(before) <= {"lost"}, "whatever was tried again had been lost"


def _check_that_it_was_bad(server: DispatcherProcess, registry: Path, created: int) -> None:
    """A day without faults would prove nothing."""
    assert created >= 21, "three of each kind of bad instance"
    assert len((registry / "crashed").read_text().split()) >= 3
    assert len((registry / "stale").read_text().split()) >= 3
    metrics = server.metrics()
    assert _sum(metrics, "driver_operations", 'operation="create",outcome="capacity"') > 0
    assert _sum(metrics, "driver_operations", 'operation="(?:create|destroy)",outcome="other"') > 0
    assert _sum(metrics, "instance_boots", 'outcome="failure"') > 0
    assert _sum(metrics, "attempts", 'outcome="lost"') > 0


def _sum(metrics: str, name: str, labels: str) -> float:
    """Return the sum of a counter's samples whose labels match."""
    found = re.findall(rf"^longshore_{name}_total{{{labels}}} (\S+)$", metrics, re.MULTILINE)
    return sum(map(float, found))


def _check_nothing_left(clouds: Path, ids: list[str]) -> None:
    """No process, no directory, no spool and no control group of any of these instances."""
    assert processes_marked(ids) == []
    assert list(clouds.rglob("i-sim-*")) == []
    for id_ in ids:
        (cloud,) = clouds.rglob("cloud-*")
        there = places("default", {"LONGSHORE_RUNNER_DIR": str(cloud / id_ / "runner")})
        groups = [Path(root, there.name) for root in containment.hierarchies()]
        left = [Path(there.spool), Path(there.apart), *groups]
        assert [each for each in left if each.exists()] == []


@pytest.mark.alone
def test_two_hundred_containers_on_the_worst_day_of_a_cloud(tmp_path: Path) -> None:
    registry = tmp_path / "book"
    registry.mkdir()
    clouds = tmp_path / "data" / "drivers"
    with DispatcherProcess(tmp_path, CONFIG) as server:
        ids = server.submit_many(_requests(registry))
        watch = Watch(server)
        _follow(watch)
        _check_containers(server, ids)
        assert not (registry / "twice").exists(), "no container ran twice at once"
        (prefix,) = {each.rpartition("-")[0] for each in watch.instances}
        created = max(int(each.rpartition("-")[2]) for each in watch.instances)
        _check_that_it_was_bad(server, registry, created)
        _check_nothing_left(clouds, [f"{prefix}-{n + 1:05d}" for n in range(created)])
    assert list(clouds.rglob("cloud-*")) == []
