"""From what is known of the server's health to the JSON of the API.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from longshore.dispatcher.api.render.values import rfc3339
from longshore.dispatcher.api.schemas.health import (
    HealthAnswer,
    LogsAnswer,
    ProblemAnswer,
    ReadyAnswer,
    StoreAnswer,
)
from longshore.dispatcher.domain.views import Health
from longshore.dispatcher.domain.vitals import Vitals


def ready_answer(health: Health) -> ReadyAnswer:
    """Return whether requests can be served, with all problems, as it is answered."""
    return ReadyAnswer(
        ready=health.ready,
        degraded=bool(health.problems),
        problems=_problems(health),
        advice=list(health.advice),
    )


def health_answer(health: Health, vitals: Vitals) -> HealthAnswer:
    """Return how the server does, as it is answered."""
    store, logs = vitals.store, vitals.logs
    return HealthAnswer(
        ready=health.ready,
        degraded=bool(health.problems),
        problems=_problems(health),
        advice=list(health.advice),
        store=StoreAnswer(
            database_bytes=store.database_bytes,
            wal_bytes=store.wal_bytes,
            pending_writes=store.pending,
            free_bytes=store.room.free_bytes,
            free_inodes=store.room.free_inodes,
        ),
        logs=LogsAnswer(free_bytes=logs.free_bytes, free_inodes=logs.free_inodes),
    )


def _problems(health: Health) -> list[ProblemAnswer]:
    return [
        ProblemAnswer(kind=each.kind.value, since=rfc3339(each.since), message=each.message)
        for each in health.problems
    ]
