"""The runner with real Podman: limits hold, verdicts are right, and containers do not pile up."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pool.runner import cgroups
from tests.busybox_image import ENGINE, IMAGE, import_image
from tests.conftest import RequireTool, not_tested
from tests.runner_harness import Attached, Runner, alive, eventually

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
    gate = "mkfifo /tmp/gate; echo up; read line </tmp/gate"
    session.start(A, "sh", "-c", gate, image=IMAGE, env=values)
    session.until(lambda: session.log(A) == b"up\n")
    seen = command_lines()
    assert any(A.encode() in each for each in seen), "the client is among them"
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


def test_a_missing_image_is_the_engines_failure(session: Attached) -> None:
    exit_ = session.run(A, "true", image="localhost/longshore-no-such-image:latest")
    assert (exit_["kind"], exit_["code"]) == ("engine_failure", 125)
    assert "longshore-no-such-image" in exit_["message"]


@pytest.mark.parametrize(("command", "code"), [("/no-such-program", 127), ("/tmp", 126)])
def test_a_command_missing_in_the_image_is_the_engines_failure(
    session: Attached, command: str, code: int
) -> None:
    exit_ = session.run(A, command, image=IMAGE)
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
    assert (exit_["kind"], exit_["code"]) == ("exited", 137)
    assert not [each for each in containers(podman, runner) if "Up" in each]


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
        session.run(f"{A}-2", "cat", "/proc/1/comm", image=IMAGE)
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
