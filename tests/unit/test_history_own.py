"""A container's history leaves out what only others of its class waited for."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import SchedulerSettings, WaitReason
from longshore.dispatcher.domain.messages import PriorityRequested
from longshore.dispatcher.state.history import History
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type
from tests.unit.test_explain import kinds
from tests.unit.test_history import key


def test_nobody_was_behind_what_comes_after_it() -> None:
    rig = Rig(make_type(2), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1, cpus=2, priority=900))
    rig.advance(30)
    rig.submit(replace(make_container(2, cpus=1, priority=800), created_at=rig.now))
    rig.submit(replace(make_container(3, cpus=2, priority=700), created_at=rig.now))
    rig.submit(replace(make_container(4, cpus=2, priority=600), created_at=rig.now))
    assert "behind" in kinds(rig, "c-3")
    rig.advance(10)
    rig.set_priority("c-3", 850)
    assert "behind" not in kinds(rig, "c-3")
    assert "behind" in kinds(rig, "c-4")


def test_what_is_held_back_does_not_wait_for_what_its_class_waits_for() -> None:
    kept = History()
    container = replace(make_container(1), created_at=1.0)
    kept.asked(PriorityRequested(container_id="c-1", priority=0), 2.0)
    kept.waits({key(): WaitReason(code="creating", message="being created")}, 3.0)
    kept.waits({key(): WaitReason(code="at_quota", message="full")}, 4.0)
    kept.asked(PriorityRequested(container_id="c-1", priority=5), 5.0)
    found = [each.kind for each in kept.of(container, key(), began_at=0.0, now=1000.0)]
    assert found == ["submitted", "held", "priority", "at_quota"]
