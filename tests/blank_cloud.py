"""A driver whose instances are nothing but ids: they are listed, and never boot.

Name it in a configuration as `tests.blank_cloud:DRIVER`: a thousand of them cost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from longshore.drivers.errors import CloudError
from longshore.drivers.interface import TOKEN_TAG, HostKeyVerdict, Instance, InstanceType
from longshore.drivers.registry import Capability, DriverContext, DriverInfo


class BlankParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`refusal` is what each create call is refused with, "" for none."""

    refusal: str = ""


@dataclass(slots=True, kw_only=True)
class BlankInstance:
    """An instance without an address."""

    id: str
    tags: Mapping[str, str]
    cloud: BlankCloud = field(repr=False)
    address: str = ""

    def destroy(self) -> None:
        """Be gone."""
        self.cloud.forget(self.id)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Keep these as well."""
        self.cloud.keep(self.id, {**self.tags, **tags})

    def verify_host_key(self, _public_key: str) -> HostKeyVerdict:
        """Nobody ever reaches it."""
        return HostKeyVerdict.UNKNOWN


class BlankCloud:
    """The account."""

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal
        self._lock = threading.Lock()
        self._tags: dict[str, Mapping[str, str]] = {}
        self._ids: dict[str, str] = {}

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
        """Give out the next id."""
        del instance_type, image, init_command, public_key
        if self._refusal:
            raise CloudError(self._refusal)
        with self._lock:
            made = self._ids.setdefault(token, f"i-{len(self._ids):06d}")
            self._tags[made] = {**tags, TOKEN_TAG: token}
            return BlankInstance(id=made, tags=self._tags[made], cloud=self)

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List them all."""
        with self._lock:
            return [
                BlankInstance(id=each, tags=had, cloud=self)
                for each, had in sorted(self._tags.items())
                if tags.items() <= had.items()
            ]

    def keep(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Take new tags of an instance."""
        with self._lock:
            self._tags[instance_id] = tags

    def forget(self, instance_id: str) -> None:
        """End an instance."""
        with self._lock:
            self._tags.pop(instance_id, None)

    def close(self) -> None:
        """Nothing is held."""


def _make(parameters: BlankParameters, _: DriverContext) -> BlankCloud:
    return BlankCloud(parameters.refusal)


DRIVER = DriverInfo(
    name="blank",
    summary="instances that are nothing but ids, for tests",
    parameters=BlankParameters,
    make=_make,
    capabilities=frozenset({Capability.IDEMPOTENT_CREATE, Capability.MANY_INSTANCES}),
)
