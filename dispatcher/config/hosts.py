"""Which hosts and networks a configuration names: what is this machine, and what is a network.

Stands alone: what is checked of a configuration, who looks at a caller's address and who sends
notifications ask it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def is_loopback(host: str) -> bool:
    """Return whether a host (without brackets) is this machine whatever a resolver says."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks that addresses and CIDR blocks name; raises `ValueError`."""
    return tuple(ipaddress.ip_network(each) for each in texts)


def address(text: str) -> Address | None:
    """Return the address that a text is, None for what is none.

    One of IPv4 that comes in the dress of IPv6, as sockets for both have it, is one of IPv4.
    """
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def is_public(found: Address) -> bool:
    """Return whether an address is one of the internet, and none of this machine or its networks.

    What carries an address of IPv4 in itself (mapped, 6to4, Teredo, NAT64) is what that one is.
    """
    if isinstance(found, ipaddress.IPv6Address):
        inner = [*_carried_by(found)]
        if inner:
            return all(map(is_public, inner))
        if found.is_site_local:
            return False
    return found.is_global and not (found.is_multicast or found.is_reserved)


def _carried_by(outer: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    for each in (outer.ipv4_mapped, outer.sixtofour, *(outer.teredo or ())):
        if each is not None:
            yield each
    if outer in _NAT64:
        yield ipaddress.IPv4Address(int(outer) & 0xFFFF_FFFF)
