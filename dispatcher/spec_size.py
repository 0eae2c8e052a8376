"""How much memory the specification of a container takes, for the limit of what may be queued."""

from __future__ import annotations

from dispatcher.model import ContainerSpec

_CONTAINER_BYTES = 1024
_SPEC_BYTES = 1024
_ENTRY_BYTES = 100
"""What Python takes for a short string and its place, beside the letters."""
_DEPENDENCY_BYTES = 200
"""What one thing that is waited for takes, with its name's place."""


class QueuedMemory:
    """About how many bytes all that is in memory takes; those of one array share a specification.

    Who was added is taken away once, with the same specification (the object, not its equal).
    """

    def __init__(self) -> None:
        self.total_bytes = 0
        self._sharers: dict[int, int] = {}

    def add(self, spec: ContainerSpec) -> None:
        """Count one container more."""
        sharers = self._sharers.get(id(spec), 0)
        self._sharers[id(spec)] = sharers + 1
        self.total_bytes += own_bytes(spec) + (spec_bytes(spec) if not sharers else 0)

    def remove(self, spec: ContainerSpec) -> None:
        """Count one container less."""
        sharers = self._sharers[id(spec)] - 1
        self.total_bytes -= own_bytes(spec) + (spec_bytes(spec) if not sharers else 0)
        if sharers:
            self._sharers[id(spec)] = sharers
        else:
            del self._sharers[id(spec)]


def own_bytes(spec: ContainerSpec) -> int:
    """Return about how much memory a container takes beside its specification.

    Each waits on its own for what its specification names.
    """
    return _CONTAINER_BYTES + _DEPENDENCY_BYTES * len(spec.after)


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
