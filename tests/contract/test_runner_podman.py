"""The runner with real Podman: limits hold, verdicts are right, and containers do not pile up."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import cgroups, machine
from longshore.pool.runner.scripts import OOM_SCORE
from tests.busybox_image import ENGINE, IMAGE, import_image
from tests.conftest import RequireTool, not_tested
from tests.runner_harness import Attached, Onlooker, Runner, alive, eventually

MIB = 2**20
# Names of containers are the machine's: another run of these tests may be under way on it.
A = f"a-{os.getpid()}-{secrets.token_hex(4)}"
ORPHAN = f"longshore-orphan-{A}"

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def podman(require_tool: RequireTool) -> str:
    """Return Podman's path, with an image made of the static busybox."""
    path = require_tool("podman", "podman")
    require_tool("runc", "runc")
    busybox = require_tool("busybox", "busybox-static")
    if cgroups.problem():
        not_tested(f"{cgroups.problem()}")
    import_image(path, busybox)
    return path


@pytest.fixture
def runner(podman: str) -> Iterator[Runner]:
    with Runner(engine=ENGINE) as each:
        yield each
        session, hello = each.attach()
        for report in hello["attempts"]:
            if report["exit"] is None:
                session.request("kill", attempt_id=report["attempt_id"], signal="KILL")
                session.exit_of(report["attempt_id"])
            session.request("release", attempt_id=report["attempt_id"])
        session.close()
        eventually(lambda: not containers(podman, each))
        for top in (path.parent for path in map(Path, cgroups.directories(f"{name_of(each)}/x"))):
            eventually(lambda path=top: not path.exists() or not _below(path))  # type: ignore[misc] # the default binds the loop's value
            if top.exists():
                top.rmdir()


@pytest.fixture
def session(runner: Runner) -> Attached:
    session, hello = runner.attach()
    assert (hello["engine"], hello["broken"]) == ("podman", "")
    return session


def name_of(runner: Runner) -> str:
    return runner.places.name


def _below(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.is_dir()]


def containers(podman: str, runner: Runner) -> list[str]:
    label = f"label=longshore-spool={name_of(runner)}"
    command = [podman, "ps", "-a", "--filter", label, "--format", "{{.Names}} {{.Status}}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def sh(session: Attached, attempt_id: str, script: str, **fields: object) -> dict[str, object]:
    return session.run(attempt_id, "sh", "-c", script, image=IMAGE, **fields)


def test_a_container_runs_and_its_exit_and_log_arrive(session: Attached) -> None:
    exit_ = sh(session, A, "echo out; echo err >&2; exit 7")
    assert (exit_["kind"], exit_["code"], exit_["message"]) == ("exited", 7, "")
    assert (session.log(A), session.log(A, "stderr")) == (b"out\n", b"err\n")


def test_a_container_finds_the_socket_of_the_api_that_it_was_promised(
    runner: Runner, session: Attached
) -> None:
    script = (
        'path="${LONGSHORE_URL#unix://}"; [ -S "$path" ] && stat -c "%A" "$path"; '
        'ln -s /etc/shadow "${path%/*}/api.sock.new"; until [ -e /tmp/end ]; do sleep 0.1; done'
    )
    reply = session.start(A, "sh", "-c", script, image=IMAGE, api=True)
    assert reply["ok"], reply
    session.until(lambda: session.log(A).count(b"\n") > 0)
    assert session.log(A) == b"srw-rw-rw-\n"
    session.until(lambda: b"Read-only" in session.log(A, "stderr"))
    door = Path(runner.places.work) / f"{A}+api" / "api.sock"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(door))
        client.sendall(b"GET /v1/containers HTTP/1.1\r\n\r\n")
        assert session.wait_for("api_request")["attempt_id"] == A
    session.request("kill", attempt_id=A, signal="KILL")
    session.exit_of(A)
    assert session.request("release", attempt_id=A)["ok"]
    assert not door.parent.exists()


def test_the_kernel_ends_a_container_before_all_that_watches_it(session: Attached) -> None:
    assert sh(session, A, "cat /proc/self/oom_score_adj")["code"] == 0
    assert int(session.log(A)) == OOM_SCORE > machine.oom_score()


@pytest.mark.parametrize("user", ["0:0", "1234:1234"])
def test_output_can_be_opened_again(podman: str, user: str) -> None:
    engine = {**ENGINE, "arguments": [*ENGINE["arguments"], "--user", user]}
    with Runner(engine=engine) as runner:
        session, hello = runner.attach()
        assert (hello["engine"], hello["broken"]) == ("podman", "")
        script = "echo a >/dev/stderr; echo b >/dev/stderr; echo c | tee /dev/stderr; exit 1"
        exit_ = sh(session, A, script)
        assert (exit_["kind"], exit_["code"]) == ("exited", 1)
        assert (session.log(A), session.log(A, "stderr")) == (b"c\n", b"a\nb\nc\n")
        session.request("release", attempt_id=A)
        eventually(lambda: not containers(podman, runner))


@pytest.mark.parametrize("code", [0, 125, 126, 127, 130, 255])
def test_a_programs_own_code_is_told_from_the_engines(session: Attached, code: int) -> None:
    exit_ = sh(session, A, f"exit {code}")
    assert (exit_["kind"], exit_["code"]) == ("exited", code)


VALUES = {
    "NEWLINE": "a\nb\n",
    "XTABLES_LIBDIR": "/nowhere:\n",
    "OPENSSL_CONF": '\n\r\n"\\<&\u2028\n',
    "PS4": "a\r",
    "PATH": "/bin:/nowhere",
    "HOME": "/nowhere",
    "LD_PRELOAD": "/nowhere.so",
    "HTTPS_PROXY": "http://nowhere",
    "QUOTES": "'\"`$(echo no)$HOME\\",
    "HASH": "#no comment",
    "EQUALS": "=a=b",
    "BLANKS": " \t both ends \t ",
    "EMPTY": "",
    "RETURN": "a\r",
    "UMLAUT": "grün",
    "LONG": "y" * 100_000,
    "FULL": "z" * 60_000,
    "a.b": "a name with a dot",
    "IFS": "x",
}


def test_values_in_the_environment_survive_and_do_not_govern_the_client(session: Attached) -> None:
    forged = {"LONGSHORE_ATTEMPT_ID": "forged", "LONGSHORE_CLUSTER": "forged\n"}
    exit_ = session.run(A, "cat", "/proc/self/environ", image=IMAGE, env={**VALUES, **forged})
    assert exit_["code"] == 0, session.log(A, "stderr")
    arrived = dict(each.split("=", 1) for each in session.log(A).decode()[:-1].split("\0"))
    for name, value in VALUES.items():
        assert arrived[name] == value, name
    assert (arrived["LONGSHORE_ATTEMPT_ID"], arrived["LONGSHORE_CLUSTER"]) == (A, "test")


def test_values_in_the_environment_are_nobody_elses_to_read(
    podman: str, runner: Runner, session: Attached
) -> None:
    values = {"ONE": "hush-hush", "XTABLES_LIBDIR": "hush\nhush", "HOME": "/hush"}
    names = ["TERM", "PS1", "PWD", "IFS", "BASH_ENV", "HISTFILE", "COMP_LINE", "LC_ALL", "a.b"]
    gate = "mkfifo /tmp/gate; echo up; read line </tmp/gate"
    with Onlooker() as onlooker:
        session.start(
            A, "sh", "-c", gate, image=IMAGE, env={**dict.fromkeys(names, "hush"), **values}
        )
        session.until(lambda: session.log(A) == b"up\n")
        seen = command_lines() + sorted(onlooker.seen)
    assert any(A.encode() in each for each in seen), "the client is among them"
    assert any(b"runc" in each for each in onlooker.seen), "whom the client calls is, too"
    assert not [each for each in seen if b"hush" in each]
    client = Path(f"/proc/{runner.job(A)}")
    assert b"--secret" in client.joinpath("cmdline").read_bytes().split(b"\0")
    given = client.joinpath("environ").read_bytes()
    assert (b"hush" in given, b"XTABLES" in given, b"_ls_name" in given) == (False, False, True)
    (secret,) = secrets_of_podman(podman, runner)
    for file in (runner.spool / "attempts" / A / name for name in ("env", secret)):
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    session.request("kill", attempt_id=A, signal="KILL")
    session.exit_of(A)
    session.request("release", attempt_id=A)
    assert not file.exists()
    eventually(lambda: not secrets_of_podman(podman, runner))


def secrets_of_podman(podman: str, runner: Runner) -> list[str]:
    """Return the names of a runner's secrets."""
    command = [podman, "secret", "ls", "--format", "{{.Name}}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return [name for name in done.stdout.split() if name.startswith(name_of(runner))]


def command_lines() -> list[bytes]:
    """Return the command lines of all processes."""
    found = []
    for path in sorted(Path("/proc").glob("[0-9]*/cmdline")):
        with suppress(OSError):  # it has just ended
            found.append(path.read_bytes())
    return found


def test_more_memory_than_asked_is_out_of_memory(session: Attached) -> None:
    command = ("dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1")
    exit_ = session.run(A, *command, image=IMAGE, memory_bytes=64 * MIB)
    assert (exit_["kind"], exit_["code"]) == ("out_of_memory", 137)
    assert "memory" in exit_["message"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        # The page cache fills the limit and is reclaimed: no process is killed for it.
        ("dd if=/dev/zero of=/tmp/file bs=1M count=150; exit 3", 3),
        ("sh -c 'kill -9 $$'; exit $?", 137),
        # One process ran out of memory, and the program coped.
        ("dd if=/dev/zero of=/dev/null bs=200M count=1; exit 0", 0),
    ],
)
def test_a_limit_that_killed_nobody_fatally_is_not_blamed(
    session: Attached, script: str, code: int
) -> None:
    exit_ = sh(session, A, script, memory_bytes=64 * MIB)
    assert (exit_["kind"], exit_["code"]) == ("exited", code)


@pytest.mark.alone
def test_a_tenth_of_a_cpu_is_no_more_than_that(runner: Runner, session: Attached) -> None:
    exit_ = sh(session, A, "timeout -s KILL 3 sh -c 'while :; do :; done'; times", cpu_millis=100)
    cpu_s = 0.0
    for word in session.log(A).split():
        minutes, seconds = word.rstrip(b"s").split(b"m")
        cpu_s += 60 * float(minutes) + float(seconds)
    wall_s = float(str(exit_["finished_at"])) - float(str(exit_["started_at"]))
    assert 0.01 < cpu_s / wall_s < 0.15, (cpu_s, wall_s)
    # A busy machine could have slowed it as well: only the limit makes the kernel throttle it.
    controller = "" if cgroups.unified() else "cpu/"
    statistics = Path(cgroups.ROOT, f"{controller}{name_of(runner)}/{A}/cpu.stat").read_text()
    throttled = dict(line.split() for line in statistics.splitlines())["nr_throttled"]
    assert int(throttled) > 0


def test_a_limit_that_changes_holds_at_once_and_outlives_the_session(
    runner: Runner, session: Attached
) -> None:
    loop = "echo up; while :; do :; done"
    session.start(A, "sh", "-c", loop, image=IMAGE, cpu_millis=50)
    session.until(lambda: session.log(A) == b"up\n")
    eventually(lambda: is_held_to(runner, 0.05))
    # One loop uses one cpu at most: with more than one of them nothing holds it any more.
    assert session.request("update-limits", attempt_id=A, cpu_millis=1500)["limited"] is True
    eventually(lambda: is_free(runner, beyond=0.15))
    assert session.request("update-limits", attempt_id=A, cpu_millis=50)["limited"] is True
    eventually(lambda: is_held_to(runner, 0.05))
    session.kill()
    again, hello = runner.attach()
    assert [each["exit"] for each in hello["attempts"]] == [None]
    eventually(lambda: is_held_to(runner, 0.05))
    assert again.start(A, "true", image=IMAGE, cpu_millis=1500)["already"] is True
    eventually(lambda: is_held_to(runner, 0.05))
    assert again.request("update-limits", attempt_id=A, cpu_millis=0)["limited"] is True
    eventually(lambda: is_free(runner, beyond=0.15))
    again.request("kill", attempt_id=A, signal="KILL")
    again.exit_of(A)
    assert again.request("update-limits", attempt_id=A, cpu_millis=50)["limited"] is False


WINDOW_S = 0.5


def is_held_to(runner: Runner, cpus: float) -> bool:
    """Return whether the kernel holds A back, and lets it have no more than so much.

    A busy machine alone could give it as little, but would not throttle it.
    """
    used, throttled = used_in_a_window(runner)
    return throttled >= 2 and used <= 2 * cpus


def is_free(runner: Runner, *, beyond: float) -> bool:
    """Return whether A gets more than so many cpus, and the kernel does not hold it back."""
    used, throttled = used_in_a_window(runner)
    return throttled == 0 and used > beyond


def used_in_a_window(runner: Runner) -> tuple[float, int]:
    """Return how many cpus A used, and how often it was throttled, in the next half second."""
    began, (used_s, throttled) = time.monotonic(), cpu_account(runner)
    eventually(lambda: time.monotonic() >= began + WINDOW_S)
    later_s, more_throttled = cpu_account(runner)
    return (later_s - used_s) / (time.monotonic() - began), more_throttled - throttled


def cpu_account(runner: Runner) -> tuple[float, int]:
    """Return how much time of cpus A has used so far, in seconds, and how often it was held."""
    group = f"{name_of(runner)}/{A}"
    root = Path(cgroups.ROOT)
    statistics = root / group if cgroups.unified() else root / "cpu" / group
    lines = statistics.joinpath("cpu.stat").read_text().splitlines()
    values = {name: int(value) for name, value in map(str.split, lines)}
    if cgroups.unified():
        return values["usage_usec"] / 1e6, values["nr_throttled"]
    used_ns = int(root.joinpath("cpuacct", group, "cpuacct.usage").read_text())
    return used_ns / 1e9, values["nr_throttled"]


GREEDY = """
dd if=/dev/zero of=/dev/null bs=100M count=1
dd if=/dev/zero of=/ten bs=1M count=10 conv=fsync
i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done
"""


def test_what_a_container_really_took_is_told_with_its_exit(session: Attached) -> None:
    usage = sh(session, A, GREEDY)["usage"]
    assert isinstance(usage, dict)
    assert 100 * MIB < usage["peak_memory_bytes"] < 250 * MIB
    assert usage.get("mean_memory_bytes", 0) <= usage["peak_memory_bytes"]
    assert 0.1 < usage["cpu_seconds"] < 30
    if cgroups.unified():
        assert 10 * MIB <= usage["written_bytes"] < 30 * MIB
    else:
        assert "written_bytes" not in usage, "version 1 would say 0"


def test_what_never_ran_has_no_usage(session: Attached) -> None:
    exit_ = session.run(A, "no-such-program", image=IMAGE)
    assert exit_["kind"] == "engine_failure"
    assert "usage" not in exit_


def test_a_missing_image_is_the_engines_failure(session: Attached) -> None:
    exit_ = session.run(A, "true", image="localhost/longshore-no-such-image:latest")
    assert (exit_["kind"], exit_["code"]) == ("engine_failure", 125)
    assert "longshore-no-such-image" in exit_["message"]


@pytest.mark.parametrize(("command", "code"), [("/no-such-program", 127), ("/tmp", 126)])
def test_a_command_missing_in_the_image_is_the_engines_failure(
    session: Attached, command: str, code: int
) -> None:
    # What an init says of it is in `test_runner_images`.
    exit_ = session.run(A, command, image=IMAGE, init=False)
    assert (exit_["kind"], exit_["code"]) == ("engine_failure", code)
    assert command in exit_["message"]


def test_term_reaches_the_program_and_kill_ends_what_resists(session: Attached) -> None:
    script = "trap 'echo term' TERM; echo up; while :; do sleep 0.1; done"
    session.start(A, "sh", "-c", script, image=IMAGE)
    session.until(lambda: session.log(A) == b"up\n")
    assert session.request("kill", attempt_id=A, signal="TERM")["signalled"] is True
    session.until(lambda: session.log(A) == b"up\nterm\n")
    session.request("kill", attempt_id=A, signal="KILL")
    exit_ = session.exit_of(A)
    assert (exit_["kind"], exit_["code"]) == ("exited", 137)


def test_a_kill_before_the_container_is_there_works(podman: str, runner: Runner) -> None:
    session, _ = runner.attach()
    session.start(A, "sleep", "60", image=IMAGE)
    session.request("kill", attempt_id=A, signal="KILL")
    exit_ = session.exit_of(A)
    assert (exit_["kind"], exit_["code"]) in (("exited", 137), ("engine_failure", None))
    assert not [each for each in containers(podman, runner) if "Up" in each]


DELAYS_MS = [20, 50, 90, 130, 170, 210, 250, 290, 330, 370, 410, 450, 490]
UP_UNTIL_TERM = "trap 'exit 9' TERM; echo up; while :; do sleep 0.1; done"


@pytest.mark.parametrize("whose", ["ours", "somebody else's"])
def test_a_program_that_term_kept_from_its_start_has_no_exit_code(
    session: Attached, runner: Runner, whose: str
) -> None:
    for delay_ms in DELAYS_MS:
        attempt_id = f"{A}-{delay_ms}"
        session.start(attempt_id, "sh", "-c", UP_UNTIL_TERM, image=IMAGE)
        client = runner.job(attempt_id)
        due_at = time.monotonic() + delay_ms / 1000
        eventually(lambda at=due_at: time.monotonic() >= at)  # type: ignore[misc] # the default binds the loop's value
        if whose == "ours":
            session.request("kill", attempt_id=attempt_id, signal="TERM")
        else:
            with suppress(ProcessLookupError):
                os.kill(client, signal.SIGTERM)
        exit_ = exit_despite_term(session, attempt_id)
        if exit_["kind"] == "exited":
            assert (exit_["code"], session.log(attempt_id)) == (9, b"up\n")
        else:
            assert (exit_["kind"], session.log(attempt_id)) == ("engine_failure", b"")
            assert exit_["code"] is None or whose != "ours"
        session.request("release", attempt_id=attempt_id)


def exit_despite_term(session: Attached, attempt_id: str) -> dict[str, Any]:
    """Return the exit of an attempt, to which TERM goes again and again as a dispatcher's does."""

    def ended() -> list[dict[str, Any]]:
        mine = [each for each in session.pushed if each.get("attempt_id") == attempt_id]
        return [each["exit"] for each in mine if each["type"] == "exited"]

    while not ended():
        with suppress(AssertionError):  # not yet
            session.until(lambda: bool(ended()), 2.0)
        if not ended():
            session.request("kill", attempt_id=attempt_id, signal="TERM")
    return ended()[0]


def stand_in(directory: Path, podman: str, *cases: str) -> dict[str, object]:
    """Return the configuration of an engine that is Podman but for these cases of its commands."""
    program = directory / "engine"
    words = "\n".join(cases)
    program.write_text(f'#!/bin/sh\ncase " $* " in\n{words}\nesac\nexec {podman} "$@"\n')
    program.chmod(0o755)
    return {**ENGINE, "binary": str(program)}


def test_a_slow_engine_that_term_ends_with_0_has_run_nothing(podman: str, tmp_path: Path) -> None:
    up = tmp_path / "up"
    slow = f'*" run "*) trap "exit 0" TERM; echo x >>{up}; while :; do sleep 0.1; done ;;'
    with Runner(engine=stand_in(tmp_path, podman, slow)) as runner:
        session, _ = runner.attach()
        session.start(A, "true", image=IMAGE)
        eventually(lambda: up.exists() and up.read_text() == "x\n")
        session.request("kill", attempt_id=A, signal="TERM")
        exit_ = exit_despite_term(session, A)
        assert (exit_["kind"], exit_["code"]) == ("engine_failure", None)
        assert "before its program was started" in exit_["message"]
        session.start(f"{A}-2", "true", image=IMAGE)
        eventually(lambda: up.read_text() == "x\nx\n")
        os.kill(runner.job(f"{A}-2"), signal.SIGTERM)
        exit_ = session.exit_of(f"{A}-2")
        assert (exit_["kind"], exit_["code"]) == ("engine_failure", 0)
        assert "started nothing" in exit_["message"]
        give_back(session, runner, A, f"{A}-2")


def give_back(session: Attached, runner: Runner, *attempt_ids: str) -> None:
    """Release attempts and wait until nothing is left of them."""
    for attempt_id in attempt_ids:
        assert session.request("release", attempt_id=attempt_id)["ok"]
    leaving = runner.spool / "leaving"
    eventually(lambda: not list(leaving.iterdir()))
    for directory in cgroups.directories(name_of(runner)):
        if Path(directory).exists():
            Path(directory).rmdir()


def test_an_attempt_whose_conmon_dies_is_lost_when_nothing_of_it_runs(
    podman: str, runner: Runner, session: Attached
) -> None:
    session.start(A, "sh", "-c", "trap '' TERM; echo up; sleep 600 & wait; wait", image=IMAGE)
    session.until(lambda: session.log(A) == b"up\n")
    state = "{{.State.ConmonPid}} {{.State.Pid}}"
    command = [podman, "inspect", "--format", state, f"longshore-{A}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    conmon, program = map(int, said.split())
    os.kill(conmon, signal.SIGKILL)
    exit_ = session.exit_of(A)
    assert (exit_["kind"], exit_["code"]) == ("lost", None)
    assert "conmon" in exit_["message"]
    assert not alive(program), "the next try may begin now"
    assert members(runner, A) == []
    assert containers(podman, runner) == []


def members(runner: Runner, attempt_id: str) -> list[str]:
    """Return the processes in an attempt's control group and below it."""
    top = Path(cgroups.tree(f"{name_of(runner)}/{attempt_id}"))
    return [pid for file in top.rglob("cgroup.procs") for pid in file.read_text().split()]


def test_a_container_that_somebody_removes_is_lost(podman: str, session: Attached) -> None:
    session.start(A, "sh", "-c", "echo up; sleep 60", image=IMAGE)
    session.until(lambda: session.log(A) == b"up\n")
    subprocess.run([podman, "--runtime", "runc", "rm", "-f", f"longshore-{A}"], check=True)
    assert session.exit_of(A)["kind"] == "lost"


def test_volumes_of_an_image_leave_with_its_container(podman: str, runner: Runner) -> None:
    before = volumes(podman)
    arguments = [*ENGINE["arguments"], "--volume", "/anonymous"]
    runner.engine = {**ENGINE, "arguments": arguments}
    session, _ = runner.attach()
    assert sh(session, A, "echo x >/anonymous/file")["code"] == 0
    assert len(volumes(podman) - before) == 1
    session.start(f"{A}-2", "sh", "-c", "echo up; sleep 60", image=IMAGE)
    session.until(lambda: session.log(f"{A}-2") == b"up\n")
    os.kill(runner.supervisor(f"{A}-2"), signal.SIGKILL)
    assert session.exit_of(f"{A}-2")["kind"] == "lost"
    for attempt_id in (A, f"{A}-2"):
        session.request("release", attempt_id=attempt_id)
    eventually(lambda: not volumes(podman) - before)


def volumes(podman: str) -> set[str]:
    """Return the volumes of this machine, which other tests may have, too."""
    command = [podman, "volume", "ls", "--quiet"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.split())


def test_a_cancel_does_not_wait_for_an_engine_that_hangs(podman: str, tmp_path: Path) -> None:
    hang, asked = tmp_path / "hang", tmp_path / "asked"
    hangs = f'*" kill "*) [ ! -e {hang} ] || {{ echo x >>{asked}; exec sleep 600; }} ;;'
    with Runner(engine=stand_in(tmp_path, podman, hangs)) as runner:
        session, _ = runner.attach()
        session.start(
            A, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done", image=IMAGE
        )
        session.until(lambda: session.log(A) == b"up\n")
        hang.touch()
        session.request("kill", attempt_id=A, signal="TERM")
        eventually(asked.exists)
        for _ in range(20):
            assert session.request("kill", attempt_id=A, signal="TERM")["signalled"]
        session.request("kill", attempt_id=A, signal="KILL")
        exit_ = session.exit_of(A)
        assert (exit_["kind"], exit_["code"]) == ("exited", 137)
        assert asked.read_text() == "x\n", "one helper at a time"
        hang.unlink()
        give_back(session, runner, A)


def test_an_engine_that_hangs_before_it_starts_anything_is_given_up(
    podman: str, tmp_path: Path
) -> None:
    up = tmp_path / "up"
    run = f'*" run "*) trap "" TERM; echo >{up}; exec sleep 600 ;;'
    kill = '*" kill "*) exec sleep 600 ;;'
    with Runner(engine=stand_in(tmp_path, podman, run, kill)) as runner:
        session, _ = runner.attach()
        session.start(A, "true", image=IMAGE)
        eventually(up.exists)
        session.request("kill", attempt_id=A, signal="TERM")
        session.request("kill", attempt_id=A, signal="KILL")
        exit_ = session.exit_of(A)
        assert (exit_["kind"], exit_["code"]) == ("engine_failure", None)
        give_back(session, runner, A)


def test_what_was_told_to_end_has_ended_though_the_engine_answers_nothing(
    podman: str, tmp_path: Path
) -> None:
    hang = tmp_path / "hang"
    hangs = f"*) [ ! -e {hang} ] || exec sleep 600 ;;"
    with Runner(engine=stand_in(tmp_path, podman, hangs)) as runner:
        session, _ = runner.attach()
        session.start(A, "sh", "-c", "echo up; sleep 600", image=IMAGE)
        session.until(lambda: session.log(A) == b"up\n")
        hang.touch()
        session.request("kill", attempt_id=A, signal="KILL")
        exit_ = session.exit_of(A)
        # It has written, so it has run, and nobody knows how it ended.
        assert (exit_["kind"], exit_["code"]) == ("lost", None)
        assert members(runner, A) == []
        hang.unlink()
        give_back(session, runner, A)
        assert containers(podman, runner) == []


def test_a_release_that_failed_is_tried_again_also_by_the_next_session(
    podman: str, tmp_path: Path
) -> None:
    fails = f'*" rm "*) [ ! -e {tmp_path}/fail ] || {{ echo x >>{tmp_path}/tried; exit 125; }} ;;'
    with Runner(engine=stand_in(tmp_path, podman, fails)) as runner:
        session, _ = runner.attach()
        fail, tried = tmp_path / "fail", tmp_path / "tried"
        fail.touch()
        sh(session, A, "exit 1", env={"SECRET": "two\nlines"})
        assert session.request("release", attempt_id=A)["ok"]
        assert session.request("list")["attempts"] == []
        eventually(lambda: tried.exists() and tried.read_text().count("x") >= 2)
        assert containers(podman, runner) != []
        assert session.close() == 0
        eventually(lambda: tried.read_text().count("x") >= 3)  # by the watcher
        again, hello = runner.attach()
        assert hello["attempts"] == []
        fail.unlink()
        give_back(again, runner)
        assert containers(podman, runner) == []
        assert secrets_of_podman(podman, runner) == []
        assert again.close() == 0


def test_a_container_is_there_until_it_is_released(podman: str, runner: Runner) -> None:
    session, _ = runner.attach()
    sh(session, A, "exit 1", memory_bytes=64 * MIB)
    assert [each.split()[0] for each in containers(podman, runner)] == [f"longshore-{A}"]
    session.request("release", attempt_id=A)
    eventually(lambda: not containers(podman, runner))
    for directory in cgroups.directories(f"{name_of(runner)}/{A}"):
        eventually(lambda path=Path(directory): not path.exists())  # type: ignore[misc] # the default binds the loop's value


def test_a_container_survives_the_session_and_its_exit_is_found(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start(A, "sh", "-c", "echo up; sleep 1; exit 9", image=IMAGE)
    session.until(lambda: session.log(A) == b"up\n")
    session.kill()
    again, hello = runner.attach()
    assert [each["exit"] for each in hello["attempts"]] == [None]
    assert again.exit_of(A)["code"] == 9


def test_a_container_without_supervisor_is_ended_before_it_is_lost(
    podman: str, runner: Runner
) -> None:
    session, _ = runner.attach()
    session.start(A, "sh", "-c", "echo up; sleep 60", image=IMAGE)
    session.until(lambda: session.log(A) == b"up\n")
    client, supervisor = runner.job(A), runner.supervisor(A)
    subprocess.run(["kill", "-9", str(supervisor)], check=True)
    assert session.exit_of(A)["kind"] == "lost"
    assert not alive(client)
    assert containers(podman, runner) == []


def test_a_container_and_a_secret_that_the_spool_does_not_know_are_removed(
    podman: str, runner: Runner
) -> None:
    label = f"longshore-spool={name_of(runner)}"
    command = [podman, "--runtime", "runc", "run", "--name", ORPHAN, "--label", label]
    subprocess.run([*command, *ENGINE["arguments"], IMAGE, "true"], check=True, timeout=60)
    secret = [podman, "secret", "create", f"{name_of(runner)}-orphan-0", "/proc/version"]
    subprocess.run(secret, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert containers(podman, runner) != []
    assert secrets_of_podman(podman, runner) != []
    session, _ = runner.attach()
    assert containers(podman, runner) == []
    assert secrets_of_podman(podman, runner) == []
    assert session.close() == 0


def test_auto_takes_podman_where_it_works(podman: str) -> None:
    with Runner(engine={**ENGINE, "name": "auto", "binary": podman}) as runner:
        assert runner.listing()["engine"] == "podman"


def test_auto_runs_what_names_no_image_as_a_process(podman: str) -> None:
    config = {**ENGINE, "name": "auto", "binary": podman}
    with Runner(engine=config) as runner:
        session, hello = runner.attach()
        assert hello["engine"] == "podman"
        session.run(f"{A}-1", "cat", "/proc/1/comm")
        session.run(f"{A}-2", "cat", "/proc/1/comm", image=IMAGE, init=False)
        assert session.log(f"{A}-2") == b"cat\n", "it is the first process of its container"
        assert session.log(f"{A}-1") not in (b"", b"cat\n"), "it runs beside the machine's own"
        for attempt_id in (f"{A}-1", f"{A}-2"):
            session.request("release", attempt_id=attempt_id)
        assert session.close() == 0
        eventually(lambda: not containers(podman, runner))


def test_an_engine_that_fails_its_trial_makes_the_instance_broken(tmp_path: Path) -> None:
    fake = tmp_path / "engine"
    fake.write_text("#!/bin/sh\necho 'no such daemon' >&2\nexit 1\n")
    fake.chmod(0o755)
    for name in ("podman", "docker"):
        with Runner(engine={"name": name, "binary": str(fake)}) as runner:
            session, hello = runner.attach()
            assert hello["broken"] == f"{name}: no such daemon"
            reply = session.start(A, "true", image=IMAGE)
            assert (reply["ok"], reply["code"]) == (False, "engine")
            assert "no such daemon" in reply["message"]
    with Runner(engine={"name": "auto", "binary": str(fake)}) as runner:
        assert runner.listing()["engine"] == "process"
