"""The dead-man's lease: who is suspended, what is sent when, and when the runner's is due."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.pool.lease import fault_of_command, first_contact_fragment, renewal_interval_s
from longshore.pool.messages import CloseSession, Probe, ProbeSucceeded, SessionLost, SetLease
from longshore.pool.model import IdleBehavior, ProbeReport
from longshore.pool.remote.link_lease import LeaseRenewal
from longshore.pool.remote.ssh_keys import load_or_create_private_key
from longshore.pool.runner.lease import Lease, PowerOff, Terms, parse_terms
from longshore.pool.runner.spool import SpoolPaths
from longshore.pool.runner.wire import Refusal
from tests.rigs.engine import Rig, last_commands
from tests.rigs.link import link_settings
from tests.rigs.session import HELLO
from tests.rigs.session import Rig as SessionRig
from tests.samples import make_container

# ---- the core: a held instance's lease is suspended --------------------------------------------


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.submit(make_container(1))
    assert made.worker_states()["i-001"] == "running"
    return made


def behave(rig: Rig, behavior: IdleBehavior) -> None:
    rig.send(BehaviorRequested(worker_id="i-001", behavior=behavior))


def told(rig: Rig) -> list[bool]:
    return [command.suspended for command in last_commands(rig, SetLease)]


def lose_session(rig: Rig) -> None:
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))


def test_a_hold_suspends_the_lease_and_its_end_resumes_it(rig: Rig) -> None:
    behave(rig, IdleBehavior.HOLD)
    behave(rig, IdleBehavior.HOLD)
    assert told(rig) == [True]
    behave(rig, IdleBehavior.DRAIN)
    behave(rig, IdleBehavior.RUN)
    assert told(rig) == [True, False]


def test_a_probe_says_whether_the_lease_is_suspended(rig: Rig) -> None:
    assert not last_commands(rig, Probe)[-1].suspend_lease
    behave(rig, IdleBehavior.HOLD)
    lose_session(rig)
    assert last_commands(rig, Probe)[-1].suspend_lease
    behave(rig, IdleBehavior.RUN)
    rig.advance(60)
    lose_session(rig)
    assert not last_commands(rig, Probe)[-1].suspend_lease


def test_a_hold_while_a_probe_is_under_way_is_told_afterwards(rig: Rig) -> None:
    rig.silent.add(Probe)
    lose_session(rig)
    behave(rig, IdleBehavior.HOLD)
    assert told(rig) == [], "there is nobody to tell"
    probe = last_commands(rig, Probe)[-1]
    assert not probe.suspend_lease
    rig.send(
        ProbeSucceeded(
            op_id=probe.op_id,
            worker_id=probe.worker_id,
            revision=probe.revision,
            began_at=rig.now,
            host_key="ssh-ed25519 AAAA",
            report=ProbeReport(attempts=(), boot_id="b"),
        )
    )
    assert told(rig) == [True]
    assert not last_commands(rig, CloseSession)


# ---- what the dispatcher asks for --------------------------------------------------------------


@pytest.mark.parametrize(
    ("orphan_timeout_s", "interval_s"), [(1800.0, 60.0), (240.0, 60.0), (100.0, 25.0), (1.0, 0.25)]
)
def test_it_is_renewed_several_times_in_its_timeout(
    orphan_timeout_s: float, interval_s: float
) -> None:
    assert renewal_interval_s(orphan_timeout_s) == interval_s


@pytest.mark.parametrize(
    ("command", "faulty"),
    [("", False), ("poweroff", False), ("é", True), ("a\0", True), ("x" * 16_385, True)],
)
def test_a_command_is_what_the_runner_takes(command: str, faulty: bool) -> None:
    assert bool(fault_of_command(command)) is faulty
    if command:
        fields = {"orphan_timeout_s": 60, "power_off": command, "suspended": False}
        if faulty:
            with pytest.raises(Refusal):
                parse_terms(fields)
        else:
            assert parse_terms(fields) == Terms(60.0, command, False)


def test_without_a_command_there_is_no_lease_anywhere(tmp_path: Path) -> None:
    assert first_contact_fragment(1800, "") == ""
    assert parse_terms(None) is None
    settings = link_settings(load_or_create_private_key(tmp_path / "id"))
    renewal = LeaseRenewal("i-1", settings)
    renewal.suspend(suspended=True)
    assert renewal.terms() is None


@pytest.fixture
def ends() -> Iterator[SessionRig]:
    made = SessionRig()
    yield made
    made.close()


def leased(tmp_path: Path, **changes: Any) -> LeaseRenewal:
    values = {"orphan_timeout_s": 0.4, "power_off_command": "poweroff", **changes}
    return LeaseRenewal("i-1", link_settings(load_or_create_private_key(tmp_path / "id"), **values))


def test_a_session_renews_the_lease_as_long_as_it_lives(ends: SessionRig, tmp_path: Path) -> None:
    renewal = leased(tmp_path)
    terms = renewal.terms()
    assert terms is not None
    assert terms.fields() == {
        "orphan_timeout_s": 0.4,
        "power_off": "poweroff",
        "suspended": False,
    }
    session = ends.start()
    began = time.monotonic()
    renewal.begin(session)
    said = [ends.hear() for _ in range(4)]
    assert {(each["type"], each["suspended"]) for each in said} == {("lease", False)}
    assert time.monotonic() - began >= 0.3
    renewal.suspend(suspended=True)
    # A renewal may have been queued before; from now on each says the same.
    while not ends.hear()["suspended"]:
        pass
    assert [ends.hear()["suspended"] for _ in range(3)] == [True] * 3
    renewal.end(session)
    session.close()


def test_the_log_says_when_a_lease_is_suspended_and_when_that_ends(
    ends: SessionRig, tmp_path: Path
) -> None:
    renewal = leased(tmp_path, orphan_timeout_s=600.0)
    session = ends.start()

    def answered(suspended: bool) -> list[tuple[str, str]]:
        """Let the runner confirm the next word on the lease; return what the log says of it."""
        with capture_logs() as lines:
            said = ends.hear()
            assert said["suspended"] is suspended
            ends.say({"type": "reply", "id": said["id"], "ok": True})
            done = threading.Event()
            session.request("list", {}, lambda _reply: done.set())
            ends.say({"type": "reply", "id": ends.hear()["id"], "ok": True})
            assert done.wait(60)
        return [(line["event"], line["instance"]) for line in lines]

    renewal.begin(session)
    assert answered(suspended=False) == [], "that is how it should be"
    renewal.suspend(suspended=True)
    assert answered(suspended=True) == [("the lease is suspended", "i-1")]
    renewal.suspend(suspended=True)
    assert answered(suspended=True) == [], "it is known"
    renewal.suspend(suspended=False)
    assert answered(suspended=False) == [("the lease is in force again", "i-1")]
    renewal.end(session)
    session.close()


def test_a_session_that_has_ended_is_not_renewed(ends: SessionRig, tmp_path: Path) -> None:
    renewal = leased(tmp_path, orphan_timeout_s=0.1)
    session = ends.start()
    renewal.begin(session)
    ends.hear()
    session.close()
    assert renewal._renew() is None
    renewal.end(session)
    renewal.suspend(suspended=True)
    assert renewal._session is None


def test_the_hello_carries_the_lease_and_else_nothing(ends: SessionRig, tmp_path: Path) -> None:
    ends.settings = replace(ends.settings, lease=leased(tmp_path).terms())
    ends.say(HELLO)
    ends.attach()
    assert ends.hear()["lease"] == {
        "orphan_timeout_s": 0.4,
        "power_off": "poweroff",
        "suspended": False,
    }


# ---- when the runner's is due ------------------------------------------------------------------


class Rehearsal(PowerOff):
    """Notes when the command would run."""

    def __init__(self) -> None:
        self.tries: list[int] = []
        self.ends = 0

    def run(self, command: str, number: int) -> None:
        assert command == "poweroff"
        self.tries.append(number)

    def end(self) -> None:
        self.ends += 1


def all_in(directory: Path) -> SpoolPaths:
    path = str(directory)
    return SpoolPaths(path, path, path, path, "name", path)


class Kept:
    """A lease of 100 s on a clock of its own."""

    def __init__(self, directory: Path) -> None:
        self.now = 5000.0
        self.power_off = Rehearsal()
        self.lease = Lease(all_in(directory), self.power_off, lambda: self.now)
        self.lease.agree(Terms(100.0, "poweroff", False))

    def after(self, seconds: float, *, live: bool = False) -> float | None:
        self.now += seconds
        return self.lease.tick(live=live)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_it_is_due_when_the_time_is_up_and_not_before(kept: Kept) -> None:
    assert kept.after(0) == 60.0, "what waits is asked once a minute, for the time it slept"
    assert kept.after(60) == 40.0
    assert kept.after(39.9) == pytest.approx(0.1)
    assert kept.power_off.tries == []
    assert kept.after(0.1) == 60.0
    assert kept.power_off.tries == [1]


def test_tries_come_after_growing_delays_up_to_a_quarter_of_an_hour(kept: Kept) -> None:
    kept.after(100)
    at = [kept.now]
    while len(at) < 8:
        wait_s = kept.after(0)
        assert wait_s is not None
        tries = len(kept.power_off.tries)
        kept.after(wait_s)
        if len(kept.power_off.tries) > tries:
            at.append(kept.now)
    gaps = [after - before for before, after in itertools.pairwise(at)]
    assert gaps == [60, 120, 240, 480, 900, 900, 900]
    kept.lease.contact()
    assert kept.power_off.ends == 1, "a command under way must not power off what is needed again"
    assert kept.after(99.9) is not None
    assert len(kept.power_off.tries) == 8
    kept.after(0.1)
    assert kept.power_off.tries[-1] == 1


def test_the_end_of_the_last_attempt_begins_the_time_anew(kept: Kept) -> None:
    assert kept.after(500, live=True) is None
    assert kept.after(0.9) is not None
    assert kept.after(99.9) is not None
    assert kept.power_off.tries == []
    kept.after(0.1)
    assert kept.power_off.tries == [1]


def test_a_suspended_lease_is_not_kept_and_its_end_is_a_contact(kept: Kept) -> None:
    kept.lease.suspend(suspended=True)
    assert (kept.after(1000), kept.lease.in_force) == (None, False)
    kept.lease.contact()
    kept.lease.suspend(suspended=False)
    assert kept.lease.in_force
    assert kept.after(99) == 1.0
    assert kept.power_off.tries == []


def test_the_next_program_takes_up_what_the_last_one_agreed_to(tmp_path: Path, kept: Kept) -> None:
    kept.lease.suspend(suspended=True)
    again = Lease(all_in(tmp_path), kept.power_off, lambda: kept.now)
    assert again._terms == Terms(100.0, "poweroff", True)
    again.agree(None)
    assert Lease(all_in(tmp_path), kept.power_off, lambda: kept.now)._terms is None
    with pytest.raises(Refusal):
        again.suspend(suspended=True)
