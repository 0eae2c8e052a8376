"""Who comes first of those that wait: an account of its own beside the queue's."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Container, Preemptible, SchedulerSettings
from longshore.dispatcher.state.containers import ContainerTable

SENT_AWAY = ("interrupted", "preempted")


def has_own_scheduler(table: ContainerTable, container: Container) -> bool:
    """Return whether a container is one of a job that does not queue."""
    type_ = table.jobs.type_of(container.job_id)
    return type_ is not None and type_.has_own_scheduler


def place_in_line(container: Container) -> tuple[int, bool, int]:
    """Return what is less for who comes first: by priority, who was sent away, first come.

    What is just being started has the place that it had before.
    """
    ended = [attempt for attempt in container.attempts[-2:] if attempt.outcome is not None]
    reason = ended[-1].reason if ended else None
    sent_away = reason is not None and reason.code in SENT_AWAY
    return -container.priority, not sent_away, container.sequence


def is_spared(container: Container, settings: SchedulerSettings) -> bool:
    """Return whether the cloud took back what a container ran on as often as it may."""
    codes = [each.reason.code for each in container.attempts if each.reason is not None]
    allowed = container.spec.constraints.preemptible is Preemptible.ALLOWED
    return allowed and codes.count("interrupted") >= settings.max_reclaimed_attempts
