"""Room on an instance: what a request takes of it; pure.

A request of no cpus shares one cpu with the others of its kind on the same instance: the first of
them takes a whole cpu, the others take none (SEMANTICS of the design, placement).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.model import MachineSize, Worker

SHARED_CPU_MILLIS = 1000
_USUAL_MEMORY: Final = 0.85
"""What a machine has at least of its type's memory as a rule: firmware and kernel keep the rest."""
_KEPT_BYTES: Final = 128 * 2**20
_KEPT_SHARE: Final = 64
"""What firmware and kernel keep at most of a machine as a rule: so much, and a 64th of the rest."""

_GIB: Final = 2**30


def shares_a_cpu(need: Resources) -> bool:
    """Return whether a request takes part in the one cpu that those of no cpus share."""
    return need.cpu_millis == 0


def charge(need: Resources, *, on_shared_cpu: int) -> Resources:
    """Return what a request takes of an instance on which `on_shared_cpu` share a cpu already."""
    if need.cpu_millis or on_shared_cpu:
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


def found_as(type_: InstanceType, machine: MachineSize | None) -> InstanceType:
    """Return a type as it is on a machine: with less for containers where the machine is smaller.

    It is the type itself if the machine is not clearly smaller, or not known (None). What the
    kernel keeps of the memory makes no difference, and there is never more than the type has.
    """
    if machine is None:
        return type_
    lacks_cpus, lacks_memory = _lacks(type_, machine)
    if not lacks_cpus and not lacks_memory:
        return type_
    whole, reserve = type_.resources, type_.reserve
    cpus_kept, memory_kept = reserve.cpu_millis + lacks_cpus, reserve.memory_bytes + lacks_memory
    return replace(
        type_,
        reserve=replace(
            reserve,
            cpu_millis=min(whole.cpu_millis, cpus_kept),
            memory_bytes=min(whole.memory_bytes, memory_kept),
        ),
    )


def shortfall(type_: InstanceType, machine: MachineSize | None) -> str:
    """Return what a machine has less than its type says, in words, "" for nothing."""
    if machine is None:
        return ""
    lacks_cpus, lacks_memory = _lacks(type_, machine)
    whole, told = type_.resources, []
    if lacks_cpus:
        told.append(f"{machine.cpus} cpus instead of {whole.cpu_millis / 1000:g}")
    if lacks_memory:
        has, wanted = machine.memory_bytes / _GIB, whole.memory_bytes / _GIB
        told.append(f"{has:.3g} GiB of memory instead of {wanted:.3g}")
    return " and ".join(told)


def _lacks(type_: InstanceType, machine: MachineSize) -> tuple[int, int]:
    """Return by how many thousandths of a cpu and bytes of memory a machine is clearly smaller.

    A machine tells its memory without what firmware and kernel keep. The type's reserve may cover
    that already, and then it is not taken off twice.
    """
    whole = type_.resources
    cpu_millis = max(0, whole.cpu_millis - 1000 * machine.cpus)
    if machine.memory_bytes >= _USUAL_MEMORY * whole.memory_bytes:
        return cpu_millis, 0
    kept_bytes = _KEPT_BYTES + machine.memory_bytes // _KEPT_SHARE
    reserved_bytes = min(type_.reserve.memory_bytes, kept_bytes)
    return cpu_millis, max(0, whole.memory_bytes - machine.memory_bytes - reserved_bytes)


def whole_of(worker: Worker) -> Resources:
    """Return what a worker has in all: what its type says, or less where its machine has less."""
    whole = worker.type.resources
    if worker.load.machine is None:
        return whole
    lacks_cpus, lacks_memory = _lacks(worker.type, worker.load.machine)
    return whole.minus(Resources(cpu_millis=lacks_cpus, memory_bytes=lacks_memory))


def as_found(worker: Worker) -> InstanceType:
    """Return a worker's type as it is on its machine, as far as that is known."""
    return found_as(worker.type, worker.load.machine or worker.load.expected)


def room_left(worker: Worker) -> Resources:
    """Return what a worker has left for containers, added up anew."""
    left = as_found(worker).allocatable
    for on_shared_cpu, attempt_id in enumerate(sorted(worker.load.sharing)):
        left = left.minus(charge(worker.load.attempts[attempt_id], on_shared_cpu=on_shared_cpu))
    for attempt_id, resources in worker.load.attempts.items():
        if attempt_id not in worker.load.sharing:
            left = left.minus(resources)
    return left
