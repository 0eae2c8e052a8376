"""What guards attempts: stale answers, repeated exits, logs on their way, useless kills."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import Placement, SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested, PublishInstance
from longshore.pool.messages import (
    AttemptExited,
    AttemptStarted,
    DestroyInstance,
    LogComplete,
    Probe,
    ReleaseAttempt,
    SessionLost,
    SignalAttempt,
    StartAttempt,
    StartRefused,
    StartUnknown,
)
from longshore.pool.model import (
    AttemptExit,
    AttemptReport,
    ExitKind,
    IdleBehavior,
    PoolSettings,
    Worker,
)
from tests.rigs.engine import CommandKind, Rig, last_commands
from tests.samples import make_container, make_type

SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)


def last(rig: Rig, kind: type[CommandKind]) -> CommandKind:
    """Return the latest command of one kind."""
    return last_commands(rig, kind)[-1]


def count(rig: Rig, kind: type[CommandKind]) -> int:
    return len(last_commands(rig, kind))


def worker_of(rig: Rig, worker_id: str = "i-001") -> Worker:
    return rig.engine.pool.workers[worker_id]


def lose_session(rig: Rig, worker_id: str = "i-001") -> None:
    rig.send(SessionLost(worker_id=worker_id, last_contact=rig.now, reason="reset"))


def started(rig: Rig) -> Rig:
    """Submit container 1, which runs on i-001 then."""
    rig.submit(make_container(1))
    assert rig.states()["c-1"] == "running"
    return rig


def refuse(rig: Rig, start: StartAttempt, *, code: str) -> None:
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id=start.worker_id,
            attempt_id=start.order.attempt_id,
            code=code,
            message="no",
        )
    )


# ---- results of starts ---------------------------------------------------------------------------


def unanswered(*, cpus: int = 1) -> tuple[Rig, StartAttempt]:
    """Return a rig with a start on i-001 that nobody has answered."""
    rig = Rig(make_type(cpus))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.silent.discard(StartAttempt)
    return rig, last(rig, StartAttempt)


@pytest.mark.parametrize("kind", [AttemptStarted, StartRefused, StartUnknown])
def test_a_start_result_of_another_operation_is_dropped(
    kind: type[AttemptStarted | StartRefused | StartUnknown],
) -> None:
    rig, start = unanswered()
    fields = {"op_id": start.op_id + 1000, "worker_id": "i-001", "attempt_id": "c-1-1"}
    if kind is not AttemptStarted:
        fields["message"] = "late"
    if kind is StartRefused:
        fields["code"] = "engine"
    rig.send(kind(**fields))  # type: ignore[arg-type]  # the fields of all three, by name
    assert rig.states() == {"c-1": "locked"}
    assert rig.engine.pool.attempts["c-1-1"].start_op == start.op_id
    assert count(rig, Probe) == 1


def test_an_exit_settles_a_start_so_that_its_late_answer_is_dropped() -> None:
    rig, start = unanswered()
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=SUCCESS))
    late = StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="late")
    rig.send(late)
    assert count(rig, Probe) == 1
    assert rig.states() == {"c-1": "succeeded"}


def test_an_unanswered_start_that_a_probe_does_not_find_is_begun_anew() -> None:
    rig, start = unanswered()
    rig.send(StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="?"))
    assert rig.attempts["c-1-1"].reason.code == "never_started"  # type: ignore[union-attr]  # it has ended
    assert last(rig, StartAttempt).order.attempt_id == "c-1-2"
    assert rig.states() == {"c-1": "running"}


def test_a_probe_from_before_a_start_was_given_up_does_not_say_that_it_is_missing() -> None:
    rig, start = unanswered()
    rig.silent.add(Probe)
    lose_session(rig)
    before = last(rig, Probe)
    rig.send(StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="?"))
    rig.probe_now(before)
    assert rig.attempts["c-1-1"].outcome is None


def test_an_attempt_whose_start_is_in_flight_is_not_missing() -> None:
    rig, _ = unanswered()
    lose_session(rig)
    assert rig.attempts["c-1-1"].outcome is None
    assert rig.states() == {"c-1": "locked"}


def test_what_was_placed_after_a_probe_began_is_not_missing_from_it() -> None:
    rig, start = unanswered(cpus=2)
    rig.silent.add(Probe)
    rig.send(StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="?"))
    stale = last(rig, Probe)
    reports = dict(rig.on_instance["i-001"])
    rig.submit(make_container(2))
    assert rig.states()["c-2"] == "running"
    rig.on_instance["i-001"] = reports
    rig.probe_now(stale)
    assert rig.attempts["c-2-1"].outcome is None


def test_a_refused_start_is_forgotten_and_lets_a_draining_worker_go() -> None:
    rig, start = unanswered()
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    rig.silent.add(DestroyInstance)
    refuse(rig, start, code="invalid")
    assert rig.engine.pool.attempts == {}
    assert rig.worker_states() == {"i-001": "shutdown"}


def test_refusals_for_a_cause_in_the_request_say_nothing_of_the_instance() -> None:
    rig = Rig(make_type(4))
    rig.silent.add(StartAttempt)
    rig.submit(*(make_container(n) for n in (1, 2, 3, 4)))
    for start in last_commands(rig, StartAttempt)[:3]:
        refuse(rig, start, code="invalid")
    assert worker_of(rig).health.broken == ""
    assert set(rig.states().values()) == {"failed", "locked"}


def test_a_start_that_works_ends_a_row_of_refusals() -> None:
    rig = Rig(make_type(8))
    rig.silent.add(StartAttempt)
    rig.submit(*(make_container(n) for n in range(1, 9)))
    starts = last_commands(rig, StartAttempt)
    for start in (starts[0], starts[1]):
        refuse(rig, start, code="engine")
    rig.start_now(starts[2])
    rig.settle()
    refuse(rig, starts[3], code="engine")
    refuse(rig, starts[4], code="engine")
    assert worker_of(rig).health.broken == ""
    rig.published.clear()
    refuse(rig, starts[5], code="engine")
    assert "3 starts in a row" in worker_of(rig).health.broken
    assert [p.worker_id for p in rig.published if isinstance(p, PublishInstance)][:1] == ["i-001"]


# ---- exits, logs, releases -----------------------------------------------------------------------


def test_a_complete_log_without_an_exit_releases_nothing() -> None:
    rig = started(Rig())
    rig.send(LogComplete(worker_id="i-001", attempt_id="c-1-1"))
    assert count(rig, ReleaseAttempt) == 0
    assert "c-1-1" in rig.engine.pool.attempts


def test_an_idle_worker_is_kept_until_its_log_is_here_but_not_for_ever() -> None:
    pool = PoolSettings(sync_interval_s=100_000, idle_timeout_s=60, probe_timeout_s=300)
    rig = started(Rig(pool=pool))
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=SUCCESS))
    rig.advance(299)
    assert rig.worker_states() == {"i-001": "idle"}
    rig.silent.add(DestroyInstance)
    rig.advance(1)
    assert rig.worker_states() == {"i-001": "shutdown"}


@pytest.mark.parametrize("worker_id", ["i-001", "i-999"])
def test_an_exit_of_an_unknown_attempt_is_released_where_the_worker_is_known(
    worker_id: str,
) -> None:
    rig = started(Rig())
    rig.send(AttemptExited(worker_id=worker_id, attempt_id="c-9-1", exit=SUCCESS))
    assert count(rig, ReleaseAttempt) == (1 if worker_id == "i-001" else 0)


def test_an_ended_stranger_that_a_probe_finds_is_released() -> None:
    rig = started(Rig(make_type(2)))
    rig.on_instance["i-001"]["c-9-1"] = AttemptReport(
        attempt_id="c-9-1", container_id="c-9", exit=SUCCESS
    )
    lose_session(rig)
    assert [c.attempt_id for c in last_commands(rig, ReleaseAttempt)] == ["c-9-1"]


def test_nothing_is_remembered_of_attempts_that_are_over() -> None:
    rig = started(Rig())
    rig.exit("c-1-1")
    assert rig.engine.pool.attempts == {}
    rig.on_instance["i-001"]["c-9-1"] = AttemptReport(attempt_id="c-9-1", container_id="c-9")
    lose_session(rig)
    assert rig.worker_states() == {"i-001": "running"}
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-9-1", exit=SUCCESS))
    assert rig.engine.pool.attempts == {}
    assert rig.worker_states() == {"i-001": "idle"}


def test_a_worker_is_busy_until_its_last_attempt_ends() -> None:
    rig = Rig(make_type(2))
    rig.submit(make_container(1), make_container(2))
    rig.advance(7)
    rig.exit("c-1-1")
    assert rig.worker_states() == {"i-001": "running"}
    rig.exit("c-2-1")
    worker = worker_of(rig)
    assert (worker.state.value, worker.load.last_busy, worker.load.last_container) == (
        "idle",
        rig.now,
        "c-2",
    )


def test_a_placed_attempt_makes_its_worker_the_most_recently_busy() -> None:
    rig = started(Rig(make_type(2)))
    rig.advance(100)
    rig.submit(make_container(2))
    assert worker_of(rig).load.last_busy == rig.now


def test_the_record_of_an_attempt_has_its_times_and_sizes() -> None:
    rig = started(Rig())
    began = rig.now
    rig.advance(90)
    how = AttemptExit(kind=ExitKind.EXITED, code=0, stdout_bytes=11, stderr_bytes=22)
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=how))
    attempt = rig.attempts["c-1-1"]
    assert (attempt.started_at, attempt.finished_at) == (began, began + 90)
    assert (attempt.stdout_bytes, attempt.stderr_bytes) == (11, 22)


def test_logs_of_a_gone_instance_are_awaited_no_more_and_those_of_others_are() -> None:
    rig = Rig(settings=SchedulerSettings(placement=Placement.EXCLUSIVE))
    rig.submit(make_container(1), make_container(2))
    for number in (1, 2):
        event = AttemptExited(worker_id=f"i-00{number}", attempt_id=f"c-{number}-1", exit=SUCCESS)
        rig.send(event)
    rig.advance(3)
    del rig.cloud["i-001"]
    rig.advance(63)
    assert list(rig.engine.table.unreleased) == ["c-2-1"]


# ---- ending attempts -----------------------------------------------------------------------------

QUICK_KILL = PoolSettings(signal_interval_s=5, term_timeout_s=20)


def test_a_second_wish_to_end_an_attempt_does_not_put_off_its_kill() -> None:
    rig = started(Rig(pool=QUICK_KILL))
    rig.set_priority("c-1", 0)
    rig.advance(15)
    rig.cancel("c-1")
    rig.advance(5)
    assert last(rig, SignalAttempt).signal == "KILL"


def test_four_kills_go_out_before_a_worker_is_given_up() -> None:
    rig = started(Rig(pool=QUICK_KILL))
    rig.silent.add(DestroyInstance)
    rig.cancel("c-1")
    while not count(rig, DestroyInstance):
        rig.advance(1)
    sent = [c.signal for c in last_commands(rig, SignalAttempt)]
    assert sent.count("KILL") == 4
    assert rig.now == 1000 + 20 + 3 * 5


def test_a_kill_that_cannot_have_arrived_is_no_reason_to_give_the_worker_up() -> None:
    rig = started(Rig(pool=QUICK_KILL))
    rig.silent.add(Probe)
    lose_session(rig)
    rig.cancel("c-1")
    rig.advance(100)
    assert rig.worker_states() == {"i-001": "running"}
    signals = count(rig, SignalAttempt)
    rig.advance(3)
    assert count(rig, SignalAttempt) == signals
    rig.probe_now(last(rig, Probe))
    rig.settle()
    assert count(rig, SignalAttempt) == signals + 1, "at once when there is a session again"


def test_a_survivor_of_kill_does_not_take_its_neighbours_with_it() -> None:
    rig = Rig(make_type(2), pool=QUICK_KILL)
    rig.submit(make_container(1), make_container(2))
    rig.cancel("c-1")
    rig.advance(120)
    assert rig.worker_states() == {"i-001": "running"}
    rig.submit(make_container(3))
    assert rig.started_on()["c-3"] == "i-002", "no more work for a broken worker"
    rig.exit("c-2-1")
    rig.advance(5)
    assert "i-001" not in rig.worker_states()


def test_what_was_preempted_once_is_judged_by_its_exit_the_next_time() -> None:
    rig = started(Rig(settings=SchedulerSettings(max_lost_attempts=2)))
    for number in (1, 2, 3):
        rig.set_priority("c-1", 0)
        rig.exit(f"c-1-{number}", 143)
        rig.set_priority("c-1", 500)
    rig.exit("c-1-4", 0, ExitKind.LOST)
    rig.advance(1)
    assert rig.states() == {"c-1": "running"}, "being preempted uses up no lost attempt"
    rig.exit("c-1-5", 0)
    assert rig.states() == {"c-1": "succeeded"}
