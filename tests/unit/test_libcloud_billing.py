"""What nodes of the clouds behind Libcloud tell of their billing, as their drivers give it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from libcloud.compute.base import Node, NodeDriver
from libcloud.compute.types import NodeState

from longshore.drivers.billing import NOTHING_BILLED, Billed
from longshore.drivers.libcloud.billing import LONGEST_PENDING_S
from longshore.drivers.libcloud.parameters import DIGITAL_OCEAN, GCE, OPENSTACK
from longshore.drivers.libcloud.providers import OtherProvider, provider_of

MADE = datetime(2026, 11, 28, 12, tzinfo=UTC)


def node(*, made: datetime | None = None, **extra: Any) -> Node:
    account = NodeDriver("key")  # type: ignore[no-untyped-call]  # Libcloud's
    return Node("1", "n", NodeState.RUNNING, [], [], account, extra=extra, created_at=made)


def test_when_a_node_was_made_is_told_where_the_cloud_says_it_and_what_that_means() -> None:
    zone = SimpleNamespace(name="europe-west3-a")
    stamp = "2026-11-28T04:00:00.000-08:00"
    told = [
        provider_of(OPENSTACK).billed(node(made=MADE, availability_zone="az1")),
        provider_of(GCE).billed(node(creationTimestamp=stamp, zone=zone)),
        provider_of(DIGITAL_OCEAN).billed(node(made=MADE)),
    ]
    at = MADE.timestamp()
    assert told == [
        Billed(billed_from=at, from_slack_s=LONGEST_PENDING_S, zone="az1"),
        Billed(billed_from=at, from_slack_s=LONGEST_PENDING_S, zone="europe-west3-a"),
        Billed(billed_from=at),
    ]


def test_a_time_that_is_none_or_has_no_place_is_not_told() -> None:
    nowhere = MADE.replace(tzinfo=None)
    assert provider_of(DIGITAL_OCEAN).billed(node(made=nowhere)) == NOTHING_BILLED
    assert provider_of(OPENSTACK).billed(node()) == NOTHING_BILLED
    for stamp in ("yesterday", 7, None, "2026-11-28T12:00:00"):
        assert provider_of(GCE).billed(node(creationTimestamp=stamp)) == NOTHING_BILLED
    assert OtherProvider().billed(node(made=MADE)) == NOTHING_BILLED
