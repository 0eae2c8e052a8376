"""The simulated driver, with places at which a test can change what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longshore.drivers.billing import NOTHING_BILLED, Billed, TellsBilling
from longshore.drivers.interface import HostKeyVerdict, Instance, InstanceType
from tests.conformance_bed import OneOfMany


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a create call was given."""

    instance_type: InstanceType
    image: str
    tags: Mapping[str, str]
    init_command: str
    public_key: str
    token: str


class Altered(OneOfMany):
    """Does what the simulated driver does; a test overrides `make`, `found` and `shown`."""

    def create(self, **arguments: Any) -> Instance:
        """Create an instance, as `make` does it."""
        return self.shown(self.make(Call(**arguments)))

    def instances(self, tags: Mapping[str, str]) -> list[Instance]:
        """List what `found` finds."""
        return [self.shown(each) for each in self.found(tags)]

    def make(self, call: Call) -> Instance:
        """Create an instance in the cloud."""
        return self.cloud.create(
            instance_type=call.instance_type,
            tags=call.tags,
            init_command=call.init_command,
            public_key=call.public_key,
            token=call.token,
        )

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        """Ask the cloud for its instances."""
        return self.cloud.instances(tags)

    def shown(self, instance: Instance) -> Instance:
        """Return an instance as whoever calls gets it."""
        return instance


class AlteredInstance:
    """An instance of the simulated cloud, of which a test overrides what it wants."""

    def __init__(self, inner: Instance) -> None:
        self.inner = inner

    @property
    def id(self) -> str:
        """Return the cloud's id."""
        return self.inner.id

    @property
    def address(self) -> str:
        """Return the cloud's address of it."""
        return self.inner.address

    @property
    def tags(self) -> Mapping[str, str]:
        """Return the tags that it was listed with."""
        return self.inner.tags

    @property
    def billed(self) -> Billed:
        """Return what was told of its billing when it was listed."""
        if not isinstance(self.inner, TellsBilling):
            return NOTHING_BILLED
        return self.inner.billed

    def destroy(self) -> None:
        """Destroy it."""
        self.inner.destroy()

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags."""
        self.inner.set_tags(tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        """Say what the cloud says."""
        return self.inner.verify_host_key(public_key)
