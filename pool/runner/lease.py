"""The dead-man's lease: an instance that nobody contacts, and on which nothing runs, powers off.

Residents do not count as running: they belong to the instance, and a daemon never ends. It is due
`orphan_timeout_s` after the later of two moments: the last contact, and the last at which any other
attempt lived, since exits and logs that nobody has fetched yet deserve the same time. Whoever
holds the lock of the session (the session itself, or who watches after it) sees to it. Time is that
of CLOCK_BOOTTIME: nobody can set it, and it goes on while the machine sleeps.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from typing import Callable, NamedTuple

from longshore.pool.runner import machine
from longshore.pool.runner.launch import end_session
from longshore.pool.runner.scripts import POWER_OFF
from longshore.pool.runner.spawning import spawn
from longshore.pool.runner.spool import SpoolPaths, write_whole
from longshore.pool.runner.wire import Refusal, flag_field

MAX_COMMAND_CHARACTERS = 16_384
MAX_TIMEOUT_S = 10.0 * 366 * 86_400
# What waits is told of time by a clock that stops while the machine sleeps.
LONGEST_SLEEP_S = 60.0
FIRST_RETRY_S = 60.0
LONGEST_RETRY_S = 900.0
ATTACHED_MARK = "attached"  # known to pool/lease.py, whose script keeps the lease until it is there


class Terms(NamedTuple):
    """What the dispatcher asks for: when, what to run then, and whether it is on at all."""

    orphan_timeout_s: float
    power_off: str
    suspended: bool


def parse_terms(value: object) -> Terms | None:
    """Return the lease of a hello, None when it has none; Refusal says what is wrong with it."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Refusal("invalid", "lease must be an object")
    timeout_s, command = value.get("orphan_timeout_s"), value.get("power_off")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)):
        raise Refusal("invalid", "orphan_timeout_s must be a number")
    if not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise Refusal("invalid", "orphan_timeout_s must be above 0, and ten years at most")
    if not isinstance(command, str) or not 0 < len(command) <= MAX_COMMAND_CHARACTERS:
        raise Refusal("invalid", f"power_off must be text of 1 to {MAX_COMMAND_CHARACTERS}")
    if "\0" in command or not command.isascii():
        raise Refusal("invalid", "power_off must be ASCII, without a zero byte")
    return Terms(float(timeout_s), command, flag_field(value, "suspended"))


def boot_clock() -> float:
    """Return the seconds since boot, those included that the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class PowerOff:
    """Runs the command; its output, 64 KiB of the latest try, is in `power-off.log`."""

    def __init__(self, where: SpoolPaths, environ: dict[str, str]) -> None:
        self._log = os.path.join(where.runner, "power-off.log")
        self._environ = environ
        self._process = 0, 0

    def run(self, command: str, number: int) -> None:
        """Run the command for the `number`-th time, having ended an earlier one that hangs."""
        self.end()
        env = {os.fsencode(key): os.fsencode(value) for key, value in self._environ.items()}
        env.setdefault(b"PATH", machine.SYSTEM_PATH.encode())
        # Not among the arguments, which are everybody's to read: it may hold a token.
        env[b"_ls_command"] = command.encode()
        env[b"_ls_log"] = self._log.encode()
        env[b"_ls_try"] = b"%d" % number
        try:
            pid = spawn([b"sh", b"-c", POWER_OFF.encode()], env, {})
        except OSError as error:
            # It is tried again; who looks for the reason looks here, if this can be written.
            with contextlib.suppress(OSError):
                write_whole(self._log, f"try {number} could not begin: {error}\n".encode())
            return
        self._process = pid, machine.start_ticks(pid)

    def end(self) -> None:
        """End what is left of the last try, if anything is."""
        pid, ticks = self._process
        if pid:
            end_session(pid, ticks)
        self._process = 0, 0


class Lease:
    """The lease of this cluster on this machine; for whoever holds the lock of the session."""

    def __init__(
        self, where: SpoolPaths, power_off: PowerOff, clock: Callable[[], float] = boot_clock
    ) -> None:
        """Take up what is in force here, as if a contact had just been."""
        self._path = os.path.join(where.spool, "lease")
        self._mark = os.path.join(where.runner, ATTACHED_MARK)
        self._power_off = power_off
        self._clock = clock
        self._terms = self._written = self._read()
        self._write_at = 0.0
        self._quiet_since = clock()
        self._lived = False
        self._tries = 0
        self._next_at = 0.0

    @property
    def in_force(self) -> bool:
        """Return whether somebody has to keep it: there is one, and it is not suspended."""
        return self._terms is not None and not self._terms.suspended

    def agree(self, terms: Terms | None) -> None:
        """Take what a dispatcher's hello asks for, which is a contact.

        OSError when it cannot be written down; the session must not begin then. But a spool that is
        full keeps no dispatcher from coming to free it: see `_write`.
        """
        if terms is None:
            with contextlib.suppress(FileNotFoundError):  # there was none before
                os.unlink(self._path)
            self._written = None
        else:
            self._write(terms)
        self._terms = terms
        self.contact()
        # From now on it is ours to keep, and not the init script's any more.
        if not os.path.exists(self._mark):
            os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT, 0o600))

    def suspend(self, suspended: bool) -> None:
        """Change it at once; Refusal when there is none here, OSError: nothing changed."""
        if self._terms is None:
            raise Refusal("invalid", "this session's hello had no lease")
        if suspended != self._terms.suspended:
            terms = self._terms._replace(suspended=suspended)
            self._write(terms)
            self._terms = terms

    def contact(self) -> None:
        """Begin to wait anew: the dispatcher was heard."""
        if self._terms is None:
            return
        self._quiet_since = self._clock()
        if self._tries:
            self._tries = 0
            self._power_off.end()

    def leave(self) -> None:
        """Let go of it: somebody else keeps it from now on."""
        if self._tries:
            self._power_off.end()

    def tick(self, *, live: bool) -> float | None:
        """Power the machine off if it is time, and return in how many seconds to be called again.

        `live` tells whether an attempt lives that keeps the instance. None while nothing can come
        of it; but while one lives it must be called again and again, so as to know when the last
        one ended.
        """
        if self._terms not in (None, self._written) and self._clock() >= self._write_at:
            self._write(self._terms)
        if self._terms is None or self._terms.suspended:
            self._lived = live
            return None
        now = self._clock()
        if live or self._lived:
            self._quiet_since = now
        self._lived = live
        if live:
            return None
        due_at = self._next_at if self._tries else self._quiet_since + self._terms.orphan_timeout_s
        if now >= due_at:
            self._tries += 1
            self._power_off.run(self._terms.power_off, self._tries)
            due_at = self._next_at = now + self._retry_s(self._terms.orphan_timeout_s)
        return min(LONGEST_SLEEP_S, due_at - now)

    def _write(self, terms: Terms) -> None:
        """Write terms down for whoever keeps them next; on a full disk later: we know them."""
        if terms == self._written:
            return
        try:
            write_whole(self._path, json.dumps(terms).encode())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._write_at = self._clock() + LONGEST_SLEEP_S
        else:
            self._written = terms

    def _retry_s(self, orphan_timeout_s: float) -> float:
        first_s = min(FIRST_RETRY_S, orphan_timeout_s)
        return min(LONGEST_RETRY_S, first_s * 2.0 ** min(self._tries - 1, 20))

    def _read(self) -> Terms | None:
        text = machine.read_text(self._path)
        try:
            return Terms(*json.loads(text)) if text else None
        except (ValueError, TypeError):
            return None  # a loss of power left a part of it; the next hello brings it whole
