"""The driver `ec2` as it registers itself."""

from __future__ import annotations

from longshore.drivers.ec2 import families
from longshore.drivers.ec2 import parameters as own_parameters
from longshore.drivers.ec2.client import ec2_client
from longshore.drivers.ec2.instance_set import Ec2InstanceSet
from longshore.drivers.ec2.offers import offers
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.ec2.requests import fault_of_scratch, own_image_of
from longshore.drivers.errors import ConfigError
from longshore.drivers.interface import InstanceType
from longshore.drivers.registry import Capability, DriverContext, DriverInfo


def _make(parameters: Ec2Parameters, context: DriverContext) -> Ec2InstanceSet:
    if problems := own_parameters.check(parameters):
        raise ConfigError([(f"driver.parameters.{path}", what) for path, what in problems])
    return Ec2InstanceSet(
        ec2_client(parameters), parameters, ssh_user=context.ssh_user, clock=context.clock
    )


def _fault_of_type(parameters: Ec2Parameters, instance_type: InstanceType) -> str | None:
    return (
        families.fault_of_type(instance_type)
        or own_parameters.fault_of_reservation(instance_type)
        or fault_of_scratch(parameters, instance_type)
    )


DRIVER = DriverInfo(
    name="ec2",
    summary="instances of Amazon EC2, on demand and spot",
    parameters=Ec2Parameters,
    make=_make,
    capabilities=frozenset(
        {
            Capability.IDEMPOTENT_CREATE,
            Capability.OUTLIVES_PROCESS,
            Capability.MANY_INSTANCES,
            Capability.PREEMPTIBLE,
            Capability.QUOTA_GROUPS,
            Capability.POWER_OFF,
            Capability.PRICES,
            Capability.FINDS,
            Capability.LEFTOVERS,
            Capability.INTERRUPTION_NOTICES,
            Capability.BILLING,
            Capability.RESERVATIONS,
            Capability.OFFERS,
        }
    ),
    check=own_parameters.check,
    fault_of_type=_fault_of_type,
    image_of=own_image_of,
    offers=offers,
)
