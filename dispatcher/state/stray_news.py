"""What is told of strays: processes on instances that no container wants.

Stands alone: it turns what the pool noticed into what is published, values into values; the engine
calls it.
"""

from __future__ import annotations

from longshore.dispatcher.domain.messages import PublishStray, StrayAction
from longshore.pool.pool_events import StrayFound, StrayGone


def stray_found(notice: StrayFound) -> PublishStray:
    """Return what is told of a stray that was found."""
    return PublishStray(
        action=StrayAction.KEPT if notice.kept_for else StrayAction.ENDED_BY_US,
        worker_id=notice.worker_id,
        attempt_id=notice.attempt_id,
        container_id=notice.container_id,
        store=notice.kept_for,
    )


def stray_gone(notice: StrayGone) -> PublishStray:
    """Return what is told of a stray that has ended, or whose instance is gone."""
    return PublishStray(
        action=StrayAction.GONE,
        worker_id=notice.worker_id,
        attempt_id=notice.attempt_id,
        container_id=notice.container_id,
        exit_code=None if notice.exit is None else notice.exit.code,
    )
