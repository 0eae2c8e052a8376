"""From what the engine publishes to the API's events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dispatcher.broker import Broker, Watchers
from dispatcher.engine import Engine
from dispatcher.messages import PublishContainer, PublishInstance
from dispatcher.views import container_data, gone_view, instance_data, instance_view


def publish_event(
    what: PublishContainer | PublishInstance,
    *,
    engine: Engine,
    broker: Broker,
    watchers: Watchers,
    heard_at: Callable[[str], float],
) -> None:
    """Number what changed as an event of the API's, and wake whoever waits for it."""
    if isinstance(what, PublishContainer):
        container = what.container
        reason = engine.placing.reason(container.id)
        data = container_data(container, reason.message if reason is not None else "")
        broker.publish("container", container.id, data)
        watchers.notify(container.id)
        return
    worker = engine.pool.workers.get(what.worker_id)
    if what.gone is not None:
        broker.publish("instance", what.worker_id, instance_data(gone_view(what.gone)))
    elif worker is not None:
        view = replace(
            instance_view(engine, worker, heard_at=heard_at(worker.id)), state=what.state
        )
        broker.publish("instance", what.worker_id, instance_data(view))
