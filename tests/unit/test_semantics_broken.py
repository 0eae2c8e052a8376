"""Broken workers, by their own word and by our verdict, and attempts that do not end."""

from __future__ import annotations

from longshore.pool.messages import BrokenReported, Probe, StartAttempt, StartRefused
from longshore.pool.model import IdleBehavior
from tests.rigs.semantics import WorkerRig, rig_of, running, signals
from tests.samples import make_container


def complain(rig: WorkerRig, message: str, worker_id: str = "i-001") -> None:
    rig.complaints[worker_id] = message
    rig.send(BrokenReported(worker_id=worker_id, message=message))


def refuse(rig: WorkerRig) -> None:
    start = rig.last(StartAttempt)
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id=start.worker_id,
            attempt_id=start.order.attempt_id,
            code="spawn",
            message="no",
        )
    )


# ---- broken --------------------------------------------------------------------------------------


def test_a_broken_worker_drains_when_its_hold_ends() -> None:
    rig = running(cpus=2)
    rig.behave("i-001", IdleBehavior.HOLD)
    rig.exit("c-1-1")
    complain(rig, "disk")
    rig.submit(make_container(2))
    rig.advance(500)
    assert rig.state("i-001") == "idle"
    assert rig.states()["c-2"] == "queued"
    rig.behave("i-001", IdleBehavior.RUN)
    assert rig.state("i-001") == "shutdown"


def test_a_held_worker_that_was_mended_works_again() -> None:
    rig = running(cpus=2)
    rig.behave("i-001", IdleBehavior.HOLD)
    rig.exit("c-1-1")
    complain(rig, "disk")
    complain(rig, "")
    assert rig.worker("i-001").health.broken_at == 0.0
    rig.submit(make_container(2))
    rig.behave("i-001", IdleBehavior.RUN)
    assert rig.states()["c-2"] == "running"
    whys = [getattr(p, "reason", "") for p in rig.published]
    assert "it reports that it is no longer broken" in whys


def test_a_worker_that_was_mended_while_its_session_was_lost_works_again() -> None:
    rig = running(cpus=2)
    complain(rig, "disk")
    rig.complaints["i-001"] = ""
    rig.lose_session("i-001")
    rig.submit(make_container(2))
    assert rig.started_on()["c-2"] == "i-001"


def test_while_a_session_lives_its_heartbeats_say_what_is_broken() -> None:
    rig = running(cpus=2)
    rig.behave("i-001", IdleBehavior.HOLD)
    complain(rig, "disk")
    rig.complaints["i-001"] = ""
    probes = rig.count(Probe)
    rig.advance(15)
    assert rig.count(Probe) == probes + 1, "the one that voids the secret"
    assert rig.worker("i-001").health.broken == "disk", "a list may be older than a heartbeat"


def test_our_own_verdict_stays_whatever_the_worker_says() -> None:
    rig = running(cpus=2)
    rig.silent.add(StartAttempt)
    rig.submit(make_container(2))
    for _ in range(3):
        refuse(rig)
    verdict = rig.worker("i-001").health.broken
    assert verdict == "3 starts in a row were refused: no"
    complain(rig, "disk")
    complain(rig, "")
    assert rig.worker("i-001").health.broken == verdict
    assert rig.count(StartAttempt) == 4, "no more work"


# ---- kill ----------------------------------------------------------------------------------------


def test_term_every_signal_interval_until_term_timeout_then_kill_then_drain() -> None:
    rig = running(cpus=2)
    rig.submit(make_container(2))
    rig.cancel("c-1")
    rig.advance(19)
    assert signals(rig) == ["TERM"] * 4
    rig.advance(100)
    assert signals(rig)[:9] == ["TERM"] * 4 + ["KILL"] * 5, "it is never given up silently"
    assert rig.worker("i-001").health.broken == "attempt c-1-1 survives KILL"
    assert rig.state("i-001") == "running", "another attempt runs there"
    rig.exit("c-2-1")
    assert rig.state("i-001") == "shutdown"


def test_a_stray_that_survives_kill_drains_its_worker_too() -> None:
    rig = rig_of()
    made = rig.boot("t1")
    rig.run_on(made, "c-9-1")
    rig.advance(3)
    assert rig.state(made) == "running"
    rig.advance(36)
    assert rig.state(made) == "shutdown"
    assert signals(rig) == ["TERM"] * 4 + ["KILL"] * 4
    whys = [getattr(p, "reason", "") for p in rig.published]
    assert "it is broken: attempt c-9-1 survives KILL" in whys


def test_a_session_that_flaps_does_not_use_up_the_kills() -> None:
    rig = running()
    rig.cancel("c-1")
    rig.advance(20)
    sent = signals(rig)
    assert sent[-1] == "KILL"
    for _ in range(10):
        rig.advance(0.4)
        rig.lose_session("i-001")
    assert signals(rig) == sent
    assert rig.worker("i-001").health.broken == ""
