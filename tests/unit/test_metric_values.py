"""What the metrics say: read off the engine's memory, every series gone with what it was about."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.drivers.errors import CapacityError, CloudError, QuotaError
from longshore.pool.messages import (
    CreateInstance,
    DestroyInstance,
    Probe,
    SessionLost,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import AttemptReport, IdleBehavior, PoolSettings
from tests.exposition import samples, value
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

# ---- instances ------------------------------------------------------------------------------


def test_instances_and_containers_by_category_and_state() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1), make_container(2))
    rig.advance(30)
    found = samples(rig)
    in_use = (("category", "in_use"), ("instance_type", "t1"))
    assert found["longshore_instances", in_use] == 1
    assert found["longshore_instances_price_usd_per_hour", in_use] == 0.123
    assert found["longshore_instances_cpus", in_use] == 1
    assert found["longshore_instances_memory_bytes", in_use] == 2**30 * 11 // 10
    assert found["longshore_containers", (("state", "running"),)] == 1
    assert found["longshore_containers", (("state", "queued"),)] == 1
    assert found["longshore_longest_wait_seconds", ()] == rig.now
    rig.exit("c-1-1", 1)
    assert samples(rig)["longshore_attempts_total", (("outcome", "failed"),)] == 1


def test_every_category() -> None:
    rig = Rig(make_type(1))
    rig.silent |= {Probe, DestroyInstance}
    rig.submit(make_container(1))
    rig.advance(3)
    seen = [categories(rig)]
    rig.probe_now(last_commands(rig, Probe)[-1])
    rig.settle()
    seen.append(categories(rig))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    seen.append(categories(rig))
    rig.exit("c-1-1")
    seen.append(categories(rig))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.RUN))
    seen.append(categories(rig))
    rig.advance(61)
    seen.append(categories(rig))
    assert [list(each) for each in seen] == [
        ["booting"],
        ["in_use"],
        ["in_use"],
        ["hold"],
        ["idle"],
        ["shutdown"],
    ]
    assert {number for each in seen for number in each.values()} == {1}
    rig.boot("t1")
    rig.advance(61)
    assert "unknown" in categories(rig)


def categories(rig: Rig) -> dict[str, float]:
    return {
        dict(labels)["category"]: number
        for (name, labels), number in samples(rig).items()
        if name == "longshore_instances"
    }


def test_series_of_what_is_gone_are_gone() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    assert ("longshore_instances", (("category", "hold"), ("instance_type", "t1"))) in samples(rig)
    rig.advance(3)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    rig.advance(5)
    assert not [key for key in samples(rig) if "instance_type" in dict(key[1])]


def test_types_that_are_not_configured_share_one_series() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.boot("t7")
    rig.boot("t8")
    rig.advance(61)
    assert (
        value(rig, "longshore_instances", category="unknown", instance_type="not configured") == 2
    )


def test_what_is_of_a_type_that_is_not_configured_any_more_costs_what_it_was_bought_for() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.types = {"t2": make_type(2)}
    rig.crash()
    rig.advance(3)
    assert value(
        rig,
        "longshore_instances_price_usd_per_hour",
        category="in_use",
        instance_type="not configured",
    ) == float(make_type(1).price_usd_per_hour)


def test_probe_ages_are_those_of_ready_instances_since_they_were_last_heard() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=3))
    assert value(rig, "longshore_probe_age_max_seconds") == 0
    rig.submit(make_container(1), make_container(2), make_container(3))
    ready_at = rig.now
    rig.silent.add(Probe)
    rig.boot("t1")
    rig.advance(100)
    rig.send(SessionLost(worker_id="i-001", last_contact=ready_at, reason="test"))
    assert len(rig.worker_states()) == 4
    heard = {"i-001": 0.0, "i-002": rig.now - 20, "i-003": rig.now - 5}
    text = Metrics(rig.view, heard_at=lambda id_: heard.get(id_, 0.0)).exposition(rig.now)
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
    assert found["longshore_probe_age_max_seconds"] == 100
    assert found["longshore_probe_age_median_seconds"] == 20


# ---- containers -----------------------------------------------------------------------------


def test_allocated_and_over_quota() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=2))
    rig.silent.add(CreateInstance)
    rig.submit(*(make_container(n) for n in range(1, 6)))
    rig.submit(make_container(6, cpus=0.5, priority=1), make_container(7, priority=0))
    assert value(rig, "longshore_containers_allocated_not_started") == 2
    assert value(rig, "longshore_containers_not_allocated_over_quota") == 4
    rig.silent.add(StartAttempt)
    for command in last_commands(rig, CreateInstance):
        rig.create_now(command)
    rig.settle()
    assert value(rig, "longshore_containers_allocated_not_started") == 2, "no start is confirmed"
    for start in last_commands(rig, StartAttempt):
        rig.start_now(start)
    assert value(rig, "longshore_containers_allocated_not_started") == 0
    assert value(rig, "longshore_containers", state="running") == 2
    assert value(rig, "longshore_containers_not_allocated_over_quota") == 4


def test_at_quota_only_while_the_quota_holds() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(quota_hold_s=60))
    assert value(rig, "longshore_at_quota") == 0
    rig.create_error = lambda _command: QuotaError("no more")
    rig.submit(make_container(1), make_container(2))
    assert value(rig, "longshore_at_quota") == 1
    assert value(rig, "longshore_containers_allocated_not_started") == 0, "nothing can leave"
    assert value(rig, "longshore_containers_not_allocated_over_quota") == 2
    rig.create_error = lambda _command: None
    rig.advance(61)
    assert value(rig, "longshore_at_quota") == 0
    assert value(rig, "longshore_containers_not_allocated_over_quota") == 0


def test_a_quota_that_is_being_tried_still_counts_so_that_an_alert_outlasts_its_trials() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(quota_hold_s=60))
    rig.create_error = lambda _command: QuotaError("no more") if rig.cloud else None
    rig.submit(*(make_container(n) for n in range(1, 5)))
    assert (at_quota(rig), rig.worker_states()) == ((1, 3), {"i-001": "running"})
    for _ in range(3):
        rig.advance(59)
        assert at_quota(rig) == (1, 3), "creates are held"
        rig.silent.add(CreateInstance)
        rig.advance(2)
        assert value(rig, "longshore_pending_launches") == 1
        assert at_quota(rig) == (1, 2), "one create is tried, and whom it is for has a claim"
        rig.silent.discard(CreateInstance)
        rig.create_now(last_commands(rig, CreateInstance)[-1])
        assert at_quota(rig) == (1, 2), "before the next pass too"
        rig.settle()
        assert at_quota(rig) == (1, 3)
    rig.create_error = lambda _command: None
    rig.advance(61)
    assert at_quota(rig) == (0, 0)


def test_who_is_next_in_line_is_locked_without_a_place_and_counted_so() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(quota_hold_s=60))
    rig.create_error = lambda _command: QuotaError("no more") if rig.cloud else None
    rig.submit(make_container(1), make_container(2))
    assert rig.states() == {"c-1": "running", "c-2": "locked"}
    assert at_quota(rig) == (1, 1)
    assert value(rig, "longshore_containers_allocated_not_started") == 0
    waits = rig.engine.why_waiting("c-2")
    assert waits is not None
    assert waits.message.startswith("next in line: no creates before")
    rig.submit(make_container(3))
    behind = rig.engine.why_waiting("c-3")
    assert behind is not None
    assert not behind.message.startswith("next in line")


def test_who_is_skipped_at_a_shortage_waits_for_capacity_with_a_lock_or_without() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: CapacityError("none left")
    rig.submit(make_container(1), make_container(2))
    assert value(rig, "longshore_containers_not_allocated_at_capacity") == 2
    assert value(rig, "longshore_containers_allocated_not_started") == 0
    assert at_quota(rig) == (0, 0)


def test_a_trial_after_another_error_is_no_quota() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: CloudError("busy")
    rig.submit(make_container(1), make_container(2))
    rig.silent.add(CreateInstance)
    rig.advance(120)
    assert value(rig, "longshore_pending_launches") == 1
    assert at_quota(rig) == (0, 0)


def at_quota(rig: Rig) -> tuple[float, float]:
    return (
        value(rig, "longshore_at_quota"),
        value(rig, "longshore_containers_not_allocated_over_quota"),
    )


def test_max_instances_reached_counts_as_quota_while_something_waits_for_it() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1))
    assert value(rig, "longshore_at_quota") == 0, "nobody wants more"
    rig.submit(make_container(2))
    assert value(rig, "longshore_at_quota") == 1
    rig.exit("c-1-1")
    assert rig.states()["c-2"] == "running"
    assert value(rig, "longshore_at_quota") == 0


def test_the_concurrency_limit_has_a_sample_only_at_quota() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1))
    assert ("longshore_concurrency_limit", ()) not in samples(rig)
    rig.submit(make_container(2), make_container(3))
    assert value(rig, "longshore_concurrency_limit") == 1


def started(rig: Rig) -> tuple[float, float]:
    return (
        value(rig, "longshore_queue_to_start_seconds_count"),
        value(rig, "longshore_queue_to_start_seconds_sum"),
    )


def test_queue_to_start_counts_from_the_queue_to_the_confirmation_for_each_attempt() -> None:
    rig = Rig(make_type(1))
    rig.now += 1000
    rig.silent.add(StartAttempt)
    queued = make_container(1)
    rig.submit(queued)
    rig.advance(7)
    assert value(rig, "longshore_longest_wait_seconds") == rig.now
    assert started(rig) == (0, 0)
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    assert started(rig) == (1, rig.now)
    assert value(rig, "longshore_longest_wait_seconds") == 0
    rig.cloud.clear()
    rig.silent.discard(StartAttempt)
    rig.silent.add(CreateInstance)
    while rig.states() != {"c-1": "locked"}:
        rig.advance(1)
    # It is in the queue again since the loss was noticed, later than it was lost.
    lost_at = rig.now
    rig.advance(9)
    assert value(rig, "longshore_longest_wait_seconds") == rig.now - lost_at
    rig.create_now(last_commands(rig, CreateInstance)[-1])
    rig.settle()
    assert started(rig) == (2, (rig.now - lost_at) + 2007)


def test_a_container_that_is_held_back_does_not_wait() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1, priority=0))
    assert value(rig, "longshore_longest_wait_seconds") == 0
    rig.advance(50)
    rig.set_priority("c-1", 10)
    rig.advance(5)
    rig.set_priority("c-1", 20)
    rig.advance(5)
    assert value(rig, "longshore_longest_wait_seconds") == 10
    rig.set_priority("c-1", 0)
    assert value(rig, "longshore_longest_wait_seconds") == 0
    rig.set_priority("c-1", 10)
    rig.advance(3)
    assert value(rig, "longshore_longest_wait_seconds") == 3
    rig.cancel("c-1")
    assert value(rig, "longshore_longest_wait_seconds") == 0


def test_a_start_that_an_earlier_process_saw_is_not_timed_again() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.advance(5)
    rig.silent.discard(StartAttempt)
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    running = rig.attempts["c-1-1"].started_at
    assert running is not None
    rig.crash()
    rig.advance(1)
    assert rig.states() == {"c-1": "running"}
    assert started(rig) == (0, 0), "an earlier process counted it"
    assert value(rig, "longshore_longest_wait_seconds") == 0


def test_a_restart_goes_on_counting_from_the_queue() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.on_instance["i-001"]["c-1-1"] = AttemptReport(attempt_id="c-1-1", container_id="c-1")
    rig.crash()
    assert started(rig) == (1, rig.now), "nobody had heard that it runs"
    rig.advance(10)
    rig.silent.add(CreateInstance)
    rig.cloud.clear()
    rig.advance(61)
    lost_at = rig.attempts["c-1-1"].finished_at or 0.0
    rig.crash()
    assert value(rig, "longshore_longest_wait_seconds") == rig.now - lost_at


def test_an_attempt_that_never_starts_puts_its_container_back_to_the_queue_from_then_on() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.advance(7)
    start = last_commands(rig, StartAttempt)[-1]
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id=start.worker_id,
            attempt_id="c-1-1",
            code="system",
            message="no room",
        )
    )
    rig.advance(2)
    assert started(rig) == (0, 0)
    assert value(rig, "longshore_longest_wait_seconds") == 2
