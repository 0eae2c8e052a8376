"""Who belongs to an attempt without a container, wherever it has moved to.

Whatever it has started is below its supervisor, since orphans fall to that (see `spawning`), unless
the kernel does not let it or the supervisor was killed. A mark in the environment is lost by
`env -i`, and can be set by anybody. What a job cannot do without is its output: whoever has a pipe
of the attempt open and is of the user to whom that belongs is of the job. One of another user's,
who was handed it, is not: a job shall not get a service of the machine killed by giving it a
descriptor.

The supervisor and who takes the output have the pipes open, too. They also have a file of the
attempt open that no job is given, and that none of another user's can open (`own_files`).
"""

from __future__ import annotations

import contextlib
import os
from typing import Iterable, Iterator, Tuple

from longshore.pool.runner import machine
from longshore.pool.runner.machine import environment, processes, read_text
from longshore.pool.runner.spool import STREAMS, Spool

Identity = Tuple[int, int]  # of a file: its device and inode


def found(spool: Spool, attempt_ids: Iterable[str]) -> dict[str, list[int]]:
    """Return the processes of each attempt, ours included: one look at all of the machine."""
    by_attempt: dict[str, list[int]] = {each: [] for each in attempt_ids}
    below = _below(spool, by_attempt)
    pipes: dict[Identity, tuple[str, int]] = {}
    for attempt_id in by_attempt:
        for stream in STREAMS:
            with contextlib.suppress(FileNotFoundError):  # it was collected
                pipe = os.stat(spool.pipe(attempt_id, stream))
                pipes[pipe.st_dev, pipe.st_ino] = attempt_id, pipe.st_uid
    users = {user for _, user in pipes.values()}
    for pid in processes():
        names = by_attempt.keys() & marks(spool.places.name, pid)
        user = _user(pid)
        if user in users:  # no look at what others have open
            held = (pipes[each] for each in open_files(pid) if each in pipes)
            names |= {attempt_id for attempt_id, owner in held if owner == user}
        for attempt_id in names | below.get(pid, set()):
            by_attempt[attempt_id].append(pid)
    return by_attempt


def _below(spool: Spool, attempt_ids: Iterable[str]) -> dict[int, set[str]]:
    """Return of which attempts a process is by its parents: all that is below their supervisors."""
    children = machine.children()
    below: dict[int, set[str]] = {}
    for attempt_id in attempt_ids:
        supervisor = spool.supervisor(attempt_id)
        # Else it has ended, and another may have its pid.
        if not supervisor or own_files(spool, attempt_id).isdisjoint(open_files(supervisor)):
            continue
        found = [supervisor]
        for pid in found:
            found += children.get(pid, [])
            below.setdefault(pid, set()).add(attempt_id)
    return below


def own_files(spool: Spool, attempt_id: str) -> frozenset[Identity]:
    """Return the files of an attempt that only its supervisor and who takes its output have open.

    A job of our own user's could open them as well, but that one could kill us, too.
    """
    files = set()
    for path in (spool.collected(attempt_id), spool.path(attempt_id, "lock")):
        with contextlib.suppress(FileNotFoundError):  # it is being released
            seen = os.stat(path)
            files.add((seen.st_dev, seen.st_ino))
    return frozenset(files)


def open_files(pid: int) -> Iterator[Identity]:
    """Yield what a process has open; nothing when it has ended or we may not know."""
    directory = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            with contextlib.suppress(OSError):  # it was closed
                # Never opened: to open a pipe hangs while somebody holds it.
                seen = os.stat(f"{directory}/{name}")
                yield seen.st_dev, seen.st_ino


def marks(spool_name: str, pid: int) -> set[str]:
    """Return the attempts whose mark a process carries.

    The mark names the spool too: another on this machine may know an attempt by the same id.
    """
    variables = environment(pid)
    if f"LONGSHORE_SPOOL={spool_name}" not in variables:
        return set()
    key = "LONGSHORE_ATTEMPT_ID="
    return {each[len(key) :] for each in variables if each.startswith(key)}


def _user(pid: int) -> int:
    """Return whose a process is, -1 when it has ended.

    The owner of its directory does not tell: that is root where it has forbidden to be dumped.
    """
    fields = read_text(f"/proc/{pid}/status").partition("\nUid:")[2].split()
    return int(fields[0]) if fields else -1
