"""What an attempt without a container has between TERM and KILL: all of it, not only its first."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import containment
from tests.conftest import not_tested
from tests.runner_harness import Attached, Runner, alive, eventually, settle_on, stat_fields

LONG_S = 600.0
TRAINER = """
trap 'echo asked; until [ -e gate ]; do sleep 0.02; done; echo saved; exit 0' TERM
echo up
while :; do sleep 0.02; done
"""
DEAF = "trap '' TERM; echo $$ >pid; echo up; exec sleep 601"
OWN_GROUP = "import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])"
PLACES = {
    "wrapped": 'sh -c "$PROGRAM"; echo end',
    "in the background": 'sh -c "$PROGRAM" & wait',
    "in a group of its own": f"{sys.executable} -c '{OWN_GROUP}' sh -c \"$PROGRAM\" & wait",
    "in a session of its own": 'setsid sh -c "$PROGRAM" & wait',
    "without a mark": 'env -i "PATH=$PATH" setsid sh -c "$PROGRAM" & wait',
}
"""Where a wrapper has what matters; TERM ends the wrapper itself at once."""
HIERARCHIES = [*containment.hierarchies()[:2], ""]
"""Of version 2, of version 1, and where there are no groups, as for users who are not root."""


@pytest.fixture(params=HIERARCHIES)
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    with Runner() as each:
        settle_on(each, request.param)
        yield each


def start(session: Attached, where: str, program: str) -> None:
    session.start("a", "sh", "-c", PLACES[where], env={"PROGRAM": program})
    session.until(lambda: session.log("a") == b"up\n")


def term(session: Attached, **fields: Any) -> None:
    assert session.request("kill", attempt_id="a", signal="TERM", **fields)["signalled"] is True


def daemon(runner: Runner) -> int:
    return int(Path(runner.places.work, "a", "pid").read_text())


def save_and_see(runner: Runner, session: Attached) -> None:
    """See that TERM ended the wrapper and not what saves its work, and that this is waited for."""
    job = runner.job("a")
    term(session, grace_s=LONG_S)
    session.until(lambda: session.log("a") == b"up\nasked\n", 10.0)
    eventually(lambda: not alive(job))
    eventually((runner.spool / "attempts" / "a" / "program-ended").exists)
    ended_by = time.time()
    time.sleep(0.3)  # several looks of the supervisor
    assert session.request("list")["attempts"][0]["exit"] is None
    Path(runner.places.work, "a", "gate").touch()
    exit_ = session.finish("a")
    assert (exit_["kind"], exit_["code"]) == ("exited", 143), "of the wrapper"
    assert exit_["finished_at"] <= ended_by
    assert session.log("a") == b"up\nasked\nsaved\n"


@pytest.mark.parametrize("where", PLACES)
def test_what_a_wrapper_started_is_asked_to_end_and_has_its_time(
    runner: Runner, where: str
) -> None:
    session, _ = runner.attach()
    start(session, where, TRAINER)
    save_and_see(runner, session)


def test_so_it_is_for_the_jobs_of_another_user() -> None:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with Runner(engine={"name": "process", "run_as": "nobody"}) as runner:
        session, _ = runner.attach()
        start(session, "in a session of its own", TRAINER)
        save_and_see(runner, session)


def test_the_supervisor_is_not_asked_to_end_while_the_program_goes_on(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sh", "-c", TRAINER)
    session.until(lambda: session.log("a") == b"up\n")
    for _ in range(3):
        term(session, grace_s=LONG_S)
    session.until(lambda: session.log("a").startswith(b"up\nasked\n"), 10.0)
    Path(runner.places.work, "a", "gate").touch()
    exit_ = session.exit_of("a")
    assert (exit_["kind"], exit_["code"]) == ("exited", 0)


def test_who_ignores_term_costs_at_most_the_grace(runner: Runner) -> None:
    session, _ = runner.attach()
    start(session, "in a session of its own", DEAF)
    pid = daemon(runner)
    began = time.monotonic()
    term(session, grace_s=1.5)
    exit_ = session.exit_of("a")
    assert 1.4 <= time.monotonic() - began < 20
    assert exit_["code"] == 143
    eventually(lambda: not alive(pid), 5.0)


def test_the_grace_is_over_also_when_nobody_is_there_to_send_kill(runner: Runner) -> None:
    session, _ = runner.attach()
    start(session, "in a session of its own", DEAF)
    pid, job = daemon(runner), runner.job("a")
    term(session, grace_s=1.5)
    session.kill()
    eventually(lambda: not alive(job), 10.0)
    assert alive(pid)
    eventually(lambda: not alive(pid), 20.0)
    eventually((runner.spool / "attempts" / "a" / "exit").exists)
    assert runner.listing()["attempts"][0]["exit"]["code"] == 143


@pytest.mark.parametrize("fields", [{"grace_s": LONG_S}, {}], ids=["told", "not told"])
def test_kill_ends_what_is_left_before_that(runner: Runner, fields: dict[str, float]) -> None:
    session, _ = runner.attach()
    start(session, "in a session of its own", DEAF)
    pid, job = daemon(runner), runner.job("a")
    term(session, **fields)
    eventually(lambda: not alive(job))
    assert alive(pid)
    session.request("kill", attempt_id="a", signal="KILL")
    session.until(lambda: any(each["type"] == "exited" for each in session.pushed), 10.0)
    assert session.exit_of("a")["code"] == 143
    eventually(lambda: not alive(pid), 5.0)


def test_a_grace_can_become_shorter(runner: Runner) -> None:
    session, _ = runner.attach()
    start(session, "in the background", DEAF)
    pid = daemon(runner)
    term(session, grace_s=LONG_S)
    term(session, grace_s=0.2)
    assert session.exit_of("a")["code"] == 143
    eventually(lambda: not alive(pid), 5.0)


def test_nobody_has_a_grace_whom_nobody_asked_to_end(runner: Runner) -> None:
    session, _ = runner.attach()
    script = 'setsid sh -c "$PROGRAM" & until [ -e gate ]; do sleep 0.02; done; exit 3'
    session.start("a", "sh", "-c", script, env={"PROGRAM": DEAF})
    session.until(lambda: session.log("a") == b"up\n")
    pid = daemon(runner)
    eventually(lambda: stat_fields(pid)[3:4] == [str(pid)])
    Path(runner.places.work, "a", "gate").touch()
    session.until(lambda: any(each["type"] == "exited" for each in session.pushed), 10.0)
    assert session.exit_of("a")["code"] == 3
    eventually(lambda: not alive(pid), 5.0)


@pytest.mark.parametrize("grace", [-1, "soon", True, 1e12])
def test_a_grace_that_is_no_length_of_time_is_refused(grace: object) -> None:
    with Runner() as runner:
        session, _ = runner.attach()
        reply = session.request("kill", attempt_id="a", signal="TERM", grace_s=grace)
        assert (reply["ok"], reply["code"]) == (False, "invalid")
