"""What the runner makes of a spool that a crash, a reboot or chance has left."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.pool.runner.machine import boot_id, start_ticks
from longshore.pool.runner.spool import Spool, SpoolError, attempt_of
from tests.runner_harness import Runner, alive, eventually


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as each:
        yield each


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of the runner's."""
    with subprocess.Popen(["sleep", "120"]) as process:
        yield process
        assert process.poll() is None, "a process was killed that is none of the runner's"
        process.kill()


def claim(runner: Runner, attempt_id: str, *, boot: str = "") -> Path:
    """Claim an attempt and crash before its supervisor is spawned."""
    spool = Spool(runner.places)
    lock = spool.claim(attempt_of(attempt_id, "c-1", "process", boot or boot_id(), ""))
    assert lock is not None
    os.close(lock)
    return Path(spool.path(attempt_id))


def test_a_spool_is_never_there_without_the_directory_that_tells_of_it(runner: Runner) -> None:
    Path(runner.places.spool).touch()
    with pytest.raises(SpoolError):
        Spool(runner.places)
    assert Path(runner.places.logs).is_dir()
    Path(runner.places.spool).unlink()


def test_an_attempt_that_was_claimed_and_never_spawned_is_lost_and_never_run(
    runner: Runner,
) -> None:
    claim(runner, "a")
    session, hello = runner.attach()
    assert hello["attempts"][0]["exit"]["kind"] == "lost"
    assert session.start("a", "sh", "-c", "echo ran")["already"] is True
    assert session.request("list")["attempts"][0]["exit"]["kind"] == "lost"
    assert session.log("a") == b""
    assert session.request("release", attempt_id="a")["ok"]
    assert session.request("list")["attempts"] == []


def test_a_claim_is_given_once(runner: Runner) -> None:
    spool = Spool(runner.places)
    attempt = attempt_of("a", "c-1", "process", spool.boot_id, "")
    lock = spool.claim(attempt)
    assert lock is not None
    assert spool.claim(attempt) is None
    assert spool.seize("a") is None, "while the lock is held, a supervisor lives"
    os.close(lock)
    again = spool.seize("a")
    assert again is not None
    assert spool.claim(attempt) is None
    os.close(again)


def test_what_a_crash_left_half_made_is_swept(runner: Runner) -> None:
    spool = Spool(runner.places)
    half = runner.spool / "new" / "a"
    half.mkdir()
    half.joinpath("order").write_text("half")
    session, hello = runner.attach()
    assert hello["attempts"] == []
    assert session.run("a", "true")["code"] == 0
    assert not list((runner.spool / "new").iterdir())
    assert spool.ended("a") is not None


def test_after_a_reboot_everything_is_lost_and_no_stranger_is_killed(
    runner: Runner, bystander: subprocess.Popen[bytes]
) -> None:
    directory = claim(runner, "a", boot="another-boot")
    directory.joinpath("job").write_text(f"{bystander.pid} {start_ticks(bystander.pid)}\n")
    assert runner.listing()["attempts"][0]["exit"]["kind"] == "lost"


def test_a_reused_pid_deceives_nobody(runner: Runner, bystander: subprocess.Popen[bytes]) -> None:
    directory = claim(runner, "a")
    directory.joinpath("job").write_text(f"{bystander.pid} {start_ticks(bystander.pid) - 1}\n")
    session, hello = runner.attach()
    assert hello["attempts"][0]["exit"]["kind"] == "lost"

    session.start("b", "sleep", "60")
    runner.job("b")
    record = runner.spool / "attempts" / "b" / "job"
    real = record.read_text()
    record.write_text(f"{bystander.pid} {start_ticks(bystander.pid) - 1}\n")
    session.request("kill", attempt_id="b", signal="KILL")
    record.write_text(real)
    session.request("kill", attempt_id="b", signal="KILL")
    assert session.exit_of("b")["code"] == 137


def test_half_an_exit_record_is_none(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "60")
    job = runner.job("a")
    record = runner.spool / "attempts" / "a" / "exit"
    record.write_text("1")
    assert session.request("list")["attempts"][0]["exit"] is None
    assert runner.listing()["attempts"][0]["exit"] is None
    assert alive(job)


@pytest.mark.parametrize(
    ("wrote", "told"),
    [
        ("", ("engine_failure", 137, "the engine ended with code 137 and started nothing")),
        ("up\n", ("lost", None, "it ran, and its container was removed by somebody else")),
    ],
)
def test_what_has_written_has_run_whatever_is_left_of_its_container(
    runner: Runner, wrote: str, told: tuple[str, int | None, str]
) -> None:
    spool = Spool(runner.places)
    attempt = attempt_of("a", "c-1", "podman", boot_id(), "")
    lock = spool.claim(attempt)
    assert lock is not None
    os.close(lock)
    Path(spool.path("a", "exit")).write_text("137 0 never\n")
    Path(spool.log("a", "stdout")).write_text(wrote)
    exit_ = spool.exit_of(attempt)
    assert exit_ is not None
    assert (exit_["kind"], exit_["code"], exit_["message"]) == told


def test_working_directories_that_a_crash_left_are_swept(runner: Runner) -> None:
    session, _ = runner.attach()
    left = Path(runner.places.work, ".a.1", "deep")
    left.mkdir(parents=True)
    session.run("b", "touch", "file")
    session.kill()
    again, _ = runner.attach()
    eventually(lambda: not left.parent.exists())
    again.request("release", attempt_id="b")
    eventually(lambda: not list(Path(runner.places.work).iterdir()))


def test_a_spool_of_another_cluster_or_directory_is_another(runner: Runner) -> None:
    with Runner(cluster="other") as other:
        assert other.spool != runner.spool
        session, _ = other.attach()
        session.run("a", "true")
        assert runner.listing()["attempts"] == []


def test_without_a_place_to_write_a_start_is_refused_and_not_half_done(runner: Runner) -> None:
    session, _ = runner.attach()
    work = Path(runner.places.work)
    work.rmdir()
    work.write_text("in the way")
    reply = session.start("a", "true")
    assert (reply["ok"], reply["code"]) == (False, "spawn")
    assert session.request("list")["attempts"] == []
    assert not list(Path(runner.places.logs).iterdir())
    work.unlink()
    work.mkdir()
    assert session.run("a", "true")["code"] == 0


def test_the_record_of_an_attempt_is_readable_by_others_of_our_code(runner: Runner) -> None:
    session, _ = runner.attach()
    session.run("a", "true")
    record = json.loads((runner.spool / "attempts" / "a" / "order").read_text())
    assert record[:3] == ["a", "c-a", "process"]
    assert record[3] == boot_id()
    eventually(lambda: Spool(runner.places).ended("a") is not None)


def test_a_spool_is_read_by_an_older_runner_and_by_a_newer_one(runner: Runner) -> None:
    spool = Spool(runner.places)
    for attempt_id, resident in (("a", False), ("d", True)):
        lock = spool.claim(attempt_of(attempt_id, "c", "process", "b", "", resident=resident))
        assert lock is not None
        os.close(lock)
    older = json.loads(Path(spool.path("a", "order")).read_text())
    assert len(older) == 6, "a runner that knows no residents takes no more"
    assert [each.resident for each in spool.attempts()] == [False, True]
    Path(spool.path("d", "order")).write_text(json.dumps([*older, True, "of a later version"]))
    assert [each.resident for each in spool.attempts()] == [False, True]


@pytest.mark.parametrize(
    ("user", "place", "needs"),
    [(1000, "/dev/shm", True), (0, "/dev/shm", False), (1000, "/srv/longshore/c", False)],
)
def test_only_where_others_clear_up_somebody_must_stay(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, user: int, place: str, needs: bool
) -> None:
    spool = Spool(runner.places)
    spool.places = runner.places._replace(spool=f"{place}/{runner.places.name}")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert spool.needs_keeper is needs
