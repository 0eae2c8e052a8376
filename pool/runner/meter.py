"""Who looks at what attempts take, and when: the collector, since it is there while anything runs.

Two write it down, each in a file of its own, so that neither can undo the other's. `Meter` looks at
what runs again and again; what it has seen so far lies in `sampled` of the attempt's spool after
each look, so that the next collector goes on from there. `finish` reads the counters once more when
the attempt has an exit record, while its supervisor and its control group are still there, and
writes `usage`. That is told with the exit; an attempt whose supervisor was killed has what was
sampled.

Looks come at times that are the same for all, so that one wake-up serves many: soon after the start
of each, since most are short, then less often, until it is every four seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time

from longshore.pool.runner import cgroups, containment, machine
from longshore.pool.runner.gpus import GpuUse, GpuWatch
from longshore.pool.runner.spool import Spool, SpooledAttempt, write_whole
from longshore.pool.runner.usage import (
    SAMPLED,
    USAGE,
    Reading,
    Samples,
    of_group,
    of_groups_v1,
    of_processes,
    of_waited_for,
    read_samples,
)

FIRST_INTERVAL_S = 0.25
LONGEST_INTERVAL_S = 4.0
INTERVALS_AN_AGE = 4  # so often it is looked at in the time that it has run already


# ---- while it runs -------------------------------------------------------------------------------


class Meter:
    """Looks at attempts while they run; it keeps what it has seen in the spool."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._attempts: dict[str, SpooledAttempt] = {}
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}
        path = ":".join((os.environ.get("PATH", ""), machine.SYSTEM_PATH))
        self._gpus = GpuWatch(machine.find_program("nvidia-smi", path))

    def follow(self, attempt: SpooledAttempt, now: float) -> None:
        """Look at an attempt from now on; `now` is of the clock since boot."""
        name = attempt.attempt_id
        if name not in self._due:
            self._attempts[name] = attempt
            self._since[name] = now
            self._due[name] = _next(now, FIRST_INTERVAL_S)

    @property
    def due_at(self) -> float | None:
        """Return when the next look is due, None when nothing is looked at."""
        return min(self._due.values(), default=None)

    def tick(self, now: float) -> None:
        """Look at what is due, and no more at what has ended."""
        due = sorted(name for name, at in self._due.items() if at <= now)
        bare = [n for n in due if self._attempts[n].engine == "process" and not self._grouped(n)]
        children = machine.children() if bare else {}
        for name in due:
            if not self._is_running(name):
                del self._attempts[name], self._since[name], self._due[name]
                continue
            age_s = now - self._since[name]
            self._due[name] = _next(now, age_s / INTERVALS_AN_AGE)
            with contextlib.suppress(OSError):  # the spool is full: what was seen before stays
                self._look(name, children, now)
        if due:
            with contextlib.suppress(OSError):  # nothing can be spawned now: it is asked later
                self._look_at_gpus(now)

    def _look_at_gpus(self, now: float) -> None:
        if not self._attempts:
            self._gpus.rest()
            return
        uses: dict[str, list[GpuUse]] = {}
        for use in self._gpus.tick(now):
            uses.setdefault(self._owner(use.pid), []).append(use)
        for name in sorted(self._attempts.keys() & uses.keys()):
            before = read_samples(self._spool.path(name, SAMPLED)) or Samples(self._since[name])
            _write(self._spool.path(name, SAMPLED), before.with_gpus(uses[name]))

    def _owner(self, pid: int) -> str:
        """Return the attempt that a process is of, "" for none of ours."""
        mark = f"/{self._spool.places.name}/"
        group = machine.read_text(f"/proc/{pid}/cgroup").partition(mark)[2]
        if group:
            return re.split("[/\n]", group, maxsplit=1)[0]
        supervisors = {self._spool.supervisor(name): name for name in self._attempts}
        supervisors.pop(0, None)  # of those that are not recorded yet
        while pid > 1 and pid not in supervisors:
            pid = machine.parent(pid)
        return supervisors.get(pid, "")

    def _grouped(self, name: str) -> bool:
        return bool(self._attempts[name].cgroup)

    def _is_running(self, name: str) -> bool:
        spool = self._spool
        return spool.recorded(name) is None and os.path.exists(spool.path(name))

    def _look(self, name: str, children: dict[int, list[int]], now: float) -> None:
        attempt = self._attempts[name]
        reading = _of_its_group(attempt)
        if reading.memory_bytes is None and attempt.engine == "process":
            supervisor = self._spool.supervisor(name)
            pids = containment.members(attempt.cgroup) if attempt.cgroup else []
            if supervisor and not pids:  # else it is not recorded yet, and all descend from 0
                pids = _below(supervisor, children)
            reading = reading.or_else(of_processes(set(pids) - {supervisor}))
        before = read_samples(self._spool.path(name, SAMPLED)) or Samples(self._since[name])
        _write(self._spool.path(name, SAMPLED), before.after(reading, now))


def _next(now: float, interval_s: float) -> float:
    """Return the next of the moments at which all are looked at, after about an interval."""
    step_s = FIRST_INTERVAL_S
    while step_s * 2 <= min(interval_s, LONGEST_INTERVAL_S):
        step_s *= 2
    return (now // step_s + 1) * step_s


# ---- at its end ----------------------------------------------------------------------------------


def finish(spool: Spool, attempt: SpooledAttempt) -> None:
    """Write down what an attempt took in all; it has an exit record, and its supervisor waits.

    OSError when it cannot be written down: then what was sampled is told.
    """
    name = attempt.attempt_id
    reading = _of_its_group(attempt)
    if attempt.engine == "process":
        supervisor, started = spool.supervisor(name), spool.job(attempt)[1]
        # Another process may have the pid of one that was killed: it began later than the job.
        if 0 < machine.start_ticks(supervisor) <= started:
            reading = reading.or_else(of_waited_for(supervisor))
    samples = read_samples(spool.path(name, SAMPLED)) or Samples(time.monotonic())
    # What is in use by now is not of the program any more: no time is counted for it.
    _write(spool.path(name, USAGE), samples.after(reading._replace(memory_bytes=None), samples.at))


def _of_its_group(attempt: SpooledAttempt) -> Reading:
    if attempt.engine != "process":
        if cgroups.unified():
            return of_group(f"{cgroups.ROOT}/{attempt.cgroup}")
        return of_groups_v1(cgroups.ROOT, attempt.cgroup)
    return of_group(attempt.cgroup) if attempt.cgroup else Reading()


def _below(pid: int, children: dict[int, list[int]]) -> list[int]:
    """Return all that descend from a process."""
    found = list(children.get(pid, []))
    for each in found:  # it grows meanwhile
        found += children.get(each, [])
    return found


def _write(path: str, samples: Samples) -> None:
    write_whole(path, json.dumps(samples).encode())
