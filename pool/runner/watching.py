"""Between sessions: somebody sees to it that logs are collected, keeps the lease and the spool.

It holds the lock of the session, so that the next one ends it as it would end a session.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import socket
import time
from typing import Iterable

from longshore.pool.runner import collector, handshake, inside
from longshore.pool.runner.launch import Launcher
from longshore.pool.runner.lease import Lease
from longshore.pool.runner.spool import Spool, SpooledAttempt, keep_instance

INTERVAL_S = 1.0
ANSWERED_MOST = 128  # connections of those who were told that there is no session


def detach(
    spool: Spool,
    launcher: Launcher,
    lease: Lease,
    *,
    lock: int,
    wakeup: int,
    doors: dict[str, socket.socket],
) -> None:
    """Leave a process behind if there is something to watch: live attempts, a lease in force.

    So too while containers of released attempts are still there, and where the spool would not
    stay without one: there are exits in it, and the epoch.
    `lock` is the session's, `wakeup` tells of signals, `doors` are the sockets inside of attempts;
    all are inherited.
    """
    try:
        live = [each for each in spool.attempts() if spool.ended(each.attempt_id) is None]
    except FileNotFoundError:
        return  # the instance is destroyed, and its files are gone
    if not (live or launcher.leaves or lease.in_force or spool.needs_keeper) or os.fork():
        return
    try:
        os.setsid()
        for target, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
            descriptor = os.open(os.devnull, flags)
            os.dup2(descriptor, target)
            os.close(descriptor)
        handshake.sign(lock)
        _watch(spool, launcher, lease, live, _Ears(wakeup, doors))
        lease.leave()
    finally:
        # Nothing of what our parent had in hand is ours to finish.
        os._exit(0)


class _Ears:
    """What a watcher hears: signals, and who asks inside of attempts, which it turns away."""

    def __init__(self, wakeup: int, doors: dict[str, socket.socket]) -> None:
        self._wakeup = wakeup
        self._doors = doors
        self._poll = select.poll()
        self._poll.register(wakeup, select.POLLIN)
        # Connections that were answered, the oldest first, and when each is closed.
        self._answered: collections.deque[tuple[float, socket.socket]] = collections.deque()
        for door in doors.values():
            self._poll.register(door, select.POLLIN)

    def wait(self, timeout_ms: float | None) -> bool:
        """Wait for anything, None for ever; return whether we are asked to end."""
        ready = {descriptor for descriptor, _ in self._poll.poll(timeout_ms)}
        now = time.monotonic()
        while self._answered and (
            self._answered[0][0] <= now or len(self._answered) > ANSWERED_MOST
        ):
            self._answered.popleft()[1].close()
        if self._wakeup in ready and signal.SIGTERM in os.read(self._wakeup, 4096):
            return True
        for name in [each for each in sorted(self._doors) if self._doors[each].fileno() in ready]:
            self._turn_away(name, now)
        return False

    def _turn_away(self, name: str, now: float) -> None:
        try:
            for client in inside.turn_away(self._doors[name]):
                self._answered.append((now + INTERVAL_S, client))
        except OSError:
            # No descriptor is to be had for who asks: nobody can any more till the next session.
            self._shut(name)

    def keep(self, live: Iterable[SpooledAttempt]) -> None:
        """Shut the doors of all but these."""
        for name in sorted(self._doors.keys() - {attempt.attempt_id for attempt in live}):
            self._shut(name)

    def _shut(self, name: str) -> None:
        self._poll.unregister(self._doors[name])
        self._doors.pop(name).close()


def _watch(
    spool: Spool, launcher: Launcher, lease: Lease, live: list[SpooledAttempt], ears: _Ears
) -> None:
    while True:
        if live:
            collector.ensure(spool)
        now = time.monotonic()
        leaving_at = launcher.tick(now)
        waits = [lease.tick(live=keep_instance(live)), INTERVAL_S if live else None]
        waits += [] if leaving_at is None else [max(0.0, leaving_at - now)]
        wait_s = min((each for each in waits if each is not None), default=None)
        if wait_s is None and not spool.needs_keeper:
            return
        if ears.wait(None if wait_s is None else wait_s * 1000):
            return
        launcher.reap()
        with contextlib.suppress(OSError):  # what it needs is not to be had now: in a second again
            launcher.free_pipes(live)
        live = [attempt for attempt in live if _lives(spool, launcher, attempt)]
        ears.keep(live)


def _lives(spool: Spool, launcher: Launcher, attempt: SpooledAttempt) -> bool:
    """Return whether an attempt runs, having ended what is left of one that does not any more."""
    with contextlib.suppress(OSError):  # what it needs is not to be had now: in a second again
        launcher.bury(attempt)
    if spool.read(attempt.attempt_id) is None:
        return False
    if spool.ended(attempt.attempt_id) is None:
        return True
    launcher.end_rest(attempt)
    return False
