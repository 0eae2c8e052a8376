"""What attempts really took, measured by the real runner on real processes."""

from __future__ import annotations

import os
import pwd
import signal
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import containment, machine
from longshore.pool.runner.usage import SAMPLED, Samples, read_samples
from tests.conftest import not_tested
from tests.runner_harness import Attached, Runner, alive, eventually, settle_on

MIB = 1 << 20
GREEDY = f"""
import os, sys, time
held = bytearray(b"x") * {200 * MIB}
with open("ten", "wb") as file:
    file.write(bytes({10 * MIB}))
    file.flush()
    os.fsync(file.fileno())
while time.process_time() < 0.3:
    pass
print("up", flush=True)
while not os.path.exists("gate"):
    time.sleep(0.01)
"""
"""Takes 200 MiB, writes 10 and burns a third of a second, until a gate is there."""


def start_greedy(runner: Runner, session: Attached) -> None:
    """Start a greedy attempt, and wait until somebody has looked at what it holds."""
    # A user other than root can execute no program of ours.
    assert session.start("a", machine.find_program("python3"), "-c", GREEDY)["ok"]
    session.until(lambda: session.log("a") == b"up\n")
    eventually(lambda: (seen(runner).peak_bytes or 0) > 190 * MIB)


def seen(runner: Runner) -> Samples:
    """Return what was seen of the attempt so far."""
    return read_samples(str(runner.spool / "attempts" / "a" / SAMPLED)) or Samples(0.0)


def end_greedy(runner: Runner, session: Attached) -> dict[str, Any]:
    """Let the attempt end by itself, and return what it took."""
    Path(runner.places.work, "a", "gate").touch()
    usage: dict[str, Any] = session.exit_of("a")["usage"]
    return usage


def expect_measured(usage: dict[str, Any]) -> None:
    assert 200 * MIB < usage["peak_memory_bytes"] < 280 * MIB
    assert 0 < usage["mean_memory_bytes"] <= usage["peak_memory_bytes"]
    assert 0.3 <= usage["cpu_seconds"] < 3
    assert 10 * MIB <= usage["written_bytes"] < 12 * MIB
    assert usage["read_bytes"] >= 0
    assert not [name for name in usage if name.startswith("gpu")]


@pytest.mark.parametrize("hierarchy", [*containment.hierarchies()[:2], ""])
def test_a_process_is_measured(hierarchy: str) -> None:
    with Runner() as runner:
        settle_on(runner, hierarchy)
        session, _ = runner.attach()
        start_greedy(runner, session)
        expect_measured(end_greedy(runner, session))


def test_a_process_of_a_user_who_is_not_root_is_measured() -> None:
    if os.geteuid() != 0:
        not_tested("to be another user needs root")
    with Runner(user=pwd.getpwnam("nobody").pw_uid) as runner:
        session, _ = runner.attach()
        start_greedy(runner, session)
        expect_measured(end_greedy(runner, session))


def test_another_collector_and_another_session_go_on_with_what_was_seen() -> None:
    with Runner() as runner:
        session, _ = runner.attach()
        start_greedy(runner, session)
        before = seen(runner)
        killed = runner.collector()
        os.kill(killed, signal.SIGKILL)
        session.kill()
        eventually(lambda: not alive(killed))
        session, _ = runner.attach()
        eventually(lambda: seen(runner).seconds > before.seconds)
        assert seen(runner).byte_seconds >= before.byte_seconds
        expect_measured(end_greedy(runner, session))


def test_an_attempt_whose_supervisor_is_killed_has_what_was_seen() -> None:
    with Runner() as runner:
        session, _ = runner.attach()
        start_greedy(runner, session)
        os.kill(runner.supervisor("a"), signal.SIGKILL)
        exit_ = session.exit_of("a")
    assert exit_["kind"] == "lost"
    assert 200 * MIB < exit_["usage"]["peak_memory_bytes"] < 280 * MIB


def test_the_time_of_children_that_have_ended_counts() -> None:
    script = "python3 -c 'while __import__(\"time\").process_time() < 0.2: pass'"
    with Runner() as runner:
        settle_on(runner, "")
        session, _ = runner.attach()
        exit_ = session.run("a", "sh", "-c", f"{script}; {script}")
    assert 0.4 <= exit_["usage"]["cpu_seconds"] < 3


PMON = """\
# gpu        pid  type    sm   mem   enc   dec    fb   command
# Idx          #   C/G     %     %     %     %    MB   name
    0       {pid}     C    40    10     -     -   512   python
    0          1     C    60    10     -     -   999   other
"""


@pytest.mark.parametrize("hierarchy", [*containment.hierarchies()[:1], ""])
def test_a_job_on_a_gpu_is_told_from_what_else_is_on_it(hierarchy: str, tmp_path: Path) -> None:
    """By a program in the place of nvidia-smi, which says that of a child of the job."""
    said = tmp_path / "said"
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nexec cat {said}\n")
    program.chmod(0o755)
    with Runner(environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"}) as runner:
        settle_on(runner, hierarchy)
        session, _ = runner.attach()
        script = "(echo $(exec sh -c 'echo $PPID'); until [ -e gate ]; do sleep 0.05; done); true"
        assert session.start("a", "sh", "-c", script)["ok"]
        session.until(lambda: session.log("a").endswith(b"\n"))
        said.write_text(PMON.format(pid=int(session.log("a"))))
        eventually(lambda: seen(runner).gpu_looks > 0)
        usage = end_greedy(runner, session)
    assert usage["gpu_peak_memory_bytes"] == 512 * MIB
    assert usage["gpu_mean_utilization"] == pytest.approx(0.4)
