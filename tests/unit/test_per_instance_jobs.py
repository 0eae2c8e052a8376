"""System and sysbatch jobs through the engine: the scenarios of the design's semantics, §4."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Retries,
    SchedulerSettings,
    StopCause,
    StopReason,
)
from longshore.dispatcher.domain.jobs import JobType, UpdateStrategy
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.dispatcher.explain.explanation import explain
from longshore.drivers.interface import InstanceType
from longshore.pool.messages import SessionLost
from longshore.pool.model import AttemptReport, IdleBehavior, PoolSettings
from tests.rigs.per_instance_jobs import FOO, LONG, DaemonRig, daemon
from tests.samples import make_container, make_type


def test_system_on_ten_instances_then_an_eleventh_boots() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=10)
    rig.submit_daemon(daemon())
    assert len(rig.starts()) == 10
    rig.join()
    assert len(rig.starts()) == 1
    assert {c.state.value for c in rig.of_job("j-1")} == {"running"}
    assert rig.jobs["j-1"].state.value == "running"


def test_instances_labelled_none_foo_foo_and_foo_but_held_take_two() -> None:
    labelled = make_type(1, name="foo", labels=(("foo", "yes"),))
    rig = DaemonRig(make_type(1), labelled, pool=LONG)
    rig.join("t1")
    first, second = rig.join("foo", 2)
    rig.join("foo", longshore_idle_behavior="hold")
    rig.submit_daemon(daemon(constraints=FOO))
    assert sorted(where for _, where in rig.starts()) == [first, second]
    assert [c.state.value for c in rig.of_job("j-1")] == ["running", "running"], "none is queued"


def test_a_system_attempt_that_exits_is_placed_again_there_and_linked() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    (where,) = rig.join()
    rig.submit_daemon(daemon(retries=Retries(delay_s=15)))
    ((first, _),) = rig.starts()
    rig.exit(first)
    ((second, again),) = rig.starts()
    assert again == where
    assert second.rpartition("-")[0] == first.rpartition("-")[0], "the container is the same"
    rig.exit(second, code=3)
    assert rig.starts() == [], "the second restart waits"
    (container,) = rig.of_job("j-1")
    reason = rig.engine.why_waiting(container.id)
    assert reason is not None
    assert reason.code == "restart_delay"
    assert reason.message.endswith("ended: it exited with 3")
    told = explain(rig.view, container, rig.now)
    assert told.waiting is not None
    assert told.waiting.estimate.earliest_s == 15, "as it says, whatever is full elsewhere"
    rig.advance(15)
    assert len(rig.starts()) == 1


def test_a_sysbatch_attempt_that_fails_is_left_alone_until_its_env_changes() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(type_=JobType.SYSBATCH))
    ((first, _),) = rig.starts()
    rig.exit(first, code=1)
    rig.advance(300)
    assert rig.starts() == []
    assert rig.containers[first.rpartition("-")[0]].state.value == "failed"
    rig.revise("j-1", env=(("A", "1"),))
    assert len(rig.starts()) == 1


def test_a_sysbatch_that_succeeded_is_not_run_again_after_a_restart() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(type_=JobType.SYSBATCH))
    ((first, _),) = rig.starts()
    rig.exit(first)
    rig.crash()
    rig.advance(100)
    assert rig.starts() == []
    rig.join()
    assert len(rig.starts()) == 1, "who joins late gets it"


def test_ten_instances_are_updated_five_at_a_time() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=10)
    rig.submit_daemon(daemon(update=UpdateStrategy(max_parallel=5, stagger_s=30)))
    rig.starts()
    rig.revise("j-1", env=(("A", "1"),))
    assert len(rig.starts()) == 5
    rig.advance(29)
    assert rig.starts() == []
    rig.advance(1)
    assert len(rig.starts()) == 5
    rig.advance(300)
    assert rig.starts() == [], "there is no third round"
    assert {c.attempts[-1].revision for c in rig.engine.table.containers.values()} == {2}


def test_labels_are_updated_in_place() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon())
    ((first, _),) = rig.starts()
    rig.revise("j-1", labels=(("a", "b"),))
    assert rig.starts() == []
    (container,) = rig.of_job("j-1")
    assert container.spec.labels == (("a", "b"),)
    assert rig.attempts[first].revision == 2
    assert rig.attempts[first].outcome is None


def test_two_full_instances_are_two_blocked_entries_and_freeing_one_places_there_only() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.submit(make_container(1, cpus=1))
    rig.submit(make_container(2, cpus=1))
    rig.advance(60)
    rig.starts()
    rig.submit_daemon(daemon())
    assert rig.starts() == []
    waiting = rig.of_job("j-1")
    assert [c.state.value for c in waiting] == ["queued", "queued"]
    reasons = [rig.engine.why_waiting(c.id) for c in waiting]
    assert all(reason is not None for reason in reasons)
    freed = rig.engine.table.containers["c-2"].attempts
    rig.exit(freed[-1].id)
    ((_, where),) = rig.starts()
    assert where == freed[-1].instance_id


def big(shares: int) -> InstanceType:
    """Return a type of so many thousandths of a cpu."""
    type_ = make_type(4, name="big")
    return replace(type_, resources=replace(type_.resources, cpu_millis=shares))


def test_three_of_lower_priority_are_evicted_and_the_last_stays() -> None:
    rig = DaemonRig(big(3072), pool=LONG, settings=SchedulerSettings(max_instances=1))
    for number, (priority, cpus) in enumerate([(200, 512), (200, 512), (400, 1024), (1000, 1024)]):
        rig.submit(make_container(number + 1, cpus=cpus / 1000, priority=priority))
    rig.advance(60)
    rig.starts()
    rig.submit_daemon(daemon(cpus=1948, priority=1000))
    rig.advance(10)
    states = rig.states()
    assert states["c-4"] == "running"
    outcomes = {a.container_id: a for a in rig.attempts.values() if a.outcome is not None}
    assert sorted(outcomes) == ["c-1", "c-2", "c-3"]
    assert {a.outcome.value for a in outcomes.values() if a.outcome} == {"preempted"}
    assert {a.stop_reason for a in outcomes.values()} == {
        StopReason(cause=StopCause.FOR_JOB, of="j-1")
    }
    (container,) = rig.of_job("j-1")
    assert container.state.value == "running"


def test_a_job_that_is_cancelled_stops_everywhere_and_is_cancelled() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=3)
    rig.submit_daemon(daemon())
    rig.cancel_job("j-1")
    assert rig.of_job("j-1") == []
    assert rig.jobs["j-1"].state.value == "cancelled"
    rig.join()
    assert [where for _, where in rig.starts()][3:] == []


def test_what_drains_ends_its_batch_work_first() -> None:
    rig = DaemonRig(make_type(2), pool=LONG)
    rig.submit(make_container(1, cpus=1))
    rig.advance(60)
    rig.submit_daemon(daemon())
    rig.starts()
    (where,) = rig.engine.pool.workers
    rig.send(BehaviorRequested(worker_id=where, behavior=IdleBehavior.DRAIN))
    rig.advance(30)
    assert [c.state.value for c in rig.of_job("j-1")] == ["running"]
    rig.exit(rig.engine.table.containers["c-1"].attempts[-1].id)
    rig.advance(30)
    assert rig.of_job("j-1") == []
    assert rig.cloud == {}


def test_an_idle_instance_is_shut_down_though_a_system_job_runs_there() -> None:
    rig = DaemonRig(make_type(1), pool=PoolSettings(idle_timeout_s=60, sync_interval_s=60))
    rig.submit_daemon(daemon())
    rig.submit(make_container(1, cpus=0.1))
    rig.advance(30)
    rig.exit(rig.engine.table.containers["c-1"].attempts[-1].id)
    rig.advance(120)
    assert rig.cloud == {}
    ended = [c for c in rig.containers.values() if c.job_id == "j-1"]
    assert [c.state.value for c in ended] == ["cancelled"]
    assert ended[0].reason is not None
    assert ended[0].reason.code == "instance_gone"
    assert rig.jobs["j-1"].state.value == "running", "it is for instances that come"


def test_batch_work_gets_an_instance_with_room_beside_the_system_job() -> None:
    small, large = make_type(1, price="1"), make_type(2, price="1.4")
    rig = DaemonRig(small, large, pool=LONG)
    rig.submit_daemon(daemon(cpus=500))
    rig.submit(make_container(1, cpus=1))
    rig.advance(60)
    assert rig.created_types() == ["t2"]
    assert len(rig.starts()) == 2


def test_a_held_job_places_nothing_until_it_is_released() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    job = replace(daemon(), held=True)
    rig.submit_daemon(job)
    assert rig.starts() == []
    rig.hold_job("j-1", held=False)
    assert len(rig.starts()) == 1


def test_a_restart_adopts_what_runs_and_starts_nothing_twice() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=2)
    rig.submit_daemon(daemon())
    assert len(rig.starts()) == 2
    rig.crash()
    rig.advance(60)
    assert rig.starts() == []
    assert [c.state.value for c in rig.of_job("j-1")] == ["running", "running"]


def test_a_sysbatch_job_without_late_joiners_ends_by_itself() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=2)
    rig.submit_daemon(daemon(type_=JobType.SYSBATCH, late_joiners=False))
    started = [attempt for attempt, _ in rig.starts()]
    rig.exit(started[0])
    assert not rig.jobs["j-1"].state.final
    rig.exit(started[1])
    rig.advance(1)
    assert rig.jobs["j-1"].state.value == "succeeded"
    rig.join()
    assert rig.starts() == []


@pytest.mark.parametrize(("number", "said"), [(0, "no_instance"), (1, None)])
def test_a_sysbatch_job_that_ends_without_an_instance_says_so(number: int, said: str) -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=number)
    rig.submit_daemon(daemon(type_=JobType.SYSBATCH, late_joiners=False))
    for attempt, _ in rig.starts():
        rig.exit(attempt)
    rig.advance(1)
    job = rig.jobs["j-1"]
    assert job.state.value == "succeeded"
    assert (job.reason.code if job.reason is not None else None) == said


def test_nothing_is_placed_where_a_process_that_nobody_wants_is_still_being_ended() -> None:
    """It may be an earlier attempt of the same job: there must never be two at once."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.deaf = True
    (where,) = rig.join()
    stray = AttemptReport(attempt_id="c-77-1", container_id="c-77")
    rig.on_instance[where]["c-77-1"] = stray
    rig.send(SessionLost(worker_id=where, last_contact=rig.now, reason="reset"))
    rig.advance(10)
    rig.submit_daemon(daemon())
    rig.advance(10)
    assert rig.starts() == []
    rig.terminated(where, "c-77-1")
    rig.settle()
    assert [there for _, there in rig.starts()] == [where]


@pytest.mark.parametrize("crash", [False, True])
def test_who_ends_with_its_instance_has_not_failed_also_after_a_crash(crash: bool) -> None:
    rig = DaemonRig(make_type(1), pool=PoolSettings(idle_timeout_s=60, sync_interval_s=60))
    rig.join()
    rig.submit_daemon(daemon(type_=JobType.SYSBATCH))
    ((attempt_id, where),) = rig.starts()
    rig.deaf = True
    rig.advance(61)
    assert rig.attempts[attempt_id].intended_outcome is AttemptOutcome.CANCELLED, "it is journalled"
    if crash:
        rig.crash()
    rig.terminated(where, attempt_id)
    rig.settle()
    attempt = rig.attempts[attempt_id]
    assert attempt.outcome is AttemptOutcome.CANCELLED
    assert attempt.reason is not None
    assert attempt.reason.code == "instance_gone"
    rig.deaf = False
    rig.advance(200)
    assert rig.cloud == {}


def test_batch_work_waits_for_room_on_what_there_is_where_daemons_leave_none_on_new_instances() -> (
    None
):
    rig = DaemonRig(make_type(1), pool=LONG, settings=SchedulerSettings(max_instances=2))
    rig.join()
    rig.submit_daemon(daemon(cpus=100, type_=JobType.SYSBATCH))
    ((cleaning, where),) = rig.starts()
    rig.submit(make_container(1, cpus=0.95))
    rig.advance(10)
    reason = rig.engine.why_waiting("c-1")
    assert reason is not None
    assert (reason.code, reason.is_final) == ("no_room_on_new", False)
    assert rig.created_types() == []
    rig.exit(cleaning)
    rig.advance(10)
    assert rig.started_on()["c-1"] == where


def test_a_daemon_that_ends_at_once_for_ever_goes_on_in_another_container_with_its_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("longshore.dispatcher.scheduler.system.controller.ATTEMPTS_MOST", 3)
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(retries=Retries(delay_s=10)))
    for wait_s in (0, 10):
        rig.exit(rig.starts()[0][0], code=1)
        rig.advance(wait_s)
    ((attempt, _),) = rig.starts()
    rig.exit(attempt, code=1)
    last = rig.containers[attempt.rpartition("-")[0]]
    assert last.state.value == "failed"
    assert last.reason is not None
    assert last.reason.code == "attempts_most"
    assert rig.starts() == [], "the delay is kept"
    rig.advance(10)
    ((attempt, _),) = rig.starts()
    assert attempt.rpartition("-")[0] != last.id


def test_failures_of_an_earlier_revision_use_up_none_of_the_retries_of_the_next() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    job = daemon(type_=JobType.SYSBATCH, retries=Retries(most=1, on=("failed",), delay_s=10))
    rig.submit_daemon(job)
    rig.exit(rig.starts()[-1][0], code=1)
    rig.revise(job.id, command=("mended",))
    for _ in range(2):
        rig.advance(60)
        rig.exit(rig.starts()[-1][0], code=1)
    rig.advance(60)
    assert rig.starts() == [], "twice is all that the new revision may be tried"
