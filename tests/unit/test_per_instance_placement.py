"""Rows of the design's semantics, §4, through the engine: where per-instance jobs are, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Constraints,
    Container,
    Retries,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import Job, JobState, JobType, UpdateStrategy
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.drivers.interface import Resources
from longshore.pool.messages import InterruptionNoticed, StartAttempt, StartRefused
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.per_instance_jobs import FOO, LONG, DaemonRig, daemon
from tests.samples import GIB, make_container, make_type

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
FOO_TYPE = make_type(1, name="foo", labels=(("foo", "yes"),))


def rig_with(number: int, *, type_name: str = "t1") -> tuple[DaemonRig, list[str]]:
    """Return a rig in whose cloud there are some idle instances, and these."""
    rig = DaemonRig(make_type(1), make_type(2), FOO_TYPE, pool=LONG)
    return rig, rig.join(type_name, number)


def behave(rig: DaemonRig, worker_id: str, behavior: IdleBehavior) -> None:
    """Let an admin hold, drain or release an instance."""
    rig.send(BehaviorRequested(worker_id=worker_id, behavior=behavior))


def job_now(rig: DaemonRig, job_id: str = "j-1") -> Job:
    """Return a job as the engine counts it."""
    job = rig.engine.table.jobs.job(job_id)
    assert job is not None
    return job


def nowhere(rig: DaemonRig) -> WaitReason | None:
    """Return what the API tells of why j-1 is on no instance."""
    return rig.engine.per_instance.why_nowhere(job_now(rig), rig.now)


def ended(rig: DaemonRig) -> list[Container]:
    """Return the containers that have ended, the oldest first."""
    found = [c for c in rig.containers.values() if c.state.final]
    return sorted(found, key=lambda c: c.sequence)


def refuse(rig: DaemonRig, *, code: str = "too_large") -> int:
    """Refuse each start since the last look; return how many there were."""
    starts = [command for command in rig.sent if isinstance(command, StartAttempt)]
    rig.sent.clear()
    for start in starts:
        rig.send(
            StartRefused(
                op_id=start.op_id,
                worker_id=start.worker_id,
                attempt_id=start.order.attempt_id,
                code=code,
                message="no such user",
            )
        )
    return len(starts)


# ---- what is held, and what drains --------------------------------------------------------------


def test_attempts_on_a_held_instance_are_left_alone_and_stopped_when_their_job_is_revised() -> None:
    rig, (where,) = rig_with(1)
    rig.submit_daemon(daemon())
    ((attempt_id, _),) = rig.starts()
    behave(rig, where, IdleBehavior.HOLD)
    rig.advance(300)
    assert rig.attempts[attempt_id].intended_outcome is None
    rig.revise("j-1", labels=(("a", "b"),))
    attempt = rig.attempts[attempt_id]
    assert (attempt.outcome, attempt.revision) == (AttemptOutcome.CANCELLED, 1)
    assert attempt.reason is not None
    assert "held" in attempt.reason.message
    rig.advance(300)
    assert (rig.starts(), rig.of_job("j-1")) == ([], [])
    behave(rig, where, IdleBehavior.RUN)
    ((successor, there),) = rig.starts()
    assert (there, rig.attempts[successor].revision) == (where, 2)


@pytest.mark.parametrize("on_paused", [False, True])
def test_held_instances_get_a_job_that_asks_for_paused_ones_and_no_other(on_paused: bool) -> None:
    rig, (where,) = rig_with(1)
    behave(rig, where, IdleBehavior.HOLD)
    rig.submit_daemon(daemon(on_paused=on_paused))
    assert len(rig.starts()) == on_paused
    rig.revise("j-1", env=(("A", "1"),))
    assert len(rig.starts()) == on_paused, "it is updated there, too"


@pytest.mark.parametrize("on_paused", [False, True])
def test_a_draining_instance_gets_a_job_for_paused_ones_while_it_has_batch_work_and_no_other(
    on_paused: bool,
) -> None:
    rig = DaemonRig(make_type(2), pool=LONG)
    rig.submit(make_container(1))
    rig.advance(60)
    (where,) = rig.engine.pool.workers
    behave(rig, where, IdleBehavior.DRAIN)
    rig.starts()
    rig.submit_daemon(daemon(on_paused=on_paused))
    assert len(rig.starts()) == on_paused
    rig.exit("c-1-1")
    rig.advance(60)
    assert (rig.of_job("j-1"), rig.cloud) == ([], {})


def test_an_instance_that_the_cloud_takes_back_gets_no_daemon_beside_its_batch_work() -> None:
    rig = DaemonRig(make_type(2, preemptible=True), pool=LONG)
    rig.submit(make_container(1))
    rig.advance(60)
    (where,) = rig.engine.pool.workers
    rig.starts()
    rig.send(InterruptionNoticed(worker_id=where, at="2026-01-31T23:59:59Z"))
    rig.submit_daemon(daemon())
    rig.advance(30)
    assert rig.worker_states() == {where: "running"}
    assert rig.starts() == []


@pytest.mark.parametrize("ignore_system", [False, True])
def test_what_drains_tells_its_daemons_to_end_last_and_those_that_ignore_it_by_its_shutdown(
    ignore_system: bool,
) -> None:
    rig = DaemonRig(make_type(2), pool=LONG)
    rig.submit(make_container(1))
    rig.advance(60)
    rig.submit_daemon(daemon(ignore_system=ignore_system))
    attempt_id = next(each for each, _ in rig.starts() if not each.startswith("c-1-"))
    (where,) = rig.engine.pool.workers
    behave(rig, where, IdleBehavior.DRAIN)
    rig.advance(300)
    assert rig.attempts[attempt_id].intended_outcome is None
    rig.exit("c-1-1")
    rig.advance(30)
    reason = rig.attempts[attempt_id].reason
    assert reason is not None
    assert (reason.message == "node draining") is not ignore_system


# ---- which attempts are ended, and how ----------------------------------------------------------


def test_an_instance_that_is_gone_loses_its_attempt_and_the_job_goes_on_elsewhere() -> None:
    rig, (first, second) = rig_with(2)
    rig.submit_daemon(daemon())
    attempt_of = {where: attempt for attempt, where in rig.starts()}
    del rig.cloud[first]
    rig.advance(120)
    assert rig.attempts[attempt_of[first]].outcome is AttemptOutcome.LOST
    assert [c.pinned_to for c in rig.of_job("j-1")] == [second]
    (container,) = ended(rig)
    assert container.reason is not None
    assert container.reason.code == "instance_gone"
    assert not rig.jobs["j-1"].state.final


def test_where_a_revision_does_not_match_the_attempt_is_stopped_and_none_follows() -> None:
    rig, (plain,) = rig_with(1)
    (foo,) = rig.join("foo")
    rig.submit_daemon(daemon(update=UpdateStrategy(max_parallel=5)))
    rig.starts()
    rig.revise("j-1", constraints=FOO, env=(("A", "1"),))
    assert [where for _, where in rig.starts()] == [foo]
    (container,) = ended(rig)
    assert (container.pinned_to, container.state.value) == (plain, "cancelled")
    (attempt,) = container.attempts
    assert attempt.outcome is AttemptOutcome.CANCELLED
    assert attempt.reason is not None
    assert "no longer matches" in attempt.reason.message


def test_updates_in_place_come_at_once_everywhere_and_begin_no_round() -> None:
    rig, _ = rig_with(4)
    rig.submit_daemon(daemon(update=UpdateStrategy(max_parallel=1, stagger_s=30)))
    rig.starts()
    rig.revise("j-1", labels=(("a", "b"),))
    assert [c.spec.labels for c in rig.of_job("j-1")] == [(("a", "b"),)] * 4
    rig.revise("j-1", env=(("A", "1"),))
    assert len(rig.starts()) == 1, "the round has not been used up"


def test_an_attempt_runs_on_where_its_successor_would_not_fit() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(cpus=100))
    rig.submit(make_container(1, cpus=0.9, priority=450))
    rig.advance(60)
    (container,) = rig.of_job("j-1")
    rig.starts()
    rig.revise("j-1", resources=Resources(cpu_millis=500, memory_bytes=1))
    rig.advance(300)
    assert rig.starts() == []
    assert rig.attempts[f"{container.id}-1"].intended_outcome is None
    rig.exit("c-1-1")
    assert [attempt for attempt, _ in rig.starts()] == [f"{container.id}-2"]


# ---- which instances there are ------------------------------------------------------------------


def test_no_instance_is_created_for_them_and_they_say_that() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.submit_daemon(daemon())
    rig.submit_daemon(daemon(2, type_=JobType.SYSBATCH))
    rig.advance(600)
    assert (rig.created_types(), rig.containers) == ([], {})
    reason = nowhere(rig)
    assert reason is not None
    assert reason.code == "no_instances"


@pytest.mark.parametrize("type_", [JobType.SYSTEM, JobType.SYSBATCH])
@pytest.mark.parametrize("late_joiners", [False, True])
def test_an_instance_that_joins_later_gets_jobs_that_take_late_joiners(
    late_joiners: bool, type_: JobType
) -> None:
    rig, _ = rig_with(1)
    rig.submit_daemon(daemon(type_=type_, late_joiners=late_joiners))
    assert len(rig.starts()) == 1
    rig.join()
    assert len(rig.starts()) == late_joiners


def test_a_job_whose_demands_filter_every_instance_says_so() -> None:
    rig, (where, _) = rig_with(2)
    rig.submit_daemon(daemon(constraints=FOO))
    reason = nowhere(rig)
    assert reason is not None
    assert reason.code == "all_filtered"
    assert "every one of 2 instances" in reason.message
    assert "foo" in reason.message
    (foo,) = rig.join("foo")
    assert [there for _, there in rig.starts()] == [foo]
    assert nowhere(rig) is None
    behave(rig, foo, IdleBehavior.HOLD)
    assert nowhere(rig) is None, "it lives there"
    rig.exit(rig.engine.table.containers[rig.of_job("j-1")[0].id].attempts[-1].id)
    assert where not in [c.pinned_to for c in rig.of_job("j-1")]


def test_a_job_is_nowhere_while_all_that_matches_is_held_and_says_that() -> None:
    rig, (where,) = rig_with(1)
    behave(rig, where, IdleBehavior.HOLD)
    rig.submit_daemon(daemon())
    reason = nowhere(rig)
    assert reason is not None
    assert reason.code == "all_closed"
    assert "held (1)" in reason.message
    rig.cancel_job("j-1")
    assert rig.jobs["j-1"].state.value == "cancelled"


# ---- plans that get nowhere ---------------------------------------------------------------------


def refusing(number: int, job: Job) -> DaemonRig:
    """Return a rig of some instances, none of which has answered a start of the job yet."""
    rig, _ = rig_with(number)
    rig.silent.add(StartAttempt)
    rig.submit_daemon(job)
    return rig


def tries(rig: DaemonRig) -> Iterator[int]:
    """Refuse all starts again and again; yield how many there were."""
    while number := refuse(rig):
        yield number
        rig.advance(30)


@pytest.mark.parametrize("instances", [1, 8])
def test_a_system_job_whose_starts_are_refused_fails_after_5_more_tries(instances: int) -> None:
    rig = refusing(instances, daemon())
    assert list(tries(rig)) == [instances] * 6
    job = rig.jobs["j-1"]
    assert job.state.value == "failed"
    assert job.reason is not None
    assert job.reason.code == "plan_rejected"
    assert "5 times" in job.reason.message
    assert "no such user" in job.reason.message
    said = job.reason.message.replace("5 times", "N times").partition(": ")[0]
    assert f'"{said}: …" (`{job.reason.code}`)' in OPERATIONS.read_text(encoding="utf-8")
    assert rig.of_job("j-1") == []


def test_who_was_to_make_way_for_a_revision_ends_with_its_job() -> None:
    """Seed 20128: it was told to have made way for the revision of a job that had failed."""
    patient = PoolSettings(idle_timeout_s=3600, term_timeout_s=600)
    rig = DaemonRig(make_type(1), pool=patient)
    (where,) = rig.join()
    rig.deaf = True
    rig.submit_daemon(daemon())
    ((first, _),) = rig.starts()
    rig.revise("j-1", env=(("A", "1"),))
    rig.silent.add(StartAttempt)
    rig.join()
    assert list(tries(rig)) == [1] * 6
    rig.terminated(where, first)
    reason = rig.containers[first.rpartition("-")[0]].reason
    assert reason is not None
    assert (reason.code, reason.message) == ("stopped", "its job has ended")


def test_a_sysbatch_job_whose_starts_are_refused_fails_after_2_more_tries() -> None:
    rig = refusing(2, daemon(type_=JobType.SYSBATCH, retries=Retries(most=9, on=("failed",))))
    assert list(tries(rig)) == [2] * 3
    assert rig.jobs["j-1"].state.value == "failed"


@pytest.mark.parametrize(("most", "crash"), [(0, False), (1, False), (0, True)])
def test_a_sysbatch_job_that_every_instance_refuses_ends_with_what_they_say(
    most: int, crash: object
) -> None:
    """It stayed `running` for ever without a reason: its retries left each container at that."""
    rig = refusing(2, daemon(type_=JobType.SYSBATCH, retries=Retries(most=most)))
    assert list(tries(rig)) == [2] * (most + 1)
    if crash:
        # As an earlier version has left it.
        rig.jobs["j-1"] = replace(rig.jobs["j-1"], state=JobState.RUNNING, reason=None)
        rig.crash()
        rig.advance(60)
    job = rig.jobs["j-1"]
    assert (job.state.value, job.tally.failed) == ("failed", 2)
    assert job.reason is not None
    assert job.reason.code == "start_refused"
    assert "on i-001 and 1 more: no such user" in job.reason.message
    said, _, rest = job.reason.message.partition(": ")
    assert f'"{said}: …" (`{job.reason.code}`)' in OPERATIONS.read_text(encoding="utf-8")
    assert rest.endswith("submit it anew")
    reasons = [c.reason for c in rig.containers.values() if c.job_id == "j-1"]
    assert all(each is not None and "no such user" in each.message for each in reasons)


def test_a_sysbatch_job_that_some_instances_refuse_goes_on_and_says_so() -> None:
    rig = refusing(2, daemon(type_=JobType.SYSBATCH))
    first, second = [command for command in rig.sent if isinstance(command, StartAttempt)]
    rig.start_now(first)
    rig.settle()
    rig.sent[:] = [second]
    assert refuse(rig) == 1
    said = f"it failed on {second.worker_id}: no such user; it is not tried there again"
    for crash in (False, True):
        if crash:
            rig.crash()
            rig.advance(60)
        job = rig.jobs["j-1"]
        assert job.state.value == "running"
        trouble = rig.engine.per_instance.trouble(job, rig.now)
        assert trouble is not None
        assert trouble.code == "failed"
        assert trouble.message.startswith(said)
    rig.exit(first.order.attempt_id)
    rig.advance(60)
    assert rig.jobs["j-1"].state.value == "running", "those that come later may take it, too"
    rig.revise("j-1", image="another")
    assert rig.engine.per_instance.trouble(rig.jobs["j-1"], rig.now) is None, "it is tried again"


def test_a_sysbatch_job_that_went_well_somewhere_does_not_end_where_the_last_one_refuses() -> None:
    rig = refusing(1, daemon(type_=JobType.SYSBATCH))
    (start,) = [command for command in rig.sent if isinstance(command, StartAttempt)]
    rig.start_now(start)
    rig.settle()
    rig.exit(start.order.attempt_id)
    rig.cloud.clear()
    rig.advance(300)
    rig.sent.clear()
    rig.join()
    assert refuse(rig) == 1
    rig.advance(60)
    assert rig.jobs["j-1"].state.value == "running"
    assert rig.engine.per_instance.trouble(rig.jobs["j-1"], rig.now) is not None


def test_a_start_in_between_begins_the_count_of_refusals_anew() -> None:
    rig = refusing(1, daemon())
    for _ in range(5):
        assert refuse(rig) == 1
        rig.advance(30)
    (start,) = [command for command in rig.sent if isinstance(command, StartAttempt)]
    rig.start_now(start)
    rig.settle()
    rig.sent.clear()
    rig.exit(start.order.attempt_id)
    rig.advance(30)
    assert list(tries(rig)) == [1] * 6
    assert rig.jobs["j-1"].state.value == "failed"


def test_a_revision_begins_the_count_of_refusals_anew() -> None:
    rig = refusing(1, daemon())
    for _ in range(5):
        rig.advance(30)
        assert refuse(rig) == 1
    rig.revise("j-1", image="another")
    assert list(tries(rig)) == [2, 1, 1, 1, 1, 1], "a start of the one before was under way"
    assert rig.jobs["j-1"].state.value == "failed"


def test_what_asks_for_more_than_an_instance_has_says_so_there() -> None:
    rig, _ = rig_with(1)
    rig.submit_daemon(daemon(cpus=5000, constraints=Constraints()))
    (container,) = rig.of_job("j-1")
    assert container.spec.resources.memory_bytes < GIB
    reason = rig.engine.why_waiting(container.id)
    assert reason is not None
    assert reason.is_final


# ---- across a crash -----------------------------------------------------------------------------


@pytest.mark.parametrize("deaf", [False, True])
def test_rounds_of_an_update_keep_their_distance_across_a_crash(deaf: bool) -> None:
    rig, _ = rig_with(4)
    rig.submit_daemon(daemon(update=UpdateStrategy(max_parallel=2, stagger_s=30)))
    rig.starts()
    rig.deaf = deaf
    rig.revise("j-1", env=(("A", "1"),))
    rig.advance(10)
    ending = [a.id for a in rig.attempts.values() if a.intended_outcome is AttemptOutcome.PREEMPTED]
    assert len(ending) == 2
    rig.crash()
    rig.advance(19)
    assert [a.id for a in rig.attempts.values() if a.intended_outcome is not None] == ending
    rig.advance(20)
    assert len([a for a in rig.attempts.values() if a.intended_outcome is not None]) == 4
