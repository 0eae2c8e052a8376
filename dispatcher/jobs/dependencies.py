"""Who waits for whose end: a graph of names, in which what has ended is forgotten.

A node is whatever can be waited for: a container, one element of an array, one task of a job, a job
(`jobs.model`). What a container waits for costs memory only until it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longshore.dispatcher.model import DependencyOn

Needs = tuple[tuple[str, DependencyOn], ...]
"""The nodes that are waited for, each with the end that counts."""


class Dependencies:
    """The containers that wait for others, with what they still wait for."""

    def __init__(self) -> None:
        self._needs: dict[str, dict[str, DependencyOn]] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._needs

    def add(self, container_id: str, needs: Needs) -> None:
        """Let a container wait for one node or more; it must not wait already."""
        self._needs[container_id] = dict(needs)
        for node, _ in needs:
            self._dependents.setdefault(node, {})[container_id] = None

    def needs(self, container_id: str) -> Needs:
        """Return what a container still waits for, () when it waits for nothing."""
        return tuple(self._needs.get(container_id, {}).items())

    def ended(self, node: str, *, succeeded: bool) -> tuple[list[str], list[str]]:
        """Note the end of a node; return who waits for nothing more, and who never can start.

        Both in the order in which they came to wait; the latter are forgotten.
        """
        released: list[str] = []
        doomed: list[str] = []
        for container_id in self._dependents.pop(node, {}):
            needs = self._needs[container_id]
            if fails(needs.pop(node), succeeded=succeeded):
                self.drop(container_id)
                doomed.append(container_id)
            elif not needs:
                del self._needs[container_id]
                released.append(container_id)
        return released, doomed

    def drop(self, container_id: str) -> None:
        """Let a container wait no more; not waiting is no error."""
        for node in self._needs.pop(container_id, {}):
            dependents = self._dependents.get(node)
            if dependents is not None:
                dependents.pop(container_id, None)
                if not dependents:
                    del self._dependents[node]


def fails(on: DependencyOn, *, succeeded: bool) -> bool:
    """Return whether an end is not the one that was waited for."""
    return on is DependencyOn.SUCCESS and not succeeded


def still_needed(needs: Sequence[tuple[str, DependencyOn]], ended: Mapping[str, bool]) -> Needs:
    """Return those of `needs` whose node has not ended."""
    return tuple(each for each in needs if each[0] not in ended)


def failed_among(
    needs: Sequence[tuple[str, DependencyOn]], ended: Mapping[str, bool]
) -> str | None:
    """Return the first node that ended otherwise than it must, None when there is none."""
    for node, on in needs:
        succeeded = ended.get(node)
        if succeeded is not None and fails(on, succeeded=succeeded):
            return node
    return None
