"""What a link must not believe, and what it may not hang on."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import LinkReady, ProbeStage, ProbeStageError, StartVerdict
from longshore.pool.remote.ssh_keys import PrivateKey, load_or_create_private_key, public_key_text
from longshore.pool.runner.spool import places
from tests.rigs.link import Recorder, boot_of, link_settings, make_link, order, start, unknown
from tests.sshd_host import SshdHost, children_of, wait_until

pytestmark = pytest.mark.real


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return load_or_create_private_key(tmp_path / "keys" / "id")


@pytest.fixture
def host(tmp_path: Path, key: PrivateKey) -> Iterator[SshdHost]:
    with SshdHost(tmp_path / "i-1", authorized_key=public_key_text(key)) as made:
        yield made
    variables = {"LONGSHORE_RUNNER_DIR": str(made.runner_directory)}
    rmtree(places("c1", variables).spool, ignore_errors=True)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


Make = Callable[..., WorkerLink]


@pytest.fixture
def make(key: PrivateKey, recorder: Recorder) -> Iterator[Make]:
    made: list[WorkerLink] = []

    def build(**changes: Any) -> WorkerLink:
        made.append(make_link(link_settings(key, **changes), recorder))
        return made[-1]

    yield build
    for link in made:
        link.close()


def probe(link: WorkerLink, host: SshdHost, *, boot: bool = False) -> LinkReady:
    return link.probe(
        address=host.address, host_key=host.host_key, secret="", boot=boot, verify=unknown
    )


def attempts_of(ready: LinkReady) -> list[str]:
    return [report.attempt_id for report in ready.report.attempts]


def attached_pids(host: SshdHost) -> list[int]:
    """Return the processes on the host that are `runner attach`."""
    found: list[int] = []
    below = host.session_pids()
    while below:
        pid = below.pop()
        below += children_of(pid)
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"attach" in words:
            found.append(pid)
    return found


def bytes_to_read(pid: int) -> int:
    """Return how much waits in the standard input of a process."""
    descriptor = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    finally:
        os.close(descriptor)
    return int.from_bytes(answer, sys.byteorder)


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, if only its entry may be left."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_what_runs_is_the_new_sessions_word_and_the_lists_only_while_a_session_lives(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make(engine_json=json.dumps({"misbehave": "empty_list"}))
    assert attempts_of(probe(link, host)) == []
    assert start(link, order("a1", "true")).verdict is StartVerdict.STARTED
    assert attempts_of(probe(link, host)) == [], "the list was asked, and lies as it was told to"
    host.kill_sessions()
    wait_until(lambda: bool(recorder.losses), "the loss")
    ready = probe(link, host)
    assert attempts_of(ready) == ["a1"]
    assert (ready.report.boot_id, ready.report.engine) == ("boot-1", "process")


@pytest.mark.parametrize("thaws", [False, True])
def test_an_order_in_a_frozen_session_is_never_carried_out_after_it_is_told_missing(
    host: SshdHost, make: Make, recorder: Recorder, thaws: bool
) -> None:
    ran = host.directory / "ran"
    steps: list[int] = []

    def clock() -> float:
        # It is read after each step of a probe: reached, listed, attached.
        steps.append(0)
        if thaws and frozen and len(steps) == 2:
            os.kill(frozen[0], signal.SIGCONT)
            wait_until(ran.exists, "the order to be carried out right behind the list")
        return 1.0

    frozen: list[int] = []
    link = make(bundle=build_runner(), engine_json='{"name":"process"}', clock=clock)
    probe(link, host)
    frozen += attached_pids(host)
    os.kill(frozen[0], signal.SIGSTOP)
    results: list[StartVerdict] = []
    link.start(
        order("a1", "touch", str(ran)), boot_of(link), lambda result: results.append(result.verdict)
    )
    wait_until(lambda: bytes_to_read(frozen[0]) > 0, "the order in its input")
    host.kill_sessions()
    wait_until(lambda: bool(recorder.losses), "the loss")
    assert results == [StartVerdict.UNKNOWN]
    steps.clear()
    assert attempts_of(probe(link, host)) == (["a1"] if thaws else [])
    # It is gone, so that it can neither be thawed nor start what lies in its input.
    assert is_gone(frozen[0])
    assert start(link, order("a2", "true")).verdict is StartVerdict.STARTED
    wait_until(lambda: "a2" in recorder.exits, "the next attempt")
    assert ran.exists() is thaws


@pytest.mark.parametrize("name", ["session-reader", "session-writer"])
def test_a_session_that_cannot_have_its_threads_is_not_trusted(
    host: SshdHost, make: Make, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    link = make()
    genuine = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        genuine(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(ProbeStageError) as caught:
            probe(link, host)
    assert caught.value.stage is ProbeStage.ATTACH
    assert "can't start new thread" in caught.value.message
    assert start(link, order("a1", "true")).verdict is StartVerdict.UNKNOWN
    wait_until(lambda: host.session_pids() == [], "the end of the connection")
    assert recorder.losses == []
    assert attempts_of(probe(link, host)) == []
    assert start(link, order("a1", "true")).verdict is StartVerdict.STARTED


def test_cutting_a_link_ends_what_hangs_on_it_and_it_can_be_probed_again(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make(boot_probe_command="exec sleep 15")
    link.cut()
    errors: list[ProbeStageError] = []

    def hang() -> None:
        with pytest.raises(ProbeStageError) as caught:
            probe(link, host, boot=True)
        errors.append(caught.value)

    thread = threading.Thread(target=hang)
    thread.start()
    wait_until(lambda: "Starting session" in host.log_file.read_text(), "the boot probe")
    began = time.monotonic()
    link.cut()
    assert time.monotonic() - began < 5
    thread.join(60)
    assert [error.stage for error in errors] == [ProbeStage.BOOT]
    assert recorder.losses == []
    probe(link, host)
    link.cut()
    wait_until(lambda: len(recorder.losses) == 1, "the loss")
    probe(link, host)
    assert start(link, order("a1", "true")).verdict is StartVerdict.STARTED


def test_a_probe_right_behind_an_unknown_start_waits_for_the_old_session_to_end(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make(engine_json=json.dumps({"misbehave": "mute"}), command_timeout_s=8.0)
    probe(link, host)
    go_on = threading.Event()
    told = threading.Event()

    def on_result(_: object) -> None:
        # The old session's thread tells this before it tells the loss.
        told.set()
        go_on.wait(60)

    link.start(order("a1", "true"), boot_of(link), on_result)
    assert told.wait(60)
    readies: list[LinkReady] = []
    thread = threading.Thread(target=lambda: readies.append(probe(link, host)))
    thread.start()
    thread.join(0.5)
    assert readies == []
    go_on.set()
    thread.join(60)
    assert len(readies) == 1
    assert len(recorder.losses) == 1
    assert len(host.session_pids()) == 1


def test_a_session_that_ends_while_a_probe_lists_is_not_trusted(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    prober = threading.current_thread()
    armed, told, go_on = threading.Event(), threading.Event(), threading.Event()

    def on_result(_: object) -> None:
        told.set()
        go_on.wait(60)

    def clock() -> float:
        # Read by this thread behind the list: the session ends now, but nobody has heard yet.
        if armed.is_set() and threading.current_thread() is prober:
            armed.clear()
            link.start(order("a1", "true"), boot_of(link), on_result)
            link.cut()
            assert told.wait(60)
        return 1.0

    link = make(clock=clock, engine_json=json.dumps({"misbehave": "mute"}))
    probe(link, host)
    armed.set()
    with pytest.raises(ProbeStageError) as caught:
        probe(link, host)
    assert caught.value.stage is ProbeStage.ATTACH
    go_on.set()
    wait_until(lambda: len(recorder.losses) == 1, "the loss")
    assert attempts_of(probe(link, host)) == []


@pytest.mark.parametrize(("run_as", "problem"), [("", ""), ("no-such-user", "no-such-user")])
def test_a_probe_tells_what_the_runners_trial_of_its_engine_found(
    host: SshdHost, make: Make, run_as: str, problem: str
) -> None:
    engine = json.dumps({"name": "process", "run_as": run_as})
    link = make(bundle=build_runner(), engine_json=engine)
    assert probe(link, host).trial_error is None, "it was not asked for"
    for _ in range(2):
        ready = link.probe(
            address=host.address,
            host_key=host.host_key,
            secret="",
            boot=False,
            verify=unknown,
            trial=True,
        )
        assert ready.trial_error is not None
        assert problem in ready.trial_error
        assert bool(ready.trial_error) is bool(problem)
