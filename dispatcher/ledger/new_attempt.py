"""What a new attempt of a container is."""

from __future__ import annotations

from longshore.dispatcher.model import Attempt, Container
from longshore.dispatcher.planner.fit import given_on
from longshore.pool.model import Worker


def new_attempt(container: Container, worker: Worker, now: float, *, revision: int) -> Attempt:
    """Return the next attempt of a container, on a worker."""
    number = len(container.attempts) + 1
    return Attempt(
        id=f"{container.id}-{number}",
        container_id=container.id,
        number=number,
        instance_id=worker.id,
        instance_type=worker.type.name,
        price_usd_per_hour=worker.type.price_usd_per_hour,
        created_at=now,
        resources=given_on(worker.type, container),
        revision=revision,
    )
