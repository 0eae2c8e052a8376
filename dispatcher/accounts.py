"""Whose spending has limits: projects and users, by name."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from longshore.dispatcher.model import EVERYBODY_ELSE, Container, SchedulerSettings
from longshore.pool.model import Payer


class Holder(NamedTuple):
    """A project or a user (`kind`) that has a limit of its own."""

    kind: str
    name: str


Account = tuple[Holder, ...]
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

    def of(self, holder: Holder) -> Decimal | None:
        """Return what a project or a user may spend an hour, None for no limit."""
        spends = self._by_name[holder.kind]
        return spends.get(holder.name, spends.get(EVERYBODY_ELSE))

    def account_of(self, container: Container) -> Account:
        """Return whose limits a container counts against: only of those that have one."""
        if not any(self._by_name.values()):
            return ()
        return self.account_for(Payer(project=container.project, user=container.user))

    def account_for(self, payer: Payer) -> Account:
        """Return the account of a payer, without those who have no limit (any more)."""
        names = (("project", payer.project), ("user", payer.user))
        holders = (Holder(kind, name) for kind, name in names if name is not None)
        return tuple(holder for holder in holders if self.of(holder) is not None)


def payer_of(account: Account) -> Payer:
    """Return an account as it is journalled; `SpendLimits.account_for` reads it."""
    names = dict(account)
    return Payer(project=names.get("project"), user=names.get("user"))
