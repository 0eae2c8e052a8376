"""What the engine takes from an instance that lies, or is of no use: nothing that harms others."""

from __future__ import annotations

from longshore.pool.holds import HoldCause
from longshore.pool.messages import (
    AttemptExited,
    CreateInstance,
    LogComplete,
    Probe,
    ProbeSucceeded,
    SessionLost,
    StartAttempt,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, ProbeReport
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)


def two_running() -> Rig:
    """Return a rig with container 1 on i-001 and container 2 on i-002."""
    rig = Rig(make_type(1))
    rig.submit(make_container(1), make_container(2))
    assert rig.started_on() == {"c-1": "i-001", "c-2": "i-002"}
    return rig


def test_an_instance_cannot_end_an_attempt_of_another() -> None:
    rig = two_running()
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-2-1", exit=SUCCESS))
    rig.send(LogComplete(worker_id="i-001", attempt_id="c-2-1"))
    assert rig.states() == {"c-1": "running", "c-2": "running"}
    rig.on_instance["i-001"]["c-2-1"] = AttemptReport(
        attempt_id="c-2-1", container_id="c-2", exit=SUCCESS
    )
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    assert rig.states()["c-2"] == "running"
    assert rig.worker_states()["i-002"] == "running"


def test_an_instance_cannot_hold_room_with_an_attempt_of_another() -> None:
    rig = two_running()
    rig.on_instance["i-001"]["c-2-1"] = AttemptReport(attempt_id="c-2-1", container_id="c-2")
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.exit("c-2-1")
    assert rig.states()["c-2"] == "succeeded"
    assert rig.attempts["c-2-1"].instance_id == "i-002"


def test_an_instance_cannot_take_the_name_of_an_attempt_to_come() -> None:
    rig = two_running()
    rig.on_instance["i-001"]["c-2-2"] = AttemptReport(attempt_id="c-2-2", container_id="c-2")
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.exit("c-2-1", 0, ExitKind.LOST)
    rig.advance(1)
    assert last_commands(rig, StartAttempt)[-1].order.attempt_id == "c-2-2"
    assert rig.states()["c-2"] == "running"


def test_probes_name_the_attempts_whose_logs_may_be_kept() -> None:
    rig = two_running()
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    assert last_commands(rig, Probe)[-1].expected == ("c-1-1",)


def test_instances_of_no_use_are_not_bought_and_destroyed_without_end() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    for _ in range(600):
        for probe in last_commands(rig, Probe):
            worker = rig.engine.pool.workers.get(probe.worker_id)
            if worker is not None and worker.link.probe_op == probe.op_id:
                report = ProbeReport(attempts=(), boot_id="b", broken="no container engine")
                rig.send(
                    ProbeSucceeded(
                        op_id=probe.op_id,
                        worker_id=probe.worker_id,
                        revision=probe.revision,
                        began_at=rig.now,
                        host_key="k",
                        report=report,
                    )
                )
        rig.advance(1)
    created = len(last_commands(rig, CreateInstance))
    assert created <= 12, "ten minutes: one more each time the growing hold ends"
    assert rig.engine.pool.boot_failures == created
    hold = rig.engine.pool.holds.of(HoldCause.BOOT_FAILURE, rig.now)
    assert hold is not None
    assert "no container engine" in hold.reason
    rig.silent.clear()
    rig.advance(900)
    assert rig.states() == {"c-1": "running"}
    assert rig.engine.pool.boot_failures == 0
