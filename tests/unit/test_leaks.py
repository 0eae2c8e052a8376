"""What is billed and not wanted, and above all what is not: literal times, the whole engine."""

from __future__ import annotations

from decimal import Decimal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.dispatcher.explain.instance_views import leak_report
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.drivers.errors import CloudError, InvalidRequest
from longshore.pool.leaks import Leak, LeakKind
from longshore.pool.messages import (
    BrokenReported,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    ListingFailed,
    ListInstances,
    Probe,
    ProbeFailed,
    SessionLost,
)
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type


def leaks(rig: Rig) -> list[Leak]:
    return list(leak_report(rig.view, rig.now).leaks)


def kinds(rig: Rig) -> list[LeakKind]:
    return [leak.kind for leak in leaks(rig)]


def one(rig: Rig) -> Leak:
    (leak,) = leaks(rig)
    return leak


def hold(rig: Rig, worker_id: str = "i-001") -> None:
    rig.send(BehaviorRequested(worker_id=worker_id, behavior=IdleBehavior.HOLD))


def used(pool: PoolSettings | None = None) -> Rig:
    """Return a rig whose instance i-001 has just become idle."""
    rig = Rig(make_type(1), pool=pool)
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    assert rig.worker_states() == {"i-001": "idle"}
    return rig


def refuse_destroys(rig: Rig, error: CloudError) -> None:
    """Answer the destroy calls that are not answered yet with an error."""
    rig.silent.add(DestroyInstance)
    (worker,) = rig.engine.pool.workers.values()
    for command in last_commands(rig, DestroyInstance)[worker.shutdown.destroy_failures :]:
        rig.send(DestroyFailed(op_id=command.op_id, instance_id=worker.id, error=error))


def fail_listing(rig: Rig) -> None:
    command = last_commands(rig, ListInstances)[-1]
    rig.send(ListingFailed(op_id=command.op_id, error=CloudError("no route to the cloud")))


# ---- what is wanted -----------------------------------------------------------------------------


def test_leaks_come_in_pages_whatever_comes_and_goes_meanwhile() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(probe_timeout_s=100))
    for _ in range(5):
        rig.boot("t1")
    rig.advance(60)
    for worker_id in sorted(rig.engine.pool.workers):
        hold(rig, worker_id)
    rig.unreachable = set(rig.cloud)
    for worker_id in sorted(rig.cloud):
        rig.send(SessionLost(worker_id=worker_id, last_contact=rig.now, reason="gone"))
    rig.advance(400)
    ids = [leak.instance_id for leak in leaks(rig)]
    assert len(ids) == 5
    first = leak_report(rig.view, rig.now, limit=2)
    assert ([leak.instance_id for leak in first.leaks], bool(first.next_cursor)) == (ids[:2], True)
    del rig.cloud[ids[1]]
    rig.advance(300)
    rest = leak_report(rig.view, rig.now, cursor=first.next_cursor or "", limit=9)
    assert ([leak.instance_id for leak in rest.leaks], rest.next_cursor) == (ids[2:], None)
    with pytest.raises(InvalidRequest):
        leak_report(rig.view, rig.now, cursor="another", limit=9)


def test_a_normal_life_is_never_a_leak() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.advance(590)
    assert rig.worker_states() == {"i-001": "booting"}
    assert kinds(rig) == []
    rig.silent.clear()
    rig.crash()
    rig.advance(20)
    assert rig.worker_states() == {"i-001": "running"}
    assert kinds(rig) == []
    rig.exit("c-1-1")
    rig.advance(59)
    assert rig.worker_states() == {"i-001": "idle"}
    assert kinds(rig) == []
    rig.advance(10)
    assert rig.worker_states() == {}
    assert kinds(rig) == []


def test_a_held_instance_that_is_well_is_wanted_for_ever() -> None:
    rig = used()
    hold(rig)
    rig.advance(100_000)
    assert rig.worker_states() == {"i-001": "idle"}
    assert kinds(rig) == []


def test_a_silent_instance_that_is_not_held_is_the_pools_to_end() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(599)
    assert rig.worker_states() == {"i-001": "running"}
    assert kinds(rig) == []


# ---- what does not end --------------------------------------------------------------------------


def test_destroy_calls_that_fail_are_told_with_the_last_error() -> None:
    rig = used()
    rig.silent.add(DestroyInstance)
    began_at = rig.now
    rig.send(InstanceKillRequested(worker_id="i-001", reason="old"))
    refuse_destroys(rig, CloudError("throttled"))
    assert kinds(rig) == []
    rig.advance(10)
    refuse_destroys(rig, CloudError("termination protection is on"))
    leak = one(rig)
    assert leak == Leak(
        instance_id="i-001",
        launch_token="",
        type_name="t1",
        price_usd_per_hour=Decimal("0.123"),
        kind=LeakKind.DESTROY_FAILING,
        since=began_at,
        cost_usd=Decimal("0.000341666667"),
        why="it is being shut down (an admin ended it: old), and the last 2 destroy calls failed: "
        "termination protection is on",
        remedy="mend what the error says; it is tried again every 10 s",
    )
    rig.advance(3590)
    assert one(rig).cost_usd == Decimal("0.12300000")


def test_a_destroy_that_is_taken_ends_the_row_of_failures() -> None:
    rig = used()
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    refuse_destroys(rig, CloudError("x"))
    rig.advance(10)
    refuse_destroys(rig, CloudError("x"))
    assert kinds(rig) == [LeakKind.DESTROY_FAILING]
    rig.send(Destroyed(op_id=0, instance_id="i-001"))
    assert kinds(rig) == []
    del rig.cloud["i-001"]
    rig.advance(5)
    assert (rig.worker_states(), kinds(rig)) == ({}, [])


def test_an_instance_that_the_cloud_goes_on_listing() -> None:
    rig = used()
    rig.silent.add(DestroyInstance)
    began_at = rig.now
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(299)
    assert kinds(rig) == [], "real clouds take minutes"
    rig.advance(4)
    leak = one(rig)
    assert (leak.kind, leak.since) == (LeakKind.NOT_ENDING, began_at)
    assert "the cloud still lists it 30" in leak.why
    assert leak.remedy == "end it in the cloud's console; destroy is repeated every 10 s"
    del rig.cloud["i-001"]
    rig.advance(5)
    assert kinds(rig) == []


def test_a_cloud_that_is_known_to_be_slow_has_three_shutdown_timeouts() -> None:
    rig = used(PoolSettings(shutdown_timeout_s=200))
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(599)
    assert kinds(rig) == []
    rig.advance(4)
    assert kinds(rig) == [LeakKind.NOT_ENDING]


def test_an_ending_that_no_listing_confirms() -> None:
    rig = used()
    rig.silent |= {DestroyInstance, ListInstances}
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(2)
    fail_listing(rig)
    rig.advance(297)
    assert kinds(rig) == []
    rig.advance(1)
    leak = one(rig)
    assert leak.kind is LeakKind.UNCONFIRMED
    assert "for 300 s no complete listing could tell whether it is gone (1 failed)" in leak.why
    rig.silent.discard(ListInstances)
    rig.list_now(rig.engine.pool.listing_op)
    assert kinds(rig) == [LeakKind.NOT_ENDING]


# ---- what is held and of no use -----------------------------------------------------------------


def test_a_held_instance_that_was_never_reached() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.cancel("c-1")
    hold(rig)
    (probe,) = last_commands(rig, Probe)
    rig.send(
        ProbeFailed(
            op_id=probe.op_id,
            worker_id="i-001",
            revision=probe.revision,
            stage="connect",
            message="refused",
        )
    )
    rig.advance(599)
    assert kinds(rig) == []
    rig.advance(1)
    leak = one(rig)
    assert (leak.kind, leak.since) == (LeakKind.SILENT_HELD, 1000.0)
    assert leak.why == "it is held, and has not become ready in 600 s (connect: refused)"
    assert leak.remedy == "repair it, or destroy it: longshore instance kill i-001"


def test_a_held_instance_that_fell_silent() -> None:
    rig = used()
    hold(rig)
    rig.silent.add(Probe)
    rig.advance(100)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now - 20, reason="reset"))
    rig.advance(579)
    assert kinds(rig) == []
    rig.advance(2)
    leak = one(rig)
    assert (leak.kind, leak.since) == (LeakKind.SILENT_HELD, 1080.0)
    assert "silent for 601 s (session: reset)" in leak.why


def test_a_held_instance_that_is_broken_is_a_leak_once_it_is_empty() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    hold(rig)
    rig.advance(50)
    rig.send(BrokenReported(worker_id="i-001", message="disk full"))
    rig.advance(50)
    assert kinds(rig) == []
    rig.exit("c-1-1")
    rig.advance(50)
    leak = one(rig)
    assert (leak.kind, leak.since) == (LeakKind.BROKEN_HELD, 1100.0)
    assert leak.why == "it is held, and broken: disk full"
    assert leak.remedy == "let it end: longshore instance drain i-001"
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    rig.advance(5)
    assert (rig.worker_states(), kinds(rig)) == ({}, [])


def test_what_breaks_while_it_is_empty_is_unwanted_from_then_on() -> None:
    rig = used()
    hold(rig)
    rig.advance(500)
    rig.send(BrokenReported(worker_id="i-001", message="disk full"))
    rig.advance(100)
    assert one(rig).since == 1500.0


def test_a_held_instance_of_a_type_that_is_not_configured_has_the_price_it_was_bought_at() -> None:
    rig = used()
    hold(rig)
    rig.types = {"t2": make_type(2)}
    rig.advance(60)
    rig.crash()
    rig.advance(3600)
    leak = one(rig)
    assert (leak.kind, leak.since) == (LeakKind.UNCONFIGURED_HELD, 1060.0)
    assert leak.type_name == "t1 (not configured)"
    assert (leak.price_usd_per_hour, leak.cost_usd) == (Decimal("0.123"), Decimal("0.12300000"))


def test_a_stranger_of_ours_that_is_held_and_busy_is_in_use() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    hold(rig)
    rig.types = {"t2": make_type(2)}
    rig.crash()
    rig.advance(100)
    assert rig.worker_states() == {"i-001": "running"}
    assert kinds(rig) == []


# ---- how far it can be told ---------------------------------------------------------------------


def test_nothing_is_told_before_the_first_listing_and_the_report_says_so() -> None:
    rig = Rig(make_type(1), listed=False)
    rig.boot("t1", longshore_idle_behavior="hold")
    rig.advance(10_000)
    report = leak_report(rig.view, rig.now)
    assert (report.leaks, report.listed_at, report.complete) == ((), 0.0, False)
    rig.list_now(rig.engine.pool.listing_op)
    report = leak_report(rig.view, rig.now)
    assert (report.listed_at, report.complete) == (rig.now, True)


def test_a_listing_that_fails_or_never_ends_makes_the_report_incomplete() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(ListInstances)
    rig.advance(299)
    assert leak_report(rig.view, rig.now).complete
    rig.advance(2)
    assert not leak_report(rig.view, rig.now).complete
    rig.list_now(rig.engine.pool.listing_op)
    rig.advance(60)
    assert leak_report(rig.view, rig.now).complete
    fail_listing(rig)
    report = leak_report(rig.view, rig.now)
    assert (report.complete, report.listed_at) == (False, 1301.0)


def test_an_instance_has_one_entry_and_the_order_is_by_id() -> None:
    rig = Rig(make_type(1))
    for _ in range(2):
        rig.boot("gone", longshore_idle_behavior="hold")
    rig.advance(100)
    for worker_id in ("i-002", "i-001"):
        rig.send(BrokenReported(worker_id=worker_id, message="x"))
    assert [(leak.instance_id, leak.kind) for leak in leaks(rig)] == [
        ("i-001", LeakKind.BROKEN_HELD),
        ("i-002", LeakKind.BROKEN_HELD),
    ]


# ---- the metrics --------------------------------------------------------------------------------


def samples(rig: Rig) -> dict[tuple[str, str], float]:
    text = Metrics(rig.view, heard_at=lambda _id: 0.0).exposition(rig.now).decode()
    return {
        (sample.name, sample.labels.get("kind", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "leak" in sample.name
    }


def test_the_metrics_have_every_kind_at_all_times() -> None:
    rig = used()
    expected = {("longshore_leaked_instances", kind.value): 0.0 for kind in LeakKind}
    expected["longshore_leaked_price_usd_per_hour", ""] = 0.0
    expected["longshore_leaks_complete", ""] = 1.0
    assert samples(rig) == expected
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(305)
    expected["longshore_leaked_instances", "not_ending"] = 1.0
    expected["longshore_leaked_price_usd_per_hour", ""] = 0.123
    assert samples(rig) == expected
    fail_listing_next(rig)
    expected["longshore_leaks_complete", ""] = 0.0
    assert samples(rig) == expected


def fail_listing_next(rig: Rig) -> None:
    rig.silent.add(ListInstances)
    rig.advance(3)
    fail_listing(rig)
