"""What guards a new start: what an earlier process journalled, and what it could not."""

from __future__ import annotations

from dispatcher.messages import BehaviorRequested, PublishInstance, Woken
from dispatcher.model import SchedulerSettings
from drivers.errors import CapacityError
from pool.messages import (
    AttemptExited,
    CreateInstance,
    ListInstances,
    Probe,
    SetTags,
    StartAttempt,
)
from pool.model import AttemptExit, AttemptReport, ExitKind, IdleBehavior, Worker
from tests.engine_rig import CommandKind, Rig, last_commands
from tests.samples import make_container, make_type

SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)


def count(rig: Rig, kind: type[CommandKind]) -> int:
    return len(last_commands(rig, kind))


def worker_of(rig: Rig, worker_id: str = "i-001") -> Worker:
    return rig.engine.pool.workers[worker_id]


def started(rig: Rig) -> Rig:
    """Submit container 1, which runs on i-001 then."""
    rig.submit(make_container(1))
    assert rig.states()["c-1"] == "running"
    return rig


def test_an_instance_keeps_its_age_and_what_is_gone_leaves_no_key() -> None:
    rig = started(Rig())
    created_at = rig.instances["i-001"].created_at
    rig.advance(500)
    rig.crash()
    rig.exit("c-1-1")
    assert rig.instances["i-001"].created_at == created_at
    del rig.cloud["i-001"]
    rig.advance(61)
    assert rig.engine.pool.pinned_keys == {}


def test_an_instance_is_on_record_before_it_was_ever_reached() -> None:
    rig = Rig()
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    assert rig.instances["i-001"].host_key == ""


def test_what_may_run_on_an_unprobed_worker_keeps_its_room() -> None:
    rig = started(Rig())
    rig.silent.add(Probe)
    rig.crash()
    rig.submit(make_container(2))
    assert count(rig, CreateInstance) == 1


def test_a_start_whose_answer_a_crash_swallowed_is_found_running() -> None:
    rig = Rig()
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.silent.discard(StartAttempt)
    rig.on_instance["i-001"]["c-1-1"] = AttemptReport(attempt_id="c-1-1", container_id="c-1")
    rig.crash()
    assert rig.states() == {"c-1": "running"}
    assert count(rig, StartAttempt) == 0


def test_a_claim_without_a_place_is_given_up_after_a_crash() -> None:
    rig = Rig(settings=SchedulerSettings(max_instances=1))
    rig.silent.add(Probe)
    rig.submit(make_container(1), make_container(2))
    assert rig.states() == {"c-1": "locked", "c-2": "queued"}
    rig.advance(20)
    rig.cloud.clear()
    rig.create_error = lambda _command: CapacityError("none")
    rig.crash()
    assert rig.states() == {"c-1": "queued", "c-2": "queued"}


def test_a_log_that_a_crash_interrupted_is_noted_when_it_is_complete() -> None:
    rig = started(Rig())
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=SUCCESS))
    rig.crash()
    rig.exit("c-1-1")
    assert rig.attempts["c-1-1"].log_complete
    assert worker_of(rig).unreleased == set()


def test_a_removed_type_stops_nothing_that_runs() -> None:
    rig = started(Rig())
    rig.types = {"t2": make_type(2)}
    rig.crash()
    rig.exit("c-1-1")
    assert rig.states() == {"c-1": "succeeded"}


def test_no_pass_before_the_first_listing_and_none_when_nothing_changed() -> None:
    rig = Rig(listed=False)
    rig.submit(make_container(1))
    assert rig.engine.handle(Woken(), rig.now) == []
    rig.list_now(last_commands(rig, ListInstances)[-1].op_id)
    rig.settle()
    passes = rig.engine.placing.passes
    assert rig.engine.handle(Woken(), rig.now) == []
    assert rig.engine.placing.passes == passes


def test_a_wish_that_changes_nothing_writes_nothing_to_the_store() -> None:
    rig = started(Rig())
    event = BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD)
    kinds = [type(command) for command in rig.engine.handle(event, rig.now)]
    assert kinds == [SetTags, PublishInstance]
