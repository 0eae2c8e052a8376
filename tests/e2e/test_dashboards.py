"""Must show: a real Prometheus that scrapes a real server has something for each panel, and money
is what the ledger says, with a `kill -9` of the server inside the time that is asked for.

No Grafana runs here: what it would ask, Prometheus is asked.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RequireTool
from tests.dashboards import JOB, queries
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.prometheus_server import Prometheus, Series
from tests.sizes import sized
from tests.sshd_host import require_sshd
from tools.grafana.panels import RATE, STATE_RATE, spent_in_range

EACH_S = 0.5
RATES_OVER_S = 60.0
STARTED = "longshore_queue_to_start_seconds_count"
MOST_OFF = 0.005
CHANGES_S = sized(0, 90)
"""For how long money is looked at while work comes and goes, in the whole run alone."""
CONFIG: dict[str, Any] = {
    "driver": {"name": "tests.sshd_driver:DRIVER", "parameters": {"quota": 2}},
    "instance_types": {
        "node": {"provider_type": "node", "cpus": 4, "memory": "4GiB", "price_per_hour": 900}
    },
    "engine": {"name": "process"},
    "scheduler": {"max_instances": 2, "max_hourly_spend": 5000},
    "pool": {"idle_timeout_s": 2, "sync_interval_s": 0.5},
    "budgets": {"vision": {"project": "vision", "limit": 1000}},
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def work(project: str, cpus: int) -> dict[str, Any]:
    return {
        "command": ["sleep", "600"],
        "cpus": cpus,
        "memory": "64MiB",
        "project": project,
    }


def filled_in(query: str, range_s: float) -> str:
    """Return a money panel's query as of a range."""
    text = query.replace("$__range_s", f"{range_s:.3f}").replace("$job", JOB)
    return text.replace("$__range", f"{round(range_s * 1000)}ms")


def by_label(found: Series, label: str) -> dict[str, float]:
    return {dict(labels)[label]: values[-1] for labels, values in found.items()}


class Window:
    """A time, with what the ledger said at its beginning and at its end."""

    def __init__(self, server: DispatcherProcess) -> None:
        self._server = server
        self.since, self._before = self._spent()

    def close(self) -> None:
        """End it now."""
        self.until, self._after = self._spent()

    def check(self, prometheus: Prometheus, what: str) -> None:
        """See that all money panels of a range say of it what the ledger does."""
        off = self.deviations(prometheus)
        assert {"project audio", "project vision", "state work", "type node"} <= off.keys()
        assert max(off.values()) < MOST_OFF, off
        of_s = self.until - self.since
        tell(f"{of_s:.1f} s with {what}, off by (%):", {name: n * 100 for name, n in off.items()})

    def _spent(self) -> tuple[float, dict[str, Counter[str]]]:
        """Return up to when the ledger counts, and what was spent by then, in nanodollars."""
        told = self._server.call("GET", "/v1/cost?by=project,state,type&limit=1000")
        found = {by: Counter[str]() for by in ("project", "state", "type")}
        for row in told["items"]:
            for by, sums in found.items():
                sums[row["by"][by]] += round(Decimal(str(row["amounts"]["total"])) * 10**9)
        return datetime.fromisoformat(told["as_of"]).timestamp(), found

    def ledger(self, by: str) -> dict[str, float]:
        """Return what was spent in it by the ledger, by a dimension; without what cost nothing."""
        return {name: n / 10**9 for name, n in (self._after[by] - self._before[by]).items()}

    def deviations(self, prometheus: Prometheus) -> dict[str, float]:
        """Return by how much each money panel of a range is off, as a share of all of it."""
        range_s = self.until - self.since
        panels = (
            ("project", RATE, "project"),
            ("state", STATE_RATE, "state"),
            ("type", RATE, "instance_type"),
        )
        off: dict[str, float] = {}
        for by, metric, label in panels:
            query = filled_in(spent_in_range(metric, label), range_s)
            told, booked = by_label(prometheus.at(query, self.until), label), self.ledger(by)
            whole = sum(booked.values())
            for name in sorted(told.keys() | booked.keys()):
                off[f"{by} {name}"] = abs(told.get(name, 0.0) - booked.get(name, 0.0)) / whole
            ((all_of_it,),) = prometheus.at(
                filled_in(spent_in_range(metric, ""), range_s), self.until
            ).values()
            off[f"all by {by}"] = abs(all_of_it - whole) / whole
        return off


@pytest.mark.real
def test_no_panel_is_empty_and_money_is_what_the_ledger_says(
    tmp_path: Path, require_tool: RequireTool
) -> None:
    require_sshd()
    program = require_tool("prometheus", "prometheus")
    address = f"127.0.0.1:{free_port()}"
    began = time.time()
    with (
        DispatcherProcess(tmp_path / "server", {**CONFIG, "listen": address}) as server,
        Prometheus(program, tmp_path / "p", target=address, job=JOB, each_s=EACH_S) as prometheus,
    ):
        has_seen(prometheus, "longshore_store_writable == 1")
        server.wait_final(server.submit("true", project="vision"))
        ids = server.submit_many([work("vision", 3), work("audio", 2)])
        for container_id in ids:
            server.wait_state(container_id, "running")
        has_seen(prometheus, f'{RATE}{{project="audio"}} > 0 and on () {STARTED} == 3')
        window = Window(server)
        wait_for(lambda: time.time() > window.since + sized(2, 30), "some time has gone by")
        server.kill()
        server.start()
        up_at = time.time()
        wait_for(lambda: time.time() > up_at + sized(3, 60), "some time has gone by")
        window.close()
        window.check(prometheus, "a kill -9 inside")
        if CHANGES_S:
            check_changes(server, prometheus)
        for container_id in ids:
            server.call("POST", f"/v1/containers/{container_id}/cancel", {})
            server.wait_final(container_id)
        check_panels(prometheus, began)
        wait_for(lambda: not server.instances(), "the instances are gone")
        check_what_is_gone(prometheus)


def check_changes(server: DispatcherProcess, prometheus: Prometheus) -> None:
    """See that money is right also where what runs changes within the range."""
    window = Window(server)
    wait_for(lambda: time.time() > window.since + CHANGES_S / 3, "a third has gone by")
    more = server.submit_many([work("vision", 1)])[0]
    server.wait_state(more, "running")
    wait_for(lambda: time.time() > window.since + CHANGES_S * 2 / 3, "two thirds have gone by")
    server.call("POST", f"/v1/containers/{more}/cancel", {})
    server.wait_final(more)
    wait_for(lambda: time.time() > window.since + CHANGES_S, "all of it has gone by", timeout_s=200)
    window.close()
    window.check(prometheus, "work that comes and goes")


def tell(what: str, numbers: Mapping[str, float]) -> None:
    """Tell numbers to whoever asks for them with `pytest -rP`."""
    told = ", ".join(f"{name} {number:.4g}" for name, number in sorted(numbers.items()) if number)
    sys.stdout.write(f"{what} {told}\n")


def has_seen(prometheus: Prometheus, query: str) -> None:
    """Return once Prometheus has seen something of the server."""
    wait_for(lambda: prometheus.at(query, time.time()), f"Prometheus has seen {query}")


def check_panels(prometheus: Prometheus, began: float) -> None:
    """Ask for all panels of the whole time: none is empty, and money is none below 0."""
    until = time.time()
    empty, seen = [], Counter[str]()
    for query in queries():
        text = query.filled_in(until - began, rate_s=RATES_OVER_S)
        if query.is_instant:
            found = prometheus.at(text, until)
        else:
            found = prometheus.between(text, began, until, step_s=1.0)
        if not found:
            empty.append(f"{query.dashboard}: {query.panel}: {query.legend}")
        for label in re.findall(r"{{(\w+)}}", query.legend):
            assert all(label in dict(labels) for labels in found), query
        assert all(value >= 0 for values in found.values() for value in values), query
        seen[query.dashboard] += len(found)
    assert not empty, "\n".join(["", *empty])
    tell("series that there were, and no panel without:", seen)
    assert min(seen.values()) > 20, seen


def check_what_is_gone(prometheus: Prometheus) -> None:
    """See that 0 is told as 0, and that the series of what is gone are gone."""
    rates = f'{RATE}{{job="{JOB}"}}'
    wait_for(lambda: not prometheus.at(rates, time.time()), "no instance has a rate")
    now = time.time()
    states = by_label(prometheus.at(f'{STATE_RATE}{{job="{JOB}"}}', now), "state")
    assert states["work"] == 0
    assert set(states.values()) == {0.0}
    assert prometheus.at(f'longshore_budget_limit_usd{{job="{JOB}"}}', now)
    assert not prometheus.at(f'longshore_price_age_seconds{{job="{JOB}"}}', now), "nobody knows"
