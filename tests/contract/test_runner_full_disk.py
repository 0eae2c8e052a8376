"""The runner where its spool is full: shared memory that a job filled, or a disk."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import not_tested
from tests.runner_harness import Attached, Runner, alive, eventually
from tests.small_disk import fill, small_disk

GATE = "echo up; until [ -e gate ]; do sleep 0.05; done; exit 3"


@pytest.fixture(params=["shared memory", "shared memory, run_as", "disk"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """A runner whose spool has 1 MiB, which its jobs can fill."""
    if os.geteuid() != 0:
        not_tested("mounts and run_as need root")
    engine = {"name": "process", "run_as": "nobody" if "run_as" in request.param else ""}
    # Not below pytest's own directory: that is closed to the user whose jobs must get in.
    with TemporaryDirectory() as directory, small_disk(Path(directory, "small")) as disk:
        disk.chmod(0o1777)
        on_disk, small = request.param == "disk", {"SMALL": str(disk)}
        with Runner(
            engine=engine,
            environment=small,
            shared_memory=None if on_disk else disk,
            disk=disk if on_disk else None,
        ) as runner:
            yield runner


def test_a_job_that_fills_shared_memory_costs_no_exit_and_can_be_cancelled(
    runner: Runner,
) -> None:
    lease = {"orphan_timeout_s": 600, "power_off": "true", "suspended": False}
    session, hello = runner.attach(lease=lease)
    assert hello["broken"] == ""
    for attempt_id in ("a", "b", "c"):
        up(session, attempt_id, GATE)
    ballast = fill_by_a_job(runner, session)
    assert session.start("d", "true")["code"] == "overloaded"

    open_gate(runner, "a")
    assert session.exit_of("a")["code"] == 3, "it ends while there is no room"

    session.kill()
    open_gate(runner, "b")
    supervisor = runner.supervisor("c")
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not alive(supervisor))
    suspended = {**lease, "suspended": True}
    again, hello = runner.attach(epoch=2, lease=suspended)
    exits = {each["attempt_id"]: each["exit"] for each in hello["attempts"]}
    assert exits["a"]["code"] == 3
    assert exits["filler"] is None
    code = exits["b"]["code"] if exits["b"] is not None else again.exit_of("b")["code"]
    assert code == 3
    assert exits["c"]["kind"] == "lost"

    assert runner.attach(epoch=1)[1]["code"] == "epoch", "who leads is known all the same"
    third, hello = runner.attach(epoch=3, lease=lease)
    assert hello["type"] == "hello"
    for attempt_id in ("a", "b", "c"):
        assert third.request("release", attempt_id=attempt_id)["ok"]
    assert third.request("kill", attempt_id="filler", signal="TERM")["signalled"]
    assert third.exit_of("filler")["code"] == 143
    ballast.unlink()
    assert third.run("d", "true")["code"] == 0
    assert third.close() == 0


def test_what_a_wrapper_started_has_its_grace_and_its_last_words(runner: Runner) -> None:
    session, _ = runner.attach()
    saves = "trap 'until [ -e gate ]; do sleep 0.05; done; echo saved; exit 0' TERM; echo up;"
    up(session, "a", f'setsid sh -c "{saves} while :; do sleep 0.05; done" & wait')
    job = runner.job("a")
    ballast = fill(Path(runner.environment["SMALL"]))
    assert session.request("kill", attempt_id="a", signal="TERM", grace_s=600)["signalled"]
    eventually(lambda: not alive(job))
    ended = runner.spool / "attempts" / "a" / "program-ended"
    eventually(ended.exists)
    ended_at = ended.stat().st_mtime
    open_gate(runner, "a")
    exit_ = session.exit_of("a")
    assert (exit_["kind"], exit_["code"]) == ("exited", 143)
    assert exit_["finished_at"] == ended_at
    # On the disk there is room for it in the page that has the words before it.
    session.until(lambda: session.log("a") == b"up\nsaved\n")
    ballast.unlink()
    assert session.close() == 0


def test_a_kill_ends_what_has_a_grace(runner: Runner) -> None:
    session, _ = runner.attach()
    up(session, "a", "setsid sh -c \"trap '' TERM; echo up; exec sleep 600\" & wait")
    fill(Path(runner.environment["SMALL"]))
    assert session.request("kill", attempt_id="a", signal="TERM", grace_s=600)["signalled"]
    eventually((runner.spool / "attempts" / "a" / "program-ended").exists)
    assert session.request("kill", attempt_id="a", signal="KILL")["signalled"]
    assert session.exit_of("a")["code"] == 143


def test_where_there_are_too_few_files_a_start_is_refused_or_whole(runner: Runner) -> None:
    """The pipes of an attempt take no blocks, but a file each."""
    session, _ = runner.attach()
    small = runner.environment["SMALL"]
    room = os.statvfs(small)
    used, refused = room.f_files - room.f_ffree, []
    for spare in range(20):
        limit = f"remount,size=1m,nr_inodes={used + spare}"
        subprocess.run(["mount", "-o", limit, small], check=True)
        reply = session.start("a", "sh", "-c", "exit 3")
        if reply["ok"]:
            break
        refused.append(reply["code"])
        assert not list((runner.spool / "attempts").iterdir())
        left = os.statvfs(small)
        assert left.f_ffree == spare, "nothing is left of it, not even open"
    assert set(refused) == {"overloaded"}
    assert len(refused) > 6, "its directory, what is known of it, its lock, records and pipes"
    assert session.exit_of("a")["code"] == 3
    assert session.request("release", attempt_id="a")["ok"]


def up(session: Attached, attempt_id: str, script: str) -> None:
    """Start an attempt and wait for its first word."""
    assert session.start(attempt_id, "sh", "-c", script)["ok"]
    session.until(lambda: session.log(attempt_id).endswith(b"\n"))


def fill_by_a_job(runner: Runner, session: Attached) -> Path:
    """Have a job fill what the spool lies on, and go on; return its file."""
    ballast = Path(runner.environment["SMALL"], "ballast")
    seen = ballast if runner.spool.is_relative_to(runner.places.runner) else "/dev/shm/ballast"
    script = f"while :; do dd if=/dev/zero bs=4096 2>/dev/null >>{seen}; sleep 0.01; done"
    assert session.start("filler", "sh", "-c", script)["ok"]
    eventually(lambda: os.statvfs(runner.spool).f_bavail == 0)
    return ballast


def open_gate(runner: Runner, attempt_id: str) -> None:
    Path(runner.places.work, attempt_id, "gate").touch()


def test_an_exit_is_written_again_until_there_is_room(runner: Runner) -> None:
    session, _ = runner.attach()
    up(session, "a", GATE)
    supervisor = runner.supervisor("a")
    record = runner.spool / "attempts" / "a" / "exit"
    record.unlink(missing_ok=True)  # as where nothing can be allocated before
    ballast = fill(Path(runner.environment["SMALL"]))
    open_gate(runner, "a")
    eventually(record.exists)  # it has tried
    assert session.request("list")["attempts"][0]["exit"] is None
    assert alive(supervisor)
    ballast.unlink()
    assert session.exit_of("a")["code"] == 3
