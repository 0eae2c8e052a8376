"""The engine from submission to exit: creating, locking, starting, ending, idling."""

from __future__ import annotations

from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome, Placement, SchedulerSettings
from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    InstanceKillRequested,
    PublishContainer,
)
from longshore.drivers.errors import AmbiguousResult, CapacityError, QuotaError
from longshore.pool.messages import (
    AttemptStarted,
    CreateInstance,
    DestroyInstance,
    Probe,
    ProbeSucceeded,
    ReleaseAttempt,
    SessionLost,
    SignalAttempt,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import ExitKind, IdleBehavior, PoolSettings, ProbeReport
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type


def test_a_container_runs_on_an_instance_made_for_it() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    assert rig.kinds() == ["ListInstances", "CreateInstance", "Probe", "StartAttempt"]
    assert rig.states() == {"c-1": "running"}
    rig.advance(1800)
    rig.exit("c-1-1", 0)
    assert rig.states() == {"c-1": "succeeded"}
    assert rig.containers["c-1"].exit_code == 0
    # 1 GiB of the type's 1.1 is the smaller share; its one cpu is all of it.
    assert rig.containers["c-1"].cost_usd == Decimal("0.0615")
    assert rig.worker_states() == {"i-001": "idle"}


def test_an_idle_instance_is_shut_down_after_idle_timeout_and_forgotten_when_gone() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=60))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.advance(59.9)
    assert rig.worker_states() == {"i-001": "idle"}
    rig.advance(1)
    assert rig.worker_states() == {}
    assert rig.cloud == {}
    assert rig.instances["i-001"].gone_at is not None
    assert rig.launches == {}


def test_a_released_attempt_is_forgotten_by_the_runner_after_its_exit_is_committed() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1", 7)
    assert [c.attempt_id for c in last_commands(rig, ReleaseAttempt)] == ["c-1-1"]
    assert rig.attempts["c-1-1"].log_complete
    assert rig.attempts["c-1-1"].exit_code == 7


@pytest.mark.parametrize(
    ("kind", "code", "state", "reason"),
    [
        (ExitKind.EXITED, 3, "failed", "exit_code"),
        (ExitKind.OUT_OF_MEMORY, 137, "failed", "out_of_memory"),
        (ExitKind.ENGINE_FAILURE, 125, "failed", "engine_failure"),
    ],
)
def test_how_an_attempt_ended_is_told(kind: ExitKind, code: int, state: str, reason: str) -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1", code, kind)
    container = rig.containers["c-1"]
    assert container.state.value == state
    assert container.reason is not None
    assert container.reason.code == reason
    assert container.exit_code == code


def test_a_repeated_exit_is_recorded_once() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1", 0)
    cost = rig.containers["c-1"].cost_usd
    rig.advance(5)
    rig.on_instance["i-001"] = {}
    rig.exit("c-1-1", 9)
    assert rig.containers["c-1"].exit_code == 0
    assert rig.containers["c-1"].cost_usd == cost
    assert rig.engine.table.outcomes["succeeded"] == 1


def test_a_supervisor_without_an_exit_record_is_lost_and_tried_again_up_to_the_limit() -> None:
    settings = SchedulerSettings(max_lost_attempts=3, max_instances=1)
    rig = Rig(make_type(1), settings=settings, pool=PoolSettings(idle_timeout_s=10_000))
    rig.submit(make_container(1))
    for number in range(1, 20):
        rig.exit(f"c-1-{number}", 0, ExitKind.LOST)
        rig.advance(60)
        assert rig.states() == {"c-1": "running"}
    rig.exit("c-1-20", 0, ExitKind.LOST)
    assert rig.states() == {"c-1": "failed"}
    assert {each.outcome for each in rig.attempts.values()} == {AttemptOutcome.LOST}


def test_lost_is_not_tried_again_where_the_user_says_so() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1, retry_lost=False))
    rig.exit("c-1-1", 0, ExitKind.LOST)
    assert rig.states() == {"c-1": "failed"}


def test_packed_containers_share_an_instance_and_pending_ones_are_locked() -> None:
    rig = Rig(make_type(2))
    rig.silent.add(Probe)
    rig.submit(*(make_container(n) for n in (1, 2, 3, 4)))
    assert rig.created_types() == ["t2", "t2"]
    assert set(rig.states().values()) == {"locked"}
    assert rig.engine.scheduling.reason("c-1").code == "instance_coming"  # type: ignore[union-attr]  # it waits


def test_exclusive_placement_gives_each_container_an_instance() -> None:
    rig = Rig(make_type(4), settings=SchedulerSettings(placement=Placement.EXCLUSIVE))
    rig.submit(make_container(1), make_container(2))
    assert rig.started_on() == {"c-1": "i-001", "c-2": "i-002"}


def test_higher_priority_starts_first_and_the_queue_is_first_come_within_one() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1))
    rig.submit(make_container(2, priority=500), make_container(3, priority=900))
    rig.submit(make_container(4, priority=500))
    for attempt, following in (("c-1-1", "c-3"), ("c-3-1", "c-2"), ("c-2-1", "c-4")):
        rig.exit(attempt)
        assert rig.states()[following] == "running"


def test_raising_the_priority_of_a_waiting_container_moves_it_ahead() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1), make_container(2), make_container(3))
    rig.set_priority("c-3", 900)
    rig.exit("c-1-1")
    assert rig.states() == {"c-1": "succeeded", "c-2": "queued", "c-3": "running"}


def test_priority_zero_holds_back_and_ends_what_runs_as_preempted() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1, priority=0), make_container(2))
    assert rig.states() == {"c-1": "queued", "c-2": "running"}
    assert rig.engine.scheduling.reason("c-1").code == "held"  # type: ignore[union-attr]  # it waits
    rig.set_priority("c-2", 0)
    assert [c.signal for c in last_commands(rig, SignalAttempt)] == ["TERM"]
    rig.exit("c-2-1", 143)
    assert rig.attempts["c-2-1"].outcome.value == "preempted"  # type: ignore[union-attr]  # it has ended
    assert rig.states()["c-2"] == "queued"
    rig.set_priority("c-1", 1)
    assert rig.states() == {"c-1": "running", "c-2": "queued"}


def test_cancelling_while_waiting_takes_effect_at_once() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1), make_container(2))
    rig.cancel("c-2")
    assert rig.states() == {"c-1": "running", "c-2": "cancelled"}
    rig.exit("c-1-1")
    assert rig.started_on() == {"c-1": "i-001"}


def test_cancelling_while_running_sends_term_again_and_again_and_then_kill() -> None:
    settings = PoolSettings(signal_interval_s=5, term_timeout_s=20)
    rig = Rig(make_type(1), pool=settings)
    rig.submit(make_container(1))
    rig.cancel("c-1")
    rig.advance(21)
    sent = last_commands(rig, SignalAttempt)
    assert [c.signal for c in sent] == ["TERM"] * 4 + ["KILL"]
    assert [c.grace_s for c in sent] == [20, 15, 10, 5, 0], "what the runner is told is left"
    rig.exit("c-1-1", 137)
    assert rig.states() == {"c-1": "cancelled"}
    assert rig.containers["c-1"].exit_code == 137


def test_a_process_that_survives_kill_drains_its_worker() -> None:
    settings = PoolSettings(signal_interval_s=5, term_timeout_s=20)
    rig = Rig(make_type(1), pool=settings)
    rig.submit(make_container(1))
    rig.cancel("c-1")
    rig.advance(60)
    assert "DestroyInstance" in rig.kinds()
    assert rig.states() == {"c-1": "cancelled"}


def test_cancelling_before_the_start_was_answered_signals_when_it_is() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.cancel("c-1")
    start = last_commands(rig, StartAttempt)[0]
    sent = len(last_commands(rig, SignalAttempt))
    rig.send(AttemptStarted(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1"))
    assert len(last_commands(rig, SignalAttempt)) == sent + 1


def test_a_refused_start_fails_the_container_with_the_runners_words() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    start = last_commands(rig, StartAttempt)[0]
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id="i-001",
            attempt_id="c-1-1",
            code="too_large",
            message="too long",
        )
    )
    assert rig.states() == {"c-1": "failed"}
    assert rig.containers["c-1"].reason.message == "too long"  # type: ignore[union-attr]  # it failed
    assert rig.worker_states() == {"i-001": "idle"}


def test_hold_takes_no_work_and_is_never_shut_down() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    assert dict(rig.cloud["i-001"].tags)["longshore-idle-behavior"] == "hold"
    rig.submit(make_container(2))
    assert rig.started_on()["c-2"] == "i-002"
    rig.exit("c-2-1")
    rig.advance(10_000)
    assert rig.worker_states() == {"i-001": "idle"}
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.RUN))
    rig.advance(1)
    assert rig.worker_states() == {}


def test_drain_lets_work_end_and_then_shuts_down() -> None:
    rig = Rig(make_type(2))
    rig.submit(make_container(1))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    rig.submit(make_container(2))
    assert rig.started_on() == {"c-1": "i-001", "c-2": "i-002"}
    assert rig.worker_states()["i-001"] == "running"
    rig.advance(3)
    rig.exit("c-1-1")
    rig.advance(1)
    assert "i-001" not in rig.worker_states()
    assert rig.states()["c-1"] == "succeeded"


def test_a_booting_instance_drains_at_once() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    assert [c.instance_id for c in last_commands(rig, DestroyInstance)] == ["i-001"]


def test_killing_an_instance_loses_its_attempts_when_the_cloud_says_so() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(DestroyInstance)
    rig.submit(make_container(1))
    rig.advance(3)
    rig.send(InstanceKillRequested(worker_id="i-001", reason="noisy"))
    assert rig.worker_states() == {"i-001": "shutdown"}
    assert rig.states() == {"c-1": "running"}, "only the cloud may say that it is gone"
    del rig.cloud["i-001"]
    rig.advance(11)
    assert rig.attempts["c-1-1"].outcome.value == "lost"  # type: ignore[union-attr]  # it has ended
    assert rig.started_on()["c-1"] == "i-002"


def test_nobody_pays_for_the_time_until_a_loss_is_noticed() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.advance(30)
    last_shown = rig.now
    del rig.cloud["i-001"]
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(400)
    attempt = rig.attempts["c-1-1"]
    assert attempt.outcome is AttemptOutcome.LOST
    assert attempt.finished_at is not None
    assert attempt.finished_at <= last_shown


def test_destroy_is_repeated_until_the_instance_is_gone() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(shutdown_timeout_s=10))
    rig.silent.add(DestroyInstance)
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.advance(60 + 35)
    assert len(last_commands(rig, DestroyInstance)) == 4
    assert rig.worker_states() == {"i-001": "shutdown"}


def test_an_instance_that_never_answers_is_shut_down_after_boot_timeout() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(boot_timeout_s=100))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.advance(99)
    assert rig.worker_states() == {"i-001": "booting"}
    rig.advance(2)
    assert rig.created_types() == ["t1", "t1"]


def test_quota_unlocks_all_but_the_next_in_line_and_frees_idle_instances_of_no_use() -> None:
    rig = Rig(make_type(1), make_type(2), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1, cpus=1))
    rig.advance(3)
    rig.exit("c-1-1")
    assert rig.worker_states() == {"i-001": "idle"}
    rig.submit(make_container(2, cpus=2), make_container(3, cpus=2))
    assert rig.states() == {"c-1": "succeeded", "c-2": "queued", "c-3": "queued"}
    rig.advance(1)
    assert rig.created_types() == ["t1", "t2"]
    assert rig.states() == {"c-1": "succeeded", "c-2": "running", "c-3": "queued"}
    assert rig.engine.scheduling.reason("c-3").code == "at_quota"  # type: ignore[union-attr]  # it waits


def test_a_quota_error_holds_creates_until_quota_hold_ends() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(quota_hold_s=60))
    rig.create_error = lambda _command: QuotaError("20 instances at most")
    rig.submit(make_container(1))
    rig.advance(59)
    assert len(last_commands(rig, CreateInstance)) == 1
    rig.create_error = lambda _command: None
    rig.advance(2)
    assert rig.states() == {"c-1": "running"}


def test_after_a_quota_error_one_create_at_a_time_is_tried_and_claims_stay() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(quota_hold_s=60))
    rig.create_error = lambda _command: QuotaError("none at all")
    rig.submit(*(make_container(number) for number in range(1, 6)))
    assert len(last_commands(rig, CreateInstance)) == 5, "nobody knew better"
    commits = len(rig.published)
    rig.advance(600)
    assert len(last_commands(rig, CreateInstance)) == 5 + 10
    assert set(rig.states().values()) == {"queued"}, "there is nothing that could leave"
    told = rig.published[commits:]
    assert {each.container.id for each in told if isinstance(each, PublishContainer)} == {"c-1"}
    assert len(told) == 2 * 10, "its claim on what is tried is all that is given and taken back"
    rig.create_error = lambda _command: None
    rig.advance(60)
    assert set(rig.states().values()) == {"running"}


def test_a_type_at_capacity_is_skipped_and_a_dearer_one_taken() -> None:
    rig = Rig(make_type(1), make_type(2), settings=SchedulerSettings(max_price_factor=2))
    rig.create_error = lambda command: (
        CapacityError("none left") if command.launch.type_name == "t1" else None
    )
    rig.submit(make_container(1))
    assert rig.created_types() == ["t1", "t2"]
    assert rig.states() == {"c-1": "running"}


def test_an_ambiguous_create_is_not_repeated_before_a_listing_decided() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: AmbiguousResult("time-out")
    rig.submit(make_container(1))
    assert len(last_commands(rig, CreateInstance)) == 1
    token = next(iter(rig.launches))
    made = rig.boot("t1", longshore_token=token)
    rig.create_error = lambda _command: None
    rig.advance(2)
    assert rig.started_on() == {"c-1": made}
    assert len(last_commands(rig, CreateInstance)) == 1


def test_a_create_that_no_listing_shows_is_given_up_and_another_is_made() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: AmbiguousResult("time-out")
    rig.submit(make_container(1))
    rig.create_error = lambda _command: None
    rig.advance(15)
    assert rig.states() == {"c-1": "running"}
    assert len(last_commands(rig, CreateInstance)) == 2


def test_a_broken_worker_gets_no_more_work_and_is_drained() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    probe = last_commands(rig, Probe)[0]
    rig.silent.discard(Probe)
    rig.send(
        ProbeSucceeded(
            op_id=probe.op_id,
            worker_id="i-001",
            revision=probe.revision,
            began_at=rig.now,
            host_key="k",
            report=ProbeReport(attempts=(), boot_id="b", broken="disk is read-only"),
        )
    )
    assert [c.instance_id for c in last_commands(rig, DestroyInstance)] == ["i-001"]
    assert rig.started_on() == {"c-1": "i-002"}
