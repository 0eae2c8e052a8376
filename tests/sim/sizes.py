"""The check of what is made of machines that are smaller than their type: an account beside it.

What is placed on one is looked at where it starts (`truth`).
"""

from __future__ import annotations

from dataclasses import dataclass

from longshore.dispatcher.domain.feasibility import need
from longshore.pool.charging import charge
from longshore.pool.messages import CreateInstance, PoolCommand, PoolEvent, ProbeSucceeded
from longshore.pool.model import MachineSize, WorkerState
from longshore.pool.tags import is_unrecognised
from tests.sim.machines import is_smaller, room_on
from tests.sim.process import DispatcherProcess
from tests.sim.truth import expect

KEPT_S = 3600.0
SLACK = 1e-6


@dataclass(slots=True, kw_only=True)
class _Expected:
    """How large the next machine of a type is taken to be, since when, and when it was renewed."""

    size: MachineSize
    since: float
    renewed_at: float


class Sizes:
    """Looks at one process: what its instances told, and what it buys in the light of that."""

    def __init__(self, process: DispatcherProcess) -> None:
        self._process = process
        self._pool = process.engine.pool
        self._told: dict[str, MachineSize] = {}
        self._expected: dict[str, _Expected] = {}

    def heard(self, event: PoolEvent) -> None:
        """Note what an instance tells of its machine, if its answer is awaited."""
        if not isinstance(event, ProbeSucceeded) or event.report.machine is None:
            return
        worker = self._pool.workers.get(event.worker_id)
        awaited = worker is not None and worker.link.probe_op == event.op_id
        if worker is None or not awaited or worker.state is WorkerState.SHUTDOWN:
            return
        if self._told.get(worker.id) == event.report.machine:
            return
        self._told[worker.id] = event.report.machine
        if not is_unrecognised(worker.type):
            self._learn(worker.type.name)

    def _learn(self, name: str) -> None:
        """Expect of a type what the largest of its machines has, if that is less than it says."""
        now, largest = self._process.now(), self._largest(name)
        if largest is None or not is_smaller(self._pool.types[name], largest):
            self._expected.pop(name, None)
            return
        known = self._expected.get(name)
        since = known.since if known is not None and known.size == largest else now
        self._expected[name] = _Expected(size=largest, since=since, renewed_at=now)

    def _largest(self, name: str) -> MachineSize | None:
        workers = self._pool.workers
        told = [
            self._told[id_]
            for id_ in self._told.keys() & workers.keys()
            if workers[id_].type.name == name
        ]
        if not told:
            return None
        return MachineSize(
            cpus=max(each.cpus for each in told),
            memory_bytes=max(each.memory_bytes for each in told),
        )

    def decided(self, command: PoolCommand) -> None:
        """Expect that what is bought would hold somebody who waits, as far as its type is known."""
        if not isinstance(command, CreateInstance):
            return
        self._forget()
        type_ = command.instance_type
        expected = self._expected.get(type_.name)
        if expected is None or command.launch.created_at < expected.since:
            return
        room = room_on(type_, expected.size)
        table = self._process.engine.table
        waiting = (c.spec for c in table.containers.values() if not c.has_open_attempt)
        fits = any(
            charge(need(type_, spec.resources, spec.unnamed), on_shared_cpu=0).fits_in(room)
            for spec in waiting
        )
        expect(fits, "what is too small is not bought again", type_.name, expected)

    def look(self) -> None:
        """Compare after an event with what the pool expects of types."""
        for gone in self._told.keys() - self._pool.workers.keys():
            del self._told[gone]
        self._forget()
        mine = {name: expected.size for name, expected in self._expected.items()}
        what = f"{mine}, the pool says {self._pool.machines}"
        expect(mine == self._pool.machines, "types are taken for what their largest has", what)

    def _forget(self) -> None:
        """Forget what is old, unless a machine that is there still tells."""
        now = self._process.now()
        for name, expected in list(self._expected.items()):
            if now < expected.renewed_at + KEPT_S - SLACK:
                continue
            if self._largest(name) is None:
                del self._expected[name]
            else:
                expected.renewed_at = now
