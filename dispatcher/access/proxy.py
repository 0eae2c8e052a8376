"""Who a request is from, as a proxy says that is trusted: by headers; pure.

Anybody can write a header, so that one counts only in what comes from the addresses of the proxy
(of the connection itself, never of a header); in what comes from elsewhere it is as if it were not
there. The proxy must set or remove each header in every request: what it lets through is what a
caller says of itself. A header that comes twice is refused, since which of the two the proxy wrote
nobody can tell.

In the same way `X-Forwarded-For` counts from the proxy only. It is read from its end, where the
proxy added what it saw itself, up to the first address that is no proxy's: what stands before that
is what a caller wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from longshore.dispatcher.access.claimed import Claimed, Denial, DenialKind, principal_of
from longshore.dispatcher.config.hosts import address, networks
from longshore.dispatcher.config.model import ProxyConfig
from longshore.dispatcher.domain.principals import Door, Principal, Role

HeaderValues = Callable[[str], Sequence[str]]
"""Returns the values of a header of a request, one for each time that it is given."""
_HOPS_MOST = 20
_ROLES = {each.value: each for each in Role}


class TrustedProxy:
    """The proxy of a configuration, which need not be there: then it sends nothing."""

    def __init__(self, config: ProxyConfig) -> None:
        """Raises `ValueError` for addresses that a configuration that was loaded has not."""
        self._config = config
        self._networks = networks(config.addresses)

    def is_at(self, peer: str) -> bool:
        """Return whether it is the proxy that asks from an address."""
        found = address(peer)
        return found is not None and any(found in each for each in self._networks)

    def holder(self, peer: str, values_of: HeaderValues) -> Principal | Denial | None:
        """Return who it says that a request is from, or why that is nobody's.

        None where it says nothing, or where `peer` is somebody else's address.
        """
        if not self.is_at(peer):
            return None
        given: dict[str, str] = {}
        names = (self._config.user_header, self._config.projects_header, self._config.role_header)
        for name in names:
            values = values_of(name) if name else ()
            if len(values) > 1:
                said = f"The header {name} is given twice: the proxy must replace what it is sent."
                return Denial(kind=DenialKind.MALFORMED, sentence=said)
            given[name] = values[0].strip() if values else ""
        user, projects, role = (given[name] for name in names)
        if user:
            return _told(user, projects, role)
        if projects or role:
            said = f"The proxy names projects or a role, and no user in {names[0]}: it must."
            return Denial(kind=DenialKind.MALFORMED, sentence=said)
        return None

    def origin(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Return where a request comes from: `peer`, or whom the proxy at `peer` names."""
        if not self.is_at(peer):
            return peer
        origin = peer
        hops = [hop.strip() for value in forwarded_for for hop in value.split(",")]
        for hop in reversed(hops[-_HOPS_MOST:]):
            found = address(hop)
            if found is None:
                break
            origin = str(found)
            if not self.is_at(origin):
                break
        return origin


def _told(user: str, projects: str, role: str) -> Principal | Denial:
    found = _ROLES.get(role or Role.USER.value)
    if found is None:
        said = "The proxy names a role that is none: it must be user, lead, admin or metrics."
        return Denial(kind=DenialKind.NO_RIGHT, sentence=said)
    named = tuple(each for part in projects.split(",") if (each := part.strip()))
    claimed = Claimed(user=user, role=found, projects=named)
    return principal_of(claimed, door=Door.PROXY, until=None)
