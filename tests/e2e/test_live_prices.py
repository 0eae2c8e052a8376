"""Must show: prices that move by zone are what a real server's instances cost, part by part."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.priced_cloud import Market

ROOT = Path(__file__).parent.parent.parent
SPOT = {"cpus": 2, "memory": "1GiB", "preemptible": True}


def config(market: Path) -> dict[str, Any]:
    return {
        "driver": {
            "name": "tests.priced_cloud:DRIVER",
            "parameters": {"boot_time_s": 0, "zones": ["z1"], "market": str(market)},
        },
        "instance_types": {
            # On demand it would cost 7 an hour, which is never what a preemptible one does.
            "steady": {"provider_type": "n1", "cpus": 2, "memory": "1GiB", "price_per_hour": 7},
            "spot": {"provider_type": "n1", "price_per_hour": 3, **SPOT},
            "secret": {"provider_type": "n2", "price_per_hour": 0, **SPOT},
        },
        "cost": {"prices": "live"},
        "engine": {"name": "process"},
        "pool": {"idle_timeout_s": 1, "sync_interval_s": 0.5, "term_timeout_s": 3},
    }


def longshore(server: DispatcherProcess, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "longshore", "cost", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=ROOT,
        env={**os.environ, "LONGSHORE_URL": server.url},
    )
    return done.stdout


def lines(server: DispatcherProcess, type_name: str) -> list[tuple[str, str, Decimal]]:
    """Return the zone, the source and the price of what is booked of instances of a type."""
    rows = csv.DictReader(io.StringIO(longshore(server, "export"), newline=""))
    found = [row for row in rows if row["type"] == type_name and Decimal(row["hours"])]
    return [
        (row["zone"], row["price_source"], Decimal(row["usd_per_hour"]))
        for row in sorted(found, key=lambda row: row["usd_per_hour"])
    ]


def ages(server: DispatcherProcess) -> dict[str, float]:
    return {
        sample.labels["instance_type"]: sample.value
        for family in text_string_to_metric_families(server.metrics())
        for sample in family.samples
        if sample.name == "longshore_price_age_seconds"
    }


def on(server: DispatcherProcess, type_name: str) -> str:
    id_ = server.submit("sleep", "600", constraints={"instance_types": [type_name]})
    server.wait_state(id_, "running")
    return id_


def test_what_instances_cost_follows_the_prices_of_their_zone(tmp_path: Path) -> None:
    path = tmp_path / "market"
    prices = {"steady": "7", "spot": "0.3"}
    began = time.time() - 5
    Market(prices=prices, in_zones=[("spot", "z1", began, "0.25")]).write(path)
    with DispatcherProcess(tmp_path / "server", config(path)) as server:
        wait_for(lambda: ages(server).keys() == {"steady", "spot"}, "the driver tells prices")
        running = [on(server, "spot"), on(server, "secret")]
        first = ("z1", "history", Decimal("0.25"))
        wait_for(lambda: first in lines(server, "spot"), "the zone's price counts")
        moved = [("spot", "z1", began, "0.25"), ("spot", "z1", time.time(), "0.5")]
        Market(prices=prices, in_zones=moved).write(path)
        second = ("z1", "history", Decimal("0.5"))
        wait_for(lambda: second in lines(server, "spot"), "the new price counts from then on")
        told = lines(server, "spot")
        assert first in told, "what was before costs what it did"
        assert {price for _, _, price in told} <= {Decimal(each) for each in ("0.25", "0.3", "0.5")}

        # While the market is closed the latest prices count, and grow old.
        path.unlink()
        wait_for(lambda: ages(server)["spot"] > 1.5, "its price grows old")
        assert lines(server, "spot")[-1] == second

        # Nobody knows what the other one costs: that is told, and is nothing that it costs.
        assert {(source, price) for _, source, price in lines(server, "secret")} == {
            ("none", Decimal(0))
        }
        whole = json.loads(longshore(server, "--by", "zone", "--json"))
        [row] = whole["items"]
        assert row["by"] == {"zone": "z1"}
        assert row["amounts"]["total"] == whole["total"]["total"] > 0
        assert whole["unpriced_instance_hours"] > 0
        assert "no price: an admin sets price_per_hour" in longshore(server, "--by", "zone")
        health = server.call("GET", "/v1/health")
        assert "instances of secret have no price" in json.dumps(health)
        for each in running:
            server.call("POST", f"/v1/containers/{each}/cancel", {})
            server.wait_final(each)
        wait_for(lambda: not server.instances(), "the instances are gone")
