"""What machines really have: less is placed on those that are smaller than their type says.

An instance says itself what its machine has. If it is smaller than its type, the type is taken to
be that small, so that no more are created for containers that fit none of them. Of several sizes
the largest that is there counts, so that no single instance can rule out its whole type.
"""

from __future__ import annotations

from typing import Final

from longshore.pool.charging import room_left, shortfall
from longshore.pool.core import PoolCore
from longshore.pool.model import MachineSize, Worker
from longshore.pool.tags import is_unrecognised
from longshore.pool.timers import TimerKind

_KEPT_S: Final = 3600.0
"""For how long what was learnt of a type is believed once none of its instances is there."""


def take_in(core: PoolCore, worker: Worker, machine: MachineSize | None, now: float) -> None:
    """Note what a worker says of its machine; who says nothing (None) is what it was before."""
    if machine is None or machine == worker.load.machine:
        return
    before = shortfall(worker.type, worker.load.machine)
    worker.load.found(machine)
    _make_room_anew(core, worker)
    short = shortfall(worker.type, machine)
    if short:
        why = f"its machine is smaller than its type {worker.type.name} says: it has {short}"
        core.note_changed(worker, why, warns=True)
    elif before:
        core.note_changed(worker, f"its machine is as large now as its type {worker.type.name}")
    _learn(core, worker, now)


def forget(core: PoolCore, type_name: str, now: float) -> None:
    """Expect a type to be as it is configured again, unless an instance of it still tells."""
    if _largest(core, type_name) is not None:
        core.timers.set(TimerKind.SIZE, type_name, now + _KEPT_S)
    else:
        _expect(core, type_name, None)


def _learn(core: PoolCore, worker: Worker, now: float) -> None:
    if is_unrecognised(worker.type):
        return
    name = worker.type.name
    largest = _largest(core, name)
    if largest is not None and shortfall(worker.type, largest):
        core.timers.set(TimerKind.SIZE, name, now + _KEPT_S)
        _expect(core, name, largest)
    else:
        core.timers.clear(TimerKind.SIZE, name)
        _expect(core, name, None)


def _largest(core: PoolCore, type_name: str) -> MachineSize | None:
    """Return the most that any instance of a type has of each, None where none says."""
    told = [
        w.load.machine for w in core.workers.values() if w.type.name == type_name and w.load.machine
    ]
    if not told:
        return None
    return MachineSize(
        cpus=max(machine.cpus for machine in told),
        memory_bytes=max(machine.memory_bytes for machine in told),
    )


def _expect(core: PoolCore, type_name: str, machine: MachineSize | None) -> None:
    """Expect so much of further instances of a type, and of those that have yet to say."""
    if core.machines.get(type_name) == machine:
        return
    if machine is None:
        del core.machines[type_name]
    else:
        core.machines[type_name] = machine
    for _, worker in sorted(core.workers.items()):
        if worker.type.name == type_name and worker.load.machine is None:
            worker.load.expect(machine)
            _make_room_anew(core, worker)


def _make_room_anew(core: PoolCore, worker: Worker) -> None:
    worker.load.added_up(room_left(worker))
    core.touch(worker.id)
