"""What reviews and planted faults once found in the engine, each by the sequence that showed it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.drivers.errors import QuotaError, RateLimitError
from longshore.pool.messages import (
    AttemptExited,
    Created,
    CreateInstance,
    DestroyInstance,
    Probe,
    ReleaseAttempt,
    SessionLost,
    SignalAttempt,
    StartAttempt,
    StartRefused,
    StartUnknown,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, InstanceSeen, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)


def test_a_changed_and_changed_back_priority_starts_a_container_once() -> None:
    rig = Rig(make_type(2), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1, cpus=2), make_container(2), make_container(3))
    rig.set_priority("c-3", 400)
    rig.set_priority("c-3", 500)
    rig.cancel("c-2")
    rig.exit("c-1-1")
    assert sorted(rig.attempts) == ["c-1-1", "c-3-1"]


def test_a_proven_instance_that_was_missing_for_a_while_is_trusted_again() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    seen = rig.cloud.pop("i-001")
    rig.advance(61)
    rig.cloud["i-001"], rig.on_instance["i-001"] = seen, {}
    rig.advance(61)
    probe = [c for c in last_commands(rig, Probe) if c.worker_id == "i-001"][-1]
    assert probe.host_key == "ssh-ed25519 AAAA"


def test_a_create_whose_answer_carries_no_tags_yet_is_still_known_by_its_token() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    create = last_commands(rig, CreateInstance)[0]
    bare = InstanceSeen(id="i-7", address="a:22", tags=())
    rig.cloud["i-7"] = replace(bare, tags=create.tags)
    rig.on_instance["i-7"] = {}
    rig.send(Created(op_id=create.op_id, token=create.launch.token, instance=bare))
    assert last_commands(rig, Probe)[0].secret == "secret"  # noqa: S105 - the rig's launch secret
    assert rig.started_on() == {"c-1": "i-7"}


def test_what_never_started_is_queued_again_even_where_lost_is_not_tried_again() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1, retry_lost=False))
    rig.silent.clear()
    rig.crash()
    assert rig.attempts["c-1-1"].reason.code == "never_started"  # type: ignore[union-attr]  # it has ended
    assert rig.states() == {"c-1": "running"}


def test_what_is_being_preempted_goes_back_to_the_queue_even_when_its_instance_goes() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1, retry_lost=False))
    rig.set_priority("c-1", 0)
    rig.advance(3)
    rig.cloud.clear()
    rig.advance(63)
    assert rig.engine.table.outcomes["preempted"] == 1
    assert rig.states() == {"c-1": "queued"}


def test_a_type_that_is_no_longer_configured_keeps_its_price_in_the_books() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    del rig.types["t1"]
    rig.types["t2"] = make_type(2)
    rig.crash()
    assert rig.instances["i-001"].type_name == "t1"
    rig.advance(1800)
    rig.exit("c-1-1")
    assert rig.containers["c-1"].cost_usd > 0


def test_an_exit_found_hours_later_is_told_as_it_was_and_paid_as_long_as_it_had_its_place() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    how = AttemptExit(kind=ExitKind.EXITED, code=0, started_at=5000.0, finished_at=8600.0)
    rig.on_instance["i-001"]["c-1-1"] = AttemptReport(
        attempt_id="c-1-1", container_id="c-1", exit=how
    )
    rig.now += 36_000
    rig.crash()
    attempt = rig.attempts["c-1-1"]
    assert attempt.finished_at is not None
    assert attempt.started_at is not None
    assert attempt.finished_at - attempt.started_at == 3600.0
    cost = rig.containers["c-1"].cost_usd
    assert Decimal("1.23") <= cost < Decimal("1.24"), "nobody else could have its place"


def test_a_held_back_container_is_not_locked_after_a_crash() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    assert rig.states() == {"c-1": "locked"}
    rig.containers["c-1"] = replace(rig.containers["c-1"], priority=0)
    rig.crash()
    assert rig.states() == {"c-1": "queued"}


def test_an_idle_instance_that_reconnects_is_not_shut_down_under_its_claim() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.silent.add(Probe)
    rig.advance(50)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.submit(make_container(2))
    rig.advance(30)
    assert rig.states()["c-2"] == "locked"
    probe = last_commands(rig, Probe)[-1]
    rig.silent.clear()
    rig.probe_now(probe)
    rig.settle()
    assert rig.started_on()["c-2"] == "i-001"


def test_nothing_overtakes_the_journal_while_the_store_lags() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.store_lags = True
    rig.exit("c-1-1")
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    assert last_commands(rig, ReleaseAttempt) == [], "its exit is not committed yet"
    assert "c-1-1" in rig.on_instance["i-001"]
    rig.crash()
    rig.exit("c-1-1")
    assert rig.states() == {"c-1": "succeeded"}
    assert len(rig.attempts) == 1, "what succeeded does not run again"


def test_commands_without_changes_wait_their_turn_behind_a_commit() -> None:
    rig = Rig(make_type(1), make_type(2))
    rig.store_lags = True
    rig.submit(make_container(1))
    rig.advance(61)
    assert rig.kinds() == ["ListInstances"], "the next listing waits behind the launch's journal"
    rig.commit()
    assert rig.kinds()[:3] == ["ListInstances", "CreateInstance", "ListInstances"]


def test_priority_zero_survives_a_crash() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.set_priority("c-1", 0)
    rig.crash()
    assert [c.signal for c in last_commands(rig, SignalAttempt)] == ["TERM"]
    rig.exit("c-1-1", 143)
    assert rig.states() == {"c-1": "queued"}
    assert rig.engine.table.outcomes["preempted"] == 1


def test_a_cancelled_attempt_gets_term_before_kill_after_a_crash_too() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(term_timeout_s=20))
    rig.submit(make_container(1))
    rig.cancel("c-1")
    rig.advance(19)
    rig.crash()
    rig.advance(1)
    assert {c.signal for c in last_commands(rig, SignalAttempt)} == {"TERM"}


def test_an_instance_that_no_listing_shows_yet_is_not_gone() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(sync_interval_s=5))
    rig.submit(make_container(1))
    hidden = rig.cloud.pop("i-001")
    rig.advance(20)
    assert rig.worker_states() == {"i-001": "running"}
    rig.cloud["i-001"] = hidden
    rig.advance(60)
    assert rig.states() == {"c-1": "running"}
    assert len(rig.attempts) == 1


def test_an_instance_that_shows_late_can_still_prove_its_key() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(sync_interval_s=5))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    hidden = rig.cloud.pop("i-001")
    rig.advance(40)
    assert "i-001" not in rig.worker_states()
    rig.cloud["i-001"] = hidden
    rig.advance(10)
    probe = [c for c in last_commands(rig, Probe) if c.worker_id == "i-001"][-1]
    assert probe.secret == "secret"  # noqa: S105 - the rig's launch secret


def test_what_a_stale_probe_shows_running_is_not_taken_for_a_stray() -> None:
    rig = Rig(make_type(2))
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    stale = last_commands(rig, Probe)[-1]
    shown = dict(rig.on_instance["i-001"])
    rig.exit("c-1-1")
    rig.on_instance["i-001"] = shown
    rig.probe_now(stale)
    assert last_commands(rig, SignalAttempt) == []
    assert "c-1-1" not in rig.engine.pool.attempts


def test_a_log_that_its_instance_no_longer_has_is_given_up() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    how = AttemptExit(kind=ExitKind.EXITED, code=0, stdout_bytes=10)
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=how))
    assert rig.engine.table.unreleased.keys() == {"c-1-1"}
    rig.on_instance["i-001"].clear()
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="rebooted"))
    assert rig.engine.table.unreleased == {}
    assert not rig.attempts["c-1-1"].log_complete
    rig.advance(61)
    assert rig.worker_states() == {}


def test_an_instance_on_which_nothing_starts_is_drained_and_fails_nobody() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.advance(3)
    for number in (1, 2, 3):
        start = last_commands(rig, StartAttempt)[-1]
        assert start.order.attempt_id == f"c-1-{number}"
        rig.send(
            StartRefused(
                op_id=start.op_id,
                worker_id=start.worker_id,
                attempt_id=start.order.attempt_id,
                code="spawn",
                message="no space left on device",
            )
        )
    assert [c.instance_id for c in last_commands(rig, DestroyInstance)] == ["i-001"]
    rig.advance(2)
    assert last_commands(rig, StartAttempt)[-1].worker_id == "i-002"


def test_each_cause_of_a_hold_holds_on_its_own() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=5))
    rig.submit(make_container(1))
    errors = [RateLimitError("slow down", retry_after_s=300.0), QuotaError("full")]
    rig.create_error = lambda _command: errors.pop(0) if errors else None
    rig.submit(make_container(2), make_container(3))
    assert errors == []
    rig.exit("c-1-1")
    rig.advance(200)
    assert len(last_commands(rig, CreateInstance)) == 3, "the rate limit holds on"


def reason_of(rig: Rig, container_id: str) -> tuple[str, str]:
    reason = rig.containers[container_id].reason
    assert reason is not None
    return rig.states()[container_id], reason.message


def test_what_is_cancelled_while_it_runs_says_so_though_its_instance_is_gone() -> None:
    rig = Rig()
    rig.submit(make_container(1))
    rig.advance(10)
    rig.cancel("c-1")
    rig.cloud.clear()
    rig.advance(61)
    said = "cancelled while it ran; its instance i-001 is gone (the cloud no longer lists it)"
    assert reason_of(rig, "c-1") == ("cancelled", said)


def test_what_is_cancelled_while_nobody_knows_whether_it_runs_says_so() -> None:
    rig = Rig()
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.advance(10)
    rig.cancel("c-1")
    rig.cloud.clear()
    rig.advance(61)
    said = (
        "cancelled, and nobody knows whether it ran; its instance i-001 is gone "
        "(the cloud no longer lists it)"
    )
    assert reason_of(rig, "c-1") == ("cancelled", said)


def test_what_never_began_is_cancelled_before_it_ran() -> None:
    rig = Rig()
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.cancel("c-1")
    start = last_commands(rig, StartAttempt)[0]
    rig.send(StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="?"))
    assert reason_of(rig, "c-1") == ("cancelled", "cancelled before it ran")
