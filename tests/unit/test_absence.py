"""Instances that listings lack: what counts as gone, and what goes on until then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.messages import InstanceKillRequested
from longshore.dispatcher.explain.explanation import wait_status
from longshore.dispatcher.explain.instance_views import instance_report, leak_report
from longshore.drivers.errors import CloudError, RateLimitError
from longshore.drivers.interface import IDLE_BEHAVIOR_TAG, Existence
from longshore.pool.absence import Evidence, is_gone
from longshore.pool.leaks import LeakKind
from longshore.pool.messages import (
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    FindFailed,
    FindInstance,
    InstanceFound,
    Probe,
    ProbeFailed,
    SessionLost,
    StartAttempt,
    StoreRecovered,
    StoreStalled,
)
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

SETTINGS = PoolSettings(gone_after_s=180, boot_timeout_s=600)
LONG_GONE = Evidence(
    existence=Existence.UNKNOWN,
    is_ending=False,
    listings=3,
    lacking_s=180.0,
    silent=True,
    age_s=1000.0,
    listed=True,
    reached=True,
)
NEVER_LISTED = replace(LONG_GONE, listed=False, age_s=600.0)


@pytest.mark.parametrize(
    ("evidence", "gone"),
    [
        (LONG_GONE, True),
        (replace(LONG_GONE, listings=2), False),
        (replace(LONG_GONE, lacking_s=179.0), False),
        (replace(LONG_GONE, silent=False), False),
        (replace(LONG_GONE, existence=Existence.PRESENT, listings=0), False),
        (replace(LONG_GONE, listings=1, lacking_s=0.0, existence=Existence.GONE), True),
        (replace(LONG_GONE, listings=1, lacking_s=0.0, is_ending=True), True),
        (replace(LONG_GONE, listings=0, lacking_s=0.0, is_ending=True), False),
        (NEVER_LISTED, True),
        (replace(NEVER_LISTED, age_s=599.0), False),
        (replace(NEVER_LISTED, listings=1, lacking_s=0.0), False),
        (replace(NEVER_LISTED, listings=1, lacking_s=0.0, reached=False), True),
        (replace(NEVER_LISTED, reached=False, silent=False), False),
        (replace(NEVER_LISTED, age_s=1.0, existence=Existence.GONE), True),
    ],
)
def test_what_counts_as_gone(evidence: Evidence, gone: bool) -> None:
    assert is_gone(evidence, SETTINGS) is gone


# ---- what runs there is not run again ----------------------------------------------------------


def running(*, knows_ended: bool = True) -> Rig:
    """Return a rig with c-1 running on i-001, of which listings lack the instance from now on."""
    rig = Rig(make_type(1), pool=SETTINGS)
    rig.submit(make_container(1))
    rig.advance(5)
    assert rig.states() == {"c-1": "running"}
    rig.hidden.add("i-001")
    rig.knows_ended = knows_ended
    return rig


def drop_session(rig: Rig) -> None:
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))


def starts(rig: Rig) -> list[str]:
    return [each.order.attempt_id for each in last_commands(rig, StartAttempt)]


def missing_since(rig: Rig) -> float:
    report = instance_report(rig.view, rig.now, heard_at=lambda _: 0.0, cursor="", limit=10)
    (seen,) = (each for each in report.instances if each.id == "i-001")
    return seen.missing_since


@pytest.mark.parametrize("answers", [True, False])
def test_after_a_restart_what_listings_lack_is_not_run_a_second_time(answers: bool) -> None:
    rig = running()
    if not answers:
        rig.unreachable.add("i-001")
    rig.crash()
    rig.advance(100)
    assert rig.states() == {"c-1": "running"}
    assert starts(rig) == []
    assert "i-001" in rig.engine.pool.workers
    if answers:
        # It proved its key at the address that the store has: what ends there is heard of.
        assert rig.engine.pool.workers["i-001"].link.session_up
        rig.exit("c-1-1")
        assert rig.states() == {"c-1": "succeeded"}
    else:
        assert missing_since(rig) == pytest.approx(1005.0)
        container = rig.engine.table.containers["c-1"]
        assert "missing from the cloud's listings" in wait_status(rig.view, container).doubt


def test_a_dropped_session_and_a_listing_do_not_decide() -> None:
    rig = running()
    rig.unreachable.add("i-001")
    drop_session(rig)
    rig.advance(170)
    assert rig.states() == {"c-1": "running"}
    assert missing_since(rig) > 1000.0
    rig.unreachable.clear()
    rig.advance(15)
    assert rig.worker_states() == {"i-001": "running"}
    assert missing_since(rig) == 0.0
    assert starts(rig) == ["c-1-1"]


def test_silent_and_missing_for_long_is_gone_and_tried_again() -> None:
    rig = running()
    rig.unreachable.add("i-001")
    drop_session(rig)
    rig.advance(400)
    assert rig.attempts["c-1-1"].outcome.value == "lost"  # type: ignore[union-attr]  # it has ended
    assert starts(rig) == ["c-1-1", "c-1-2"]


def test_who_answers_is_there_however_long_listings_lack_it() -> None:
    rig = running()
    for _ in range(20):
        drop_session(rig)
        rig.advance(60)
    assert starts(rig) == ["c-1-1"]


def test_an_address_that_proves_its_key_counts_though_the_probe_fails_later() -> None:
    rig = running()
    rig.silent.add(Probe)
    drop_session(rig)
    for _ in range(60):
        rig.advance(10)
        for probe in last_commands(rig, Probe):
            rig.send(
                ProbeFailed(
                    op_id=probe.op_id,
                    worker_id=probe.worker_id,
                    revision=probe.revision,
                    stage="list",
                    message="no python3",
                )
            )
        rig.sent.clear()
    assert rig.attempts["c-1-1"].outcome is None


def test_what_the_cloud_knows_as_ended_is_lost_with_one_listing() -> None:
    rig = running()
    rig.hidden.clear()
    rig.cloud.clear()
    rig.advance(65)
    assert rig.attempts["c-1-1"].outcome.value == "lost"  # type: ignore[union-attr]  # it has ended
    assert len(last_commands(rig, FindInstance)) == 1


@pytest.mark.parametrize("says", ["present", "nothing"])
def test_what_the_cloud_does_not_call_ended_is_not(says: str) -> None:
    rig = running()
    rig.unreachable.add("i-001")
    rig.silent.add(FindInstance)
    drop_session(rig)
    for _ in range(60):
        rig.advance(10)
        for find in last_commands(rig, FindInstance):
            if says == "present":
                rig.send(
                    InstanceFound(
                        op_id=find.op_id,
                        instance_id=find.instance_id,
                        existence=Existence.PRESENT,
                    )
                )
        rig.sent.clear()
    gone = rig.attempts["c-1-1"].outcome is not None
    assert gone is (says == "nothing")


def test_an_error_to_the_question_says_nothing_and_it_is_asked_again() -> None:
    rig = running()
    rig.unreachable.add("i-001")
    rig.silent.add(FindInstance)
    drop_session(rig)
    rig.advance(65)
    (find,) = last_commands(rig, FindInstance)
    error = RateLimitError("slow down", retry_after_s=30.0)
    rig.send(FindFailed(op_id=find.op_id, instance_id=find.instance_id, error=error))
    rig.advance(29)
    assert len(last_commands(rig, FindInstance)) == 1
    rig.advance(15)
    assert len(last_commands(rig, FindInstance)) == 2
    assert rig.attempts["c-1-1"].outcome is None


def test_while_the_store_stands_still_silence_says_nothing() -> None:
    rig = running()
    rig.silent.add(Probe)
    drop_session(rig)
    rig.send(StoreStalled(since=rig.now))
    rig.advance(500)
    assert rig.attempts["c-1-1"].outcome is None
    rig.silent.clear()
    rig.unreachable.add("i-001")
    for probe in last_commands(rig, Probe)[-1:]:
        rig.probe_now(probe)
    rig.send(StoreRecovered())
    rig.advance(170)
    assert rig.attempts["c-1-1"].outcome is None
    rig.advance(60)
    assert rig.attempts["c-1-1"].outcome is not None


def test_a_missing_instance_gets_no_new_work_and_counts() -> None:
    rig = Rig(make_type(2), pool=SETTINGS, settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1))
    rig.advance(5)
    rig.hidden.add("i-001")
    rig.unreachable.add("i-001")
    drop_session(rig)
    rig.advance(65)
    rig.submit(make_container(2))
    rig.advance(100)
    assert starts(rig) == ["c-1-1"]
    assert len(rig.created_types()) == 1
    assert [leak.kind for leak in leak_report(rig.view, rig.now).leaks] == [LeakKind.MISSING]
    rig.hidden.clear()
    rig.unreachable.clear()
    rig.advance(20)
    assert starts(rig) == ["c-1-1", "c-2-1"]
    assert leak_report(rig.view, rig.now).leaks == ()


# ---- what is being ended ------------------------------------------------------------------------


def test_what_still_runs_on_a_killed_instance_is_not_lost_by_one_listing() -> None:
    rig = running()
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason="odd"))
    (destroy, *_) = last_commands(rig, DestroyInstance)
    rig.send(Destroyed(op_id=destroy.op_id, instance_id="i-001"))
    rig.advance(60)
    assert rig.attempts["c-1-1"].outcome is None
    rig.cloud.clear()
    rig.hidden.clear()
    rig.advance(20)
    assert rig.attempts["c-1-1"].outcome is not None


def test_what_the_cloud_refuses_to_destroy_is_not_gone_since_listings_lack_it() -> None:
    rig = running()
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason="odd"))
    for _ in range(60):
        for destroy in last_commands(rig, DestroyInstance):
            error = CloudError("not today")
            rig.send(DestroyFailed(op_id=destroy.op_id, instance_id="i-001", error=error))
        rig.sent.clear()
        rig.advance(10)
    assert rig.attempts["c-1-1"].outcome is None


def test_an_instance_that_was_let_go_as_it_ended_is_ended_again_if_it_shows() -> None:
    rig = Rig(make_type(1), pool=SETTINGS)
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.silent.add(DestroyInstance)
    rig.hidden.add("i-001")
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    (destroy, *_) = last_commands(rig, DestroyInstance)
    rig.send(Destroyed(op_id=destroy.op_id, instance_id="i-001"))
    rig.advance(5)
    assert rig.worker_states() == {}
    rig.hidden.clear()
    rig.advance(65)
    assert rig.worker_states() == {"i-001": "shutdown"}


def test_a_restart_does_not_end_who_may_be_held() -> None:
    rig = running()
    worker = rig.engine.pool.workers["i-001"]
    seen = rig.cloud["i-001"]
    held = {**dict(seen.tags), IDLE_BEHAVIOR_TAG: "hold"}
    rig.cloud["i-001"] = replace(seen, tags=tuple(sorted(held.items())))
    rig.exit("c-1-1")
    assert worker.behavior is IdleBehavior.RUN
    rig.crash()
    rig.advance(300)
    assert rig.worker_states() == {"i-001": "idle"}
    rig.submit(make_container(2))
    assert rig.attempts["c-2-1"].instance_id == "i-002"
    rig.hidden.clear()
    rig.advance(65)
    assert rig.engine.pool.workers["i-001"].behavior is IdleBehavior.HOLD


# ---- instances that are too new for listings ----------------------------------------------------


def test_who_was_created_with_an_id_counts_until_a_listing_shows_it() -> None:
    rig = Rig(make_type(1), pool=SETTINGS)
    rig.unreachable.add("i-001")
    rig.hidden |= {"i-001", "i-002", "i-003"}
    rig.submit(make_container(1))
    rig.advance(75)
    assert len(rig.created_types()) == 1
    rig.hidden.clear()
    rig.unreachable.clear()
    rig.advance(20)
    assert rig.states() == {"c-1": "running"}
    assert rig.created_types() == ["t1"]


@pytest.mark.parametrize("shows", [True, False])
def test_who_is_never_shown_is_in_doubt_after_the_boot_timeout(shows: bool) -> None:
    rig = Rig(make_type(1), pool=SETTINGS)
    rig.unreachable.add("i-001")
    rig.hidden.add("i-001")
    rig.silent.add(DestroyInstance)
    rig.submit(make_container(1))
    rig.advance(590)
    assert len(rig.created_types()) == 1
    while rig.engine.pool.workers.get("i-001") is not None:
        for each in last_commands(rig, DestroyInstance):
            rig.send(Destroyed(op_id=each.op_id, instance_id="i-001", known=False))
        rig.advance(2)
        assert rig.now < 1700
    assert rig.now >= 1600
    (leak,) = leak_report(rig.view, rig.now).leaks
    assert (leak.kind, leak.instance_id) == (LeakKind.DOUBTFUL, "i-001")
    assert len(rig.created_types()) == 2
    if shows:
        rig.hidden.clear()
        rig.sent.clear()
        rig.advance(70)
        assert [each.instance_id for each in last_commands(rig, DestroyInstance)][:1] == ["i-001"]
        assert leak_report(rig.view, rig.now).leaks == ()
