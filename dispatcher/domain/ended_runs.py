"""Containers that have ended, as who looks for what was dear or waited long asks for them; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Final

from longshore.dispatcher.domain.containers import ContainerState

DEAREST: Final = 20
"""How many of the dearest are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRunFilter:
    """Which are asked for; "" means any. Times are in seconds since the epoch, [since, until)."""

    since: float
    until: float
    user: str = ""
    project: str = ""
    #: Alternatives beside `project`: what the caller sees; None is any.
    projects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """One container that has ended."""

    container_id: str
    #: Of its job, or its own where it is of none; "" for none.
    name: str
    job_id: str
    user: str
    project: str
    state: ContainerState
    cost_usd: Decimal
    finished_at: float
    #: How long it waited for its first place; None where it never had one.
    waited_s: float | None
    #: The type of its last attempt, "" where it had none.
    type_name: str
    is_preemptible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRuns:
    """Some, those that were submitted last first."""

    runs: tuple[EndedRun, ...]
    #: Whether these are all: else there are older ones that were not looked at.
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeWait:
    """How long runs on one type waited, and what they cost."""

    type_name: str
    is_preemptible: bool
    runs: int
    waited_p50_s: float
    waited_p90_s: float
    cost_usd: Decimal


def dearest(runs: Sequence[EndedRun]) -> list[EndedRun]:
    """Return those that cost most, the dearest first; what cost nothing is none of them."""
    ranked = sorted(runs, key=lambda run: (-run.cost_usd, run.container_id))
    return [run for run in ranked[:DEAREST] if run.cost_usd > 0]


def waits_by_type(runs: Sequence[EndedRun]) -> list[TypeWait]:
    """Return how long those with a place waited for it, by type and market."""
    groups: dict[tuple[str, bool], list[EndedRun]] = {}
    for run in runs:
        if run.waited_s is not None:
            groups.setdefault((run.type_name, run.is_preemptible), []).append(run)
    return [_wait(*kind, groups[kind]) for kind in sorted(groups)]


def _wait(type_name: str, is_preemptible: bool, runs: Sequence[EndedRun]) -> TypeWait:
    waits = sorted(run.waited_s or 0.0 for run in runs)
    return TypeWait(
        type_name=type_name,
        is_preemptible=is_preemptible,
        runs=len(runs),
        waited_p50_s=median(waits),
        waited_p90_s=waits[9 * (len(waits) - 1) // 10],
        cost_usd=sum((run.cost_usd for run in runs), Decimal(0)),
    )
