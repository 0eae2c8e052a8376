"""The session of the real runner: who may speak, who takes over, and what nonsense does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner.backlog import HEAD_BYTES, TAIL_BYTES
from longshore.pool.runner.kept import read_gap
from longshore.pool.runner.spool import Spool
from tests.runner_harness import Attached, Runner, alive, eventually, order, stat_fields


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as each:
        yield each


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol": 2}, "protocol"),
        ({"protocol": None}, "protocol"),
        ({"cluster": "other"}, "cluster"),
        ({"runner_sha256": "0" * 64}, "sha256"),
        ({"epoch": "x"}, "invalid"),
    ],
)
def test_a_wrong_hello_is_refused(runner: Runner, fields: dict[str, Any], code: str) -> None:
    session, answer = runner.attach(**fields)
    assert (answer["type"], answer["code"]) == ("refused", code)
    assert answer["message"]
    session.read_to_end()
    assert session.reap() == 1
    assert runner.said() == ""


def test_an_epoch_that_is_over_is_refused_also_by_the_next_session(runner: Runner) -> None:
    session, hello = runner.attach(epoch=7)
    assert hello["epoch"] == 7
    session.epoch = 6
    reply = session.start("a", "true")
    assert (reply["ok"], reply["code"]) == (False, "epoch")
    session.epoch = 9
    assert session.request("list")["attempts"] == []
    session.epoch = 8
    assert session.request("list")["code"] == "epoch"
    late, answer = runner.attach(epoch=8)
    assert (answer["type"], answer["code"]) == ("refused", "epoch")
    late.read_to_end()
    session.epoch = 9
    assert session.request("list")["ok"], "the leader's session goes on"
    assert session.close() == 0
    assert runner.attach(epoch=8)[1]["type"] == "refused"
    assert runner.attach(epoch=9)[1]["type"] == "hello"


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_newer_session_takes_over_and_the_older_ends(runner: Runner, epoch: int) -> None:
    older, _ = runner.attach()
    older.start("a", "sleep", "60")
    newer, hello = runner.attach(epoch=epoch)
    assert [each["attempt_id"] for each in hello["attempts"]] == ["a"]
    older.read_to_end()
    assert older.reap() == 0
    assert newer.request("kill", attempt_id="a", signal="KILL")["signalled"]
    assert newer.exit_of("a")["code"] == 137


def test_a_frozen_session_is_taken_over_too(runner: Runner) -> None:
    older, _ = runner.attach()
    os.kill(older.process.pid, signal.SIGSTOP)
    newer, hello = runner.attach(epoch=2)
    assert hello["type"] == "hello"
    assert older.process.wait(60) == -signal.SIGKILL
    assert newer.request("list")["ok"]


def test_the_heartbeat_tells_what_lives_and_how_the_machine_is(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("b", "sleep", "60")
    session.start("a", "sleep", "60")
    beat = session.wait_for("heartbeat", lambda each: len(each["live"]) == 2)
    assert beat["live"] == ["a", "b"]
    assert beat["load"] >= 0
    assert 0 < beat["memory_free_bytes"] < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert beat["disk_free_bytes"] > 0
    assert beat["broken"] == ""


def test_an_instance_says_that_it_is_broken(runner: Runner) -> None:
    session, _ = runner.attach()
    runner.directory.joinpath("broken").write_text("disk is failing\nsee the log\n")
    session.wait_for("heartbeat", lambda each: each["broken"] == "disk is failing")
    assert runner.listing()["broken"] == "disk is failing"
    assert runner.attach()[1]["broken"] == "disk is failing"


@pytest.mark.parametrize(
    "nonsense",
    [
        b"no json\n",
        b"[]\n",
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        b"{}\n",
        b'{"type":"list","epoch":1}\n',
        b'{"type":"list","id":true,"epoch":1}\n',
        b'{"type":"log_ack","attempt_id":1}\n',
        b"x" * (1 << 20) + b"xx",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_nonsense_ends_the_session_in_one_line(runner: Runner, nonsense: bytes) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "60")
    session.send_raw(nonsense)
    session.read_to_end()
    assert session.reap() == 1
    assert runner.said().startswith("runner: ")
    assert runner.said().count("\n") == 1
    assert alive(runner.job("a"))


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        ("dance", {}, "invalid"),
        ("start", {}, "invalid"),
        ("start", {"attempt": {"attempt_id": "../../etc"}}, "invalid"),
        ("start", {"attempt": {**order("a", "true"), "command": "true"}}, "invalid"),
        ("start", {"attempt": {**order("a", "true"), "env": {"A": 1}}}, "invalid"),
        ("start", {"attempt": order("a")}, "invalid"),
        ("kill", {"attempt_id": "a", "signal": "HUP"}, "invalid"),
        ("kill", {"attempt_id": 1, "signal": "TERM"}, "invalid"),
        ("tail", {"attempt_id": "a", "stdout": -1}, "invalid"),
        ("tail", {"attempt_id": "a", "stdout": 0, "stderr": 0}, "unknown"),
        ("release", {"attempt_id": "/"}, "invalid"),
        ("start", {"attempt": order("a", "true", cpu_millis=1_000_000_001)}, "invalid"),
        ("update-limits", {"attempt_id": "/", "cpu_millis": 1}, "invalid"),
        ("update-limits", {"attempt_id": "a"}, "invalid"),
        ("update-limits", {"attempt_id": "a", "cpu_millis": -1}, "invalid"),
        ("update-limits", {"attempt_id": "a", "cpu_millis": True}, "invalid"),
        ("update-limits", {"attempt_id": "a", "cpu_millis": 1_000_000_001}, "invalid"),
        ("update-limits", {"attempt_id": "a", "cpu_millis": 1, "epoch": 0}, "epoch"),
    ],
)
def test_a_wrong_request_is_answered_and_the_session_goes_on(
    runner: Runner, kind: str, fields: dict[str, Any], code: str
) -> None:
    session, _ = runner.attach()
    reply = session.request(kind, **fields)
    assert (reply["ok"], reply["code"]) == (False, code)
    assert reply["message"]
    assert session.request("list")["attempts"] == []


@pytest.mark.parametrize("line", [b"", b"no hello\n", b'{"type":"list","id":1}\n'])
def test_who_says_no_hello_is_shown_the_door(runner: Runner, line: bytes) -> None:
    session = runner.open()
    session.send_raw(line)
    assert session.close() == 1
    assert runner.said().startswith("runner: ")
    assert "Traceback" not in runner.said()


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--cluster", "../x"],
        ["list", "--cluster", "c", "--engine-json", "no"],
        ["list", "--cluster", "c", "--engine-json", '{"name":"rkt"}'],
        ["list", "--cluster", "c", "--engine-json", '{"binary":7}'],
        ["list", "--cluster", "c", "--engine-json", '{"colour":"red"}'],
        ["dance", "--cluster", "c"],
    ],
)
def test_wrong_arguments_are_named(runner: Runner, arguments: list[str]) -> None:
    command = [runner.command("list")[0], str(runner.program), *arguments]
    done = subprocess.run(
        command, env=runner.environment, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr
    assert b"Traceback" not in done.stderr


def test_a_spool_that_somebody_else_made_is_not_trusted(runner: Runner) -> None:
    runner.spool.symlink_to(runner.directory)
    session = runner.open()
    session.read_to_end()
    assert session.reap() == 2
    assert "somebody else" in runner.said()
    runner.spool.unlink()


def test_requests_and_hello_may_come_in_one_piece_or_in_splinters(runner: Runner) -> None:
    session = runner.open()
    hello = {"type": "hello", "protocol": 1, "cluster": "test", "epoch": 1}
    hello = {**hello, "runner_sha256": runner.bundle.sha256, "heartbeat_interval_s": 60}
    ask = {"type": "list", "id": 5, "epoch": 1}
    data = json.dumps(hello).encode() + b"\n" + json.dumps(ask).encode() + b"\n"
    session.send_raw(data[:-9])
    session.wait_for("hello")
    session.send_raw(data[-9:])
    assert session.request("list")["attempts"] == []


def test_a_side_that_only_writes_does_not_block_the_runner(runner: Runner) -> None:
    session, _ = runner.attach()
    for number in range(20):
        assert session.start(f"a{number}", "true")["ok"]
    for number in range(20):
        session.finish(f"a{number}")
    # Some 2 MB of replies, of which a pipe holds 64 KiB.
    last = [session.ask("list") for _ in range(600)][-1]
    session.until(lambda: last in session._replies)


def test_an_idle_session_burns_no_cpu(runner: Runner) -> None:
    session, _ = runner.attach(interval_s=0.5)
    session.start("a", "sleep", "60")
    session.wait_for("heartbeat", lambda each: each["live"] == ["a"])
    before = cpu_ticks(session)
    for _ in range(6):
        session.wait_for("heartbeat")
    assert cpu_ticks(session) - before <= 10  # of 300 in the three seconds


def cpu_ticks(session: Attached) -> int:
    fields = stat_fields(session.process.pid)
    return int(fields[11]) + int(fields[12])


def test_a_supervisor_ends_also_when_nobody_hears_it(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "0.3")
    supervisor = runner.supervisor("a")
    session.kill()
    eventually(lambda: not alive(supervisor))
    assert runner.listing()["attempts"][0]["exit"]["code"] == 0


def test_the_end_of_the_session_leaves_jobs_running(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "60")
    job = runner.job("a")
    assert session.close() == 0
    assert alive(job)
    os.killpg(job, signal.SIGTERM)
    eventually(lambda: runner.listing()["attempts"][0]["exit"] is not None)
    assert runner.listing()["attempts"][0]["exit"]["code"] == 143


def watcher(runner: Runner) -> int:
    """Return who watches since the session ended, once it has said so."""
    record = runner.spool / "session"
    ended = [each.process.pid for each in runner._attached]
    eventually(lambda: int(record.read_text().split()[0]) not in ended)
    return int(record.read_text().split()[0])


def test_between_sessions_somebody_watches_as_long_as_a_job_lives(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "60")
    job, supervisor = runner.job("a"), runner.supervisor("a")
    assert session.close() == 0
    watching = watcher(runner)
    assert stat_fields(watching)[3] == str(watching), "it leads a session of its own"
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not alive(job))
    stays = Spool(runner.places).needs_keeper
    eventually(lambda: alive(watching) == stays)
    again, hello = runner.attach()
    assert hello["attempts"][0]["exit"]["kind"] == "lost"
    assert again.close() == 0

    def left() -> list[int]:
        return [each for each in runner.processes() if each != again.process.pid]

    eventually(lambda: len(left()) == stays, 20.0)  # the collector stays for a moment longer


def test_who_watches_makes_way_for_the_next_session(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "60")
    session.close()
    watching = watcher(runner)
    again, hello = runner.attach()
    assert [each["exit"] for each in hello["attempts"]] == [None]
    eventually(lambda: not alive(watching))
    newest, _ = runner.attach(epoch=2)
    again.read_to_end()
    assert again.reap() == 0
    assert newest.request("list")["ok"]


def test_a_log_has_a_bound_also_between_sessions(runner: Runner) -> None:
    session, _ = runner.attach(acknowledge=False)
    # Sparse, so that the test writes no gigabytes: the collector goes on where the log ends.
    log = Path(runner.places.logs, "a.stdout")
    log.touch()
    os.truncate(log, HEAD_BYTES)
    length = 4 * TAIL_BYTES
    session.start(
        "a", "sh", "-c", f"until [ -e gate ]; do sleep 0.01; done; yes | head -c {length}"
    )
    session.close()
    Path(runner.places.work, "a", "gate").touch()
    eventually(lambda: log.stat().st_size == HEAD_BYTES + length)
    eventually(lambda: log.stat().st_blocks * 512 <= 3 * TAIL_BYTES)
    gap = read_gap(Spool(runner.places).gap("a", "stdout"))
    assert gap.start == HEAD_BYTES
    assert gap.end >= HEAD_BYTES + length - 3 * TAIL_BYTES


def test_a_message_is_a_line_also_for_many_attempts(runner: Runner) -> None:
    session, _ = runner.attach()
    for number in range(100):
        session.ask("start", attempt=order(f"a{number:03}", "true"))
    for number in range(100):
        assert session.exit_of(f"a{number:03}")["code"] == 0
    names = [each["attempt_id"] for each in session.request("list")["attempts"]]
    assert names == [f"a{number:03}" for number in range(100)]
    assert [each["attempt_id"] for each in runner.listing()["attempts"]] == names


def test_the_runner_leaves_no_file_open_for_others(runner: Runner) -> None:
    session, _ = runner.attach()
    session.run("a", "ls", "/proc/self/fd")
    # 0 to 2, and the directory that ls reads.
    assert len(session.log("a").split()) == 4
    assert Path(f"/proc/{session.process.pid}/cwd").resolve() == Path("/")
