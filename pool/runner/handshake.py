"""Before a session: who speaks, whether it may, and that the session before it ends."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from typing import Any, NamedTuple

from longshore.pool.runner import machine, wire
from longshore.pool.runner.interruption import parse_watch
from longshore.pool.runner.lease import Terms, parse_terms
from longshore.pool.runner.spool import Spool
from longshore.pool.runner.wire import ProtocolError, Refusal

HELLO_TIMEOUT_S = 60
TAKE_OVER_TIMEOUT_S = 5.0
TAKE_OVER_POLL_S = 0.005
SIGNATURE_BYTES = 64
MIN_HEARTBEAT_S = 0.05
MAX_STORE_CHARACTERS = 128
MAX_HEARTBEAT_S = 3600.0


class Greeting(NamedTuple):
    """What the dispatcher said first, and what came with it: lines, and the start of one."""

    epoch: int
    heartbeat_interval_s: float
    lease: Terms | None
    interruption_watch: str
    store: str
    lines: wire.LineBuffer
    rest: list[bytes]


def read_hello(source: int, *, cluster: str, runner_sha256: str) -> Greeting:
    """Read the dispatcher's hello and check it against who we are.

    Refusal is to be answered as `refused`; ProtocolError when what comes is no hello.
    """
    lines = wire.LineBuffer()
    complete: list[bytes] = []
    deadline = time.monotonic() + HELLO_TIMEOUT_S
    poll = select.poll()
    poll.register(source, select.POLLIN)
    while not complete:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise ProtocolError(f"no hello within {HELLO_TIMEOUT_S} s")
        data = os.read(source, 65_536)
        if not data:
            raise ProtocolError("the other side ended without a hello")
        complete = lines.feed(data)
    message = wire.decode(complete[0])
    if message.get("type") != "hello":
        raise ProtocolError("the first line is no hello")
    _check(message, cluster=cluster, runner_sha256=runner_sha256)
    epoch, terms = wire.count_field(message, "epoch"), parse_terms(message.get("lease"))
    watch = parse_watch(message.get("interruption_watch"))
    store = _store(message)
    return Greeting(epoch, _interval_s(message), terms, watch, store, lines, complete[1:])


def _check(message: dict[str, Any], *, cluster: str, runner_sha256: str) -> None:
    if message.get("protocol") != wire.PROTOCOL:
        raise Refusal("protocol", f"this runner speaks protocol {wire.PROTOCOL}")
    if message.get("cluster") != cluster:
        raise Refusal("cluster", f"this runner was called for cluster {cluster!r}")
    if message.get("runner_sha256") != runner_sha256:
        raise Refusal("sha256", f"this is runner {runner_sha256}")


def _store(message: dict[str, Any]) -> str:
    store = message.get("store", "")
    if not isinstance(store, str) or len(store) > MAX_STORE_CHARACTERS:
        raise Refusal("invalid", f"store must be text of at most {MAX_STORE_CHARACTERS} characters")
    return store


def _interval_s(message: dict[str, Any]) -> float:
    interval = message.get("heartbeat_interval_s", 5)
    if isinstance(interval, bool) or not isinstance(interval, (int, float)):
        raise ProtocolError("heartbeat_interval_s is no number")
    return min(MAX_HEARTBEAT_S, max(MIN_HEARTBEAT_S, interval))


def take_over(spool: Spool, epoch: int) -> int:
    """End an older session, if there is one, and return the lock that makes ours the only one.

    Refusal "epoch" when a later leader has been here. Keep the lock open while the session lives.
    """
    lock = os.open(os.path.join(spool.places.spool, "session"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _check_epoch(spool, epoch)
        _lock(lock)
        # Once more, since a later leader may have come while we waited.
        _check_epoch(spool, epoch)
    except BaseException:
        os.close(lock)
        raise
    sign(lock)
    spool.remember_epoch(epoch)
    return lock


def idle_lock(spool: Spool) -> int | None:
    """Return the lock of the session when nobody has it, else None."""
    lock = os.open(os.path.join(spool.places.spool, "session"), os.O_RDWR | os.O_CREAT, 0o600)
    if _try_lock(lock):
        return lock
    os.close(lock)
    return None


def sign(lock: int) -> None:
    """Say in the lock who has it, so that a newer session knows whom to ask.

    Always as many bytes, over the last ones: there may be no room for others.
    """
    own = f"{os.getpid()} {machine.start_ticks(os.getpid())}\n"
    os.pwrite(lock, own.encode().rjust(SIGNATURE_BYTES), 0)


def _check_epoch(spool: Spool, epoch: int) -> None:
    known = spool.epoch()
    if epoch < known:
        raise Refusal("epoch", f"epoch {epoch} is over, {known} leads")


def _lock(lock: int) -> None:
    """Get the lock; its holder is asked to end, and made to if it does not."""
    began = time.monotonic()
    asked: tuple[int, int] = (0, 0)
    while not _try_lock(lock):
        waited_s = time.monotonic() - began
        if waited_s >= 2 * TAKE_OVER_TIMEOUT_S:
            raise ProtocolError("an older session cannot be ended")
        late = waited_s >= TAKE_OVER_TIMEOUT_S
        asked = _ask(lock, asked, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(TAKE_OVER_POLL_S)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ask(lock: int, asked: tuple[int, int], number: signal.Signals) -> tuple[int, int]:
    """Signal the holder of the lock once (or, to kill, as long as it takes)."""
    fields = os.pread(lock, SIGNATURE_BYTES, 0).split()
    if len(fields) != 2:
        return asked
    holder = int(fields[0]), int(fields[1])
    again = holder != asked or number == signal.SIGKILL
    if again and machine.start_ticks(holder[0]) == holder[1]:
        try:
            os.kill(holder[0], number)
        except ProcessLookupError:
            return asked
    return holder
