"""A test bed for the conformance kit: the simulated cloud, in which trouble is made on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from longshore.dispatcher.conformance.kit import Cause, Patience, Trial
from longshore.dispatcher.conformance.trial import make_trial
from longshore.drivers.errors import ErrorScope
from longshore.drivers.interface import InstanceSet
from longshore.drivers.registry import Capability, DriverInfo
from longshore.drivers.simulated.cloud import SimulatedCloud
from longshore.drivers.simulated.driver import DRIVER, BillingInstanceSet
from longshore.drivers.simulated.parameters import SimulatedFaults, SimulatedParameters
from tests.driver_bench import TYPE

GROUP = "general"
PARAMETERS = SimulatedParameters(
    boot_time_s=0.05, quota_groups={TYPE.provider_type: GROUP}, zones=("z1", "z2")
)
SPOT = replace(TYPE, name="spot", preemptible=True)
OTHER = replace(TYPE, name="other", provider_type="t2", price_usd_per_hour=Decimal(1))
PATIENCE = Patience(
    listing_lag_s=30,
    boot_timeout_s=60,
    gone_timeout_s=60,
    command_timeout_s=60,
    poll_interval_s=0.1,
    watch_s=1,
)

_FAULTS = {
    Cause.LOST_ANSWER: SimulatedFaults(lost_answers=1.0),
    Cause.DUPLICATES: SimulatedFaults(duplicates=1.0),
    Cause.THROTTLED: SimulatedFaults(rate_limits=1.0, retry_after_s=5.0),
    Cause.SERVER_ERROR: SimulatedFaults(create_errors=1.0, listing_errors=1.0),
    Cause.CUT_LISTING: SimulatedFaults(listing_errors=1.0),
}
_SHORTAGES = {Cause.SHORT_OF_TYPE: ErrorScope.TYPE, Cause.SHORT_OF_ALL: ErrorScope.ALL}

View = Callable[[SimulatedCloud], InstanceSet]


class OneOfMany(BillingInstanceSet):
    """One instance set of several that see the same cloud, which outlives them."""

    def close(self) -> None:
        """Leave the cloud alone: the bed closes it."""


class SimulatedBed:
    """The cloud, trouble in it, and a driver for it whose sets are made by `view`."""

    def __init__(self, directory: Path, *, view: View = OneOfMany) -> None:
        self.cloud = SimulatedCloud(PARAMETERS, state_dir=directory)
        self.directory = directory
        self._model = self.cloud._model
        self._foreign = 0
        self.info: DriverInfo = replace(
            DRIVER,
            make=lambda _parameters, _context: view(self.cloud),
            capabilities=DRIVER.capabilities | {Capability.OUTLIVES_PROCESS},
        )

    @property
    def causes(self) -> frozenset[Cause]:
        """Return all but bad credentials: there are none."""
        return frozenset(Cause) - {Cause.BAD_CREDENTIALS}

    @contextmanager
    def causing(self, cause: Cause) -> Iterator[None]:
        """Change what the cloud does or allows, and change it back."""
        faults, limits = self._model.faults, deepcopy(self._model.limits)
        self._model.faults = _FAULTS.get(cause, faults)
        if cause in _SHORTAGES:
            self._model.limits.shortages[TYPE.provider_type] = _SHORTAGES[cause]
        if cause is Cause.QUOTA_OF_GROUP:
            self._model.limits.group_quotas[GROUP] = 0
        if cause is Cause.QUOTA_OF_ACCOUNT:
            self.make_foreign()
            self._model.limits.quota = 1
        try:
            yield
        finally:
            self._model.faults, self._model.limits = faults, limits

    @contextmanager
    def faulty(self, faults: SimulatedFaults) -> Iterator[None]:
        """Have other things go wrong in the cloud than a `Cause`."""
        before, self._model.faults = self._model.faults, faults
        try:
            yield
        finally:
            self._model.faults = before

    def make_foreign(self) -> str:
        """Create an instance of somebody else's."""
        self._foreign += 1
        made = self.cloud.create(
            instance_type=TYPE,
            tags={"owner": "somebody"},
            init_command="",
            public_key="ssh-ed25519 AAAA",
            token=f"foreign-{self._foreign}",
        )
        return made.id

    def is_running(self, instance_id: str) -> bool:
        """Return whether an instance is there and not about to end."""
        machine = self._model.machines.get(instance_id)
        return machine is not None and not machine.ending

    def is_preemptible(self, instance_id: str) -> bool:
        """Return how an instance was bought."""
        return self._model.machines[instance_id].type.preemptible

    def give_notice(self, instance_id: str, ends_at: str) -> None:
        """Have the cloud tell an instance that it ends."""
        self.cloud._boards[instance_id].give(ends_at)

    def ours(self) -> list[str]:
        """Return the ids of what is there and is not foreign."""
        return sorted(
            each.id
            for each in self._model.machines.values()
            if not each.ending and "owner" not in each.tags
        )

    def trial(self, info: DriverInfo | None = None, **others: Any) -> Trial:
        """Return the trial of the bed's driver, or of another for the same cloud."""
        used = info or self.info
        values: dict[str, Any] = {
            "instance_type": TYPE,
            "preemptible_type": SPOT,
            "other_types": (OTHER,),
            "state_dir": self.directory,
            "patience": PATIENCE,
            "bed": self,
            **others,
        }
        return make_trial(used, msgspec.convert({}, used.parameters), **values)

    def close(self) -> None:
        """End the cloud with all that is in it."""
        self.cloud.close()
