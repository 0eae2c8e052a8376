"""Parts of the runner alone: its bundle, the turns of logs, groups of cgroup version 2."""

from __future__ import annotations

import ast
import base64
import ctypes
import hashlib
import io
import os
import select
import selectors
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.remote import deploy
from longshore.pool.remote.deploy import build_runner
from longshore.pool.runner import cgroups, containment, engines, launch, scripts, spawning
from longshore.pool.runner.engines import ContainerEngine, EngineConfigError, EngineOptions
from longshore.pool.runner.inotify import DirectoryWatch, GrowthListener
from longshore.pool.runner.logs import CHUNK_BYTES, WINDOW_BYTES, LogPump
from longshore.pool.runner.output import MAX_WAITING_BYTES, Output
from longshore.pool.runner.spool import Spool, SpoolPaths
from longshore.pool.runner.wire import ProtocolError, StartOrder
from tests.conftest import not_tested
from tests.runner_harness import alive, eventually, reap_one

SOURCES = sorted(Path(deploy.__file__).parents[1].glob("runner/*.py"))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    base = str(tmp_path)
    return Spool(
        SpoolPaths(
            base, f"{base}/spool", f"{base}/logs", f"{base}/c/work", "longshore-t", f"{base}/apart"
        )
    )


# ---- the bundle ---------------------------------------------------------------------------------


def test_the_bundle_is_the_same_each_time_and_complete() -> None:
    assert len(SOURCES) > 20
    first = build_runner()
    build_runner.cache_clear()
    second = build_runner()
    assert first == second
    assert first is not second
    assert build_runner() is second
    assert hashlib.sha256(first.data).hexdigest() == first.sha256
    with zipfile.ZipFile(io.BytesIO(first.data)) as archive:
        names = archive.namelist()
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.read("longshore/__init__.py") == b""
        assert archive.read("longshore/pool/__init__.py") == b""
    assert names == sorted(names)
    assert {f"longshore/pool/runner/{path.name}" for path in SOURCES} < set(names)


def test_a_python_that_is_too_old_is_told_in_words() -> None:
    with zipfile.ZipFile(io.BytesIO(build_runner().data)) as archive:
        program = archive.read("__main__.py").decode()
    older = "import sys; sys.version_info = (3, 6, 8, 'final', 0)\n" + program
    done = subprocess.run(
        [sys.executable, "-c", older], capture_output=True, text=True, check=False, timeout=60
    )
    told = "this is Python 3.6, and the runner needs 3.8 or later\n"
    assert (done.returncode, done.stderr) == (1, told)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_runner_is_python_3_8_and_needs_nothing_else(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            assert module.startswith("longshore.pool.runner") or module in STANDARD.split(), module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name in STANDARD.split()


STANDARD = """
__future__ argparse base64 collections contextlib ctypes errno fcntl hashlib json os pool pwd re
resource select selectors shlex shutil signal socket stat struct subprocess sys time typing
"""
"""What Python 3.8 has, of what the runner uses; look into its documentation before adding one."""


# ---- the engine's configuration -----------------------------------------------------------------


def test_an_engine_configuration_is_read() -> None:
    assert engines.parse_config("{}") == EngineOptions()
    assert engines.parse_config('{"pull_timeout_s":60.5}') == EngineOptions(pull_timeout_s=60)
    text = '{"name":"podman","binary":"p","global_arguments":["a"],"arguments":["b"],"init":false}'
    assert engines.parse_config(text) == EngineOptions(
        "podman", "p", ("a",), ("b",), "", init=False
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        '{"name":"rkt"}',
        '{"name":null}',
        '{"arguments":"x"}',
        '{"run_as":1}',
        '{"init":1}',
        '{"pull_timeout_s":0}',
        '{"pull_timeout_s":true}',
        '{"pull_timeout_s":"1"}',
    ],
)
def test_any_other_engine_configuration_is_named(text: str) -> None:
    with pytest.raises(EngineConfigError, match=r"\w"):
        engines.parse_config(text)


# ---- logs ---------------------------------------------------------------------------------------


def test_streams_take_turns_within_the_window(spool: Spool) -> None:
    sent: list[dict[str, Any]] = []
    pump = LogPump(spool, sent.append)
    for name in ("a", "b"):
        Path(spool.log(name, "stdout")).write_bytes(name.encode() * WINDOW_BYTES)
        pump.follow(name, {"stdout": 0, "stderr": 0})
    while not pump.idle():
        pump.pump()
    sizes = {name: _sent(sent, name) for name in ("a", "b")}
    assert sum(sizes.values()) == WINDOW_BYTES
    assert abs(sizes["a"] - sizes["b"]) <= CHUNK_BYTES
    pump.acknowledge("a", "stdout", 10)
    pump.acknowledge("a", "stdout", 5)
    pump.acknowledge("nobody", "stdout", 5)
    assert not pump.idle()
    pump.pump()
    assert _sent(sent, "a") + _sent(sent, "b") == WINDOW_BYTES + 10
    assert pump.idle()
    pump.drop("b")
    assert not pump.idle()


def _sent(messages: list[dict[str, Any]], attempt_id: str) -> int:
    chunks = [
        base64.b64decode(each["data"]) for each in messages if each["attempt_id"] == attempt_id
    ]
    return sum(map(len, chunks))


def test_what_is_not_sent_yet_cannot_be_acknowledged(spool: Spool) -> None:
    sent: list[dict[str, Any]] = []
    pump = LogPump(spool, sent.append)
    Path(spool.log("a", "stdout")).write_bytes(b"x" * 2 * WINDOW_BYTES)
    pump.follow("a", {"stdout": 0, "stderr": 0})
    pump.acknowledge("a", "stdout", 1 << 40)
    while not pump.idle():
        pump.pump()
    assert _sent(sent, "a") == WINDOW_BYTES


def test_growth_is_told_with_and_without_the_kernels_help(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    grew: list[set[str] | None] = []
    selector = select.poll()
    watch = DirectoryWatch(spool.places.logs)
    selector.register(watch.descriptor, select.POLLIN)
    assert selector.poll(0) == []
    Path(spool.log("a", "stdout")).write_bytes(b"x")
    assert selector.poll(10_000)
    assert watch.changed() == {"a.stdout"}
    assert watch.changed() == set()
    watch.close()

    def none_left(_: object, directory: str) -> None:
        raise OSError(28, "no watches left", directory)

    monkeypatch.setattr(DirectoryWatch, "__init__", none_left)
    listener = GrowthListener(spool.places.logs, selectors.PollSelector(), grew.append)
    listener.tick(100.0)
    listener.tick(100.05)
    assert (grew, listener.due_at) == ([None], 100.1)
    listener.tick(100.1)
    assert grew == [None, None]
    listener.close()


def test_output_that_nobody_reads_ends_the_session() -> None:
    reading, writing = os.pipe()
    try:
        output = Output(writing)
        message = {"x": "y" * (1 << 20)}
        for _ in range(MAX_WAITING_BYTES // (1 << 20)):
            output.push(message)
            output.flush()
        assert output.paced
        with pytest.raises(ProtocolError):
            output.push(message)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.fixture
def _reserved() -> Iterator[None]:
    """Low descriptors are in use, as in the runner, and given back."""
    kept: list[int] = []
    while not kept or kept[-1] < 10:
        kept.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for descriptor in kept:
        os.close(descriptor)


# ---- the supervisor -----------------------------------------------------------------------------


def test_a_program_is_not_blamed_when_its_directory_has_vanished(tmp_path: Path) -> None:
    variables = {"spool": tmp_path, "work": tmp_path / "gone", "plain": 1, "count": 0}
    environment = {f"_ls_{name}": str(value) for name, value in variables.items()}
    environment |= {"PATH": os.environ["PATH"], "_ls_fifo": "/nowhere", "_ls_id": "a"}
    tmp_path.joinpath("told").write_text("\n")
    script = f"exec 5<{tmp_path}/told 6>{tmp_path}/out 7>{tmp_path}/err 9>/dev/null;"
    script += scripts.for_process(())
    for work, record in ((tmp_path / "gone", "126 0 never\n"), (tmp_path, "0 0 ran\n")):
        environment["_ls_work"] = str(work)
        command = ["sh", "-c", script, "sh", "setsid", "--", "true"]
        subprocess.run(command, env=environment, check=True, timeout=60)
        assert tmp_path.joinpath("exit").read_text() == record
        tmp_path.joinpath("exit").unlink()


@pytest.mark.usefixtures("_reserved")
def test_where_nothing_can_be_born_in_a_group_the_job_joins_it(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not containment.hierarchies():
        not_tested("control groups need root")
    monkeypatch.setattr(spawning, "CLONE_NUMBER", ctypes.c_long(1 << 20))
    engine = ContainerEngine(
        "process", hierarchy=containment.hierarchies()[0], work=spool.places.work
    )
    launcher = launch.Launcher(spool, engine, dict(os.environ))
    for name in ("a", "b"):
        script = "cat /proc/self/cgroup; setsid sleep 60 & exit 3"
        attempt = launcher.start(
            StartOrder(name, "c", "", (b"sh", b"-c", script.encode()), (), 0, 0)
        )
        assert attempt is not None
        reap_one(launcher, spool, name)
        ended = spool.ended(name)
        assert ended is not None
        assert (ended.kind, ended.code) == ("exited", 3)
        assert f"/longshore-t/{name}" in Path(spool.log(name, "stdout")).read_text()
        launcher.release(attempt)
        eventually(lambda: launcher.reap() == [])
    assert containment.groups_below(f"{containment.hierarchies()[0]}/longshore-t") == []


@pytest.mark.usefixtures("_reserved")
@pytest.mark.parametrize("children", ["children", "of-an-older-kernel"])
def test_without_a_group_the_supervisor_ends_what_is_below_it(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, children: str
) -> None:
    monkeypatch.setattr(scripts, "PROCESS", scripts.PROCESS.replace("children", children))
    launcher = launch.Launcher(
        spool, ContainerEngine("process", work=spool.places.work), dict(os.environ)
    )
    daemon = "env -i setsid sh -c 'echo $$ >pid; exec sleep 60' >/dev/null 2>&1 &"
    script = f"{daemon} until [ -s pid ]; do sleep 0.01; done; cat pid; exit 3"
    launcher.start(StartOrder("a", "c", "", (b"sh", b"-c", script.encode()), (), 0, 0))
    reap_one(launcher, spool, "a")
    ended = spool.ended("a")
    assert ended is not None
    assert (ended.kind, ended.code) == ("exited", 3)
    assert not alive(int(Path(spool.log("a", "stdout")).read_text()))


@pytest.mark.usefixtures("_reserved")
def test_a_job_that_cannot_join_its_group_never_runs(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A plain directory takes a group's place: nothing can be written to a file that is not there.
    engine = ContainerEngine(
        "process", hierarchy=str(tmp_path / "hierarchy"), work=spool.places.work
    )
    tmp_path.joinpath("hierarchy").mkdir()
    launcher = launch.Launcher(spool, engine, dict(os.environ))
    command = (b"touch", os.fsencode(tmp_path / "ran"))
    monkeypatch.setattr(containment, "create", _create_closed)
    launcher.start(StartOrder("a", "c", "", command, (), 0, 0))
    reap_one(launcher, spool, "a")
    ended = spool.ended("a")
    assert ended is not None
    assert (ended.kind, ended.code) == ("engine_failure", 126)
    assert not tmp_path.joinpath("ran").exists()


def _create_closed(group: str) -> None:
    """Make a group whose list of processes takes none, as one of another's delegation."""
    Path(group, "cgroup.procs").mkdir(parents=True)


# ---- control groups of version 2 ----------------------------------------------------------------


@pytest.fixture
def unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that looks like a machine with version 2 (plain files take what is written)."""
    root = tmp_path / "cgroup"
    root.mkdir()
    root.joinpath("cgroup.controllers").write_text("cpu memory pids")
    root.joinpath("cgroup.subtree_control").write_text("")
    monkeypatch.setattr(cgroups, "ROOT", str(root))
    return root


def test_limits_of_version_2(unified: Path) -> None:
    assert cgroups.problem() == ""
    cgroups.create("p/a", memory_bytes=64 << 20, cpu_millis=1500)
    group = unified / "p" / "a"
    assert group.joinpath("memory.max").read_text() == str(64 << 20)
    assert group.joinpath("memory.swap.max").read_text() == "0"
    assert group.joinpath("cpu.max").read_text() == "150000 100000"
    assert cgroups.open_oom_event("p/a") == -1
    assert cgroups.memory_events("p/a") == f"{group}/memory.events"
    cgroups.create("p/b", memory_bytes=0, cpu_millis=0)
    assert not unified.joinpath("p", "b", "memory.max").exists()
    assert cgroups.directories("p/a") == [str(group)]


def test_version_2_kills_by_its_own_file_or_one_by_one(unified: Path) -> None:
    below = unified / "p" / "a" / "inner"
    below.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as process:
        below.joinpath("cgroup.procs").write_text(f"{process.pid}\n")
        cgroups.kill("p/a")
        assert process.wait(60) == -signal.SIGKILL
    kill = unified / "p" / "a" / "cgroup.kill"
    kill.write_text("")
    cgroups.kill("p/a")
    assert kill.read_text() == "1"


FAKE = """#!/bin/sh
case $1 in
  run)
    printf '%s\\n' "low 0" "oom_kill $KILLS" >"$EVENTS"
    until [ "$1" = --cidfile ]; do shift; done
    echo id >"$2"
    exit "$CODE" ;;
  container) echo "exited $CODE - 2026-01-31T00:00:00Z" ;;
esac
"""


@pytest.mark.usefixtures("_reserved")
@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ((1, 137, 1 << 26), "out_of_memory"),
        ((0, 137, 1 << 26), "exited"),
        ((1, 0, 1 << 26), "exited"),
        ((1, 137, 0), "exited"),
    ],
)
def test_version_2_counts_the_kills(
    unified: Path, spool: Spool, tmp_path: Path, case: tuple[int, int, int], kind: str
) -> None:
    kills, code, memory = case
    binary = tmp_path / "engine"
    binary.write_text(FAKE)
    binary.chmod(0o755)
    events = unified / "longshore-t" / "a" / "memory.events"
    environ = {**os.environ, "KILLS": str(kills), "CODE": str(code), "EVENTS": str(events)}
    launcher = launch.Launcher(spool, ContainerEngine("docker", prefix=(str(binary),)), environ)
    launcher.start(StartOrder("a", "c", "image", (), (), 0, memory))
    reap_one(launcher, spool, "a")
    ended = spool.ended("a")
    assert ended is not None
    assert (ended.kind, ended.code) == (kind, code)
