"""The driver `libcloud` as it registers itself; Libcloud is imported once it is made."""

from __future__ import annotations

from longshore.drivers.errors import ConfigError
from longshore.drivers.interface import InstanceSet
from longshore.drivers.libcloud.parameters import LibcloudParameters, fault_of_type, problems_of
from longshore.drivers.registry import Capability, DriverContext, DriverInfo

_PATH = "driver.parameters."


def _make(parameters: LibcloudParameters, context: DriverContext) -> InstanceSet:
    from longshore.drivers.libcloud.instance_set import LibcloudInstanceSet  # noqa: PLC0415 - it takes its time

    return LibcloudInstanceSet(parameters, context)


def _check(parameters: LibcloudParameters) -> list[tuple[str, str]]:
    problems = problems_of(parameters)
    if not parameters.provider:
        return problems
    from longshore.drivers.libcloud.providers import provider_of  # noqa: PLC0415 - it takes its time

    try:
        provider_of(parameters.provider)
    except ConfigError as error:
        problems += [(path.removeprefix(_PATH), what) for path, what in error.problems]
    return problems


DRIVER = DriverInfo(
    name="libcloud",
    summary="clouds that Apache Libcloud knows: OpenStack, GCE, DigitalOcean and others",
    parameters=LibcloudParameters,
    make=_make,
    capabilities=frozenset(
        {Capability.IDEMPOTENT_CREATE, Capability.OUTLIVES_PROCESS, Capability.MANY_INSTANCES}
    ),
    check=_check,
    fault_of_type=fault_of_type,
    image_of=lambda parameters, _: parameters.image,
)
