"""Instances that nobody here created: another cluster's, and ours of a type that is gone."""

from __future__ import annotations

from collections.abc import Callable

from longshore.drivers.interface import CLUSTER_TAG, IDLE_BEHAVIOR_TAG, TYPE_TAG, InstanceType
from longshore.drivers.simulated.model import CloudModel, Machine
from tests.samples import make_type
from tests.sim.options import SimOptions
from tests.sim.timeline import Dice, Timeline

UNCONFIGURED = make_type(9)
LEFT_OVER = make_type(1)


class ForeignInstances:
    """What is in the account before the dispatcher is; `foreign` are the ids of other clusters'."""

    def __init__(self, timeline: Timeline, cloud: CloudModel, options: SimOptions) -> None:
        self.foreign: set[str] = set()
        self._timeline = timeline
        self._cloud = cloud
        self._options = options
        self._dice = Dice(options.seed, "strangers")

    def appear(self, appeared: Callable[[Machine, str], None]) -> None:
        """Let them be there; `appeared` is told of each, with its secret (none that we know)."""
        for number in range(self._options.foreign):
            machine = self._make(f"foreign-{number}", "another", "run", UNCONFIGURED)
            if machine is not None:
                self.foreign.add(machine.id)
                appeared(machine, "")
        for number in range(self._options.unconfigured):
            behavior = "hold" if self._dice.falls(0.3) else "run"
            machine = self._make(f"unconfigured-{number}", "sim", behavior, UNCONFIGURED)
            if machine is not None:
                appeared(machine, "")
        for number in range(self._options.left_over):
            machine = self._make(f"left-over-{number}", "sim", "run", LEFT_OVER)
            if machine is not None:
                appeared(machine, "")

    def _make(self, token: str, cluster: str, behavior: str, type_: InstanceType) -> Machine | None:
        """Return a new machine, None when the cloud has none to give."""
        tags = {
            CLUSTER_TAG: cluster,
            TYPE_TAG: type_.name,
            IDLE_BEHAVIOR_TAG: behavior,
        }
        made = self._cloud.create(type_, tags=tags, token=token, now=self._timeline.now)
        return made.machine
