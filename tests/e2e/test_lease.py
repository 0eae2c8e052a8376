"""Must show: instances whose dispatcher is gone for good power themselves off, over real SSH."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.sshd_host import require_sshd

ORPHAN_TIMEOUT_S = 6


def _config(**pool: Any) -> dict[str, Any]:
    command = 'echo off >>"$LONGSHORE_RUNNER_DIR/powered-off"'
    parameters = {"quota": 2, "power_off": command}
    return {
        "driver": {"name": "tests.sshd_driver:DRIVER", "parameters": parameters},
        "instance_types": {
            "node": {"provider_type": "node", "cpus": 1, "memory": "1GiB", "price_per_hour": 0.1}
        },
        "engine": {"name": "process"},
        "scheduler": {"max_instances": 2},
        "pool": {
            "idle_timeout_s": 300,
            "boot_timeout_s": ORPHAN_TIMEOUT_S - 0.1,
            "orphan_timeout_s": ORPHAN_TIMEOUT_S,
            **pool,
        },
    }


def _powered_off(directory: Path) -> set[str]:
    """Return the ids of the instances that ran the command."""
    return {file.parent.parent.name for file in directory.rglob("i-sshd-*/runner/powered-off")}


def _end(server: DispatcherProcess) -> None:
    # Before that a server that has just started knows of none.
    wait_for(lambda: server.call("GET", "/v1/instances")["complete"], "the cloud is listed")
    for instance_id in sorted(server.instances()):
        server.call("POST", f"/v1/instances/{instance_id}/kill", {})
    wait_for(lambda: not server.instances(), "all instances are gone")


@pytest.mark.real
def test_instances_of_a_dead_dispatcher_power_off_unless_they_are_held(tmp_path: Path) -> None:
    require_sshd()
    with DispatcherProcess(tmp_path, _config()) as server:
        gate = tmp_path / "gate"
        wait = f"while [ ! -e {gate} ]; do sleep 0.05; done; sleep {ORPHAN_TIMEOUT_S + 2}"
        ids = server.submit_many([{"command": ["sh", "-c", wait], "cpus": 1}] * 2)
        held, other = (server.wait_state(each, "running")["instance"] for each in ids)
        hold = {"idle_behavior": "hold"}
        server.call("PUT", f"/v1/instances/{held}/idle-behavior", hold)
        gate.touch()
        for each in ids:
            server.wait_final(each)
        assert _powered_off(tmp_path) == set(), "a dispatcher that lives renews the leases"
        server.kill()
        wait_for(lambda: _powered_off(tmp_path) == {other}, "the other one powers off")
        server.start()
        _end(server)


@pytest.mark.real
def test_an_instance_that_had_no_session_yet_powers_off_too(tmp_path: Path) -> None:
    require_sshd()
    with DispatcherProcess(tmp_path, _config(boot_probe_command="exit 7")) as server:
        container_id = server.submit("true")
        wait_for(
            lambda: any("status 7" in str(each) for each in server.instances().values()),
            "a boot probe fails",
        )
        assert _powered_off(tmp_path) == set()
        server.kill()
        wait_for(lambda: len(_powered_off(tmp_path)) == 1, "the instance powers off")
        server.start()
        server.call("POST", f"/v1/containers/{container_id}/cancel", {})
        _end(server)
