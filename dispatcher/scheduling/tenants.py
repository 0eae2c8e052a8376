"""Who holds resources on an instance, as preemption sees it."""

from __future__ import annotations

from typing import assert_never

from longshore.dispatcher.jobs.book import JobBook
from longshore.dispatcher.jobs.model import JobType
from longshore.dispatcher.ledger.ledger import Ledger
from longshore.dispatcher.model import Container
from longshore.dispatcher.planner.preemption import Tenant, TenantKind, may_evict
from longshore.pool.model import Worker


def kind_of(container: Container, jobs: JobBook) -> TenantKind:
    """Return what a container is to preemption."""
    match jobs.type_of(container.job_id):
        case JobType.SYSTEM:
            return TenantKind.SYSTEM
        case JobType.SYSBATCH:
            return TenantKind.SYSBATCH
        case JobType.BATCH | JobType.ELASTIC | None:
            return TenantKind.SUPERVISOR if container.spec.supervisor else TenantKind.BATCH
        case unknown:
            assert_never(unknown)


def tenants_on(worker: Worker, ledger: Ledger, by: TenantKind) -> tuple[Tenant, ...]:
    """Return the attempts of containers on a worker, for one who asks for room there; no strays."""
    found = []
    for attempt_id, resources in sorted(worker.attempts.items()):
        container_id = ledger.open_attempts.get(attempt_id)
        if container_id is None:
            continue
        container = ledger.containers[container_id]
        attempt = container.attempts[-1]
        found.append(
            Tenant(
                attempt_id=attempt_id,
                priority=container.priority,
                resources=resources,
                began_at=attempt.started_at,
                is_ending=attempt.ending is not None or container.cancel_requested,
                may_be_evicted=may_evict(by, kind_of(container, ledger.jobs)),
            )
        )
    return tuple(found)
