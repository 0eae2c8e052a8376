"""Containers of high priority evict others where no instance can be had, and only there."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import AttemptOutcome, SchedulerSettings
from longshore.dispatcher.input.quantities import Price
from longshore.drivers.errors import CapacityError, QuotaError
from longshore.pool.messages import SignalAttempt
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

QUIET = PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000)


def full_rig(*, from_priority: int | None = 800, most: int = 1, pool: PoolSettings = QUIET) -> Rig:
    """Return a rig at its limit, whose one instance of 8 cpus is full: c-1 to c-8."""
    settings = SchedulerSettings(max_instances=most, preempt_from_priority=from_priority)
    rig = Rig(make_type(8), settings=settings, pool=pool)
    rig.submit(*(make_container(n, priority=100 * n) for n in range(1, 9)))
    assert set(rig.states().values()) == {"running"}
    return rig


def signalled(rig: Rig) -> list[str]:
    return sorted({command.attempt_id for command in last_commands(rig, SignalAttempt)})


def wait_code(rig: Rig, container_id: str) -> str | None:
    reason = rig.engine.why_waiting(container_id)
    return reason.code if reason is not None else None


def test_the_lowest_make_way_and_go_first_again_among_their_own() -> None:
    rig = full_rig()
    rig.submit(make_container(20, priority=100))
    rig.submit(make_container(9, priority=900, cpus=2))
    assert signalled(rig) == ["c-1-1", "c-2-1"]
    assert wait_code(rig, "c-9") == "evicting"
    rig.exit("c-1-1", 143)
    assert rig.states()["c-9"] == "queued", "it needs the room of both"
    assert rig.states()["c-20"] == "queued", "and nobody else gets it"
    rig.exit("c-2-1", 143)
    states = rig.states()
    assert (states["c-9"], states["c-1"], states["c-2"]) == ("running", "queued", "queued")
    attempt = rig.attempts["c-1-1"]
    assert attempt.outcome is AttemptOutcome.PREEMPTED
    assert attempt.reason is not None
    assert (attempt.reason.code, attempt.reason.message) == ("preempted", "it made way for c-9")
    rig.exit("c-9-1")
    rig.exit("c-3-1")
    assert rig.states()["c-2"] == "running"
    assert rig.states()["c-1"] == "running", "before c-20, which waited meanwhile"
    rig.exit("c-4-1")
    assert rig.states()["c-20"] == "running"


def test_nobody_is_evicted_unless_it_is_configured() -> None:
    rig = full_rig(from_priority=None)
    rig.submit(make_container(9, priority=1000))
    assert signalled(rig) == []
    assert wait_code(rig, "c-9") == "at_quota"


def test_who_is_not_important_enough_evicts_nobody() -> None:
    rig = full_rig()
    rig.submit(make_container(9, priority=799))
    assert signalled(rig) == []


def test_nobody_less_than_a_hundred_points_below_is_evicted() -> None:
    settings = SchedulerSettings(max_instances=1, preempt_from_priority=100)
    rig = Rig(make_type(1), settings=settings, pool=QUIET)
    rig.submit(make_container(1, priority=401))
    rig.submit(make_container(2, priority=500))
    assert signalled(rig) == []
    rig.submit(make_container(3, priority=501))
    assert signalled(rig) == ["c-1-1"]


def test_where_an_instance_can_be_created_nobody_is_evicted() -> None:
    rig = full_rig(most=2)
    rig.submit(make_container(9, priority=1000))
    assert signalled(rig) == []
    assert rig.states()["c-9"] == "running"


def test_the_cloud_s_own_limits_count_too() -> None:
    for error in (QuotaError("no more"), CapacityError("none left")):
        rig = full_rig(most=100)
        rig.create_error = lambda _command, error=error: error  # type: ignore[misc]  # bound now
        rig.submit(make_container(9, priority=1000))
        assert signalled(rig) == ["c-1-1"], type(error).__name__


def test_it_evicts_once_for_each_and_several_one_after_the_other() -> None:
    rig = full_rig()
    rig.submit(make_container(9, priority=900))
    rig.advance(60)
    assert signalled(rig) == ["c-1-1"]
    rig.submit(make_container(10, priority=900))
    rig.advance(60)
    assert signalled(rig) == ["c-1-1"], "one instance makes room for one at a time"
    rig.exit("c-1-1", 143)
    assert rig.states()["c-9"] == "running"
    rig.advance(10)
    assert signalled(rig) == ["c-1-1", "c-2-1"]
    rig.exit("c-2-1", 143)
    assert rig.states()["c-10"] == "running"


def test_the_instance_takes_work_again_when_who_it_was_for_is_cancelled() -> None:
    rig = full_rig()
    rig.submit(make_container(9, priority=900))
    rig.cancel("c-9")
    rig.exit("c-1-1", 143)
    assert rig.states()["c-1"] == "running", "its room is free again"


def test_a_restart_remembers_for_whom_room_is_made() -> None:
    rig = full_rig()
    rig.submit(make_container(9, priority=900, cpus=2), make_container(20, priority=150))
    rig.crash()
    rig.exit("c-1-1", 143)
    assert rig.states()["c-20"] == "queued"
    rig.exit("c-2-1", 143)
    assert rig.states()["c-9"] == "running"
    assert rig.attempts["c-2-1"].reason is not None
    assert rig.attempts["c-2-1"].reason.code == "preempted"


def test_an_instance_that_dies_meanwhile_is_forgotten() -> None:
    rig = full_rig(pool=PoolSettings(sync_interval_s=10))
    rig.advance(20)
    rig.submit(make_container(9, priority=900))
    rig.cloud.clear()
    rig.advance(30)
    assert rig.engine.scheduling.evictions.reserved == {}
    assert rig.states()["c-9"] == "running"


def test_an_eviction_costs_no_retry_and_no_lost_attempt() -> None:
    rig = full_rig()
    rig.submit(make_container(9, priority=900))
    rig.exit("c-1-1", 143)
    rig.exit("c-9-1")
    assert rig.states()["c-1"] == "running"
    rig.exit("c-1-2", 1)
    container = rig.containers["c-1"]
    assert container.state.value == "failed"
    assert [attempt.number for attempt in container.attempts] == [1, 2]


def test_supervisors_are_not_evicted_for_batch() -> None:
    settings = SchedulerSettings(max_instances=1, preempt_from_priority=100)
    rig = Rig(make_type(1), settings=settings, pool=QUIET)
    rig.submit(make_container(1, priority=1, supervisor=True))
    rig.submit(make_container(2, priority=900))
    assert signalled(rig) == []


def test_who_is_behind_somebody_who_cannot_be_helped_evicts_nobody() -> None:
    settings = SchedulerSettings(max_instances=1, preempt_from_priority=800)
    rig = Rig(make_type(8), settings=settings, pool=QUIET)
    rig.submit(make_container(1, priority=950, cpus=7), make_container(2, priority=100))
    rig.submit(make_container(10, priority=1000, cpus=8))
    rig.submit(make_container(11, priority=900))
    rig.advance(30)
    assert signalled(rig) == [], "what became free could not be used: c-10 comes first"


def test_several_of_a_class_are_helped_on_several_instances() -> None:
    settings = SchedulerSettings(max_instances=2, preempt_from_priority=800)
    rig = Rig(make_type(1), settings=settings, pool=QUIET)
    rig.submit(make_container(1, priority=1), make_container(2, priority=2))
    rig.submit(make_container(10, priority=900), make_container(11, priority=900))
    rig.advance(5)
    assert signalled(rig) == ["c-1-1", "c-2-1"], "nobody waits for the other's grace period"


def test_room_that_money_does_not_reach_is_not_made() -> None:
    settings = SchedulerSettings(
        max_instances=2,
        preempt_from_priority=800,
        max_price_factor=100,
        max_hourly_spend_usd_per_user={"u": Price("0.5")},
    )
    small, big = make_type(1, name="small", price="0.1"), make_type(2, name="big", price="2")
    rig = Rig(small, big, settings=settings, pool=QUIET)
    others = make_container(1, priority=1, cpus=2)
    rig.submit(replace(others, user="v"), replace(make_container(2, priority=2), user="v"))
    assert set(rig.states().values()) == {"running"}
    assert rig.created_types() == ["small", "big"]
    rig.submit(make_container(20, priority=900, cpus=1))
    rig.advance(10)
    assert signalled(rig) == ["c-2-1"], "on the small one, though the other is of lower priority"


def test_priority_0_leaves_alone_what_makes_way() -> None:
    rig = full_rig()
    rig.submit(make_container(9, priority=900))
    rig.set_priority("c-1", 0)
    rig.exit("c-1-1", 143)
    reason = rig.attempts["c-1-1"].reason
    assert reason is not None
    assert reason.code == "preempted"
    assert rig.states()["c-9"] == "running"


def test_the_instance_is_free_again_when_nobody_needs_the_room_any_more() -> None:
    rig = full_rig()
    rig.submit(make_container(9, priority=900), make_container(20, priority=50))
    rig.exit("c-8-1")
    assert rig.states()["c-9"] == "running", "room came free elsewhere"
    assert rig.engine.scheduling.evictions.reserved == {}


def test_who_makes_way_has_no_more_time_than_all_get() -> None:
    pool = PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000, term_timeout_s=20)
    settings = SchedulerSettings(max_instances=1, preempt_from_priority=800)
    rig = Rig(make_type(1), settings=settings, pool=pool)
    rig.submit(make_container(1, priority=1, grace_period_s=86_400.0))
    rig.submit(make_container(9, priority=900))
    rig.crash()
    rig.advance(20)
    signals = [command.signal for command in last_commands(rig, SignalAttempt)]
    assert signals[-1] == "KILL"
