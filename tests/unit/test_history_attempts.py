"""What a container's history says of attempts without number, and that it costs little."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from types import FrameType
from typing import Any, TypeVar

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    Retries,
    WaitReason,
)
from longshore.dispatcher.domain.messages import PriorityRequested
from longshore.dispatcher.state.history import MOST_ATTEMPTS, History, HistoryEvent
from tests.samples import make_container
from tests.unit.test_history import key

EVERY_S = 15.0
CALLS_PER_ATTEMPT = 20
Value = TypeVar("Value")


def failed(number: int) -> Attempt:
    """Return an attempt that was started 15 s after the one before, and failed a second later."""
    at = EVERY_S * number
    return Attempt(
        id=f"c-1-{number}",
        container_id="c-1",
        number=number,
        instance_id="i-1",
        instance_type="small",
        price_usd_per_hour=Decimal("0.1"),
        created_at=at,
        started_at=at,
        finished_at=at + 1,
        outcome=AttemptOutcome.FAILED,
        exit_code=1,
        reason=Reason(code="exit_code", message="it exited with 1"),
    )


def failing(attempts: int) -> Container:
    """Return a container that is started again for ever."""
    container = make_container(1, retries=Retries(most=10**9, delay_s=EVERY_S))
    tried = tuple(failed(number) for number in range(1, attempts + 1))
    return replace(container, created_at=1.0, attempts=tried)


def told(container: Container, kept: History | None = None) -> list[HistoryEvent]:
    known = kept or History()
    return known.of(container, key(), began_at=0.0, now=EVERY_S * len(container.attempts) + 5)


def within_calls(most: int, work: Callable[[], Value]) -> Value:
    """Return what `work` does, which must call functions at most so often."""
    before, count = sys.getprofile(), 0

    def note(_frame: FrameType, kind: str, _argument: Any) -> None:
        nonlocal count
        count += kind in ("call", "c_call")
        if count > most:
            sys.setprofile(None)
            raise AssertionError(f"more than {most} calls")

    sys.setprofile(note)
    try:
        return work()
    finally:
        sys.setprofile(before)


def test_the_last_attempts_are_told_and_how_many_there_were_before() -> None:
    number = 20_000
    container = failing(number)
    found = within_calls(CALLS_PER_ATTEMPT * number, lambda: told(container))
    assert [each.kind for each in found[:2]] == ["submitted", "earlier"]
    assert found[1].message.startswith(f"{number - MOST_ATTEMPTS} earlier attempts")
    assert [each.kind for each in found[2:]] == [
        "placed",
        "started",
        "ended",
        "restart_delay",
    ] * MOST_ATTEMPTS
    assert found[2].message.startswith(f"attempt {number - MOST_ATTEMPTS + 1} was placed")
    assert f"attempt {number} of 1000000001 exited with 1" in found[-1].message
    assert [each.at for each in found[2:6]] == [found[2].at] * 2 + [found[2].at + 1] * 2


def test_few_attempts_are_all_told() -> None:
    kinds = [each.kind for each in told(failing(MOST_ATTEMPTS))]
    assert "earlier" not in kinds
    assert kinds.count("placed") == MOST_ATTEMPTS
    assert [each.kind for each in told(failing(0))] == ["submitted"]


def test_what_it_waited_for_before_the_attempts_that_are_told_is_left_out() -> None:
    kept = History()
    kept.waits({key(): WaitReason(code="at_quota", message="full")}, 2.0)
    kept.asked(PriorityRequested(container_id="c-1", priority=7), 3.0)
    kinds = [each.kind for each in told(failing(MOST_ATTEMPTS), kept)]
    assert kinds[:4] == ["submitted", "at_quota", "priority", "placed"]
    more = [each.kind for each in told(failing(MOST_ATTEMPTS + 1), kept)]
    assert more[:4] == ["submitted", "priority", "earlier", "placed"]
    assert "at_quota" not in more


def test_after_the_attempts_that_are_told_it_says_how_it_ended() -> None:
    container = failing(2 * MOST_ATTEMPTS)
    last = container.attempts[-1]
    ended = replace(
        container, state=ContainerState.FAILED, exit_code=1, finished_at=last.finished_at
    )
    found = told(ended)
    assert [each.kind for each in found[-2:]] == ["ended", "failed"]
    assert [each.kind for each in found].count("restart_delay") == MOST_ATTEMPTS - 1
