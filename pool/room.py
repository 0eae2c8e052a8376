"""Room on an instance: what a request takes of it; pure.

A request of no cpus shares one cpu with the others of its kind on the same instance: the first of
them takes a whole cpu, the others take none (SEMANTICS of the design, placement).
"""

from __future__ import annotations

from dataclasses import replace

from drivers.interface import Resources
from pool.model import Worker

SHARED_CPU_MILLIS = 1000


def shares_a_cpu(need: Resources) -> bool:
    """Return whether a request takes part in the one cpu that those of no cpus share."""
    return need.cpu_millis == 0


def charge(need: Resources, *, sharers: int) -> Resources:
    """Return what a request takes of an instance on which `sharers` share a cpu already."""
    if need.cpu_millis or sharers:
        return need
    return replace(need, cpu_millis=SHARED_CPU_MILLIS)


def clamped(amounts: Resources) -> Resources:
    """Return nothing in each dimension in which there is less than that; else what there is."""
    return Resources(
        cpu_millis=max(0, amounts.cpu_millis),
        memory_bytes=max(0, amounts.memory_bytes),
        disk_bytes=max(0, amounts.disk_bytes),
        gpus=max(0, amounts.gpus),
        custom=tuple((name, amount) for name, amount in amounts.custom if amount > 0),
    )


def room_left(worker: Worker) -> Resources:
    """Return what a worker has left for containers, added up anew."""
    left = worker.type.allocatable
    for sharers, attempt_id in enumerate(sorted(worker.sharing)):
        left = left.minus(charge(worker.attempts[attempt_id], sharers=sharers))
    for attempt_id, resources in worker.attempts.items():
        if attempt_id not in worker.sharing:
            left = left.minus(resources)
    return left
