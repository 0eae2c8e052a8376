"""The engine after trouble: lost sessions, unanswered starts, crashes, strangers in the cloud."""

from __future__ import annotations

import itertools

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.pool.messages import (
    AttemptExited,
    AttemptStarted,
    DestroyInstance,
    Listed,
    ListInstances,
    Probe,
    ProbeFailed,
    ReleaseAttempt,
    SessionLost,
    SignalAttempt,
    StartAttempt,
    StartUnknown,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, InstanceSeen, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)


def test_nothing_is_created_before_the_first_complete_listing() -> None:
    rig = Rig(make_type(1), listed=False)
    rig.submit(make_container(1))
    rig.advance(30)
    assert rig.kinds() == ["ListInstances"]
    assert rig.engine.scheduling.reason("c-1").code == "not_listed"  # type: ignore[union-attr]  # it waits
    listing = last_commands(rig, ListInstances)[0]
    rig.list_now(listing.op_id)
    rig.settle()
    assert rig.states() == {"c-1": "running"}


def test_a_new_dispatcher_adopts_what_runs() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1), make_container(2))
    rig.crash()
    assert rig.created_types() == []
    assert last_commands(rig, StartAttempt) == []
    assert rig.worker_states() == {"i-001": "running", "i-002": "running"}
    assert rig.states() == {"c-1": "running", "c-2": "running"}
    rig.exit("c-1-1", 0)
    rig.exit("c-2-1", 4)
    assert rig.states() == {"c-1": "succeeded", "c-2": "failed"}


def test_an_exit_while_no_dispatcher_ran_is_found_by_the_probe() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.on_instance["i-001"]["c-1-1"] = AttemptReport(
        attempt_id="c-1-1", container_id="c-1", exit=AttemptExit(kind=ExitKind.EXITED, code=5)
    )
    rig.crash()
    assert rig.containers["c-1"].exit_code == 5
    assert len(rig.attempts) == 1


def test_an_instance_that_vanished_while_no_dispatcher_ran_loses_its_attempt() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.cloud.clear()
    rig.crash()
    rig.advance(29)
    assert rig.states() == {"c-1": "running"}, "it may be too new for the cloud's listings"
    rig.advance(2)
    assert rig.attempts["c-1-1"].outcome.value == "lost"  # type: ignore[union-attr]  # it has ended
    assert rig.instances["i-001"].gone_at is not None
    assert rig.started_on() == {"c-1": "i-002"}


def test_a_journalled_start_that_never_reached_the_runner_is_begun_anew_after_the_probe() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.silent.clear()
    rig.silent.add(Probe)
    rig.crash()
    rig.advance(30)
    assert last_commands(rig, StartAttempt) == [], "nobody knows yet whether it runs"
    probe = last_commands(rig, Probe)[-1]
    rig.probe_now(probe)
    rig.settle()
    assert rig.attempts["c-1-1"].reason.code == "never_started"  # type: ignore[union-attr]  # it has ended
    assert [c.order.attempt_id for c in last_commands(rig, StartAttempt)] == ["c-1-2"]


def test_a_start_without_an_answer_is_not_read_as_not_started() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    start = last_commands(rig, StartAttempt)[0]
    rig.on_instance["i-001"]["c-1-1"] = AttemptReport(attempt_id="c-1-1", container_id="c-1")
    rig.send(StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="late"))
    assert len(last_commands(rig, StartAttempt)) == 1
    assert rig.states() == {"c-1": "running"}


def test_a_lost_session_is_reconnected_and_what_runs_goes_on() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    probes = len(last_commands(rig, Probe))
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    assert len(last_commands(rig, Probe)) == probes + 1
    assert rig.states() == {"c-1": "running"}
    assert len(rig.attempts) == 1


def test_silence_for_probe_timeout_shuts_down_and_only_the_listing_loses_the_attempt() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(probe_timeout_s=300))
    rig.silent |= {Probe, DestroyInstance}
    rig.silent.discard(Probe)
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now - 10, reason="silent"))
    rig.advance(289)
    assert rig.worker_states() == {"i-001": "running"}
    rig.advance(2)
    assert rig.worker_states()["i-001"] == "shutdown"
    assert rig.attempts["c-1-1"].outcome is None


def test_an_attempt_is_missing_only_from_a_probe_that_began_after_it_was_settled() -> None:
    rig = Rig(make_type(2))
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    early = last_commands(rig, Probe)[-1]
    rig.silent.add(StartAttempt)
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-9-1", exit=SUCCESS))
    rig.on_instance["i-001"].clear()
    rig.probe_now(early)
    assert rig.engine.table.outcomes["lost"] == 1, "it was settled long before"


def test_a_start_that_was_answered_while_a_probe_was_under_way_is_not_missing_from_it() -> None:
    rig = Rig(make_type(2))
    rig.submit(make_container(1))
    rig.silent |= {Probe, StartAttempt}
    rig.submit(make_container(2))
    start = last_commands(rig, StartAttempt)[-1]
    rig.send(StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-2-1", message="late"))
    probe = last_commands(rig, Probe)[-1]
    rig.submit(make_container(3))
    rig.probe_now(probe)
    assert rig.attempts["c-2-1"].outcome is not None, "its doubt is older than the probe"
    assert rig.attempts["c-1-1"].outcome is None, "it was reported"
    third = [c for c in last_commands(rig, StartAttempt) if c.order.container_id == "c-3"]
    for start in third:
        rig.send(
            AttemptStarted(op_id=start.op_id, worker_id="i-001", attempt_id=start.order.attempt_id)
        )
        assert rig.attempts[start.order.attempt_id].outcome is None


def test_a_process_that_no_container_wants_is_ended_and_forgotten() -> None:
    rig = Rig(make_type(1))
    stray = rig.boot("t1")
    rig.on_instance[stray]["c-old-1"] = AttemptReport(attempt_id="c-old-1", container_id="c-old")
    rig.advance(61)
    assert [(c.attempt_id, c.signal) for c in last_commands(rig, SignalAttempt)][:1] == [
        ("c-old-1", "TERM")
    ]
    how = AttemptExit(kind=ExitKind.EXITED, code=143)
    rig.on_instance[stray]["c-old-1"] = AttemptReport(
        attempt_id="c-old-1", container_id="c-old", exit=how
    )
    rig.send(SessionLost(worker_id=stray, last_contact=rig.now, reason="reset"))
    assert [c.attempt_id for c in last_commands(rig, ReleaseAttempt)] == ["c-old-1"]
    assert rig.worker_states() == {stray: "idle"}


def test_foreign_instances_are_not_touched() -> None:
    rig = Rig(make_type(1))
    rig.cloud["i-foreign"] = InstanceSeen(
        id="i-foreign", address="x:22", tags=(("longshore-cluster", "another"),)
    )
    rig.advance(3600)
    assert set(rig.kinds()) == {"ListInstances"}


def test_an_instance_whose_type_is_not_configured_is_drained() -> None:
    rig = Rig(make_type(1))
    old = rig.boot("t99")
    rig.advance(61)
    assert [c.instance_id for c in last_commands(rig, DestroyInstance)] == [old]


def test_a_held_instance_of_an_unknown_type_stays() -> None:
    rig = Rig(make_type(1))
    rig.boot("t99", longshore_idle_behavior="hold")
    rig.advance(3600)
    assert last_commands(rig, DestroyInstance) == []


def test_a_pinned_key_survives_a_restart_and_the_secret_does_not() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    first = last_commands(rig, Probe)[0]
    assert (first.host_key, first.secret) == ("", "secret")
    rig.crash()
    second = last_commands(rig, Probe)[0]
    assert (second.host_key, second.secret) == ("ssh-ed25519 AAAA", "")


def test_the_log_of_an_attempt_that_ended_before_the_crash_is_still_fetched() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    how = AttemptExit(kind=ExitKind.EXITED, code=0, stdout_bytes=10)
    rig.on_instance["i-001"]["c-1-1"] = AttemptReport(
        attempt_id="c-1-1", container_id="c-1", exit=how
    )
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    assert rig.states() == {"c-1": "succeeded"}
    rig.crash()
    assert last_commands(rig, ReleaseAttempt) == []
    rig.advance(120)
    assert rig.worker_states() == {"i-001": "idle"}, "its log is awaited"
    rig.exit("c-1-1")
    assert [c.attempt_id for c in last_commands(rig, ReleaseAttempt)] == ["c-1-1"]
    rig.advance(1)
    assert rig.worker_states() == {}


def test_failed_listings_conclude_nothing_and_are_repeated() -> None:
    from longshore.drivers.errors import CloudError
    from longshore.pool.messages import ListingFailed

    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.silent.add(ListInstances)
    rig.cloud.clear()
    rig.advance(61)
    listing = last_commands(rig, ListInstances)[-1]
    rig.send(ListingFailed(op_id=listing.op_id, error=CloudError("down")))
    assert rig.states() == {"c-1": "running"}
    before = len(last_commands(rig, ListInstances))
    rig.advance(2)
    assert len(last_commands(rig, ListInstances)) == before + 1


def test_a_listing_older_than_the_worker_does_not_remove_it() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(ListInstances)
    rig.advance(61)
    listing = last_commands(rig, ListInstances)[-1]
    began_at = rig.now
    rig.advance(1)
    rig.submit(make_container(1))
    rig.send(Listed(op_id=listing.op_id, began_at=began_at, instances=()))
    assert rig.worker_states() == {"i-001": "running"}


def test_probes_of_a_booting_instance_are_repeated_with_growing_delays() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    times = []
    for _ in range(6):
        probe = last_commands(rig, Probe)[-1]
        assert isinstance(probe, Probe)
        times.append(rig.now)
        rig.send(
            ProbeFailed(
                op_id=probe.op_id,
                worker_id="i-001",
                revision=probe.revision,
                stage="connect",
                message="refused",
            )
        )
        count = len(last_commands(rig, Probe))
        while len(last_commands(rig, Probe)) == count:
            rig.advance(0.25)
    delays = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert delays == [0.5, 1.0, 2.0, 2.0, 2.0]
