"""The driver `simulated`: it has no state of its own and only speaks to its cloud."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from longshore.drivers.billing import Billed, BillingRule
from longshore.drivers.interface import Existence, Instance, InstanceType
from longshore.drivers.registry import Capability, DriverContext, DriverInfo
from longshore.drivers.simulated.cloud import SimulatedCloud
from longshore.drivers.simulated.parameters import SimulatedParameters


class SimulatedInstanceSet:
    """The driver; see `drivers.interface.InstanceSet`. It owns `cloud`: `close` ends both."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        self.cloud = cloud

    def create(
        self,
        *,
        instance_type: InstanceType,
        image: str,  # noqa: ARG002 - nothing is installed on this machine
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        """Create an instance; raises what the limits and faults of the parameters say."""
        return self.cloud.create(
            instance_type=instance_type,
            tags=tags,
            init_command=init_command,
            public_key=public_key,
            token=token,
        )

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List the instances that carry all of `tags`."""
        return self.cloud.instances(tags)

    def find(self, instance_id: str) -> Existence:
        """Return whether an instance is there, or ended, also with the process that had it."""
        return self.cloud.find(instance_id)

    def quota_group(self, instance_type: InstanceType) -> str:
        """Return the group that `quota_groups` of the parameters names, "" for none."""
        return self.cloud.quota_group(instance_type)

    def power_off_command(self) -> str:
        """Return what ends the instance, and its billing, when it is run there."""
        return self.cloud.power_off_command()

    def interruption_watch(self) -> str:
        """Return what waits on an instance for the word that the cloud takes it back."""
        return self.cloud.interruption_watch()

    def close(self) -> None:
        """End the cloud too: it lives in this process's memory and cannot outlive it."""
        self.cloud.close()


class BillingInstanceSet(SimulatedInstanceSet):
    """The driver of a cloud that tells how it bills; see `drivers.billing.Bills`."""

    def billing_rule(self) -> BillingRule:
        """Return what `billing` of the parameters says."""
        return self.cloud.billing_rule()

    def bills(self, instance_ids: Sequence[str]) -> Mapping[str, Billed]:
        """Return what the cloud knows of the billing of these, also of those that have ended."""
        return self.cloud.bills(instance_ids)


def _make(parameters: SimulatedParameters, context: DriverContext) -> SimulatedInstanceSet:
    state_dir = Path(parameters.state_dir) if parameters.state_dir else context.state_dir
    cloud = SimulatedCloud(parameters, state_dir=state_dir, clock=context.clock)
    return BillingInstanceSet(cloud) if parameters.tells_billing else SimulatedInstanceSet(cloud)


DRIVER = DriverInfo(
    name="simulated",
    summary="a cloud in memory, for trying things out: its instances are this machine",
    parameters=SimulatedParameters,
    make=_make,
    capabilities=frozenset(
        {
            Capability.IDEMPOTENT_CREATE,
            Capability.MANY_INSTANCES,
            Capability.PREEMPTIBLE,
            Capability.QUOTA_GROUPS,
            Capability.POWER_OFF,
            Capability.FINDS,
            Capability.INTERRUPTION_NOTICES,
            Capability.BILLING,
        }
    ),
)
