"""Which processes are an instance's, and that exactly these end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from longshore.drivers.local.processes import (
    INSTANCE_VARIABLE,
    end_processes,
    login_environment,
    processes_of,
    start_time,
)

INSTANCE = f"i-test-{os.getpid()}"


@contextmanager
def running(
    command: str, *, instance: str = INSTANCE, extra: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `sh -c command` marked as an instance's, until it says that it is under way."""
    environment = {"PATH": os.environ["PATH"], INSTANCE_VARIABLE: instance} | (extra or {})
    with subprocess.Popen(
        ["sh", "-c", command], env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_whole_tree_ends_wherever_it_detached_itself_to() -> None:
    tree = "setsid sh -c 'sleep 611 & sleep 612' >/dev/null & sleep 613 & echo ready; wait"
    with running(tree) as process:
        end_processes(INSTANCE)
        assert processes_of(INSTANCE) == []
        assert process.wait() == -9


def test_processes_that_are_born_meanwhile_end_too() -> None:
    # Some hundreds, not for ever: this is also the machine of whoever interrupts the test.
    spawner = (
        "spawn() { n=0; while [ $((n += 1)) -le 100 ]; do setsid sleep 614 >/dev/null & done; }"
        "; for each in 1 2 3; do spawn & done; echo ready; wait"
    )
    with running(spawner):
        end_processes(INSTANCE, timeout_s=60.0)
        assert processes_of(INSTANCE) == []


@pytest.mark.parametrize(
    ("instance", "extra"),
    [
        (INSTANCE + "0", {}),
        ("x" + INSTANCE, {}),
        ("other", {"NOTE": f"{INSTANCE_VARIABLE}={INSTANCE}"}),
        ("other", {"X" + INSTANCE_VARIABLE: INSTANCE}),
    ],
    ids=["longer at its end", "longer at its start", "another's value", "another's name"],
)
def test_what_only_looks_alike_lives(instance: str, extra: dict[str, str]) -> None:
    with running("echo ready; exec sleep 616", instance=instance, extra=extra) as process:
        end_processes(INSTANCE)
        assert process.poll() is None


def test_our_own_process_is_never_among_them() -> None:
    # A process of the instance runs the very code that ends the instance, and must survive it.
    code = (
        "from longshore.drivers.local.processes import end_processes, processes_of;"
        f"end_processes({INSTANCE!r}); print(processes_of({INSTANCE!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={INSTANCE_VARIABLE: INSTANCE, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"[]\n"


def test_a_start_time_tells_a_process_from_its_successors() -> None:
    own = start_time(os.getpid())
    assert own is not None
    assert own == start_time(os.getpid())
    with running("echo ready; exec sleep 617") as process:
        later = start_time(process.pid)
        assert later is not None
        assert later >= own
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(process.pid) is None, "a zombie has ended"
    assert start_time(process.pid) is None


def test_a_login_starts_from_a_fresh_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHORE_TOKEN", "secret")
    environment = login_environment({"HOME": "/elsewhere", "A": "1"})
    assert (environment["HOME"], environment["A"]) == ("/elsewhere", "1")
    assert "/bin" in environment["PATH"].split(":")
    assert "LONGSHORE_TOKEN" not in environment
