"""Spare cpus through the engine: who runs shares what nobody has reserved, at once."""

from __future__ import annotations

from dataclasses import replace

from longshore.drivers.interface import Resources
from longshore.pool.messages import SessionLost, StartAttempt, UpdateLimits
from tests.rigs.elastic_jobs import attempt_of, elastic, essential, rig_of, submit
from tests.rigs.engine import Rig, last_commands
from tests.samples import GIB, make_container


def limits(rig: Rig) -> dict[str, int]:
    """Return what each attempt may use, as it was last told."""
    return {each.attempt_id: each.cpu_millis for each in last_commands(rig, UpdateLimits)}


def begin(rig: Rig, job: int) -> None:
    """Submit a job with one container of two cores; it is seen to run a moment later."""
    rig.silent.add(StartAttempt)
    submit(rig, job, essential(1, cpus=2))
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    rig.settle()


def test_two_with_two_cores_on_eight_have_four_each_and_the_other_eight_when_one_ends() -> None:
    rig = rig_of(8)
    begin(rig, 1)
    assert limits(rig) == {"c-1000-1": 8000}
    begin(rig, 2)
    assert limits(rig) == {"c-1000-1": 4000, "c-2000-1": 4000}
    rig.exit(attempt_of(rig, 1000))
    assert limits(rig)["c-2000-1"] == 8000


def test_whoever_is_lowered_is_told_before_whoever_is_raised() -> None:
    rig = rig_of(8)
    begin(rig, 1)
    begin(rig, 2)
    told = [(each.attempt_id, each.cpu_millis) for each in last_commands(rig, UpdateLimits)]
    assert told == [
        ("c-1000-1", 8000),
        ("c-1000-1", 6000),  # the other has its place, and does not run yet
        ("c-1000-1", 4000),
        ("c-2000-1", 4000),
    ]


def test_what_batch_work_reserves_is_taken_from_the_shares_at_once() -> None:
    rig = rig_of(8)
    submit(rig, 1, essential(1, cpus=2))
    rig.submit(make_container(1, cpus=3))
    assert limits(rig) == {"c-1000-1": 5000}
    rig.exit("c-1-1")
    assert limits(rig) == {"c-1000-1": 8000}


def test_batch_work_gets_what_it_reserves_before_it_is_seen_to_run() -> None:
    rig = rig_of(8)
    begin(rig, 1)
    rig.submit(make_container(9, cpus=3))
    assert limits(rig) == {"c-1000-1": 5000}


def test_a_container_that_has_been_placed_and_does_not_run_yet_is_told_nothing() -> None:
    rig = rig_of(8)
    submit(rig, 1, essential(1, cpus=2))
    rig.silent.add(StartAttempt)
    submit(rig, 2, essential(1, cpus=2))
    assert limits(rig) == {"c-1000-1": 6000}


def test_a_new_session_is_told_all_again_and_one_that_is_lost_nothing() -> None:
    rig = rig_of(8)
    submit(rig, 1, essential(1, cpus=2), elastic(1, cpus=2))
    before = len(last_commands(rig, UpdateLimits))
    rig.advance(1)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(20)
    again = last_commands(rig, UpdateLimits)[before:]
    assert {each.attempt_id: each.cpu_millis for each in again} == limits(rig)
    assert len(again) == 2


def test_a_restart_tells_all_again() -> None:
    rig = rig_of(8)
    submit(rig, 1, essential(2, cpus=2))
    rig.crash()
    rig.advance(5)
    assert limits(rig) == {"c-1000-1": 4000, "c-1001-1": 4000}


def test_containers_with_gpus_keep_what_they_asked_for() -> None:
    rig = rig_of(8)
    type_ = rig.types["t8"]
    room = replace(type_.resources, gpus=1)
    rig = Rig(replace(type_, resources=room))
    both = essential(1, "gpu", cpus=2), essential(1, "cpu", cpus=2)
    wants = Resources(cpu_millis=2000, memory_bytes=2 * GIB, gpus=1)
    with_gpu = replace(both[0], spec=replace(both[0].spec, resources=wants))
    submit(rig, 1, with_gpu, both[1])
    assert limits(rig) == {"c-1001-1": 6000}


def test_batch_containers_are_never_told() -> None:
    rig = rig_of(8)
    rig.submit(make_container(1, cpus=2))
    assert last_commands(rig, UpdateLimits) == []
