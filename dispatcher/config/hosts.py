"""Which hosts and networks a configuration names: what is this machine, and what is a network.

Stands alone: what is checked of a configuration and who looks at a caller's address ask both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


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
