"""Must show: with `run_as`, jobs run as another user even where the data is closed to that user."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.pool.runner.spool import places
from tests.conftest import not_tested
from tests.dispatcher_process import DispatcherProcess, wait_for

NOBODY = "nobody"
CONFIG = {
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
    },
    "engine": {"name": "process", "run_as": NOBODY},
    "pool": {"idle_timeout_s": 1},
}


@pytest.fixture(params=["loopback", "simulated"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DispatcherProcess]:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with DispatcherProcess(tmp_path, {**CONFIG, "driver": {"name": request.param}}) as process:
        yield process
        wait_for(lambda: not process.instances(), "the instance is gone")


def test_jobs_are_anothers_and_see_nothing_of_ours(server: DispatcherProcess) -> None:
    first = server.submit(
        "sh", "-c", "id -un; touch ~/mine && ls ~; sleep 600 >/dev/null & exit 7", env={"A": "b c"}
    )
    assert server.wait_final(first)["exit_code"] == 7
    assert server.log(first) == f"{NOBODY}\nmine\n".encode()

    data = server.directory / "data"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    (instance_secret,) = data.rglob("instance-secret")
    (log_dir,) = data.rglob("runner/*/logs")
    cluster = log_dir.parent
    there = places(cluster.name, {"LONGSHORE_RUNNER_DIR": str(cluster.parent)})
    assert Path(there.spool, "attempts").exists()
    secrets = [data, instance_secret, log_dir, Path(there.spool), Path(there.apart)]
    words = " ".join(map(str, secrets))
    script = f'for each in {words}; do cat "$each" || ls "$each" || echo closed; done; pwd'
    second = server.submit("sh", "-c", script)
    assert server.wait_final(second)["exit_code"] == 0
    *closed, work = server.log(second).decode().splitlines()
    assert closed == ["closed"] * len(secrets)
    assert not Path(work).is_relative_to(server.directory)
    wait_for(lambda: not server.instances(), "the instance is gone")
    assert not Path(work).parent.exists(), "it leaves nothing behind"
