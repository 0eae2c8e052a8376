"""Resident attempts: they hold room on their instance, and leave it as idle or as busy as it is."""

from __future__ import annotations

import pytest

from longshore.drivers.errors import BugError
from longshore.drivers.interface import Resources
from longshore.pool import attempts, probing, shutdown
from longshore.pool.charging import room_left
from longshore.pool.leaks import LeakKind, find_leaks
from longshore.pool.messages import (
    BrokenReported,
    DestroyInstance,
    LogComplete,
    Probe,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import IdleBehavior, PoolAttempt, Running, Worker
from longshore.pool.pool_events import AttemptEnd, ResidentToldToEnd, RunnerOverloaded, StrayFound
from longshore.pool.timers import TimerKind
from tests.rigs.pool import ONE_CPU, PoolRig

IDLE_TIMEOUT_S = 60


def state(worker: Worker) -> str:
    return worker.state.value


def earlier(attempt_id: str, *, resident: bool) -> PoolAttempt:
    """Return an attempt on i-1 as an earlier process journalled it."""
    return PoolAttempt(
        id=attempt_id,
        remote_id=attempt_id,
        worker_id="i-1",
        resources=ONE_CPU,
        resident=resident,
    )


def idle_rig() -> tuple[PoolRig, Worker]:
    """Return a rig whose i-1 has just become idle, with a resident s-1 on it."""
    rig = PoolRig()
    worker = rig.boot("i-1")
    rig.place(worker, "s-1", resident=True)
    assert state(worker) == "idle"
    return rig, worker


def busy_rig() -> tuple[PoolRig, Worker]:
    """Return a rig on whose i-1 both a resident s-1 and a batch attempt b-1 run."""
    rig, worker = idle_rig()
    rig.place(worker, "b-1")
    assert state(worker) == "running"
    return rig, worker


def due(rig: PoolRig, kind: TimerKind, subject: str) -> float | None:
    return rig.core.timers.due(kind, subject)


# ---- placing ------------------------------------------------------------------------------------


def test_a_resident_holds_room_and_gives_it_back() -> None:
    rig, worker = idle_rig()
    assert worker.load.free == rig.type.allocatable.minus(ONE_CPU)
    assert (worker.load.resident, worker.load.busy_with) == ({"s-1"}, 0)
    rig.exit(worker, "s-1")
    assert worker.load.free == rig.type.allocatable
    assert (worker.load.resident, worker.load.busy_with) == (set(), 0)


def test_a_resident_that_asks_for_no_cpu_shares_one_with_the_others() -> None:
    rig, worker = idle_rig()
    core = rig.core
    shares = PoolAttempt(
        id="s-2",
        remote_id="s-2",
        worker_id="i-1",
        resources=Resources(),
        phase=Running(),
        resident=True,
    )
    core.add_attempt(shares)
    core.hold_resources(worker, shares)
    core.hold_resources(worker, shares)
    assert (worker.load.on_shared_cpu, worker.load.busy_with, worker.load.resident) == (
        1,
        0,
        {"s-1", "s-2"},
    )
    assert (
        worker.load.free == room_left(worker) == rig.type.allocatable.minus(ONE_CPU).minus(ONE_CPU)
    )
    core.free_resources(worker, "s-2")
    assert (worker.load.on_shared_cpu, worker.load.resident) == (0, {"s-1"})


def test_placing_a_resident_leaves_an_idle_worker_idle() -> None:
    rig = PoolRig()
    worker = rig.boot("i-1")
    last_busy, idle_until = worker.load.last_busy, due(rig, TimerKind.RECHECK, "i-1")
    rig.advance(20)
    revision = worker.link.revision
    rig.place(worker, "s-1", resident=True)
    assert [each.order.attempt_id for each in rig.asked(StartAttempt)] == ["s-1"]
    assert (state(worker), worker.load.last_busy, worker.load.last_container) == (
        "idle",
        last_busy,
        "",
    )
    assert due(rig, TimerKind.RECHECK, "i-1") == idle_until
    assert worker.link.revision > revision


def test_placing_a_resident_leaves_a_running_worker_running() -> None:
    rig = PoolRig()
    worker = rig.boot("i-1")
    rig.place(worker, "b-1")
    placed_at = rig.now
    rig.advance(20)
    rig.place(worker, "s-1", resident=True)
    assert (state(worker), worker.load.last_busy, worker.load.busy_with) == (
        "running",
        placed_at,
        1,
    )
    assert worker.load.last_container == "of-b-1"


def test_no_resident_is_placed_where_nothing_can_start() -> None:
    rig, worker = idle_rig()
    rig.advance(IDLE_TIMEOUT_S)
    assert (state(worker), worker.link.session_up) == ("shutdown", True)
    assert not worker.is_ready
    assert not probing.takes_work(rig.core, worker, rig.now)
    with pytest.raises(BugError):
        rig.place(worker, "s-2", resident=True)


# ---- ends ---------------------------------------------------------------------------------------


def test_the_end_of_a_resident_leaves_an_idle_worker_as_it_is() -> None:
    rig, worker = idle_rig()
    rig.advance(20)
    revision, idle_until = worker.link.revision, due(rig, TimerKind.RECHECK, "i-1")
    since, last_busy = worker.state_since, worker.load.last_busy
    rig.end(worker, "s-1")
    assert (state(worker), worker.state_since, worker.load.last_busy) == ("idle", since, last_busy)
    assert due(rig, TimerKind.RECHECK, "i-1") == idle_until
    assert worker.link.revision > revision
    (told,) = rig.asked(AttemptEnd)
    assert (told.attempt_id, rig.asked(ResidentToldToEnd)) == ("s-1", [])


def test_the_end_of_a_resident_leaves_a_running_worker_running() -> None:
    rig, worker = busy_rig()
    last_busy = worker.load.last_busy
    rig.advance(20)
    rig.end(worker, "s-1")
    assert (state(worker), worker.load.last_busy) == ("running", last_busy)


def test_a_list_from_before_the_end_of_a_resident_makes_no_stray_of_it() -> None:
    rig, worker = idle_rig()
    rig.silent.add(Probe)
    rig.core.timers.set(TimerKind.PROBE, "i-1", rig.now)
    rig.settle()
    older = rig.probe_answer(rig.asked(Probe)[-1])
    rig.end(worker, "s-1")
    rig.send(older)
    assert [each.attempt_id for each in older.report.attempts] == ["s-1"]
    assert rig.asked(StrayFound) == []


def test_a_worker_is_idle_when_only_residents_are_left() -> None:
    rig, worker = busy_rig()
    rig.advance(20)
    rig.end(worker, "b-1")
    assert (state(worker), worker.state_since, worker.load.last_busy) == ("idle", rig.now, rig.now)
    assert due(rig, TimerKind.RECHECK, "i-1") == rig.now + IDLE_TIMEOUT_S


# ---- shut down in spite of residents ------------------------------------------------------------


def test_a_resident_keeps_no_idle_worker() -> None:
    rig, worker = idle_rig()
    rig.advance(IDLE_TIMEOUT_S - 1)
    assert state(worker) == "idle"
    rig.advance(1)
    assert state(worker) == "shutdown"
    assert worker.shutdown.reason == "idle for idle_timeout and not wanted"


def test_residents_that_come_and_go_keep_no_idle_worker() -> None:
    rig, worker = idle_rig()
    for number in range(1, 6):
        rig.end(worker, f"s-{number}")
        rig.place(worker, f"s-{number + 1}", resident=True)
        rig.advance(10)
    assert state(worker) == "idle"
    rig.advance(10)
    assert state(worker) == "shutdown"


def test_a_worker_with_residents_makes_way_for_another_type() -> None:
    rig, worker = idle_rig()
    shutdown.on_unwanted(rig.core, worker, rig.now)
    rig.settle()
    assert state(worker) == "shutdown"


def test_the_log_of_a_resident_is_waited_for_like_any_other_and_no_longer() -> None:
    rig, worker = idle_rig()
    rig.advance(30)
    rig.exit(worker, "s-1")
    rig.advance(30)
    assert state(worker) == "idle", "its log is on its way"
    shutdown.on_unwanted(rig.core, worker, rig.now)
    assert state(worker) == "idle", "its log is on its way"
    rig.advance(539)
    assert state(worker) == "idle"
    rig.advance(1)
    assert state(worker) == "shutdown", "600 s after it had become idle, not after the exit"


def test_draining_ends_the_batch_work_first_and_the_residents_then() -> None:
    rig, worker = busy_rig()
    rig.behave(worker, IdleBehavior.DRAIN)
    rig.advance(3600)
    assert (state(worker), rig.signals()) == ("running", [])
    rig.exit(worker, "b-1")
    assert (state(worker), rig.signals()) == ("idle", []), "its log is on its way"
    rig.send(LogComplete(worker_id="i-1", attempt_id="b-1"))
    assert (state(worker), rig.signals()) == ("shutdown", [("s-1", "TERM")])
    assert rig.asked(DestroyInstance) == []
    rig.end(worker, "s-1")
    assert len(rig.asked(DestroyInstance)) == 1


def test_a_worker_with_residents_only_is_drained_at_once() -> None:
    rig, worker = idle_rig()
    rig.behave(worker, IdleBehavior.DRAIN)
    assert (state(worker), rig.signals()) == ("shutdown", [("s-1", "TERM")])


def test_the_residents_of_a_held_worker_are_left_alone() -> None:
    rig, worker = idle_rig()
    rig.behave(worker, IdleBehavior.HOLD)
    rig.advance(86_400)
    assert (state(worker), rig.signals()) == ("idle", [])


def test_a_resident_that_survives_kill_drains_its_worker_for_which_nobody_waits() -> None:
    rig, worker = busy_rig()
    attempts.kill(rig.core, "s-1", rig.now)
    rig.advance(120 + 3 * 5)
    assert worker.health.verdict == "attempt s-1 survives KILL"
    assert state(worker) == "running"
    rig.end(worker, "b-1")
    assert state(worker) == "shutdown"
    assert len(rig.asked(DestroyInstance)) == 1, "it would be waited for in vain"


def test_a_worker_that_complains_drains_in_spite_of_residents() -> None:
    rig, worker = idle_rig()
    rig.send(BrokenReported(worker_id="i-1", message="disk"))
    assert (state(worker), rig.signals()) == ("shutdown", [("s-1", "TERM")])
    rig.send(BrokenReported(worker_id="i-1", message="disk and memory"))
    assert (state(worker), worker.link.session_up) == ("shutdown", True)


def test_held_and_broken_is_a_leak_although_a_resident_runs_there() -> None:
    rig, worker = busy_rig()
    rig.behave(worker, IdleBehavior.HOLD)
    rig.send(BrokenReported(worker_id="i-1", message="disk"))
    assert find_leaks(rig.core, rig.now) == []
    rig.end(worker, "b-1")
    assert [leak.kind for leak in find_leaks(rig.core, rig.now)] == [LeakKind.BROKEN_HELD]


@pytest.mark.parametrize(("resident", "told"), [(True, 0), (False, 1)])
def test_overload_is_no_matter_of_how_much_runs_beside_residents(
    *, resident: bool, told: int
) -> None:
    rig = PoolRig()
    worker = rig.boot("i-1")
    rig.place(worker, "a-1", resident=resident)
    rig.silent.add(StartAttempt)
    rig.place(worker, "b-1")
    start = rig.asked(StartAttempt)[-1]
    refused = StartRefused(
        op_id=start.op_id,
        worker_id="i-1",
        attempt_id="b-1",
        code="overloaded",
        message="too much",
    )
    rig.send(refused)
    assert len(rig.asked(RunnerOverloaded)) == told
    assert worker.health.overloaded_until == rig.now + 60


# ---- after a crash ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resident", "running"),
    [(True, "idle"), (False, "running")],
)
def test_what_an_earlier_process_started_is_found_as_it_was(
    *, resident: bool, running: str
) -> None:
    rig = PoolRig(expected=(earlier("a-1", resident=resident),))
    worker = rig.boot("i-1", running=("a-1",))
    assert (state(worker), worker.link.session_up) == (running, True)
    assert worker.load.free == rig.type.allocatable.minus(ONE_CPU)
    assert rig.core.attempts["a-1"].phase == Running()


def test_an_earlier_resident_beside_batch_work_is_found_on_a_busy_worker() -> None:
    rig = PoolRig(expected=(earlier("b-1", resident=False), earlier("s-1", resident=True)))
    worker = rig.boot("i-1", running=("b-1", "s-1"))
    assert (state(worker), worker.load.busy_with, worker.load.resident) == ("running", 1, {"s-1"})


def test_a_new_process_goes_on_by_the_idle_rules_with_what_was_shutting_down() -> None:
    rig = PoolRig(expected=(earlier("s-1", resident=True),))
    worker = rig.boot("i-1", running=("s-1",))
    rig.advance(IDLE_TIMEOUT_S)
    assert (state(worker), rig.signals()) == ("shutdown", [("s-1", "TERM")])
    rig.end(worker, "s-1")
    assert len(rig.asked(DestroyInstance)) == 1


def test_a_stray_keeps_its_worker_busy_and_a_resident_beside_it_does_not() -> None:
    rig = PoolRig(expected=(earlier("s-1", resident=True),))
    worker = rig.boot("i-1", running=("s-1", "x-1"))
    assert (state(worker), worker.load.busy_with) == ("running", 1)
    assert rig.signals()[0] == ("x-1", "TERM")
    rig.exit(worker, "x-1")
    assert (state(worker), worker.load.busy_with) == ("idle", 0)


def test_a_found_worker_whose_boot_probe_fails_is_not_busy_with_residents() -> None:
    rig = PoolRig(expected=(earlier("s-1", resident=True),))
    rig.silent.add(Probe)
    worker = rig.boot("i-1", running=("s-1",))
    rig.send(rig.probe_answer(rig.asked(Probe)[0], boot_error="no disk"))
    assert (state(worker), worker.load.last_busy) == ("unknown", 0.0)


def test_what_is_resident_must_add_up() -> None:
    rig, worker = idle_rig()
    worker.load.resident.clear()
    with pytest.raises(BugError, match="idle with attempts"):
        rig.settle()
    worker.load.resident.add("s-1")
    rig.core.attempts["s-1"].resident = False
    with pytest.raises(BugError, match="its residents do not add up"):
        rig.settle()


def test_who_waits_without_end_is_found() -> None:
    rig, _ = idle_rig()
    rig.advance(IDLE_TIMEOUT_S)
    rig.core.timers.clear(TimerKind.DISMISSAL, "i-1")
    with pytest.raises(BugError, match="without end"):
        rig.settle()
