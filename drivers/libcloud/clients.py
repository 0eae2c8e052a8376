"""Libcloud's drivers, each in the hands of one thread at a time, and what they have sent."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from libcloud.common.base import Connection
from libcloud.compute.base import NodeDriver

from longshore.drivers.errors import ConfigError
from longshore.drivers.libcloud.parameters import LibcloudParameters
from longshore.drivers.libcloud.providers import Provider, driver_class_of

_RETRIES = "LIBCLOUD_RETRY_FAILED_HTTP_REQUESTS"


class Clients:
    """Makes Libcloud's drivers as they are needed: one of them serves one call at a time only.

    `state_dir` is for what they keep on disk, and is made when missing.
    Raises `ConfigError` when Libcloud has been told to repeat requests: a create must not be.
    """

    def __init__(self, parameters: LibcloudParameters, provider: Provider, state_dir: Path) -> None:
        if os.environ.get(_RETRIES):
            what = f"Libcloud is told to repeat requests: unset {_RETRIES} in the environment"
            raise ConfigError([("driver.name", what)])
        self._parameters = parameters
        self._provider = provider
        self._state_dir = state_dir
        self._lock = threading.Lock()
        self._idle: list[NodeDriver] = []
        self._closed = False

    @contextmanager
    def borrowed(self) -> Iterator[NodeDriver]:
        """Yield a driver that nobody else has; making one may ask the cloud, and raise its way."""
        with self._lock:
            driver = self._idle.pop() if self._idle else None
        if driver is None:
            driver = self._make()
        try:
            yield driver
        finally:
            with self._lock:
                if not self._closed:
                    self._idle.append(driver)
            if self._closed:
                _hang_up(driver)

    def close(self) -> None:
        """Close all connections; those that are in use, when their call ends."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for driver in idle:
            _hang_up(driver)

    def _make(self) -> NodeDriver:
        parameters = self._parameters
        self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        credentials = [each for each in (parameters.key, parameters.secret) if each]
        options: dict[str, Any] = {
            **self._provider.driver_options(parameters, self._state_dir),
            **parameters.options,
            **parameters.secret_options,
        }
        driver = driver_class_of(parameters.provider)(*credentials, **options)
        connection: Any = driver.connection
        if connection.timeout != parameters.timeout_s:
            # DigitalOcean's driver takes no such argument.
            connection.timeout = parameters.timeout_s
            connection.connect()
        return driver


class Sent(Enum):
    """How far a create call came, as its requests tell."""

    UNKNOWN = "no request was seen: this driver speaks to its cloud in its own way"
    NOTHING = "only what asks and changes nothing was sent"
    ASKED = "the create was sent"
    ANSWERED = "the create was accepted"


class Witness:
    """Sees the requests that a Libcloud driver sends while it is watched."""

    def __init__(self) -> None:
        self.sent = Sent.UNKNOWN

    @contextmanager
    def watching(self, driver: NodeDriver) -> Iterator[None]:
        """Note what the driver's connection sends."""
        connection = getattr(driver, "connection", None)
        request: Callable[..., Any] | None = getattr(connection, "request", None)
        if connection is None or request is None:
            yield
            return

        def noted(*arguments: Any, **keywords: Any) -> Any:
            creating = str(keywords.get("method", "GET")).upper() != "GET"
            self._note(Sent.ASKED if creating else Sent.NOTHING)
            response = request(*arguments, **keywords)
            if creating:
                self._note(Sent.ANSWERED)
            return response

        connection.request = noted
        try:
            yield
        finally:
            del connection.request

    def _note(self, sent: Sent) -> None:
        order = list(Sent)
        self.sent = max(self.sent, sent, key=order.index)


def _hang_up(driver: NodeDriver) -> None:
    """Close what a driver has open: Libcloud has no call for that."""
    for value in vars(driver).values():
        if isinstance(value, Connection):
            session = getattr(value.connection, "session", None)
            if session is not None:
                session.close()
