"""Who comes first of those that wait for each other's ends, for whoever asks about the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from longshore.dispatcher.jobs.model import nodes_of, task_node
from longshore.dispatcher.jobs.workflow import Workflow
from longshore.dispatcher.ledger.ledger import Ledger
from longshore.dispatcher.queueing.holdbacks import Block

MOST_LINKS = 10_000
MOST_CONTAINERS = 20_000
"""How many unfinished containers the jobs on the way may have that are looked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The `first` that waits for no other's end, and how many are `before` who was asked about.

    `first` is a container, or a node of which no container is known; where the way to it is too
    long, who was reached, and `is_whole` is False.
    """

    first: str
    before: int
    is_whole: bool = True


def chain_before(container_id: str, *, ledger: Ledger, workflow: Workflow) -> Chain:
    """Follow what a container waits for, and what that waits for; of several always the first."""
    walk = _Walk(ledger)
    current, before = container_id, 0
    while needs := workflow.needs(current):
        if before == MOST_LINKS:
            return Chain(first=current, before=before, is_whole=False)
        node, _ = needs[0]
        before += 1
        found = walk.container_of(node)
        if found is None:
            return Chain(first=node, before=before)
        current = found
    return Chain(first=current, before=before)


class _Walk:
    """Finds who has to end for a node to end; each job on the way is looked through once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._found: dict[str, Mapping[str, str]] = {}
        self._left = MOST_CONTAINERS

    def container_of(self, node: str) -> str | None:
        """Return the first unfinished container of a node that waits for no other, or its first."""
        root = node.partition("/")[0]
        if root in self._ledger.containers:
            return root
        if root not in self._found:
            self._found[root] = self._by_node(root)
        return self._found[root].get(node)

    def _by_node(self, job_id: str) -> Mapping[str, str]:
        container_ids = self._ledger.jobs.containers_of(job_id)
        self._left -= len(container_ids)
        if self._left < 0:
            return {}
        found: dict[str, str] = {}
        waits = {each: Block.AFTER in self._ledger.holdbacks.blocks(each) for each in container_ids}
        for container_id in sorted(container_ids, key=waits.__getitem__):
            container = self._ledger.containers[container_id]
            for node in (*nodes_of(container), task_node(job_id, container.task), job_id):
                found.setdefault(node, container_id)
        return found
