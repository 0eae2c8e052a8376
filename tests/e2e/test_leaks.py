"""Must show: what the cloud does not end is told, to people, to cron and to Prometheus."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.stubborn_driver import REFUSAL

ROOT = Path(__file__).parent.parent.parent


def config(refusals: Path) -> dict[str, Any]:
    return {
        "driver": {
            "name": "tests.stubborn_driver:DRIVER",
            "parameters": {"boot_time_s": 0, "refusals": str(refusals)},
        },
        "instance_types": {
            "t1": {"provider_type": "s1", "cpus": 1, "memory": "1GiB", "price_per_hour": 36}
        },
        "pool": {"idle_timeout_s": 0.2, "shutdown_timeout_s": 0.2, "sync_interval_s": 0.5},
    }


def longshore(server: DispatcherProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "longshore", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**os.environ, "LONGSHORE_URL": server.url},
        stdin=subprocess.DEVNULL,
    )


def leak_samples(server: DispatcherProcess) -> dict[str, float]:
    """Return the metrics of leaks that are not 0, by kind or name."""
    return {
        sample.labels.get("kind", sample.name): sample.value
        for family in text_string_to_metric_families(server.metrics())
        for sample in family.samples
        if "leak" in sample.name and sample.value
    }


def test_an_instance_that_the_cloud_does_not_end(tmp_path: Path) -> None:
    refusals = tmp_path / "refusals"
    refusals.write_text("destroy")
    with DispatcherProcess(tmp_path / "server", config(refusals)) as server:
        try:
            server.wait_final(server.submit("true"))
            (instance_id,) = server.instances()
            wait_for(lambda: server.call("GET", "/v1/leaks")["items"], "the leak is told")
            done = longshore(server, "leaks")
            assert done.returncode == 1, done.stderr
            header, row, _, total = done.stdout.splitlines()
            assert header.split() == ["INSTANCE", "TYPE", "FOR", "PRICE", "COST", "WHY", "REMEDY"]
            assert row.split()[:2] == [instance_id, "t1"]
            assert "$36.00/h" in row
            assert "idle for idle_timeout" in row
            assert REFUSAL in row
            assert total.startswith("1 in all, $36.00/h, $0.")
            document = json.loads(longshore(server, "leaks", "--json").stdout)
            assert document["complete"]
            assert document["items"][0]["instance"] == instance_id
            assert document["items"][0]["kind"] == "destroy_failing"
            assert 0 < document["items"][0]["cost_usd"] < 1
            assert leak_samples(server) == {
                "destroy_failing": 1.0,
                "longshore_leaked_price_usd_per_hour": 36.0,
                "longshore_leaks_complete": 1.0,
            }
        finally:
            refusals.write_text("")
        wait_for(lambda: not server.instances(), "the instance is gone")
        done = longshore(server, "leaks")
        assert (done.returncode, done.stdout) == (0, "nothing is billed that is not wanted\n")
        assert leak_samples(server) == {"longshore_leaks_complete": 1.0}


def test_an_empty_answer_without_a_listing_is_no_good_news(tmp_path: Path) -> None:
    refusals = tmp_path / "refusals"
    refusals.write_text("")
    with DispatcherProcess(tmp_path / "server", config(refusals)) as server:
        assert longshore(server, "leaks").returncode == 0
        refusals.write_text("list")
        wait_for(lambda: not server.call("GET", "/v1/leaks")["complete"], "a listing failed")
        done = longshore(server, "leaks")
        assert (done.returncode, done.stdout) == (1, "")
        assert "something may be billed and not wanted: the server has no current" in done.stderr
        assert leak_samples(server) == {}
        refusals.write_text("")
        wait_for(lambda: server.call("GET", "/v1/leaks")["complete"], "a listing is in")
        assert longshore(server, "leaks").returncode == 0
