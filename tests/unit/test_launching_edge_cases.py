"""What guards listings, tags, launches and holds: stale answers, doubts, delays, quotas."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import Placement, SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudError,
    ErrorScope,
    QuotaError,
    RateLimitError,
)
from longshore.pool.messages import (
    Created,
    CreateFailed,
    CreateInstance,
    DestroyInstance,
    Listed,
    ListingFailed,
    ListInstances,
    Probe,
    SetTags,
    TagsFailed,
)
from longshore.pool.model import IdleBehavior, InstanceSeen, PoolSettings, Worker
from tests.rigs.engine import CommandKind, Rig, last_commands
from tests.samples import make_container, make_type

RARELY = PoolSettings(sync_interval_s=100_000)


def last(rig: Rig, kind: type[CommandKind]) -> CommandKind:
    """Return the latest command of one kind."""
    return last_commands(rig, kind)[-1]


def count(rig: Rig, kind: type[CommandKind]) -> int:
    return len(last_commands(rig, kind))


def worker_of(rig: Rig, worker_id: str = "i-001") -> Worker:
    return rig.engine.pool.workers[worker_id]


# ---- listings ------------------------------------------------------------------------------------


def test_a_listing_of_another_operation_is_dropped() -> None:
    rig = Rig()
    made = rig.boot("t1")
    rig.list_now(op_id=999)
    rig.send(ListingFailed(op_id=999, error=CloudError("down")))
    assert rig.worker_states() == {}
    assert rig.engine.pool.listing_failures == 0
    rig.advance(60)
    assert rig.worker_states()[made] == "idle"


def test_one_listing_at_a_time() -> None:
    rig = Rig()
    rig.silent.add(ListInstances)
    rig.advance(61)
    listings = count(rig, ListInstances)
    for n in (1, 2):
        rig.submit(make_container(n))
        rig.send(InstanceKillRequested(worker_id=f"i-00{n}", reason=""))
    rig.advance(300)
    assert count(rig, ListInstances) == listings


def test_failed_listings_are_repeated_with_growing_delays_or_as_the_cloud_says() -> None:
    rig = Rig()
    rig.silent.add(ListInstances)
    rig.advance(60)
    delays = []
    for error in [CloudError("?")] * 8 + [RateLimitError("slow", retry_after_s=17)]:
        rig.send(ListingFailed(op_id=last(rig, ListInstances).op_id, error=error))
        due = rig.engine.next_wakeup(rig.now)
        assert due is not None
        delays.append(due - rig.now)
        rig.advance(due - rig.now)
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 17]
    rig.list_now(last(rig, ListInstances).op_id)
    rig.advance(60)
    rig.send(ListingFailed(op_id=last(rig, ListInstances).op_id, error=CloudError("?")))
    assert rig.engine.next_wakeup(rig.now) == rig.now + 1, "a success forgets the failures"


def test_a_listing_that_began_when_the_worker_appeared_does_not_remove_it() -> None:
    rig = Rig()
    rig.silent.add(ListInstances)
    rig.advance(60)
    rig.submit(make_container(1))
    rig.send(Listed(op_id=last(rig, ListInstances).op_id, began_at=rig.now, instances=()))
    assert rig.worker_states() == {"i-001": "running"}


def test_listings_come_sooner_only_while_something_is_to_change() -> None:
    rig = Rig(pool=PoolSettings(shutdown_timeout_s=10))
    rig.silent |= {CreateInstance, DestroyInstance}
    rig.submit(make_container(1))
    listings = count(rig, ListInstances)
    rig.advance(59)
    assert count(rig, ListInstances) == listings, "a create that runs needs no listing"
    rig.create_now(last(rig, CreateInstance))
    rig.settle()
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.silent.add(CreateInstance)
    listings = count(rig, ListInstances)
    rig.advance(9)
    assert count(rig, ListInstances) >= listings + 4, "a destroy under way does"


def test_a_short_shutdown_timeout_makes_for_short_waits() -> None:
    rig = Rig(pool=PoolSettings(shutdown_timeout_s=0.5))
    rig.submit(make_container(1))
    rig.silent |= {DestroyInstance, CreateInstance}
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(2)
    listings = count(rig, ListInstances)
    rig.advance(2)
    assert count(rig, ListInstances) >= listings + 3


def test_an_address_that_comes_later_is_looked_for_and_used_and_never_given_up() -> None:
    rig = Rig()
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    create = last(rig, CreateInstance)
    bare = InstanceSeen(id="i-7", address="", tags=create.tags)
    rig.cloud["i-7"], rig.on_instance["i-7"] = bare, {}
    rig.send(Created(op_id=create.op_id, token=create.launch.token, instance=bare))
    assert count(rig, Probe) == 0, "there is nowhere to probe"
    listings = count(rig, ListInstances)
    rig.advance(1)
    assert count(rig, ListInstances) == listings + 1
    rig.advance(2)
    assert count(rig, ListInstances) == listings + 2
    rig.cloud["i-7"] = InstanceSeen(id="i-7", address="a:22", tags=create.tags)
    rig.advance(2)
    assert rig.states() == {"c-1": "running"}
    rig.cloud["i-7"] = bare
    rig.advance(61)
    assert worker_of(rig, "i-7").cloud.address == "a:22"


def test_tags_are_written_again_when_they_differ_and_only_then() -> None:
    rig = Rig()
    kept = rig.boot("t1", longshore_idle_behavior="hold")
    rig.advance(200)
    assert count(rig, SetTags) == 0
    seen = rig.cloud[kept]
    altered = tuple((k, "run" if k == "longshore-idle-behavior" else v) for k, v in seen.tags)
    rig.cloud[kept] = InstanceSeen(id=kept, address=seen.address, tags=altered)
    rig.advance(200)
    assert count(rig, SetTags) == 1
    assert rig.cloud[kept].tags == seen.tags
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id=kept, reason=""))
    rig.cloud[kept] = InstanceSeen(id=kept, address=seen.address, tags=altered)
    rig.advance(30)
    assert count(rig, SetTags) == 1, "what is being destroyed needs no tags"


def test_failed_tags_are_written_again_and_the_name_of_a_removed_type_is_kept() -> None:
    rig = Rig(pool=RARELY, listed=False)
    kept = rig.boot("t99", longshore_idle_behavior="hold")
    rig.list_now(last(rig, ListInstances).op_id)
    rig.settle()
    rig.silent.add(SetTags)
    rig.send(BehaviorRequested(worker_id=kept, behavior=IdleBehavior.HOLD))
    command = last(rig, SetTags)
    assert dict(command.tags)["longshore-type"] == "t99"
    assert "longshore-token" not in dict(command.tags)
    error = CloudError("busy")
    rig.send(TagsFailed(op_id=command.op_id, instance_id=kept, error=error))
    assert "busy" in worker_of(rig, kept).health.last_error
    rig.silent.discard(SetTags)
    rig.advance(30)
    assert count(rig, SetTags) == 2
    rig.advance(100)
    assert count(rig, SetTags) == 2


# ---- launches and holds --------------------------------------------------------------------------


def creating(rig: Rig, *numbers: int) -> list[CreateInstance]:
    """Submit containers whose create calls nobody answers; return those calls."""
    rig.silent.add(CreateInstance)
    rig.submit(*(make_container(n) for n in numbers))
    return [c for c in rig.sent if isinstance(c, CreateInstance)]


def refuse(rig: Rig, create: CreateInstance, error: CloudError) -> None:
    rig.send(CreateFailed(op_id=create.op_id, token=create.launch.token, error=error))


def test_a_create_result_of_another_operation_is_dropped() -> None:
    rig = Rig()
    (create,) = creating(rig, 1)
    seen = InstanceSeen(id="i-7", address="a:22", tags=create.tags)
    token = create.launch.token
    rig.send(Created(op_id=999, token=token, instance=seen))
    rig.send(CreateFailed(op_id=999, token=token, error=CloudError("?")))
    assert rig.worker_states() == {}
    assert list(rig.launches) == [token]
    assert count(rig, CreateInstance) == 1


def test_a_create_call_that_returns_after_the_listing_changes_nothing_there() -> None:
    rig = Rig()
    (create,) = creating(rig, 1)
    made = rig.boot("t1", longshore_token=create.launch.token)
    rig.advance(61)
    assert rig.states() == {"c-1": "running"}
    rig.send(Created(op_id=create.op_id, token=create.launch.token, instance=rig.cloud[made]))
    assert rig.worker_states() == {made: "running"}
    assert list(worker_of(rig, made).load.attempts) == ["c-1-1"]
    assert rig.launches == {}, "its key is proven, so its secret is void"


def test_a_failed_create_of_an_instance_that_is_listed_keeps_its_secret_until_it_is_proven() -> (
    None
):
    rig = Rig(pool=PoolSettings(boot_timeout_s=600))
    (create,) = creating(rig, 1)
    rig.silent.add(Probe)
    made = rig.boot("t1", longshore_token=create.launch.token)
    rig.advance(61)
    refuse(rig, create, CloudError("?"))
    rig.advance(100)
    assert list(rig.launches) == [create.launch.token]
    rig.crash()
    assert (last(rig, Probe).worker_id, last(rig, Probe).secret) == (made, "secret")


def test_a_doubtful_create_is_not_repeated_before_a_listing_from_after_the_doubt() -> None:
    rig = Rig(pool=RARELY)
    (create,) = creating(rig, 1)
    rig.silent.add(ListInstances)
    refuse(rig, create, AmbiguousResult("time-out"))
    rig.advance(1)
    old = last(rig, ListInstances)
    began_at = rig.now
    rig.advance(20)
    rig.send(Listed(op_id=old.op_id, began_at=began_at, instances=()))
    assert count(rig, CreateInstance) == 1, "that listing is older than the doubt is long"
    rig.advance(2)
    rig.list_now(last(rig, ListInstances).op_id)
    rig.settle()
    assert count(rig, CreateInstance) == 2


def test_a_doubtful_create_is_given_time_and_its_secret_more() -> None:
    rig = Rig(settings=SchedulerSettings(max_instances=1), pool=PoolSettings(boot_timeout_s=300))
    (create,) = creating(rig, 1)
    rig.silent.add(Probe)
    refuse(rig, create, AmbiguousResult("time-out"))
    rig.advance(9)
    assert count(rig, CreateInstance) == 1
    rig.advance(8)
    assert count(rig, CreateInstance) == 2, "given up, it counts no more"
    late = rig.boot("t1", longshore_token=create.launch.token)
    rig.advance(61)
    assert (last(rig, Probe).worker_id, last(rig, Probe).secret) == (late, "secret")


def test_a_doubtful_launch_is_forgotten_after_boot_timeout() -> None:
    rig = Rig(pool=PoolSettings(boot_timeout_s=300))
    (create,) = creating(rig, 1)
    refuse(rig, create, AmbiguousResult("time-out"))
    rig.advance(290)
    assert create.launch.token in rig.launches
    rig.advance(80)
    assert create.launch.token not in rig.launches


def test_a_launch_that_a_crash_interrupted_counts_for_a_while_and_then_no_more() -> None:
    rig = Rig(pool=PoolSettings(boot_timeout_s=300))
    creating(rig, 1)
    rig.crash()
    assert count(rig, CreateInstance) == 0, "it may have been created"
    rig.silent.discard(CreateInstance)
    rig.advance(15)
    assert rig.states() == {"c-1": "running"}
    rig.advance(400)
    assert rig.launches == {}


def test_a_launch_of_a_type_that_is_not_configured_any_more_gives_no_hope() -> None:
    rig = Rig(make_type(1))
    creating(rig, 1)
    rig.types = {"t2": make_type(2)}
    rig.crash()
    assert rig.created_types() == ["t2"]


def test_the_launch_of_an_instance_that_left_unproven_is_forgotten_after_boot_timeout() -> None:
    rig = Rig(settings=SchedulerSettings(max_instances=1), pool=PoolSettings(boot_timeout_s=300))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    token = last(rig, CreateInstance).launch.token
    rig.cloud.clear()
    rig.advance(200)
    assert token in rig.launches, "it may show again, and has to prove its key then"
    rig.advance(200)
    assert token not in rig.launches


def test_pending_creates_count_for_max_instances_and_for_concurrency() -> None:
    rig = Rig(settings=SchedulerSettings(max_instances=2, placement=Placement.EXCLUSIVE))
    creating(rig, 1, 2)
    rig.submit(make_container(3))
    assert count(rig, CreateInstance) == 2
    rig = Rig(pool=PoolSettings(max_concurrent_creates=2))
    creates = creating(rig, 1, 2, 3)
    assert len(creates) == 2
    rig.boot("t1", longshore_token=creates[0].launch.token)
    rig.advance(61)
    assert count(rig, CreateInstance) == 2, "its call runs, although it is proven already"


@pytest.mark.parametrize(
    ("error", "held_s", "code"),
    [
        (CloudError("?"), 0.5, "creates_held"),
        (RateLimitError("slow", retry_after_s=30), 30, "creates_held"),
        (CapacityError("none", scope=ErrorScope.ALL), 45, "at_capacity"),
        (CapacityError("none"), 45, "at_capacity"),
        (QuotaError("20"), 90, "at_quota"),
    ],
)
def test_each_failure_holds_creates_for_its_own_time(
    error: CloudError, held_s: float, code: str
) -> None:
    settings = PoolSettings(sync_interval_s=100_000, quota_hold_s=90, capacity_hold_s=45)
    rig = Rig(pool=settings)
    (create,) = creating(rig, 1)
    refuse(rig, create, error)
    assert rig.engine.scheduling.reason("c-1").code == code  # type: ignore[union-attr]  # it waits
    rig.advance(held_s - 0.1)
    assert count(rig, CreateInstance) == 1
    rig.advance(2)
    assert count(rig, CreateInstance) == 2


def test_a_shorter_hold_does_not_end_a_longer_one() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=1, quota_hold_s=60))
    first, second = creating(rig, 1, 2)
    refuse(rig, first, QuotaError("2"))
    refuse(rig, second, CloudError("?"))
    rig.advance(50)
    assert count(rig, CreateInstance) == 2


def test_a_quota_hold_ends_when_fewer_instances_are_left_and_not_before() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=1, quota_hold_s=3600))
    rig.submit(make_container(1))
    (_, create) = creating(rig, 2)
    refuse(rig, create, QuotaError("1"))
    rig.advance(30)
    assert count(rig, CreateInstance) == 2
    rig.cancel("c-1")
    del rig.cloud["i-001"]
    rig.advance(2)
    assert count(rig, CreateInstance) == 3


def test_a_quota_that_is_over_does_not_shorten_the_next_hold_of_another_cause() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=1, quota_hold_s=10, idle_timeout_s=5))
    rig.submit(make_container(1))
    (_, create) = creating(rig, 2)
    refuse(rig, create, QuotaError("1"))
    rig.advance(11)
    rig.cancel("c-1")
    rig.exit("c-1-1", 143)
    rig.submit(make_container(3, cpus=1))
    creates = [c for c in rig.sent if isinstance(c, CreateInstance)]
    del rig.cloud["i-001"]
    refuse(rig, creates[-1], RateLimitError("slow", retry_after_s=100))
    rig.advance(50)
    assert count(rig, CreateInstance) == len(creates)


def test_after_a_success_creates_are_made_side_by_side_again() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=1))
    (first, second) = creating(rig, 1, 2)
    refuse(rig, first, CloudError("?"))
    refuse(rig, second, CloudError("?"))
    rig.advance(6)
    assert count(rig, CreateInstance) == 3, "one on trial"
    rig.create_now(last(rig, CreateInstance))
    rig.submit(make_container(3), make_container(4))
    assert count(rig, CreateInstance) == 6
