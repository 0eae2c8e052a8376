"""Must show: 300 containers on 20 instances over real OpenSSH, and nothing left afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dispatcher_process import FINAL_STATES, DispatcherProcess, processes_marked, wait_for
from tests.sshd_host import require_sshd

CONTAINERS = 300
INSTANCES = 20

CONFIG = {
    "driver": {"name": "tests.sshd_driver:DRIVER", "parameters": {"quota": INSTANCES}},
    "instance_types": {
        "node": {"provider_type": "node", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.1}
    },
    "engine": {"name": "process"},
    "scheduler": {"max_instances": INSTANCES},
    "pool": {"idle_timeout_s": 3, "boot_timeout_s": 120, "max_concurrent_creates": 4},
}


def _request(number: int) -> dict[str, object]:
    """Container N writes N lines, ends with N % 7, takes 1, 2 or 4 cpus
    and at least a second, so that all instances are needed."""
    script = (
        f"i=0; while [ $i -lt {number} ]; do echo line $i of {number}; i=$((i+1)); done; "
        f"echo error of {number} >&2; sleep 1; exit {number % 7}"
    )
    return {
        "command": ["sh", "-c", script],
        "name": f"n{number}",
        "cpus": (1, 2, 4)[number % 3],
        "memory": "256MiB",
        "priority": 1 + number % 1000,
    }


@pytest.mark.real
def test_300_containers_on_20_instances_over_real_sshd(tmp_path: Path) -> None:
    require_sshd()
    with DispatcherProcess(tmp_path, CONFIG) as server:
        ids = server.submit_many([_request(number) for number in range(CONTAINERS)])
        seen: set[str] = set()

        def all_ended() -> bool:
            seen.update(server.instances())
            return all(c["state"] in FINAL_STATES for c in server.containers().values())

        wait_for(all_ended, "all containers ended", timeout_s=200)
        containers = server.containers()
        assert len(containers) == CONTAINERS
        for number, container_id in enumerate(ids):
            container = containers[container_id]
            assert container["exit_code"] == number % 7
            assert container["state"] == ("failed" if number % 7 else "succeeded")
            assert [a["outcome"] for a in container["attempts"]] == [container["state"]]
            assert container["instance"] in seen
            expected = "".join(f"line {i} of {number}\n" for i in range(number))
            assert server.log(container_id).decode() == expected
            assert server.log(container_id, "stderr").decode() == f"error of {number}\n"
        assert len({c["instance"] for c in containers.values()}) == INSTANCES
        wait_for(lambda: not server.instances(), "all instances are gone", timeout_s=60)
        assert processes_marked(sorted(seen)) == []
        assert server.stop() == 0
    state_dir = tmp_path / "data" / "drivers"
    assert [path.name for path in state_dir.rglob("instance.json")] == []
