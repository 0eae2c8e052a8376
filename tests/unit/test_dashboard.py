"""The dashboard's pages: who gets them, what a browser's cookie is, and what it opens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from longshore.dispatcher.access.browser_cookies import (
    LARGEST_COOKIE_BYTES,
    LONGEST_SESSION_S,
    login_cookie,
    logout_cookies,
    token_in_cookies,
)
from longshore.dispatcher.api import dashboard
from longshore.dispatcher.config.model import AuthMode
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.service.tokens import NewToken
from tests.api_server import serving
from tests.doors import doors_of
from tests.rigs.api import ApiRig

ADMIN = Principal(user="root", role=Role.ADMIN, door=Door.SOCKET)
CONTAINER = {"command": ["true"], "cpus": 0.5, "memory": "16MiB"}


def attributes(text: str) -> dict[str, Any]:
    """Return a cookie's name and value, and its attributes that say something."""
    [(name, made)] = SimpleCookie(text).items()
    return {"name": name, "value": made.value, **{k: v for k, v in made.items() if v}}


def test_a_cookie_is_for_no_script_and_no_other_site() -> None:
    over_tls = login_cookie("lsh_x", host="farm.example", secure=True, lasts_s=None)
    assert attributes(over_tls) == {
        "name": "__Host-longshore",
        "value": "lsh_x",
        "path": "/",
        "max-age": str(LONGEST_SESSION_S),
        "httponly": True,
        "secure": True,
        "samesite": "Strict",
    }
    plain = login_cookie("lsh_x", host="127.0.0.1:8420", secure=False, lasts_s=60.9)
    assert attributes(plain) == {
        "name": "longshore-8420",
        "value": "lsh_x",
        "path": "/",
        "max-age": "60",
        "httponly": True,
        "samesite": "Strict",
    }


def test_a_cookie_is_kept_no_longer_than_its_token_is_good() -> None:
    for lasts_s, kept in ((5.0, "5"), (-3.0, "0"), (10.0**9, str(LONGEST_SESSION_S))):
        made = login_cookie("lsh_x", host="h", secure=True, lasts_s=lasts_s)
        assert attributes(made)["max-age"] == kept


def test_a_cookie_that_no_browser_keeps_is_not_made() -> None:
    with pytest.raises(ValueError, match="larger than browsers keep"):
        login_cookie("x" * LARGEST_COOKIE_BYTES, host="h", secure=True, lasts_s=None)


def test_a_server_is_shown_its_own_cookie_alone() -> None:
    cookies = {"longshore-8420": "ours", "longshore-9999": "of another", "other": "x"}
    assert token_in_cookies(cookies, "127.0.0.1:8420") == "ours"
    assert token_in_cookies(cookies, "farm.example") == ""
    assert token_in_cookies({**cookies, "__Host-longshore": "tls"}, "127.0.0.1:8420") == "tls"


def test_who_logs_out_is_forgotten_under_each_name() -> None:
    forgotten = [attributes(each) for each in logout_cookies("127.0.0.1:8420")]
    assert [each["name"] for each in forgotten] == ["__Host-longshore", "longshore-8420"]
    assert all(each["value"] == "" and each["max-age"] == "0" for each in forgotten)


class Site:
    """A server that asks who one is, and a browser's session there."""

    def __init__(self, url: str, services: Services, session: aiohttp.ClientSession) -> None:
        self.url, self.services, self.session = url, services, session

    async def token(self, **fields: Any) -> tuple[str, str]:
        """Return the id and the text of a new token."""
        wanted = NewToken(
            name="",
            user="ann",
            role=Role.USER,
            projects=("a",),
            default_project="",
            expires_at=fields.get("expires_at"),
        )
        token, text = await self.services.tokens.create(wanted, caller=ADMIN)
        return token.id, text

    async def ask(self, method: str, path: str, **given: Any) -> aiohttp.ClientResponse:
        """Return an answer, read whole."""
        async with self.session.request(method, f"{self.url}{path}", **given) as response:
            await response.read()
            return response

    async def login(self, text: str, **headers: str) -> aiohttp.ClientResponse:
        """Log in with a token, as the page does."""
        given = {"Origin": self.url, **headers}
        return await self.ask("POST", "/login", json={"token": text}, headers=given)


@pytest_asyncio.fixture
async def services() -> AsyncIterator[Services]:
    async with ApiRig().served() as found:
        yield found


@pytest_asyncio.fixture(params=[AuthMode.REQUIRED])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    jar = aiohttp.CookieJar(unsafe=True)  # which here means: also of addresses
    async with (
        ApiRig().served() as services,
        serving(services, doors=doors_of(services, mode=request.param)) as (url, _),
        aiohttp.ClientSession(cookie_jar=jar) as session,
    ):
        yield Site(url, services, session)


async def test_the_page_is_anybodys_and_may_run_nothing_but_its_own(site: Site) -> None:
    page = await site.ask("GET", "/")
    assert (page.status, page.content_type) == (200, "text/html")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert page.headers["Cache-Control"] == "no-store"
    text = await page.text()
    assert "<script>" not in text
    assert " style=" not in text
    assert "onload" not in text


async def test_its_files_may_be_kept_and_the_page_not(tmp_path: Path, services: Services) -> None:
    (tmp_path / "index.html").write_text("<p>built</p>")
    (tmp_path / "main-1.js").write_text("built()")
    (tmp_path / "sources.sha256").write_text("no file of the page")
    pages = dashboard.DashboardPages(
        doors_of(services, mode=AuthMode.REQUIRED),
        bodies=None,  # type: ignore[arg-type]  # nothing is sent to these two
        now=time.time,
        bundle=tmp_path,
    )
    shown = await pages.page(None)  # type: ignore[arg-type]  # it does not look at it
    assert shown.text == "<p>built</p>"
    file = await pages.file(_named("main-1.js"))
    assert (file.body, file.content_type) == (b"built()", "text/javascript")
    assert "immutable" in file.headers["Cache-Control"]
    for name in ("sources.sha256", "index.html", "../x.js"):
        assert (await pages.file(_named(name))).status == 404


def _named(name: str) -> Any:
    class Named:
        match_info = {"name": name}  # noqa: RUF012 - as a request has it

    return Named()


async def test_without_its_files_the_page_says_what_to_do(
    tmp_path: Path, services: Services
) -> None:
    pages = dashboard.DashboardPages(
        doors_of(services, mode=AuthMode.REQUIRED),
        bodies=None,  # type: ignore[arg-type]  # nothing is sent to it
        now=time.time,
        bundle=tmp_path / "none",
    )
    shown = await pages.page(None)  # type: ignore[arg-type]  # it does not look at it
    assert "tools/web_bundle.py" in str(shown.text)


async def test_a_browser_that_logged_in_is_who_its_token_says(site: Site) -> None:
    _, text = await site.token()
    assert (await site.ask("GET", "/v1/whoami")).status == 401
    answer = await site.login(text)
    assert (answer.status, (await answer.json())["user"]) == (200, "ann")
    who = await site.ask("GET", "/v1/whoami")
    assert (who.status, (await who.json())["door"]) == (200, "token")
    assert (await site.ask("POST", "/logout", json={})).status == 200
    assert (await site.ask("GET", "/v1/whoami")).status == 401


async def test_what_lets_nobody_in_makes_no_cookie(site: Site) -> None:
    for text in ("garbage", "lsh_0000000000_" + "A" * 43):
        answer = await site.login(text)
        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers
    assert (await site.login("")).status == 400


async def test_a_token_that_is_revoked_ends_its_browsers_sessions(site: Site) -> None:
    token_id, text = await site.token()
    await site.login(text)
    await site.services.tokens.revoke(token_id, caller=ADMIN)
    assert (await site.ask("GET", "/v1/whoami")).status == 401
    # Who has it still can log in anew.
    _, other = await site.token()
    assert (await site.login(other)).status == 200


async def test_with_a_cookie_a_change_says_where_it_comes_from(site: Site) -> None:
    _, text = await site.token()
    await site.login(text)
    for headers, status in (
        ({}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": site.url}, 201),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
    ):
        answer = await site.ask("POST", "/v1/containers", json=CONTAINER, headers=headers)
        assert answer.status == status, headers
    shown = {"Authorization": f"Bearer {text}"}
    answer = await site.ask("POST", "/v1/containers", json=CONTAINER, headers=shown)
    assert answer.status == 201, "a program says who it is, and has no origin"


async def test_a_page_of_another_origin_logs_nobody_in(site: Site) -> None:
    _, text = await site.token()
    answer = await site.login(text, Origin="https://evil.example")
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers


async def test_behind_a_proxy_with_tls_the_cookie_is_for_tls_alone(site: Site) -> None:
    _, text = await site.token()
    answer = await site.login(text, Origin=site.url.replace("http:", "https:"))
    assert attributes(answer.headers["Set-Cookie"])["name"] == "__Host-longshore"
    assert attributes(answer.headers["Set-Cookie"])["secure"] is True


@pytest.mark.parametrize("site", [AuthMode.OPEN], indirect=True)
async def test_in_open_mode_no_cookie_is_looked_at(site: Site) -> None:
    port = site.url.rpartition(":")[2]
    answer = await site.ask("GET", "/v1/whoami", headers={"Cookie": f"longshore-{port}=old"})
    assert (answer.status, (await answer.json())["door"]) == (200, "open")
