"""Where in a container's log a reader is, so that it can go on after a broken connection.

Theory of operation. The server sends one stream of the last attempt from an offset on. When
another attempt begins while it sends, it goes on with that one's log from its beginning, in the
same answer and without a mark. So a reader that counts bytes knows its offset exactly as long as
the number of attempts is what it was when it looked last. When there are more, an unknown part of
what it counted belongs to attempts that have ended. Each of these sent no more than it wrote, which
is known once its log is complete: what was counted beyond that is surely of the last attempt.
There the reader goes on. That may be too early, if the server went on before it had sent all of an
attempt: then some bytes come twice, and none is left out. Where not even that is known, the last
attempt's log is read from its beginning. A look that comes after the server has begun to answer
tells whether the offset that was asked for is one of the attempt of which it answers (`is_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from longshore.dispatcher.api.schemas.containers import AttemptAnswer, ContainerAnswer

LogStreamName = Literal["stdout", "stderr"]

SILENCE_LIMIT_S = 60.0
"""A log may be silent for longer: then it is asked for again, at the same place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCursor:
    """How far one stream of a container has been read."""

    stream: str
    #: Where to go on, in bytes of the attempt that was the last at the last look.
    offset: int = 0
    #: How many attempts there were at the last look, None before the first.
    attempts: int | None = None

    def received(self, count: int) -> LogCursor:
        """Return it after `count` bytes more."""
        return replace(self, offset=self.offset + count)

    def seen(self, container: ContainerAnswer) -> LogCursor:
        """Return it after a look at the container: before each connection, there must be one."""
        attempts = max(container.attempt_count, len(container.attempts))
        offset = self.offset
        # Before the first attempt nothing is sent: what was counted began with the first.
        if self.attempts is not None and (more := attempts - max(1, self.attempts)) > 0:
            offset = self._beyond(container, more)
        return replace(self, offset=offset, attempts=attempts)

    def is_of(self, container: ContainerAnswer) -> bool:
        """Return whether the offset is one of the attempt that is the last now.

        Asked for once the server has begun to answer: an attempt that began between the look and
        the answer would be read from an offset that is not its own.
        """
        return not self.offset or self.seen(container) == self

    def _beyond(self, container: ContainerAnswer, more: int) -> int:
        """Return how many of the bytes that were counted are surely of the last attempt."""
        ended = container.attempts[-1 - more : -1]
        if len(ended) < more or not all(_is_whole(each) for each in ended):
            return 0
        return max(0, self.offset - sum(self._written(each) for each in ended))

    def _written(self, attempt: AttemptAnswer) -> int:
        return attempt.stdout_bytes if self.stream == "stdout" else attempt.stderr_bytes


def _is_whole(attempt: AttemptAnswer) -> bool:
    """Return whether an attempt has ended and its log is complete: then its sizes are final."""
    return attempt.outcome is not None and attempt.log_complete
