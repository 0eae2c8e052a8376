"""How much memory the specification of a container takes, for the limit of what may be queued."""

from __future__ import annotations

from dispatcher.model import ContainerSpec

_SPEC_BYTES = 2048


def spec_bytes(spec: ContainerSpec) -> int:
    """Return about how much memory a specification takes."""
    texts = sum(map(len, spec.command)) + len(spec.image) + len(spec.name)
    pairs = sum(len(name) + len(value) for name, value in (*spec.env, *spec.labels))
    return _SPEC_BYTES + texts + pairs
