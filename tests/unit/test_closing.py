"""The end of an attempt: what it comes to, that it is on record first, and the way to it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome, ContainerState
from longshore.dispatcher.domain.messages import SaveAttempt, SaveContainer
from longshore.dispatcher.state.attempt_end import close
from longshore.drivers.interface import Resources
from longshore.pool import signals
from longshore.pool.model import (
    AttemptExit,
    AttemptPhase,
    ExitKind,
    Finished,
    PoolAttempt,
    Running,
    Starting,
    Stopping,
)
from longshore.pool.pool_events import AttemptEnd, EndKind
from tests.rigs.elastic_jobs import attempt_of, essential, submit
from tests.rigs.engine import Rig
from tests.samples import lost_on, make_container, make_type

EXIT = AttemptExit(kind=ExitKind.EXITED, code=0, started_at=5.0, finished_at=105.0)


def end_of(kind: EndKind, **more: object) -> AttemptEnd:
    """Return the word that the attempt is over."""
    return replace(AttemptEnd(attempt_id="c-1-1", kind=kind), **more)  # type: ignore[arg-type]  # fields of it


@pytest.mark.parametrize(
    ("end", "started_at", "meaning", "finished_at", "never_ran"),
    [
        (end_of(EndKind.EXITED, exit=EXIT), 1001.0, ("succeeded", ""), 1101.0, False),
        (end_of(EndKind.REFUSED), None, ("failed", "start_refused"), 2000.0, True),
        (end_of(EndKind.OVERLOADED), None, ("lost", "overloaded"), 2000.0, True),
        (end_of(EndKind.MISSING), None, ("lost", "never_started"), 2000.0, True),
        (end_of(EndKind.MISSING), 1001.0, ("lost", "lost"), 2000.0, False),
        (end_of(EndKind.INSTANCE_GONE, seen_at=1500.0), None, ("lost", "lost"), 1500.0, False),
        (end_of(EndKind.INSTANCE_GONE, seen_at=9.0), 1001.0, ("lost", "lost"), 1001.0, False),
        (
            end_of(EndKind.MISSING, interrupted=True),
            None,
            ("preempted", "interrupted"),
            2000.0,
            True,
        ),
    ],
)
def test_what_an_end_comes_to_is_told_by_how_it_is_known(
    *,
    end: AttemptEnd,
    started_at: float | None,
    meaning: tuple[str, str],
    finished_at: float,
    never_ran: bool,
) -> None:
    container = lost_on(make_container(1), "i-1")
    attempt = replace(
        container.attempts[0], started_at=started_at, finished_at=None, outcome=None, reason=None
    )
    container = replace(container, state=ContainerState.RUNNING, attempts=(attempt,))
    closed = close(container, end, 2000.0, cost_usd=lambda _, ended_at: Decimal(ended_at))
    assert closed.before is container
    assert closed.container.state is ContainerState.RUNNING, "that is still to be decided"
    done = closed.attempt
    code = done.reason.code if done.reason is not None else ""
    assert (done.outcome, code) == (AttemptOutcome(meaning[0]), meaning[1])
    assert (done.finished_at, closed.never_ran) == (finished_at, never_ran)
    paid_until = 2000.0 if end.seen_at is None else end.seen_at
    assert closed.container.cost_usd == Decimal(paid_until), "it had its place until then"


def test_an_end_is_on_record_before_what_is_decided_from_it_in_one_commit() -> None:
    rig = Rig(make_type(1))
    submit(rig, 1, essential(2))
    failed, other = attempt_of(rig, 1000), attempt_of(rig, 1001)
    rig.store_lags = True
    rig.exit(failed, code=3)
    write, *_ = [each for each in rig.uncommitted if each.changes]
    told = [
        (each.attempt.id, each.attempt.outcome, each.attempt.intended_outcome)
        if isinstance(each, SaveAttempt)
        else (each.container.id, each.container.state, each.container.exit_code)
        for each in write.changes
        if isinstance(each, SaveAttempt | SaveContainer)
    ]
    assert told == [
        (failed, AttemptOutcome.FAILED, None),
        (other, None, AttemptOutcome.CANCELLED),
        ("c-1000", ContainerState.FAILED, 3),
    ]


@pytest.mark.parametrize(
    ("phase", "then", "is_new"),
    [
        (Starting(), Starting(to_end=True), True),
        (Starting(to_end=True), Starting(to_end=True), False),
        (Running(), Stopping(), True),
        (Stopping(since=7.0, kills=1), Stopping(since=7.0, kills=1), False),
        (Finished(), Finished(), False),
    ],
)
def test_what_is_told_to_end_is_told_once_and_only_until_its_end(
    *, phase: AttemptPhase, then: AttemptPhase, is_new: bool
) -> None:
    attempt = PoolAttempt(
        id="a-1", remote_id="a-1", worker_id="i-1", resources=Resources(), phase=phase
    )
    assert signals.tell_to_end(attempt) is is_new
    assert attempt.phase == then
    assert attempt.is_to_end is not attempt.is_finished
