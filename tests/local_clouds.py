"""Libcloud's own drivers of DigitalOcean and GCE, sent to another address: they know only one."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, cast

import pytest
from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.digitalocean import DigitalOceanNodeDriver
from libcloud.compute.drivers.gce import GCEConnection, GCENodeDriver
from libcloud.compute.providers import DRIVERS

_URL = {"now": ""}


def local_digital_ocean(key: str) -> NodeDriver:
    """Return Libcloud's driver for DigitalOcean, at the address of the test."""
    driver: NodeDriver = DigitalOceanNodeDriver(key)  # type: ignore[no-untyped-call]  # Libcloud's
    connection: Any = driver.connection
    connection.base_url, connection.secure = _URL["now"], 0
    connection.connect()
    return driver


class _GceConnection(GCEConnection):
    poll_interval = 0.01

    def connect(self, *_: Any, **__: Any) -> None:
        super().connect(base_url=_URL["now"])  # type: ignore[no-untyped-call]  # Libcloud's


class LocalGce(GCENodeDriver):
    """Libcloud's driver for GCE, at the address of the test."""

    connectionCls = _GceConnection  # noqa: N815 - Libcloud's name


def send_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Libcloud speak to `url` where it would to DigitalOcean or GCE, without encryption."""
    monkeypatch.setitem(_URL, "now", url)
    drivers = cast("MutableMapping[Any, Any]", DRIVERS)
    monkeypatch.setitem(drivers, "digitalocean", (__name__, "local_digital_ocean"))
    monkeypatch.setitem(drivers, "gce", (__name__, "LocalGce"))
