"""The dead-man's lease, kept by the real runner; the power-off command leaves a line in a file."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runner_harness import Attached, Runner, alive, eventually

ORPHAN_TIMEOUT_S = 2.0
QUIET_S = 3.5
"""Well above the timeout: how long nothing may happen where nothing should."""


class Instance:
    """A runner whose power-off command writes a line to `record`."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.record = runner.directory / "powered-off"
        self.command = f"echo $$ >>{self.record}; echo said; exit 3"

    def attach(self, *, suspended: bool = False, **hello: Any) -> Attached:
        lease = {
            "orphan_timeout_s": ORPHAN_TIMEOUT_S,
            "power_off": self.command,
            "suspended": suspended,
        }
        session, answer = self.runner.attach(**{"lease": lease, **hello})
        assert answer["type"] == "hello", answer
        return session

    def tries(self) -> int:
        return self.record.read_text().count("\n") if self.record.exists() else 0

    def await_try(self) -> None:
        """Return once it is powered off (again)."""
        before = self.tries()
        eventually(lambda: self.tries() > before)

    def watcher(self) -> int:
        """Return who holds the lock of the session now that no session does."""
        record = self.runner.spool / "session"
        sessions = [each.process.pid for each in self.runner._attached]
        eventually(lambda: int((record.read_text() or "0").split()[0]) not in [0, *sessions])
        return int(record.read_text().split()[0])


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Runner() as runner:
        yield Instance(runner)


def stays_on(instance: Instance, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Hold that the instance is not powered off for longer than its timeout.

    What a slow machine was too late for before does not count.
    """
    before = instance.tries()
    end = time.monotonic() + QUIET_S
    while time.monotonic() < end:
        meanwhile()
        assert instance.tries() == before
        time.sleep(0.05)


def test_an_instance_that_nobody_contacts_powers_off(instance: Instance) -> None:
    began = time.monotonic()
    instance.attach().close()
    eventually(lambda: instance.tries() >= 1)
    assert time.monotonic() - began >= ORPHAN_TIMEOUT_S


def test_it_is_tried_again_with_a_growing_delay_and_its_last_words_are_kept(
    instance: Instance,
) -> None:
    instance.command = f"date +%s.%N >>{instance.record}; echo said; exit 3"
    instance.attach().close()
    eventually(lambda: instance.tries() >= 3)
    at = [float(line) for line in instance.record.read_text().split()]
    assert at[2] - at[1] > 1.25 * (at[1] - at[0]), at
    log = instance.runner.directory / "power-off.log"
    eventually(lambda: log.read_text().endswith("exit status 3\n"))
    assert log.read_text().startswith("try 3 at ")
    assert "\nsaid\n" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_what_the_command_says_has_a_bound_and_does_not_stop_it(instance: Instance) -> None:
    instance.command = f"yes | head -c 1000000 && echo $$ >>{instance.record}"
    instance.attach().close()
    instance.await_try()
    log = instance.runner.directory / "power-off.log"
    eventually(lambda: log.read_text().endswith("exit status 0\n"))
    assert 65_536 <= log.stat().st_size < 66_000


def test_a_command_that_hangs_is_ended_before_the_next_try(instance: Instance) -> None:
    instance.command = f"echo $$ >>{instance.record}; exec sleep 1000"
    instance.attach().close()
    eventually(lambda: instance.tries() >= 2)
    first, second = (int(line) for line in instance.record.read_text().split()[-2:])
    eventually(lambda: not alive(first))
    assert alive(second)
    # A contact ends it as well: it must not power off what is needed again.
    instance.attach()
    eventually(lambda: not alive(second))


@pytest.mark.parametrize("beside_resident", [False, True], ids=["alone", "beside a resident"])
def test_while_a_container_runs_it_stays_on(instance: Instance, beside_resident: bool) -> None:
    session = instance.attach()
    if beside_resident:
        session.start("daemon", "sleep", "60", resident=True)
    session.start("a", "sleep", "60")
    job = instance.runner.job("a")
    session.close()
    stays_on(instance)
    ended = time.monotonic()
    os.killpg(job, signal.SIGKILL)
    instance.await_try()
    assert time.monotonic() - ended >= ORPHAN_TIMEOUT_S, "the end of the last begins the time anew"
    assert instance.runner.listing()["attempts"][0]["exit"]["code"] == 137


@pytest.mark.parametrize("cut_only", [False, True], ids=["no session", "a silent session"])
def test_a_resident_keeps_no_instance(instance: Instance, cut_only: bool) -> None:
    """It never ends: with it alone, the instance would be billed for ever."""
    session = instance.attach()
    session.start("daemon", "sleep", "60", resident=True)
    if not cut_only:
        session.close()
    instance.await_try()
    assert instance.runner.listing()["attempts"][0]["exit"] is None, "nothing was ended for it"


def test_a_suspended_lease_does_nothing_and_leaves_nobody(instance: Instance) -> None:
    instance.attach(suspended=True).close()
    stays_on(instance)
    session = instance.attach()
    assert session.request("lease", suspended=True)["ok"]
    stays_on(instance)
    assert session.request("lease", suspended=False)["ok"]
    instance.await_try()


def test_a_suspension_outlives_the_session(instance: Instance) -> None:
    session = instance.attach()
    session.start("a", "true")
    assert session.request("lease", suspended=True)["ok"]
    session.close()
    instance.runner.listing()
    stays_on(instance)


@pytest.mark.parametrize("what", ["lease", "list", "log_ack"])
def test_whatever_the_dispatcher_says_renews_it(instance: Instance, what: str) -> None:
    session = instance.attach()
    acknowledgement = {"type": "log_ack", "attempt_id": "a", "stream": "stdout", "offset": 0}

    def say() -> None:
        if what == "log_ack":
            session.send(acknowledgement)
        else:
            session.ask(what, suspended=False)

    stays_on(instance, say)
    instance.await_try()


def test_a_dispatcher_whose_epoch_is_over_renews_nothing(instance: Instance) -> None:
    session = instance.attach(epoch=2)
    session.epoch = 1
    end = time.monotonic() + 60
    while not instance.tries():
        assert time.monotonic() < end
        assert session.request("lease", suspended=True)["code"] == "epoch"
        time.sleep(0.05)


def test_a_session_whose_dispatcher_is_silent_keeps_the_lease_itself(instance: Instance) -> None:
    session = instance.attach()
    instance.await_try()
    assert alive(session.process.pid)
    session.read(0)
    assert session.request("list")["ok"]
    instance.await_try()


def test_a_container_keeps_the_instance_of_a_silent_dispatcher_on(instance: Instance) -> None:
    session = instance.attach()
    session.start("a", "sleep", "60")
    stays_on(instance)
    os.killpg(instance.runner.job("a"), signal.SIGKILL)
    ended = time.monotonic()
    instance.await_try()
    assert time.monotonic() - ended >= ORPHAN_TIMEOUT_S - 0.1


def test_the_next_session_takes_over_the_lease(instance: Instance) -> None:
    instance.attach().close()
    watcher = instance.watcher()
    session = instance.attach()
    eventually(lambda: not alive(watcher))
    stays_on(instance, lambda: session.ask("list"))
    third = instance.attach(epoch=2)
    session.read_to_end()
    stays_on(instance, lambda: third.ask("list"))
    third.close()
    instance.await_try()


def test_a_session_without_a_lease_ends_the_one_before(instance: Instance) -> None:
    instance.attach().close()
    session = instance.attach(lease=None)
    reply = session.request("lease", suspended=True)
    assert (reply["ok"], reply["code"]) == (False, "invalid")
    session.close()
    instance.runner.listing()
    stays_on(instance)


def test_a_listing_finds_somebody_who_keeps_a_lease_that_nobody_does(instance: Instance) -> None:
    session = instance.attach()
    session.kill()
    stays_on(instance)
    began = time.monotonic()
    assert instance.runner.listing()["attempts"] == []
    watcher = instance.watcher()
    instance.runner.listing()
    assert instance.watcher() == watcher, "one is enough"
    instance.await_try()
    assert time.monotonic() - began >= ORPHAN_TIMEOUT_S
    instance.attach()
    eventually(lambda: not alive(watcher))


def test_who_keeps_it_costs_next_to_nothing(instance: Instance) -> None:
    session = instance.attach(
        lease={"orphan_timeout_s": 600, "power_off": "exit 1", "suspended": False}
    )
    session.close()
    stat = Path("/proc", str(instance.watcher()), "stat")

    def rests() -> bool:
        """Return whether it does nothing at all for a second."""
        before = stat.read_text().rpartition(")")[2].split()
        time.sleep(1.0)
        return stat.read_text().rpartition(")")[2].split() == before

    # It is named as soon as it begins, before it has settled.
    eventually(rests)


def test_the_terms_lie_where_only_we_can_read_them(instance: Instance) -> None:
    session = instance.attach()
    file = instance.runner.spool / "lease"
    assert instance.command.split(";")[0] in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    file.write_text('["torn')  # as after a loss of power, where the spool is on a disk
    session.kill()
    assert instance.runner.listing()["broken"] == ""
    instance.attach().close()
    instance.await_try()


@pytest.mark.parametrize(
    "lease",
    [
        [],
        {"orphan_timeout_s": 0, "power_off": "true", "suspended": False},
        {"orphan_timeout_s": "1", "power_off": "true", "suspended": False},
        {"orphan_timeout_s": 1e300, "power_off": "true", "suspended": False},
        {"orphan_timeout_s": 1, "power_off": "", "suspended": False},
        {"orphan_timeout_s": 1, "power_off": "a\0", "suspended": False},
        {"orphan_timeout_s": 1, "power_off": "true", "suspended": 0},
    ],
)
def test_a_lease_that_makes_no_sense_is_refused(instance: Instance, lease: object) -> None:
    session, answer = instance.runner.attach(lease=lease)
    assert (answer["type"], answer["code"]) == ("refused", "invalid")
    session.read_to_end()
    assert instance.runner.said() == ""
