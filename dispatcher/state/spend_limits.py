"""Whose spending has limits: projects and users, by name."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from longshore.dispatcher.cost.shares import dominant_share
from longshore.dispatcher.domain.containers import (
    EVERYBODY_ELSE,
    Container,
    Placement,
    SchedulerSettings,
)
from longshore.dispatcher.domain.jobs import Job
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.model import Payer

# ---- what an attempt occupies of its instance ----------------------------------------------------


def placement_of(container: Container, placement: Placement) -> Placement:
    """Return how a container shares its instance: those of per-instance jobs come beside others."""
    return Placement.PACKED if container.pinned_to else placement


def share_of(resources: Resources, type_: InstanceType, placement: Placement) -> Decimal:
    """Return which part of an instance a request occupies: what the ledger books it for."""
    if placement is Placement.EXCLUSIVE:
        return Decimal(1)
    share = dominant_share(resources, type_.allocatable)
    return Decimal(share.numerator) / Decimal(share.denominator)


# ---- whose spending has limits: projects and users, by name --------------------------------------


class SpendSubject(NamedTuple):
    """A project or a user (`kind`) that has a limit of its own."""

    kind: str
    name: str


SpendSubjects = tuple[SpendSubject, ...]
"""All whose limits a container counts against, beside the cluster's; () for nobody's."""


class SpendLimits:
    """What may be spent an hour, in US dollars; `cluster` is None for no limit."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self.cluster = settings.max_hourly_spend_usd
        self._by_name = {
            "project": settings.max_hourly_spend_usd_per_project,
            "user": settings.max_hourly_spend_usd_per_user,
        }

    @property
    def exist(self) -> bool:
        """Return whether there is any limit at all."""
        return self.cluster is not None or self.of_subjects

    @property
    def of_subjects(self) -> bool:
        """Return whether any project or user has a limit."""
        return any(self._by_name.values())

    def of(self, subject: SpendSubject) -> Decimal | None:
        """Return what a project or a user may spend an hour, None for no limit."""
        spends = self._by_name[subject.kind]
        return spends.get(subject.name, spends.get(EVERYBODY_ELSE))

    def account_of(self, container: Container) -> SpendSubjects:
        """Return whose limits a container counts against: only of those that have one."""
        if not self.of_subjects:
            return ()
        return self.account_for(payer_of(container))

    def account_for(self, payer: Payer) -> SpendSubjects:
        """Return the account of a payer, without those who have no limit (any more)."""
        names = (("project", payer.project), ("user", payer.user))
        subjects = (SpendSubject(kind, name) for kind, name in names if name is not None)
        return tuple(subject for subject in subjects if self.of(subject) is not None)


def payer_of(container: Container | None, job: Job | None = None) -> Payer:
    """Return for whom what is bought for a container is; None for nobody in particular.

    `job` is that of the container, None for one of its own. Whose limits it counts against,
    `SpendLimits.account_for` finds.
    """
    if job is not None:
        return payer_of_job(job)
    if container is None:
        return Payer()
    return Payer(project=container.project, user=container.user, job_name=container.spec.name)


def payer_of_job(job: Job | None) -> Payer:
    """Return for whom what is bought for a job is; None for nobody in particular."""
    if job is None:
        return Payer()
    return Payer(project=job.project, user=job.user, job_name=job.name)
