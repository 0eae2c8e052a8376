"""Rows of the design's semantics, §4, through the engine: daemons and batch work side by side.

Who makes way for whom, and what of the limits of batch work daemons count against.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Placement,
    Retries,
    SchedulerSettings,
    StopCause,
    StopReason,
)
from longshore.dispatcher.domain.jobs import JobType
from longshore.dispatcher.domain.messages import JobPriorityRequested
from longshore.dispatcher.state.spend_limits import SpendSubject
from longshore.drivers.interface import Resources
from longshore.pool.messages import SignalAttempt
from tests.rigs.elastic_jobs import essential, running, submit
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type
from tests.unit.test_spend import settings, spends

ONE = SchedulerSettings(max_instances=1)


def full_rig(
    scheduler: SchedulerSettings = ONE, *, priority: int = 500, cpus: int = 1
) -> DaemonRig:
    """Return a rig whose one instance is filled by batch containers of a cpu each."""
    rig = DaemonRig(make_type(cpus), pool=LONG, settings=scheduler)
    again = Retries(most=1)
    rig.submit(*(make_container(n, priority=priority, retries=again) for n in range(1, cpus + 1)))
    rig.advance(60)
    assert len(rig.starts()) == cpus
    return rig


def evicted(rig: DaemonRig) -> list[str]:
    """Return whose attempts made way for somebody else, by their container."""
    of_whom = (a for a in rig.attempts.values() if a.outcome is AttemptOutcome.PREEMPTED)
    return sorted(attempt.container_id for attempt in of_whom)


# ---- who makes way ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "scheduler", "may"),
    [
        (JobType.SYSTEM, ONE, True),
        (JobType.SYSTEM, SchedulerSettings(max_instances=1, preempt_system=False), False),
        (JobType.SYSBATCH, ONE, False),
        (JobType.SYSBATCH, SchedulerSettings(max_instances=1, preempt_sysbatch=True), True),
    ],
)
def test_system_jobs_evict_and_sysbatch_ones_where_the_settings_say_so(
    type_: JobType, scheduler: SchedulerSettings, may: bool
) -> None:
    rig = full_rig(scheduler, priority=400)
    rig.submit_daemon(daemon(type_=type_, priority=500))
    rig.advance(10)
    assert evicted(rig) == (["c-1"] if may else [])
    assert len(rig.starts()) == may


@pytest.mark.parametrize(("gap", "may"), [(99, False), (100, True)])
def test_who_is_99_points_below_is_never_evicted_and_100_below_may_be(gap: int, may: bool) -> None:
    rig = full_rig(priority=500 - gap)
    rig.submit_daemon(daemon(priority=500))
    rig.advance(600)
    assert evicted(rig) == (["c-1"] if may else [])


def test_who_makes_way_is_told_from_the_first_that_it_has_no_more_time_than_all_get() -> None:
    rig = DaemonRig(make_type(1), pool=LONG, settings=ONE)
    rig.submit(make_container(1, priority=1, grace_period_s=86_400.0))
    rig.advance(60)
    rig.submit_daemon(daemon(priority=500))
    rig.advance(10)
    (term,) = (each for each in rig.sent if isinstance(each, SignalAttempt))
    assert (term.attempt_id, term.signal, term.grace_s) == ("c-1-1", "TERM", LONG.term_timeout_s)


def test_who_is_evicted_waits_again_knows_for_whom_and_loses_no_retry() -> None:
    rig = full_rig(priority=100)
    rig.submit_daemon(daemon(cpus=1000, priority=500))
    rig.advance(10)
    victim = rig.engine.table.containers["c-1"]
    assert rig.states()["c-1"] == "queued"
    (attempt,) = victim.attempts
    assert attempt.stop_reason == StopReason(cause=StopCause.FOR_JOB, of="j-1")
    assert attempt.reason is not None
    assert (attempt.reason.code, attempt.reason.message) == ("preempted", "it made way for j-1")
    rig.cancel_job("j-1")
    rig.advance(10)
    rig.exit("c-1-2", code=1)
    rig.advance(60)
    assert rig.states()["c-1"] == "running", "it had one retry, and has not lost that"
    rig.exit("c-1-3", code=1)
    assert rig.states()["c-1"] == "failed"


@pytest.mark.parametrize("type_", [JobType.SYSTEM, JobType.SYSBATCH])
def test_batch_containers_never_evict_those_of_per_instance_jobs(type_: JobType) -> None:
    scheduler = SchedulerSettings(max_instances=1, preempt_from_priority=1)
    rig = DaemonRig(make_type(2), pool=LONG, settings=scheduler)
    rig.join("t2")
    rig.submit_daemon(daemon(type_=type_, cpus=500, priority=1))
    ((attempt_id, _),) = rig.starts()
    rig.submit(make_container(1, priority=950), make_container(2, priority=1000))
    rig.advance(600)
    assert rig.attempts[attempt_id].intended_outcome is None
    assert [rig.states()[each] for each in ("c-1", "c-2")] == ["queued", "running"]


# ---- what they leave ----------------------------------------------------------------------------


def test_what_is_left_of_new_instances_follows_whatever_becomes_of_the_jobs() -> None:
    rig = DaemonRig(make_type(4), make_type(8), pool=LONG)

    def left() -> list[int]:
        types = (rig.types["t4"], rig.types["t8"])
        return [
            rig.engine.new_instances.allocatable_left(type_).allocatable.cpu_millis
            for type_ in types
        ]

    assert left() == [4000, 8000]
    rig.submit_daemon(daemon(cpus=500))
    assert left() == [3500, 7500]
    rig.submit_daemon(daemon(2, cpus=5000, priority=400))
    assert left() == [3500, 2500], "it matches both, and fits on the larger only"
    rig.revise("j-1", resources=Resources(cpu_millis=1000))
    assert left() == [3000, 2000]
    rig.hold_job("j-1", held=True)
    assert left() == [4000, 3000]
    rig.hold_job("j-1", held=False)
    assert left() == [3000, 2000]
    rig.send(JobPriorityRequested(job_id="j-1", priority=0))
    assert left() == [4000, 3000], "at the priority 0 nothing of it is started"
    rig.send(JobPriorityRequested(job_id="j-1", priority=500))
    assert left() == [3000, 2000]
    rig.cancel_job("j-2")
    rig.cancel_job("j-1")
    assert left() == [4000, 8000]


# ---- what they count against --------------------------------------------------------------------


def test_max_containers_counts_none_of_them() -> None:
    rig = DaemonRig(make_type(4), pool=LONG, settings=SchedulerSettings(max_containers=1))
    rig.join("t4")
    rig.submit_daemon(daemon(1))
    rig.submit_daemon(daemon(2))
    assert len(rig.starts()) == 2
    rig.submit(make_container(1), make_container(2))
    rig.submit_daemon(daemon(3))
    assert [rig.states()[each] for each in ("c-1", "c-2")] == ["running", "queued"]
    assert {c.state.value for c in rig.of_job("j-3")} == {"running"}


def test_no_share_of_supervisors_counts_any_of_them() -> None:
    scheduler = SchedulerSettings(max_containers=2, supervisor_fraction=0.5)
    rig = DaemonRig(make_type(4), pool=LONG, settings=scheduler)
    rig.join("t4")
    job = daemon()
    task = replace(job.tasks[0], spec=replace(job.tasks[0].spec, supervisor=True))
    rig.submit_daemon(replace(job, tasks=(task,)))
    assert len(rig.starts()) == 1
    rig.submit(make_container(1, supervisor=True), make_container(2, supervisor=True))
    assert [rig.states()[each] for each in ("c-1", "c-2")] == ["running", "queued"]
    assert rig.engine.table.supervisors_placed == 1


@pytest.mark.parametrize("daemon_first", [False, True])
def test_a_daemon_takes_nobody_the_only_place_of_an_exclusive_instance(daemon_first: bool) -> None:
    scheduler = SchedulerSettings(max_instances=1, placement=Placement.EXCLUSIVE)
    rig = DaemonRig(make_type(2), pool=LONG, settings=scheduler)
    if daemon_first:
        rig.join("t2")
        rig.submit_daemon(daemon())
    rig.submit(make_container(1), make_container(2, cpus=0.1))
    rig.advance(60)
    if not daemon_first:
        rig.submit_daemon(daemon())
    assert {c.state.value for c in rig.of_job("j-1")} == {"running"}
    assert [rig.states()[each] for each in ("c-1", "c-2")] == ["running", "queued"]


def test_of_an_exclusive_instance_a_daemon_costs_its_user_what_it_takes_and_not_all() -> None:
    scheduler = SchedulerSettings(
        placement=Placement.EXCLUSIVE, max_hourly_spend_usd_per_user=spends({"ann": "1"})
    )
    rig = DaemonRig(make_type(1, price="0.1"), pool=LONG, settings=scheduler)
    rig.join()
    rig.submit_daemon(daemon(cpus=200))
    ((attempt_id, _),) = rig.starts()
    assert rig.engine.table.spend.by_subject == {SpendSubject("user", "ann"): Decimal("0.02")}
    rig.advance(1800)
    rig.exit(attempt_id)
    (container,) = rig.of_job("j-1")
    assert container.cost_usd == Decimal("0.01")
    assert rig.engine.table.spend.by_subject == {SpendSubject("user", "ann"): Decimal("0.02")}


def test_who_may_spend_no_more_gets_daemons_all_the_same_since_they_create_nothing() -> None:
    rig = DaemonRig(make_type(1, price="0.1"), pool=LONG, settings=settings("0.1", {"p": "0.01"}))
    rig.join()
    rig.submit_daemon(daemon(cpus=500))
    assert len(rig.starts()) == 1
    rig.submit(make_container(1, cpus=0.1))
    rig.advance(60)
    assert rig.states()["c-1"] == "queued", "its project spends more than it may already"


def test_nobody_joins_those_who_share_a_cpu_once_all_of_them_are_to_end() -> None:
    """The cpu is promised to the successor; it would never come free again."""
    rig = DaemonRig(make_type(1), pool=LONG, settings=ONE)
    (instance,) = rig.join()
    job = daemon(cpus=0)
    rig.submit_daemon(job)
    rig.advance(5)
    ((before, _),) = rig.starts()
    rig.deaf = True
    rig.revise(job.id, resources=Resources(cpu_millis=500, memory_bytes=1))
    rig.submit(make_container(1, cpus=0))
    rig.advance(5)
    assert rig.starts() == []
    rig.deaf = False
    rig.terminated(instance, before)
    rig.advance(60)
    assert [attempt_id.rpartition("-")[0] for attempt_id, _ in rig.starts()] == [
        before.rpartition("-")[0]
    ]


def test_no_elastic_member_joins_those_who_share_a_cpu_once_all_of_them_are_to_end() -> None:
    """It would keep the cpu on which the successor counts, and that one would wait for ever."""
    rig = DaemonRig(make_type(3), pool=LONG, settings=ONE)
    (instance,) = rig.join("t3")
    job = daemon(cpus=0)
    rig.submit_daemon(job)
    rig.submit(make_container(7))
    rig.advance(5)
    (there,) = rig.of_job(job.id)
    before = there.attempts[-1].id
    rig.deaf = True
    rig.revise(job.id, resources=Resources(cpu_millis=1500, memory_bytes=1))
    submit(rig, 2, essential(cpus=0))
    rig.advance(5)
    assert running(rig, 2) == {}
    rig.deaf = False
    rig.terminated(instance, before)
    rig.advance(60)
    (there,) = rig.of_job(job.id)
    assert there.has_open_attempt
