"""What an attempt writes arrives, wherever it opens its output again and whoever dies meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import machine
from tests.conftest import not_tested
from tests.runner_harness import Attached, Runner, alive, eventually, settle_on, stat_fields
from tests.small_disk import fill, small_disk

LINES = 200_000
COUNT = f"""
import os, time
for each in range({LINES}):
    print("%015d" % each, flush=each == {LINES // 2})
    while each == {LINES // 2} and not os.path.exists("gate"):
        time.sleep(0.01)
"""
"""Each line tells where it is; each half is more than a pipe holds."""
COUNTED = b"".join(b"%015d\n" % each for each in range(LINES))


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as each:
        yield each


@pytest.mark.parametrize("run_as", ["", "nobody"])
@pytest.mark.parametrize(
    ("script", "out", "err"),
    [
        ("echo a >/dev/stderr; echo b >/dev/stderr", "", "a\nb\n"),
        ("echo a; echo b >/dev/stdout; echo c", "a\nb\nc\n", ""),
        ("echo a | tee /dev/stderr; echo b >&2", "a\n", "a\nb\n"),
        ("echo a >>/dev/stderr; echo b >/proc/self/fd/1", "b\n", "a\n"),
        ("echo a; truncate -s 0 /dev/stdout; echo b", "a\nb\n", None),
    ],
)
def test_output_can_be_opened_again(run_as: str, script: str, out: str, err: str | None) -> None:
    if run_as and os.geteuid() != 0:
        not_tested("run_as needs root")
    with Runner(engine={"name": "process", "run_as": run_as}) as runner:
        session, _ = runner.attach()
        exit_ = session.run("a", "sh", "-c", script + "; exit 1")
        assert (exit_["kind"], exit_["code"]) == ("exited", 1)
        assert session.log("a").decode() == out
        assert err is None or session.log("a", "stderr").decode() == err


def start_counting(runner: Runner, session: Attached) -> Path:
    """Start somebody who counts; return the file that the second half waits for."""
    session.start("a", sys.executable, "-c", COUNT)
    return Path(runner.places.work, "a", "gate")


def test_a_collector_that_is_killed_costs_nothing(runner: Runner) -> None:
    session, _ = runner.attach()
    gate = start_counting(runner, session)
    first = runner.collector()
    os.kill(first, signal.SIGKILL)
    session.until(lambda: len(session.log("a")) > len(COUNTED) // 3)
    second = runner.collector()
    assert second != first
    gate.touch()
    os.kill(second, signal.SIGKILL)
    exit_ = session.finish("a")
    assert (exit_["code"], exit_["stdout_bytes"]) == (0, len(COUNTED))
    assert session.log("a") == COUNTED


def test_while_nobody_is_there_the_job_waits_and_goes_on(runner: Runner) -> None:
    session, _ = runner.attach()
    gate = start_counting(runner, session)
    half = (LINES // 2 + 1) * 16
    session.until(lambda: len(session.log("a")) == half)
    collector = runner.collector()
    session.process.send_signal(signal.SIGSTOP)  # or it would leave another one at once
    os.kill(collector, signal.SIGKILL)
    session.kill()
    gate.touch()
    job = runner.job("a")
    eventually(lambda: "pipe_w" in Path(f"/proc/{job}/wchan").read_text())
    log = Path(runner.places.logs, "a.stdout")
    assert log.stat().st_size == half
    again, hello = runner.attach()
    assert [each["exit"] for each in hello["attempts"]] == [None]
    again.request("tail", attempt_id="a", stdout=0, stderr=0)
    assert again.finish("a")["code"] == 0
    assert again.log("a") == COUNTED


def test_a_listing_leaves_a_collector_where_a_job_waits_for_one(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sh", "-c", "until [ -e gate ]; do sleep 0.01; done; echo said; sleep 600")
    collector = runner.collector()
    session.process.send_signal(signal.SIGSTOP)  # or it would leave another one at once
    os.kill(collector, signal.SIGKILL)
    session.kill()
    runner.listing()
    Path(runner.places.work, "a", "gate").touch()
    log = Path(runner.places.logs, "a.stdout")
    eventually(lambda: log.exists() and log.read_bytes() == b"said\n")


def test_the_collector_outlives_the_session(runner: Runner) -> None:
    session, _ = runner.attach()
    gate = start_counting(runner, session)
    runner.collector()
    session.kill()
    gate.touch()
    log = Path(runner.places.logs, "a.stdout")
    eventually(lambda: log.exists() and log.read_bytes() == COUNTED)
    eventually(lambda: runner.listing()["attempts"][0]["exit"] is not None)
    again, hello = runner.attach()
    assert hello["attempts"][0]["exit"]["stdout_bytes"] == len(COUNTED)
    again.request("tail", attempt_id="a", stdout=0, stderr=0)
    again.until(lambda: again.log("a") == COUNTED)


def test_what_was_written_is_there_also_when_its_end_came_before_any_collector(
    runner: Runner,
) -> None:
    session, _ = runner.attach()
    for number in range(20):
        session.ask("start", attempt={"attempt_id": f"a{number}", **SAY})
    for number in range(20):
        assert session.finish(f"a{number}")["stdout_bytes"] == len("said\n")
        assert session.log(f"a{number}") == b"said\n"


def test_the_output_of_who_ended_waits_for_a_collector_that_is_late(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("z", "sleep", "600")
    collector = runner.collector()
    os.kill(collector, signal.SIGSTOP)
    session.start("a", "echo", "said")
    eventually((runner.spool / "attempts" / "a" / "exit").exists)
    time.sleep(1.5)  # time for a supervisor that would not wait, and for a look at who is left
    assert session.request("list")["attempts"][0]["exit"] is None
    os.kill(collector, signal.SIGCONT)
    assert session.finish("a")["stdout_bytes"] == len("said\n")
    assert session.log("a") == b"said\n"


# ---- who holds a pipe ---------------------------------------------------------------------------

HOLD = """
import os, pathlib, signal, socket, sys, time
idle, other = socket.socketpair()
print("up", file=sys.stderr, flush=True)
while not os.path.exists("gate"):
    time.sleep(0.01)
print("held", flush=True)
os.splice(idle.fileno(), 1, 100)
"""
"""The kernel holds the mutex of a pipe while it waits for what is to be spliced into it."""


def hold(runner: Runner, session: Attached, *, before_it_is_opened: bool) -> None:
    """Have attempt `a` hold its standard output, so that whoever opens or reads it hangs."""
    collectors = [runner.collector()]
    if before_it_is_opened:
        os.kill(collectors[0], signal.SIGSTOP)
    session.start("a", sys.executable, "-c", HOLD)
    if not before_it_is_opened:
        session.until(lambda: session.log("a", "stderr") == b"up\n")
        collectors += runner.takers("a")
        for each in collectors:
            os.kill(each, signal.SIGSTOP)
    Path(runner.places.work, "a", "gate").touch()
    wchan = Path(f"/proc/{runner.job('a')}/wchan")
    eventually(lambda: "unix_stream" in wchan.read_text())
    for each in collectors:
        os.kill(each, signal.SIGCONT)


def exit_at_once(session: Attached, attempt_id: str) -> Any:
    """Return the exit of an attempt, which must come soon, with its log complete."""

    def told() -> bool:
        return any(each.get("attempt_id") == attempt_id for each in session.pushed)

    session.until(told, 10.0)
    return session.finish(attempt_id)["code"]


@pytest.mark.parametrize("before_it_is_opened", [True, False], ids=["unopened", "open"])
@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("KILL", 137)])
def test_who_holds_its_own_pipe_holds_nobody_else_up(
    runner: Runner, before_it_is_opened: bool, name: str, code: int
) -> None:
    session, _ = runner.attach()
    session.start("z", "sh", "-c", "until [ -e gate ]; do sleep 0.01; done; echo said; exit 3")
    collector = runner.collector()
    hold(runner, session, before_it_is_opened=before_it_is_opened)
    session.start("b", "echo", "said")
    assert exit_at_once(session, "b") == 0
    Path(runner.places.work, "z", "gate").touch()
    assert exit_at_once(session, "z") == 3
    assert session.log("b") == session.log("z") == b"said\n"
    assert runner.collector() == collector

    assert session.request("kill", attempt_id="a", signal=name)["signalled"]
    assert exit_at_once(session, "a") == code
    assert session.log("a") == b"held\n"
    assert session.log("a", "stderr") == b"up\n"


LEFT = {
    "marked": 'setsid "$0" -c "$HOLD"',
    "without a mark": 'setsid env -i "$0" -c "$HOLD"',
    "as a supervisor": 'p=$(readlink /proc/$$/fd/1); _ls_spool=${p%/*} setsid "$0" -c "$HOLD"',
}


def start_who_leaves(session: Attached, command: str, python: str = sys.executable) -> None:
    """Start attempt `a`, which waits with somebody who will be left: see `left_holding`."""
    script = (
        command
        + " & echo $! >pid.new; mv pid.new pid; until [ -e end ]; do sleep 0.02; done; exit 3"
    )
    session.start("a", "sh", "-c", script, python, env={"HOLD": HOLD})
    session.until(lambda: session.log("a", "stderr") == b"up\n")


@contextlib.contextmanager
def left_holding(runner: Runner) -> Iterator[int]:
    """Have attempt `a` exit with 3 and leave somebody, whose pid it is, who holds its output."""
    work = Path(f"/proc/{runner.job('a')}/cwd").readlink()
    eventually(lambda: work.joinpath("pid").exists())  # it may speak up before its pid is told
    left = int(work.joinpath("pid").read_text())
    (taker,) = runner.takers("a")
    os.kill(taker, signal.SIGSTOP)  # or what it has read by then keeps it from hanging
    try:
        work.joinpath("gate").touch()
        eventually(lambda: "unix_stream" in Path(f"/proc/{left}/wchan").read_text())
        work.joinpath("end").touch()
        os.kill(taker, signal.SIGCONT)
        yield left
    finally:
        if alive(left):
            os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("how", LEFT)
@pytest.mark.parametrize("hierarchy", [None, ""], ids=["group", "no group"])
def test_who_is_left_holding_a_pipe_does_not_keep_the_end_from_being_told(
    runner: Runner, hierarchy: str | None, how: str
) -> None:
    if hierarchy is not None:
        settle_on(runner, hierarchy)
    session, _ = runner.attach()
    start_who_leaves(session, LEFT[how])
    with left_holding(runner) as left:
        assert exit_at_once(session, "a") == 3
        eventually(lambda: not alive(left), 10.0)  # its pipe is free a moment before


def test_who_has_a_pipe_of_another_users_open_is_not_ended() -> None:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with Runner(engine={"name": "process", "run_as": "nobody"}) as runner:
        settle_on(runner, "")
        session, _ = runner.attach()
        # Ours may lie where only we can read.
        start_who_leaves(session, LEFT["without a mark"], machine.find_program("python3"))
        with (runner.spool / "attempts" / "a" / "stdout.pipe").open("r+b", 0) as pipe:
            # As root's services do to whom a job hands a descriptor.
            service = subprocess.Popen(["sleep", "600"], stdout=pipe)
        try:
            with left_holding(runner) as left:
                assert exit_at_once(session, "a") == 3
                eventually(lambda: not alive(left), 10.0)
            assert service.poll() is None
        finally:
            service.kill()
            service.wait()


@pytest.mark.parametrize("which", ["the collector", "who takes it"])
def test_whoever_is_killed_is_replaced(runner: Runner, which: str) -> None:
    session, _ = runner.attach()
    gate = start_counting(runner, session)
    session.until(lambda: len(session.log("a")) == (LINES // 2 + 1) * 16)
    (taker,) = runner.takers("a")
    os.kill(taker if which == "who takes it" else runner.collector(), signal.SIGKILL)
    eventually(lambda: not alive(taker))
    gate.touch()
    assert session.finish("a")["code"] == 0
    assert session.log("a") == COUNTED


def test_who_closes_its_pipes_to_all_has_an_end_all_the_same() -> None:
    if os.geteuid() != 0:
        not_tested("to be another user needs root")
    with Runner(user=60_302) as runner:
        session, _ = runner.attach()
        session.start("z", "sleep", "600")
        collector = runner.collector()
        os.kill(collector, signal.SIGSTOP)
        session.start("a", "sh", "-c", "chmod 0 /dev/stdout /dev/stderr; echo said; exit 3")
        eventually(lambda: (runner.spool / "attempts" / "a" / "exit").read_text() != "")
        os.kill(collector, signal.SIGCONT)
        assert exit_at_once(session, "a") == 3
        assert session.log("a") == b"said\n"


def test_a_collector_that_comes_later_starts_no_second_one_beside_who_hangs(
    runner: Runner,
) -> None:
    session, _ = runner.attach()
    session.start("z", "sleep", "600")
    hold(runner, session, before_it_is_opened=True)
    eventually(lambda: len(runner.takers("a")) == 1)
    hung = runner.takers("a")
    for attempt_id in ("b", "c"):
        before = runner.takers("z")
        os.kill(runner.collector(), signal.SIGKILL)
        eventually(lambda: not any(map(alive, before)))  # noqa: B023 - it is over in each pass
        session.start(attempt_id, "echo", "said")
        assert exit_at_once(session, attempt_id) == 0
        eventually(lambda: len(runner.takers("z")) == 1)
        assert runner.takers("a") == hung

    session.request("kill", attempt_id="a", signal="KILL")
    assert exit_at_once(session, "a") == 137
    assert session.log("a") == b"held\n"
    eventually(lambda: not alive(hung[0]))


SAY = {"container_id": "c", "image": "", "command": ["echo", "said"], "env": {}}


@pytest.mark.parametrize("hierarchy", [None, ""], ids=["group", "no group"])
def test_who_goes_on_writing_does_not_delay_the_end(runner: Runner, hierarchy: str | None) -> None:
    if hierarchy is not None:
        settle_on(runner, hierarchy)
    session, _ = runner.attach()
    session.start("a", "sh", "-c", "echo mine; setsid yes & echo $! >pid; sleep 0.3; exit 3")
    session.until(lambda: any(each["type"] == "exited" for each in session.pushed), 20.0)
    assert session.finish("a")["code"] == 3
    assert session.log("a").startswith((b"mine\n", b"y\n"))
    assert b"mine\n" in session.log("a")[:4_000_000]
    pid = int(Path(runner.places.work, "a", "pid").read_text())
    eventually(lambda: not alive(pid))


def test_nobody_is_left_when_there_is_nothing_to_collect(runner: Runner) -> None:
    session, _ = runner.attach()
    session.run("a", "true")
    collector = runner.collector()
    assert stat_fields(collector)[3] == str(collector), "it leads a session of its own"
    eventually(lambda: not alive(collector), 20.0)
    assert session.run("b", "echo", "b")["stdout_bytes"] == 2


# ---- a spool that vanishes ----------------------------------------------------------------------


def test_a_supervisor_that_waits_ends_when_its_spool_vanishes(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sh", "-c", "until [ -e gate ]; do sleep 0.01; done")
    supervisor, collector = runner.supervisor("a"), runner.collector()
    eventually(lambda: bool(runner.takers("a")))
    os.kill(collector, signal.SIGSTOP)  # so that nobody hears of the end
    Path(runner.places.work, "a", "gate").touch()
    wchan = Path(f"/proc/{supervisor}/wchan")
    eventually(lambda: (runner.spool / "attempts" / "a" / "exit").read_text() != "")
    eventually(lambda: "pipe_r" in wchan.read_text())
    session.kill()
    shutil.rmtree(runner.spool)
    os.kill(collector, signal.SIGCONT)
    eventually(lambda: not alive(supervisor), 20.0)
    eventually(lambda: not runner.processes(), 20.0)


def test_a_job_goes_on_and_ends_when_its_spool_vanishes(runner: Runner) -> None:
    session, _ = runner.attach()
    gate = start_counting(runner, session)
    session.until(lambda: len(session.log("a")) == (LINES // 2 + 1) * 16)
    job, supervisor = runner.job("a"), runner.supervisor("a")
    collector = runner.collector()
    session.kill()
    shutil.rmtree(runner.spool)
    eventually(lambda: not alive(collector), 20.0)
    gate.touch()
    eventually(lambda: not alive(job), 20.0)
    eventually(lambda: not alive(supervisor), 20.0)
    eventually(lambda: not runner.processes())


# ---- a full disk --------------------------------------------------------------------------------


def test_a_full_disk_costs_lines_and_holds_nobody_up(runner: Runner) -> None:
    runner.listing()
    logs = Path(runner.places.logs)
    logs.rmdir()
    with small_disk(logs) as disk:
        session, _ = runner.attach()
        session.gaps = []
        work = Path(runner.places.work, "a")
        script = (
            "echo before; until [ -e full ]; do sleep 0.01; done; yes lost | head -c 4000000;"
            "touch done; until [ -e room ]; do sleep 0.01; done; echo after;"
            "until [ -e again ]; do sleep 0.01; done; yes lost | head -c 4000000"
        )
        session.start("a", "sh", "-c", script)
        session.until(lambda: session.log("a") == b"before\n")
        ballast = fill(disk)
        work.joinpath("full").touch()
        eventually(work.joinpath("done").exists)
        ballast.unlink()
        work.joinpath("room").touch()
        session.until(lambda: session.log("a").endswith(b"after\n"))
        fill(disk)
        work.joinpath("again").touch()
        exit_ = session.finish("a")
        assert (exit_["code"], exit_["stdout_bytes"]) == (0, 8_000_013)
        log = session.log("a")
        assert log.startswith(b"before\n")
        assert log[4_000_007:][:6] == b"after\n"
        assert len(log) == 8_000_013, "that something at the end is missing is told too"
        assert all(set(log[begin:end]) == {0} for begin, end in session.gaps)
        words = set(log.replace(b"\0", b"\n").split(b"\n")) - {b"before", b"after"}
        assert all(word in b"lost" for word in words), "nothing is made up"
        session.request("release", attempt_id="a")
        session.kill()
