"""Without tokens, a browser that was talked into a request must get nothing done."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from longshore.dispatcher.api.guards import loopback_port
from tests.api_server import raw_exchange, serving
from tests.rigs.api import ApiRig

BODY = b'{"command": ["true"]}'


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with serving(ApiRig()) as (url, _):
        yield int(url.rsplit(":", 1)[1])


async def status_of(port: int, method: str, path: str, *headers: str, body: bytes = b"") -> int:
    lines = [f"{method} {path} HTTP/1.1", *headers, f"Content-Length: {len(body)}"]
    data = "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body
    answer = await raw_exchange(port, data)
    if int(answer.split()[1]) >= 400:
        assert b"application/problem+json" in answer
    return int(answer.split()[1])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8420", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1:8420", 200),
        ("127.9.8.7:1", 200),
        ("[::1]", 200),
        ("[::1]:8420", 200),
        ("evil.example", 403),
        ("evil.example:8420", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.1", 403),
        ("2130706433", 403),
        ("10.0.0.1", 403),
        ("0.0.0.0", 403),  # noqa: S104 - a header that must be refused, not an address to bind
        ("[::]", 403),
        ("[2001:db8::1]:80", 403),
        ("", 403),
        ("localhost:99999", 403),
    ],
)
async def test_only_loopback_hosts_are_answered(port: int, host: str, status: int) -> None:
    assert await status_of(port, "GET", "/health/live", f"Host: {host}") == status


async def test_a_request_needs_exactly_one_host(port: int) -> None:
    assert await status_of(port, "GET", "/health/live") in {400, 403}
    twice = ("Host: localhost", "Host: evil.example")
    assert await status_of(port, "GET", "/health/live", *twice) in {400, 403}


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8420", 200),
        ("http://127.0.0.1:8420", 200),
        ("http://[::1]:8420", 200),
        ("http://localhost:8421", 403),
        ("http://localhost", 403),
        ("https://evil.example", 403),
        ("http://evil.example:8420", 403),
        ("http://localhost:8420.evil.example", 403),
        ("http://localhost:8420/", 403),
        ("file://", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_only_our_own_origin_is_answered(port: int, origin: str, status: int) -> None:
    headers = ("Host: localhost:8420", f"Origin: {origin}")
    assert await status_of(port, "GET", "/health/live", *headers) == status


@pytest.mark.parametrize(
    ("sites", "status"),
    [
        (("same-origin",), 200),
        (("none",), 200),
        (("cross-site",), 403),
        (("same-site",), 403),
        (("same-origin", "cross-site"), 403),
        (("another-planet",), 403),
        (("",), 403),
    ],
)
@pytest.mark.parametrize("path", ["/health/live", "/v1/containers", "/metrics", "/openapi.json"])
async def test_only_our_own_site_is_answered(
    port: int, path: str, sites: tuple[str, ...], status: int
) -> None:
    headers = ("Host: localhost:8420", *(f"Sec-Fetch-Site: {site}" for site in sites))
    assert await status_of(port, "GET", path, *headers) == status


@pytest.mark.parametrize(
    "request_head",
    [
        "GET /health/live HTTP/1.1\r\nHost: localhost",
        "GET /openapi.json HTTP/1.1\r\nHost: localhost",
        "GET /metrics HTTP/1.1\r\nHost: localhost",
        "GET /nothing HTTP/1.1\r\nHost: localhost",
        "GET /health/live HTTP/1.1\r\nHost: evil.example",
        "GET /health/live HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site",
        "POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0",
        "POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nExpect: a miracle",
        "no HTTP at all",
    ],
)
async def test_no_answer_is_for_other_origins(port: int, request_head: str) -> None:
    answer = await raw_exchange(port, f"{request_head}\r\nConnection: close\r\n\r\n".encode())
    headers = [line.lower() for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")]
    assert b"cross-origin-resource-policy: same-origin" in headers
    assert b"x-content-type-options: nosniff" in headers
    assert b"cache-control: no-store" in headers


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ('Application/JSON;charset="UTF-8"', 201),
        ("application/json; charset=utf-16", 415),
        ("application/jsonp", 415),
        ("text/plain", 415),
        ("text/plain; application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("", 415),
    ],
)
async def test_only_json_is_taken(port: int, content_type: str, status: int) -> None:
    headers = ("Host: localhost", f"Content-Type: {content_type}")
    assert await status_of(port, "POST", "/v1/containers", *headers, body=BODY) == status


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/containers"),
        ("PATCH", "/v1/containers/c-1"),
        ("POST", "/v1/containers/c-1/cancel"),
        ("POST", "/v1/instances/i-1/kill"),
        ("PUT", "/v1/instances/i-1/idle-behavior"),
    ],
)
async def test_every_change_needs_a_declared_body(port: int, method: str, path: str) -> None:
    assert await status_of(port, method, path, "Host: localhost") == 415


async def test_encoded_bodies_are_refused(port: int) -> None:
    headers = ("Host: localhost", "Content-Type: application/json", "Content-Encoding: gzip")
    assert await status_of(port, "POST", "/v1/containers", *headers, body=b"\x1f\x8b\x08") == 415


def test_ports_of_loopback_authorities() -> None:
    assert loopback_port("localhost", default=80) == 80
    assert loopback_port("[::1]:8420", default=80) == 8420
    assert loopback_port("localhost:", default=80) is None
    assert loopback_port("user@localhost", default=80) is None
    assert loopback_port("localhost.", default=80) is None


@pytest.mark.parametrize("port", [65536, 99999])
def test_a_port_that_cannot_be_is_nobodys(port: int) -> None:
    assert loopback_port("localhost:65535", default=80) == 65535
    assert loopback_port(f"localhost:{port}", default=80) is None
