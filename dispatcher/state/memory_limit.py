"""How much memory the specification of a container takes, for the limit of what may be queued.

Text costs what the interpreter says: one letter takes some sixty bytes as a string of its own, and
one beyond Latin makes each of its string's letters take four. Whoever may choose what is queued may
choose the dearest, so letters alone are no measure. The rest is measured (see the test).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from longshore.dispatcher.domain.containers import ContainerSpec

_CONTAINER_BYTES = 1024
_SPEC_BYTES = 1024
_PLACE_BYTES = 8
_PAIR_BYTES = sys.getsizeof(("", "")) + _PLACE_BYTES
_ROUNDED_BYTES = 16
"""What the allocator may add to each string."""
_DEPENDENCY_BYTES = 200
"""What one thing that is waited for takes, with its name's place."""


class QueuedMemory:
    """About how many bytes all that is in memory takes; those of one array share a specification.

    Who was added is taken away once, with the same specification (the object, not its equal).
    """

    def __init__(self) -> None:
        self.total_bytes = 0
        self._users: dict[int, int] = {}

    def add(self, spec: ContainerSpec) -> None:
        """Count one container more."""
        users = self._users.get(id(spec), 0)
        self._users[id(spec)] = users + 1
        self.total_bytes += own_bytes(spec) + (spec_bytes(spec) if not users else 0)

    def remove(self, spec: ContainerSpec) -> None:
        """Count one container less."""
        users = self._users[id(spec)] - 1
        self.total_bytes -= own_bytes(spec) + (spec_bytes(spec) if not users else 0)
        if users:
            self._users[id(spec)] = users
        else:
            del self._users[id(spec)]


def own_bytes(spec: ContainerSpec) -> int:
    """Return about how much memory a container takes beside its specification.

    Each waits on its own for what its specification names.
    """
    return _CONTAINER_BYTES + _DEPENDENCY_BYTES * len(spec.after)


def spec_bytes(spec: ContainerSpec) -> int:
    """Return about how much memory a specification takes."""
    wanted = spec.constraints
    used = ((each.secret, each.target) for each in spec.secrets)
    labels = (*spec.env, *spec.sealed_env, *used, *spec.labels, *wanted.labels)
    pairs = sum(_PAIR_BYTES + _text_bytes(pair) for pair in labels)
    names = (*wanted.instance_types, *(name for name, _ in spec.resources.custom))
    named = len(names) * _PAIR_BYTES + _text_bytes(names)
    awaited = len(spec.after) * _DEPENDENCY_BYTES + _text_bytes(each.of for each in spec.after)
    texts = _text_bytes((*spec.command, *(spec.entrypoint or ()), spec.image, spec.name))
    return _SPEC_BYTES + texts + pairs + named + awaited


def _text_bytes(texts: Iterable[str]) -> int:
    """Return how much memory strings take, each with its place in a tuple."""
    return sum(sys.getsizeof(text) + _ROUNDED_BYTES + _PLACE_BYTES for text in texts)
