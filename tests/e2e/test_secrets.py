"""Must show: secrets reach who is given them, and nobody else; nothing keeps them in the clear."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import not_tested
from tests.dispatcher_process import DispatcherProcess, wait_for

PASSWORD, CERTIFICATE, TOKEN = (
    "hunter2-of-the-db",
    "-----BEGIN\nc3rt-of-ours\n-----END",
    "t0k-sealed",
)
VALUES = (PASSWORD, "c3rt-of-ours", TOKEN)
SECRETS = "/v1/projects/default/secrets"
CONFIG = {
    "driver": {"name": "loopback"},
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
    },
    "engine": {"name": "process", "run_as": "nobody"},
    "pool": {"idle_timeout_s": 1, "term_timeout_s": 3},
}
GIVEN = {
    "secrets": [{"name": "db", "env": "DB_PASSWORD"}, {"name": "cert", "file": "cert.pem"}],
    "env": {"PLAIN": "p", "TOKEN": {"secret": TOKEN}},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DispatcherProcess]:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with DispatcherProcess(tmp_path, CONFIG) as process:
        put(process, "db", PASSWORD)
        put(process, "cert", CERTIFICATE)
        yield process
        wait_for(lambda: not process.instances(), "the instance is gone")


def put(server: DispatcherProcess, name: str, value: str) -> Any:
    return server.call("PUT", f"{SECRETS}/{name}", {"value": value})


def test_they_are_given_and_gone_with_the_attempt(server: DispatcherProcess) -> None:
    script = (
        'echo "$DB_PASSWORD|$TOKEN|$PLAIN"; cat "$LONGSHORE_SECRETS_DIR/cert.pem";'
        ' stat -c "|%a %U" "$LONGSHORE_SECRETS_DIR/cert.pem"; df --output=fstype'
        ' "$LONGSHORE_SECRETS_DIR" | tail -1; echo "$LONGSHORE_SECRETS_DIR"; env | grep -c _ls_'
    )
    container_id = server.submit("sh", "-c", script, **GIVEN)
    assert server.wait_final(container_id)["state"] == "failed", "grep found none"
    *told, directory, marks = server.log(container_id).decode().splitlines()
    assert told == [
        f"{PASSWORD}|{TOKEN}|p",
        *f"{CERTIFICATE}|400 nobody".splitlines(),
        "tmpfs",
    ]
    assert marks == "0"
    assert directory.startswith("/dev/shm/")
    assert not Path(directory).exists(), "it ended before its end was told"
    shown = server.container(container_id)
    assert shown["env"] == {"PLAIN": "p", "TOKEN": {"secret": True}}
    assert shown["secrets"] == GIVEN["secrets"]
