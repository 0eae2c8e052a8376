"""From what the engine publishes to the API's events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from longshore.dispatcher.desk.broker import Broker, Watchers
from longshore.dispatcher.desk.views import (
    container_data,
    gone_view,
    instance_data,
    instance_view,
    job_data,
)
from longshore.dispatcher.engine import Engine
from longshore.dispatcher.explaining.explanation import Standing
from longshore.dispatcher.jobs.model import Job
from longshore.dispatcher.messages import (
    Publication,
    PublishContainer,
    PublishFailedPass,
    PublishInstance,
    PublishJob,
    PublishStray,
)
from longshore.dispatcher.model import Container, ContainerState
from longshore.dispatcher.queries import Recovered

log = structlog.get_logger(__name__)


def log_restored(recovered: Recovered, took_s: float) -> None:
    """Write what a start has taken in of what the store knew, and how long that took."""
    log.info(
        "restored",
        containers=len(recovered.containers),
        jobs=len(recovered.jobs),
        waited_for=len(recovered.ended),
        took_s=round(took_s, 1),
    )


def publish_event(
    what: Publication,
    *,
    engine: Engine,
    broker: Broker,
    watchers: Watchers,
    heard_at: Callable[[str], float],
) -> None:
    """Number what changed as an event of the API's, and wake whoever waits for it.

    A failed pass is an event of the log's only, and so is what becomes of strays.
    """
    if isinstance(what, PublishFailedPass):
        log.error("a planning pass failed and changed nothing", exc_info=what.error)
        return
    if isinstance(what, PublishStray):
        _log_stray(what)
        return
    _log_story(what, engine)
    if isinstance(what, PublishContainer):
        container = what.container
        # Without its position, which the next event of another one changes.
        data = container_data(container, Standing(reason=engine.why_waiting(container.id)))
        broker.publish("container", container.id, data)
        watchers.notify(container.id)
        return
    if isinstance(what, PublishJob):
        broker.publish("job", what.job.id, job_data(what.job))
        watchers.notify(what.job.id)
        return
    worker = engine.pool.workers.get(what.worker_id)
    if what.gone is not None:
        broker.publish("instance", what.worker_id, instance_data(gone_view(what.gone)))
    elif worker is not None:
        view = replace(
            instance_view(engine, worker, heard_at=heard_at(worker.id)), state=what.state
        )
        broker.publish("instance", what.worker_id, instance_data(view))


def _log_stray(what: PublishStray) -> None:
    """Write one line for each process that no container wants, with what becomes of it."""
    log.warning(
        f"stray {what.deed.name.lower()}",
        instance=what.worker_id,
        container=what.container_id or None,
        attempt=what.attempt_id,
        store=what.store or None,
        exit_code=what.exit_code,
        why=what.deed.value,
    )


def _log_story(what: PublishContainer | PublishJob | PublishInstance, engine: Engine) -> None:
    """Write one line for each change, so that the log tells the story of every id in it."""
    if isinstance(what, PublishInstance):
        worker = engine.pool.workers.get(what.worker_id)
        record = what.gone or engine.records.get(what.worker_id)
        write = log.warning if what.warns else log.info
        write(
            f"instance {what.state}",
            instance=what.worker_id,
            type=record.type_name if record is not None else worker.type.name if worker else "",
            why=what.reason,
        )
        return
    if isinstance(what, PublishJob):
        _log_job(what.job, what.deed)
        return
    container = what.container
    last = container.attempts[-1] if container.attempts else None
    log.info(
        f"container {container.state.value}",
        container=container.id,
        attempt=last.id if last is not None else None,
        instance=last.instance_id if last is not None else None,
        exit_code=container.exit_code,
        why=_why(container),
        last_outcome=last.outcome.value if last is not None and last.outcome is not None else None,
    )


def _why(container: Container) -> str | None:
    """Return why a container has ended, or why its last attempt has where it is queued again."""
    reason = container.reason
    if reason is None and container.state is ContainerState.QUEUED and container.attempts:
        reason = container.attempts[-1].reason
    return reason.message if reason is not None else None


def _log_job(job: Job, deed: str) -> None:
    tally = job.tally
    log.info(
        f"job {job.state.value if job.state.final or not deed else deed}",
        job=job.id,
        name=job.name,
        containers=tally.total,
        ended=tally.ended,
        held=job.held,
        exit_code=job.exit_code,
        why=job.reason.message if job.reason is not None else None,
    )
