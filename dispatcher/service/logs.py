"""What is asked of the logs of containers: their bytes, and whether more of them comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.logs.store import LogStore
from longshore.dispatcher.service.containers import ContainerService
from longshore.dispatcher.service.events import ContainerNotifier


class LogService:
    """The logs of containers; used on the loop's thread.

    `unreached` is why nothing comes from an instance, "" for nothing.
    """

    def __init__(
        self,
        *,
        containers: ContainerService,
        view: EngineView,
        logs: LogStore,
        watchers: ContainerNotifier,
        unreached: Callable[[str], str],
    ) -> None:
        self._containers = containers
        self._view = view
        self._logs = logs
        self._watchers = watchers
        self._unreached = unreached

    async def read(
        self, container_id: str, *, caller: Principal, stream: str, offset: int, limit: int
    ) -> tuple[bytes, bool]:
        """Return bytes of the last attempt's stream from `offset`, and whether nothing can follow.

        Nothing can once the container has ended and no more of its log comes. Raises `NotFound`.
        """
        container = await self._containers.container(container_id, caller=caller)
        if not container.attempts:
            return b"", container.state.final
        attempt = container.attempts[-1]
        data = await asyncio.to_thread(
            self._logs.read, container_id, attempt.id, stream, offset, limit
        )
        if not container.state.final or len(data) >= limit:
            return data, False
        size = attempt.stdout_bytes if stream == "stdout" else attempt.stderr_bytes
        # What is not expected any more never comes, however much was promised: the instance is
        # gone, or the log was cut at its limit.
        expected = self._view.awaits_log(attempt.id)
        return data, offset + len(data) >= size or not expected

    async def rest(
        self, container_id: str, attempt_id: str, *, stream: str, offset: int, limit: int
    ) -> bytes:
        """Return bytes from `offset` of the stream of an attempt that another one has followed.

        For who has been reading it: it says nothing of who may.
        """
        return await asyncio.to_thread(
            self._logs.read, container_id, attempt_id, stream, offset, limit
        )

    def problem(self, container: Container) -> str:
        """Return why what a container's last attempt writes does not come here at present.

        A sentence; "" when nothing is in its way, or all that was to come has. What will never come
        is told, too.
        """
        if not container.attempts:
            return ""
        attempt = container.attempts[-1]
        expected = container.has_open_attempt or self._view.awaits_log(attempt.id)
        if not expected:
            if attempt.log_complete or not attempt.written_bytes:
                return ""
            wrote = f"the {attempt.written_bytes} bytes that {attempt.id} wrote"
            return f"what had not come by then of {wrote} was lost on {attempt.instance_id}"
        unheard = self._unreached(attempt.instance_id)
        return self._logs.problem or (f"{unheard}; the rest comes when it is" if unheard else "")

    async def wait(self, container_id: str, *, timeout_s: float) -> None:
        """Return on news of the container or its log, or after `timeout_s`."""
        await self._watchers.wait(container_id, timeout_s)
