"""One life of the dispatcher: the real engine and outflow, with performers in virtual time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from longshore.dispatcher.domain.messages import (
    Command,
    Commit,
    Confirm,
    Event,
    Following,
    Publication,
    Woken,
)
from longshore.dispatcher.engine.engine import NOTHING_TO_PLAN, Engine
from longshore.dispatcher.engine.outbox import Outbox, Write
from longshore.pool.messages import (
    AskBills,
    CreateInstance,
    DestroyInstance,
    FindInstance,
    ListInstances,
    PoolCommand,
    PoolEvent,
    Probe,
    SetTags,
)
from tests.sim.calls import VirtualCalls
from tests.sim.links import VirtualLinks
from tests.sim.probes import VirtualProbe
from tests.sim.store import VirtualStore
from tests.sim.timeline import Timeline

HANDLED_AT_ONE_MOMENT = 5_000
QUIET_EVENTS = (Woken, *NOTHING_TO_PLAN)
QUIET_AT_MOST = 8
"""Of events in a row that bring probes, repeated destroys or nothing, or commits with others still
behind them, every eighth is looked at: the next one shows what they did."""


class Crashed(Exception):  # noqa: N818 - it is no error: it is what the run is about
    """The process ends here, with all of its memory."""


class Inspector(Protocol):
    """Who looks at everything that goes in and comes out."""

    def handled(self, process: DispatcherProcess) -> None:
        """Look at the engine after an event."""
        ...

    def decided(self, process: DispatcherProcess, command: PoolCommand) -> None:
        """Look at a command as the engine decided it."""
        ...

    def begun(self, process: DispatcherProcess, command: PoolCommand | Confirm) -> None:
        """Look at a command that begins to be carried out, or at an answer to an admin."""
        ...

    def heard(self, process: DispatcherProcess, event: PoolEvent) -> None:
        """Look at an event before the engine gets it."""
        ...


@dataclass(slots=True, kw_only=True)
class Making:
    """What a process is made of; `step` is called between any two commands and may raise
    `Crashed`; the engine's own check runs at every `check_every`-th look, and the first."""

    timeline: Timeline
    store: VirtualStore
    inspector: Inspector
    step: Callable[[], None]
    crashed: Callable[[str], None]
    clock_offset_s: float
    check_every: int = 1


class DispatcherProcess:
    """The engine in its loop, as `dispatcher.engine.runtime` runs it."""

    def __init__(self, engine: Engine, making: Making) -> None:
        self.engine = engine
        self.alive = True
        self.due: float | None = None
        """When the engine next has something to do, as it said after the last event."""
        self.calls: VirtualCalls
        self.links: VirtualLinks
        self._making = making
        self._outbox = Outbox()
        self._armed = 0
        self._moment = -1.0
        self._since_check = self._making.check_every
        self._handled = 0
        self._quiet = False
        self._not_looked_at = 0

    def now(self) -> float:
        """Return the time on this process's clock."""
        return self._making.timeline.now + self._making.clock_offset_s

    def limit(self) -> int | None:
        """Return how many containers may run at once, None for no limit.

        Asked, the engine's own account takes in what has passed; here a copy does, if it has a
        limit of its own, so that a check leaves the engine as it was.
        """
        concurrency = self.engine.concurrency
        asked = concurrency if concurrency.next_rise() is None else copy.copy(concurrency)
        return asked.limit(self.now())

    def begin(self) -> None:
        """Begin: the engine's first commands."""
        self._guarded(lambda: self._execute(self.engine.begin(self.now())))

    def post(self, event: Event) -> None:
        """Take in an event, if the process lives."""
        if not self.alive:
            return
        if not isinstance(event, Woken):
            self._making.inspector.heard(self, event)  # type: ignore[arg-type] # users' events too
        self._guarded(lambda: self._handle(event))

    def _handle(self, event: Event) -> None:
        told = self._tell_news()
        passes = self.engine.scheduling.passes
        commands = self.engine.handle(event, self.now())
        no_pass = self.engine.scheduling.passes == passes
        self._quiet = (
            no_pass
            and not told
            and isinstance(event, QUIET_EVENTS)
            and all(isinstance(command, Probe | DestroyInstance) for command in commands)
        )
        self._execute(commands)

    def _tell_news(self) -> bool:
        """Let the engine know whether its commands wait for the store; return if it was told."""
        news = self._outbox.stall_event(self.now())
        if news is not None:
            self._execute(self.engine.handle(news, self.now()))
        return news is not None

    def _guarded(self, action: Callable[[], None]) -> None:
        self._count()
        self._quiet = False
        try:
            action()
        except Crashed as crash:
            self._making.crashed(str(crash))
            return
        self.due = self.engine.next_wakeup(self.now())
        self._not_looked_at = self._not_looked_at + 1 if self._quiet else 0
        if self._not_looked_at % QUIET_AT_MOST == 0:
            self._look()
        self._arm()

    def _look(self) -> None:
        self._since_check += 1
        if self._since_check >= self._making.check_every:
            self._since_check = 0
            self.engine.check()
        self._making.inspector.handled(self)

    def _count(self) -> None:
        """Fail when the engine never comes to rest."""
        timeline = self._making.timeline
        if timeline.now != self._moment:
            self._moment, self._handled = timeline.now, 0
        self._handled += 1
        assert self._handled < HANDLED_AT_ONE_MOMENT, "the engine never comes to rest"

    def _arm(self) -> None:
        dues = (self.due, self._outbox.next_stall_event())
        due = min([due for due in dues if due is not None], default=None)
        self._armed += 1
        if due is None:
            return
        armed = self._armed
        delay_s = max(0.0, due - self.now())
        self._making.timeline.after(delay_s, lambda: self._wake(armed))

    def _wake(self, armed: int) -> None:
        if self.alive and armed == self._armed:
            self.post(Woken())

    # ---- what the engine asks for ----

    def _execute(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._show(command)
        writes, ready = self._outbox.put(commands, self.now())
        for write in writes:
            self._making.step()
            self._write(write)
        self._begin(ready)

    def _show(self, command: Command) -> None:
        following: tuple[Following, ...] = (
            command.then if isinstance(command, Commit) else (command,)
        )
        for each in following:
            if not isinstance(each, Publication | Confirm):
                self._making.inspector.decided(self, each)

    def _write(self, write: Write) -> None:
        def done(accepted: bool) -> None:
            if not self.alive:
                return
            if not accepted:
                self._making.crashed("the store refused a commit")
                return
            self._guarded(lambda: self._move_on(write.ticket))

        self._making.store.write(write.changes, done, builds=True)

    def _move_on(self, ticket: int) -> None:
        self._begin(self._outbox.committed(ticket))
        told = self._tell_news()
        # Some checks compare with what is stored: they can once nothing waits to be.
        self._quiet = not told and not self._making.store.caught_up

    def _begin(self, commands: Sequence[Following]) -> None:
        for command in commands:
            if isinstance(command, Publication):
                continue
            if not isinstance(command, Confirm):
                self._making.step()
            self._making.inspector.begun(self, command)
            match command:
                case Confirm():
                    pass
                case (
                    ListInstances()
                    | CreateInstance()
                    | DestroyInstance()
                    | SetTags()
                    | FindInstance()
                    | AskBills()
                ):
                    self.calls.begin(command)
                case Probe():
                    VirtualProbe(self.links, command).begin()
                case _:
                    self.links.perform(command)

    def die(self) -> None:
        """End: nothing that is in memory survives."""
        self.alive = False
        self.links.die()
