"""The one thread that writes: it commits whatever is pending as one group, again and again.

Each call is atomic by a savepoint, so that one that is refused takes no other with it; but each of
the engine's builds on those before it, so that after a refused one none of these is written. A
failure of the transaction itself (locked, disk full, I/O) says nothing about what it wrote: the
same group is tried again, in the same order, until it is committed or the writer is closed.

What nobody waits for makes no group of its own while it is young: whoever comes next would wait
for that. It goes with them, in the order of its queueing.

Between groups, and while nobody waits, it throws away what nobody needs any more: little at a time,
in transactions of their own, since whoever comes meanwhile waits for the one that is under way.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, Engine

from longshore.dispatcher.config.model import AuditConfig
from longshore.dispatcher.domain.messages import Change, InsertContainers, InsertJob
from longshore.dispatcher.store.changes import apply_changes
from longshore.dispatcher.store.custody import Custody
from longshore.dispatcher.store.errors import (
    LeftInDoubt,
    OutOfOrder,
    StoreBusy,
    StoreClosed,
    StoreReplaced,
    Withdrawn,
)
from longshore.dispatcher.store.sqlite import is_outside_transaction, is_passing, may_have_written
from longshore.dispatcher.store.upkeep import forget_some
from longshore.pool.histogram import Histogram

MAX_PENDING = 20_000
GROUP_LIMIT = 2_000
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 5.0
COMMIT_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW_COMMIT_S = 5.0
CROWDED_SHARE = 0.75
TELL_EVERY_S = 1.0
BEHIND_S = 0.5
"""How long what nobody waits for may wait for a group to go with."""
LOOK_EACH_S = 1.0
"""How often the files are looked at while nothing is written."""
UPKEEP_EACH_S = 60.0
UPKEEP_PAUSE_S = 0.05
"""How long others have the store to themselves between two steps, while there is more to do."""

_log = structlog.get_logger("longshore.store")


@dataclass(slots=True, kw_only=True)
class _Call:
    """One `write`; `applied` says that it may be on the disk: only what follows tells.

    From `due_at` on it makes a group, by the monotonic clock; any other may take it along before.
    """

    changes: tuple[Change, ...]
    weight: int
    builds: bool
    due_at: float
    future: Future[None]
    refusal: Exception | None = None
    withdrawn: bool = False
    applied: bool = False


class Writer:
    """Commits changes in groups; every method may be called from any thread."""

    def __init__(
        self,
        engine: Engine,
        custody: Custody,
        *,
        wall_clock: Callable[[], float],
        audit: AuditConfig,
        max_pending: int = MAX_PENDING,
        group_limit: int = GROUP_LIMIT,
    ) -> None:
        """Start the thread; `audit` says what is kept of the audit log.

        `max_pending` is how many containers and changes may wait before calls that do not `wait`
        are refused; `group_limit` how many go into one transaction, one call at least.
        """
        self._engine = engine
        self._custody = custody
        self._wall_clock = wall_clock
        self._audit = audit
        self._max_pending = max_pending
        self._group_limit = group_limit
        self._calls: deque[_Call] = deque()
        self._group: list[_Call] = []
        self._pending = 0
        self._pending_builds = 0
        self._due_at = math.inf
        self._changed = threading.Condition()
        self._give_up_at: float | None = None
        self._connection: Connection | None = None
        #: Why no group can be committed, "" when it can.
        self._problem = ""
        #: How long each committed group took, by the try that succeeded.
        self.commit_s = Histogram(COMMIT_BOUNDS_S)
        #: Called on the writer's thread with a sentence, after a group that shows that the store
        #: cannot keep up with what runs; None for nobody.
        self.on_overload: Callable[[str], None] | None = None
        self._told_at = -math.inf
        self._broken = False
        self._upkeep_at = time.monotonic()
        self.abandoned = False
        # A daemon, so that a crash elsewhere ends the process; in good order `close` joins it.
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str:
        """Return why nothing can be written at present, in one sentence; "" when all is well."""
        return self._problem

    @property
    def pending(self) -> int:
        """Return how many containers and changes wait to be committed."""
        return self._pending

    def write(
        self, changes: Sequence[Change], *, wait: bool, within_s: float = 0.0
    ) -> Future[None]:
        """Queue `changes` as one atomic call; see `Store.write` and `Store.write_behind`."""
        call = _Call(
            changes=tuple(changes),
            weight=sum(_weight(change) for change in changes),
            builds=wait,
            due_at=time.monotonic() + within_s,
            future=Future(),
        )
        # Whoever stops waiting does not take back what was accepted: it cannot be cancelled.
        call.future.set_running_or_notify_cancel()
        with self._changed:
            if self._give_up_at is not None:
                raise StoreClosed("the store is closed")
            if not wait and self._pending >= self._max_pending:
                raise StoreBusy(f"{self._pending} changes wait to be written: try again later")
            self._calls.append(call)
            self._count(call, call.weight)
            if call.due_at < self._due_at:
                self._due_at = call.due_at
                self._changed.notify()
        return call.future

    def withdraw(self, future: Future[None]) -> bool:
        """Take a call back; return whether that is certain. See `Store.withdraw`."""
        with self._changed:
            for call in (*self._group, *self._calls):
                if call.future is future and not call.applied:
                    call.withdrawn = True
                    return True
        return False

    def close(self, timeout_s: float) -> None:
        """Commit what is pending and end the thread; twice is no error.

        What cannot be committed within `timeout_s` fails with `StoreClosed`.
        """
        with self._changed:
            if self._give_up_at is None:
                self._give_up_at = time.monotonic() + timeout_s
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (group := self._take()) is not None:
            if group and not self._commit_somehow(group):
                self._abandon(group)
            if not group:
                self._look()
            if self._give_up_at is None and time.monotonic() >= self._upkeep_at:
                self._keep_up()
        self._drop_connection()

    def _take(self) -> list[_Call] | None:
        """Return the next group; an empty one when none came for a while, None at the end."""
        with self._changed:
            now = time.monotonic()
            until = min(now + LOOK_EACH_S, self._upkeep_at)
            while self._give_up_at is None and self._due_at > now < until:
                self._changed.wait(min(self._due_at, until) - now)
                now = time.monotonic()
            if not self._calls and self._give_up_at is not None:
                return None
            group: list[_Call] = []
            weight = 0
            if self._give_up_at is None and self._due_at > now:
                return group
            while self._calls and (
                not group or weight + self._calls[0].weight <= self._group_limit
            ):
                group.append(self._calls.popleft())
                weight += group[-1].weight
            self._due_at = min((each.due_at for each in self._calls), default=math.inf)
            self._group = group
            return group

    def _commit_somehow(self, group: list[_Call]) -> bool:
        """Return whether the group is committed; it is not only when the writer gave up."""
        delay_s = FIRST_RETRY_S
        in_doubt = committed = wrote = False
        while True:
            began_at = time.monotonic()
            try:
                if not committed:
                    wrote = self._commit(group)
                    committed = True
                # Nobody is told of what went into a file that is not there any more.
                self._custody.check()
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be lost by it
                in_doubt = in_doubt or committed or may_have_written(error)
                if not in_doubt:
                    self._undone(group)
                self._note(error)
                if not self._pause(delay_s):
                    return False
                delay_s = min(2 * delay_s, LAST_RETRY_S)
            else:
                commit_s = time.monotonic() - began_at
                self.commit_s.observe(commit_s)
                self._resolve(group, wrote=wrote)
                self._tell_overload(commit_s)
                return True

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Begin a transaction, and commit it at the end; what fails in it is raised, undone."""
        if self._connection is None:
            self._connection = self._engine.connect()
        connection = self._connection
        try:
            with connection.begin():
                # After the lock is taken: a connection that is new may be one to another file.
                self._custody.check()
                yield connection
        except Exception as error:
            if isinstance(error, StoreReplaced) or not is_outside_transaction(connection):
                self._drop_connection()
            raise

    def _commit(self, group: list[_Call]) -> bool:
        """Commit the calls; return whether anything went to the disk with them."""
        with self._transaction() as connection:
            broken = self._broken
            for call in group:
                if call.builds and broken:
                    call.refusal = OutOfOrder("a change that it builds on was refused")
                    continue
                call.refusal = self._apply(connection, call, alone=len(group) == 1)
                broken = broken or (call.builds and call.refusal is not None)
            counted = None
            if any(call.changes and call.refusal is None for call in group):
                counted = self._custody.count(connection, self._wall_clock())
        if counted is not None:
            self._custody.committed(counted)
        return counted is not None

    def _look(self) -> None:
        """See whether the files are there, so that health tells it while nobody writes, too.

        What could not be written may have been taken back since: so after a failure it takes a
        commit that reaches the disk to say that all is well.
        """
        try:
            self._custody.check()
            if self._problem:
                with self._transaction() as connection:
                    counted = self._custody.count(connection, self._wall_clock())
                self._custody.committed(counted)
        except Exception as error:  # noqa: BLE001 - whatever it is, health tells it
            self._note(error)
        else:
            problem, self._problem = self._problem, ""
            if problem:
                _log.info("store_writable_again")

    def _keep_up(self) -> None:
        """Throw away some of what nobody needs any more; soon again while there is more of it."""
        more = False
        self._custody.sync()
        try:
            with self._transaction() as connection:
                more = forget_some(connection, now=self._wall_clock(), audit=self._audit)
        except Exception as error:  # noqa: BLE001 - nobody waits for it: it is tried again later
            _log.warning("store_upkeep_failed", error=str(getattr(error, "orig", None) or error))
        self._upkeep_at = time.monotonic() + (UPKEEP_PAUSE_S if more else UPKEEP_EACH_S)

    def _apply(self, connection: Connection, call: _Call, *, alone: bool) -> Exception | None:
        """Write one call's changes; return why they are refused, with nothing of them written.

        One that is `alone` needs no savepoint: its transaction is all there is to roll back.
        """
        with self._changed:
            if call.withdrawn:
                return Withdrawn("it was taken back, since the store took too long")
            call.applied = True
        if not alone:
            connection.exec_driver_sql("SAVEPOINT call")
        try:
            apply_changes(connection, call.changes, now=self._wall_clock())
        except Exception as error:
            if is_passing(error):
                raise
            if alone:
                connection.exec_driver_sql("ROLLBACK")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return error
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT call")
            connection.exec_driver_sql("RELEASE SAVEPOINT call")
            return error
        if not alone:
            connection.exec_driver_sql("RELEASE SAVEPOINT call")
        return None

    def _undone(self, group: list[_Call]) -> None:
        """Let calls be taken back again whose transaction failed and left nothing behind."""
        with self._changed:
            for call in group:
                call.applied = False

    def _resolve(self, group: list[_Call], *, wrote: bool) -> None:
        ended = self._problem if wrote else ""
        if wrote:
            self._problem = ""
        self._count_off(group)
        self._broken = self._broken or any(c.builds and c.refusal is not None for c in group)
        for call in group:
            if call.refusal is None:
                call.future.set_result(None)
            else:
                call.future.set_exception(call.refusal)
        if ended:
            _log.info("store_writable_again")

    def _count_off(self, group: list[_Call]) -> None:
        with self._changed:
            for call in group:
                self._count(call, -call.weight)

    def _count(self, call: _Call, weight: int) -> None:
        self._pending += weight
        self._pending_builds += weight if call.builds else 0

    def _tell_overload(self, commit_s: float) -> None:
        """Say when a group took long, or much of the engine's waits although one is committed.

        What users send does not count: it is refused when it is too much, and slows nobody's runs.
        """
        sentence = ""
        if commit_s >= SLOW_COMMIT_S:
            sentence = f"a commit of the store's took {commit_s:.1f} s"
        elif self._pending_builds > CROWDED_SHARE * self._max_pending:
            sentence = f"{self._pending_builds} changes wait to be written to the store"
        now = time.monotonic()
        if sentence and self.on_overload is not None and now >= self._told_at + TELL_EVERY_S:
            self._told_at = now
            self.on_overload(sentence)

    def _note(self, error: Exception) -> None:
        cause = getattr(error, "orig", None) or error
        before = self._problem
        self._problem = f"the store cannot be written, trying again: {cause}"
        if self._problem != before:
            _log.error("store_not_writable", error=str(cause), pending=self._pending)

    def _pause(self, delay_s: float) -> bool:
        """Wait for `delay_s`; return whether another try is allowed."""
        with self._changed:
            self._changed.wait_for(self._must_give_up, timeout=delay_s)
            return not self._must_give_up()

    def _must_give_up(self) -> bool:
        return self._give_up_at is not None and time.monotonic() >= self._give_up_at

    def _abandon(self, group: list[_Call]) -> None:
        self.abandoned = True
        with self._changed:
            group += self._calls
            self._calls.clear()
        self._count_off(group)
        for call in group:
            if call.applied:
                call.future.set_exception(LeftInDoubt(f"written or not: {self._problem}"))
            else:
                call.future.set_exception(StoreClosed(f"never written: {self._problem}"))
        _log.error("store_closed_unwritten", calls=len(group), problem=self._problem)

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.close()
        except Exception as error:  # noqa: BLE001 - it is thrown away; the next one is what counts
            _log.warning("store_connection_lost", error=str(error))


def _weight(change: Change) -> int:
    return len(change.containers) if isinstance(change, InsertContainers | InsertJob) else 1
