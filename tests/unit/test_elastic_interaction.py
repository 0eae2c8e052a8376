"""Elastic jobs beside all else: other schedulers, evictions, limits, interruptions, time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import (
    Container,
    ElasticSettings,
    QueuePolicy,
    SchedulerSettings,
)
from longshore.dispatcher.domain.jobs import ElasticTerms, Job, JobTask, JobTypeSpec
from longshore.dispatcher.domain.messages import BehaviorRequested, JobSubmitted
from longshore.dispatcher.scheduler.elastic.apply import host_of, variable
from longshore.pool.messages import CreateInstance, InterruptionNoticed, SessionLost, StartAttempt
from longshore.pool.model import ExitKind, IdleBehavior, PoolSettings
from tests.rigs.elastic_jobs import (
    attempt_of,
    elastic,
    elastic_job,
    essential,
    rig_of,
    running,
    state_of,
    submit,
)
from tests.rigs.engine import Rig, last_commands
from tests.rigs.per_instance_jobs import daemon
from tests.samples import GIB, make_container, make_type


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.7:22", "10.0.0.7"),
        ("[2001:db8::7]:22", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        ("node-7.internal:2222", "node-7.internal"),
        ("node-7", "node-7"),
        ("", ""),
    ],
)
def test_the_host_of_an_address_comes_without_port_and_brackets(address: str, host: str) -> None:
    assert host_of(address) == host


def test_a_component_s_name_is_one_of_a_variable_s_with_what_is_odd_in_it_replaced() -> None:
    assert variable("spark-worker.2") == "SPARK_WORKER_2"


def test_a_job_that_lost_an_essential_place_has_an_instance_created_for_it_again() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=4))
    submit(rig, 1, essential(2))
    assert running(rig) == {"e": 2}
    rig.set_priority("c-1001", 0)
    rig.exit(attempt_of(rig, 1001), code=143)
    rig.advance(70)
    assert len(rig.cloud) == 1
    assert running(rig) == {"e": 1}
    rig.set_priority("c-1001", 500)
    rig.advance(5)
    assert running(rig) == {"e": 2}


def test_what_waits_for_its_turn_on_an_instance_that_drains_gets_another_place() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=86400))
    rig.silent.add(StartAttempt)
    submit(rig, 1, essential(1, "early"), essential(1, "late", order=1))
    early = rig.started_on()["c-1000"]
    late = next(id_ for id_ in rig.cloud if id_ != early)
    rig.send(BehaviorRequested(worker_id=late, behavior=IdleBehavior.DRAIN))
    rig.silent.clear()
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    rig.advance(5)
    assert running(rig) == {"early": 1, "late": 1}
    assert rig.started_on()["c-1001"] not in (early, late)


def test_an_instance_on_which_nothing_but_a_place_waits_is_not_idle() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    submit(rig, 1, essential(1, "early"), essential(1, "late", order=1))
    before = set(rig.cloud)
    rig.advance(90)
    assert set(rig.cloud) == before


def test_room_that_a_system_job_needs_of_every_new_instance_is_not_for_elastic_jobs() -> None:
    rig = Rig(make_type(2), settings=SchedulerSettings(max_instances=3))
    system = daemon(9, cpus=1000)
    rig.jobs[system.id] = system
    rig.send(JobSubmitted(job=system, containers=(), ended={}))
    rig.silent.add(CreateInstance)
    submit(rig, 1, essential(2))
    assert rig.created_types() == ["t2", "t2"]
    kept = rig.engine.workloads.elastic.reservations
    assert [room.cpu_millis for room in kept.values()] == [1000, 1000]
    for command in last_commands(rig, CreateInstance):
        rig.create_now(command)
    rig.advance(5)
    assert running(rig) == {"e": 2}


def test_an_instance_on_which_room_is_made_for_a_batch_container_takes_no_elastic_one() -> None:
    rig = rig_of(2, preempt_from_priority=800)
    rig.submit(make_container(1, priority=100), make_container(2, priority=100))
    rig.submit(make_container(9, cpus=2, priority=900))
    submit(rig, 1, essential(1))
    rig.exit("c-1-1", code=143)
    assert running(rig) == {}
    rig.exit("c-2-1", code=143)
    assert rig.states()["c-9"] == "running"


def test_room_that_becomes_free_bit_by_bit_for_a_system_job_is_not_for_elastic_ones() -> None:
    rig = rig_of(2)
    rig.submit(make_container(1, priority=100), make_container(2, priority=100))
    system = daemon(9, cpus=2000, priority=900)
    rig.jobs[system.id] = system
    rig.send(JobSubmitted(job=system, containers=(), ended={}))
    submit(rig, 1, essential(1))
    rig.exit("c-1-1", code=143)
    assert running(rig) == {}
    rig.exit("c-2-1", code=143)
    assert running(rig) == {}
    assert running(rig, 9) == {"": 1}


def test_elastic_containers_count_against_the_number_that_may_have_a_place() -> None:
    rig = rig_of(8, max_containers=2)
    submit(rig, 1, essential(1), elastic(3))
    assert running(rig) == {"e": 1, "w": 1}
    rig.exit(attempt_of(rig, 1001))
    assert running(rig) == {"e": 1, "w": 1}
    assert rig.states()["c-1001"] == "queued"


def test_a_container_whose_earlier_process_still_runs_is_not_started_before_that_has_ended() -> (
    None
):
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(1))
    rig.exit(attempt_of(rig, 1001), code=1)
    rig.exit(attempt_of(rig, 1001), code=1)
    rig.engine.table.hold_for_process("c-1001", "c-1001-1", "i-001", forgotten_before=0.0)
    rig.advance(10)
    assert running(rig) == {"e": 1}
    why = rig.engine.why_waiting("c-1001")
    assert why is not None
    assert why.code == "earlier_attempt"
    rig.engine.table.process_gone("c-1001", "c-1001-1", rig.now)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.RUN))
    assert running(rig) == {"e": 1, "w": 1}


def test_who_makes_way_gets_no_longer_than_all_do() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1, grace_period_s=7200.0))
    submit(rig, 2, essential(1, "f", cpus=2))
    grace_s = rig.engine.pool.attempts[attempt_of(rig, 1001)].grace_s
    assert grace_s == rig.pool_settings.term_timeout_s


def test_an_instance_that_the_cloud_takes_back_is_nobody_s_loss() -> None:
    spot = replace(make_type(2), preemptible=True)
    rig = Rig(
        spot,
        settings=SchedulerSettings(max_lost_attempts=1),
        pool=PoolSettings(idle_timeout_s=86400),
    )
    submit(rig, 1, essential(1), elastic(1))
    for _ in range(3):
        instance = rig.started_on()["c-1000"]
        rig.send(InterruptionNoticed(worker_id=instance, at="2026-01-31T23:59:59Z"))
        del rig.cloud[instance], rig.on_instance[instance]
        rig.send(SessionLost(worker_id=instance, last_contact=rig.now, reason="reset"))
        rig.advance(130)
        assert running(rig)["e"] == 1
        assert rig.started_on()["c-1000"] != instance
    assert state_of(rig) == "running"


def test_an_essential_container_that_runs_too_long_fails_its_job_and_the_job_says_so() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1, time_limit_s=60.0), elastic(1))
    rig.advance(61)
    rig.exit(attempt_of(rig, 1000), code=143)
    rig.exit(attempt_of(rig, 1001), code=143)
    said = "failed: essential e failed: it ran for longer than its time limit of 60 s"
    assert state_of(rig) == said


def test_an_essential_container_that_no_engine_can_run_fails_its_job() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1))
    rig.exit(attempt_of(rig, 1000), code=125, kind=ExitKind.ENGINE_FAILURE)
    assert state_of(rig).startswith("failed: essential e cannot be started: ")


def sized(number: int, size: float, task: JobTask, now: float) -> tuple[Job, tuple[Container, ...]]:
    """Return an elastic job that came now and says how large it is."""
    job, containers = elastic_job(number, task)
    return replace(
        job, created_at=now, terms=JobTypeSpec(elastic=ElasticTerms(size=size))
    ), containers


def test_time_alone_lets_a_job_begin_that_has_shrunk_as_far_as_the_one_before_it() -> None:
    settings = ElasticSettings(policy=QueuePolicy.DYNSIZE, dynsize_bytes_per_s=GIB // 10)
    rig = rig_of(1, 2, most=3, elastic=settings)
    rig.submit(make_container(1, cpus=2))
    rig.silent.add(CreateInstance)
    rig.submit_job(*sized(2, 1.9 * GIB, essential(1, "small", cpus=2), rig.now))
    rig.submit_job(*sized(1, 2.0 * GIB, essential(1, "large"), rig.now))
    rig.advance(15)
    assert running(rig, 1) == {}, "it comes after one whose instance is on its way"
    rig.advance(10)
    assert running(rig, 1) == {"large": 1}
    assert running(rig, 2) == {}


def test_two_events_of_one_moment_do_not_make_the_engine_go_round() -> None:
    rig = rig_of(1)
    submit(rig, 1, essential(2))
    submit(rig, 2, essential(1))
    for _ in range(20):
        rig.advance(0.5)
        due = rig.engine.next_wakeup(rig.now)
        assert due is None or due > rig.now
