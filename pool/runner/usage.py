"""What an attempt really took: memory, processor time, bytes from and to disks; how it is read.

The kernel counts for a control group, also what has ended in it: that comes first. What it does not
count there is taken from processes. A job without a container is below its supervisor, which gets
the times and the bytes of all whose end was waited for. Memory nobody adds up for us: it is what
the processes have resident, at a look, so that what is shared counts for each, and what came and
went between two looks is seen only where one process alone had it (`VmHWM`).

A number that nobody can tell is missing. It is never 0. Who looks, and when, is told in `meter`.
"""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, NamedTuple

from longshore.pool.runner import machine
from longshore.pool.runner.gpus import GpuUse

SAMPLED = "sampled"  # what was seen while it ran
USAGE = "usage"  # and in all
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    """What was read at one moment; each None where it cannot be told.

    `memory_bytes` is what is in use now, `peak_bytes` the most that ever was.
    """

    memory_bytes: int | None = None
    peak_bytes: int | None = None
    cpu_seconds: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None

    def or_else(self, other: Reading) -> Reading:
        """Return this reading, with what it lacks from another."""
        return Reading._make(its if mine is None else mine for mine, its in zip(self, other))


class Samples(NamedTuple):
    """What was seen of an attempt so far: the last look was at `at`, by the clock since boot.

    `byte_seconds` is the memory in use over the `seconds` that were looked at.
    """

    at: float
    seconds: float = 0.0
    byte_seconds: float = 0.0
    peak_bytes: int | None = None
    cpu_seconds: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    #: Of GPUs: the most memory at a look, and the sum of how busy they were at so many looks.
    gpu_peak_bytes: int | None = None
    gpu_looks: int = 0
    gpu_busy: float = 0.0

    def after(self, reading: Reading, at: float) -> Samples:
        """Return what is seen after one more look; counters never go back."""
        seconds, byte_seconds = self.seconds, self.byte_seconds
        if reading.memory_bytes is not None:
            seconds += at - self.at
            byte_seconds += (at - self.at) * reading.memory_bytes
        return self._replace(
            at=at,
            seconds=seconds,
            byte_seconds=byte_seconds,
            peak_bytes=most(self.peak_bytes, reading.peak_bytes, reading.memory_bytes),
            cpu_seconds=most(self.cpu_seconds, reading.cpu_seconds),
            read_bytes=most(self.read_bytes, reading.read_bytes),
            written_bytes=most(self.written_bytes, reading.written_bytes),
        )

    def with_gpus(self, uses: list[GpuUse]) -> Samples:
        """Return what is seen after a look at the GPUs, at which its processes were on some."""
        memory = [use.memory_bytes for use in uses if use.memory_bytes is not None]
        busy = [use.utilization for use in uses if use.utilization is not None]
        return self._replace(
            gpu_peak_bytes=most(self.gpu_peak_bytes, sum(memory) if memory else None),
            gpu_looks=self.gpu_looks + bool(busy),
            gpu_busy=self.gpu_busy + (sum(busy) / len(busy) if busy else 0.0),
        )

    def fields(self) -> dict[str, Any]:
        """Return the USAGE that is told of an attempt; what is missing is not in it."""
        mean = round(self.byte_seconds / self.seconds) if self.seconds else None
        utilization = self.gpu_busy / self.gpu_looks if self.gpu_looks else None
        told = {
            "peak_memory_bytes": self.peak_bytes,
            "mean_memory_bytes": mean,
            "cpu_seconds": self.cpu_seconds,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "gpu_peak_memory_bytes": self.gpu_peak_bytes,
            "gpu_mean_utilization": utilization,
        }
        return {name: value for name, value in told.items() if value is not None}


def most(*values: Any) -> Any:
    """Return the largest of values, without those that are missing; None when all are."""
    return max((value for value in values if value is not None), default=None)


# ---- what the kernel writes ----------------------------------------------------------------------


def number_in(text: str) -> int | None:
    """Return the one number of a file, None where it has none (`max`, or nothing at all)."""
    word = text.strip()
    return int(word) if word.isdecimal() else None


def keyed(text: str, key: str) -> int | None:
    """Return the number behind a key, as of `cpu.stat` or a process's `status`; None for none."""
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0].rstrip(":") == key:
            return number_in(words[1])
    return None


def disk_bytes(text: str | None) -> tuple[int | None, int | None]:
    """Return the bytes read and written of an `io.stat`; it is empty before there are any."""
    if text is None:
        return None, None
    words = [word.partition("=") for line in text.splitlines() for word in line.split()[1:]]
    sums = {"rbytes": 0, "wbytes": 0}
    for name, _, value in words:
        if name in sums and value.isdecimal():
            sums[name] += int(value)
    return sums["rbytes"], sums["wbytes"]


def waited_for_s(stat: str) -> float | None:
    """Return the processor time of all whose end a process has waited for, of its `stat`."""
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 15:
        return None
    return (int(fields[13]) + int(fields[14])) / TICKS_A_SECOND


# ---- one look ------------------------------------------------------------------------------------


def of_group(group: str) -> Reading:
    """Return what the kernel counts for a group of version 2, which is the path of a directory.

    Without a controller it counts processor time alone. What is still to be written to a disk has
    been written as far as the program knows.
    """
    memory = number_in(machine.read_text(f"{group}/memory.current"))
    cpu_us = keyed(machine.read_text(f"{group}/cpu.stat"), "usage_usec")
    stat = machine.read_text(f"{group}/memory.stat") if memory is not None else ""
    read_bytes, written_bytes = disk_bytes(_text_or_none(f"{group}/io.stat"))
    if written_bytes is not None:
        written_bytes += (keyed(stat, "file_dirty") or 0) + (keyed(stat, "file_writeback") or 0)
    return Reading(
        _in_use(memory, keyed(stat, "inactive_file")),
        number_in(machine.read_text(f"{group}/memory.peak")) or None,
        None if cpu_us is None else cpu_us / 1e6,
        read_bytes,
        written_bytes,
    )


def of_groups_v1(root: str, name: str) -> Reading:
    """Return what the kernel counts for a group of version 1, in the hierarchies below `root`.

    Of disks that is too little to be told: most writes are its own there, and what a container did
    is forgotten with its group, which its engine removes before we look.
    """
    memory = number_in(machine.read_text(f"{root}/memory/{name}/memory.usage_in_bytes"))
    cpu_ns = number_in(machine.read_text(f"{root}/cpuacct/{name}/cpuacct.usage"))
    stat = machine.read_text(f"{root}/memory/{name}/memory.stat") if memory is not None else ""
    return Reading(
        _in_use(memory, keyed(stat, "total_inactive_file")),
        number_in(machine.read_text(f"{root}/memory/{name}/memory.max_usage_in_bytes")) or None,
        None if cpu_ns is None else cpu_ns / 1e9,
    )


def _in_use(memory_bytes: int | None, cached_bytes: int | None) -> int | None:
    """Return the memory that is in use, without what the kernel would give up before anything.

    None where a group has none: nothing runs in it yet, or any more.
    """
    return max(0, memory_bytes - (cached_bytes or 0)) if memory_bytes else None


def of_processes(pids: Iterable[int]) -> Reading:
    """Return the memory of processes; nothing when none of them is there any more."""
    resident, largest, found = 0, 0, False
    for pid in pids:
        status = machine.read_text(f"/proc/{pid}/status")
        memory_kib = keyed(status, "VmRSS")
        if memory_kib is not None:  # else it has just ended
            found = True
            resident += memory_kib * 1024
            largest = max(largest, (keyed(status, "VmHWM") or 0) * 1024)
    return Reading(resident, max(resident, largest)) if found else Reading()


def of_waited_for(supervisor: int) -> Reading:
    """Return the processor time and bytes of all whose end a supervisor has waited for."""
    io = machine.read_text(f"/proc/{supervisor}/io")
    return Reading(
        cpu_seconds=waited_for_s(machine.read_text(f"/proc/{supervisor}/stat")),
        read_bytes=keyed(io, "read_bytes"),
        written_bytes=keyed(io, "write_bytes"),
    )


def _text_or_none(path: str) -> str | None:
    """Return the text of a file that may be empty, None when it cannot be read."""
    return machine.read_text(path) if os.access(path, os.R_OK) else None


# ---- what is written down ------------------------------------------------------------------------


def told(directory: str) -> dict[str, Any]:
    """Return the USAGE of an ended attempt, whose directory it is; empty when nothing is known."""
    for name in (USAGE, SAMPLED):
        samples = read_samples(os.path.join(directory, name))
        if samples is not None:
            return samples.fields()
    return {}


def read_samples(path: str) -> Samples | None:
    """Return what was written down, None when nothing was."""
    text = machine.read_text(path)
    return Samples(*json.loads(text)[: len(Samples._fields)]) if text else None
