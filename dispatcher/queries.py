"""What the rest asks the store for, and what it answers: filters, pages, the state at a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.model import Attempt, Container, ContainerState, InstanceRecord
from pool.model import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFilter:
    """Which containers to list; () and "" mean any. `states` are alternatives."""

    states: tuple[ContainerState, ...] = ()
    user: str = ""
    project: str = ""
    name: str = ""
    instance_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of containers, newest first; `next_cursor` is None on the last."""

    items: tuple[Container, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What the store knew when the process started.

    `containers` are those that have not ended; `unreleased` are ended attempts whose log may still
    be on an instance; `instances` those that were not gone.
    """

    containers: Sequence[Container] = ()
    unreleased: Sequence[Attempt] = ()
    launches: Sequence[Launch] = ()
    instances: Sequence[InstanceRecord] = ()
