"""The rows of the table of worker states: one test for each, named after it."""

from __future__ import annotations

import msgspec
import pytest

from longshore.pool.messages import (
    AttemptExited,
    Created,
    CreateInstance,
    DestroyInstance,
    ListInstances,
    LogComplete,
    Probe,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, IdleBehavior, PoolSettings
from tests.rigs.semantics import QUICK, WorkerRig, rig_of, running
from tests.samples import make_container

PATIENT = msgspec.structs.replace(QUICK, term_timeout_s=100_000)
SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)


def booting() -> WorkerRig:
    """Return a rig whose i-001 is created and not reached yet."""
    rig = rig_of()
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    assert rig.worker_states() == {"i-001": "booting"}
    return rig


def idle() -> WorkerRig:
    rig = running()
    rig.exit("c-1-1")
    assert rig.worker_states() == {"i-001": "idle"}
    return rig


def end(rig: WorkerRig, worker_id: str, attempt_id: str) -> None:
    """Let an attempt end on its instance, and its exit be pushed."""
    del rig.on_instance[worker_id][attempt_id]
    rig.send(AttemptExited(worker_id=worker_id, attempt_id=attempt_id, exit=SUCCESS))


@pytest.mark.parametrize(("stray", "state"), [(False, "idle"), (True, "running")])
def test_unknown_when_both_probes_succeeded(*, stray: bool, state: str) -> None:
    rig = rig_of()
    made = rig.boot("t1")
    if stray:
        rig.run_on(made, "c-9-1")
    rig.advance(2)
    assert rig.state(made) == state


@pytest.mark.parametrize(("stray", "state"), [(False, "idle"), (True, "running")])
def test_booting_when_both_probes_succeeded(*, stray: bool, state: str) -> None:
    rig = booting()
    rig.cancel("c-1")
    if stray:
        rig.run_on("i-001", "c-9-1")
    rig.probe_now(rig.last(Probe))
    assert rig.state("i-001") == state


@pytest.mark.parametrize("attempts", [(), ("c-9-1",)])
def test_unknown_without_success_within_boot_timeout_since_it_appeared(
    attempts: tuple[str, ...],
) -> None:
    rig = rig_of(pool=PATIENT)
    made = rig.adopt("t1", *attempts)
    rig.advance(1)
    appeared_at = rig.worker(made).appeared_at
    rig.advance(appeared_at + 99.9 - rig.now)
    assert rig.state(made) == "unknown"
    rig.advance(0.2)
    assert rig.state(made) == "shutdown"
    assert (
        rig.worker(made).shutdown.reason == "no successful probe within boot_timeout: boot: not yet"
    )


def test_booting_without_success_within_boot_timeout_since_it_appeared() -> None:
    rig = booting()
    rig.advance(99.9)
    assert rig.state("i-001") == "booting"
    rig.advance(0.1)
    assert rig.state("i-001") == "shutdown"


def test_idle_when_a_container_starts() -> None:
    rig = idle()
    rig.submit(make_container(2))
    assert rig.state("i-001") == "running"


def test_running_when_the_last_exit_is_known() -> None:
    rig = rig_of(2)
    rig.submit(make_container(1), make_container(2))
    rig.exit("c-2-1")
    assert rig.state("i-001") == "running"
    rig.exit("c-1-1")
    assert rig.state("i-001") == "idle"


def test_running_without_contact_for_probe_timeout_and_lost_when_it_has_left_the_listing() -> None:
    rig = running()
    rig.silent.add(Probe)
    rig.lose_session("i-001")
    rig.advance(199.9)
    assert rig.state("i-001") == "running"
    rig.advance(0.1)
    assert rig.state("i-001") == "shutdown"
    rig.advance(300)
    assert rig.outcome("c-1-1") == "", "it may run as long as the instance is there"
    del rig.cloud["i-001"]
    rig.advance(3)
    assert rig.outcome("c-1-1") == "lost"


def test_idle_without_contact_for_probe_timeout() -> None:
    rig = rig_of(pool=PoolSettings(idle_timeout_s=1000, probe_timeout_s=200, sync_interval_s=1))
    made = rig.boot("t1")
    rig.advance(61)
    rig.silent.add(Probe)
    rig.lose_session(made)
    rig.advance(199.9)
    assert rig.state(made) == "idle"
    rig.advance(0.1)
    assert rig.state(made) == "shutdown"


def test_the_age_of_a_probe_counts_from_its_start() -> None:
    rig = rig_of()
    rig.silent.add(Probe)
    made = rig.boot("t1")
    rig.advance(2)
    rig.silent.discard(Probe)
    began_at = rig.now
    late = rig.last(Probe)
    rig.now += 20
    rig.probe_answer(late, began_at=began_at)
    assert rig.worker(made).link.last_contact == began_at


def test_idle_for_idle_timeout_and_not_wanted() -> None:
    rig = idle()
    rig.advance(59.9)
    assert rig.state("i-001") == "idle"
    rig.advance(0.1)
    assert rig.state("i-001") == "shutdown"


def test_idle_for_idle_timeout_but_wanted() -> None:
    rig = idle()
    rig.silent.add(Probe)
    rig.lose_session("i-001")
    rig.submit(make_container(2))
    assert rig.states()["c-2"] == "locked"
    rig.advance(100)
    assert rig.state("i-001") == "idle", "somebody waits for it to come back"
    rig.cancel("c-2")
    assert rig.state("i-001") == "shutdown"


def test_booting_that_drains_goes_at_once() -> None:
    rig = booting()
    rig.behave("i-001", IdleBehavior.DRAIN)
    assert rig.state("i-001") == "shutdown"


def test_idle_that_drains_goes_at_once() -> None:
    rig = idle()
    rig.behave("i-001", IdleBehavior.DRAIN)
    assert rig.state("i-001") == "shutdown"


def test_running_that_drains_goes_when_every_attempt_is_given_up_by_kill() -> None:
    rig = rig_of(2)
    rig.submit(make_container(1), make_container(2))
    rig.behave("i-001", IdleBehavior.DRAIN)
    rig.cancel("c-1")
    rig.advance(100)
    assert rig.state("i-001") == "running", "one of them may end yet"
    rig.cancel("c-2")
    rig.advance(34.9)
    assert rig.state("i-001") == "running"
    rig.advance(0.1)
    assert rig.state("i-001") == "shutdown"
    assert rig.worker("i-001").health.broken == "attempt c-1-1 survives KILL", "the first verdict"


def test_running_with_every_attempt_given_up_goes_at_once_when_its_hold_ends() -> None:
    rig = running()
    rig.behave("i-001", IdleBehavior.HOLD)
    rig.cancel("c-1")
    rig.advance(200)
    assert rig.state("i-001") == "running"
    rig.behave("i-001", IdleBehavior.DRAIN)
    assert rig.state("i-001") == "shutdown"


def test_unknown_that_drains_goes_when_a_run_probe_shows_it_empty() -> None:
    rig = rig_of()
    made = rig.adopt("t1", longshore_idle_behavior="drain")
    rig.silent.add(Probe)
    rig.advance(50)
    assert rig.state(made) == "unknown", "something may run there"
    rig.silent.discard(Probe)
    rig.probe_now(rig.last(Probe))
    assert rig.state(made) == "shutdown", "though its boot probe fails"


def test_unknown_that_is_empty_goes_at_once_when_it_is_to_drain() -> None:
    rig = rig_of()
    made = rig.adopt("t1")
    rig.advance(20)
    rig.behave(made, IdleBehavior.DRAIN)
    assert rig.state(made) == "shutdown"


def test_unknown_that_drains_goes_after_boot_timeout_with_nothing_found_on_it() -> None:
    rig = rig_of()
    rig.silent.add(Probe)
    made = rig.adopt("t1", longshore_idle_behavior="drain")
    rig.advance(100)
    assert rig.state(made) == "unknown"
    rig.advance(1)
    assert rig.state(made) == "shutdown"


def test_unknown_that_drains_stays_until_what_was_found_on_it_has_ended() -> None:
    rig = rig_of(pool=PATIENT)
    made = rig.adopt("t1", "c-9-1", longshore_idle_behavior="drain")
    rig.advance(30)
    found = rig.engine.pool.attempts_on(made)
    assert [(a.remote_id, a.stray, a.is_to_end) for a in found] == [("c-9-1", True, True)]
    rig.advance(500)
    assert rig.state(made) == "unknown"
    end(rig, made, "c-9-1")
    assert rig.state(made) == "shutdown"


def test_unknown_that_drains_does_not_stay_for_what_is_not_heard_of_any_more() -> None:
    rig = rig_of(pool=PATIENT)
    made = rig.adopt("t1", "c-9-1", longshore_idle_behavior="drain")
    rig.advance(10)
    rig.silent.add(Probe)
    rig.advance(300)
    assert rig.state(made) == "unknown", "its session has heartbeats"
    rig.lose_session(made)
    rig.advance(199.9)
    assert rig.state(made) == "unknown"
    rig.advance(0.1)
    assert rig.state(made) == "shutdown"


def test_unknown_that_drains_does_not_stay_for_what_survives_kill() -> None:
    rig = rig_of()
    made = rig.adopt("t1", "c-9-1", longshore_idle_behavior="drain")
    rig.advance(60)
    assert rig.state(made) == "shutdown"


def test_unknown_that_drains_lets_the_log_of_what_ended_come() -> None:
    rig = running()
    rig.boot_errors["i-001"] = "not yet"
    rig.crash()
    rig.behave("i-001", IdleBehavior.DRAIN)
    rig.advance(250)
    assert rig.state("i-001") == "unknown"
    how = AttemptReport(attempt_id="c-1-1", container_id="c-1", exit=SUCCESS)
    rig.on_instance["i-001"]["c-1-1"] = how
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=SUCCESS))
    rig.advance(20)
    assert rig.state("i-001") == "unknown", "its log is on the instance still"
    rig.send(LogComplete(worker_id="i-001", attempt_id="c-1-1"))
    assert rig.state("i-001") == "shutdown"


def test_unknown_when_its_create_call_returns() -> None:
    rig = rig_of()
    rig.silent |= {Probe, CreateInstance}
    rig.submit(make_container(1))
    create = rig.last(CreateInstance)
    made = rig.boot("t1", longshore_token=create.launch.token)
    rig.advance(2)
    assert rig.state(made) == "unknown"
    seen = rig.cloud[made]
    rig.send(Created(op_id=create.op_id, token=create.launch.token, instance=seen))
    assert rig.state(made) == "booting"


def test_shutdown_still_listed_is_destroyed_again_until_it_leaves_the_listing() -> None:
    rig = idle()
    rig.behave("i-001", IdleBehavior.DRAIN)
    assert rig.count(DestroyInstance) == 1
    rig.advance(9.9)
    assert rig.count(DestroyInstance) == 1
    rig.advance(20.2)
    assert rig.count(DestroyInstance) == 4
    del rig.cloud["i-001"]
    rig.advance(30)
    assert rig.count(DestroyInstance) == 4
    assert rig.state("i-001") == "gone"


@pytest.mark.parametrize("make", [running, idle])
def test_any_absent_from_a_listing_that_began_after_it_was_last_seen_is_gone(
    make: type[WorkerRig],
) -> None:
    rig = make()
    rig.advance(2)
    rig.silent.add(ListInstances)
    rig.advance(2)
    del rig.cloud["i-001"]
    rig.silent.add(CreateInstance)
    worker = rig.worker("i-001")
    worker.cloud.listed_at = rig.now
    rig.list_now(rig.last(ListInstances).op_id)
    assert rig.state("i-001") != "gone", "that listing is no younger than the last sight"
    rig.now += 1
    rig.settle()
    rig.list_now(rig.last(ListInstances).op_id)
    rig.settle()
    assert rig.state("i-001") == "gone"
