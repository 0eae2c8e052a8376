"""The simulated cloud, but it refuses the calls that are named in a file.

Name it in a configuration as `tests.stubborn_driver:DRIVER`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from longshore.drivers.errors import CloudError
from longshore.drivers.interface import HostKeyVerdict, Instance, InstanceSet, InstanceType
from longshore.drivers.registry import DriverContext, DriverInfo
from longshore.drivers.simulated.driver import DRIVER as SIMULATED
from longshore.drivers.simulated.parameters import SimulatedParameters

REFUSAL = "this account is locked"


class StubbornParameters(SimulatedParameters, frozen=True, kw_only=True):
    """`refusals` is a file with those of the words `destroy` and `list` that are refused."""

    refusals: str


class StubbornInstanceSet:
    """See `drivers.interface.InstanceSet`."""

    def __init__(self, cloud: InstanceSet, refusals: Path) -> None:
        self._cloud = cloud
        self._refusals = refusals

    def create(
        self,
        *,
        instance_type: InstanceType,
        image: str,
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        """Create an instance that may be hard to get rid of."""
        made = self._cloud.create(
            instance_type=instance_type,
            image=image,
            tags=tags,
            init_command=init_command,
            public_key=public_key,
            token=token,
        )
        return _StubbornInstance(made, self._refusals)

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List the instances, unless that is refused."""
        _refuse("list", self._refusals)
        return [_StubbornInstance(each, self._refusals) for each in self._cloud.instances(tags)]

    def close(self) -> None:
        """End the cloud, which refuses nothing then."""
        self._cloud.close()


@dataclass(frozen=True, slots=True)
class _StubbornInstance:
    """An instance of the simulated cloud, whose end may be refused."""

    inner: Instance
    refusals: Path

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def address(self) -> str:
        return self.inner.address

    @property
    def tags(self) -> Mapping[str, str]:
        return self.inner.tags

    def destroy(self) -> None:
        _refuse("destroy", self.refusals)
        self.inner.destroy()

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self.inner.set_tags(tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        return self.inner.verify_host_key(public_key)


def _refuse(call: str, refusals: Path) -> None:
    if call in refusals.read_text(encoding="ascii").split():
        raise CloudError(REFUSAL)


def _make(parameters: StubbornParameters, context: DriverContext) -> StubbornInstanceSet:
    return StubbornInstanceSet(SIMULATED.make(parameters, context), Path(parameters.refusals))


DRIVER = DriverInfo(
    name="stubborn",
    summary="the simulated cloud, which refuses calls on demand, for tests",
    parameters=StubbornParameters,
    make=_make,
)
