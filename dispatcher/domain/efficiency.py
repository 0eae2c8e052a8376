"""What ended runs really took beside what they asked for: which are asked for, and one run."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.dispatcher.domain.containers import ContainerSpec
from longshore.drivers.interface import Resources
from longshore.pool.usage import AttemptUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyFilter:
    """Which runs are counted; "" and None mean any."""

    user: str = ""
    project: str = ""
    #: Alternatives beside `project`: what the caller sees; None is any.
    projects: tuple[str, ...] | None = None
    #: The name of the job, or of the container where it is of none.
    name: str = ""
    #: Only what ended then or later, in seconds since the epoch.
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One attempt that succeeded and was measured."""

    user: str
    project: str
    #: Of its job, or its own where it is of none; "" for none.
    name: str
    #: "" where it is of no job.
    task: str
    spec: ContainerSpec
    #: What it was given, which its instance type may have decided.
    given: Resources
    usage: AttemptUsage
    #: How long its program ran.
    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """Runs, those that were submitted last first."""

    runs: tuple[MeasuredRun, ...]
    #: Whether these are all: else there are older ones that were not looked at.
    complete: bool
