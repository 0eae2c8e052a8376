"""Whether something may begin, whatever room there is: one answer for all who start anything; pure.

Containers that queue, members of elastic jobs, system jobs and plans of jobs are held back by the
same things: a job that is held, a priority of 0, a budget that is spent. Whoever asks gets the
first of these in that order, as the sentence that those who wait are told, and with the time at
which it ends by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from longshore.dispatcher.domain.budgets import BudgetStop, first_stop
from longshore.dispatcher.domain.containers import Container, WaitReason
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.ledger import Account


def stop_of(container: Container, stops: Iterable[BudgetStop]) -> BudgetStop | None:
    """Return the spent budget that a container counts against, None for none."""
    return first_stop(_account_of(container), stops)


def why_not_begin(
    container: Container, *, job_is_held: bool, stops: Iterable[BudgetStop]
) -> WaitReason | None:
    """Return what holds a container back, None where it may begin.

    `job_is_held` says so of the job that it is of; `stops` are all budgets that are spent.
    """
    held_job = container.job_id if job_is_held else ""
    return _first_of(held_job, container.priority, _account_of(container), stops)


def why_job_not_begin(job: Job, *, stops: Iterable[BudgetStop]) -> WaitReason | None:
    """Return what holds back all of a job of one task, None where it may begin."""
    account = Account(project=job.project, user=job.user, labels=job.tasks[0].spec.labels)
    return _first_of(job.id if job.held else "", job.priority, account, stops)


def _account_of(container: Container) -> Account:
    labels = container.spec.labels
    return Account(project=container.project, user=container.user, labels=labels)


def _first_of(
    held_job: str, priority: int, account: Account, stops: Iterable[BudgetStop]
) -> WaitReason | None:
    if held_job:
        message = f"its job {held_job} is held, and starts nothing until it is released"
        return WaitReason(code="job_held", message=message)
    if priority == 0:
        return WaitReason(code="held", message="held back: its priority is 0")
    stop = first_stop(account, stops)
    return None if stop is None else stop.reason
