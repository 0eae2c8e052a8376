"""What a job says beside its tasks, by its type: updates, elasticity, schedules, parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from longshore.dispatcher.planner.elastic_model import ElasticMode
from longshore.dispatcher.planner.per_instance_rounds import UpdateStrategy

_ONE_BY_ONE = UpdateStrategy()


@dataclass(frozen=True, slots=True, kw_only=True)
class PerInstanceTerms:
    """How a job runs on every matching instance; see `planner.per_instance_model.PerInstanceJob`.

    `revision` counts from 1; `revised_at` is when the latest was submitted, in seconds since the
    epoch.
    """

    revision: int = 1
    revised_at: float = 0.0
    update: UpdateStrategy = _ONE_BY_ONE
    late_joiners: bool = True
    on_paused: bool = False
    ignore_system: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticTerms:
    """How an elastic job queues and grows; see `planner.elastic_model.ElasticJob`.

    `size` is None to have it computed, `runtime_s` None where nobody knows how long it takes with
    all components.
    """

    mode: ElasticMode = ElasticMode.FLEXIBLE
    size: float | None = None
    runtime_s: float | None = None
    scale_up: bool = False


class Overlap(Enum):
    """Whether a periodic job begins again while an earlier run of it has not ended."""

    ALLOW = "allow"
    FORBID = "forbid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a periodic job begins: at any of some cron expressions, in a time zone of the IANA's."""

    cron: tuple[str, ...]
    time_zone: str = "UTC"
    overlap: Overlap = Overlap.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a parameterised job is dispatched with.

    Who dispatches it names all that are `required` and may name the `optional` ones, which are
    pairs of a name and its value where nobody names it; both are sorted.
    """

    required: tuple[str, ...] = ()
    optional: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a job says beside its tasks; each is None where it is not of that type."""

    per_instance: PerInstanceTerms | None = None
    elastic: ElasticTerms | None = None
    schedule: Schedule | None = None
    parameters: Parameters | None = None


NO_TERMS = Terms()
"""What a plain batch job says."""
