"""The watchdog: alarms come in order and in time, and its thread ends with its last member."""

from __future__ import annotations

import queue
import threading
import time

import pytest

from longshore.pool.remote.ssh_watchdog import Watchdog
from tests.sshd_host import wait_until


def watchdogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ssh-watchdog"]


def test_alarms_come_in_the_order_of_their_times_and_not_early() -> None:
    watchdog = Watchdog()
    watchdog.enlist()
    now = time.monotonic()
    heard: queue.Queue[tuple[str, float]] = queue.Queue()
    for name, delay_s in (("late", 0.1), ("early", 0.02), ("middle", 0.05)):
        watchdog.arm(now + delay_s, lambda name=name: heard.put((name, time.monotonic())))  # type: ignore[misc]  # mypy cannot type a lambda with a default
    got = [heard.get(timeout=60) for _ in range(3)]
    watchdog.leave()
    assert [name for name, _ in got] == ["early", "middle", "late"]
    assert all(at >= now + delay_s for (_, at), delay_s in zip(got, (0.02, 0.05, 0.1), strict=True))


def test_an_alarm_repeats_until_it_is_disarmed() -> None:
    watchdog = Watchdog()
    watchdog.enlist()
    count: queue.Queue[float] = queue.Queue()

    def again() -> float:
        count.put(time.monotonic())
        return time.monotonic() + 0.001

    with watchdog.alarm(0.0, again):
        for _ in range(3):
            count.get(timeout=60)
    marker = threading.Event()
    watchdog.arm(time.monotonic() + 0.05, marker.set)
    marker.wait(60)
    assert count.qsize() <= 2, "one more may have been under way, not fifty"
    watchdog.leave()


def test_disarmed_alarms_neither_ring_nor_pile_up() -> None:
    watchdog = Watchdog()
    watchdog.enlist()
    rung: list[int] = []
    for number in range(1000):
        with watchdog.alarm(time.monotonic() + 0.05, lambda number=number: rung.append(number)):  # type: ignore[misc]  # mypy cannot type a lambda with a default
            assert len(watchdog._due) <= 100
    marker = threading.Event()
    watchdog.arm(time.monotonic() + 0.1, marker.set)
    assert marker.wait(60)
    watchdog.leave()
    assert rung == []


def test_the_thread_lives_from_the_first_member_to_the_last() -> None:
    before = len(watchdogs())
    watchdog = Watchdog()
    watchdog.enlist()
    watchdog.enlist()
    watchdog.leave()
    assert len(watchdogs()) == before + 1
    watchdog.leave()
    assert len(watchdogs()) == before
    watchdog.enlist()
    marker = threading.Event()
    watchdog.arm(0.0, marker.set)
    assert marker.wait(60)
    watchdog.leave()
    assert len(watchdogs()) == before


def test_an_action_that_fails_is_told_and_keeps_no_other_from_ringing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watchdog = Watchdog()
    watchdog.enlist()

    def fail() -> float:
        raise ValueError("a defect")

    watchdog.arm(0.0, fail)
    marker = threading.Event()
    watchdog.arm(time.monotonic() + 0.02, marker.set)
    assert marker.wait(60)
    watchdog.leave()
    assert "a defect" in capsys.readouterr().out


def test_without_a_thread_nobody_is_enlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog = Watchdog()

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            watchdog.enlist()
    watchdog.enlist()
    marker = threading.Event()
    watchdog.arm(0.0, marker.set)
    assert marker.wait(60)
    watchdog.leave()
    assert watchdog._thread is None


def test_the_last_member_may_leave_while_an_action_runs() -> None:
    watchdog = Watchdog()
    watchdog.enlist()
    running, go_on = threading.Event(), threading.Event()

    def slow() -> float:
        running.set()
        go_on.wait(60)
        return time.monotonic()

    watchdog.arm(0.0, slow)
    assert running.wait(60)
    leaver = threading.Thread(target=watchdog.leave, daemon=True)
    leaver.start()
    wait_until(lambda: watchdog._thread is None, "the leave")
    go_on.set()
    leaver.join(60)
    assert not leaver.is_alive()
