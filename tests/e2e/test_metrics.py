"""Must show: what a real server, cloud and session come to in the metrics."""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.dispatcher_process import DispatcherProcess, wait_for

CONFIG = {
    "driver": {"name": "simulated", "parameters": {"boot_time_s": 0.5}},
    "instance_types": {
        "t1": {"provider_type": "s1", "cpus": 1, "memory": "1GiB", "price_per_hour": 36}
    },
    "pool": {"idle_timeout_s": 60, "sync_interval_s": 0.5, "probe_interval_s": 600},
    "ssh": {"heartbeat_interval_s": 0.1},
}
SILENCE_S = 3.0


def values(server: DispatcherProcess) -> dict[str, float]:
    """Return all values by name and what their labels say."""
    return {
        " ".join([sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "le")]): (
            sample.value
        )
        for family in text_string_to_metric_families(server.metrics())
        for sample in family.samples
    }


def test_one_instance_from_its_boot_to_its_end(tmp_path: Path) -> None:
    with DispatcherProcess(tmp_path / "server", CONFIG) as server:
        server.wait_final(server.submit("true"))
        ready_at = time.monotonic()
        found = values(server)
        assert found["longshore_instance_boots_total success"] == 1
        assert found["longshore_driver_operations_total create ok"] == 1
        assert found["longshore_driver_operations_total list ok"] >= 1
        assert found["longshore_driver_operation_duration_seconds_count create"] == 1
        assert found["longshore_run_probe_duration_seconds_count success"] >= 1
        assert found["longshore_instance_time_to_ssh_seconds_count"] == 1
        assert 0 < found["longshore_instance_time_to_ready_seconds_sum"] < 60
        assert 0 < found["longshore_queue_to_start_seconds_sum"] < 60
        (instance_id,) = server.instances()

        def heard_since() -> bool:
            """Return whether, long after the last probe, a heartbeat was heard of late."""
            silent_s = time.monotonic() - ready_at
            age_s = values(server)["longshore_probe_age_max_seconds"]
            return silent_s > SILENCE_S and 0 < age_s < SILENCE_S / 2

        wait_for(heard_since, "heartbeats count like probes", timeout_s=30)
        server.call("POST", f"/v1/instances/{instance_id}/kill", {"reason": "seen enough"})
        wait_for(lambda: not server.instances(), "the instance is gone")
        found = values(server)
        assert found["longshore_instances_disappeared_total shutdown"] == 1
        assert found["longshore_instance_time_to_disappear_seconds_count"] == 1
        assert not [name for name in found if name.startswith("longshore_instances ")]
