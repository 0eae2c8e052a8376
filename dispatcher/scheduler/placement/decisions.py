"""Carrying out what a scheduler has decided, in the container table first, then in the pool.

Stands alone: schedulers of all kinds decide so, in a pass and once an attempt is over, and users'
requests end attempts in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from longshore.dispatcher.domain.containers import AttemptOutcome, StopReason
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.state.attempt_end import (
    ConcludeJob,
    Decision,
    EndAttempt,
    Finish,
    Requeue,
    is_eviction,
)
from longshore.pool.port import PoolPort


def carry_out(
    decisions: Iterable[Decision], table: ContainerPort, pool: PoolPort, now: float
) -> None:
    """Do what was decided, in order; what is of one event is of one commit."""
    for decided in decisions:
        match decided:
            case Requeue():
                table.requeue(decided.container_id, now, until=decided.until)
            case Finish():
                container = table.containers[decided.container_id]
                exit_code = decided.exit_code
                table.finish(container, decided.state, decided.reason, now, exit_code=exit_code)
            case EndAttempt():
                by, id_ = decided.by, decided.container_id
                end_attempt(table, pool, id_, now, outcome=decided.outcome, by=by)
            case ConcludeJob():
                table.jobs.conclude(decided.job_id, decided.result)
            case unknown:
                assert_never(unknown)


def end_attempt(
    table: ContainerPort,
    pool: PoolPort,
    container_id: str,
    now: float,
    *,
    outcome: AttemptOutcome,
    by: StopReason,
) -> None:
    """Tell the open attempt of a container to end, once it is journalled what that will mean.

    One that others wait for has no longer between TERM and KILL than all have.
    """
    attempt_id = table.mark_stopping(container_id, outcome, by=by)
    if is_eviction(by):
        pool.evict(attempt_id, now)
    else:
        pool.stop(attempt_id, now)
