"""What `explain` says of containers, from a real engine over a made-up cloud."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import (
    Constraints,
    Container,
    Retries,
    SchedulerSettings,
)
from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.dispatcher.explain.explanation import Explanation, Waiting, explain, wait_status
from longshore.drivers.errors import CapacityError, ErrorScope, QuotaError
from longshore.pool.messages import CreateInstance, Probe, ProbeFailed, SignalAttempt
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

TOO_DEAR = (
    "$0.492/h is more than 1.5 times the $0.246/h of t2, the cheapest that would do "
    "(max_price_factor)"
)


def told(rig: Rig, container_id: str) -> Explanation:
    return explain(rig.view, rig.containers[container_id], rig.now)


def waiting(rig: Rig, container_id: str) -> Waiting:
    found = told(rig, container_id).waiting
    assert found is not None
    return found


def sentence(rig: Rig, container_id: str) -> str:
    return wait_status(rig.view, rig.containers[container_id]).sentence


def kinds(rig: Rig, container_id: str) -> list[str]:
    return [each.kind for each in told(rig, container_id).history]


def by_type(rig: Rig, container_id: str) -> dict[str, tuple[str, ...]]:
    return {each.name: each.rejections for each in waiting(rig, container_id).types}


def fates(rig: Rig, container_id: str) -> dict[str, int]:
    return {fate.cause: fate.count for fate in waiting(rig, container_id).instances.fates}


def constrained(number: int, constraints: Constraints, *, cpus: float = 1) -> Container:
    return make_container(number, cpus=cpus, constraints=constraints)


def test_every_type_is_told_with_its_price_and_every_reason_the_cheapest_first() -> None:
    rig = Rig(
        make_type(2),
        make_type(1),
        make_type(4),
        make_type(3, labels=(("zone", "eu"),)),
        settings=SchedulerSettings(max_instances=1, max_price_factor=1.5),
    )
    rig.submit(make_container(1, cpus=1, priority=900), make_container(2, cpus=2))
    assert by_type(rig, "c-2") == {
        "t1": ("too small in cpus", "too small in memory"),
        "t2": (),
        "t3": (),
        "t4": (TOO_DEAR,),
    }
    found = waiting(rig, "c-2").types
    assert [each.price_usd_per_hour for each in found] == [
        Decimal("0.123"),
        Decimal("0.246"),
        Decimal("0.369"),
        Decimal("0.492"),
    ]


def test_label_gpu_a100_wanted_nobody_has_it_counts_as_filtered_and_not_as_exhausted() -> None:
    rig = Rig(make_type(1), make_type(2))
    for name in ("t1", "t1", "t2"):
        rig.boot(name)
    rig.advance(60)
    rig.submit(constrained(1, Constraints(labels=(("gpu", "a100"),))))
    found = waiting(rig, "c-1")
    assert found.reason is not None
    assert found.reason.code == "no_type"
    assert fates(rig, "c-1") == {"label": 3}
    assert found.instances.exhausted == ()
    assert by_type(rig, "c-1")["t1"] == ("label gpu=a100 missing",)
    assert (found.estimate.earliest_s, found.estimate.latest_s) == (None, None)
    assert "only when a type that would do is configured" in found.estimate.basis


def test_instances_are_counted_by_what_keeps_them_and_full_ones_by_dimension() -> None:
    rig = Rig(
        make_type(2),
        make_type(1),
        settings=SchedulerSettings(max_instances=5, max_price_factor=3),
    )
    for name in ("t2", "t2", "t2", "t2", "t1"):
        rig.boot(name)
    rig.advance(60)
    workers = rig.engine.pool.workers
    rig.submit(make_container(1, cpus=2))
    full = rig.started_on()["c-1"]
    others = [w for w in sorted(workers) if workers[w].type.name == "t2" and w != full]
    workers[others[0]].behavior = IdleBehavior.HOLD
    workers[others[1]].health.verdict = "no good"
    workers[others[2]].health.interruption = "2026-01-31T23:59:59Z"
    for each in others:
        rig.engine.pool.touch(each)
    rig.submit(make_container(2, cpus=2))
    found = waiting(rig, "c-2").instances
    causes = ("type", "held", "interrupted", "broken", "exhausted")
    assert fates(rig, "c-2") == dict.fromkeys(causes, 1)
    assert found.total == 5
    assert dict(found.exhausted) == {"cpus": 1, "memory": 1}
    assert {fate.cause: fate.ids for fate in found.fates}["held"] == (others[0],)
    estimate = waiting(rig, "c-2").estimate
    assert (estimate.earliest_s, estimate.latest_s) == (0.0, None)
    assert "nobody knows how long what is running will take" in estimate.basis


def test_full_ones_are_counted_one_by_one_though_looked_at_by_their_shape() -> None:
    settings = SchedulerSettings(max_instances=5, max_price_factor=3)
    rig = Rig(make_type(4), make_type(2), settings=settings)
    for name in ("t2", "t2", "t2", "t4", "t4"):
        rig.boot(name)
    rig.advance(60)
    rig.submit(*[make_container(number, cpus=2, priority=900) for number in range(1, 8)])
    rig.submit(make_container(8, cpus=3))
    found = waiting(rig, "c-8").instances
    assert {fate.cause: (fate.count, len(fate.ids)) for fate in found.fates} == {
        "type": (3, 3),
        "exhausted": (2, 2),
    }
    assert dict(found.exhausted) == {"cpus": 2, "memory": 2}


def test_full_by_number_of_containers_is_told_as_such() -> None:
    rig = Rig(
        make_type(4), settings=SchedulerSettings(max_instances=1, max_containers_per_instance=1)
    )
    rig.submit(make_container(1), make_container(2))
    rig.advance(30)
    assert dict(waiting(rig, "c-2").instances.exhausted) == {"containers": 1}


def test_of_two_with_equal_room_one_may_be_full_by_number_too() -> None:
    settings = SchedulerSettings(max_instances=2, max_containers_per_instance=2)
    rig = Rig(make_type(2), settings=settings)
    rig.submit(make_container(1, cpus=2), make_container(2), make_container(3))
    rig.advance(30)
    rig.submit(make_container(4))
    exhausted = dict(waiting(rig, "c-4").instances.exhausted)
    assert exhausted == {"containers": 1, "cpus": 2, "memory": 2}


def test_position_and_class_count_all_that_wait_before_it() -> None:
    rig = Rig(make_type(2), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1, cpus=2, priority=900))
    rig.advance(30)
    rig.submit(make_container(2, cpus=2), make_container(3, cpus=1), make_container(4, cpus=2))
    rig.submit(make_container(5, cpus=1, priority=800))
    place = waiting(rig, "c-4").position
    assert place is not None
    assert (place.number, place.of, place.alike) == (4, 4, 2)
    assert sentence(rig, "c-5").endswith(" (position 1 of 4)")
    assert sentence(rig, "c-4").endswith(" (position 4 of 4)")
    assert told(rig, "c-4").sentence.startswith("c-4 waits: behind c-5")
    assert sentence(rig, "c-1") == ""
    limits = {limit.name: limit.is_reached for limit in waiting(rig, "c-4").limits}
    assert limits == {
        "max_instances": True,
        "max_concurrent_creates": False,
        "max_cloud_ops_per_second": False,
    }


def test_those_before_it_that_can_never_start_are_counted_apart() -> None:
    rig = Rig(make_type(2), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1, cpus=2, priority=900))
    rig.advance(30)
    nowhere = Constraints(labels=(("gpu", "a100"),))
    for number, priority in ((2, 800), (3, 700), (4, 100)):
        rig.submit(make_container(number, constraints=nowhere, priority=priority))
    rig.submit(make_container(5, cpus=2, priority=500), make_container(6, cpus=2, priority=400))
    place = waiting(rig, "c-6").position
    assert place is not None
    assert (place.number, place.of, place.stuck) == (4, 5, 2)
    last = waiting(rig, "c-4").position
    assert last is not None
    assert (last.number, last.stuck) == (5, 2)


def test_a_shortage_is_a_hold_with_its_end_and_the_estimate_begins_there() -> None:
    rig = Rig(make_type(1), make_type(2), pool=PoolSettings(capacity_hold_s=60))
    short = CapacityError("none left", scope=ErrorScope.ALL)
    rig.create_error = lambda _command: short
    rig.submit(make_container(1))
    found = waiting(rig, "c-1")
    assert found.reason is not None
    assert found.reason.code == "at_capacity"
    assert [(hold.cause.value, hold.until) for hold in found.holds] == [("capacity", 1060.0)]
    assert found.types[0].blocked_by == "at capacity until 1970-01-01T00:17:40Z: none left"
    assert (found.estimate.earliest_s, found.estimate.latest_s) == (60.0, None)
    rig.advance(20)
    assert waiting(rig, "c-1").estimate.earliest_s == pytest.approx(40.0)


def test_a_hold_that_concerns_no_type_that_would_do_is_left_out() -> None:
    rig = Rig(make_type(1), make_type(2), settings=SchedulerSettings(max_price_factor=1))
    short = CapacityError("none left", scope=ErrorScope.TYPE)
    rig.create_error = lambda command: short if command.launch.type_name == "t2" else None
    rig.silent.add(Probe)
    rig.submit(make_container(1, cpus=2), make_container(2))
    assert [hold.scope.type_name for hold in waiting(rig, "c-1").holds] == ["t2"]
    assert list(waiting(rig, "c-2").holds) == []


def test_the_estimate_of_a_claim_is_what_others_took_less_what_has_passed() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    claim = waiting(rig, "c-1").claim
    assert claim is not None
    assert (claim.type_name, claim.since, claim.instance_id != "") == ("t1", 1000.0, True)
    unknown = waiting(rig, "c-1").estimate
    assert (unknown.earliest_s, unknown.latest_s) == (0.0, None)
    assert "none has become ready yet" in unknown.basis
    for seconds in (31.0, 35.0, 44.0):
        rig.engine.pool.statistics.time_to_ready_s.observe(seconds)
    rig.advance(10)
    known = waiting(rig, "c-1").estimate
    assert (known.earliest_s, known.latest_s) == (20.0, 35.0)
    assert "of 3 that became ready, most took 30 s to 45 s" in known.basis
    rig.advance(40)
    late = waiting(rig, "c-1").estimate
    assert (late.earliest_s, late.latest_s) == (0.0, None)
    assert "takes longer than most" in late.basis


def test_a_claim_on_what_is_still_being_created_has_no_instance_yet() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    claim = waiting(rig, "c-1").claim
    assert claim is not None
    assert (claim.instance_id, claim.type_name, claim.since) == ("", "t1", 1000.0)


def test_what_is_held_back_has_no_position() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1, priority=0))
    found = waiting(rig, "c-1")
    assert found.position is None
    assert sentence(rig, "c-1") == "held back: its priority is 0"
    assert "priority is set above 0" in found.estimate.basis


def test_a_restart_delay_is_the_earliest_start() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1, retries=Retries(most=3, delay_s=15)))
    rig.advance(30)
    rig.exit("c-1-1", code=1)
    rig.advance(0)
    rig.exit("c-1-2", code=1)
    found = waiting(rig, "c-1")
    assert found.reason is not None
    assert found.reason.code == "restart_delay"
    assert (found.reason.until, found.estimate.earliest_s) == (1045.0, 15.0)
    assert [k for k in kinds(rig, "c-1") if k in ("placed", "started", "ended")] == [
        "placed",
        "started",
        "ended",
        "placed",
        "started",
        "ended",
    ]


def test_a_restart_delay_is_in_the_history_and_not_what_its_class_waits_for_meanwhile() -> None:
    rig = Rig(make_type(2), settings=SchedulerSettings(max_instances=1))
    first = make_container(1, cpus=2, priority=900, retries=Retries(most=3, delay_s=15))
    rig.submit(replace(first, created_at=rig.now))
    rig.advance(30)
    rig.exit("c-1-1", code=1)
    rig.advance(0)
    rig.submit(replace(make_container(2, cpus=2, priority=950), created_at=rig.now))
    rig.exit("c-1-2", code=1)
    rig.advance(5)
    # The class waits for room from here on, and c-1 does too after its delay.
    rig.submit(replace(make_container(3, cpus=2, priority=800), created_at=rig.now))
    rig.advance(5)
    delayed = [(each.at, each.kind) for each in told(rig, "c-1").history][-1]
    assert delayed == (1030.0, "restart_delay")
    assert "1970-01-01T00:17:25Z" in told(rig, "c-1").history[-1].message
    assert kinds(rig, "c-3") == ["submitted", "at_quota"]
    rig.advance(20)
    assert [(each.at, each.kind) for each in told(rig, "c-1").history][-2:] == [
        (1030.0, "restart_delay"),
        (1045.0, "at_quota"),
    ]


def test_who_runs_on_an_instance_that_no_listing_shows_is_in_doubt() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.advance(30)
    worker = rig.started_on()["c-1"]
    assert wait_status(rig.view, rig.containers["c-1"]).doubt == ""
    rig.hidden.add(worker)
    rig.unreachable.add(worker)
    rig.crash(listed=False)
    doubt = wait_status(rig.view, rig.containers["c-1"]).doubt
    assert doubt == f"the cloud's first listing is to tell whether {worker} is there, where it ran"
    rig.silent.clear()
    rig.list_now(rig.engine.pool.listing_op)
    doubt = wait_status(rig.view, rig.containers["c-1"]).doubt
    assert doubt.startswith(
        f"{worker} is missing from the cloud's listings since 1970-01-01T00:17:"
    )
    assert told(rig, "c-1").sentence.endswith(f"; but {doubt}")
    rig.hidden.clear()
    rig.unreachable.clear()
    rig.advance(31)
    assert wait_status(rig.view, rig.containers["c-1"]).doubt == ""
    assert told(rig, "c-1").sentence == f"c-1 runs on {worker} (t1), attempt 1"


def test_the_history_has_what_was_decided_in_order_with_times() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(replace(make_container(1, priority=900), created_at=rig.now))
    rig.advance(30)
    rig.submit(replace(make_container(2), created_at=rig.now))
    waited_since = rig.now
    rig.advance(60)
    rig.set_priority("c-2", 700)
    rig.exit("c-1-1")
    rig.advance(5)
    rig.cancel("c-2")
    rig.silent.discard(SignalAttempt)
    history = told(rig, "c-2").history
    assert [each.at for each in history] == sorted(each.at for each in history)
    found = [each.kind for each in history]
    assert found == ["submitted", "at_quota", "priority", "placed", "started", "cancel"]
    assert history[1].at == waited_since
    assert history[2].message == "its priority was set to 700"
    assert told(rig, "c-1").waiting is None
    assert kinds(rig, "c-1")[-1] == "succeeded"


def test_locks_and_unlocks_are_in_the_history_and_hide_the_reasons_of_the_class() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(replace(make_container(1), created_at=rig.now))
    assert kinds(rig, "c-1") == ["submitted", "locked"]
    rig.advance(1)
    rig.set_priority("c-1", 0)
    assert kinds(rig, "c-1")[2:] == ["held", "unlocked"]


def test_a_place_from_before_a_restart_that_is_given_up_is_told() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.crash()
    assert kinds(rig, "c-1") == ["submitted", "restart", "locked"]
    rig.set_priority("c-1", 0)
    assert kinds(rig, "c-1")[3:] == ["held", "unlocked"]


def test_after_a_restart_attempts_are_known_and_the_gap_is_told() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1), replace(make_container(2), created_at=rig.now))
    rig.advance(30)
    rig.crash()
    rig.advance(30)
    assert [k for k in kinds(rig, "c-1") if k != "restart"] == ["submitted", "placed", "started"]
    assert kinds(rig, "c-2") == ["submitted", "restart", "at_quota"]
    assert told(rig, "c-2").recorded_since == 1030.0


def test_who_runs_and_who_has_ended_is_told_in_a_sentence() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.advance(30)
    worker = rig.started_on()["c-1"]
    assert told(rig, "c-1").sentence == f"c-1 runs on {worker} (t1), attempt 1"
    rig.exit("c-1-1", code=3)
    assert told(rig, "c-1").sentence == f"c-1 has failed: {_reason(rig, 'c-1')}"
    assert told(rig, "c-1").waiting is None


def _reason(rig: Rig, container_id: str) -> str:
    reason = rig.containers[container_id].reason
    assert reason is not None
    return reason.message


def test_a_create_that_failed_is_in_the_history_of_those_it_was_for() -> None:
    rig = Rig(make_type(1), make_type(2), pool=PoolSettings(capacity_hold_s=60))
    short = CapacityError("none left in eu-1", scope=ErrorScope.ALL)
    rig.create_error = lambda _command: short
    rig.submit(replace(make_container(1), created_at=rig.now))
    failed = [each for each in told(rig, "c-1").history if each.kind == "create_failed"]
    assert [(each.at, each.message) for each in failed] == [
        (rig.now, "the create of a t1 for it, or for others like it, failed: none left in eu-1")
    ]
    rig.submit(replace(make_container(2, cpus=2), created_at=rig.now))
    assert "create_failed" not in kinds(rig, "c-2"), "it is of another class"


def test_a_quota_that_refuses_one_where_none_is_has_no_end_to_wait_for() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(quota_hold_s=90))
    none = QuotaError("you may have 0", scope=ErrorScope.ALL)
    rig.create_error = lambda _command: none
    rig.submit(make_container(1))
    found = waiting(rig, "c-1")
    assert found.reason is not None
    assert found.reason.code == "at_quota"
    assert "must end" not in found.estimate.basis
    assert "a new instance must be created, which is not tried for another 90 s" in (
        found.estimate.basis
    )
    assert found.estimate.earliest_s == 90.0


def test_what_goes_wrong_on_the_instance_that_it_waits_for_is_told_with_its_place() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    probe = last_commands(rig, Probe)[-1]
    assert isinstance(probe, Probe)
    rig.send(
        ProbeFailed(
            op_id=probe.op_id,
            worker_id="i-001",
            revision=probe.revision,
            stage="connect",
            message="refused on port 22",
        )
    )
    claim = waiting(rig, "c-1").claim
    assert claim is not None
    assert "refused on port 22" in claim.last_error


def test_where_a_place_was_lost_and_why_is_told_each_time() -> None:
    """Found by a stranger: the first move was missing, the second had neither where nor why."""
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.silent.add(Probe)
    rig.submit(replace(make_container(1), created_at=rig.now))
    rig.submit(replace(make_container(2, cpus=0.5), created_at=rig.now))
    for number in (1, 2):
        rig.advance(5)
        rig.send(InstanceKillRequested(worker_id=f"i-00{number}", reason="no runner"))
    lost = [each for each in told(rig, "c-1").history if each.kind == "place_lost"]
    why = "for it, or for others like it, was lost: an admin ended it: no runner"
    assert [(each.at, each.message) for each in lost] == [
        (1005.0, f"the place on i-001 (t1) {why}"),
        (1010.0, f"the place on i-002 (t1) {why}"),
    ]
    assert "place_lost" not in kinds(rig, "c-2"), "it had none"
    rig.silent.clear()
    rig.advance(60)
    rig.exit("c-1-1")
    assert len([each for each in kinds(rig, "c-1") if each == "place_lost"]) == 2


def test_a_place_on_an_instance_that_is_held_or_vanishes_is_told_as_lost() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(replace(make_container(1), created_at=rig.now))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    rig.settle()
    rig.advance(61)
    del rig.cloud["i-002"]
    rig.advance(120)
    lost = [each.message for each in told(rig, "c-1").history if each.kind == "place_lost"]
    whys = [each.partition(" was lost: ")[2] for each in lost]
    assert whys == [
        "its idle behavior is hold now",
        "a listing lacks it: it counts as there, and gets no work",
        "the cloud no longer lists it",
    ]
