"""From what the engine publishes to the API's events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import structlog

from longshore.dispatcher.cost.prices import AS_BOUGHT, PricesInForce
from longshore.dispatcher.domain.containers import Container, ContainerState
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.messages import (
    Publication,
    PublishContainer,
    PublishFailedPass,
    PublishInstance,
    PublishJob,
    PublishStray,
)
from longshore.dispatcher.domain.queries import Recovered
from longshore.dispatcher.domain.views import InstanceView, ServerEvent
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.explanation import WaitStatus
from longshore.dispatcher.explain.instance_views import (
    gone_view,
    instance_view,
)

# --------------------------------------------------------------------------------------------------
# Hands what was decided to the API's subscribers: numbered events, with a window for resuming.

KEPT_EVENTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRendering:
    """How a door to this service tells what changed, as JSON of built-in types."""

    container: Callable[[Container, WaitStatus], dict[str, Any]]
    job: Callable[[Job], dict[str, Any]]
    instance: Callable[[InstanceView], dict[str, Any]]


_Kept = tuple[str, str, bytes]
"""An event's kind, id and data; its number follows from its place."""

_as_json = msgspec.json.Encoder(decimal_format="number").encode
_of_json = msgspec.json.Decoder(dict[str, object]).decode


class Broker:
    """Numbers events, keeps the newest, and wakes whoever follows; used on the loop's thread only.

    A follower reads at its own speed from the kept window; one that falls out of it is ended, and
    resumes from a fresh look at the whole. What is kept is JSON text: as objects, ten thousand
    events would take ten times its memory, and hold on to strings that everybody else has let go.
    """

    def __init__(self, *, kept: int = KEPT_EVENTS) -> None:
        self._events: deque[_Kept] = deque(maxlen=kept)
        self._last = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self._closed = False

    @property
    def last_number(self) -> int:
        """Return the number of the newest event, 0 before the first."""
        return self._last

    def publish(self, kind: str, subject: str, data: dict[str, object]) -> None:
        """Number an event, keep it and wake all followers."""
        self._last += 1
        self._events.append((kind, subject, _as_json(data)))
        self._wake()

    def close(self) -> None:
        """End every follower."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def follow(self, after: int | None) -> AsyncIterator[ServerEvent]:
        """Yield events after number `after` (None: from now on) until closed or left behind."""
        position = self._last if after is None else after
        while not self._closed:
            if position < self._last:
                first = self._last - len(self._events) + 1
                if position + 1 < first:
                    return
                fresh = [self._events[i] for i in range(position + 1 - first, len(self._events))]
                for kind, subject, data in fresh:
                    position += 1
                    yield ServerEvent(number=position, kind=kind, id=subject, data=_of_json(data))
                continue
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)


class ContainerNotifier:
    """Wakes whoever waits for news of one container; used on the loop's thread only."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}

    def notify(self, container_id: str) -> None:
        """Wake everybody who waits for this container."""
        for waiter in self._waiters.pop(container_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def notify_all(self) -> None:
        """Wake everybody, as the server stops."""
        for container_id in list(self._waiters):
            self.notify(container_id)

    async def wait(self, container_id: str, timeout_s: float) -> None:
        """Return when there is news of the container, or after `timeout_s`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(container_id, set()).add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return
        finally:
            waiters = self._waiters.get(container_id)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._waiters[container_id]


# ---- from what the engine publishes to the API's events ------------------------------------------

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
    view: EngineView,
    broker: Broker,
    watchers: ContainerNotifier,
    heard_at: Callable[[str], float],
    rendering: EventRendering,
    prices: PricesInForce = AS_BOUGHT,
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
    _log_story(what, view)
    if isinstance(what, PublishContainer):
        container = what.container
        # Without its position, which the next event of another one changes.
        data = rendering.container(container, WaitStatus(reason=view.wait_reason(container.id)))
        broker.publish("container", container.id, data)
        watchers.notify(container.id)
        return
    if isinstance(what, PublishJob):
        broker.publish("job", what.job.id, rendering.job(what.job))
        watchers.notify(what.job.id)
        return
    worker = view.pool.workers.get(what.worker_id)
    if what.gone is not None:
        broker.publish("instance", what.worker_id, rendering.instance(gone_view(what.gone)))
    elif worker is not None:
        shown = replace(
            instance_view(view, worker, heard_at=heard_at(worker.id), prices=prices),
            state=what.state,
        )
        broker.publish("instance", what.worker_id, rendering.instance(shown))


def _log_stray(what: PublishStray) -> None:
    """Write one line for each process that no container wants, with what becomes of it."""
    log.warning(
        f"stray {what.action.name.lower()}",
        instance=what.worker_id,
        container=what.container_id or None,
        attempt=what.attempt_id,
        store=what.store or None,
        exit_code=what.exit_code,
        why=what.action.value,
    )


def _log_story(what: PublishContainer | PublishJob | PublishInstance, view: EngineView) -> None:
    """Write one line for each change, so that the log tells the story of every id in it."""
    if isinstance(what, PublishInstance):
        worker = view.pool.workers.get(what.worker_id)
        record = what.gone or view.instances().get(what.worker_id)
        write = log.warning if what.warns else log.info
        write(
            f"instance {what.state}",
            instance=what.worker_id,
            type=record.type_name if record is not None else worker.type.name if worker else "",
            why=what.reason,
        )
        return
    if isinstance(what, PublishJob):
        _log_job(what.job, what.last_action)
        return
    container = what.container
    last = container.attempts[-1] if container.attempts else None
    log.info(
        f"container {container.state.value}",
        container=container.id,
        job=container.job_id or None,
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


def _log_job(job: Job, last_action: str) -> None:
    tally = job.tally
    log.info(
        f"job {job.state.value if job.state.final or not last_action else last_action}",
        job=job.id,
        name=job.name,
        containers=tally.total,
        ended=tally.ended,
        held=job.held,
        exit_code=job.exit_code,
        why=job.reason.message if job.reason is not None else None,
    )
