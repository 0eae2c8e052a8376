"""Holds and rates as the whole engine lives with them: waits, wake-ups, and no call too many."""

from __future__ import annotations

from itertools import pairwise

from longshore.dispatcher.domain.containers import Constraints, Placement, SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.drivers.errors import (
    CapacityError,
    CloudError,
    ErrorScope,
    QuotaError,
    RateLimitError,
)
from longshore.pool.messages import (
    CreateFailed,
    CreateInstance,
    DestroyFailed,
    DestroyInstance,
    ListingFailed,
    ListInstances,
    Probe,
    ProbeFailed,
    SessionLost,
    SetTags,
    TagsFailed,
)
from longshore.pool.model import IdleBehavior, PoolSettings
from longshore.pool.timers import TimerKind
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

EXCLUSIVE = SchedulerSettings(placement=Placement.EXCLUSIVE)
GPU = make_type(4, name="gpu")
GROUPS = {"t1": "standard", "gpu": "gpu"}


def only(name: str) -> Constraints:
    return Constraints(instance_types=(name,))


def count(rig: Rig, kind: type[CreateInstance | DestroyInstance | ListInstances | SetTags]) -> int:
    return len(last_commands(rig, kind))


def refuse(rig: Rig, error: CloudError) -> None:
    """Refuse the latest create."""
    create = last_commands(rig, CreateInstance)[-1]
    rig.send(CreateFailed(op_id=create.op_id, token=create.launch.token, error=error))


def waits_for(rig: Rig, container_id: str) -> str:
    reason = rig.engine.scheduling.reason(container_id)
    assert reason is not None
    return reason.code


def told(rig: Rig, container_id: str) -> str:
    reason = rig.engine.scheduling.reason(container_id)
    assert reason is not None
    return reason.message


# ---- creates -------------------------------------------------------------------------------------


def test_a_quota_of_a_group_lets_the_other_group_go_on_and_ends_when_one_of_its_own_leaves() -> (
    None
):
    rig = Rig(
        make_type(1),
        GPU,
        settings=EXCLUSIVE,
        pool=PoolSettings(quota_hold_s=3600, sync_interval_s=1),
        quota_groups=GROUPS,
    )
    rig.submit(
        make_container(1, constraints=only("t1")), make_container(2, constraints=only("gpu"))
    )
    rig.create_error = lambda c: QuotaError("1") if c.launch.type_name == "t1" else None
    rig.submit(make_container(3, constraints=only("t1")))
    assert waits_for(rig, "c-3") == "at_quota"
    rig.submit(make_container(4, constraints=only("gpu"), priority=1))
    assert rig.states()["c-4"] == "running", "the gpus have a limit of their own"
    rig.create_error = lambda _command: None
    del rig.cloud[rig.started_on()["c-2"]]
    rig.cancel("c-2")
    rig.advance(30)
    assert rig.states()["c-3"] != "running", "a gpu that leaves makes no room for it"
    rig.cancel("c-1")
    rig.exit("c-1-1", 143)
    rig.send(InstanceKillRequested(worker_id=rig.started_on()["c-1"], reason=""))
    rig.advance(3)
    assert rig.states()["c-3"] == "running"


def test_the_planner_is_woken_when_a_hold_ends_and_not_before() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=100_000))
    rig.create_error = lambda _command: RateLimitError("slow", retry_after_s=42.5)
    rig.submit(make_container(1))
    creates = len(last_commands(rig, CreateInstance))
    rig.create_error = lambda _command: None
    rig.advance(42.25)
    assert len(last_commands(rig, CreateInstance)) == creates
    rig.advance(0.25)
    assert rig.states() == {"c-1": "running"}


def test_a_shortage_doubles_its_hold_and_one_create_is_tried_each_time() -> None:
    rig = Rig(settings=EXCLUSIVE, pool=PoolSettings(sync_interval_s=100_000, capacity_hold_s=60))
    rig.create_error = lambda _command: CapacityError("none")
    rig.submit(*(make_container(n) for n in range(1, 6)))
    assert count(rig, CreateInstance) == 5, "nobody knew better"
    tried = []
    for _ in range(20_000 // 10):
        before = count(rig, CreateInstance)
        rig.advance(10)
        if count(rig, CreateInstance) > before:
            assert count(rig, CreateInstance) == before + 1
            tried.append(rig.now - 1000)
    assert [later - sooner for sooner, later in pairwise(tried)][:6] == [
        120,
        240,
        480,
        900,
        900,
        900,
    ]
    assert waits_for(rig, "c-1") == "at_capacity"
    rig.create_error = lambda _command: None
    rig.advance(900)
    assert set(rig.states().values()) == {"running"}


def test_while_a_trial_is_under_way_no_second_create_begins_in_its_scope() -> None:
    rig = Rig(
        make_type(1),
        GPU,
        settings=EXCLUSIVE,
        pool=PoolSettings(sync_interval_s=100_000),
        quota_groups=GROUPS,
    )
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1, constraints=only("t1")))
    refuse(rig, CapacityError("none", scope=ErrorScope.GROUP))
    rig.submit(
        make_container(2, constraints=only("t1")), make_container(3, constraints=only("gpu"))
    )
    assert rig.created_types() == ["t1", "gpu"]
    rig.advance(60)
    assert rig.created_types() == ["t1", "gpu", "t1"]
    rig.submit(make_container(4, constraints=only("t1")))
    rig.advance(60)
    assert rig.created_types() == ["t1", "gpu", "t1"]
    assert waits_for(rig, "c-4") == "at_capacity"
    rig.create_now(last_commands(rig, CreateInstance)[-1])
    rig.settle()
    assert rig.created_types() == ["t1", "gpu", "t1", "t1", "t1"]


def test_while_a_quota_is_tried_again_the_rest_waits_for_that_and_is_told_so() -> None:
    rig = Rig(settings=EXCLUSIVE, pool=PoolSettings(sync_interval_s=100_000, quota_hold_s=300))
    rig.create_error = lambda _command: QuotaError("8 at most")
    rig.submit(make_container(1), make_container(2))
    assert waits_for(rig, "c-2") == "at_quota"
    assert told(rig, "c-2").startswith("no creates before 1970-01-01T00:21:40Z: 8 at most; ")
    rig.silent.add(CreateInstance)
    rig.advance(300)
    assert rig.states()["c-1"] == "locked"
    assert waits_for(rig, "c-2") == "creating"
    assert told(rig, "c-2") == "one create is being tried, after: 8 at most"


def test_at_quota_the_concurrency_limit_counts_containers() -> None:
    rig = Rig(make_type(4), settings=SchedulerSettings(max_instances=2))
    rig.submit(*(make_container(n) for n in range(1, 8)))
    assert rig.engine.scheduling.concurrency_limit() is None
    rig.submit(make_container(8), make_container(9))
    assert waits_for(rig, "c-9") == "at_quota"
    assert rig.engine.scheduling.concurrency_limit() == 8
    rig.exit("c-1-1")
    assert rig.states()["c-9"] == "running", "packing goes on"
    assert rig.engine.scheduling.concurrency_limit() is None


def test_at_quota_the_concurrency_limit_counts_those_with_a_place_too() -> None:
    rig = Rig(make_type(4), settings=SchedulerSettings(max_instances=1))
    rig.silent.add(Probe)
    rig.submit(*(make_container(n) for n in range(1, 7)))
    assert rig.engine.scheduling.concurrency_limit() == 4


# ---- the rate of cloud operations ----------------------------------------------------------------


def test_creates_wait_for_tokens_and_the_planner_is_woken_for_each() -> None:
    settings = PoolSettings(sync_interval_s=100_000, max_cloud_ops_per_second=0.5)
    rig = Rig(settings=EXCLUSIVE, pool=settings)
    rig.submit(*(make_container(n) for n in range(1, 4)))
    assert count(rig, CreateInstance) == 0, "the first listing took the token"
    reason = rig.engine.scheduling.reason("c-1")
    assert reason is not None
    assert "max_cloud_ops_per_second" in reason.message
    created = []
    for _ in range(12):
        rig.advance(1)
        created.append(count(rig, CreateInstance))
    assert created == [0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3], "the listing after each has its turn"


def test_a_slow_rate_ends_many_instances_and_creates_others_meanwhile() -> None:
    settings = PoolSettings(sync_interval_s=5, max_cloud_ops_per_second=0.5, shutdown_timeout_s=10)
    rig = Rig(settings=EXCLUSIVE, pool=settings, listed=False)
    for _ in range(30):
        rig.boot("t1")
    rig.list_now(last_commands(rig, ListInstances)[-1].op_id)
    rig.silent.clear()
    rig.advance(60)
    workers = sorted(rig.engine.pool.workers)
    assert len(workers) == 30
    rig.sent.clear()
    for worker_id in workers:
        rig.send(InstanceKillRequested(worker_id=worker_id, reason=""))
    rig.submit(make_container(1))
    rig.advance(66)
    assert rig.states() == {"c-1": "running"}, "it need not wait for the listings"
    rig.advance(164)
    assert len(rig.worker_states()) == 1, "listings have their turn too"
    calls = (CreateInstance, DestroyInstance, ListInstances, SetTags)
    assert sum(isinstance(c, calls) for c in rig.sent) <= 1 + 230 * 0.5
    assert count(rig, DestroyInstance) <= 31, "a destroy that waits is not due again"


def test_a_destroy_that_waited_is_due_again_counted_from_when_it_was_sent() -> None:
    settings = PoolSettings(
        sync_interval_s=100_000, max_cloud_ops_per_second=0.2, shutdown_timeout_s=10
    )
    rig = Rig(make_type(1), settings=EXCLUSIVE, pool=settings)
    rig.submit(make_container(1), make_container(2))
    rig.advance(60)
    rig.silent |= {DestroyInstance, CreateInstance}
    for number in (1, 2):
        rig.cancel(f"c-{number}")
        rig.send(InstanceKillRequested(worker_id=f"i-00{number}", reason=""))
    rig.advance(5)
    assert count(rig, DestroyInstance) == 2
    assert rig.engine.pool.timers.due(TimerKind.DESTROY, "i-002") == rig.now + 10


# ---- rate limits of other calls ------------------------------------------------------------------


def test_a_listing_that_is_limited_is_not_hurried_by_a_destroy() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=10))
    rig.submit(make_container(1))
    rig.silent.add(ListInstances)
    rig.advance(10)
    listing = last_commands(rig, ListInstances)[-1]
    rig.send(ListingFailed(op_id=listing.op_id, error=RateLimitError("slow", retry_after_s=120)))
    listings = count(rig, ListInstances)
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(119)
    assert count(rig, ListInstances) == listings
    assert count(rig, CreateInstance) == 1, "its place is taken until it has left"
    rig.advance(1)
    assert count(rig, ListInstances) == listings + 1


def test_a_destroy_that_is_limited_is_sent_when_that_ends_and_never_given_up() -> None:
    rig = Rig(settings=EXCLUSIVE, pool=PoolSettings(sync_interval_s=100_000, shutdown_timeout_s=10))
    rig.submit(make_container(1), make_container(2))
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    (destroy,) = last_commands(rig, DestroyInstance)
    error = RateLimitError("slow", retry_after_s=35)
    rig.send(DestroyFailed(op_id=destroy.op_id, instance_id="i-001", error=error))
    rig.send(InstanceKillRequested(worker_id="i-002", reason=""))
    rig.send(BehaviorRequested(worker_id="i-003", behavior=IdleBehavior.HOLD))
    rig.advance(34)
    assert count(rig, DestroyInstance) == 1
    rig.advance(1)
    assert [c.instance_id for c in last_commands(rig, DestroyInstance)] == [
        "i-001",
        "i-001",
        "i-002",
    ]
    rig.silent.clear()
    rig.advance(25)
    assert "i-001" not in rig.worker_states()


def test_tags_that_are_limited_are_written_when_that_ends_as_they_are_then() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000))
    rig.submit(make_container(1))
    rig.silent.add(SetTags)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    (command,) = last_commands(rig, SetTags)
    error = RateLimitError("slow", retry_after_s=20)
    rig.send(TagsFailed(op_id=command.op_id, instance_id="i-001", error=error))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    rig.advance(19.5)
    assert count(rig, SetTags) == 1
    rig.silent.clear()
    rig.advance(0.5)
    assert count(rig, SetTags) == 2
    assert dict(rig.cloud["i-001"].tags)["longshore-idle-behavior"] == "hold"


def test_tags_that_are_limited_are_not_forgotten() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000))
    rig.submit(make_container(1))
    rig.silent.add(SetTags)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    (command,) = last_commands(rig, SetTags)
    error = RateLimitError("slow", retry_after_s=20)
    rig.send(TagsFailed(op_id=command.op_id, instance_id="i-001", error=error))
    rig.silent.clear()
    rig.advance(20)
    assert count(rig, SetTags) == 2


def test_nobody_writes_tags_that_failed_again_while_the_instance_is_being_destroyed() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000))
    rig.submit(make_container(1))
    rig.silent |= {SetTags, DestroyInstance}
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    (command,) = last_commands(rig, SetTags)
    rig.send(TagsFailed(op_id=command.op_id, instance_id="i-001", error=CloudError("broken")))
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(60)
    assert count(rig, SetTags) == 1


# ---- probes --------------------------------------------------------------------------------------


def test_lost_sessions_are_probed_at_the_configured_rate_first_come_first_served() -> None:
    rig = Rig(settings=EXCLUSIVE, pool=PoolSettings(max_probes_per_second=2))
    rig.submit(*(make_container(n) for n in range(1, 9)))
    rig.advance(30)
    assert set(rig.states().values()) == {"running"}
    rig.sent.clear()
    order = [f"i-00{n}" for n in (5, 3, 8, 1, 2, 4, 6, 7)]
    for worker_id in order:
        rig.send(SessionLost(worker_id=worker_id, last_contact=rig.now, reason="?"))
    assert len(last_commands(rig, Probe)) == 2
    rig.advance(1)
    assert len(last_commands(rig, Probe)) == 4
    rig.send(InstanceKillRequested(worker_id="i-002", reason=""))
    rig.advance(10)
    probed = [c.worker_id for c in last_commands(rig, Probe)]
    assert [w for w in probed if w in order] == [w for w in order if w != "i-002"]


def test_repeated_probes_are_spread_by_the_dice() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=100_000, max_probes_per_second=1000))
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="?"))
    delays = []
    delay_s = 0.0
    for roll in (0.0, 0.5, 1.0):
        rig.engine.pool.dice = lambda roll=roll: roll  # type: ignore[misc]  # bound in this round
        for _ in range(8):
            probe = last_commands(rig, Probe)[-1]
            rig.send(
                ProbeFailed(
                    op_id=probe.op_id,
                    worker_id="i-001",
                    revision=probe.revision,
                    stage="connect",
                    message="no route",
                )
            )
            due = rig.engine.pool.timers.due(TimerKind.PROBE, "i-001")
            assert due is not None
            delay_s = due - rig.now
            rig.advance(delay_s)
        delays.append(round(delay_s, 6))
    assert delays == [9, 10, 11]
