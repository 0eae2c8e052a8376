"""An instance that swallows what starts there: its engine is tried, and others take its work."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome, SchedulerSettings
from longshore.dispatcher.domain.messages import PublishInstance
from longshore.dispatcher.domain.timefmt import moment
from longshore.pool.boot_failures import PROVES_AFTER_S
from longshore.pool.messages import (
    AttemptExited,
    DestroyInstance,
    Probe,
    ProbeFailed,
    SessionLost,
    StartAttempt,
)
from longshore.pool.model import AttemptExit, ExitKind, Fault, PoolSettings
from longshore.pool.trials import ACQUITTED_S, ENDS_BEFORE_TRIAL
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

LONG = PoolSettings(idle_timeout_s=100_000)
HOLE = "i-001"
ENDS = pytest.mark.parametrize("kind", [ExitKind.ENGINE_FAILURE, ExitKind.LOST])


def fleet_of(instances: int, *, more: int = 0) -> Rig:
    """Return a rig with so many idle instances of one cpu; so many `more` may be created."""
    rig = Rig(make_type(1), pool=LONG, settings=SchedulerSettings(max_instances=instances + more))
    for number in range(1, instances + 1):
        rig.submit(make_container(number, image="busybox"))
    for number in range(1, instances + 1):
        rig.exit(f"c-{number}-1")
    assert set(rig.worker_states().values()) == {"idle"}
    return rig


def swallow(rig: Rig, kind: ExitKind) -> list[str]:
    """Let the instance swallow whatever starts there by now; return the attempts' ids."""
    there = sorted(
        attempt_id
        for attempt_id, attempt in rig.attempts.items()
        if attempt.instance_id == HOLE and attempt.outcome is None
    )
    for attempt_id in there:
        rig.exit(attempt_id, 125, kind, Fault.INSTANCE)
    return there


@ENDS
def test_a_broken_instance_takes_three_and_its_failed_trial_drains_it(kind: ExitKind) -> None:
    rig = fleet_of(4)
    rig.trial_error = "podman: no space left on device"
    for number in range(11, 111):
        rig.submit(make_container(number, image="busybox"))
    swallowed: list[str] = []
    for _ in range(400):
        swallowed += swallow(rig, kind)
        for attempt_id, attempt in sorted(rig.attempts.items()):
            if attempt.instance_id != HOLE and attempt.outcome is None:
                rig.exit(attempt_id)
        rig.advance(0.25)
    assert len({each.rpartition("-")[0] for each in swallowed}) == len(swallowed) == 3
    assert all(rig.containers[f"c-{n}"].state.value == "succeeded" for n in range(11, 111))
    assert [each.instance_id for each in last_commands(rig, DestroyInstance)][:1] == [HOLE]
    told = [each.reason for each in rig.published if isinstance(each, PublishInstance)]
    assert any("no space left" in reason for reason in told)


def test_a_registry_that_hangs_is_no_instances_fault_and_the_container_goes_on() -> None:
    rig = fleet_of(1)
    rig.trial_error = "podman: it would be drained if it were tried"
    for number in range(11, 21):
        rig.submit(make_container(number, image="busybox"))
    for _ in range(20):
        for attempt_id, attempt in sorted(rig.attempts.items()):
            if attempt.outcome is None:
                rig.exit(attempt_id, 137, ExitKind.ENGINE_FAILURE, Fault.REGISTRY)
        rig.advance(60)
    assert not any(probe.trial for probe in last_commands(rig, Probe))
    assert rig.worker_states()[HOLE] in ("idle", "running")
    tries = [each for each in rig.attempts.values() if each.outcome is AttemptOutcome.LOST]
    assert len(tries) > ENDS_BEFORE_TRIAL
    assert len(tries) > len({each.container_id for each in tries}), "they are tried again"


@ENDS
def test_who_was_swallowed_is_tried_elsewhere_and_later(kind: ExitKind) -> None:
    rig = fleet_of(2)
    rig.submit(make_container(11, image="busybox"))
    first = rig.attempts["c-11-1"].instance_id
    rig.exit("c-11-1", 125, kind, Fault.INSTANCE)
    rig.advance(2)
    assert rig.attempts["c-11-2"].instance_id != first
    rig.exit("c-11-2", 125, kind, Fault.INSTANCE)
    waited = rig.containers["c-11"]
    assert waited.state.value == "queued"
    assert "c-11-3" not in rig.attempts, "the more often, the later"
    rig.advance(5)
    assert "c-11-3" in rig.attempts


def test_where_there_is_no_other_it_is_tried_on_the_same_one() -> None:
    rig = fleet_of(1)
    rig.submit(make_container(11, image="busybox"))
    rig.exit("c-11-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    rig.advance(2)
    assert rig.attempts["c-11-2"].instance_id == HOLE


def test_a_trial_that_passes_lets_it_work_on_and_the_users_are_believed_no_more() -> None:
    rig = fleet_of(1)
    for number in (11, 12, 13, 14, 15, 16):
        rig.submit(make_container(number, image="busybox"))
    for number in (11, 12, 13, 14, 15):
        rig.exit(f"c-{number}-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    assert [probe.trial for probe in last_commands(rig, Probe)].count(True) == 1
    assert rig.worker_states() == {HOLE: "running"}, "c-16 runs there"
    assert not last_commands(rig, DestroyInstance)
    rig.advance(ACQUITTED_S + 1)
    assert rig.engine.pool.workers[HOLE].health.swallowed == {}


def test_nothing_starts_there_while_its_engine_is_tried() -> None:
    rig = fleet_of(1)
    for number in (11, 12, 13, 14):
        rig.submit(make_container(number, image="busybox"))
    rig.silent.add(Probe)
    for number in (11, 12, 13):
        rig.exit(f"c-{number}-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    probe = last_commands(rig, Probe)[-1]
    assert probe.trial
    assert "c-14-1" not in rig.attempts
    rig.send(
        ProbeFailed(
            op_id=probe.op_id,
            worker_id=HOLE,
            revision=probe.revision,
            stage="trial",
            message="the connection was lost",
        )
    )
    rig.silent.clear()
    rig.advance(15)
    assert "c-14-1" in rig.attempts, "what decided nothing is asked again"


def test_a_hundred_of_an_unknown_image_drain_nothing_and_fail_by_themselves() -> None:
    rig = fleet_of(2)
    for number in range(11, 111):
        rig.submit(make_container(number, image="nosuch"))
    for _ in range(200):
        for attempt_id, attempt in sorted(rig.attempts.items()):
            if attempt.outcome is None:
                rig.exit(attempt_id, 125, ExitKind.ENGINE_FAILURE, Fault.REQUEST)
    assert all(rig.containers[f"c-{n}"].state.value == "failed" for n in range(11, 111))
    assert not any(probe.trial for probe in last_commands(rig, Probe))
    assert not last_commands(rig, DestroyInstance)
    assert all(len(rig.containers[f"c-{n}"].attempts) == 1 for n in range(11, 111))


def test_one_container_alone_is_swallowed_three_times_until_the_engine_is_tried() -> None:
    rig = fleet_of(1)
    rig.trial_error = "podman: no space left on device"
    rig.submit(make_container(11, image="busybox"))
    for number in (1, 2):
        rig.exit(f"c-11-{number}", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
        rig.advance(10)
        assert not any(each.trial for each in last_commands(rig, Probe))
    rig.exit("c-11-3", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    assert last_commands(rig, Probe)[-1].trial
    assert [each.instance_id for each in last_commands(rig, DestroyInstance)] == [HOLE]
    told = [each.reason for each in rig.published if isinstance(each, PublishInstance)]
    assert any("a container could not run there: podman" in reason for reason in told)
    rig.advance(20)
    assert rig.attempts["c-11-4"].instance_id == "i-002"


def test_one_whose_fault_it_may_be_puts_the_engine_on_trial_once_in_a_while() -> None:
    rig = fleet_of(1)
    rig.submit(make_container(11, image="busybox"))
    lose_at_the_hole(rig, ACQUITTED_S)
    assert len(where(rig, "c-11")) > 10
    assert [probe.trial for probe in last_commands(rig, Probe)].count(True) == 1
    assert rig.engine.pool.workers[HOLE].health.swallowed == {}


def test_who_ran_ends_the_count_of_its_kind() -> None:
    rig = fleet_of(1)
    worker = rig.engine.pool.workers[HOLE]
    rig.submit(make_container(11, image="busybox"))
    rig.exit("c-11-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    assert list(worker.health.swallowed) == ["c-11"]
    rig.advance(2)
    rig.exit("c-11-2", 0)
    assert worker.health.swallowed == {}
    rig.submit(make_container(12, image="busybox"))
    rig.exit("c-12-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    rig.submit(make_container(13))
    rig.exit("c-13-1", 0)
    assert list(worker.health.swallowed) == ["c-12"], "that a process runs says nothing of images"


def test_what_was_told_to_end_counts_for_nothing() -> None:
    rig = fleet_of(1)
    for number in (11, 12, 13, 14):
        rig.submit(make_container(number, image="busybox"))
        rig.cancel(f"c-{number}")
        rig.exit(f"c-{number}-1", 125, ExitKind.LOST, Fault.INSTANCE)
    assert rig.engine.pool.workers[HOLE].health.swallowed == {}
    assert not any(each.trial for each in last_commands(rig, Probe))
    assert last_commands(rig, StartAttempt)


# ---- what its trial does not show ----------------------------------------------------------------


def busy_but_for_the_hole(instances: int) -> Rig:
    """Return a rig in which all instances run something of a day's length, but the hole."""
    rig = fleet_of(instances)
    for number in range(101, 101 + instances):
        rig.submit(make_container(number, image="busybox"))
    (there,) = (a for a in rig.attempts.values() if a.outcome is None and a.instance_id == HOLE)
    rig.exit(there.id)
    return rig


def where(rig: Rig, container_id: str) -> list[str]:
    """Return the instances on which a container was tried, in order."""
    tried = [a for a in rig.attempts.values() if a.container_id == container_id]
    return [a.instance_id for a in sorted(tried, key=lambda each: each.number)]


def lose_at_the_hole(rig: Rig, seconds: float) -> None:
    """Let time pass while pulls fail there, and its trials pass."""
    for _ in range(int(seconds)):
        swallow(rig, ExitKind.ENGINE_FAILURE)
        rig.advance(1)


def test_who_could_not_run_waits_for_the_others_while_they_are_only_busy() -> None:
    rig = busy_but_for_the_hole(3)
    rig.submit(make_container(11, image="busybox"), make_container(12, image="busybox"))
    lose_at_the_hole(rig, 60)
    assert where(rig, "c-11") == [HOLE]
    reason = rig.engine.why_waiting("c-11")
    assert reason is not None
    assert reason.code == "elsewhere"
    assert reason.message == (
        "it waits for room elsewhere than on i-001, where it was lost or could not run; there again"
        f" at {moment(1600.0)}; no other instance has room, and for a new one: at quota:"
        " max_instances is 3"
    )
    rig.exit("c-102-1")
    assert where(rig, "c-11") == [HOLE, "i-002"], "it has kept its place in the queue"


def test_who_waits_for_the_others_keeps_nobody_from_the_room_that_there_is() -> None:
    rig = busy_but_for_the_hole(2)
    rig.submit(make_container(11, image="busybox"))
    lose_at_the_hole(rig, 5)
    rig.submit(make_container(12, image="busybox"))
    assert where(rig, "c-12") == [HOLE], "it is of the same kind, and was lost nowhere"
    rig.exit("c-12-1")
    assert where(rig, "c-11") == [HOLE]


def test_where_the_others_are_busy_for_days_it_goes_back_in_the_end() -> None:
    rig = busy_but_for_the_hole(2)
    rig.submit(make_container(11, image="busybox"))
    swallow(rig, ExitKind.ENGINE_FAILURE)
    rig.advance(599)
    assert where(rig, "c-11") == [HOLE]
    rig.advance(10)
    assert where(rig, "c-11") == [HOLE, HOLE]


def test_where_no_other_could_hold_it_a_new_instance_is_created() -> None:
    rig = fleet_of(1, more=1)
    rig.submit(make_container(11, image="busybox"))
    lose_at_the_hole(rig, 10)
    assert where(rig, "c-11") == [HOLE, "i-002"]
    assert rig.states()["c-11"] == "running"


def test_no_container_fails_by_one_instance_whose_trials_pass() -> None:
    rig = busy_but_for_the_hole(2)
    for number in range(11, 21):
        rig.submit(make_container(number, image="busybox"))
    lose_at_the_hole(rig, 100)
    rig.exit("c-102-1")
    for _ in range(40):
        swallow(rig, ExitKind.ENGINE_FAILURE)
        for attempt_id, attempt in sorted(rig.attempts.items()):
            if attempt.instance_id != HOLE and attempt.outcome is None:
                rig.exit(attempt_id)
        rig.advance(1)
    assert {rig.states()[f"c-{n}"] for n in range(11, 21)} == {"succeeded"}
    assert not last_commands(rig, DestroyInstance)


def test_where_nothing_else_is_to_be_had_it_is_tried_there_ever_later_and_not_for_ever() -> None:
    rig = fleet_of(1)
    rig.submit(make_container(11, image="busybox"))
    lose_at_the_hole(rig, 65)
    assert len(where(rig, "c-11")) == 7, "after 1, 2, 4, 8, 16 and 32 s"
    reason = rig.engine.why_waiting("c-11")
    assert reason is not None
    assert "elsewhere if it can be" in reason.message
    lose_at_the_hole(rig, 1200)
    assert len(where(rig, "c-11")) == 20
    assert rig.states()["c-11"] == "failed"


def lost_on(rig: Rig, attempt_id: str, *, stdout_bytes: int = 0) -> None:
    """Let the supervisor of an attempt be killed."""
    how = AttemptExit(
        kind=ExitKind.LOST, code=None, message="its supervisor ended", stdout_bytes=stdout_bytes
    )
    rig.on_instance[HOLE].pop(attempt_id)
    rig.send(AttemptExited(worker_id=HOLE, attempt_id=attempt_id, exit=how))


@pytest.mark.parametrize(
    ("ran_s", "stdout_bytes", "counted"),
    [(1, 0, 3), (1, 5, 0), (PROVES_AFTER_S, 0, 0), (PROVES_AFTER_S - 0.1, 0, 3)],
)
def test_what_is_lost_after_it_has_run_is_no_fault_of_its_instances(
    ran_s: float, stdout_bytes: int, counted: int
) -> None:
    """Found by a stranger: the note said of it that it had not run, while `explain` had that."""
    rig = fleet_of(1)
    rig.silent.add(Probe)
    for number in (11, 12, 13):
        rig.submit(make_container(number, image="busybox"))
        rig.advance(ran_s)
        lost_on(rig, f"c-{number}-1", stdout_bytes=stdout_bytes)
        rig.cancel(f"c-{number}")
    health = rig.engine.pool.workers[HOLE].health
    assert len(health.swallowed) == counted
    assert health.on_trial is (counted > 0)
    told = "c-13-1 was lost: its supervisor ended" if counted else ""
    assert health.last_error == told


def test_what_an_engine_could_not_run_is_told_as_that() -> None:
    rig = fleet_of(1)
    rig.submit(make_container(11, image="busybox"))
    rig.exit("c-11-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    said = rig.engine.pool.workers[HOLE].health.last_error
    assert said == "c-11-1 ended without having run: engine_failure"


def test_what_was_lost_while_nobody_heard_may_never_have_run() -> None:
    rig = fleet_of(1)
    rig.submit(make_container(11, image="busybox"))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id=HOLE, last_contact=rig.now, reason="reset"))
    rig.advance(2 * PROVES_AFTER_S)
    rig.probe_now(last_commands(rig, Probe)[-1])
    lost_on(rig, "c-11-1")
    assert list(rig.engine.pool.workers[HOLE].health.swallowed) == ["c-11"]


def test_what_ran_before_a_restart_is_no_fault_of_its_instances_when_it_is_lost() -> None:
    rig = fleet_of(1)
    rig.submit(make_container(11, image="busybox"))
    rig.advance(1)
    rig.crash()
    rig.advance(PROVES_AFTER_S + 1)
    lost_on(rig, "c-11-1")
    assert rig.attempts["c-11-1"].outcome is AttemptOutcome.LOST
    assert rig.engine.pool.workers[HOLE].health.swallowed == {}
