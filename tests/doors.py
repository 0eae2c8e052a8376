"""Doors for servers of tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from longshore.dispatcher.access.issuer import Issuer
from longshore.dispatcher.api.doors import Doors
from longshore.dispatcher.config.model import AuthConfig, AuthMode
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.service.services import Services


def doors_of(
    services: Services,
    *,
    mode: AuthMode = AuthMode.OPEN,
    config: AuthConfig | None = None,
    issuer: Issuer | None = None,
    now: Callable[[], float] = time.time,
    inside: Callable[[asyncio.BaseTransport | None], Principal | None] = lambda _: None,
) -> Doors:
    """Return the doors of a server with these services."""
    return Doors(
        mode=mode,
        config=config or AuthConfig(),
        tokens=services.tokens,
        issuer=issuer,
        now=now,
        clock=time.monotonic,
        inside=inside,
    )
