"""Must show: the first page and the views of the pool, in a real browser: to whom what is shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser import Visit, chromium, visit
from tests.conftest import not_tested
from tests.dispatcher_process import DispatcherProcess
from tests.local_http import local_call

CONFIG: dict[str, Any] = {
    "auth": {"mode": "required"},
    "driver": {"name": "simulated", "parameters": {"boot_time_s": 0, "zones": ["z"], "quota": 1}},
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
    },
    "engine": {"name": "process", "run_as": "nobody"},
    "pool": {"idle_timeout_s": 600, "term_timeout_s": 1},
    "scheduler": {"max_instances": 50, "max_hourly_spend": 9},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    """Serve with one instance, which `long` takes, and two behind it at the cloud's quota."""
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with DispatcherProcess(tmp_path_factory.mktemp("server"), CONFIG) as process:
        for name in ("long", "next", "last"):
            submitted(process, name=name, command=["sleep", "600"], cpus=4)
        yield process


def local(server: DispatcherProcess, method: str, path: str, body: Any = None) -> Any:
    """Call the server by its socket, as an admin."""
    socket = Path(server.directory) / "data" / "longshore.sock"
    status, answer = local_call(socket, method, path, body)
    assert status < 300, answer
    return answer


def submitted(server: DispatcherProcess, **fields: Any) -> str:
    """Submit a container of project p; return its id."""
    return str(local(server, "POST", "/v1/containers", {"project": "p", **fields})["id"])


def token(server: DispatcherProcess, **fields: Any) -> str:
    """Return the text of a new token."""
    wanted = {"user": "ann", "projects": ["p"], **fields}
    return str(local(server, "POST", "/v1/tokens", wanted)["token"])


def admin(server: DispatcherProcess) -> str:
    """Return the text of a new token of an admin."""
    return token(server, user="ada", role="admin", projects=[])


def panel(seen: Visit, name: str) -> str:
    """Return what a panel shows."""
    found = seen.page.get_by_role("region", name=name, exact=True)
    found.wait_for()
    return found.inner_text()


def test_the_first_page_tells_an_admin_what_waits_what_is_wrong_and_what_it_costs(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        seen.login(admin(server))
        seen.until(lambda: "2\nwaiting" in panel(seen, "Work"), "two wait")
        seen.until(lambda: "1\nrunning" in panel(seen, "Work"), "one runs")
        seen.shows("nobody knows when")
        seen.until(
            lambda: "quota of 1 instance" in panel(seen, "What is wrong, and what to turn"),
            "the quota is told",
        )
        assert "Ask the cloud for a larger quota" in panel(seen, "What is wrong, and what to turn")
        assert "$0.20\nan hour" in panel(seen, "Instances")
        seen.until(lambda: "this month so far" in panel(seen, "Spending"), "what it costs")
        assert seen.page.title() == "Overview · Longshore"
        seen.page.get_by_role("link", name="next", exact=True).click()
        seen.shows("next in line")


def test_the_first_page_is_kept_up_to_date(server: DispatcherProcess, browser: Browser) -> None:
    with visit(browser, server.url) as seen:
        seen.login(admin(server))
        seen.until(lambda: "2\nwaiting" in panel(seen, "Work"), "two wait")
        late = submitted(server, name="late", command=["true"], cpus=4)
        seen.until(lambda: "3\nwaiting" in panel(seen, "Work"), "three wait")
        local(server, "POST", f"/v1/containers/{late}/cancel", {})
        seen.until(lambda: "2\nwaiting" in panel(seen, "Work"), "two wait again")


def test_the_first_page_shows_a_user_their_work_and_no_panel_of_admins(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        seen.login(token(server, user="eve", projects=["q"]))
        seen.until(lambda: "0\nwaiting" in panel(seen, "Work in your projects"), "nothing waits")
        seen.until(lambda: "this month so far" in panel(seen, "Spending"), "what it costs")
        shown = [each.inner_text() for each in seen.page.locator("main h2").all()]
        assert shown == ["Work in your projects", "Spending"]
        assert seen.page.get_by_role("alert").count() == 0
        seen.page.get_by_role("link", name="Only what eve submitted").click()
        seen.shows("No container is like this")
