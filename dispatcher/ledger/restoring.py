"""How the engine takes up at a start what an earlier process knew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatcher.ledger.endings import is_eviction
from dispatcher.model import Attempt, Container, ContainerState, resources_of
from dispatcher.queries import Recovered
from drivers.interface import Resources
from pool import attempts, launching
from pool.model import AttemptPhase, IdleBehavior, PoolAttempt

if TYPE_CHECKING:
    from dispatcher.engine import Engine
    from pool.core import PoolCore


def restore(engine: Engine, recovered: Recovered) -> None:
    """Give an engine that knows nothing yet all that the store knew."""
    pool, ledger = engine.pool, engine.ledger
    for record in recovered.instances:
        engine.records[record.id] = record
        pool.missing[record.id] = record.token
        if record.host_key:
            pool.pinned_keys[record.id] = record.host_key
        if record.behavior:
            pool.asked_behaviors[record.id] = IdleBehavior(record.behavior)
    for launch in recovered.launches:
        launching.restore(pool, launch)
    for job in recovered.jobs:
        ledger.jobs.admit(job)
        engine.placers.admit(job)
    for container in recovered.past:
        engine.placers.take_in(container)
    engine.workflow.restore(recovered.containers, recovered.ended)
    for container in recovered.containers:
        _restore_container(engine, container)
        engine.placers.take_in(container)
    engine.placing.evictions.restore()
    for attempt in recovered.unreleased:
        ledger.unreleased[attempt.id] = attempt
        _expect(pool, attempt, Resources(), AttemptPhase.ENDED)


def _restore_container(engine: Engine, container: Container) -> None:
    if container.state is ContainerState.LOCKED and not container.has_open_attempt:
        engine.placing.restore(container.id)
    for attempt in container.attempts:
        if attempt.outcome is None:
            resources = resources_of(container, attempt)
            _expect(engine.pool, attempt, resources, AttemptPhase.STARTING, container)
            if is_eviction(attempt.ending_for):
                attempts.shorten_grace(engine.pool, attempt.id)


def _expect(
    pool: PoolCore,
    attempt: Attempt,
    resources: Resources,
    phase: AttemptPhase,
    container: Container | None = None,
) -> None:
    """Let the pool expect an attempt; of those that have ended the container is not known."""
    attempts.expect(
        pool,
        PoolAttempt(
            id=attempt.id,
            remote_id=attempt.id,
            worker_id=attempt.instance_id,
            resources=resources,
            phase=phase,
            grace_s=None if container is None else container.spec.grace_period_s,
            resident=container is not None and bool(container.pinned_to),
            given_up=attempt.outcome is not None and attempt.exit_code is None,
        ),
    )
