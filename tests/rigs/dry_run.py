"""A plan of a job in one go: the service makes it in parts, between which the engine goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.engine.fork import EngineFork
from longshore.dispatcher.service.dry_run import planning
from longshore.dispatcher.service.dry_run_model import JobPlan


def plan_job(
    fork: Callable[[], EngineFork],
    job: Job,
    now: float,
    *,
    ended: Mapping[str, bool] | None = None,
    revises: bool = False,
) -> JobPlan:
    """Return what a job would come to at this moment, as `planning` does."""
    parts = planning(fork, job, now, ended=ended, revises=revises)
    while True:
        try:
            next(parts)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # as its type says
