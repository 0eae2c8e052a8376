"""Must show: who waits for a log that a full disk keeps on its instance is told so, at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

from longshore.dispatcher.service.health import WATCH_EACH_S
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.small_disk import small_disk

ROOT = Path(__file__).parent.parent.parent
FULL = b"logs cannot be kept: their disk has 1 MiB free, and the last 256 MiB are left to others"


@contextmanager
def longshore(
    server: DispatcherProcess, directory: Path, *arguments: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """Run a command; yield it, and the files that get its stdout and its stderr."""
    name = "-".join(arguments[:2])
    output, errors = directory / f"{name}.out", directory / f"{name}.err"
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "longshore", *arguments],
            cwd=ROOT,
            env={**os.environ, "LONGSHORE_URL": server.url},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        try:
            yield process, output, errors
        finally:
            process.kill()
            process.wait()


def told_in(errors: Path) -> bool:
    return FULL in errors.read_bytes()


def test_whoever_waits_for_a_log_is_told_of_the_full_disk_and_gets_it_in_the_end(
    tmp_path: Path,
) -> None:
    log_dir = tmp_path / "logs"
    with ExitStack() as stack, ExitStack() as disk:
        server = DispatcherProcess(tmp_path / "server", {"log_dir": str(log_dir)})
        stack.enter_context(server)
        disk.enter_context(small_disk(log_dir))
        ended = server.submit("echo", "hello")
        server.wait_final(ended)
        runs = server.submit("sh", "-c", "echo begun; exec sleep 600")
        wait_for(lambda: server.container(runs)["state"] == "running", "it runs")
        waiting = [
            stack.enter_context(longshore(server, tmp_path, *arguments))
            for arguments in (
                ("logs", ended),
                ("logs", "-f", runs),
                ("submit", "--follow", "--", "echo", "hello"),
            )
        ]
        for process, _, errors in waiting:
            wait_for(partial(told_in, errors), "it is told")
            assert process.poll() is None, "it waits"
        with urllib.request.urlopen(f"{server.url}/v1/containers/{runs}/logs") as answer:  # noqa: S310 - our own server's
            assert answer.headers["Longshore-Log-Problem"] == FULL.decode()
        assert server.container(runs)["log_problem"] == FULL.decode()
        assert FULL.decode() in server.health_problems()
        assert server.ready(), "work is taken all the same"
        disk.close()
        for process, output, errors in (waiting[0], waiting[2]):
            assert process.wait(90) == 0, errors.read_bytes()
            assert output.read_bytes().endswith(b"hello\n")
            assert errors.read_bytes().count(FULL) == 1
        wait_for(lambda: waiting[1][1].read_bytes() == b"begun\n", "its log comes")
        assert server.container(ended)["log_problem"] is None
        server.call("POST", f"/v1/containers/{runs}/cancel", {})
        server.wait_final(runs)


def test_a_full_disk_is_told_with_when_that_began_and_not_when_somebody_asked(
    tmp_path: Path,
) -> None:
    log_dir = tmp_path / "logs"
    with ExitStack() as stack, ExitStack() as disk:
        server = DispatcherProcess(tmp_path / "server", {"log_dir": str(log_dir)})
        stack.enter_context(server)
        wait_for(server.ready, "it serves")
        disk.enter_context(small_disk(log_dir))
        full_at = time.time()
        wait_for(lambda: time.time() > full_at + 8, "nobody asks for a while")
        (problem,) = server.call("GET", "/v1/health")["problems"]
        assert problem["message"] == FULL.decode()
        since = datetime.fromisoformat(problem["since"]).timestamp()
        assert since < full_at + WATCH_EACH_S + 1.5
