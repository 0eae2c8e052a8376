"""What the core makes of an instance's word that its cloud takes it back."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome, ContainerState
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.drivers.interface import InstanceType
from longshore.pool.messages import InterruptionNoticed, SessionLost
from longshore.pool.model import ExitKind, IdleBehavior, WorkerState
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type

AT = "2026-01-31T23:59:59Z"
SPOT = make_type(2, name="spot", preemptible=True)
STEADY = make_type(2, name="steady", price="9")


def running(type_: InstanceType = SPOT) -> tuple[Rig, str]:
    """Return a rig on which c-1 runs, and where."""
    rig = Rig(type_)
    rig.submit(make_container(1))
    rig.advance(30)
    return rig, rig.started_on()["c-1"]


def notice(rig: Rig, worker_id: str) -> None:
    rig.send(InterruptionNoticed(worker_id=worker_id, at=AT))
    rig.settle()


def outcomes(rig: Rig, container_id: str = "c-1") -> list[AttemptOutcome | None]:
    return [each.outcome for each in rig.containers[container_id].attempts]


def test_an_instance_that_is_taken_back_gets_no_new_work_and_what_runs_goes_on() -> None:
    rig, worker_id = running()
    notice(rig, worker_id)
    rig.submit(make_container(2))
    rig.advance(30)
    assert rig.started_on()["c-2"] != worker_id
    assert rig.engine.pool.workers[worker_id].state is WorkerState.RUNNING
    rig.exit("c-1-1")
    rig.advance(1)
    assert rig.containers["c-1"].state is ContainerState.SUCCEEDED
    assert worker_id not in rig.cloud
    assert rig.engine.pool.statistics.interruptions == 1


def test_what_is_lost_with_it_was_preempted_and_runs_again() -> None:
    rig, worker_id = running()
    notice(rig, worker_id)
    del rig.cloud[worker_id]
    rig.advance(90)
    assert outcomes(rig)[0] is AttemptOutcome.PREEMPTED
    first = rig.containers["c-1"].attempts[0]
    assert first.reason is not None
    assert first.reason.code == "interrupted"
    taken_back = f"the cloud took it back, as it had said that it would at {AT}"
    assert first.reason.message == f"its instance {worker_id} is gone ({taken_back})"
    assert rig.instances[worker_id].gone_reason == taken_back, "found by a stranger"
    assert rig.started_on()["c-1"] != worker_id


@pytest.mark.parametrize(
    ("code", "kind", "outcome"),
    [
        (143, ExitKind.EXITED, AttemptOutcome.PREEMPTED),
        (137, ExitKind.EXITED, AttemptOutcome.PREEMPTED),
        (0, ExitKind.LOST, AttemptOutcome.PREEMPTED),
        (1, ExitKind.EXITED, AttemptOutcome.FAILED),
        (137, ExitKind.OUT_OF_MEMORY, AttemptOutcome.FAILED),
        (0, ExitKind.EXITED, AttemptOutcome.SUCCEEDED),
    ],
)
def test_only_ends_that_the_power_off_explains_are_the_clouds(
    code: int, kind: ExitKind, outcome: AttemptOutcome
) -> None:
    rig, worker_id = running()
    notice(rig, worker_id)
    rig.exit("c-1-1", code=code, kind=kind)
    assert outcomes(rig)[0] is outcome


def test_without_a_word_a_signal_is_the_programs_own_end() -> None:
    rig, _ = running()
    rig.exit("c-1-1", code=143)
    assert outcomes(rig) == [AttemptOutcome.FAILED]


def test_a_type_that_is_not_preemptible_is_not_believed() -> None:
    rig, worker_id = running(STEADY)
    notice(rig, worker_id)
    rig.submit(make_container(2))
    rig.advance(1)
    assert rig.started_on()["c-2"] == worker_id
    rig.exit("c-1-1", code=143)
    assert outcomes(rig) == [AttemptOutcome.FAILED]
    assert rig.engine.pool.statistics.interruptions == 0


def test_a_cancel_stays_a_cancel() -> None:
    rig, worker_id = running()
    notice(rig, worker_id)
    rig.cancel("c-1")
    rig.exit("c-1-1", code=143)
    assert rig.containers["c-1"].state is ContainerState.CANCELLED


def test_a_held_instance_is_left_to_its_admin() -> None:
    rig, worker_id = running()
    rig.send(BehaviorRequested(worker_id=worker_id, behavior=IdleBehavior.HOLD))
    rig.settle()
    notice(rig, worker_id)
    rig.exit("c-1-1")
    rig.advance(3600)
    assert rig.engine.pool.workers[worker_id].state is not WorkerState.SHUTDOWN


def test_a_container_that_is_taken_along_again_and_again_waits_longer_each_time() -> None:
    rig, worker_id = running()
    waits = []
    for number in range(1, 10):
        notice(rig, worker_id)
        ended_at = rig.now
        rig.exit(f"c-1-{number}", code=143)
        for _ in range(400):
            if len(rig.containers["c-1"].attempts) > number:
                break
            rig.advance(0.5)
        rig.advance(5)
        after = rig.containers["c-1"].attempts[-1]
        waits.append(after.created_at - ended_at)
        worker_id = after.instance_id
    assert waits == sorted(waits)
    assert waits[-1] >= 60.0
    assert outcomes(rig)[:-1] == [AttemptOutcome.PREEMPTED] * 9


def test_a_repetition_changes_nothing() -> None:
    rig, worker_id = running()
    notice(rig, worker_id)
    revision = rig.engine.pool.workers[worker_id].link.revision
    notice(rig, worker_id)
    assert rig.engine.pool.workers[worker_id].link.revision == revision
    assert rig.engine.pool.statistics.interruptions == 1


def test_an_instance_that_ends_early_or_silent_is_told_as_taken_back() -> None:
    rig, worker_id = running()
    notice(rig, worker_id)
    rig.exit("c-1-1")
    rig.advance(60)
    drained = f"draining, and nothing runs there: the cloud takes it back at {AT}"
    assert rig.instances[worker_id].gone_reason == drained
    rig, worker_id = running()
    notice(rig, worker_id)
    rig.unreachable.add(worker_id)
    rig.send(SessionLost(worker_id=worker_id, last_contact=rig.now, reason="reset"))
    rig.advance(rig.pool_settings.probe_timeout_s + 60)
    silent = f"no contact for probe_timeout: the cloud takes it back at {AT}"
    assert rig.instances[worker_id].gone_reason == silent
