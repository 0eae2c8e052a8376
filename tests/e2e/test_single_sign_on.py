"""Must show: who is let in by an OpenID Connect provider, and by a proxy, at a real server."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3

from longshore.dispatcher.access.issuer_keys import RETRY_S
from tests.conftest import not_tested
from tests.dispatcher_process import ApiError, DispatcherProcess, wait_for
from tests.oidc_provider import Provider

NOBODY = "nobody"
CONTAINER = {"command": ["true"], "cpus": 0.5, "memory": "16MiB"}


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def server(tmp_path: Path, provider: Provider) -> Iterator[DispatcherProcess]:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    config = {
        "auth": {
            "mode": "required",
            "issuer": {
                "url": provider.url,
                "audience": "longshore",
                "claims": {"role": "realm_access.roles", "projects": "groups"},
                "roles": {"ops": "admin", "staff": "user"},
                "project_prefix": "/",
            },
            "proxy": {
                "addresses": ["127.0.0.9"],
                "user_header": "X-User",
                "projects_header": "X-Projects",
                "role_header": "X-Role",
            },
        },
        "instance_types": {
            "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
        },
        "engine": {"name": "process", "run_as": NOBODY},
        "pool": {"idle_timeout_s": 1},
    }
    with DispatcherProcess(tmp_path, config) as process:
        yield process


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def status_of(server: DispatcherProcess, headers: dict[str, str], path: str = "/v1/whoami") -> int:
    """Return the status of the answer to somebody."""
    try:
        server.call("GET", path, **headers)
    except ApiError as error:
        return error.status
    return 200


def test_who_signs_in_is_let_in_also_after_new_keys(
    server: DispatcherProcess, provider: Provider
) -> None:
    ann = provider.sign_in("ann", groups=["/a"], realm_access={"roles": ["staff"]})
    me = server.call("GET", "/v1/whoami", **bearer(ann))
    assert (me["user"], me["role"], me["projects"]) == ("ann", "user", ["a"])
    made = server.call("POST", "/v1/containers", CONTAINER, **bearer(ann))
    path = f"/v1/containers/{made['id']}"
    shown = server.call("GET", path, **bearer(ann))
    assert (shown["user"], shown["project"]) == ("ann", "a")
    eve = provider.sign_in("eve", groups=["/b"], realm_access={"roles": ["staff"]})
    assert status_of(server, bearer(eve), path) == 404
    ops = provider.sign_in("ada", realm_access={"roles": ["ops"]})
    assert status_of(server, bearer(ops), path) == 200
    guest = provider.sign_in("guy", groups=["/a"])
    assert status_of(server, bearer(guest)) == 403
    # With the provider away, whoever has a token that was signed with a key that is known comes in.
    provider.stop()
    assert status_of(server, bearer(ann)) == 200
    # It is back with another key, which counts as soon as keys may be asked for again.
    provider.start()
    bob = provider.sign_in("bob", groups=["/a"], realm_access={"roles": ["staff"]})
    wait_for(
        lambda: status_of(server, bearer(bob)) == 200, "the new key counts", timeout_s=3 * RETRY_S
    )
    assert status_of(server, bearer(ann)) == 401


def test_a_provider_that_is_away_at_first_stops_nobody_else(
    server: DispatcherProcess, provider: Provider
) -> None:
    ann = provider.sign_in("ann", groups=["/a"], realm_access={"roles": ["staff"]})
    provider.stop()
    server.stop()
    server.start()
    assert status_of(server, bearer(ann)) == 503
    assert status_of(server, {}, "/health/live") == 200
    admin = {"X-User": "bob", "X-Role": "admin"}
    status, health = by_proxy(server, "127.0.0.9", admin, path="/v1/health")
    assert (status, health["ready"], health["degraded"]) == (200, True, True)
    [away] = [each for each in health["problems"] if each["kind"] == "issuer"]
    assert f"the issuer {provider.url} gives no keys" in away["message"]
    assert "issuer_away" in server.error_path.read_text()


def by_proxy(
    server: DispatcherProcess, address: str, headers: dict[str, str], path: str = "/v1/whoami"
) -> tuple[int, dict[str, Any]]:
    """Return the answer to somebody who asks from an address."""
    host = urlsplit(server.url)
    with urllib3.HTTPConnectionPool(
        str(host.hostname), host.port, source_address=(address, 0), retries=False
    ) as pool:
        answer = pool.request("GET", path, headers=headers)
        return answer.status, answer.json()


def test_headers_count_from_the_proxy_only(server: DispatcherProcess) -> None:
    headers = {"X-User": "ann", "X-Projects": "b,a", "X-Role": "lead"}
    status, me = by_proxy(server, "127.0.0.9", headers)
    assert (status, me["user"], me["role"], me["projects"]) == (200, "ann", "lead", ["a", "b"])
    assert by_proxy(server, "127.0.0.1", headers)[0] == 401
    assert by_proxy(server, "127.0.0.9", {})[0] == 401
    raw = exchange(server, "127.0.0.9", [*headers.items(), ("X-User", "root")])
    assert raw.startswith(b"HTTP/1.1 400 ")
    assert b"X-User is given twice" in raw


def exchange(server: DispatcherProcess, address: str, headers: list[tuple[str, str]]) -> bytes:
    """Return the whole answer to a request with these headers, one line for each."""
    host = urlsplit(server.url)
    lines = [f"{name}: {value}" for name, value in [("Host", host.netloc), *headers]]
    text = "\r\n".join(["GET /v1/whoami HTTP/1.1", *lines, "Connection: close", "", ""])
    with socket.create_connection(
        (str(host.hostname), int(host.port or 0)), timeout=10, source_address=(address, 0)
    ) as connection:
        connection.sendall(text.encode())
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
        return answer
