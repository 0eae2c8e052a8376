"""What a session of the runner promises whoever comes after it: epochs, locks, kills that wait."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from longshore.pool.runner.attach import Session
from longshore.pool.runner.engines import Engine
from longshore.pool.runner.handshake import idle_lock, take_over
from longshore.pool.runner.launch import Launcher
from longshore.pool.runner.lease import Lease
from longshore.pool.runner.output import Output
from longshore.pool.runner.spool import Attempt, Places, Spool, attempt_of
from longshore.pool.runner.wire import Refusal

NAME = "longshore-0-0123456789abcdef"


def places_in(directory: Path) -> Places:
    base = str(directory)
    return Places(base, f"{base}/spool", f"{base}/logs", f"{base}/c/work", NAME, f"{base}/apart")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(places_in(tmp_path))


class OvertakenSpool(Spool):
    """One in which a later leader begins and ends between a look at the epoch and the lock."""

    def epoch(self) -> int:
        found = super().epoch()
        self.remember_epoch(5)
        return found


def test_a_later_leader_that_came_while_we_waited_for_the_lock_is_noticed(tmp_path: Path) -> None:
    spool = OvertakenSpool(places_in(tmp_path))
    with pytest.raises(Refusal, match="epoch 3 is over, 5 leads"):
        take_over(spool, 3)
    lock = idle_lock(spool)
    assert lock is not None, "who is refused keeps nobody out"
    os.close(lock)
    assert spool.epoch() == 5


def test_the_lock_and_the_epoch_of_a_session_outlive_no_doubt(spool: Spool) -> None:
    lock = take_over(spool, 3)
    assert spool.epoch() == 3
    assert idle_lock(spool) is None
    os.close(lock)
    with pytest.raises(Refusal, match="epoch 2 is over, 3 leads"):
        take_over(spool, 2)
    os.close(take_over(spool, 3))


class DeafLauncher:
    """A launcher that cannot signal yet, as before the pid is recorded."""

    def __init__(self) -> None:
        self.deaf = True
        self.asked: list[str] = []

    def signal(self, attempt: Attempt, name: str, _grace_s: float) -> bool:
        self.asked.append(f"{name} {attempt.attempt_id}")
        return not self.deaf


def test_a_kill_that_waits_is_not_taken_back_by_a_later_term(spool: Spool) -> None:
    launcher = DeafLauncher()
    session = Session(
        spool=spool,
        engine=Engine("process"),
        launcher=cast(Launcher, launcher),
        lease=cast(Lease, None),
        output=Output(os.open(os.devnull, os.O_WRONLY)),
        epoch=1,
    )
    attempt = attempt_of("a", "c", "process", spool.boot_id, "")
    lock = spool.claim(attempt)
    assert lock is not None
    session._live = {"a": attempt}
    for name in ("TERM", "KILL", "TERM"):
        assert session._kill({"attempt_id": "a", "signal": name}) == {"signalled": True}
    launcher.deaf = False
    session._retry_kills()
    session._retry_kills()
    assert launcher.asked == ["TERM a", "KILL a", "TERM a", "KILL a"]
    os.close(lock)
