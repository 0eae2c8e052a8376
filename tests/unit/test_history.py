"""The history of decisions: what counts as another reason, and that memory is bounded."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Constraints,
    Container,
    ContainerState,
    WaitReason,
)
from longshore.dispatcher.domain.messages import (
    JobCancelRequested,
    JobHoldRequested,
    JobPriorityRequested,
    PriorityRequested,
    PublishContainer,
)
from longshore.dispatcher.scheduler.placement.wait_reasons import (
    CREATES,
    TOKENS,
    behind,
    full,
    why_held,
)
from longshore.dispatcher.state import history
from longshore.dispatcher.state.history import MOST_CHANGES, MOST_EVENTS, History, HistoryEvent
from longshore.dispatcher.state.queue import ClassKey
from longshore.drivers.interface import Resources
from longshore.pool.holds import CreateBlock, CreateBlockKind
from tests.samples import make_container


def key(number: int = 1) -> ClassKey:
    return ClassKey(resources=Resources(cpu_millis=number), constraints=Constraints())


def create_block(topic: str, *, until: float) -> CreateBlock:
    return CreateBlock(
        kind=CreateBlockKind.OTHER,
        message=f"{topic} until {until}",
        until=until,
        covers=frozenset(),
        everywhere=True,
        topic=topic,
    )


def told(kept: History, container: Container) -> list[HistoryEvent]:
    return kept.of(container, key(), began_at=0.0, now=1000.0)


def test_a_reason_is_kept_when_it_becomes_another_and_not_when_a_number_in_it_does() -> None:
    kept = History()
    short = [create_block("capacity", until=until) for until in (9.0, 19.0)]
    other = create_block("rate_limit", until=9.0)
    for at, reason in (
        (1.0, behind("c-1", full(3))),
        (2.0, behind("c-2", full(4))),
        (3.0, behind("c-2", why_held([short[0]])[0])),
        (3.5, behind("c-2", why_held([other])[0])),
        (4.0, full(4)),
        (5.0, full(5)),
        (6.0, why_held([short[0]])[0]),
        (7.0, why_held([short[1]])[0]),
        (8.0, why_held([other])[0]),
        (9.0, CREATES),
        (10.0, TOKENS),
    ):
        kept.waits({key(): reason}, at)
    found = told(kept, make_container(1))[1:]
    assert [(each.at, each.kind) for each in found] == [
        (1.0, "behind"),
        (3.0, "behind"),
        (3.5, "behind"),
        (4.0, "at_quota"),
        (6.0, "creates_held"),
        (8.0, "creates_held"),
        (9.0, "creating"),
        (10.0, "creating"),
    ]
    assert [each.behind for each in found[:3]] == ["c-1", "c-2", "c-2"]


def test_a_reason_that_ended_before_a_container_came_is_not_its_reason() -> None:
    kept = History()
    kept.waits({key(): WaitReason(code="at_quota", message="full")}, 1.0)
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
        kept.waits({key(): WaitReason(code=code, message="waits")}, float(number))
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
        kept.waits({key(number): WaitReason(code="at_quota", message="full")}, float(number))
    kinds = [[each.kind for each in told(kept, make_container(n))] for n in (1, 2, 3)]
    assert kinds == [["submitted"], ["submitted", "priority"], ["submitted", "priority"]]


def test_all_of_it_stays_within_its_bytes_whatever_the_sentences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "MOST_BYTES", 40_000)
    kept = History()
    for number in range(200):
        reason = WaitReason(code=f"code-{number}", message="x" * (10 * number))
        kept.waits({key(number): reason, key(): reason}, float(number))
        kept.asked(PriorityRequested(container_id=f"c-{number}", priority=1), 1.0)
        assert 0 < kept.size_bytes <= 80_000
    found = told(kept, make_container(1))
    assert found[-1].at == 199.0
    assert len(found) < 1 + MOST_CHANGES


def test_who_only_waits_costs_nothing_and_an_unlock_follows_only_a_lock() -> None:
    kept = History()
    waits = make_container(1)
    locked = replace(waits, state=ContainerState.LOCKED)
    for number, container in enumerate((waits, locked, waits, waits)):
        kept.published([PublishContainer(container=container)], float(number))
    assert [each.kind for each in told(kept, waits)] == ["submitted", "locked", "unlocked"]
    others = [PublishContainer(container=make_container(n)) for n in range(100, 200)]
    kept.published(others, 9.0)
    assert len(kept._events) == 1


def test_what_has_a_place_does_not_wait_for_what_its_class_waits_for() -> None:
    kept = History()
    waits = replace(make_container(1), created_at=1.0)
    kept.waits({key(): WaitReason(code="creating", message="being created")}, 2.0)
    kept.published([PublishContainer(container=replace(waits, state=ContainerState.LOCKED))], 3.0)
    kept.waits({key(): WaitReason(code="at_capacity", message="none left")}, 4.0)
    kept.published([PublishContainer(container=waits)], 5.0)
    kept.waits({key(): WaitReason(code="at_quota", message="full")}, 6.0)
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
    kept.waits({key(): WaitReason(code="at_quota", message="full")}, 5.0)
    kinds = [each.kind for each in told(kept, again)]
    assert kinds == ["submitted", "locked", "placed", "ended", "at_quota"]


def test_what_was_asked_of_a_job_stands_in_the_history_of_all_that_lived_then() -> None:
    kept = History()
    old = replace(make_container(1), created_at=1.0, finished_at=2.5, job_id="j-1")
    waits = replace(make_container(2), created_at=1.0, job_id="j-1")
    kept.waits({key(): WaitReason(code="at_quota", message="full")}, 1.5)
    kept.asked(JobPriorityRequested(job_id="j-1", priority=7), 2.0)
    kept.asked(JobHoldRequested(job_id="j-1", held=True), 3.0)
    kept.waits({key(): WaitReason(code="creating", message="being created")}, 4.0)
    kept.asked(JobHoldRequested(job_id="j-1", held=False), 5.0)
    kept.asked(JobPriorityRequested(job_id="j-1", priority=0), 6.0)
    kept.asked(JobCancelRequested(job_id="j-1"), 7.0)
    kept.asked(JobCancelRequested(job_id="j-2"), 8.0)
    assert [(each.at, each.kind) for each in told(kept, waits)] == [
        (1.0, "submitted"),
        (1.5, "at_quota"),
        (2.0, "priority"),
        (3.0, "job_held"),
        (5.0, "job_released"),
        (5.0, "creating"),
        (6.0, "held"),
        (7.0, "cancel"),
    ]
    ended = replace(old, state=ContainerState.CANCELLED)
    kinds = [each.kind for each in told(kept, ended)]
    assert kinds == ["submitted", "priority", "cancelled"], "none of what came later"
    later = replace(make_container(3), created_at=6.5, job_id="j-1")
    assert [each.kind for each in told(kept, later)] == ["submitted", "creating", "cancel"]


def test_what_was_asked_of_jobs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_JOBS", 2)
    kept = History()
    for number in (1, 2, 3):
        kept.asked(JobCancelRequested(job_id=f"j-{number}"), float(number))
    of = [replace(make_container(n), job_id=f"j-{n}") for n in (1, 2, 3)]
    kinds = [[each.kind for each in told(kept, container)] for container in of]
    assert kinds == [["submitted"], ["submitted", "cancel"], ["submitted", "cancel"]]
    assert kept.size_bytes > 2 * 500
