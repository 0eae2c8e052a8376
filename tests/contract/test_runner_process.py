"""The runner with the process engine: what happens to attempts, over the real session."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.pool.runner.kept import read_start
from longshore.pool.runner.launch import kill_marked
from longshore.pool.runner.scripts import OOM_SCORE
from longshore.pool.runner.spool import Spool
from tests.conftest import not_tested
from tests.runner_harness import Onlooker, Runner, alive, eventually, stat_fields

MIB = 1 << 20


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as each:
        yield each


def test_an_attempt_runs_and_its_exit_and_log_arrive(runner: Runner) -> None:
    session, hello = runner.attach()
    assert (hello["type"], hello["protocol"], hello["engine"]) == ("hello", 1, "process")
    assert hello["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (hello["attempts"], hello["broken"]) == ([], "")

    assert session.start("a", "sh", "-c", "echo out; echo err >&2; exit 3")["already"] is False
    exit_ = session.finish("a")

    assert (exit_["kind"], exit_["code"], exit_["message"]) == ("exited", 3, "")
    assert (session.log("a"), session.log("a", "stderr")) == (b"out\n", b"err\n")
    assert (exit_["stdout_bytes"], exit_["stderr_bytes"]) == (4, 4)
    assert 0 <= exit_["finished_at"] - exit_["started_at"] < 30
    assert session.close() == 0


def test_the_kernel_ends_a_job_before_the_runner_and_its_supervisor(runner: Runner) -> None:
    """Out of memory it might have ended either: then the attempt was lost, or all of them."""
    session, _ = runner.attach()
    script = (
        "cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj; (cat /proc/self/oom_score_adj)"
    )
    assert session.run("a", "sh", "-c", script)["code"] == 0
    own, supervisor, child = map(int, session.log("a").split())
    assert own == child == OOM_SCORE
    assert supervisor == int(Path("/proc/self/oom_score_adj").read_text()) < own
    assert session.log("a", "stderr") == b""


@pytest.mark.parametrize("name", ["INT", "TERM", "KILL", "SEGV", "PIPE", "QUIT"])
def test_a_job_that_a_signal_ends_has_128_and_its_number(runner: Runner, name: str) -> None:
    session, _ = runner.attach()
    exit_ = session.run("a", "sh", "-c", f"kill -{name} $$")
    assert (exit_["kind"], exit_["code"]) == ("exited", 128 + signal.Signals[f"SIG{name}"])
    assert session.log("a", "stderr") == b""


@pytest.mark.parametrize(("command", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_executed_is_the_programs_failure(
    runner: Runner, command: str, code: int
) -> None:
    session, _ = runner.attach()
    exit_ = session.run("a", command)
    assert (exit_["kind"], exit_["code"]) == ("exited", code)
    assert command.encode() in session.log("a", "stderr")


def test_command_and_environment_arrive_unchanged(runner: Runner) -> None:
    values = {
        "NEWLINE": "a\nb\n",
        "QUOTES": "'\"`$(echo no)$HOME\\",
        "DASH": "-n",
        "EMPTY": "",
        "UMLAUT": "grün",
        "-x": "a name with a dash",
        "a.b": "a name with a dot",
        "_ls_work": "a name of ours",
        "IFS": "x",
        "OPTIND": "no number",
        "LC_ALL": "C",
        "LD_LIBRARY_PATH": "/nowhere",
        "BIG": "y" * 100_000,
        "LONGSHORE_ATTEMPT_ID": "forged",
        "LANG": "xx",
    }
    arguments = ["-n", "--", "$(echo no)", "a\nb", "'", '"', "*", "", "a=b", "é"]
    session, _ = runner.attach()
    script = "import sys; sys.stdout.write(open('/proc/self/environ').read())"
    script += ";print('\\0'.join(sys.argv[1:]))"
    session.run("a", sys.executable, "-c", script, *arguments, env=values)
    variables, _, said = session.log("a").decode().rpartition("\0" + arguments[0] + "\0")
    environment = dict(word.split("=", 1) for word in variables.split("\0"))
    for name in values.keys() - {"LONGSHORE_ATTEMPT_ID"}:
        assert environment[name] == values[name], name
    assert said == "\0".join(arguments[1:]) + "\n"
    assert environment["LONGSHORE_ATTEMPT_ID"] == "a"
    assert environment["LONGSHORE_CONTAINER_ID"] == "c-a"
    assert environment["LONGSHORE_CLUSTER"] == "test"
    assert environment["HOME"] == environment["PWD"] == runner.places.work + "/a"
    assert environment["LONGSHORE_SPOOL"] == runner.places.name
    own = {f"LONGSHORE_{name}" for name in ("CONTAINER_ID", "CLUSTER", "SPOOL")}
    left = environment.keys() - values.keys()
    assert left <= {"HOME", "PWD", "PATH"} | own


def test_the_mark_of_an_attempt_names_its_spool(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "60")
    job = runner.job("a")
    # The mark is there once the job has taken the supervisor's place.
    eventually(lambda: b"LONGSHORE_SPOOL=" in Path(f"/proc/{job}/environ").read_bytes())
    kill_marked("longshore-another-spool", "a")
    assert alive(runner.job("a"))
    kill_marked(runner.places.name, "a")
    eventually(lambda: not alive(runner.job("a")))


def test_the_instance_id_is_passed_on() -> None:
    with Runner(environment={"LONGSHORE_INSTANCE_ID": "i-7"}) as runner:
        session, _ = runner.attach()
        session.run("a", "sh", "-c", 'echo "$LONGSHORE_INSTANCE_ID"')
        assert session.log("a") == b"i-7\n"


def test_a_megabyte_of_environment_works(runner: Runner) -> None:
    values = {f"V{number}": "z" * 120_000 for number in range(8)}
    values |= {f"W{number}": str(number) for number in range(1000)}
    session, _ = runner.attach()
    assert session.run("a", "sh", "-c", 'echo "${#V7} $W999"', env=values)["code"] == 0
    assert session.log("a") == b"120000 999\n"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"env": {"V": "z" * 131_072}}, "too_large"),
        ({"env": {"": "x"}}, "invalid"),
        ({"env": {"a=b": "x"}}, "invalid"),
        ({"env": {"a": "x\0"}}, "invalid"),
        ({"env": {"a": "\ud800"}}, "invalid"),
        ({"image": "alpine"}, "invalid"),
        ({"memory_bytes": -1}, "invalid"),
    ],
)
def test_what_cannot_be_executed_is_refused_and_leaves_nothing(
    runner: Runner, fields: dict[str, object], code: str
) -> None:
    session, _ = runner.attach()
    reply = session.start("a", "true", **fields)
    assert (reply["ok"], reply["code"]) == (False, code)
    assert reply["message"]
    assert session.request("list")["attempts"] == []
    assert session.run("a", "true")["code"] == 0


def test_an_attempt_has_an_empty_directory_of_its_own_until_it_is_released(runner: Runner) -> None:
    session, _ = runner.attach()
    session.run("a", "sh", "-c", "ls -A; mkdir -p deep/er; touch deep/er/file; pwd")
    work = Path(runner.places.work, "a")
    assert session.log("a").decode() == f"{work}\n"
    assert (work / "deep" / "er" / "file").exists()
    assert session.request("release", attempt_id="a")["ok"]
    eventually(lambda: not work.exists())
    assert session.request("list")["attempts"] == []
    assert not list(Path(runner.places.logs).iterdir())
    assert not list((runner.spool / "attempts").iterdir())
    assert session.request("release", attempt_id="a")["ok"]


def test_a_running_attempt_is_not_released(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "60")
    assert session.request("release", attempt_id="a")["kept"] is True
    assert alive(runner.job("a"))


def test_five_mebibytes_on_both_streams_arrive_exactly(runner: Runner) -> None:
    script = "head -c 5242880 /dev/urandom > data; cat data; cat data >&2"
    session, _ = runner.attach()
    exit_ = session.run("a", "sh", "-c", script)
    data = Path(runner.places.work, "a", "data").read_bytes()
    assert len(data) == 5 * MIB == exit_["stdout_bytes"] == exit_["stderr_bytes"]
    assert session.log("a") == data
    assert session.log("a", "stderr") == data


def test_what_is_taken_of_a_long_log_leaves_the_disk(runner: Runner) -> None:
    session, _ = runner.attach()
    exit_ = session.run("a", "sh", "-c", f"yes | head -c {30 * MIB}")
    assert exit_["stdout_bytes"] == 30 * MIB
    assert session.log("a") == b"y\n" * (15 * MIB)
    log = Path(runner.places.logs, "a.stdout")
    session.request("list")  # the last acknowledgement is read
    assert log.stat().st_blocks * 512 <= 21 * MIB
    begin = read_start(Spool(runner.places).kept("a", "stdout"))
    assert begin > 8 * MIB
    session.kill()
    again, _ = runner.attach()
    # What is asked for and gone is left out, which the offsets of what comes tell.
    again.logs["a", "stdout"] = bytearray(begin)
    assert again.request("tail", attempt_id="a", stdout=1, stderr=0)["ok"]
    again.until(lambda: len(again.logs["a", "stdout"]) == 30 * MIB)
    assert again.log("a")[begin:] == b"y\n" * ((30 * MIB - begin) // 2)


def test_no_more_than_the_window_is_unacknowledged_and_attempts_share_it(runner: Runner) -> None:
    session, _ = runner.attach(acknowledge=False)
    script = "yes | head -c 1048576"
    session.start("a", "sh", "-c", script)
    session.start("b", "sh", "-c", script)
    # The exit of a comes at once, although most of its log may not be sent yet.
    assert session.exit_of("a")["stdout_bytes"] == MIB
    session.exit_of("b")
    beats = len([each for each in session.pushed if each["type"] == "heartbeat"])
    session.until(lambda: len([e for e in session.pushed if e["type"] == "heartbeat"]) > beats + 3)
    assert sum(map(len, session.logs.values())) == 256 * 1024
    for attempt_id in ("a", "b"):
        offset = len(session.log(attempt_id))
        session.send(
            {"type": "log_ack", "attempt_id": attempt_id, "stream": "stdout", "offset": offset}
        )
    session.until(lambda: sum(map(len, session.logs.values())) == 512 * 1024)
    assert min(len(session.log("a")), len(session.log("b"))) >= 96 * 1024


def test_a_start_is_idempotent(runner: Runner) -> None:
    session, _ = runner.attach()
    assert session.start("a", "sh", "-c", "echo once; sleep 60")["already"] is False
    assert session.start("a", "sh", "-c", "echo twice")["already"] is True
    session.until(lambda: session.log("a") == b"once\n")
    session.kill()
    again, hello = runner.attach()
    assert [each["exit"] for each in hello["attempts"]] == [None]
    assert again.start("a", "sh", "-c", "echo thrice")["already"] is True
    again.until(lambda: again.log("a") == b"once\n")


def test_a_killed_session_is_resumed_at_an_offset(runner: Runner) -> None:
    session, _ = runner.attach()
    gate = Path(runner.places.work, "a", "gate")
    script = "echo first; until [ -e gate ]; do sleep 0.01; done; echo second; exit 5"
    session.start("a", "sh", "-c", script)
    session.until(lambda: session.log("a") == b"first\n")
    session.kill()
    gate.touch()
    again, _ = runner.attach()
    again.logs["a", "stdout"] = bytearray(b"first\n")
    assert again.request("tail", attempt_id="a", stdout=6, stderr=0)["ok"]
    again.until(lambda: again.log("a") == b"first\nsecond\n")
    eventually(lambda: runner.listing()["attempts"][0]["exit"] is not None)
    assert runner.listing()["attempts"][0]["exit"]["code"] == 5


def test_an_exit_is_repeated_until_it_is_released(runner: Runner) -> None:
    session, _ = runner.attach()
    exit_ = session.run("a", "sh", "-c", "echo x; exit 4")
    for _ in range(2):
        session.kill()
        session, hello = runner.attach()
        report = {"attempt_id": "a", "container_id": "c-a", "exit": exit_}
        assert hello["attempts"] == [report]
        assert session.request("list")["attempts"] == [report]
        assert runner.listing()["attempts"] == [report]
    session.request("release", attempt_id="a")
    session.kill()
    assert runner.attach()[1]["attempts"] == []


def test_a_job_may_resist_term_but_not_kill(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sh", "-c", "trap 'echo no' TERM; echo up; while :; do sleep 0.05; done")
    session.until(lambda: session.log("a") == b"up\n")
    assert session.request("kill", attempt_id="a", signal="TERM")["signalled"] is True
    session.until(lambda: session.log("a") == b"up\nno\n")
    assert session.request("kill", attempt_id="a", signal="KILL")["signalled"] is True
    assert session.exit_of("a")["code"] == 137
    assert session.request("kill", attempt_id="a", signal="KILL")["signalled"] is False
    assert session.request("kill", attempt_id="nobody", signal="KILL")["signalled"] is False


def test_a_kill_right_after_the_start_is_not_lost(runner: Runner) -> None:
    session, _ = runner.attach()
    for number in range(20):
        session.ask("start", attempt=order_of(f"a{number}"))
        session.ask("kill", attempt_id=f"a{number}", signal="TERM")
    for number in range(20):
        assert session.exit_of(f"a{number}")["code"] == 143


def order_of(attempt_id: str) -> dict[str, object]:
    fields: dict[str, object] = {"attempt_id": attempt_id, "container_id": "c", "image": ""}
    return {**fields, "command": ["sleep", "60"], "env": {}, "cpu_millis": 0, "memory_bytes": 0}


def test_an_attempt_without_supervisor_is_lost_and_nothing_of_it_runs_on(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sh", "-c", "setsid sleep 61 & echo $!; exec sleep 62")
    session.until(lambda: session.log("a").endswith(b"\n"))
    job, moved = runner.job("a"), int(session.log("a"))
    eventually(lambda: stat_fields(moved)[3:4] == [str(moved)])  # it leads a session of its own
    os.kill(runner.supervisor("a"), signal.SIGKILL)
    exit_ = session.exit_of("a")
    assert (exit_["kind"], exit_["code"]) == ("lost", None)
    assert "watched over it" in exit_["message"]
    eventually(lambda: not alive(job))
    eventually(lambda: not alive(moved))
    assert session.request("list")["attempts"][0]["exit"] == exit_


def test_an_attempt_that_is_orphaned_while_nobody_looks_is_lost(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "60")
    job, supervisor = runner.job("a"), runner.supervisor("a")
    session.kill()
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not alive(supervisor))
    assert runner.listing()["attempts"][0]["exit"]["kind"] == "lost"
    assert not alive(job)


@pytest.mark.parametrize("run_as", ["", "nobody"])
def test_no_value_of_a_variable_is_ever_an_argument(run_as: str) -> None:
    if run_as and os.geteuid() != 0:
        not_tested("run_as needs root")
    with Runner(engine={"name": "process", "run_as": run_as}) as runner:
        session, hello = runner.attach()
        assert hello["broken"] == ""
        seen: set[bytes] = set()
        for number in range(30):
            # Looked at from the start on, and while it runs.
            with Onlooker() as onlooker:
                session.start(f"a{number}", "true", env=SECRETS)
                session.exit_of(f"a{number}")
            seen |= onlooker.seen
        session.start("b", "sleep", "60", env=SECRETS)
        job = Path(f"/proc/{runner.job('b')}/cmdline")
        eventually(lambda: job.read_bytes() == b"sleep\x0060\0")
        seen |= {Path(f"/proc/{pid}/cmdline").read_bytes() for pid in runner.processes()}
        assert b"sleep\x0060\0" in seen
        assert [each for each in seen if b"top-secret" in each] == []


ODD_NAMES = [
    *("COMP_WORDBREAKS", "HISTFILE", "BASH_ENV", "EPOCHSECONDS", "LC_ALL", "READLINE_LINE"),
    *("TERM", "PS1", "PWD", "OLDPWD", "IFS", "SHLVL", "_", "UID", "PPID", "RANDOM", "OPTIND"),
    *("_ls_e0", "_ls_work", "a.token", "-x", "1x"),
]
SECRETS = dict.fromkeys([*ODD_NAMES, "TOKEN", "LD_AUDIT"], "top-secret")


@pytest.mark.parametrize("run_as", ["", "nobody"])
@pytest.mark.parametrize("names", [[], ["TOKEN"], ODD_NAMES])
def test_a_job_has_the_environment_that_was_wished_for_and_no_more(
    run_as: str, names: list[str]
) -> None:
    if run_as and os.geteuid() != 0:
        not_tested("run_as needs root")
    with Runner(engine={"name": "process", "run_as": run_as}) as runner:
        session, _ = runner.attach()
        wished = {name: f" {name}\n=" for name in names}
        assert session.run("a", "/bin/cat", "/proc/self/environ", env=wished)["code"] == 0
        found = session.log("a").decode()[:-1].split("\0")
        environment = dict(each.split("=", 1) for each in found)
        assert len(environment) == len(found)
        given = {"PWD": environment["HOME"], **wished}
        assert {name: environment.pop(name) for name in given} == given
        assert set(environment) == {
            *("HOME", "LANG", "PATH", "LONGSHORE_ATTEMPT_ID", "LONGSHORE_CLUSTER"),
            *("LONGSHORE_CONTAINER_ID", "LONGSHORE_SPOOL"),
        }


LIBRARYS_OWN = 1 << 31 | 1 << 32
"""Signals 32 and 33 in a mask."""


def _ignored_here() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))


@pytest.mark.parametrize("env", [{}, {"LC_ALL": "C"}])
def test_signals_are_a_jobs_own_whoever_took_the_last_step(
    runner: Runner, env: dict[str, str]
) -> None:
    session, _ = runner.attach()
    assert session.run("a", "grep", "^SigIgn", "/proc/self/status", env=env)["code"] == 0
    # The two signals of the C library's own stay ignored where we were started so: it lets nobody
    # change them, and posix_spawn of a program that we come from may have ignored them.
    inherited = _ignored_here() & LIBRARYS_OWN
    assert int(session.log("a").split()[1], 16) == inherited
    assert session.run("b", "no-such-program", env=env)["code"] == 127
    assert session.run("c", "/etc/passwd", env=env)["code"] == 126
