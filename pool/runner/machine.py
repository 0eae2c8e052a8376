"""What the runner asks the machine it is on: boot, processes, load, free room, programs."""

from __future__ import annotations

import os
from typing import Mapping

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read_text(path: str) -> str:
    """Return the text of a small file, "" when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 when there is none.

    Together with the pid it identifies a process: a reused pid has another start.
    """
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def parent(pid: int) -> int:
    """Return the parent of a process, 0 when there is none."""
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def processes() -> list[int]:
    """Return the pids of all processes that there are."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def children() -> dict[int, list[int]]:
    """Return the children of each process that has any."""
    found: dict[int, list[int]] = {}
    for pid in processes():
        fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(fields) > 1:  # else it has ended
            found.setdefault(int(fields[1]), []).append(pid)
    return found


def environment(pid: int) -> list[str]:
    """Return what a process was started with as `NAME=value`; nothing when we may not know."""
    return read_text(f"/proc/{pid}/environ").split("\0")


def uptime_cs() -> int:
    """Return how long the machine is up in hundredths of seconds, sleep included.

    From where a shell script reads it too: where that file tells of something smaller than the
    machine, as in some system containers, the kernel's own clocks differ from it.
    """
    return int(read_text("/proc/uptime").partition(" ")[0].replace(".", ""))


def load() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def oom_score() -> int:
    """Return our own `oom_score_adj`: who has no privileges can give a child no lower one."""
    told = read_text("/proc/self/oom_score_adj").strip()
    return int(told) if told.lstrip("-").isdecimal() else 0


def size(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the cpus that may be used here and the bytes of memory; None where nobody can tell.

    `$LONGSHORE_MACHINE` ("CPUS BYTES") says so where the machine is not ours alone, as in a system
    container; any other word in it that nothing here is the instance's own.
    """
    told = environ.get("LONGSHORE_MACHINE", "").split()
    if len(told) == 2 and all(each.isdecimal() for each in told):
        cpus, memory_bytes = int(told[0]), int(told[1])
    elif told:
        return None
    else:
        cpus, memory_bytes = len(os.sched_getaffinity(0)), _memory("MemTotal")
    return (cpus, memory_bytes) if cpus and memory_bytes else None


def memory_free_bytes() -> int:
    """Return how much memory could be had without swapping."""
    return _memory("MemAvailable")


def _memory(name: str) -> int:
    for line in read_text("/proc/meminfo").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def disk_free_bytes(path: str) -> int:
    """Return the room that is left for us on the file system of `path`."""
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize


def find_program(name: str, search_path: str = SYSTEM_PATH) -> str:
    """Return the absolute path of a program, "" when it is not installed."""
    candidates = [name] if "/" in name else [f"{d}/{name}" for d in search_path.split(":") if d]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""
