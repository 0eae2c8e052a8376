"""What files of the ledger say of who bills, and what can be wrong with when they are written."""

from __future__ import annotations

from typing import Final

from longshore.dispatcher.config.model import Config
from longshore.dispatcher.cost.focus import FocusContext
from longshore.dispatcher.domain import schedules
from longshore.dispatcher.input.problems import Problems

_CLOUDS: Final = {"ec2": ("AWS", "Amazon EC2")}
"""Who sells instances and what that is called there, by the name of the driver."""


def biller_of(config: Config) -> FocusContext:
    """Return what FOCUS files say of the cluster and of who bills it."""
    biller, driver = config.cost.biller, config.driver.name
    provider, service = _CLOUDS.get(driver, (driver, driver))
    return FocusContext(
        provider=biller.provider or provider,
        service=biller.service or service,
        account_id=biller.account_id or config.cluster,
        account_name=biller.account_name,
        currency=config.cost.currency,
        cluster=config.cluster,
        regions=dict(biller.regions),
    )


def check_cost_files(config: Config, problems: Problems) -> None:
    """Add what is wrong with when the ledger's files are written."""
    export = config.cost.export
    if why := schedules.time_zone_problem(export.tz):
        problems.add("cost.export.tz", why)
    elif why := schedules.check((export.cron,), export.tz):
        problems.add("cost.export.cron", why)
