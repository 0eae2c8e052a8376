"""What held a container back stands in its history, instead of what its class waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from longshore.dispatcher.domain.containers import Dependency, SchedulerSettings
from longshore.dispatcher.explain.explanation import explain
from longshore.dispatcher.state.history import HistoryEvent
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type


def test_what_held_a_container_back_is_told_instead_of_what_its_class_waited_for() -> None:
    made = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    made.submit(make_container(1, priority=900), replace(make_container(2), created_at=made.now))
    after = (Dependency(of="c-1"),)
    made.submit(replace(make_container(3, after=after), created_at=made.now))
    assert [(each.kind, each.message) for each in told(made, "c-3")[1:]] == [
        ("after", "it waits for c-1 to succeed")
    ], "that its class is at the quota is no matter to it"
    made.advance(30)
    released_at = made.now
    made.exit("c-1-1")
    made.advance(30)
    assert [(each.kind, each.message) for each in told(made, "c-3")[1:3]] == [
        ("after", "it waited for the end of c-1"),
        ("released", "what it waited for, beside room, has ended"),
    ]
    reasons = [each for each in told(made, "c-3")[1:] if each.kind == "at_quota"]
    assert [each.at for each in reasons] == [released_at], "since then it is one of its class"


def test_what_is_not_to_start_yet_is_told_instead_of_what_its_class_waits_for() -> None:
    made = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    made.submit(make_container(1, priority=900), replace(make_container(2), created_at=made.now))
    due = made.now + 60.0
    made.submit(replace(make_container(3, not_before=due), created_at=made.now))
    assert [each.kind for each in told(made, "c-3")] == ["submitted", "not_before"]
    made.advance(61)
    found = [(each.kind, each.at) for each in told(made, "c-3")]
    assert found[2:] == [("at_quota", due)]


def told(made: Rig, container_id: str) -> Sequence[HistoryEvent]:
    return explain(made.view, made.containers[container_id], made.now).history
