"""What a job without a container may not do: outlive its end, or read what is the runner's."""

from __future__ import annotations

import os
import pwd
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from longshore.drivers.local.machine import remove_files
from longshore.pool.runner import containment
from tests.conftest import not_tested
from tests.runner_harness import Runner, alive, eventually, settle_on

NOBODY = "nobody"


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as each:
        yield each


ESCAPES = """
trap '' TERM
(trap '' TERM; exec sleep 601) & echo $! >>pids
setsid sh -c 'echo $$ >>pids; exec sleep 602' &
env -i setsid sh -c 'echo $$ >>pids; exec sleep 603' &
env -i setsid sh -c '(echo $$ >/dev/null; sh -c "echo \\$\\$ >>pids; exec sleep 604" &) & exit' &
until [ "$(wc -l <pids)" -ge 4 ]; do sleep 0.01; done
echo up
"""
"""A child of the group, and three that leave it: one by `setsid`, two without any mark of ours."""


def test_every_process_is_in_a_group_where_there_are_groups(runner: Runner) -> None:
    if not containment.hierarchies():
        not_tested("control groups need root")
    session, _ = runner.attach()
    script = "cat /proc/self/cgroup; echo; cat /proc/$PPID/cgroup"
    assert session.run("a", "sh", "-c", script)["code"] == 0
    jobs, supervisors = session.log("a").decode().split("\n\n")
    assert f"/{runner.places.name}/a" in jobs
    if Path(containment.hierarchies()[0], "cgroup.controllers").exists():
        assert f"/{runner.places.name}/a" in supervisors, "it was born in it, and not moved"
    session.request("release", attempt_id="a")
    session.run("b", "true")
    session.request("release", attempt_id="b")
    for root in containment.hierarchies():
        eventually(lambda path=Path(root, runner.places.name): not path.exists())  # type: ignore[misc] # the default binds the loop's value


@pytest.mark.parametrize(
    "end", ["exit", "exit while nobody looks", "kill", "lost", "lost while nobody looks"]
)
@pytest.mark.parametrize("hierarchy", [*containment.hierarchies(), ""])
def test_nothing_outlives_the_job_wherever_it_moved_to(
    runner: Runner, end: str, hierarchy: str
) -> None:
    settle_on(runner, hierarchy)
    session, _ = runner.attach()
    # Without a group, its parents tell what is the job's; the supervisor's own death loses them.
    seen = hierarchy or "lost" not in end
    script = ESCAPES if seen else ESCAPES.replace("env -i", "")
    last = {"exit": "exit 0", "exit while nobody looks": "until [ -e gate ]; do sleep 0.01; done"}
    session.start("a", "sh", "-c", script + last.get(end, "exec sleep 605"))
    session.until(lambda: session.log("a") == b"up\n")
    pids = [int(pid) for pid in Path(runner.places.work, "a", "pids").read_text().split()]
    assert len(pids) == 4
    if end == "kill":
        session.request("kill", attempt_id="a", signal="KILL")
        assert session.exit_of("a")["code"] == 137
    elif end == "exit":
        assert session.exit_of("a")["code"] == 0
    elif end == "exit while nobody looks":
        session.close()
        Path(runner.places.work, "a", "gate").touch()
    elif end == "lost":
        os.kill(runner.supervisor("a"), signal.SIGKILL)
        assert session.exit_of("a")["kind"] == "lost"
    else:
        supervisor = runner.supervisor("a")
        session.kill()
        os.kill(supervisor, signal.SIGKILL)
        eventually(lambda: not alive(supervisor))
        assert runner.listing()["attempts"][0]["exit"]["kind"] == "lost"
    for pid in pids:
        eventually(lambda pid=pid: not alive(pid), 5.0)  # type: ignore[misc] # the default binds the loop's value


HIDDEN = """
env -i "PATH=$PATH" setsid sh -c 'trap "echo asked >>pids" TERM; echo $$ >>pids
  while :; do sleep 0.02; done' >/dev/null 2>&1 &
until [ -s pids ]; do sleep 0.01; done
echo up
exec sleep 606
"""
"""A daemon that no group, no mark and no output tells of, and that TERM does not end."""


@pytest.mark.parametrize("run_as", ["", NOBODY])
def test_signals_reach_who_can_be_told_by_its_parents_alone(run_as: str) -> None:
    if run_as and os.geteuid() != 0:
        not_tested("run_as needs root")
    with Runner(engine={"name": "process", "run_as": run_as}) as runner:
        settle_on(runner, "")
        session, _ = runner.attach()
        session.start("a", "sh", "-c", HIDDEN)
        session.until(lambda: session.log("a") == b"up\n")
        seen = Path(runner.places.work, "a", "pids")
        pid = int(seen.read_text())
        session.request("kill", attempt_id="a", signal="TERM", grace_s=600)
        eventually(lambda: seen.read_text() == f"{pid}\nasked\n")
        assert session.request("list")["attempts"][0]["exit"] is None, "it has its grace"
        session.request("kill", attempt_id="a", signal="KILL")
        assert session.exit_of("a")["code"] == 143
        assert not alive(pid)


def test_a_job_of_another_user_cannot_read_what_is_the_runners() -> None:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with Runner(engine={"name": "process", "run_as": NOBODY}) as runner:
        secret = runner.directory / "instance-secret"
        secret.write_text("s")
        secret.chmod(0o600)
        runner.directory.chmod(0o700)  # as it is deployed
        session, hello = runner.attach()
        assert hello["broken"] == ""
        work = f"{runner.places.work}/a"
        script = (
            f"id -un; pwd; touch {work}/mine && echo wrote; echo $HOME;"
            f"cat {secret}; ls {runner.directory} {runner.places.logs} {runner.spool};"
            f"ls {runner.spool}/attempts/a; cat {runner.places.logs}/a.stdout; kill -9 $PPID"
        )
        session.run("a", "sh", "-c", script, env={"LD_PRELOAD": "/nowhere.so", "S": "x y"})
        assert session.log("a").decode() == f"{NOBODY}\n{work}\nwrote\n{work}\n"
        denied = [line for line in session.log("a", "stderr").splitlines() if b"denied" in line]
        assert len(denied) == 6
        mine = Path(work, "mine").stat()
        assert mine.st_uid == pwd.getpwnam(NOBODY).pw_uid
        for path in (runner.spool, Path(runner.places.logs)):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_job_of_another_user_works_apart_from_a_directory_that_is_closed_to_it() -> None:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with TemporaryDirectory() as closed:
        directory = Path(closed, "data", "runner")
        engine = {"name": "process", "run_as": NOBODY}
        with Runner(engine=engine, environment={"LONGSHORE_RUNNER_DIR": str(directory)}) as runner:
            session, hello = runner.attach()
            assert hello["broken"] == ""
            apart = Path(runner.places.apart)
            script = (
                f"id -un; pwd; touch ~/mine; cd ~/. && ls -A; ls {closed} {apart}; cat {apart}/*"
            )
            exit_ = session.run("a", "sh", "-c", script + "; exit 7")
            assert exit_["code"] == 7
            assert session.log("a").decode() == f"{NOBODY}\n{apart}/a\nmine\n"
            denied = session.log("a", "stderr").splitlines()
            assert len([line for line in denied if b"denied" in line]) == 2
            for path, mode in ((Path(closed), 0o700), (apart, 0o711), (apart / "a", 0o700)):
                assert stat.S_IMODE(path.stat().st_mode) == mode
            session.request("release", attempt_id="a")
            eventually(lambda: not list(apart.iterdir()))
            apart.rmdir()
            session.kill()
            again, _ = runner.attach()
            assert again.run("b", "true")["code"] == 0, "what somebody tidied up is made again"
            remove_files(directory.parent)
            assert not apart.exists()


def test_another_users_directory_is_not_trusted_with_work() -> None:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with TemporaryDirectory() as closed:
        engine = {"name": "process", "run_as": NOBODY}
        environment = {"LONGSHORE_RUNNER_DIR": f"{closed}/runner"}
        with Runner(engine=engine, environment=environment) as runner:
            apart = Path(runner.places.apart)
            apart.mkdir()
            os.chown(apart, pwd.getpwnam(NOBODY).pw_uid, -1)
            assert "somebody else" in runner.listing()["broken"]
            apart.rmdir()
