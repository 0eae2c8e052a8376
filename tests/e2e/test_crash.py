"""Must show: `kill -9` of the dispatcher, and a killed sshd, lose nothing that runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.dispatcher_process import ApiError, DispatcherProcess, processes_marked, wait_for
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


def _requests(gate: Path, cpus: float) -> list[dict[str, Any]]:
    """Containers that write half of their lines, wait for a file, write the rest, and end."""
    requests = []
    for number in range(RUNNING):
        script = (
            f"i=0; while [ $i -lt {LINES} ]; do echo {number} $i; i=$((i+1)); done; "
            f"while [ ! -e {gate} ]; do sleep 0.05; done; "
            f"while [ $i -lt {2 * LINES} ]; do echo {number} $i; i=$((i+1)); done; "
            f"exit {number}"
        )
        requests.append({"command": ["sh", "-c", script], "cpus": cpus, "memory": "64MiB"})
    return requests


def _expected(number: int) -> bytes:
    return "".join(f"{number} {i}\n" for i in range(2 * LINES)).encode()


def _begin(server: DispatcherProcess, gate: Path, *, cpus: float = 1) -> list[str]:
    ids = server.submit_many(_requests(gate, cpus))
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


def _store_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "data").glob("longshore.db*"))


@pytest.mark.real
def test_a_store_that_is_deleted_under_the_server_acknowledges_nothing_more(tmp_path: Path) -> None:
    require_sshd()
    with DispatcherProcess(tmp_path, CONFIG) as server:
        (tmp_path / "data" / "longshore.db").unlink()
        with pytest.raises(ApiError) as refused:
            server.submit("true")
        assert refused.value.status == 503
        first = refused.value.body["detail"]
        assert "--accept-new-store" in first, "the remedy"
        wait_for(lambda: not server.ready(), "the health tells it")
        [problem] = [
            each for each in server.health_problems() if "longshore.db cannot be found" in each
        ]
        assert "start it with --accept-new-store" in problem
        with pytest.raises(ApiError) as refused:
            server.submit("true")
        assert (refused.value.status, refused.value.body["detail"]) == (503, problem)
        # Who was quick enough to ask before the store was looked at is told the same in the end.
        assert first == problem or "nothing was accepted" in first
        assert server.stop() == 1, "what was taken back last could not be"


HERE: dict[str, Any] = {
    "engine": {"name": "process"},
    "instance_types": {"here": {"cpus": 64, "memory": "64GiB", "price_per_hour": 0.1}},
    "pool": {"idle_timeout_s": 2, "sync_interval_s": 2},
}


@pytest.mark.real
@pytest.mark.parametrize("lost", ["all of it", "its log"])
def test_a_start_without_the_store_stops_and_an_accepted_one_keeps_what_runs(
    tmp_path: Path, lost: str
) -> None:
    gate = tmp_path / "gate"
    with DispatcherProcess(tmp_path, HERE) as server:
        # All are to have room there, however few cpus this machine has.
        ids = _begin(server, gate, cpus=0.05)
        [instance] = sorted(server.instances())

        def running() -> list[int]:
            return _jobs(processes_marked([instance]), gate)

        # Who has just been born looks like its parent for a moment: what counts is one and the same
        # look, since a second one may see somebody new.
        jobs: list[int] = []

        def each_runs() -> bool:
            jobs[:] = running()
            return len(jobs) == RUNNING

        wait_for(each_runs, "each runs, and nothing beside")
        server.kill()
        for path in _store_files(tmp_path):
            if not path.name.endswith(".lock") and (lost == "all of it" or path.suffix != ".db"):
                path.unlink()
        begin = server.launch()
        assert server.process is not None
        assert server.process.wait(60) == 2
        said = server.error_path.read_text(encoding="utf-8")[begin:]
        assert "is not the one that was here before" in said
        assert "--accept-new-store" in said
        assert len(set(_DATE.findall(said))) >= (1 if lost == "all of it" else 2)

        server.start("--accept-new-store")
        wait_for(lambda: len(_strays(server)) == RUNNING, "all are found")
        [leak] = server.call("GET", "/v1/leaks")["items"]
        assert (leak["instance"], leak["kind"]) == (instance, "strays_kept")
        assert running() == jobs, "all of it runs on"
        server.stop()
        server.start()
        wait_for(lambda: len(_strays(server)) == RUNNING, "nor does the next start forget it")

        where = f"/v1/instances/{instance}/strays"
        ended = _strays(server)[0]
        server.call("POST", where, {"fate": "kill", "attempts": [ended]})
        wait_for(lambda: ended not in _strays(server), "that one is ended")
        server.call("POST", where, {"fate": "adopt"})
        assert server.call("GET", "/v1/leaks")["items"] == []
        assert not set(jobs) <= set(_jobs(processes_marked([instance]), gate))
        gate.touch()
        _check_nothing_left(server, [instance])
        log = [json.loads(each) for each in server.log_lines() if each.startswith("{")]
        told = [(each["event"], each["container_id"]) for each in log if "stray" in each["event"]]
        assert {each for event, each in told if event == "stray kept"} == set(ids)
        assert len([event for event, _ in told if event == "stray killed"]) == 1
        assert {each["instance_id"] for each in log if "stray" in each["event"]} == {instance}


_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def _strays(server: DispatcherProcess) -> list[str]:
    return [each["attempt"] for each in server.call("GET", "/v1/strays")["items"]]


def _jobs(pids: list[int], gate: Path) -> list[int]:
    found = []
    for pid in pids:
        try:
            if str(gate).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found
