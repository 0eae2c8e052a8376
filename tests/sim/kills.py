"""The checks of instances that admins kill: it is stored, and they end."""

from __future__ import annotations

from longshore.pool.messages import DestroyInstance
from longshore.pool.model import WorkerState
from longshore.pool.transitions import Trigger
from tests.sim.process import DispatcherProcess
from tests.sim.truth import Truth, expect


class Kills:
    """Looks at one process; `asked` are the instances that admins ever killed."""

    def __init__(self, process: DispatcherProcess, truth: Truth, asked: set[str]) -> None:
        self._pool = process.engine.pool
        self._stored = truth.store.instances
        self._asked = asked

    def look(self) -> None:
        """Look at what is stored to be killed, by this process or by an earlier one."""
        for instance_id in sorted(self._asked & self._pool.workers.keys()):
            stored, worker = self._stored.get(instance_id), self._pool.workers[instance_id]
            if stored is not None and stored.killed is not None and stored.gone_at is None:
                # Who no listing shows cannot be destroyed.
                ends = worker.state is WorkerState.SHUTDOWN or worker.cloud.remembered
                expect(ends, "what was killed ends", f"{instance_id} is {worker.state.value}")

    def begun(self, command: DestroyInstance) -> None:
        """Look at a destroy that is sent: if an admin is why, that is journalled by now."""
        worker = self._pool.workers.get(command.instance_id)
        if worker is not None and worker.shutdown.reason.startswith(Trigger.KILLED.value):
            stored = self._stored.get(command.instance_id)
            journalled = stored is not None and stored.killed is not None
            expect(journalled, "journal before destroy", f"{stored}")
