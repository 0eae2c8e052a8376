"""Where the server is and how to speak to it: from arguments, the environment, this machine."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from longshore.dispatcher.api.schemas.containers import FieldProblem
from longshore.dispatcher.client.errors import InvalidSettingsError
from longshore.dispatcher.client.server_address import (
    NOT_A_TOKEN,
    OverNetwork,
    Place,
    is_token,
    not_a_url,
    server_at,
)
from longshore.dispatcher.config.machine import default_data_dir
from longshore.dispatcher.config.unix_socket import NAME

DEFAULT_URL = "http://127.0.0.1:8420"
CONNECT_TIMEOUT_S = 10.0
PROBE_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How to speak to one server."""

    place: Place
    #: What it is called in errors.
    url: str
    #: "" for none.
    token: str
    #: Whom to trust beside nobody: a file of certificates; None for whom this machine trusts.
    ca_file: str | None

    @property
    def base_url(self) -> str:
        """Return what paths are appended to; on a socket, the name is this machine's."""
        return self.place.url if isinstance(self.place, OverNetwork) else "http://localhost"

    def tls_context(self) -> ssl.SSLContext:
        """Return what checks the server's certificate."""
        return ssl.create_default_context(cafile=self.ca_file)


def client_settings(
    url: str | None = None, token: str | None = None, ca_file: str | None = None
) -> ClientSettings:
    """Return the settings for a server.

    What is None is taken from LONGSHORE_URL, LONGSHORE_TOKEN and LONGSHORE_CA_FILE. Without a URL
    the server is that of this machine: on the Unix socket in the default data directory where one
    answers, else at `DEFAULT_URL`. Raises `InvalidSettingsError` with all that is wrong.
    """
    environment: Mapping[str, str] = os.environ
    wanted = environment.get("LONGSHORE_URL", "") if url is None else url
    if url is None and not wanted:
        wanted = default_url(default_data_dir())
    key = environment.get("LONGSHORE_TOKEN", "") if token is None else token
    trusted = ca_file or environment.get("LONGSHORE_CA_FILE", "") or None
    place = server_at(wanted)
    problems = []
    if place is None:
        problems.append(FieldProblem(path="url", message=not_a_url(wanted)))
    if not is_token(key):
        problems.append(FieldProblem(path="token", message=NOT_A_TOKEN))
    if trusted is not None and (why := _untrusted(trusted)):
        problems.append(FieldProblem(path="ca_file", message=why))
    if place is None or problems:
        raise InvalidSettingsError("the client cannot be made", errors=problems)
    shown = place.url if isinstance(place, OverNetwork) else wanted
    return ClientSettings(place=place, url=shown, token=key, ca_file=trusted)


def default_url(data_dir: Path) -> str:
    """Return the URL of this machine's server: its socket if it answers, else `DEFAULT_URL`."""
    path = data_dir / NAME
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except OSError:
            # None there, nobody listens on it any more, it is another user's, or its path is too
            # long for a socket: in each case the server is found where everybody finds it.
            return DEFAULT_URL
    return f"unix://{quote(str(path))}"


def _untrusted(ca_file: str) -> str:
    """Return why a file cannot be whom to trust, "" when it can."""
    try:
        ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        why = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        return f"cannot read {ca_file} ({why}): name a PEM file in LONGSHORE_CA_FILE"
    return ""
