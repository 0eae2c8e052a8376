"""What the members of an elastic job are told of each other; pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from longshore.dispatcher.elastic.jobs import Live
from longshore.dispatcher.planner.elastic_model import Component

MEMBERS_MOST = 1000
"""How many containers an elastic job may have: each is told of the hosts of all."""

HOSTS_MOST_BYTES = 384 * 2**10
"""How long that may be as JSON: so many addresses, and as many names of components."""

_NOT_IN_NAMES = re.compile(r"[^A-Z0-9]")


def hosts_of(live: Live, address_of: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    """Return where the members of a job are, as all of them find it in their environment.

    The hosts of each component are in the order of its members; one that has no place has "".
    `address_of` returns where an instance is reached ("host:port"), "" where nobody knows.
    """
    members = live.members()
    here = {m.instance_id for m in members.values() if m.instance_id}
    names = {instance_id: host_of(address_of(instance_id)) for instance_id in sorted(here)}
    found = []
    for component in live.job.components:
        known = (members.get((component.name, index)) for index in range(component.count))
        hosts = [names.get(each.instance_id, "") if each is not None else "" for each in known]
        found.append((hosts_variable(component.name), ",".join(hosts)))
    return tuple(found)


def own_environment(component: Component, index: int) -> tuple[tuple[str, str], ...]:
    """Return what a member finds in its environment of itself."""
    return (
        ("LONGSHORE_COMPONENT", component.name),
        ("LONGSHORE_COMPONENT_INDEX", str(index)),
        ("LONGSHORE_COMPONENT_COUNT", str(component.count)),
    )


def variable(component: str) -> str:
    """Return a component's name as it stands in names of variables."""
    return _NOT_IN_NAMES.sub("_", component.upper())


def hosts_variable(component: str) -> str:
    """Return the variable in which the hosts of a component are."""
    return f"LONGSHORE_{variable(component)}_HOSTS"


def host_of(address: str) -> str:
    """Return the host of "host:port"; an IPv6 address comes without its brackets."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or (":" in host and not host.startswith("[")):
        host = address
    return host.removeprefix("[").removesuffix("]")
