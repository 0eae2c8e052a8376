"""Must show: secrets reach who is given them, and nobody else; nothing keeps them in the clear."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import not_tested
from tests.dispatcher_process import ApiError, DispatcherProcess, wait_for

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


def as_nobody(script: str) -> str:
    """Return what a shell of another user makes of a script."""
    command = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def keepers_of(value: str, *places: Path) -> list[Path]:
    """Return the files in some directories that hold a value."""
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert len(files) > 5, "there is something to look at"
    return [path for path in files if value.encode() in _bytes_of(path)]


def _bytes_of(path: Path) -> bytes:
    """Return what a file holds, b"" where it went meanwhile: the server goes on."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def test_an_attacker_finds_no_value(server: DispatcherProcess, tmp_path: Path) -> None:
    container_id = server.submit("sh", "-c", 'cp "$0" /dev/null; exec sleep 60', **GIVEN)
    server.wait_state(container_id, "running")
    backup = tmp_path / "backup.db"
    words = [
        sys.executable,
        "-m",
        "longshore",
        "backup",
        "-c",
        f"{server.config_path}",
        f"{backup}",
    ]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    # While it runs: whoever has the directory but for the keys, whoever is another user here.
    answers = [
        str(server.call("GET", path))
        for path in (
            *("/v1/containers", SECRETS, "/v1/instances"),
            f"/v1/containers/{container_id}",
            f"/v1/containers/{container_id}/explain",
        )
    ]
    # What each process was called with is everybody's to read; a value would be in none.
    arguments = as_nobody("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert "longshore" in arguments
    stolen = as_nobody(
        "cat /proc/[0-9]*/environ /dev/shm/longshore*/* /dev/shm/longshore*/*/* 2>/dev/null;"
        f" ls /dev/shm/*-secrets; for each in /dev/shm/*-secrets; do cat $each/{container_id}-1/*;"
        " done"
    )
    assert "Permission denied" in stolen
    for value in VALUES:
        assert keepers_of(value, tmp_path) == [], "store, WAL, backup, logs, configuration"
        assert not [
            each for each in (*answers, arguments, stolen, server.metrics()) if value in each
        ]
    server.call("POST", f"/v1/containers/{container_id}/cancel", {})
    server.wait_final(container_id)
    for value in VALUES:
        assert keepers_of(value, tmp_path) == []


def test_each_attempt_has_what_is_set_by_then(server: DispatcherProcess) -> None:
    script = 'echo "$DB_PASSWORD"; [ -e /tmp/again-$0 ] || { : >/tmp/again-$0; exit 1; }'
    marker = f"{os.getpid()}"
    try:
        container_id = server.submit(
            *("sh", "-c", script, marker),
            secrets=GIVEN["secrets"],
            retries={"max": 1, "first_delay_s": 3, "delay_s": 3},
        )
        wait_for(
            lambda: (
                server.container(container_id)["attempts"]
                and server.container(container_id)["attempts"][0]["outcome"] == "failed"
            ),
            "the first attempt fails",
        )
        put(server, "db", "changed-since")
        assert server.wait_final(container_id)["state"] == "succeeded"
        assert server.log(container_id) == b"changed-since\n"
    finally:
        Path(f"/tmp/again-{marker}").unlink(missing_ok=True)


def test_with_the_key_lost_the_server_starts_and_what_needs_it_waits(
    server: DispatcherProcess,
) -> None:
    held = server.submit("sh", "-c", 'echo "$DB_PASSWORD|$TOKEN"', priority=0, **GIVEN)
    server.stop()
    keys = server.directory / "data" / "secret_keys"
    assert keys.stat().st_mode & 0o777 == 0o600
    keys.rename(server.directory / "aside")
    server.start()
    assert any("put back the key file" in line for line in server.log_lines())
    server.call("PATCH", f"/v1/containers/{held}", {"priority": 500})
    plain = server.submit("true")
    assert server.wait_final(plain)["state"] == "succeeded", "others go on"
    waiting = server.container(held)["waiting"]
    assert waiting.startswith("the key to secrets 'cert', 'db' of project default and the secret")
    assert "longshore secret set NAME --project default" in waiting
    [lost] = server.call("GET", "/v1/health")["problems"]
    assert (lost["kind"], f"1 container waits for it ({held})" in lost["message"]) == (
        "secrets",
        True,
    )
    assert [each["readable"] for each in server.call("GET", SECRETS)["items"]] == [False, False]
    with pytest.raises(ApiError, match="put back the key file"):
        put(server, "db", "x")
    (server.directory / "aside").rename(keys)
    assert server.wait_final(held)["state"] == "succeeded"
    assert server.log(held).decode() == f"{PASSWORD}|{TOKEN}\n"


def test_after_a_rotation_and_a_kill_all_is_given_and_the_old_key_opens_nothing(
    server: DispatcherProcess,
) -> None:
    held = server.submit("sh", "-c", 'echo "$DB_PASSWORD|$TOKEN"', priority=0, **GIVEN)
    keys = server.directory / "data" / "secret_keys"
    old = keys.read_bytes()
    assert server.call("POST", "/v1/secret-keys/rotate", {}) == {"secrets": 2}
    server.kill()
    new = keys.read_bytes()
    keys.write_bytes(old)
    server.start()
    assert [each["readable"] for each in server.call("GET", SECRETS)["items"]] == [False, False]
    server.stop()
    keys.write_bytes(new)
    server.start()
    server.call("PATCH", f"/v1/containers/{held}", {"priority": 500})
    assert server.wait_final(held)["state"] == "succeeded"
    assert server.log(held).decode() == f"{PASSWORD}|{TOKEN}\n"


def test_a_removed_one_holds_its_container_until_it_is_set_again(server: DispatcherProcess) -> None:
    held = server.submit("sh", "-c", 'echo "$DB_PASSWORD"', priority=0, **GIVEN)
    server.call("DELETE", f"{SECRETS}/db", {})
    server.call("PATCH", f"/v1/containers/{held}", {"priority": 500})
    wait_for(
        lambda: "there is no secret 'db'" in (server.container(held)["waiting"] or ""),
        "it says why it waits",
    )
    put(server, "db", PASSWORD)
    assert server.wait_final(held)["state"] == "succeeded"
