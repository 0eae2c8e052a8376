"""How many containers may run at once: what overload does to the limit, and what quiet does."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Reason,
    SchedulerSettings,
)
from longshore.dispatcher.domain.messages import Overloaded
from longshore.dispatcher.scheduler.placement.concurrency import Concurrency
from longshore.dispatcher.state.restarts import may_try_again, restart_due
from longshore.pool.messages import StartAttempt, StartRefused
from longshore.pool.model import PoolSettings
from tests.exposition import samples, value
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

CAUSE = "a commit of the store's took 6.0 s"


def concurrency(max_containers: int | None = None, fraction: float = 0.3) -> Concurrency:
    return Concurrency(max_containers=max_containers, supervisor_fraction=fraction)


# ---- the limit -----------------------------------------------------------------------------------


def test_there_is_no_limit_at_first() -> None:
    limits = concurrency()
    assert limits.limit(0.0) is None
    assert limits.next_rise() is None
    assert not limits.observe(1000, 100.0)


@pytest.mark.parametrize(("running", "limit"), [(100, 99), (2, 1), (1, 1)])
def test_overload_limits_to_one_less_than_what_runs_and_at_least_one(
    running: int, limit: int
) -> None:
    limits = concurrency()
    assert limits.overloaded(running, 10.0, CAUSE)
    assert limits.limit(10.0) == limit
    assert limits.cause == CAUSE


def test_what_does_not_run_cannot_be_the_cause_of_overload() -> None:
    limits = concurrency()
    assert not limits.overloaded(0, 10.0)
    assert limits.limit(10.0) is None


def test_the_limit_sinks_one_step_a_second_at_most() -> None:
    limits = concurrency()
    assert limits.overloaded(100, 10.0)
    assert not limits.overloaded(50, 10.99)
    assert limits.limit(11.0) == 99
    assert limits.overloaded(50, 11.0)
    assert limits.limit(11.0) == 49


def test_overload_never_raises_the_limit() -> None:
    limits = concurrency()
    limits.overloaded(10, 0.0)
    assert not limits.overloaded(100, 5.0)
    assert limits.limit(5.0) == 9


def test_after_each_quiet_minute_the_limit_rises_by_a_tenth_and_one() -> None:
    limits = concurrency()
    limits.overloaded(101, 0.0)
    assert limits.next_rise() == 60.0
    assert limits.limit(59.9) == 100
    assert limits.limit(60.0) == 111
    limits.observe(111, 60.0)
    assert limits.next_rise() == 120.0
    assert limits.limit(119.9) == 111
    assert limits.limit(120.0) == 123


def test_a_minute_is_quiet_only_without_any_report() -> None:
    limits = concurrency()
    limits.overloaded(101, 0.0)
    limits.overloaded(100, 0.5)
    assert limits.next_rise() == 60.5
    limits.overloaded(200, 50.0)
    assert limits.limit(109.9) == 100
    assert limits.limit(110.0) == 111


def test_who_observes_learns_of_the_rise_even_when_somebody_asked_for_the_limit_first() -> None:
    limits = concurrency()
    limits.overloaded(101, 0.0)
    assert limits.limit(60.0) == 111
    assert limits.observe(100, 60.0)
    assert not limits.observe(100, 61.0)


def test_a_limit_that_is_not_reached_does_not_rise_and_is_gone_after_ten_minutes() -> None:
    limits = concurrency()
    limits.overloaded(101, 0.0)
    limits.observe(40, 1.0)
    assert limits.limit(60.0) == 111, "it was reached within that minute"
    assert limits.limit(120.0) == 111
    assert limits.limit(599.0) == 111
    assert limits.limit(661.0) is None
    assert limits.next_rise() is None
    assert limits.cause == ""


def test_a_limit_that_is_reached_now_and_then_stays() -> None:
    limits = concurrency()
    limits.overloaded(101, 0.0)
    limits.observe(40, 1.0)
    limits.observe(111, 500.0)
    limits.observe(40, 501.0)
    assert limits.limit(1000.0) == 123
    assert limits.limit(1140.0) is None


def test_many_quiet_minutes_at_once_are_taken_in_one_by_one() -> None:
    limits = concurrency()
    limits.overloaded(101, 0.0)
    limits.observe(130, 1.0)
    assert limits.limit(240.0) == 136, "111, 123, 136; not above, since only 130 are known to run"


def test_max_containers_is_an_upper_bound() -> None:
    limits = concurrency(max_containers=50)
    assert limits.limit(0.0) == 50
    limits.overloaded(40, 0.0)
    assert limits.limit(1.0) == 39
    limits.observe(1000, 1.0)
    assert limits.limit(1000.0) == 50


@pytest.mark.parametrize(
    ("fraction", "limit", "supervisors"),
    [(0.3, None, None), (0.3, 100, 30), (0.3, 1, 1), (0.0, 100, 1), (1.0, 7, 7), (0.29, 100, 29)],
)
def test_supervisors_fill_a_share_of_the_limit_and_at_least_one(
    fraction: float, limit: int | None, supervisors: int | None
) -> None:
    assert concurrency(fraction=fraction).supervisors(limit) == supervisors


# ---- in the engine -------------------------------------------------------------------------------


def busy(count: int = 4, *, cpus: int = 1) -> Rig:
    """Return a rig with so many containers that run."""
    rig = Rig(make_type(cpus), pool=PoolSettings(idle_timeout_s=100_000))
    rig.submit(*(make_container(number) for number in range(1, count + 1)))
    assert set(rig.states().values()) == {"running"}
    return rig


def test_the_engine_limits_what_runs_when_the_store_is_overloaded() -> None:
    rig = busy()
    passes = rig.engine.scheduling.passes
    rig.send(Overloaded(source="store", message=CAUSE))
    assert rig.engine.concurrency.limit(rig.now) == 3
    assert rig.engine.concurrency.cause == CAUSE
    assert rig.engine.scheduling.passes == passes + 1, "claims above the limit are given up"


def test_the_engine_wakes_up_and_plans_when_the_limit_rises() -> None:
    rig = busy()
    rig.send(Overloaded(source="store", message=CAUSE))
    rig.advance(59)
    passes = rig.engine.scheduling.passes
    rig.advance(1)
    assert rig.engine.concurrency.limit(rig.now) == 4
    assert rig.engine.scheduling.passes == passes + 1


def test_the_limit_has_a_sample() -> None:
    rig = busy()
    assert ("longshore_concurrency_limit", ()) not in samples(rig)
    rig.send(Overloaded(source="store", message=CAUSE))
    assert value(rig, "longshore_concurrency_limit") == 3


def test_pitfall_at_quota_the_limit_counts_no_instances_and_free_room_is_taken() -> None:
    settings = SchedulerSettings(max_instances=1)
    rig = Rig(make_type(4), settings=settings)
    rig.submit(*(make_container(number) for number in range(1, 8)))
    assert rig.engine.scheduling.at_quota
    assert rig.engine.concurrency.limit(rig.now) is None
    rig.exit("c-1-1")
    assert rig.states()["c-5"] == "running"


# ---- a runner that is overloaded -----------------------------------------------------------------


def refused(rig: Rig, *, code: str = "overloaded") -> None:
    """Refuse the latest start."""
    start = last_commands(rig, StartAttempt)[-1]
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id=start.worker_id,
            attempt_id=start.order.attempt_id,
            code=code,
            message="the attempt cannot be started: Resource temporarily unavailable",
        )
    )


def with_room() -> Rig:
    """Return a rig whose one instance runs c-1 and c-2 and has room for more."""
    settings = SchedulerSettings(max_instances=1)
    pool = PoolSettings(idle_timeout_s=100_000, sync_interval_s=100_000)
    rig = Rig(make_type(8), settings=settings, pool=pool)
    rig.submit(make_container(1), make_container(2))
    rig.silent.add(StartAttempt)
    return rig


def test_a_start_that_an_overloaded_runner_refuses_waits_and_lowers_the_limit() -> None:
    rig = with_room()
    rig.submit(make_container(3))
    refused(rig)
    assert rig.engine.concurrency.limit(rig.now) == 1, "two ran"
    assert rig.engine.concurrency.cause.startswith("i-001 refused a start: the attempt cannot")
    assert rig.states()["c-3"] == "queued"
    reason = rig.attempts["c-3-1"].reason
    assert reason is not None
    assert reason.code == "overloaded"


def test_an_overloaded_instance_gets_no_new_work_for_a_minute() -> None:
    rig = with_room()
    rig.submit(make_container(3))
    refused(rig)
    rig.advance(59)
    assert len(last_commands(rig, StartAttempt)) == 3
    rig.advance(61)
    assert len(last_commands(rig, StartAttempt)) == 4, "and the limit of containers has risen twice"
    assert last_commands(rig, StartAttempt)[-1].order.attempt_id == "c-3-2"


def test_the_end_of_its_pause_is_a_deadline_of_its_own() -> None:
    settings = SchedulerSettings(max_instances=1)
    pool = PoolSettings(idle_timeout_s=100_000, sync_interval_s=100_000)
    rig = Rig(make_type(8), settings=settings, pool=pool)
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    refused(rig)
    rig.advance(59.9)
    assert len(last_commands(rig, StartAttempt)) == 1
    rig.advance(0.1)
    assert len(last_commands(rig, StartAttempt)) == 2


def test_an_instance_that_rests_is_not_idle_before_it_may_be_used_again() -> None:
    """Found by a review: when its rest was over it had been idle for too long."""
    rig = Rig(make_type(8), pool=PoolSettings(idle_timeout_s=60, sync_interval_s=100_000))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    refused(rig)
    rig.cancel("c-1")
    rig.advance(60)
    assert rig.worker_states() == {"i-001": "idle"}
    rig.submit(make_container(2))
    assert last_commands(rig, StartAttempt)[-1].worker_id == "i-001"
    rig.advance(1)
    refused(rig)
    rig.cancel("c-2")
    rig.advance(119)
    assert rig.worker_states() == {"i-001": "idle"}
    rig.advance(1)
    assert set(rig.worker_states().values()) <= {"shutdown"}


def test_starts_that_were_under_way_together_count_once_against_an_overloaded_instance() -> None:
    rig = with_room()
    rig.submit(*(make_container(number) for number in range(3, 7)))
    starts = last_commands(rig, StartAttempt)[2:]
    assert len(starts) == 4
    for start in starts:
        rig.send(
            StartRefused(
                op_id=start.op_id,
                worker_id=start.worker_id,
                attempt_id=start.order.attempt_id,
                code="overloaded",
                message="full",
            )
        )
    assert rig.engine.pool.workers["i-001"].health.refusals == 1


def test_an_instance_that_stays_overloaded_is_drained() -> None:
    rig = with_room()
    rig.submit(make_container(3))
    for _ in range(3):
        assert rig.engine.pool.workers["i-001"].health.verdict == ""
        refused(rig)
        rig.advance(180)
    assert rig.engine.pool.workers["i-001"].health.verdict.startswith(
        "3 starts in a row were refused"
    )


def test_an_instance_on_which_nothing_else_runs_does_not_lower_the_limit() -> None:
    rig = busy(2)
    rig.silent.add(StartAttempt)
    rig.submit(make_container(3))
    refused(rig)
    assert rig.engine.concurrency.limit(rig.now) is None
    assert rig.engine.pool.workers["i-003"].health.overloaded_until == rig.now + 60


def test_another_refusal_is_no_overload() -> None:
    rig = with_room()
    rig.submit(make_container(3))
    refused(rig, code="spawn")
    assert rig.engine.concurrency.limit(rig.now) is None
    assert rig.engine.pool.workers["i-001"].health.refusals == 1
    assert len(last_commands(rig, StartAttempt)) == 4, "it is tried again at once"


def test_what_overloaded_instances_refuse_waits_longer_each_time_and_counts_as_no_loss() -> None:
    """Found by a review: five instances were bought in two minutes, and the container failed."""
    refusal = Attempt(
        id="c-1-1",
        container_id="c-1",
        number=1,
        instance_id="i-1",
        instance_type="t1",
        price_usd_per_hour=Decimal(1),
        created_at=1000.0,
        finished_at=1000.0,
        outcome=AttemptOutcome.LOST,
        reason=Reason(code="overloaded", message="full"),
    )
    settings = SchedulerSettings(max_lost_attempts=2)
    delays, tried = [], []
    for number in range(1, 21):
        container = replace(make_container(1), attempts=(refusal,) * number)
        due = restart_due(container)
        assert due is not None
        delays.append(due - 1000)
        tried.append(may_try_again(container, settings))
    assert delays[:6] == [15, 30, 60, 120, 240, 300]
    assert tried == [True] * 19 + [False]
    lost = replace(refusal, reason=Reason(code="lost", message="gone"))
    once = replace(make_container(1), attempts=(*(refusal,) * 9, lost))
    assert may_try_again(once, settings)
    assert not may_try_again(replace(once, attempts=(*once.attempts, lost)), settings)
