"""The control group of an attempt: limits, killing all in it, and whether memory ran out."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

from longshore.pool.runner.machine import read_text

ROOT = "/sys/fs/cgroup"
CPU_PERIOD_US = 100_000
MIN_QUOTA_US = 1_000  # the kernel takes no less
EFD_NONBLOCK = 0o4000


def unified() -> bool:
    """Return whether this machine has version 2 only (a hybrid one counts as version 1)."""
    return os.path.exists(f"{ROOT}/cgroup.controllers")


def problem() -> str:
    """Return why limits cannot be set here, "" when they can."""
    control = f"{ROOT}/cgroup.subtree_control" if unified() else f"{ROOT}/memory/cgroup.procs"
    return "" if os.access(control, os.W_OK) else "cannot write control groups (not root?)"


def create(name: str, *, memory_bytes: int, cpu_millis: int) -> None:
    """Make the group `PARENT/ATTEMPT` with its limits (0: none); OSError when it cannot be."""
    parent = name.partition("/")[0]
    if unified():
        _enable(ROOT)
        for group in (parent, name):
            os.makedirs(f"{ROOT}/{group}", exist_ok=True)
            _enable(f"{ROOT}/{group}")
        if memory_bytes:
            _write(f"{ROOT}/{name}/memory.max", memory_bytes)
            _write_if_there(f"{ROOT}/{name}/memory.swap.max", 0)
        if cpu_millis:
            limit_cpus(name, cpu_millis)
        return
    os.makedirs(f"{ROOT}/cpu/{name}", exist_ok=True)
    os.makedirs(f"{ROOT}/memory/{parent}", exist_ok=True)
    if read_text(f"{ROOT}/memory/{parent}/memory.use_hierarchy").strip() == "0":
        _write(f"{ROOT}/memory/{parent}/memory.use_hierarchy", 1)
    os.makedirs(f"{ROOT}/memory/{name}", exist_ok=True)
    if memory_bytes:
        _write(f"{ROOT}/memory/{name}/memory.limit_in_bytes", memory_bytes)
        _write_if_there(f"{ROOT}/memory/{name}/memory.memsw.limit_in_bytes", memory_bytes)
    if cpu_millis:
        limit_cpus(name, cpu_millis)


def limit_cpus(name: str, cpu_millis: int) -> None:
    """Let all in a group use so much of cpus from now on (0: without limit).

    OSError when it cannot be set: then what was set before holds.
    """
    quota_us = max(MIN_QUOTA_US, cpu_millis * CPU_PERIOD_US // 1000)
    if unified():
        _write(f"{ROOT}/{name}/cpu.max", f"{quota_us if cpu_millis else 'max'} {CPU_PERIOD_US}")
        return
    _write(f"{ROOT}/cpu/{name}/cpu.cfs_period_us", CPU_PERIOD_US)
    _write(f"{ROOT}/cpu/{name}/cpu.cfs_quota_us", quota_us if cpu_millis else -1)


def open_oom_event(name: str) -> int:
    """Return a descriptor that becomes readable when the group runs out of memory, -1 on v2.

    Version 1 counts `oom_kill` only in the victim's own group, which the engine makes below ours
    and removes with the container; `failcnt` of ours also grows when the page cache fills. Only
    this event tells for certain. The supervisor inherits it and so keeps it without us. Version 2
    has `memory.events`, which counts for the whole subtree.
    """
    if unified():
        return -1
    event = ctypes.CDLL(None, use_errno=True).eventfd(0, EFD_NONBLOCK)
    if event < 0:
        raise OSError(ctypes.get_errno(), "no eventfd")
    # Inheritance is asked for at the spawn; before that no other child may get it.
    os.set_inheritable(event, False)
    group = f"{ROOT}/memory/{name}"
    control = os.open(f"{group}/memory.oom_control", os.O_RDONLY)
    try:
        _write(f"{group}/cgroup.event_control", f"{event} {control}")
    except OSError:
        os.close(event)
        raise
    finally:
        os.close(control)
    return int(event)


def memory_events(name: str) -> str:
    """Return the path of the file that counts out-of-memory kills, "" on version 1."""
    return f"{ROOT}/{name}/memory.events" if unified() else ""


def tree(name: str) -> str:
    """Return where all of a group's processes are found: in this directory and those below."""
    return f"{ROOT}/{name}" if unified() else f"{ROOT}/memory/{name}"


def kill(name: str) -> None:
    """Kill every process in the group and below it, without the engine's help."""
    if unified() and os.path.exists(f"{ROOT}/{name}/cgroup.kill"):
        _write_if_there(f"{ROOT}/{name}/cgroup.kill", 1)
        return
    for directory, _, _ in os.walk(tree(name)):
        for pid in read_text(f"{directory}/cgroup.procs").split():
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.kill(int(pid), signal.SIGKILL)


def remove(name: str) -> None:
    """Remove a group in which nothing runs; what cannot be removed stays."""
    for directory in directories(name):
        if os.path.isdir(directory):
            with contextlib.suppress(OSError):  # the engine is not quite done with it
                os.rmdir(directory)


def directories(name: str) -> list[str]:
    """Return where the group may lie; the engine spreads it over every controller of v1."""
    if unified():
        return [f"{ROOT}/{name}"]
    return [f"{ROOT}/{controller}/{name}" for controller in sorted(os.listdir(ROOT))]


def _enable(directory: str) -> None:
    # That of disks limits nothing: it only counts, and a kernel may do without.
    counting = {"io"}.intersection(read_text(f"{directory}/cgroup.controllers").split())
    for controller in ("cpu", "memory", "pids", *counting):
        _write_if_there(f"{directory}/cgroup.subtree_control", f"+{controller}")


def _write(path: str, value: object) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def _write_if_there(path: str, value: object) -> None:
    try:
        _write(path, value)
    except OSError as error:
        sys.stderr.write(f"{path}: {error}\n")
