"""Must show: logging in at an OpenID Connect provider, in a real browser.

The provider is another site than the server for the browser: the one is 127.0.0.1, the other
localhost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route

from tests.browser import Visit, chromium, visit
from tests.conftest import not_tested
from tests.dispatcher_process import DispatcherProcess
from tests.oidc_provider import Provider


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
                "claims": {"role": "roles", "projects": "groups"},
                "roles": {"staff": "user"},
                "login": {"client_id": "longshore", "client_secret_file": "client.secret"},
            },
        },
        "instance_types": {
            "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
        },
        "engine": {"name": "process", "run_as": "nobody"},
        "pool": {"idle_timeout_s": 1},
    }
    secret = tmp_path / "client.secret"
    secret.write_text("of this server\n")
    secret.chmod(0o600)
    with DispatcherProcess(tmp_path, config) as process:
        yield process


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def to_provider(seen: Visit, provider: Provider) -> None:
    """Go to the provider by the link of the login page."""
    seen.page.get_by_role("link", name="Log in with 127.0.0.1").click()
    seen.page.wait_for_url(f"{provider.url}/**")


def test_who_logs_in_at_the_provider_sees_the_dashboard(
    server: DispatcherProcess, provider: Provider, browser: Browser
) -> None:
    provider.know("ann", groups=["a"], roles=["staff"])
    provider.know("guy", groups=["a"])
    url = server.url.replace("127.0.0.1", "localhost")

    def nothing(route: Route) -> None:
        route.fulfill(body="", headers={"Access-Control-Allow-Origin": "*"})

    with visit(browser, url) as seen:
        # The provider's page wants a style of another host.
        seen.page.route(
            lambda asked: "://127.0.0.1" not in asked and "://localhost" not in asked, nothing
        )
        seen.shows("Log in with 127.0.0.1")
        to_provider(seen, provider)
        seen.page.get_by_role("button", name="Deny").click()
        seen.shows("You are not logged in")
        seen.page.get_by_role("link", name="Go to the dashboard").click()
        to_provider(seen, provider)
        seen.page.get_by_placeholder("sub").fill("guy")
        seen.page.get_by_role("button", name="Authorize").click()
        seen.shows("gives you a role here")
        seen.page.get_by_role("link", name="Log in again").click()
        seen.page.get_by_placeholder("sub").fill("ann")
        seen.page.get_by_role("button", name="Authorize").click()
        seen.page.get_by_role("navigation", name="Views").wait_for()
        seen.shows("ann (user)")
        [cookie] = seen.page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        seen.page.get_by_role("button", name="Log out").click()
        seen.shows("still logged in at the issuer")
        assert seen.page.context.cookies() == []
        link = seen.page.get_by_role("link", name="Log out there, too")
        assert str(link.get_attribute("href")).startswith(f"{provider.url}/oauth2/end_session?")
        link.click()
        # It leads back from another site.
        seen.page.get_by_role("button", name="End session").click()
        seen.page.wait_for_url(f"{url}/")
        seen.shows("Log in with 127.0.0.1")
