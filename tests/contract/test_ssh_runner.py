"""A worker's link over a real sshd to the real runner: what the two sides promise each other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.model import ExitKind
from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import ProbeStage, ProbeStageError, StartVerdict
from longshore.pool.remote.ssh_keys import PrivateKey, load_or_create_private_key, public_key_text
from longshore.pool.runner.spool import places
from tests.rigs.link import Recorder, link_settings, make_link, order, start, unknown
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real

CLUSTER = "c1"


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return load_or_create_private_key(tmp_path / "keys" / "id")


@pytest.fixture
def host(tmp_path: Path, key: PrivateKey) -> Iterator[SshdHost]:
    with SshdHost(tmp_path / "i-1", authorized_key=public_key_text(key)) as made:
        yield made
    variables = {"LONGSHORE_RUNNER_DIR": str(made.runner_directory)}
    shutil.rmtree(places(CLUSTER, variables).spool, ignore_errors=True)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


Make = Callable[..., WorkerLink]


@pytest.fixture
def make(key: PrivateKey, recorder: Recorder, host: SshdHost) -> Iterator[Make]:
    made: list[WorkerLink] = []

    def build(listener: Recorder = recorder, **changes: Any) -> WorkerLink:
        values = {
            "cluster": CLUSTER,
            "bundle": build_runner(),
            "engine_json": '{"name":"process"}',
            **changes,
        }
        link = make_link(link_settings(key, **values), listener)
        made.append(link)
        probe(link, host)
        return link

    yield build
    for link in made:
        link.close()


def probe(link: WorkerLink, host: SshdHost) -> tuple[str, ...]:
    """Probe, and return the ids of the attempts that the runner knows."""
    ready = link.probe(
        address=host.address, host_key=host.host_key, secret="", boot=False, verify=unknown
    )
    return tuple(report.attempt_id for report in ready.report.attempts)


def test_an_attempt_runs_is_told_and_is_released(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make()
    wanted = order("a1", "sh", "-c", "echo out; echo err >&2; exit 3")
    for _ in range(2):
        assert start(link, wanted).verdict is StartVerdict.STARTED
    wait_until(lambda: recorder.complete == ["a1"], "the log")
    assert (recorder.exits["a1"].kind, recorder.exits["a1"].code) == (ExitKind.EXITED, 3)
    assert recorder.logs == {("a1", "stdout"): b"out\n", ("a1", "stderr"): b"err\n"}
    assert probe(link, host) == ("a1",)
    link.release("a1")
    wait_until(lambda: probe(link, host) == (), "the release")


def test_a_long_log_passes_through_the_window_of_what_is_unacknowledged(
    make: Make, recorder: Recorder
) -> None:
    link = make()
    start(link, order("a1", "sh", "-c", "seq 1 400000; seq 1 400000 >&2"))
    wait_until(lambda: recorder.complete == ["a1"], "the log", timeout_s=60)
    expected = "".join(f"{number}\n" for number in range(1, 400_001)).encode()
    assert recorder.logs["a1", "stdout"] == expected
    assert recorder.logs["a1", "stderr"] == expected
    assert recorder.gaps == []


def test_a_signal_ends_an_attempt(make: Make, recorder: Recorder) -> None:
    link = make()
    start(link, order("a1", "sh", "-c", "echo up; exec sleep 1000"))
    wait_until(lambda: ("a1", "stdout") in recorder.logs, "the program")
    link.signal("a1", "KILL", grace_s=0.0)
    wait_until(lambda: recorder.complete == ["a1"], "the exit")
    assert recorder.exits["a1"].code == 137


def test_an_attempt_outlives_the_connection_and_its_log_goes_on_to_the_byte(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make()
    gate = host.directory / "gate"
    script = f"seq 1 50000; while [ ! -e {gate} ]; do sleep 0.02; done; seq 50001 90000; echo e >&2"
    start(link, order("a1", "sh", "-c", script))
    wait_until(lambda: recorder.offsets("a1")[0] > 0, "some log")
    host.restart()
    wait_until(lambda: bool(recorder.losses), "the loss")
    gate.touch()
    assert probe(link, host) == ("a1",)
    wait_until(lambda: recorder.complete == ["a1"], "the log", timeout_s=60)
    expected = "".join(f"{number}\n" for number in range(1, 90_001)).encode()
    assert recorder.logs["a1", "stdout"] == expected
    assert recorder.logs["a1", "stderr"] == b"e\n"
    assert recorder.gaps == []
    assert len(recorder.losses) == 1


def test_a_new_dispatcher_takes_over_and_an_older_one_is_refused(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    old = make()
    gate = host.directory / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.02; done; echo done"
    start(old, order("a1", "sh", "-c", script))
    successor = Recorder()
    new = make(successor, epoch=2)
    wait_until(lambda: len(recorder.losses) == 1, "the loss of the older session")
    with pytest.raises(ProbeStageError) as caught:
        probe(old, host)
    assert caught.value.stage is ProbeStage.ATTACH
    assert "epoch" in caught.value.message
    gate.touch()
    wait_until(lambda: successor.complete == ["a1"], "the exit")
    assert successor.logs["a1", "stdout"] == b"done\n"
    assert probe(new, host) == ("a1",)
    assert recorder.exits == {}


def test_an_order_that_cannot_run_is_refused(make: Make) -> None:
    result = start(make(), order("../evil", "true"))
    assert result.verdict is StartVerdict.REFUSED
