"""Must show: what the cloud takes back gets no new work, and what is lost with it runs again."""

from __future__ import annotations

import calendar
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.reclaiming_cloud import NOTICE_S

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.timeout(400)


def config(orders: Path, *, preemptible: bool) -> dict[str, Any]:
    return {
        "driver": {
            "name": "tests.reclaiming_cloud:DRIVER",
            "parameters": {"boot_time_s": 0, "orders": str(orders)},
        },
        "instance_types": {
            "node": {
                "provider_type": "n1",
                "cpus": 3,
                "memory": "4GiB",
                "price_per_hour": 0.1,
                "preemptible": preemptible,
            }
        },
        "engine": {"name": "process"},
        "pool": {"idle_timeout_s": 120, "sync_interval_s": 0.5, "shutdown_timeout_s": 1},
        "scheduler": {"max_instances": 2},
    }


class Site:
    """A server, the orders to its cloud, and containers that end when the test lets them."""

    def __init__(self, directory: Path, *, preemptible: bool) -> None:
        self.orders = directory / "orders"
        self.gates = directory / "gates"
        self.orders.mkdir()
        self.gates.mkdir()
        settings = config(self.orders, preemptible=preemptible)
        self.server = DispatcherProcess(directory / "server", settings)

    def request(self, name: str) -> dict[str, Any]:
        wait = f"while [ ! -e {self.gates / name} ]; do sleep 0.1; done; echo {name} is done"
        return {"command": ["sh", "-c", wait], "name": name, "cpus": 1, "memory": "64MiB"}

    def run(self, *names: str) -> list[str]:
        """Submit containers and return their ids once they run."""
        ids = self.server.submit_many([self.request(name) for name in names])
        for each in ids:
            self.server.wait_state(each, "running", timeout_s=120)
        return ids

    def open(self, name: str) -> None:
        (self.gates / name).touch()

    def order(self, what: str, instance_id: str) -> None:
        (self.orders / f"{what}-{instance_id}").touch()

    def ends(self, container_id: str) -> list[tuple[str, str, str]]:
        """Wait for a container's success; return where each attempt ran, its outcome and why."""
        ended = self.server.wait_final(container_id, timeout_s=120)
        assert ended["state"] == "succeeded", ended
        return [
            (each["instance"], each["outcome"], (each["reason"] or {}).get("code", ""))
            for each in ended["attempts"]
        ]

    def longshore(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "longshore", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            cwd=ROOT,
            env={**os.environ, "LONGSHORE_URL": self.server.url},
            stdin=subprocess.DEVNULL,
        )
        return done.stdout


def test_a_notice_lets_what_runs_go_on_and_what_is_lost_runs_again_elsewhere(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path, preemptible=True)
    with site.server as server:
        long, short = site.run("long", "short")
        (taken,) = server.instances()
        began = time.time()
        site.order("notice", taken)
        at = wait_for(lambda: server.instances()[taken]["taken_back_at"], "the notice")
        left_s = calendar.timegm(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ")) - began
        assert NOTICE_S - 1 < left_s < NOTICE_S + 120

        (late,) = site.run("late")
        other = server.container(late)["instance"]
        assert other != taken, "there is room, and it gets no new work"
        items = json.loads(site.longshore("instances", "--json"))["items"]
        listed = {each["id"]: each for each in items}
        assert listed[taken]["taken_back_at"] == at
        assert listed[other]["taken_back_at"] is None
        assert f"taken back at {at}" in " ".join(site.longshore("instances").split())
        assert "longshore_interruption_notices_total 1.0" in server.metrics()

        site.open("short")
        assert site.ends(short) == [(taken, "succeeded", "")], "what ends in time just ends"
        assert server.container(long)["state"] == "running"
        assert server.container(long)["instance"] == taken

        site.order("end", taken)
        wait_for(lambda: taken not in server.instances(), "it to be gone")
        site.open("long")
        site.open("late")
        assert site.ends(long) == [(taken, "preempted", "interrupted"), (other, "succeeded", "")]
        assert site.ends(late) == [(other, "succeeded", "")]
        assert server.log(long) == b"long is done\n"


def test_a_notice_is_not_believed_of_what_no_cloud_takes_back(tmp_path: Path) -> None:
    site = Site(tmp_path, preemptible=False)
    with site.server as server:
        (first,) = site.run("first")
        (instance_id,) = server.instances()
        site.order("notice", instance_id)
        log = site.server.error_path
        wait_for(lambda: "which is not believed" in log.read_text(), "the word to be heard")
        (second,) = site.run("second")
        assert server.container(second)["instance"] == instance_id
        assert server.instances()[instance_id]["taken_back_at"] is None
        site.open("first")
        site.open("second")
        for each in (first, second):
            assert site.ends(each) == [(instance_id, "succeeded", "")]
