"""How much memory the specification of a container takes, for the limit of what may be queued."""

from __future__ import annotations

from dispatcher.model import ContainerSpec

_SPEC_BYTES = 2048
_ENTRY_BYTES = 100
"""What Python takes for a short string and its place, beside the letters."""
_DEPENDENCY_BYTES = 200
"""What one thing that is waited for takes, with its name's place."""


def spec_bytes(spec: ContainerSpec) -> int:
    """Return about how much memory a specification takes."""
    texts = sum(map(len, spec.command)) + len(spec.image) + len(spec.name)
    wanted = spec.constraints
    labels = (*spec.env, *spec.labels, *wanted.labels)
    pairs = sum(_ENTRY_BYTES + len(name) + len(value) for name, value in labels)
    names = (*wanted.instance_types, *(name for name, _ in spec.resources.custom))
    named = sum(_ENTRY_BYTES + len(name) for name in names)
    awaited = sum(_DEPENDENCY_BYTES + len(each.of) for each in spec.after)
    return _SPEC_BYTES + texts + pairs + named + awaited
