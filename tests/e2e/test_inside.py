"""Must show: what a container submits from inside is there once and is its own, come what may."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import inside_program
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.sizes import sized
from tests.sshd_host import require_sshd

CHILDREN = sized(200, 1000)
PROGRAM = str(Path(inside_program.__file__))
CONFIG: dict[str, Any] = {
    "driver": {"name": "tests.sshd_driver:DRIVER", "parameters": {"quota": 1}},
    "instance_types": {
        "node": {"provider_type": "node", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.1}
    },
    "engine": {"name": "process"},
    "scheduler": {"max_instances": 1},
    "pool": {"idle_timeout_s": 2},
    "ssh": {"heartbeat_interval_s": 0.5, "heartbeat_timeout_s": 4},
}


def _children(server: DispatcherProcess, parent: str) -> dict[str, dict[str, Any]]:
    found = server.containers()
    return {name: one for name, one in found.items() if one.get("parent") == parent}


def _wait_for_children(server: DispatcherProcess, parent: str, enough: int) -> None:
    def look() -> bool:
        ended = server.container(parent)["state"] == "failed"
        assert not ended, server.log(parent, "stderr")
        return len(_children(server, parent)) >= enough

    wait_for(look, f"there are {enough} children", timeout_s=180)


def _asked(
    server: DispatcherProcess, tmp_path: Path, *requests: str, **fields: Any
) -> list[tuple[int, Any]]:
    """Ask from inside of a new container, and return each answer."""
    script = tmp_path / f"requests-{len(list(tmp_path.iterdir()))}"
    script.write_text("\n".join(requests) + "\n", encoding="utf-8")
    made = server.submit(sys.executable, PROGRAM, "ask", str(script), api=True, **fields)
    ended = server.wait_final(made)
    assert ended["state"] == "succeeded", server.log(made, "stderr")
    answers = [json.loads(line) for line in server.log(made).decode().splitlines()]
    return [(status, json.loads(text) if text else None) for status, text in answers]


def _end_instances(server: DispatcherProcess) -> None:
    """Let no sshd outlive the test: nothing that waits needs an instance any more."""
    wait_for(lambda: not server.instances(), "all instances are gone")


@pytest.mark.real
def test_a_thousand_children_over_two_crashes_are_there_once_and_have_their_parent(
    tmp_path: Path,
) -> None:
    require_sshd()
    with DispatcherProcess(tmp_path, CONFIG) as server:
        parent = server.submit(sys.executable, PROGRAM, "submit", str(CHILDREN), api=True)
        for enough in (CHILDREN // 3, 2 * CHILDREN // 3):
            _wait_for_children(server, parent, enough)
            server.kill()
            server.start()
        ended = server.wait_final(parent, timeout_s=240)
        assert ended["state"] == "succeeded", server.log(parent, "stderr")
        told = server.log(parent).decode().split()
        everything = server.containers()
        assert len(told) == len(set(told)) == CHILDREN
        assert set(everything) == {parent, *told}, "none twice"
        assert {everything[each].get("parent") for each in told} == {parent}
        assert len(ended["attempts"]) == 1
        _end_instances(server)


@pytest.mark.real
def test_what_a_job_tries_inside_gets_it_nothing_of_others(tmp_path: Path) -> None:
    require_sshd()
    child = '{"command": ["true"], "priority": 0}'
    with DispatcherProcess(tmp_path, CONFIG) as server:
        other = server.submit("true", priority=0)
        tries = {
            f"GET /v1/containers/{other}": 404,
            f"PATCH /v1/containers/{other} " + '{"priority": 9}': 404,
            f"POST /v1/containers/{other}/cancel {{}}": 404,
            f"POST /v1/containers/{other}/cancel " + '{"tree": true}': 404,
            f"GET /v1/containers?parent={other}": 404,
            "GET /v1/instances": 403,
            "GET /v1/tokens": 403,
            'POST /v1/tokens {"user": "me", "role": "admin"}': 403,
            "GET /v1/audit": 403,
            "GET /metrics": 403,
            "GET /v1/events": 403,
            "GET //v1/tokens": 404,
            "GET /v1/../v1/tokens": 404,
            "GET /v1/containers/..%2f..%2fv1%2ftokens": 404,
            "POST /v1/containers " + '{"command": ["true"], "project": "another"}': 400,
            f"POST /v1/containers {child}": 201,
            "GET /v1/containers": 200,
        }
        answers = _asked(server, tmp_path, *tries)
        told = dict(zip(tries, [status for status, _ in answers], strict=True))
        assert told == tries
        made, listed = answers[-2][1], answers[-1][1]
        assert [each["id"] for each in listed["items"]] == [made["id"]]
        assert server.call("POST", f"/v1/containers/{made['parent']}/cancel", {"tree": True})
        assert server.container(made["id"])["cancel_requested"]
        assert not server.container(other)["cancel_requested"]
        _end_instances(server)
