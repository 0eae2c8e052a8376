"""The finer lines between what is wanted and what leaks: each would be crossed by one change."""

from __future__ import annotations

from decimal import Decimal

import pytest

from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.dispatcher.explain.instance_views import leak_report
from longshore.drivers.errors import AmbiguousResult, CloudError
from longshore.pool.leaks import Leak, LeakKind
from longshore.pool.messages import (
    AttemptExited,
    BrokenReported,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    ListingFailed,
    ListInstances,
    Probe,
    ProbeSucceeded,
)
from longshore.pool.model import (
    AttemptExit,
    AttemptReport,
    ExitKind,
    IdleBehavior,
    PoolSettings,
    ProbeReport,
)
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type


def leaks(rig: Rig) -> list[Leak]:
    return list(leak_report(rig.view, rig.now).leaks)


def kinds(rig: Rig) -> list[LeakKind]:
    return [leak.kind for leak in leaks(rig)]


def one(rig: Rig) -> Leak:
    (leak,) = leaks(rig)
    return leak


def hold(rig: Rig) -> None:
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))


def used(pool: PoolSettings | None = None) -> Rig:
    """Return a rig whose instance i-001 has just become idle."""
    rig = Rig(make_type(1), pool=pool)
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    return rig


def fail_listing(rig: Rig) -> None:
    rig.send(ListingFailed(op_id=rig.engine.pool.listing_op, error=CloudError("no route")))


# ---- what a listing tells, and what none does ---------------------------------------------------


def test_a_launch_of_an_earlier_process_is_not_judged_before_the_first_listing() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    rig.crash(listed=False)
    rig.advance(100)
    assert len(rig.engine.pool.launches) == 1
    assert kinds(rig) == []
    rig.silent.discard(ListInstances)
    rig.list_now(rig.engine.pool.listing_op)
    assert kinds(rig) == [LeakKind.LAUNCH_UNANSWERED]


def test_a_listing_that_takes_its_time_is_no_reason_to_doubt_an_end() -> None:
    rig = used(PoolSettings(sync_interval_s=600))
    rig.advance(1)
    rig.silent |= {DestroyInstance, ListInstances}
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(400)
    assert leak_report(rig.view, rig.now).complete
    assert kinds(rig) == []
    fail_listing(rig)
    assert kinds(rig) == [LeakKind.UNCONFIRMED]


def test_doubt_begins_with_the_last_listing_that_came() -> None:
    rig = used()
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(25)
    rig.silent.add(ListInstances)
    rig.advance(3)
    fail_listing(rig)
    rig.advance(290)
    assert kinds(rig) == []
    rig.advance(10)
    assert kinds(rig) == [LeakKind.UNCONFIRMED]


# ---- held or not --------------------------------------------------------------------------------


def test_a_broken_instance_that_waits_for_its_logs_is_the_pools_to_end() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    how = AttemptExit(kind=ExitKind.EXITED, code=0)
    report = AttemptReport(attempt_id="c-1-1", container_id="c-1", exit=how)
    rig.on_instance["i-001"]["c-1-1"] = report
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=how))
    rig.send(BrokenReported(worker_id="i-001", message="disk full"))
    rig.advance(100)
    assert rig.worker_states() == {"i-001": "idle"}
    assert kinds(rig) == []
    hold(rig)
    assert kinds(rig) == [LeakKind.BROKEN_HELD]


def test_an_instance_in_use_that_does_not_pass_its_boot_probe_is_in_use() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    hold(rig)
    rig.silent.add(Probe)
    rig.crash()
    probe = last_commands(rig, Probe)[-1]
    running = AttemptReport(attempt_id="c-1-1", container_id="c-1")
    rig.send(
        ProbeSucceeded(
            op_id=probe.op_id,
            worker_id="i-001",
            revision=probe.revision,
            began_at=rig.now,
            host_key="ssh-ed25519 AAAA",
            report=ProbeReport(attempts=(running,), boot_id="b"),
            boot_error="not yet",
        )
    )
    rig.advance(700)
    assert rig.worker_states() == {"i-001": "unknown"}
    assert kinds(rig) == []
    rig.exit("c-1-1")
    leak = one(rig)
    assert leak.kind is LeakKind.SILENT_HELD
    assert leak.why == "it is held, and has not become ready in 700 s (boot: not yet)"


def test_an_instance_that_is_not_probed_yet_is_not_judged_by_its_type() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.boot("other", longshore_idle_behavior="hold")
    rig.advance(100)
    assert rig.worker_states() == {"i-001": "unknown"}
    assert kinds(rig) == []


def test_what_survives_kill_is_no_use_of_an_instance() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    hold(rig)
    rig.cancel("c-1")
    rig.advance(130)
    assert kinds(rig) == []
    rig.advance(20)
    assert rig.worker_states() == {"i-001": "running"}
    leak = one(rig)
    assert (leak.kind, leak.why) == (
        LeakKind.BROKEN_HELD,
        "it is held, and broken: attempt c-1-1 survives KILL",
    )


def test_a_price_that_was_not_known_at_first_is_that_of_the_type() -> None:
    rig = Rig(make_type(1))
    rig.boot("t2", longshore_idle_behavior="hold")
    rig.advance(100)
    assert leaks(rig)[0].price_usd_per_hour == 0
    rig.types["t2"] = make_type(2)
    rig.crash()
    rig.send(BrokenReported(worker_id="i-001", message="x"))
    assert leaks(rig)[0].price_usd_per_hour == Decimal("0.246")


# ---- launches -----------------------------------------------------------------------------------


def test_a_launch_whose_answer_is_lost_is_told_until_its_instance_shows() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: AmbiguousResult("time-out")
    rig.submit(make_container(1))
    rig.create_error = lambda _command: CloudError("not now")
    rig.advance(9)
    assert kinds(rig) == []
    rig.advance(4)
    leak = one(rig)
    assert (leak.kind, leak.since) == (LeakKind.LAUNCH_UNANSWERED, 1000.0)
    assert (leak.instance_id, leak.launch_token, leak.type_name) == ("", "token-1", "t1")
    assert leak.price_usd_per_hour == Decimal("0.123")
    assert "for the tag longshore-token=token-1 and end what has it" in leak.remedy
    rig.boot("t1", longshore_token="token-1")
    rig.advance(60)
    assert rig.worker_states() == {"i-001": "running"}
    assert kinds(rig) == []


def test_a_create_that_is_under_way_or_failed_plainly_is_no_leak() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    rig.advance(300)
    assert kinds(rig) == []
    (create,) = last_commands(rig, CreateInstance)
    rig.send(
        CreateFailed(op_id=create.op_id, token=create.launch.token, error=CloudError("refused"))
    )
    rig.advance(1)
    assert kinds(rig) == []


@pytest.mark.parametrize("ever_listed", [True, False])
def test_a_launch_whose_instance_was_destroyed_and_left_the_listing(*, ever_listed: bool) -> None:
    rig = Rig(make_type(1))
    rig.silent |= {Probe, ListInstances}
    rig.submit(make_container(1))
    if ever_listed:
        rig.advance(60)
        rig.list_now(rig.engine.pool.listing_op)
    rig.silent.discard(ListInstances)
    rig.cancel("c-1")
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(100)
    assert rig.worker_states() == {}
    assert len(rig.engine.pool.launches) == 1
    assert kinds(rig) == []


def test_an_instance_that_no_listing_ever_showed_may_still_be_there() -> None:
    rig = Rig(make_type(1))
    rig.unreachable.add("i-001")
    rig.submit(make_container(1))
    rig.cancel("c-1")
    invisible = rig.cloud.pop("i-001")
    rig.knows_ended = False
    rig.advance(599)
    assert rig.worker_states() == {"i-001": "booting"}
    assert kinds(rig) == []
    rig.advance(10)
    assert rig.worker_states() == {}
    assert (one(rig).kind, one(rig).instance_id) == (LeakKind.DOUBTFUL, "i-001")
    rig.cloud["i-001"] = invisible
    rig.on_instance["i-001"] = {}
    rig.advance(60)
    assert kinds(rig) == []


def test_a_lost_answer_is_told_also_while_no_listing_comes() -> None:
    rig = Rig(make_type(1))
    rig.silent |= {ListInstances, CreateInstance}
    rig.submit(make_container(1))
    (create,) = last_commands(rig, CreateInstance)
    rig.send(
        CreateFailed(op_id=create.op_id, token=create.launch.token, error=AmbiguousResult("?"))
    )
    rig.advance(299)
    assert kinds(rig) == []
    rig.advance(1)
    assert kinds(rig) == [LeakKind.LAUNCH_UNANSWERED]


def test_an_instance_that_ended_by_itself_is_gone_like_any_other() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.cancel("c-1")
    rig.advance(70)
    assert rig.engine.pool.workers["i-001"].cloud.listed
    del rig.cloud["i-001"]
    rig.advance(100)
    assert rig.worker_states() == {}
    assert len(rig.engine.pool.launches) == 1
    assert kinds(rig) == []


def test_an_instance_that_was_never_listed_and_whose_destroy_failed_may_still_be_there() -> None:
    rig = Rig(make_type(1))
    rig.silent |= {Probe, ListInstances, DestroyInstance}
    rig.submit(make_container(1))
    rig.cancel("c-1")
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    (destroy,) = last_commands(rig, DestroyInstance)
    rig.send(DestroyFailed(op_id=destroy.op_id, instance_id="i-001", error=CloudError("no")))
    del rig.cloud["i-001"]
    rig.knows_ended = False
    rig.silent.discard(ListInstances)
    rig.list_now(rig.engine.pool.listing_op)
    rig.advance(700)
    assert rig.worker_states() == {"i-001": "shutdown"}, "nobody knows whether it ends"
    destroy = last_commands(rig, DestroyInstance)[-1]
    rig.send(Destroyed(op_id=destroy.op_id, instance_id="i-001", known=False))
    rig.advance(11)
    assert rig.worker_states() == {}
    assert kinds(rig) == [LeakKind.DOUBTFUL]
