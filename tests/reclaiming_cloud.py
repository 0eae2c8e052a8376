"""The simulated cloud, but it takes instances back when it is told to, not when dice fall.

Name it in a configuration as `tests.reclaiming_cloud:DRIVER`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from longshore.drivers.billing import EndedBy
from longshore.drivers.interface import Instance
from longshore.drivers.registry import DriverContext, DriverInfo
from longshore.drivers.simulated.cloud import SimulatedCloud
from longshore.drivers.simulated.driver import BillingInstanceSet
from longshore.drivers.simulated.model import Happening
from longshore.drivers.simulated.parameters import SimulatedParameters

NOTICE_S = 3600.0
"""What the notice says; the end comes when it is ordered."""


class ReclaimingParameters(SimulatedParameters, frozen=True, kw_only=True):
    """`orders` is a directory: `notice-ID` there tells an instance of its end, `end-ID` ends it."""

    orders: str


class ReclaimingInstanceSet(BillingInstanceSet):
    """Carries orders out with each listing."""

    def __init__(self, cloud: SimulatedCloud, orders: Path) -> None:
        super().__init__(cloud)
        self._orders = orders

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List the instances, after what was ordered has happened."""
        for order in sorted(self._orders.iterdir()):
            what, _, instance_id = order.name.partition("-")
            order.unlink()
            self._carry_out(what, instance_id)
        return super().instances(tags)

    def _carry_out(self, what: str, instance_id: str) -> None:
        cloud = self.cloud
        with cloud._changed:
            machine, now = cloud._model.machines[instance_id], cloud._clock()
            if what == "end":
                cloud._model.end(machine, now, EndedBy.RECLAIMED)
            else:
                ends_after_s = now + NOTICE_S - machine.created_at
                machine.fate = replace(machine.fate, ends_after_s=ends_after_s, notice_s=NOTICE_S)
                cloud._model._schedule(now, Happening.RECLAIM_NOTICE, machine)
            cloud._let_due_happen()


def _make(parameters: ReclaimingParameters, context: DriverContext) -> ReclaimingInstanceSet:
    cloud = SimulatedCloud(parameters, state_dir=context.state_dir, clock=context.clock)
    return ReclaimingInstanceSet(cloud, Path(parameters.orders))


DRIVER = DriverInfo(
    name="reclaiming",
    summary="the simulated cloud, which takes instances back on demand, for tests",
    parameters=ReclaimingParameters,
    make=_make,
)
