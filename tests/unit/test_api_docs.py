"""The pages that show the OpenAPI document: they, and all that they load, are of this server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest

from longshore.dispatcher.api.routes.docs import POLICY
from tests.api_server import Client, connected

LOADED = ("/docs/start.js", "/docs/swagger_bundle.js", "/docs/swagger_style.css")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


class References(HTMLParser):
    """What a page refers to, and whether it has a script or a style of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inline: list[str] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        self.found += [value or "" for name, value in attrs if name in {"src", "href"}]
        self.inline += [name for name, _ in attrs if name.startswith("on") or name == "style"]

    def handle_data(self, data: str) -> None:
        if self._within in {"script", "style"} and data.strip():
            self.inline.append(data)


async def fetched(client: Client, path: str) -> tuple[str, dict[str, str]]:
    async with client.session.get(client.url + path) as response:
        assert response.status == 200, path
        return await response.text(), dict(response.headers)


async def test_the_page_refers_to_nothing_of_another_host(client: Client) -> None:
    page, headers = await fetched(client, "/docs")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    references = References()
    references.feed(page)
    assert references.inline == []
    found = {urljoin("/docs", each) for each in references.found} - {"data:,"}
    assert found == {*LOADED, "/openapi.json"}
    start, _ = await fetched(client, "/docs/start.js")
    for text in (page, start):
        assert "//" not in text.replace("<!DOCTYPE", "")
    assert 'url: "openapi.json"' in start
    assert "validatorUrl: null" in start
    style, _ = await fetched(client, "/docs/swagger_style.css")
    assert "@import" not in style
    assert all(each.startswith("data:") for each in re.findall(r"url\([\"']?([^)]{5})", style))


async def test_the_page_may_load_nothing_of_another_host(client: Client) -> None:
    """Whatever the packaged script would like to do: a browser keeps it to what this says."""
    _, headers = await fetched(client, "/docs")
    assert headers["Content-Security-Policy"] == POLICY
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("img-src") == "'self' data:"
    assert set(rules.values()) == {"'self'", "'none'"}
    assert {"script-src", "connect-src", "frame-ancestors", "base-uri"} <= set(rules)


@pytest.mark.parametrize("path", LOADED)
async def test_what_the_page_loads_is_there_and_is_what_it_says(client: Client, path: str) -> None:
    text, headers = await fetched(client, path)
    # Which of the two names of JavaScript it is, the system's table of types says.
    kind = "text/css" if path.endswith(".css") else "(text|application)/javascript"
    assert re.fullmatch(kind, headers["Content-Type"].partition(";")[0])
    assert headers["X-Content-Type-Options"] == "nosniff"
    wanted = ".swagger-ui" if path.endswith(".css") else "SwaggerUIBundle"
    assert wanted in text
    async with client.session.head(client.url + path) as response:
        assert response.status == 200
    async with client.session.post(client.url + path, json={}) as response:
        assert response.status == 405


async def test_another_file_of_the_package_is_not_served(client: Client) -> None:
    for path in ("/docs/redoc.js", "/docs/..%2Furl.json", "/docs/%2e%2e/offapi/url.json"):
        async with client.session.get(client.url + path) as response:
            assert response.status == 404, path
