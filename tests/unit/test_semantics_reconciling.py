"""What the store holds against what runs: every row of SEMANTICS 2.7 and 2.8."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.pool.messages import (
    AttemptExited,
    CreateInstance,
    DestroyInstance,
    Probe,
    SessionLost,
    SignalAttempt,
    StartAttempt,
    StartUnknown,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, PoolSettings
from tests.rigs.engine import last_commands
from tests.rigs.semantics import QUICK, WorkerRig, running, signals
from tests.samples import make_container, make_type


def started(rig: WorkerRig) -> list[str]:
    return [command.order.attempt_id for command in last_commands(rig, StartAttempt)]


def why(rig: WorkerRig, container_id: str = "c-1") -> str:
    reason = rig.engine.why_waiting(container_id)
    return "" if reason is None else f"{reason.code}: {reason.message}"


# ---- 2.7 a process from an earlier attempt that is still alive -----------------------------------


def with_a_lost_attempt(pool: PoolSettings = QUICK) -> WorkerRig:
    """Return a rig whose c-1-1 is lost, since a listing lacked its instance i-001.

    c-1 waits for another instance, which cannot be had.
    """
    settings = SchedulerSettings(max_instances=2)
    rig = WorkerRig(make_type(1), pool=pool, settings=settings)
    rig.submit(make_container(1))
    rig.silent.add(CreateInstance)
    rig.advance(2)
    hidden = rig.cloud.pop("i-001")
    rig.advance(2)
    assert rig.outcome("c-1-1") == "lost"
    assert rig.states() == {"c-1": "locked"}, "it has a place on what is being created"
    rig.cloud["i-001"] = hidden
    return rig


def come_back(rig: WorkerRig) -> None:
    """Let a listing show i-001 again, on which c-1-1 still runs."""
    rig.advance(2)
    assert signals(rig)[:1] == ["TERM"]
    assert last_commands(rig, SignalAttempt)[0].attempt_id == "c-1-1"


def end_process(rig: WorkerRig) -> None:
    how = AttemptExit(kind=ExitKind.EXITED, code=143)
    rig.on_instance["i-001"].pop("c-1-1", None)
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=how))


def test_a_process_from_an_earlier_attempt_is_killed_and_the_container_waits_for_that() -> None:
    rig = with_a_lost_attempt()
    come_back(rig)
    assert rig.states() == {"c-1": "queued"}, "its claim is given up"
    assert why(rig) == (
        "earlier_attempt: an earlier attempt of it, c-1-1, still runs on i-001: it waits "
        "for the end of that"
    )
    rig.boot("t1")
    rig.advance(4)
    assert started(rig) == ["c-1-1"], "there is an idle instance, and it waits all the same"
    end_process(rig)
    assert started(rig) == ["c-1-1", "c-1-2"]
    assert rig.states() == {"c-1": "running"}


def test_others_do_not_wait_for_the_process_of_an_earlier_attempt() -> None:
    rig = with_a_lost_attempt()
    come_back(rig)
    rig.boot("t1")
    rig.advance(2)
    rig.submit(make_container(2))
    assert rig.states() == {"c-1": "queued", "c-2": "running"}


def test_a_container_that_waits_for_an_earlier_process_goes_on_when_its_instance_is_gone() -> None:
    rig = with_a_lost_attempt()
    come_back(rig)
    del rig.cloud["i-001"]
    rig.boot("t1")
    rig.advance(4)
    assert started(rig) == ["c-1-1", "c-1-2"]


def test_a_container_that_waits_for_an_earlier_process_is_cancelled_at_once() -> None:
    rig = with_a_lost_attempt()
    come_back(rig)
    rig.cancel("c-1")
    assert rig.states() == {"c-1": "cancelled"}
    end_process(rig)
    assert started(rig) == ["c-1-1"]


def test_a_container_that_is_held_back_stays_so_when_the_earlier_process_ends() -> None:
    rig = with_a_lost_attempt()
    come_back(rig)
    rig.set_priority("c-1", 0)
    end_process(rig)
    assert rig.states() == {"c-1": "queued"}
    assert started(rig) == ["c-1-1"]
    assert why(rig).startswith("held: ")
    rig.set_priority("c-1", 1)
    assert len(started(rig)) == 2


def test_a_later_attempt_that_runs_already_goes_on_beside_the_earlier_process() -> None:
    rig = with_a_lost_attempt()
    other = rig.boot("t1")
    hidden = rig.cloud.pop("i-001")
    rig.advance(2)
    assert rig.started_on() == {"c-1": other}
    rig.cloud["i-001"] = hidden
    come_back(rig)
    assert rig.states() == {"c-1": "running"}
    assert [s.worker_id for s in last_commands(rig, SignalAttempt)] == ["i-001"]


def test_when_the_later_attempt_ends_its_container_waits_for_the_earlier_process_too() -> None:
    rig = with_a_lost_attempt()
    other = rig.boot("t1")
    hidden = rig.cloud.pop("i-001")
    rig.advance(2)
    rig.cloud["i-001"] = hidden
    come_back(rig)
    rig.exit("c-1-2", 0, ExitKind.LOST)
    assert rig.attempts["c-1-2"].instance_id == other
    assert started(rig) == ["c-1-1", "c-1-2"]
    rig.advance(1)
    assert started(rig) == ["c-1-1", "c-1-2"]
    end_process(rig)
    assert started(rig) == ["c-1-1", "c-1-2", "c-1-3"]


def test_after_a_crash_the_container_waits_for_the_earlier_process_again() -> None:
    rig = with_a_lost_attempt()
    come_back(rig)
    rig.crash()
    assert signals(rig) == ["TERM"]
    assert started(rig) == []
    assert why(rig).startswith("earlier_attempt: ")
    end_process(rig)
    assert started(rig) == ["c-1-2"]


def test_after_a_crash_it_waits_though_its_worker_changed_while_it_was_probed() -> None:
    rig = with_a_lost_attempt()
    come_back(rig)
    rig.silent.add(Probe)
    rig.crash()
    rig.worker("i-001").invalidate_probe()
    rig.probe_now(rig.last(Probe))
    rig.settle()
    assert signals(rig) == ["TERM"]
    assert started(rig) == []


def test_an_instance_cannot_hold_containers_back_that_were_never_placed_there() -> None:
    rig = with_a_lost_attempt()
    del rig.cloud["i-001"]
    stranger = rig.boot("t1")
    rig.run_on(stranger, "c-1-1")
    rig.advance(2)
    assert [s.worker_id for s in last_commands(rig, SignalAttempt)] == [stranger]
    assert started(rig) == ["c-1-1", "c-1-2"]


# ---- 2.8 reconciling -----------------------------------------------------------------------------


def test_running_in_the_store_but_no_process_anywhere_the_attempt_is_lost_and_tried_again() -> None:
    rig = running()
    rig.on_instance["i-001"].clear()
    rig.crash()
    assert rig.outcome("c-1-1") == "lost"
    assert rig.states() == {"c-1": "running"}
    assert started(rig) == ["c-1-2"]


def test_running_in_the_store_but_no_process_anywhere_fails_where_no_loss_is_tried_again() -> None:
    rig = WorkerRig(make_type(1), pool=QUICK)
    rig.submit(make_container(1, retry_lost=False))
    rig.on_instance["i-001"].clear()
    rig.crash()
    assert rig.outcome("c-1-1") == "lost"
    assert rig.states() == {"c-1": "failed"}
    assert started(rig) == []


def test_while_its_worker_is_not_probed_a_running_attempt_is_not_lost() -> None:
    rig = running()
    rig.silent.add(Probe)
    rig.on_instance["i-001"].clear()
    rig.crash()
    rig.advance(60)
    assert rig.outcome("c-1-1") == ""
    assert rig.states() == {"c-1": "running"}
    rig.probe_now(rig.last(Probe))
    assert rig.outcome("c-1-1") == "lost"


def test_running_in_the_store_and_its_instance_is_gone_the_attempt_is_lost() -> None:
    rig = running()
    rig.cloud.clear()
    rig.crash()
    rig.advance(31)
    assert rig.outcome("c-1-1") == "lost"


def test_a_process_without_a_wanting_container_is_killed() -> None:
    rig = WorkerRig(make_type(1), pool=QUICK)
    made = rig.boot("t1")
    rig.run_on(made, "c-77-1")
    rig.advance(2)
    assert signals(rig) == ["TERM"]
    assert rig.worker_states() == {made: "running"}
    rig.advance(QUICK.term_timeout_s + 1)
    assert signals(rig)[-1] == "KILL"


@pytest.mark.parametrize("crash", [False, True])
def test_a_container_that_is_cancelled_with_a_process_is_killed(crash: bool) -> None:
    rig = running()
    if crash:
        rig.silent.add(SignalAttempt)
    rig.cancel("c-1")
    if crash:
        rig.crash()
    assert signals(rig)[0] == "TERM"
    assert rig.states() == {"c-1": "running"}, "its exit is what ends it"
    rig.exit("c-1-1", 143)
    assert rig.states() == {"c-1": "cancelled"}
    assert rig.outcome("c-1-1") == "cancelled"


def test_a_running_process_gone_without_a_recorded_exit_is_lost_when_a_later_list_confirms() -> (
    None
):
    rig = running()
    rig.silent.add(Probe)
    rig.on_instance["i-001"].clear()
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    assert rig.outcome("c-1-1") == "", "no list has said so"
    rig.probe_now(rig.last(Probe))
    assert rig.outcome("c-1-1") == "lost"
    assert rig.attempts["c-1-1"].reason is not None
    assert rig.attempts["c-1-1"].reason.code == "lost"


def unanswered() -> WorkerRig:
    """Return a rig whose start of c-1-1 has no answer: the container is locked."""
    rig = WorkerRig(make_type(1), pool=QUICK)
    rig.silent |= {StartAttempt, DestroyInstance}
    rig.submit(make_container(1))
    assert rig.states() == {"c-1": "locked"}
    return rig


def test_a_locked_process_gone_without_a_recorded_exit_is_queued_again_when_a_list_confirms() -> (
    None
):
    rig = unanswered()
    start = rig.last(StartAttempt)
    rig.silent.add(Probe)
    rig.send(StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="?"))
    rig.advance(3)
    assert rig.states() == {"c-1": "locked"}
    assert rig.outcome("c-1-1") == ""
    rig.probe_now(rig.last(Probe))
    assert rig.attempts["c-1-1"].reason is not None
    assert rig.attempts["c-1-1"].reason.code == "never_started"
    assert rig.published, "it was told"
    rig.settle()
    assert started(rig) == ["c-1-1", "c-1-2"]


def test_a_list_that_began_before_confirms_nothing() -> None:
    rig = unanswered()
    start = rig.last(StartAttempt)
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    early = rig.last(Probe)
    rig.send(StartUnknown(op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="?"))
    rig.probe_now(early)
    assert rig.outcome("c-1-1") == ""


@pytest.mark.parametrize("crash", [False, True])
def test_priority_0_while_running_is_preempted_queued_and_held_back(crash: bool) -> None:
    rig = running()
    rig.set_priority("c-1", 0)
    if crash:
        rig.crash()
    assert signals(rig) == ["TERM"]
    assert rig.states() == {"c-1": "running"}
    rig.exit("c-1-1", 143)
    assert rig.outcome("c-1-1") == "preempted"
    assert rig.states() == {"c-1": "queued"}
    assert why(rig) == "held: held back: its priority is 0"
    rig.advance(30)
    assert started(rig) in (["c-1-1"], []), "it is not started again"
    rig.set_priority("c-1", 1)
    assert started(rig)[-1] == "c-1-2"


def test_a_container_found_on_the_last_unprobed_worker_is_not_unlocked() -> None:
    rig = unanswered()
    rig.silent.add(Probe)
    rig.crash()
    report = AttemptReport(attempt_id="c-1-1", container_id="c-1")
    rig.on_instance["i-001"]["c-1-1"] = report
    rig.advance(5)
    assert rig.states() == {"c-1": "locked"}
    rig.probe_now(rig.last(Probe))
    assert rig.states() == {"c-1": "running"}
    assert started(rig) == []
