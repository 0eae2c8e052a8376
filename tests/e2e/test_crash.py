"""Must show: `kill -9` of the dispatcher, and a killed sshd, lose nothing that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dispatcher_process import DispatcherProcess, processes_marked, wait_for
from tests.sshd_driver import restart_servers
from tests.sshd_host import require_sshd

RUNNING = 10
LINES = 3000

CONFIG: dict[str, Any] = {
    "driver": {"name": "tests.sshd_driver:DRIVER", "parameters": {"quota": 3}},
    "instance_types": {
        "node": {"provider_type": "node", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.1}
    },
    "engine": {"name": "process"},
    "scheduler": {"max_instances": 3},
    "pool": {"idle_timeout_s": 2},
    "ssh": {"heartbeat_interval_s": 0.5, "heartbeat_timeout_s": 2},
}


def _requests(gate: Path) -> list[dict[str, Any]]:
    """Containers that write half of their lines, wait for a file, write the rest, and end."""
    requests = []
    for number in range(RUNNING):
        script = (
            f"i=0; while [ $i -lt {LINES} ]; do echo {number} $i; i=$((i+1)); done; "
            f"while [ ! -e {gate} ]; do sleep 0.05; done; "
            f"while [ $i -lt {2 * LINES} ]; do echo {number} $i; i=$((i+1)); done; "
            f"exit {number}"
        )
        requests.append({"command": ["sh", "-c", script], "cpus": 1, "memory": "64MiB"})
    return requests


def _expected(number: int) -> bytes:
    return "".join(f"{number} {i}\n" for i in range(2 * LINES)).encode()


def _begin(server: DispatcherProcess, gate: Path) -> list[str]:
    ids = server.submit_many(_requests(gate))
    for container_id in ids:
        server.wait_state(container_id, "running")
    return ids


def _check(server: DispatcherProcess, ids: list[str]) -> None:
    for number, container_id in enumerate(ids):
        container = server.wait_final(container_id)
        assert container["exit_code"] == number
        assert len(container["attempts"]) == 1, "each ran once"
        assert container["attempts"][0]["outcome"] == ("failed" if number else "succeeded")
        assert server.log(container_id) == _expected(number)


def _check_nothing_left(server: DispatcherProcess, instance_ids: list[str]) -> None:
    wait_for(lambda: not server.instances(), "all instances are gone")
    assert processes_marked(instance_ids) == []


@pytest.mark.real
def test_kill_9_of_the_dispatcher_while_ten_containers_run(tmp_path: Path) -> None:
    require_sshd()
    gate = tmp_path / "gate"
    with DispatcherProcess(tmp_path, CONFIG) as server:
        ids = _begin(server, gate)
        before = server.instances()
        server.kill()
        server.start()
        for container_id in ids:
            assert server.container(container_id)["state"] == "running"
        assert server.instances().keys() == before.keys()
        gate.touch()
        _check(server, ids)
        _check_nothing_left(server, sorted(before))


@pytest.mark.real
def test_exits_while_no_dispatcher_runs_are_recorded_by_the_next(tmp_path: Path) -> None:
    require_sshd()
    gate = tmp_path / "gate"
    with DispatcherProcess(tmp_path, CONFIG) as server:
        ids = _begin(server, gate)
        before = sorted(server.instances())
        server.kill()
        gate.touch()
        # Only sshd itself and what it needs is left of an instance when its jobs have ended.
        wait_for(
            lambda: not _jobs(processes_marked(before), gate), "the jobs end without a dispatcher"
        )
        server.start()
        _check(server, ids)
        _check_nothing_left(server, before)


@pytest.mark.real
def test_sshd_killed_and_restarted_under_live_sessions(tmp_path: Path) -> None:
    require_sshd()
    gate = tmp_path / "gate"
    with DispatcherProcess(tmp_path, CONFIG) as server:
        ids = _begin(server, gate)
        before = sorted(server.instances())
        contacts = {id_: i["last_contact_at"] for id_, i in server.instances().items()}
        restart_servers(tmp_path / "data" / "drivers")
        wait_for(
            lambda: all(
                i["last_contact_at"] > contacts[id_] and not i["last_error"]
                for id_, i in server.instances().items()
            ),
            "all sessions are up again",
        )
        gate.touch()
        _check(server, ids)
        _check_nothing_left(server, before)


def _jobs(pids: list[int], gate: Path) -> list[int]:
    found = []
    for pid in pids:
        try:
            if str(gate).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found
