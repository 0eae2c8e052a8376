"""Must show: bad input of every kind gets an error that names the path and the remedy.

Against the real server: HTTP answers 4xx as problem details, the CLI exits 2, everything that is
wrong is named at once, nothing is half done, and 10,000 generated requests give no 5xx. Its
instances never boot, so that nothing of what is generated here is ever run.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.api_requests import ONE_OF_EACH, REQUESTS, Sent
from tests.api_wire import Wire, check
from tests.dispatcher_process import ApiError, DispatcherProcess
from tests.sizes import sized

BATCH = 20
BATCHES = sized(100, 500)

CONFIG: dict[str, Any] = {
    "driver": {"name": "simulated", "parameters": {"boot_time_s": 3600, "quota": 1}},
    "instance_types": {
        "small": {"provider_type": "s", "cpus": 1, "memory": "2GiB", "price_per_hour": 0.05},
        "large": {"provider_type": "l", "cpus": 8, "memory": "16GiB", "price_per_hour": 0.4},
    },
    "engine": {"name": "process"},
    "scheduler": {"max_instances": 1},
    "limits": {"request_bytes": 8 * 2**20},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path_factory.mktemp("bad-input"), CONFIG) as process:
        yield process


def refused(server: DispatcherProcess, body: Any) -> dict[str, str]:
    """Submit, expect a 400, and return path -> message."""
    before = len(server.containers())
    with pytest.raises(ApiError) as caught:
        server.call("POST", "/v1/containers", body)
    assert caught.value.status == 400, caught.value.body
    assert len(server.containers()) == before, "nothing is half done"
    return {error["path"]: error["message"] for error in caught.value.body["errors"]}


def test_everything_that_is_wrong_is_named_at_once(server: DispatcherProcess) -> None:
    problems = refused(
        server,
        {
            "command": [],
            "cpus": -1,
            "memory": "4 parsecs",
            "priority": 5000,
            "env": {"1BAD": "x", "OK": 5},
            "constraints": {"instance_types": ["smal"], "preemptible": "maybe"},
            "comand": ["typo"],
            "inputs": [],
        },
    )
    assert problems.keys() >= {
        "command",
        "cpus",
        "memory",
        "priority",
        "env.OK",
        "comand",
        "inputs",
        "constraints.preemptible",
    }
    assert "command" in problems["comand"], "the nearest known key is named"
    assert "not supported" in problems["inputs"]


def test_a_list_is_all_or_nothing(server: DispatcherProcess) -> None:
    good = {"command": ["true"]}
    problems = refused(server, [good, {"command": "true"}, good, {"command": ["x"], "cpus": "a"}])
    assert problems.keys() == {"[1].command", "[3].cpus"}


def test_two_mib_of_environment(server: DispatcherProcess) -> None:
    problems = refused(server, {"command": ["true"], "env": {"A": "x" * 2**21}})
    assert any(path.startswith("env") for path in problems)


def test_an_impossible_size_names_the_nearest_type(server: DispatcherProcess) -> None:
    problems = refused(server, {"command": ["true"], "cpus": 9, "memory": "1GiB"})
    assert "nearest is large" in problems["resources"]
    assert "too small in cpus" in problems["resources"]
    problems = refused(server, [{"command": ["true"]}, {"command": ["true"], "gpus": 1}])
    assert "no type at all has gpus" in problems["[1].resources"]
    problems = refused(server, {"command": ["true"], "gpus": {"model": "a100", "memory": "1GiB"}})
    for why in ("no type at all has gpus", "gpu model a100 missing", "too small in gpu memory"):
        assert why in problems["resources"]
    problems = refused(server, {"command": ["true"], "resources": {"licence": 1}})
    assert "no type at all has licence" in problems["resources"]


def test_an_unknown_instance_type_names_the_nearest_known(server: DispatcherProcess) -> None:
    wanted = {"command": ["true"], "constraints": {"instance_types": ["smal"]}}
    problems = refused(server, wanted)
    (message,) = problems.values()
    assert "small" in message


@pytest.mark.timeout(900)  # 10,000 requests, on a machine that may have much else to do
def test_no_generated_request_makes_the_server_fail(server: DispatcherProcess) -> None:
    port = int(server.url.rsplit(":", 1)[1])
    real = server.submit_many([{"command": ["true"], "memory": "1GiB"}] * 3)
    seen: Counter[int] = Counter()

    def aimed(sent: Sent) -> Sent:
        """Let the ids that the strategy knows be those of containers that there are."""
        target = sent.target
        for number, container_id in enumerate(real, start=1):
            target = target.replace(f"c-{number:08}", container_id)
        return dataclasses.replace(sent, target=target)

    @settings(
        max_examples=BATCHES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(batch=st.lists(REQUESTS, min_size=BATCH, max_size=BATCH))
    @example(batch=list(ONE_OF_EACH.values()))
    def exchange(batch: list[Sent]) -> None:
        wire = Wire(port)
        try:
            for sent in batch:
                request = aimed(sent)
                status, headers, body = wire.exchange(request)
                check(request, status, headers, body)
                seen[status] += 1
        finally:
            wire.close()

    exchange()
    assert seen.total() >= BATCH * BATCHES
    assert seen.keys() >= ONE_OF_EACH.keys()
    assert server.ready()


def cli(
    *arguments: str, url: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line and return how it ended."""
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, "-m", "longshore", *arguments],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), "LONGSHORE_URL": url},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def test_the_cli_exits_2_and_names_every_path(server: DispatcherProcess, tmp_path: Path) -> None:
    ended = cli("submit", "--cpus", "9", "--memory", "99TiB", "--", "true", url=server.url)
    assert ended.returncode == 2
    assert "nearest is large" in ended.stderr
    request = tmp_path / "bad.yml"
    request.write_text("command: [true\ncpus: 1\n", encoding="utf-8")
    ended = cli("submit", "-f", str(request), url=server.url)
    assert ended.returncode == 2
    assert "bad.yml" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listen: [broken", ("longshore.yml:1:16",)),
        ("listn: 127.0.0.1:1\n", ("listn", "listen")),
        (
            "pool: {idle_timeout_s: -5, boot_timeout_s: soon}\n",
            ("idle_timeout_s", "boot_timeout_s"),
        ),
        ("ssh: {private_key: /nonexistent/key}\n", ("ssh.private_key", "/nonexistent/key")),
        ("driver: {name: simulatd}\n", ("driver.name", "simulated")),
        ("listen: 0.0.0.0:8420\n", ("tls", "run_as")),
        (
            "driver: {name: simulated}\ninstance_types: {a: {cpus: 0, memory: 9ZiB}}\n",
            ("instance_types.a.memory", "instance_types.a.price_per_hour"),
        ),
    ],
)
def test_a_bad_configuration_exits_2_before_anything_is_made(
    text: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "longshore.yml"
    path.write_text(f"{text}", encoding="utf-8")
    for command in ("serve", "config check"):
        ended = cli(*command.split(), "-c", str(path), cwd=tmp_path)
        assert ended.returncode == 2, ended.stderr
        for word in words:
            assert word in ended.stderr
        assert "Traceback" not in ended.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["longshore.yml"]
