"""The spool of a user whose shared memory systemd-logind clears when the last session is over."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import not_tested
from tests.runner_harness import Attached, Runner, alive, eventually

USER = 60_301
"""No user of the system's, and hardly anybody's on the machine that tests."""
SETTLED_S = 3.0
"""Well above the second after which a watcher sees that the last attempt has ended."""
NO_LEASE: dict[str, Any] = {}
SUSPENDED = {"lease": {"orphan_timeout_s": 1, "power_off": "true", "suspended": True}}


@pytest.fixture
def runner() -> Iterator[Runner]:
    if os.geteuid() != 0:
        not_tested("to be another user needs root")
    with Runner(user=USER) as each:
        yield each


def clear_as_logind_does(runner: Runner) -> None:
    """Remove what the user has in shared memory if no process of the user's sessions is left."""
    if runner.spool.exists() and not runner.processes():
        assert runner.spool.stat().st_uid == USER
        shutil.rmtree(runner.spool)


def start_until_told(runner: Runner, session: Attached) -> tuple[Path, list[int]]:
    """Start `a`, which ends with 3 once a file is there; return that and the processes of it."""
    session.start("a", "sh", "-c", "until [ -e gate ]; do sleep 0.01; done; exit 3")
    processes = [runner.job("a"), runner.supervisor("a")]
    return Path(runner.places.work, "a", "gate"), processes


@pytest.mark.parametrize("hello", [NO_LEASE, SUSPENDED], ids=["no lease", "a suspended lease"])
@pytest.mark.parametrize("ends", ["before the session", "while nobody looks"])
def test_an_exit_that_nobody_has_fetched_outlives_the_last_session(
    runner: Runner, ends: str, hello: dict[str, Any]
) -> None:
    session, _ = runner.attach(**hello)
    gate, processes = start_until_told(runner, session)
    if ends == "before the session":
        gate.touch()
        assert session.exit_of("a")["code"] == 3
    session.close()
    gate.touch()
    eventually(lambda: not any(alive(pid) for pid in processes))
    settled_at = time.monotonic() + SETTLED_S
    while time.monotonic() < settled_at:
        clear_as_logind_does(runner)
        time.sleep(0.05)
    again, answer = runner.attach(**hello)
    assert [each["exit"]["code"] for each in answer["attempts"]] == [3]
    assert again.start("a", "true")["already"], "it has run"


def test_an_instance_that_is_idle_remembers_the_epoch_between_sessions(runner: Runner) -> None:
    session, _ = runner.attach(epoch=2)
    session.close()
    clear_as_logind_does(runner)
    _, answer = runner.attach(epoch=1)
    assert (answer["type"], answer["code"]) == ("refused", "epoch")


def test_a_listing_leaves_somebody_when_the_session_was_killed(runner: Runner) -> None:
    session, _ = runner.attach()
    assert session.run("a", "true")["code"] == 0
    session.kill()
    runner.listing()
    clear_as_logind_does(runner)
    eventually(lambda: len(runner.processes()) == 1)
    left = runner.processes()
    assert [each["exit"]["code"] for each in runner.listing()["attempts"]] == [0]
    assert runner.processes() == left, "one is enough"


def test_who_stays_makes_way_for_the_next_session(runner: Runner) -> None:
    session, _ = runner.attach()
    session.close()
    assert len(runner.processes()) == 1
    again, _ = runner.attach()
    eventually(lambda: runner.processes() == [again.process.pid])


def test_root_whose_memory_is_left_alone_leaves_nobody() -> None:
    if os.geteuid() != 0:
        not_tested("to be root needs root")
    with Runner() as roots:
        session, _ = roots.attach()
        assert session.run("a", "true")["code"] == 0
        session.close()
        eventually(lambda: not roots.processes())
        assert roots.listing()["attempts"][0]["exit"]["code"] == 0
        eventually(lambda: not roots.processes())
