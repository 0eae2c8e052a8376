"""Must show: the command line gives back every byte, against the real server and real processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dispatcher_process import DispatcherProcess

ROOT = Path(__file__).parent.parent.parent
LOG_BYTES = 20_000_000
DIGESTS = "digests"

# Random bytes, since a log is no text; what was written is known by its digest.
WRITER = """
import hashlib, os, sys
with open(sys.argv[1], "w") as digests:
    for descriptor in (1, 2):
        content = os.urandom(int(sys.argv[2]))
        print(hashlib.sha256(content).hexdigest(), file=digests)
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left):]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path_factory.mktemp("command-line"), {}) as process:
        yield process


def longshore(server: DispatcherProcess, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "longshore", *arguments],
        capture_output=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**os.environ, "LONGSHORE_URL": server.url},
        stdin=subprocess.DEVNULL,
    )


def test_a_first_container_says_hello(server: DispatcherProcess) -> None:
    done = longshore(server, "submit", "--follow", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr
    done = longshore(server, "submit", "--wait", "--", "sh", "-c", "exit 3")
    assert (done.returncode, done.stdout.startswith(b"c-")) == (3, True), done.stderr


def test_what_waits_and_what_has_ended_is_explained(server: DispatcherProcess) -> None:
    done = longshore(server, "submit", "--priority", "0", "--", "true")
    assert done.returncode == 0, done.stderr
    held = done.stdout.decode().strip()
    done = longshore(server, "explain", held)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert text.startswith(f"{held} waits: held back: its priority is 0\n")
    assert "instance types, cheapest first" in text
    assert longshore(server, "priority", held, "500").returncode == 0
    assert longshore(server, "wait", held).returncode == 0
    told = json.loads(longshore(server, "explain", "--json", held).stdout)
    assert (told["sentence"], told["waiting"]) == (f"{held} has succeeded", None)
    kinds = [each["kind"] for each in told["history"]]
    assert [kinds[0], kinds[-1]] == ["submitted", "succeeded"]
    assert {"priority", "placed", "started", "ended"} <= set(kinds)


@pytest.mark.parametrize("how", ["wait", "follow"])
def test_logs_right_after_the_end_are_whole(
    server: DispatcherProcess, tmp_path: Path, how: str
) -> None:
    digests = tmp_path / DIGESTS
    command = (sys.executable, "-c", WRITER, str(digests), str(LOG_BYTES))
    done = longshore(server, "submit", "--wait", "--", *command)
    assert done.returncode == 0, done.stderr
    container_id = done.stdout.decode().strip()
    options = ["--follow"] if how == "follow" else []
    copied = longshore(server, "logs", *options, container_id)
    assert copied.returncode == 0, copied.stderr[-1000:]
    written = digests.read_text(encoding="ascii").split()
    assert (len(copied.stdout), len(copied.stderr)) == (LOG_BYTES, LOG_BYTES)
    assert [hashlib.sha256(each).hexdigest() for each in (copied.stdout, copied.stderr)] == written
