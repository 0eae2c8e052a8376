"""The history of decisions: what counts as another reason, and that memory is bounded."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from dispatcher import history
from dispatcher.history import MOST_CHANGES, MOST_EVENTS, Happening, History
from dispatcher.messages import PriorityRequested, PublishContainer
from dispatcher.model import (
    Attempt,
    AttemptOutcome,
    Constraints,
    Container,
    ContainerState,
    Reason,
)
from dispatcher.queue import ClassKey
from drivers.interface import Resources
from tests.samples import make_container


def key(number: int = 1) -> ClassKey:
    return ClassKey(resources=Resources(cpu_millis=number), constraints=Constraints())


def told(kept: History, container: Container) -> list[Happening]:
    return kept.of(container, key(), began_at=0.0)


def test_a_reason_is_kept_when_it_becomes_another_and_not_when_a_number_in_it_does() -> None:
    kept = History()
    for at, code, message in (
        (1.0, "behind", "behind c-1x, which is next in line"),
        (2.0, "behind", "behind c-2y, which is next in line"),
        (3.0, "behind", "behind c-3, which is something else"),
        (4.0, "at_quota", "behind c-3, which is something else"),
    ):
        kept.waits({key(): Reason(code=code, message=message)}, at)
    found = told(kept, make_container(1))[1:]
    assert [(each.at, each.kind) for each in found] == [
        (1.0, "behind"),
        (3.0, "behind"),
        (4.0, "at_quota"),
    ]


def test_a_reason_that_ended_before_a_container_came_is_not_its_reason() -> None:
    kept = History()
    kept.waits({key(): Reason(code="at_quota", message="full")}, 1.0)
    kept.waits({}, 2.0)
    early, late = (
        replace(make_container(1), created_at=1.5),
        replace(make_container(2), created_at=3),
    )
    assert [each.kind for each in told(kept, early)] == ["submitted", "at_quota"]
    assert [each.kind for each in told(kept, late)] == ["submitted"]


def test_the_reasons_of_a_class_and_the_events_of_a_container_are_bounded() -> None:
    kept = History()
    for number in range(3 * MOST_CHANGES):
        code = f"code-{'ab'[number % 2]}"
        kept.waits({key(): Reason(code=code, message="waits")}, float(number))
    assert len(told(kept, make_container(1))) == 1 + MOST_CHANGES
    for number in range(3 * MOST_EVENTS):
        kept.asked(PriorityRequested(container_id="c-2", priority=number), float(number))
    events = [each for each in told(kept, make_container(2)) if each.kind == "priority"]
    assert len(events) == MOST_EVENTS
    assert events[-1].message == f"its priority was set to {3 * MOST_EVENTS - 1}"


def test_what_was_least_recently_new_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_CONTAINERS", 2)
    monkeypatch.setattr(history, "MOST_CLASSES", 2)
    kept = History()
    for number in (1, 2, 3):
        kept.asked(PriorityRequested(container_id=f"c-{number}", priority=1), 1.0)
        kept.waits({key(number): Reason(code="at_quota", message="full")}, float(number))
    kinds = [[each.kind for each in told(kept, make_container(n))] for n in (1, 2, 3)]
    assert kinds == [["submitted"], ["submitted", "priority"], ["submitted", "priority"]]


def test_who_only_waits_costs_nothing_and_an_unlock_follows_only_a_lock() -> None:
    kept = History()
    waits = make_container(1)
    locked = replace(waits, state=ContainerState.LOCKED)
    for number, container in enumerate((waits, locked, waits, waits)):
        kept.published([PublishContainer(container=container)], float(number))
    assert [each.kind for each in told(kept, waits)] == ["submitted", "locked", "unlocked"]
    others = [PublishContainer(container=make_container(n)) for n in range(100, 200)]
    kept.published(others, 9.0)
    assert list(kept._events) == ["c-1"]


def test_what_has_a_place_does_not_wait_for_what_its_class_waits_for() -> None:
    kept = History()
    waits = replace(make_container(1), created_at=1.0)
    kept.waits({key(): Reason(code="creating", message="being created")}, 2.0)
    kept.published([PublishContainer(container=replace(waits, state=ContainerState.LOCKED))], 3.0)
    kept.waits({key(): Reason(code="at_capacity", message="none left")}, 4.0)
    kept.published([PublishContainer(container=waits)], 5.0)
    kept.waits({key(): Reason(code="at_quota", message="full")}, 6.0)
    kinds = [each.kind for each in told(kept, waits)]
    assert kinds == ["submitted", "creating", "locked", "unlocked", "at_capacity", "at_quota"]


def test_who_was_locked_before_a_lost_attempt_waits_again_after_it() -> None:
    kept = History()
    waits = replace(make_container(1), created_at=1.0)
    kept.published([PublishContainer(container=replace(waits, state=ContainerState.LOCKED))], 2.0)
    lost = Attempt(
        id="c-1-1",
        container_id="c-1",
        number=1,
        instance_id="i-1",
        instance_type="t1",
        price_usd_per_hour=Decimal(1),
        created_at=3.0,
        finished_at=4.0,
        outcome=AttemptOutcome.LOST,
    )
    again = replace(waits, attempts=(lost,))
    kept.published([PublishContainer(container=again)], 4.0)
    kept.waits({key(): Reason(code="at_quota", message="full")}, 5.0)
    kinds = [each.kind for each in told(kept, again)]
    assert kinds == ["submitted", "locked", "placed", "ended", "at_quota"]
