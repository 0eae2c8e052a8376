"""The control group of a job without a container: whatever it starts stays in it.

A process leaves its process group by `setsid`, its parent by a double fork and its environment by
`env -i`, but its control group only as root. It limits nothing here; it is there to be killed, and
in version 2 to have counted what the job takes, where the machine lets us have the controllers.
"""

from __future__ import annotations

import contextlib
import os
import signal

from longshore.pool.runner import cgroups
from longshore.pool.runner.machine import read_text

KILL_PASSES = 100
COUNTING = ("memory", "io")


def hierarchies() -> list[str]:
    """Return where groups may be made here, the best first: any hierarchy holds processes."""
    if os.geteuid() != 0:
        return []
    names = ("",) if cgroups.unified() else ("/unified", "/pids", "/freezer", "/systemd")
    roots = [cgroups.ROOT + name for name in names]
    return [root for root in roots if os.access(f"{root}/cgroup.procs", os.W_OK)]


def create(group: str) -> None:
    """Make a group, and the one of all our attempts above it; OSError when it cannot be."""
    parent = os.path.dirname(group)
    with contextlib.suppress(FileExistsError):
        os.mkdir(parent, 0o755)
        count(parent)
    os.mkdir(group, 0o755)


def count(parent: str) -> None:
    """Have memory and disks counted for each group in one of version 2, as far as may be."""
    for controller in read_text(f"{parent}/cgroup.controllers").split():
        if controller in COUNTING:
            with contextlib.suppress(OSError):  # then it is counted by processes
                _write(f"{parent}/cgroup.subtree_control", f"+{controller}".encode())


def is_version_2(group: str) -> bool:
    """Return whether a group belongs to a hierarchy of version 2, in which one can be born."""
    return os.path.exists(f"{group}/cgroup.events")


def members(group: str) -> list[int]:
    """Return the processes of a group; one that is gone has none."""
    return [int(pid) for pid in read_text(f"{group}/cgroup.procs").split()]


def kill(group: str) -> None:
    """Kill all in a group; one that is gone is no error."""
    try:
        _write(f"{group}/cgroup.kill", b"1")
    except OSError:
        _kill_one_by_one(group)  # version 1, or Linux before 5.14


def _kill_one_by_one(group: str) -> None:
    with contextlib.suppress(OSError):  # not its controller: then it takes more passes
        _write(f"{group}/pids.max", b"0")
    for _ in range(KILL_PASSES):
        pids = members(group)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return


def remove(group: str) -> bool:
    """Remove a group, and the one above when it was the last; False while something is in it."""
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    with contextlib.suppress(OSError):  # other attempts are in it
        os.rmdir(os.path.dirname(group))
    return True


def groups_below(parent: str) -> list[str]:
    """Return the groups of attempts in the one of them all, sorted; none when there is none."""
    try:
        return sorted(entry.path for entry in os.scandir(parent) if entry.is_dir())
    except FileNotFoundError:
        return []


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
