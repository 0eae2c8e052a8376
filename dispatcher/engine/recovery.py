"""How the engine takes up at a start what an earlier process knew."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import (
    Attempt,
    Container,
    ContainerState,
    InstanceRecord,
    resources_of,
)
from longshore.dispatcher.domain.queries import Recovered
from longshore.dispatcher.scheduler.batch.scheduling_pass import SchedulingPass
from longshore.dispatcher.state.attempt_end import is_eviction
from longshore.dispatcher.state.containers import ContainerTable
from longshore.dispatcher.state.dependencies import Workflow
from longshore.drivers.interface import TOKEN_TAG, TYPE_TAG, Resources
from longshore.pool import attempts, launching
from longshore.pool.core import PoolCore
from longshore.pool.model import (
    AttemptPhase,
    Finished,
    IdleBehavior,
    InstanceSeen,
    PoolAttempt,
    Starting,
)


def restore(
    recovered: Recovered,
    *,
    pool: PoolCore,
    table: ContainerTable,
    records: dict[str, InstanceRecord],
    workflow: Workflow,
    scheduling: SchedulingPass,
) -> None:
    """Give the parts of an engine that knows nothing yet all that the store knew.

    The workload schedulers are those that `scheduling` knows.
    """
    workloads = scheduling.workloads
    for record in recovered.instances:
        records[record.id] = record
        tags = ((TYPE_TAG, record.type_name), (TOKEN_TAG, record.token))
        pool.unlisted[record.id] = InstanceSeen(id=record.id, address=record.address, tags=tags)
        _restore_wishes(pool, record)
    for launch in recovered.launches:
        launching.restore(pool, launch)
    for job in recovered.jobs:
        table.jobs.admit(job)
        workloads.admit(job)
    for container in recovered.past:
        workloads.take_in(container)
    workflow.restore(recovered.containers, recovered.ended)
    for container in recovered.containers:
        _restore_container(pool, scheduling, container)
        workloads.take_in(container)
    scheduling.evictions.restore()
    for attempt in recovered.unreleased:
        table.unreleased[attempt.id] = attempt
        _expect(pool, attempt, Resources(), Finished(without_exit=attempt.exit_code is None))


def _restore_wishes(pool: PoolCore, record: InstanceRecord) -> None:
    """Give the pool what it knew of an instance, and what admins asked for of it."""
    if record.host_key:
        pool.pinned_keys[record.id] = record.host_key
    if record.behavior:
        pool.asked_behaviors[record.id] = IdleBehavior(record.behavior)
    if record.note is not None:
        pool.asked_notes[record.id] = record.note
    if record.killed is not None:
        pool.asked_kills[record.id] = record.killed


def _restore_container(pool: PoolCore, scheduling: SchedulingPass, container: Container) -> None:
    if container.state is ContainerState.LOCKED and not container.has_open_attempt:
        scheduling.restore(container.id)
    for attempt in container.attempts:
        if attempt.outcome is None:
            resources = resources_of(container, attempt)
            _expect(pool, attempt, resources, Starting(), container)
            if is_eviction(attempt.stop_reason):
                attempts.shorten_grace(pool, attempt.id)


def _expect(
    pool: PoolCore,
    attempt: Attempt,
    resources: Resources,
    phase: AttemptPhase,
    container: Container | None = None,
) -> None:
    """Let the pool expect an attempt; of those that have ended the container is not known."""
    if attempt.instance_id not in pool.unlisted:
        tags = ((TYPE_TAG, attempt.instance_type),)
        pool.unlisted[attempt.instance_id] = InstanceSeen(
            id=attempt.instance_id, address="", tags=tags
        )
    attempts.expect(
        pool,
        PoolAttempt(
            id=attempt.id,
            remote_id=attempt.id,
            worker_id=attempt.instance_id,
            resources=resources,
            phase=phase,
            container_id=attempt.container_id,
            user="" if container is None else container.user,
            contained=container is not None and bool(container.spec.image),
            running_since=attempt.started_at,
            grace_s=None if container is None else container.spec.grace_period_s,
            resident=container is not None and bool(container.pinned_to),
        ),
    )
