"""Machines that have less than their types say: how large one is, and what room that leaves."""

from __future__ import annotations

from dataclasses import replace

from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.model import MachineSize
from tests.sim.timeline import Dice

FEWER_CPUS = 0.7
LESS_MEMORY = 0.6
KERNEL = 0.06
"""What the kernel keeps of a machine's memory: that is no shortfall."""


def any_size(type_: InstanceType, smaller: float, dice: Dice) -> MachineSize:
    """Return what a machine of a type tells that it has: less in a share of cases."""
    cpus, memory_bytes = type_.resources.cpu_millis // 1000, type_.resources.memory_bytes
    is_smaller = dice.falls(smaller)
    if dice.falls(FEWER_CPUS) and is_smaller:
        cpus = max(1, cpus // 2)
    half = dice.falls(LESS_MEMORY) and is_smaller
    return MachineSize(cpus=cpus, memory_bytes=int(memory_bytes * (0.5 if half else 1 - KERNEL)))


def is_smaller(type_: InstanceType, size: MachineSize) -> bool:
    """Return whether a machine has clearly less than its type says."""
    return room_on(type_, size) != type_.allocatable


def room_on(type_: InstanceType, size: MachineSize | None) -> Resources:
    """Return what a machine has for containers; None is one of which nobody knows."""
    room = type_.allocatable
    if size is None:
        return room
    cpu_millis = max(0, 1000 * size.cpus - type_.reserve.cpu_millis)
    memory_bytes = max(0, size.memory_bytes - type_.reserve.memory_bytes)
    lacks_memory = size.memory_bytes < (1 - 2 * KERNEL) * type_.resources.memory_bytes
    return replace(
        room,
        cpu_millis=min(room.cpu_millis, cpu_millis),
        memory_bytes=memory_bytes if lacks_memory else room.memory_bytes,
    )
