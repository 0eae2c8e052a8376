"""What the members of an elastic job are told of each other; pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from dispatcher.elastic_jobs import Key, Live

_NOT_IN_NAMES = re.compile(r"[^A-Z0-9]")


def environment_of(
    live: Live, key: Key, address_of: Callable[[str], str]
) -> tuple[tuple[str, str], ...]:
    """Return what a member finds in its environment of itself and of all components.

    The hosts of each component are in the order of its members; one that has no place has "".
    `address_of` returns where an instance is reached ("host:port"), "" where nobody knows.
    """
    found = []
    for component in live.job.components:
        hosts = []
        for index in range(component.count):
            instance_id = live.member((component.name, index)).instance_id
            hosts.append(host_of(address_of(instance_id)) if instance_id else "")
        found.append((f"LONGSHORE_{variable(component.name)}_HOSTS", ",".join(hosts)))
    return (
        *found,
        ("LONGSHORE_COMPONENT", key[0]),
        ("LONGSHORE_COMPONENT_INDEX", str(key[1])),
        ("LONGSHORE_COMPONENT_COUNT", str(live.roles()[key[0]].count)),
    )


def variable(component: str) -> str:
    """Return a component's name as it stands in names of variables."""
    return _NOT_IN_NAMES.sub("_", component.upper())


def host_of(address: str) -> str:
    """Return the host of "host:port"; an IPv6 address comes without its brackets."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or (":" in host and not host.startswith("[")):
        host = address
    return host.removeprefix("[").removesuffix("]")
