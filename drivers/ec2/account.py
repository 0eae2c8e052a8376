"""What EC2 tells of an account beside its instances: limits, prices, leftovers, bills.

Stands alone: it is the half of the driver that changes nothing; `instance_set` is built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any

from longshore.drivers.billing import Billed, BillingRule
from longshore.drivers.ec2.billing import RULE, billed_of
from longshore.drivers.ec2.families import Family
from longshore.drivers.ec2.faults import FAILURES, judged
from longshore.drivers.ec2.leftovers import leftovers
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.ec2.power import INTERRUPTION_WATCH, POWER_OFF
from longshore.drivers.ec2.prices import PriceList, prices, spot_history
from longshore.drivers.ec2.prices import zones as zones_named
from longshore.drivers.interface import InstanceType, Leftover, ZonePrice

BILLS_PER_CALL = 200
"""EC2 takes so many values of one filter."""


class Ec2Account:
    """One account in one region, through boto3's `client` for EC2."""

    def __init__(
        self, client: Any, parameters: Ec2Parameters, *, clock: Callable[[], float]
    ) -> None:
        """Speak through `client`; `clock` tells monotonic seconds."""
        self._client = client
        self._parameters = parameters
        self._price_list = PriceList(
            parameters.price_list_url, region=client.meta.region_name, clock=clock
        )

    def quota_group(self, instance_type: InstanceType) -> str:
        """Return the name of the limit of vCPUs that a type counts against."""
        family = Family.of(instance_type.provider_type)
        if family is None:
            return instance_type.provider_type
        return family.quota_group(preemptible=instance_type.preemptible)

    def power_off_command(self) -> str:
        """Return what ends an instance from within: it terminates when it is shut down."""
        return POWER_OFF

    def interruption_watch(self) -> str:
        """Return what waits on an instance until EC2 takes it back."""
        return INTERRUPTION_WATCH

    def prices(self, instance_types: Sequence[InstanceType]) -> Mapping[str, Decimal]:
        """Return what an hour of each type costs now in USD; on demand by a list of the day."""
        return prices(
            self._client,
            instance_types,
            parameters=self._parameters,
            price_list=self._price_list,
        )

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        """Return what preemptible types cost in zones since a time, by the spot price history."""
        if not any(each.preemptible for each in instance_types):
            return ()
        asked = datetime.fromtimestamp(since, tz=UTC)
        try:
            within = zones_named(self._client, (), zones)
            return spot_history(self._client, instance_types, within, asked)
        except FAILURES as failure:
            call = "the history of spot prices"
            raise judged(failure, call=call, changes=False).error from failure

    def leftovers(self, tags: Mapping[str, str]) -> Sequence[Leftover]:
        """List the volumes and network interfaces with all of `tags` that no instance has."""
        return leftovers(self._client, tags)

    def billing_rule(self) -> BillingRule:
        """Return how EC2 bills, by AWS' own text."""
        return RULE

    def bills(self, instance_ids: Sequence[str]) -> Mapping[str, Billed]:
        """Return what EC2 knows of the billing of these, also of terminated ones for an hour.

        They are asked for by a filter: to name one that EC2 does not know (any more) would be an
        error. Raises any `CloudError`.
        """
        wanted = set(instance_ids)
        told: dict[str, Billed] = {}
        for begin in range(0, len(instance_ids), BILLS_PER_CALL):
            some = list(instance_ids[begin : begin + BILLS_PER_CALL])
            try:
                for answer in self._described(some):
                    now = told_at(answer)
                    for each in described_in(answer):
                        if each["InstanceId"] in wanted:
                            told[each["InstanceId"]] = billed_of(each, now)
            except FAILURES as failure:
                raise judged(failure, call="DescribeInstances", changes=False).error from failure
        return told

    def _described(self, instance_ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        return iter(
            self._client.get_paginator("describe_instances").paginate(
                Filters=[{"Name": "instance-id", "Values": list(instance_ids)}]
            )
        )


def described_in(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the instances that an answer of DescribeInstances describes."""
    for reservation in answer.get("Reservations", []):
        yield from reservation.get("Instances", [])


def told_at(answer: Mapping[str, Any]) -> float | None:
    """Return EC2's time in an answer, in seconds since the epoch, None where it tells none.

    Drivers have no clock of their own, and a machine's may be wrong.
    """
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
