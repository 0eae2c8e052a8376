"""Must show: a spent budget stops new work over `kill -9`, and what runs goes on."""

from __future__ import annotations

from pathlib import Path

from tests.dispatcher_process import DispatcherProcess, wait_for

CONFIG = {
    "driver": {"name": "loopback"},
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 5000}
    },
    "engine": {"name": "process"},
    "pool": {"idle_timeout_s": 1, "term_timeout_s": 3},
    "budgets": {"all": {"project": "default", "limit": 0.5, "stop": "new"}},
}


def test_a_spent_budget_stops_new_work_over_a_kill(tmp_path: Path) -> None:
    with DispatcherProcess(tmp_path, CONFIG) as server:
        running = server.submit("sleep", "600")
        server.wait_state(running, "running")
        server.kill()
        server.start()
        waiting = server.submit("true")
        (budget,) = wait_for(lambda: server.call("GET", "/v1/budgets")["items"], "a look")
        assert budget["stopped_until"] is not None
        assert budget["spent"] >= 0.5
        told = server.call("GET", f"/v1/containers/{waiting}/explain")
        assert "budget all is spent" in told["sentence"]
        states = {id_: each["state"] for id_, each in server.containers().items()}
        assert states == {running: "running", waiting: "queued"}
        server.call("POST", f"/v1/containers/{running}/cancel", {})
        server.wait_final(running)
        wait_for(lambda: not server.instances(), "the instance is gone")
