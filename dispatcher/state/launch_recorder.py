"""Writes down the launches of which nobody knows whether they made an instance; pure.

A create call whose answer was lost, since it took too long or the server ended meanwhile, may have
made an instance, which is billed then. Until a listing settles that, the ledger has a bill of the
launch, under an id that no instance has (`launch_id`), from when the call was sent. Nothing is
booked of it, since likely there is nothing; all of its time is uncertain (`cost.tiling`).

When a listing shows its instance, or the pool knows that there is none, that bill is dropped in
the same commit, and the hours in which it was are reckoned anew. The time before the listing is
then the instance's own: its bill begins with the call, too, and its payer is the launch's.
"""

from __future__ import annotations

from longshore.dispatcher.cost.money import nusd_of
from longshore.dispatcher.domain.ledger import Account, InstanceBill, launch_id, ms_of
from longshore.dispatcher.domain.messages import Change, DropBill, SaveBill
from longshore.drivers.billing import BillingRule
from longshore.drivers.errors import BugError
from longshore.pool.core import PoolCore
from longshore.pool.launching import type_of
from longshore.pool.model import Launch, Payer


class LaunchRecorder:
    """The bills of launches in doubt, as they are written."""

    def __init__(self, pool: PoolCore, rule: BillingRule) -> None:
        """`rule` is how the cloud bills."""
        self._pool, self._rule = pool, rule
        self._written: dict[str, InstanceBill] = {}

    def restore(self, bill: InstanceBill) -> None:
        """Take up what an earlier process has written of a launch."""
        self._written[bill.instance_id] = bill

    def bill_of(self, launch_id: str) -> InstanceBill | None:
        """Return what is written of a launch, None for nothing."""
        return self._written.get(launch_id)

    def record(self) -> list[Change]:
        """Return what is to be written, or dropped, of the launches that have changed, in order."""
        wanted = {launch_id(token): token for token in self._doubted()}
        if wanted.keys() == self._written.keys():
            return []
        over = sorted(self._written.keys() - wanted.keys())
        new = sorted(wanted.keys() - self._written.keys())
        for each in over:
            del self._written[each]
        for each in new:
            self._written[each] = self._bill(self._pool.launches[wanted[each]].launch)
        return [
            *(DropBill(launch_id=each) for each in over),
            *(SaveBill(bill=self._written[each]) for each in new),
        ]

    def check(self) -> None:
        """Raise `BugError` when what is written is not what is in doubt."""
        wrong = self._written.keys() ^ {launch_id(token) for token in self._doubted()}
        if wrong:
            raise BugError(f"{sorted(wrong)}: in doubt and not written, or the other way round")

    def _doubted(self) -> set[str]:
        """Return the tokens of the launches in doubt.

        Before the first listing, those of instances that an earlier process knew are not.
        """
        doubted = self._pool.doubted_launches
        if not doubted or not self._pool.unlisted:
            return doubted
        return doubted - set(self._pool.unlisted_tokens().values())

    def _bill(self, launch: Launch) -> InstanceBill:
        type_ = type_of(self._pool, launch)
        return InstanceBill(
            instance_id=launch_id(launch.token),
            type_name=type_.name,
            provider_type=type_.provider_type,
            preemptible=type_.preemptible,
            nusd_per_hour=nusd_of(type_.price_usd_per_hour),
            payer=account_of_payer(launch.payer),
            created_ms=ms_of(launch.created_at),
            rule=self._rule,
        )


def account_of_payer(payer: Payer) -> Account:
    """Return to whom that is booked which an instance costs before it is of use."""
    return Account(project=payer.project or "", user=payer.user or "", job_name=payer.job_name)
