"""What the name of an EC2 instance type tells: architecture, GPUs, disks, and its limit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from longshore.drivers.interface import InstanceType

ARCHITECTURES = ("x86_64", "arm64")

_NAME = re.compile(
    r"(?P<family>(?P<series>[a-z]+)(?P<generation>\d*)(?P<traits>[a-z]*)(?P<more>(-[a-z0-9]+)*))"
    r"(\.(?P<size>nano|micro|small|medium|large|\d*xlarge|metal(-\d+xl)?))?"
)
_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
_GROUPS = {
    "dl": "DL",
    "f": "F",
    "g": "G and VT",
    "gr": "G and VT",
    "hpc": "HPC",
    "inf": "Inf",
    "p": "P",
    "trn": "Trn",
    "u": "High Memory",
    "vt": "G and VT",
    "x": "X",
}
_WITH_GPUS = ("g", "gr", "p")
_STORE_FROM_GENERATION = {
    "d": 3,
    "f": 1,
    "g": 5,
    "gr": 6,
    "i": 3,
    "im": 4,
    "is": 4,
    "p": 5,
    "trn": 1,
}
_OLDEST_NVME = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The parts of a type's name: of "m5dn.large" they are m5dn, m, 5, dn and large.

    `size` is "" when only a family was named, `generation` 0 when the name has none.
    """

    name: str
    series: str
    generation: int
    traits: str
    more: str
    size: str

    @classmethod
    def of(cls, provider_type: str) -> Family | None:
        """Return the family of a type or of the family's own name, None when it is no name."""
        found = _NAME.fullmatch(provider_type)
        if found is None or not (found["generation"] or found["more"]):
            return None
        return cls(
            name=found["family"],
            series=found["series"],
            generation=int(found["generation"] or 0),
            traits=found["traits"],
            more=found["more"],
            size=found["size"] or "",
        )

    @property
    def architecture(self) -> str:
        """Return "arm64" or "x86_64"."""
        is_arm = "g" in self.traits or self.more.startswith("-gb") or self.series == "a"
        return "arm64" if is_arm else "x86_64"

    @property
    def has_gpus(self) -> bool:
        """Return whether its instances have GPUs."""
        return self.series in _WITH_GPUS

    @property
    def has_instance_store(self) -> bool:
        """Return whether its instances have NVMe disks of their own."""
        if "d" in self.traits:
            return self.generation >= _OLDEST_NVME or self.series in ("g", "p", "x", "z")
        first = _STORE_FROM_GENERATION.get(self.series)
        # The GPUs of Graviton come without disks.
        lacks = self.series == "g" and self.architecture == "arm64"
        return first is not None and self.generation >= first and not lacks

    def quota_group(self, *, preemptible: bool) -> str:
        """Return the name of the limit of vCPUs that its instances count against."""
        group = _GROUPS.get(self.series)
        if group is None:
            return _STANDARD if self.series[0] in "acdhimrtz" else self.series.upper()
        if group == "P" and preemptible and self.generation >= 5:
            # Spot instances have one for each of the newer generations.
            return f"P{self.generation}"
        return group


def fault_of_type(instance_type: InstanceType) -> str | None:
    """Return why a configured type cannot be created, None when it can."""
    family = Family.of(instance_type.provider_type)
    if family is None or not family.size:
        return (
            f"{instance_type.provider_type!r} is no name of an EC2 instance type:"
            " set provider_type to one like m7i.large"
        )
    if family.series == "mac":
        return "runs on dedicated hosts only, which this driver does not allocate: take another"
    if instance_type.resources.gpus and not family.has_gpus:
        return f"has no GPUs: set gpus to 0, or take a type of {' or '.join(_WITH_GPUS)}"
    return None
