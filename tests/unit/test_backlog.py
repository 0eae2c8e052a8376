"""Instances on which too much waits to be released, since logs cannot be kept here."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.explain.explanation import explain
from longshore.pool.messages import AttemptExited, LogComplete
from longshore.pool.model import MOST_UNRELEASED, AttemptExit, AttemptReport, ExitKind
from longshore.pool.remote.wire import LineSplitter
from longshore.pool.runner import wire
from tests.rigs.engine import Rig
from tests.rigs.per_instance_jobs import DaemonRig, daemon
from tests.samples import make_container, make_type

CODE_0 = AttemptExit(kind=ExitKind.EXITED, code=0, stdout_bytes=7)


def end_without_its_log(rig: Rig, attempt_id: str) -> None:
    worker_id = rig.attempts[attempt_id].instance_id
    report = AttemptReport(attempt_id=attempt_id, container_id="", exit=CODE_0)
    rig.on_instance[worker_id][attempt_id] = report
    rig.send(AttemptExited(worker_id=worker_id, attempt_id=attempt_id, exit=CODE_0))


def fates(rig: Rig, container_id: str) -> list[str]:
    found = explain(rig.view, rig.containers[container_id], rig.now).waiting
    assert found is not None
    return [fate.cause for fate in found.instances.fates]


def test_an_instance_with_too_much_to_release_gets_no_new_work_until_it_has_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that an instance knows of must fit one line, or no probe succeeds any more."""
    monkeypatch.setattr("longshore.pool.model.MOST_UNRELEASED", 3)
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(*[make_container(number) for number in range(1, 7)])
    rig.advance(30)
    for number in range(1, 5):
        assert rig.states()[f"c-{number}"] == "running"
        end_without_its_log(rig, f"c-{number}-1")
    assert rig.states()["c-5"] == "queued"
    assert fates(rig, "c-5") == ["backlogged"]
    rig.advance(60)
    assert rig.states()["c-5"] == "queued"
    rig.send(LogComplete(worker_id="i-001", attempt_id="c-1-1"))
    assert rig.states()["c-5"] == "running"
    assert fates(rig, "c-6") == ["exhausted"]


def test_a_daemon_is_not_started_again_where_too_much_waits_to_be_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("longshore.pool.model.MOST_UNRELEASED", 1)
    rig = DaemonRig(make_type(1))
    rig.join()
    rig.submit_daemon(daemon())
    for _ in range(2):
        end_without_its_log(rig, rig.of_job("j-1")[0].attempts[-1].id)
        rig.advance(60)
    waiting = rig.of_job("j-1")[0]
    assert (waiting.has_open_attempt, fates(rig, waiting.id)) == (False, ["backlogged"])
    rig.send(LogComplete(worker_id="i-001", attempt_id=waiting.attempts[0].id))
    rig.advance(60)
    assert rig.of_job("j-1")[0].has_open_attempt


def test_all_that_may_wait_to_be_released_fits_one_line_with_what_ran_beside_it() -> None:
    how = {
        "kind": "engine_failure",
        "code": None,
        "message": "x" * 500,
        "started_at": 1795442400.1234567,
        "finished_at": 1795442410.1234567,
        "stdout_bytes": 2**53,
        "stderr_bytes": 2**53,
    }
    told = [
        {"attempt_id": f"c-m021n7ss{n:06}-1", "container_id": f"c-m021n7ss{n:06}", "exit": how}
        for n in range(MOST_UNRELEASED + SchedulerSettings().max_containers_per_instance)
    ]
    line = wire.encode({"type": "hello", "attempts": told})
    assert LineSplitter().feed(line) == [line.rstrip(b"\n")]
