"""The loop around the engine: events off the inbox, commands to the performers.

One thread (the event loop's) calls the engine; everything else posts events. Between two wake-ups
there is at most one planning pass, however many events came.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

import structlog

from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.messages import (
    AdminEvent,
    Change,
    Command,
    Commit,
    CompletionsWatched,
    Confirm,
    Event,
    Following,
    Publication,
    PublishJob,
    Woken,
)
from longshore.dispatcher.domain.vitals import EngineVitals
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.fork import EngineFork
from longshore.dispatcher.engine.outbox import Outbox, Write
from longshore.dispatcher.engine.view import EngineView
from longshore.drivers.errors import LongshoreError
from longshore.pool.histogram import Histogram
from longshore.pool.messages import PoolCommand

log = structlog.get_logger(__name__)

_PUBLISHED_AT_ONCE = 100
_MOST_ASKING = 1_000
_TURN_BOUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)

WriteChanges = Callable[[Sequence[Change]], "Future[None]"]
Publish = Callable[[Publication], None]
Perform = Callable[[PoolCommand], None]
_Command = TypeVar("_Command")


class InboxFull(LongshoreError):  # noqa: N818 - it becomes "try again later"
    """More requests wait than the inbox holds; the caller should try again later."""


class Unconfirmed(LongshoreError):  # noqa: N818 - it becomes "ask again"
    """The engine has ended before what came of a request was committed: it may be all the same."""


class Runtime:
    """Runs one engine on one event loop."""

    def __init__(
        self,
        *,
        engine: Engine,
        now: Callable[[], float],
        write: WriteChanges,
        perform: Perform,
        publish: Publish,
        inbox_limit: int,
    ) -> None:
        self._engine = engine
        #: What others may know of the engine.
        self.view = EngineView(engine)
        self._now = now
        #: Commits changes; its future resolves on any thread.
        self._write = write
        #: Begins a pool command without blocking.
        self._perform = perform
        #: Tells subscribers.
        self._publish = publish
        self._inbox: deque[Event] = deque()
        #: Users' requests beyond this are refused; the pool's own events are always taken, since
        #: each answers a command of ours.
        self._inbox_limit = inbox_limit
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._outbox = Outbox()
        self._unpublished: deque[Publication] = deque()
        self._ending: dict[str, Job] = {}
        self._asked = 0
        self._confirmed: dict[int, asyncio.Future[None]] = {}
        self._stopping = False
        self.failure: BaseException | None = None
        self._pass_s, self._turn_s = Histogram(_TURN_BOUNDS_S), Histogram(_TURN_BOUNDS_S)

    def vitals(self) -> EngineVitals:
        """Return how the loop does."""
        return EngineVitals(inbox_events=len(self._inbox), pass_s=self._pass_s, turn_s=self._turn_s)

    def fork(self) -> EngineFork:
        """Return a copy of the engine to try something on."""
        return EngineFork.of(self._engine)

    def post(self, event: Event) -> None:
        """Take in an event from any thread; after `stop` it is dropped: a restart finds out."""
        try:
            self._loop.call_soon_threadsafe(self._take, event)
        except RuntimeError:
            log.debug("event after the loop closed", event_kind=type(event).__name__)

    async def ask(self, event: AdminEvent | CompletionsWatched) -> None:
        """Take in a user's event; wait until what came of it, and all before, is committed.

        Raises `InboxFull` beyond the limits, of the inbox and of 1,000 who wait; nothing was taken
        in then. Raises `Unconfirmed` when the engine ends meanwhile. Bound the wait: a store may
        hang. Who stops waiting takes nothing back.
        """
        self.check_room()
        if len(self._confirmed) >= _MOST_ASKING:
            raise InboxFull(f"{len(self._confirmed)} requests wait; try again in a moment")
        self._asked += 1
        asked, confirmed = self._asked, self._loop.create_future()
        self._confirmed[asked] = confirmed
        try:
            self._take(replace(event, asked=asked))
            await confirmed
        finally:
            del self._confirmed[asked]

    def ending(self, job_id: str) -> Job | None:
        """Return a job that has ended, while nobody was told yet; None for all others.

        The engine has forgotten it, and the store does not know of its end for some moments.
        """
        return self._ending.get(job_id)

    def post_committed(self, event: Event) -> None:
        """Take in what the store holds already, on the loop's thread; it cannot be refused."""
        self._take(event)

    def check_room(self) -> None:
        """Raise `InboxFull` when no further request can be taken now."""
        if self._stopping:
            raise InboxFull("the server is stopping; ask again once it is back")
        if len(self._inbox) >= self._inbox_limit:
            raise InboxFull(f"{len(self._inbox)} events wait; try again in a moment")

    def _take(self, event: Event) -> None:
        self._inbox.append(event)
        self._wake.set()

    async def run(self) -> None:
        """Run until `stop`; an error that ends it, of our own code or the store's, is raised."""
        try:
            now = self._now()
            self._execute(self._engine.begin(now), now)
            while not self._stopping:
                self._turn()
                await self._sleep()
        finally:
            self._end_asking()
        if self.failure is not None:
            raise self.failure

    def _end_asking(self) -> None:
        """Take in no more requests, and let nobody wait for what is not confirmed any more."""
        self._stopping = True
        for confirmed in self._confirmed.values():
            if not confirmed.done():
                confirmed.set_exception(Unconfirmed("the server is stopping"))

    @property
    def stopping(self) -> bool:
        """Return whether it has ended, or is about to: nothing more is taken in."""
        return self._stopping

    def stop(self) -> None:
        """End `run`; what was not begun is found again at start.

        Commits under way are the store's: closing it finishes them.
        """
        self._stopping = True
        self._wake.set()

    def _turn(self) -> None:
        """Handle what the inbox held when the turn began, then plan if anything changed."""
        now = self._now()
        stall_event = self._outbox.stall_event(now)
        if stall_event is not None:
            self._handle(stall_event, now)
        for _ in range(len(self._inbox)):
            self._handle(self._inbox.popleft(), now)
        due = self._engine.next_wakeup(now)
        if due is not None and due <= now:
            self._handle(Woken(), now)
        self._turn_s.observe(self._now() - now)

    def _handle(self, event: Event, now: float) -> None:
        passes, began = self._engine.scheduling.passes, self._now()
        self._execute(self._engine.handle(event, now), now)
        if self._engine.scheduling.passes != passes:
            self._pass_s.observe(self._now() - began)

    async def _sleep(self) -> None:
        """Wait for an event or for the one armed wake-up."""
        dues = (self._engine.next_wakeup(self._now()), self._outbox.next_stall_event())
        due = min((due for due in dues if due is not None), default=None)
        if self._inbox or self._stopping:
            await asyncio.sleep(0)
            return
        self._wake.clear()
        timer = None
        if due is not None:
            delay_s = max(0.0, due - self._now())
            timer = self._loop.call_later(delay_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _execute(self, commands: Sequence[Command], now: float) -> None:
        self._ending |= {job.id: job for job in _ended(commands)}
        writes, ready = self._outbox.put(commands, now)
        for write in writes:
            self._write_changes(write)
        self._begin(ready)

    def _write_changes(self, write: Write) -> None:
        future = self._write(write.changes)

        def on_written(done: Future[None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: a restart finds out
                self._loop.call_soon_threadsafe(self._after_commit, write, done.exception())

        future.add_done_callback(on_written)

    def _after_commit(self, write: Write, error: BaseException | None) -> None:
        if self._stopping:
            return
        if error is not None:
            # Memory is ahead of the store and nothing that depends on it was done: start anew.
            self._fail(error, "the store refused what the engine decided; stopping")
            return
        self._begin(self._outbox.committed(write.ticket))
        if self._outbox.stalled:
            self._wake.set()

    def _begin(self, commands: Sequence[Following]) -> None:
        """Perform at once, publish a little later; nothing is begun any more after `stop`.

        What is published takes longer than what is performed, and nobody runs sooner for it.
        """
        for command in commands:
            if self._stopping:
                return
            if isinstance(command, Confirm):
                self._confirm(command.asked)
            elif isinstance(command, Publication):
                if not self._unpublished:
                    self._loop.call_soon(self._publish_some)
                self._unpublished.append(command)
            else:
                self._guarded(self._perform, command)

    def _confirm(self, asked: int) -> None:
        confirmed = self._confirmed.get(asked)
        if confirmed is not None and not confirmed.done():
            confirmed.set_result(None)

    def _publish_some(self) -> None:
        """Publish what there is, and let others have their turn in between: it may be thousands."""
        for _ in range(min(len(self._unpublished), _PUBLISHED_AT_ONCE)):
            if self._stopping:
                return
            told = self._unpublished.popleft()
            self._guarded(self._publish, told)
            for job in _ended([told]):
                self._ending.pop(job.id, None)
        if self._unpublished:
            self._loop.call_soon(self._publish_some)

    def _guarded(self, begin: Callable[[_Command], None], command: _Command) -> None:
        try:
            begin(command)
        except Exception as error:  # noqa: BLE001 - a command without an outcome must not pass
            self._fail(error, "a command could not be begun; stopping")

    def _fail(self, error: BaseException, what: str) -> None:
        self.failure = error
        self.stop()
        log.error(what, error=f"{type(error).__name__}: {error}")


def _ended(commands: Iterable[Command | Following]) -> Iterator[Job]:
    """Yield the jobs whose end some of `commands` tell, now or once something is committed."""
    for command in commands:
        if isinstance(command, Commit):
            yield from _ended(command.then)
        elif isinstance(command, PublishJob) and command.job.state.final:
            yield command.job
