"""A worker's link over a real sshd, with the scripted runner at the far end."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.model import ExitKind, MachineSize
from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import (
    LinkReady,
    ProbeStage,
    ProbeStageError,
    StartResult,
    StartVerdict,
)
from longshore.pool.remote.ssh_keys import PrivateKey, load_or_create_private_key, public_key_text
from tests.rigs.link import (
    Recorder,
    ScriptBundle,
    boot_of,
    link_settings,
    make_link,
    order,
    scripted_bundle,
    start,
    unknown,
)
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real

MEMORY_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
SAY_BOTH = ("sh", "-c", "echo out; echo err >&2; exit 3")


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return load_or_create_private_key(tmp_path / "keys" / "id")


@pytest.fixture
def host(tmp_path: Path, key: PrivateKey) -> Iterator[SshdHost]:
    with SshdHost(tmp_path / "i-1", authorized_key=public_key_text(key)) as made:
        yield made


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


def misbehaving(how: str) -> str:
    return json.dumps({"misbehave": how})


def probe(link: WorkerLink, host: SshdHost, *, boot: bool = False) -> LinkReady:
    return link.probe(
        address=host.address, host_key=host.host_key, secret="", boot=boot, verify=unknown
    )


def failed_stage(link: WorkerLink, host: SshdHost, *, boot: bool = False) -> ProbeStageError:
    with pytest.raises(ProbeStageError) as caught:
        probe(link, host, boot=boot)
    return caught.value


# ---- probing ------------------------------------------------------------------------------------


def test_a_probe_deploys_lists_and_attaches(host: SshdHost, make: Make) -> None:
    link = make()
    assert link.last_contact == 0.0
    began = time.monotonic()
    ready = probe(link, host, boot=True)
    assert ready.host_key == host.host_key
    assert (ready.report.attempts, ready.report.boot_id) == ((), "boot-1")
    assert began <= link.last_contact <= time.monotonic()
    assert len(host.session_pids()) == 1
    assert probe(link, host) == ready
    assert len(host.session_pids()) == 1, "a live connection is used again"


def test_a_boot_probe_that_fails_is_told_and_nothing_is_deployed(
    host: SshdHost, make: Make
) -> None:
    link = make(boot_probe_command="echo not yet >&2; exit 5")
    error = failed_stage(link, host, boot=True)
    assert error.stage == "boot"
    assert "exit status 5: not yet" in str(error)
    assert not host.runner_directory.exists()
    assert probe(link, host, boot=False).report.boot_id == "boot-1"


def test_a_boot_probe_that_hangs_ends_here_and_there(host: SshdHost, make: Make) -> None:
    link = make(boot_probe_command="exec sleep 1000", command_timeout_s=5.0)
    began = time.monotonic()
    error = failed_stage(link, host, boot=True)
    assert error.stage is ProbeStage.BOOT
    assert "124" in error.message, "ended by the far side's own timeout"
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("misbehave", "message"),
    [("refuse", "epoch: a higher one leads"), ("no_hello", "this runner says no hello")],
)
def test_a_runner_that_does_not_attach_is_told(
    host: SshdHost, make: Make, misbehave: str, message: str
) -> None:
    error = failed_stage(make(engine_json=misbehaving(misbehave)), host)
    assert error.stage is ProbeStage.ATTACH
    assert message in error.message
    wait_until(lambda: host.session_pids() == [], "the end of the connection")


def test_a_runner_of_another_cluster_fails_the_listing(host: SshdHost, make: Make) -> None:
    truth = scripted_bundle().data
    liar = truth.replace(b'"cluster": arguments.cluster', b'"cluster": "other"')
    assert liar != truth
    bundle = ScriptBundle(data=liar, sha256=hashlib.sha256(liar).hexdigest())
    error = failed_stage(make(bundle=bundle), host)
    assert error.stage is ProbeStage.LIST
    assert "other" in error.message


def test_a_host_that_is_not_there_fails_to_connect(host: SshdHost, make: Make) -> None:
    host.stop()
    assert failed_stage(make(), host).stage is ProbeStage.CONNECT


def test_a_runner_that_is_new_takes_the_place_of_an_old_one(host: SshdHost, make: Make) -> None:
    probe(make(), host)
    newer = make(bundle=scripted_bundle("\n# newer\n"))
    probe(newer, host)
    assert len(list(host.runner_directory.glob("runner-*.pyz"))) == 2


def test_a_frozen_host_fails_a_probe_within_its_deadline(host: SshdHost, make: Make) -> None:
    link = make(boot_probe_command="false", command_timeout_s=5.0)
    failed_stage(link, host, boot=True)
    (frozen,) = host.session_pids()
    os.kill(frozen, signal.SIGSTOP)
    began = time.monotonic()
    assert failed_stage(link, host).stage is ProbeStage.LIST
    assert time.monotonic() - began < 30
    assert probe(link, host).report.boot_id == "boot-1", "over a new connection"
    os.kill(frozen, signal.SIGKILL)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_link_that_is_closed_between_two_steps_of_a_probe_leaves_nothing(
    host: SshdHost, make: Make, recorder: Recorder, step: int
) -> None:
    ticks = 0

    def clock() -> float:
        # The clock is read after each step: reached, booted, listed, attached.
        nonlocal ticks
        ticks += 1
        if ticks == step:
            link.close()
        return float(ticks)

    link = make(clock=clock)
    with pytest.raises(ProbeStageError):
        probe(link, host, boot=True)
    assert ticks >= step
    wait_until(lambda: host.session_pids() == [], "the end of the connection")
    assert recorder.losses == []


def test_closing_a_link_ends_a_probe_in_flight(host: SshdHost, make: Make) -> None:
    link = make(boot_probe_command="exec sleep 100")
    errors: list[ProbeStageError] = []

    def work() -> None:
        errors.append(failed_stage(link, host, boot=True))

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: "Starting session" in host.log_file.read_text(), "the boot probe")
    link.close()
    thread.join(60)
    assert [error.stage for error in errors] == ["boot"]
    assert failed_stage(link, host).message == "the link was closed"


# ---- attempts -----------------------------------------------------------------------------------


def test_an_attempt_runs_and_its_exit_and_log_arrive(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make()
    probe(link, host)
    assert start(link, order("a1", *SAY_BOTH)).verdict is StartVerdict.STARTED
    wait_until(lambda: recorder.complete == ["a1"], "the log")
    assert (recorder.exits["a1"].kind, recorder.exits["a1"].code) == (ExitKind.EXITED, 3)
    assert recorder.logs == {("a1", "stdout"): b"out\n", ("a1", "stderr"): b"err\n"}
    assert recorder.workers == {"w-1"}
    link.release("a1")
    wait_until(lambda: probe(link, host).report.attempts == (), "the release")


def test_what_is_pushed_again_is_not_stored_again(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make()
    probe(link, host)
    start(link, order("a1", *SAY_BOTH))
    wait_until(lambda: recorder.complete == ["a1"], "the log")
    # A repeated start has the log pushed from its beginning; the next attempt's comes behind it.
    assert start(link, order("a1", *SAY_BOTH)).verdict is StartVerdict.STARTED
    start(link, order("a2", *SAY_BOTH))
    wait_until(lambda: recorder.complete == ["a1", "a2"], "the next log")
    assert recorder.logs["a1", "stdout"] == b"out\n"
    assert recorder.gaps == []


def test_a_refusal_is_told_with_its_reason(host: SshdHost, make: Make) -> None:
    link = make()
    probe(link, host)
    result = start(link, order("a1", "true", image="nonsense"))
    refused = StartVerdict.REFUSED
    assert result == StartResult(verdict=refused, code="image", message="no such image")
    result = start(link, order("a2", "x" * 2_000_000))
    assert (result.verdict, result.code) == (refused, "too_large")
    assert "the limit is 1048576" in result.message


def test_without_a_session_a_start_is_unknown_and_the_rest_is_nothing(make: Make) -> None:
    link = make()
    assert start(link, order("a1", "true")).verdict is StartVerdict.UNKNOWN
    link.signal("a1", "TERM", grace_s=60.0)
    link.update_limits("a1", cpu_millis=500)
    link.release("a1")


def test_a_start_without_an_answer_is_unknown_and_ends_the_session(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make(engine_json=misbehaving("mute"), command_timeout_s=5.0)
    probe(link, host)
    began = time.monotonic()
    result = start(link, order("a1", "true"))
    assert result.verdict is StartVerdict.UNKNOWN
    assert result.message == "no reply to a start within 5 s"
    assert time.monotonic() - began < 30
    wait_until(lambda: bool(recorder.losses), "the loss")
    assert [reason for _, reason in recorder.losses] == [result.message]


def test_a_broken_instance_is_told_once(host: SshdHost, make: Make, recorder: Recorder) -> None:
    link = make()
    probe(link, host)
    (host.runner_directory / "broken").write_text("disk on fire")
    wait_until(lambda: bool(recorder.faults), "the word")
    contact = link.last_contact
    wait_until(lambda: link.last_contact > contact + 0.5, "two more heartbeats")
    assert recorder.faults == ["disk on fire"]


# ---- loss ---------------------------------------------------------------------------------------


def test_a_lost_session_is_told_once_and_logs_go_on_to_the_byte(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make()
    probe(link, host)
    gate = host.directory / "gate"
    script = f"seq 1 5000; while [ ! -e {gate} ]; do sleep 0.02; done; seq 5001 20000; echo e >&2"
    start(link, order("a1", "sh", "-c", script))
    wait_until(lambda: recorder.offsets("a1")[0] > 0, "some log")
    host.restart()
    wait_until(lambda: bool(recorder.losses), "the loss")
    kept = recorder.offsets("a1")[0]
    gate.touch()
    ready = probe(link, host)
    assert [report.attempt_id for report in ready.report.attempts] == ["a1"]
    wait_until(lambda: recorder.complete == ["a1"], "the log")
    expected = "".join(f"{number}\n" for number in range(1, 20001)).encode()
    assert 0 < kept < len(expected)
    assert recorder.logs["a1", "stdout"] == expected
    assert recorder.logs["a1", "stderr"] == b"e\n"
    assert recorder.gaps == []
    assert len(recorder.losses) == 1


def test_what_ended_meanwhile_is_told_after_the_next_attach(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make()
    probe(link, host)
    gate = host.directory / "gate"
    wait = f"echo up; while [ ! -e {gate} ]; do sleep 0.02; done; echo down; exit 4"
    start(link, order("a1", "sh", "-c", wait))
    wait_until(lambda: recorder.offsets("a1") == (3, 0), "the first line")
    host.kill_sessions()
    wait_until(lambda: bool(recorder.losses), "the loss")
    gate.touch()
    wait_until(
        lambda: any(host.runner_directory.glob("c1/spool/a1/exit")), "the end of the attempt"
    )
    assert recorder.exits == {}
    probe(link, host)
    wait_until(lambda: recorder.complete == ["a1"], "the exit")
    tails = json.loads((host.runner_directory / "tails").read_text())
    assert (tails["stdout"], tails["stderr"]) == (3, 0), "only what is not kept is asked for"
    assert recorder.exits["a1"].code == 4
    host.kill_sessions()
    wait_until(lambda: len(recorder.losses) == 2, "the loss")
    probe(link, host)
    wait_until(lambda: recorder.complete == ["a1", "a1"], "the repetition until the release")


def test_a_start_that_is_meant_for_another_boot_is_refused_and_never_sent(
    host: SshdHost, make: Make
) -> None:
    link = make()
    probe(link, host)
    results: list[StartResult] = []
    link.start(order("a1", "true"), "boot-0", results.append)
    assert [(each.verdict, each.code) for each in results] == [(StartVerdict.REFUSED, "rebooted")]
    assert start(link, order("a1", "true")).verdict is StartVerdict.STARTED


def test_starts_in_flight_become_unknown_when_the_session_dies(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make(engine_json=misbehaving("mute"))
    probe(link, host)
    results: list[StartVerdict] = []
    for number in range(10):
        link.start(
            order(f"a{number}", "true"),
            boot_of(link),
            lambda result: results.append(result.verdict),
        )
    host.kill_sessions()
    wait_until(lambda: bool(recorder.losses), "the loss")
    assert results == [StartVerdict.UNKNOWN] * 10


@pytest.mark.parametrize(
    ("misbehave", "reason"),
    [
        ("silent", "no message for 3 s"),
        ("garbage", "malformed"),
        ("long_line", "more than 1048576 bytes"),
    ],
)
def test_a_session_that_goes_wrong_is_lost_with_its_reason(
    host: SshdHost, make: Make, recorder: Recorder, misbehave: str, reason: str
) -> None:
    link = make(engine_json=misbehaving(misbehave), heartbeat_timeout_s=3.0)
    probe(link, host)
    wait_until(lambda: bool(recorder.losses), "the loss")
    last_contact, told = recorder.losses[0]
    assert reason in told
    assert last_contact == link.last_contact
    assert len(recorder.losses) == 1
    wait_until(lambda: host.session_pids() == [], "the end of the connection")


def test_a_frozen_host_is_lost_by_its_heartbeats(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make(heartbeat_timeout_s=3.0)
    probe(link, host)
    (frozen,) = host.session_pids()
    os.kill(frozen, signal.SIGSTOP)
    for number in range(40):
        # Far more than the sockets hold, so that the writer is stuck when the loss is noticed.
        link.start(order(f"a{number}", "true", "x" * 400_000), boot_of(link), lambda _: None)
    wait_until(lambda: bool(recorder.losses), "the loss")
    os.kill(frozen, signal.SIGKILL)
    assert probe(link, host).report.boot_id == "boot-1"
    assert len(recorder.losses) == 1


def test_nobody_hears_of_a_link_that_was_closed(
    host: SshdHost, make: Make, recorder: Recorder
) -> None:
    link = make()
    probe(link, host)
    link.close()
    wait_until(lambda: host.session_pids() == [], "the end of the connection")
    assert recorder.losses == []
    link.close()


@pytest.mark.parametrize(
    ("said", "machine"),
    [
        ("2 1073741824", MachineSize(cpus=2, memory_bytes=2**30)),
        ("shared", None),
        ("", MachineSize(cpus=len(os.sched_getaffinity(0)), memory_bytes=MEMORY_BYTES)),
    ],
)
def test_an_instance_says_what_its_machine_has(
    tmp_path: Path, key: PrivateKey, make: Make, said: str, machine: MachineSize | None
) -> None:
    link = make(bundle=build_runner(), engine_json='{"name":"process"}')
    public = public_key_text(key)
    with SshdHost(
        tmp_path / "sized", authorized_key=public, environment={"LONGSHORE_MACHINE": said}
    ) as host:
        # The first is of a session that is attached, the second of a list beside it.
        assert probe(link, host).report.machine == machine
        assert probe(link, host).report.machine == machine
        link.close()
