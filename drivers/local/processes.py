"""Which processes belong to an instance that is really this machine, and how they all end.

Everything that runs "on" such an instance carries `LONGSHORE_INSTANCE_ID=<its id>` in its
environment: the SSH server sets it, and the runner passes it on to every job. So what a job
detached is found too, whoever its parent is by now. What a job stripped of its environment is found
in the control group that the runner holds it in.
"""

from __future__ import annotations

import os
import pwd
import select
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from longshore.drivers.errors import CloudError

INSTANCE_VARIABLE = "LONGSHORE_INSTANCE_ID"

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HELD_AT_ONCE = 256
_POLL_S = 0.005


def login_environment(additions: Mapping[str, str]) -> dict[str, str]:
    """Return a fresh environment as a login of our own user would have it, with `additions`.

    Nothing of the dispatcher's own environment is in it: tokens and cloud credentials stay home.
    """
    environment = {"PATH": _SEARCH_PATH, "LANG": "C.UTF-8", "SHELL": "/bin/sh", "HOME": "/"}
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        return environment | dict(additions)
    names = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    return environment | names | dict(additions)


def start_time(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks since boot; None when it has ended.

    The pair of both identifies a process: a pid is used again, with another start time.
    """
    try:
        text = Path("/proc", str(pid), "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def processes_of(instance_id: str) -> list[int]:
    """Return the ids of all living processes of an instance, sorted; never our own."""
    marker = _marker(instance_id)
    return [pid for pid in _all_processes() if _carries(pid, marker)]


def end_processes(instance_id: str, *, timeout_s: float = 10.0) -> None:
    """Kill every process of an instance, as the end of its VM would, and wait until all are gone.

    Processes that are born meanwhile are found too. Raises `CloudError` when some are still there
    after `timeout_s` seconds (they hang in the kernel, or are not ours to kill); try again later.
    """
    deadline = time.monotonic() + timeout_s
    empty_scans = 0
    # A process may fork and end while one scan passes by its child, so one empty scan is no proof.
    while empty_scans < 2:
        with ExitStack() as held:
            descriptors = _hold(_marker(instance_id), held)
            empty_scans = 0 if descriptors else empty_scans + 1
            _kill(descriptors)
            _await_ends(descriptors, deadline)
        if descriptors and time.monotonic() >= deadline:
            left = ", ".join(map(str, processes_of(instance_id)))
            raise CloudError(f"processes of instance {instance_id} do not end: {left}")


def end_groups(name: str, *, timeout_s: float = 10.0) -> bool:
    """Kill whatever is in the control groups called `name`, of any hierarchy, and remove them.

    What a job started without our mark is there, too. Returns whether all of them are gone; they
    are not when after `timeout_s` seconds something is left that hangs in the kernel.
    """
    deadline = time.monotonic() + timeout_s
    tops = [_CONTROL_GROUPS / name, *sorted(_CONTROL_GROUPS.glob(f"*/{name}"))]
    while tops := [top for top in tops if top.exists()]:
        for top in tops:
            _empty_and_remove(top)
        if time.monotonic() >= deadline:
            return not any(top.exists() for top in tops)
        time.sleep(_POLL_S)
    return True


def _empty_and_remove(top: Path) -> None:
    for directory, _, _ in os.walk(top, topdown=False):
        group = Path(directory)
        with suppress(OSError):  # busy until the killed have ended, or gone already
            for pid in group.joinpath("cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            group.rmdir()


def _marker(instance_id: str) -> bytes:
    return f"{INSTANCE_VARIABLE}={instance_id}".encode()


def _all_processes() -> list[int]:
    own = os.getpid()
    found = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return sorted(pid for pid in found if pid != own)


def _carries(pid: int, marker: bytes) -> bool:
    try:
        environment = Path("/proc", str(pid), "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return marker in environment.split(b"\0")


def _hold(marker: bytes, held: ExitStack) -> list[int]:
    """Return descriptors of processes that carry `marker`, at most so many at once.

    The descriptor is taken before the environment is read (again): if the pid changes hands in
    between, the descriptor stands for the one that has ended, and a signal to it hits nobody.
    """
    descriptors: list[int] = []
    for pid in _all_processes():
        if len(descriptors) == _HELD_AT_ONCE:
            break
        if not _carries(pid, marker):
            continue
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        held.callback(os.close, descriptor)
        if _carries(pid, marker):
            descriptors.append(descriptor)
    return descriptors


def _kill(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # Ended by itself, or never ours to kill: the wait tells these apart.
            continue


def _await_ends(descriptors: Sequence[int], deadline: float) -> None:
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    left = len(descriptors)
    while left and (remaining_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in waiting.poll(remaining_s * 1000):
            waiting.unregister(descriptor)
            left -= 1
