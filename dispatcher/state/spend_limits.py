"""Whose spending has limits: projects and users, by name."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from longshore.dispatcher.domain.containers import (
    EVERYBODY_ELSE,
    Attempt,
    Container,
    Placement,
    SchedulerSettings,
)
from longshore.dispatcher.domain.jobs import Job
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.cost import cost_usd
from longshore.pool.model import Payer

# --------------------------------------------------------------------------------------------------
# What an attempt costs: its time on the instance, at the share of the price that it occupies.

_LEAST_SHARE = Decimal(1) / Decimal(256)


def placement_of(container: Container, placement: Placement) -> Placement:
    """Return how a container shares its instance: those of per-instance jobs come beside others."""
    return Placement.PACKED if container.pinned_to else placement


def share_of(resources: Resources, type_: InstanceType, placement: Placement) -> Decimal:
    """Return which part of an instance a request occupies: its largest share in any dimension.

    It is never nothing: who asks for next to nothing takes up a place for a container.
    """
    if placement is Placement.EXCLUSIVE:
        return Decimal(1)
    room = type_.allocatable
    custom = dict(room.custom)
    pairs = (
        (resources.cpu_millis, room.cpu_millis),
        (resources.memory_bytes, room.memory_bytes),
        (resources.disk_bytes, room.disk_bytes),
        (resources.gpus, room.gpus),
        *((amount, custom.get(name, 0)) for name, amount in resources.custom),
    )
    shares = [Decimal(part) / Decimal(whole) for part, whole in pairs if whole > 0]
    return min(Decimal(1), max(_LEAST_SHARE, *shares))


def attempt_cost(
    *, started_at: float, finished_at: float, price_usd_per_hour: Decimal, share: Decimal
) -> Decimal:
    """Return the cost in USD of an attempt between two times (seconds), to eight decimals."""
    return cost_usd(price_usd_per_hour, finished_at - started_at, share=share)


def cost_of(
    attempt: Attempt, given: Resources, type_: InstanceType | None, placement: Placement
) -> Decimal:
    """Return the cost in USD of an ended attempt that was given some resources of an instance.

    One that never started cost nothing; on a type that is not configured (None), it is all of it.
    """
    if attempt.started_at is None or attempt.finished_at is None:
        return Decimal(0)
    return attempt_cost(
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        price_usd_per_hour=attempt.price_usd_per_hour,
        share=share_of(given, type_, placement) if type_ is not None else Decimal(1),
    )


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
        return self.cluster is not None or any(self._by_name.values())

    def of(self, subject: SpendSubject) -> Decimal | None:
        """Return what a project or a user may spend an hour, None for no limit."""
        spends = self._by_name[subject.kind]
        return spends.get(subject.name, spends.get(EVERYBODY_ELSE))

    def account_of(self, container: Container) -> SpendSubjects:
        """Return whose limits a container counts against: only of those that have one."""
        if not any(self._by_name.values()):
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
