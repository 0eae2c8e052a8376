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
from tests.dispatcher_process import DispatcherProcess, wait_for
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

WORK = "Everybody's work"


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
        ended(process)
        for name, cpus in (("long", 3), ("next", 4), ("last", 4)):
            submitted(process, name=name, command=["sleep", "600"], cpus=cpus)
        yield process


def ended(server: DispatcherProcess) -> None:
    """Let an instance be created and killed: it is decided of one that it is shut down."""
    first = submitted(server, name="first", command=["true"], cpus=4)
    path = f"/v1/containers/{first}"
    wait_for(lambda: local(server, "GET", path)["state"] == "succeeded", "the first has ended")
    (instance,) = local(server, "GET", "/v1/instances")["items"]
    local(server, "POST", f"/v1/instances/{instance['id']}/kill", {"reason": "it was the first"})
    wait_for(lambda: not local(server, "GET", "/v1/instances")["items"], "it is gone")


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
        seen.until(lambda: "2\nwaiting" in panel(seen, WORK), "two wait")
        seen.until(lambda: "1\nrunning" in panel(seen, WORK), "one runs")
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
        seen.until(lambda: "2\nwaiting" in panel(seen, WORK), "two wait")
        late = submitted(server, name="late", command=["true"], cpus=4, priority=1)
        seen.until(lambda: "3\nwaiting" in panel(seen, WORK), "three wait")
        local(server, "POST", f"/v1/containers/{late}/cancel", {})


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


def drawn(seen: Visit) -> int:
    """Return how many bars of the timeline are drawn now."""
    return int(seen.page.locator(".timeline canvas").get_attribute("data-bars") or 0)


def test_the_timeline_shows_what_runs_where_as_it_begins(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        seen.login(admin(server))
        seen.open("timeline?span=900")
        seen.until(lambda: drawn(seen) >= 1, "the one that runs is drawn")
        before = drawn(seen)
        beside = submitted(server, name="beside", command=["sleep", "60"], cpus=0.5, priority=900)
        seen.until(lambda: drawn(seen) == before + 1, "the next that runs is drawn")
        local(server, "POST", f"/v1/containers/{beside}/cancel", {})


def test_the_timeline_is_read_and_steered_with_keys(
    server: DispatcherProcess, browser: Browser
) -> None:
    instance, *_ = local(server, "GET", "/v1/instances")["items"]
    with visit(browser, server.url) as seen:
        seen.login(admin(server))
        seen.open(f"timeline?span=3600&instance={instance['id']}")
        seen.until(lambda: drawn(seen) >= 1, "the one that runs is drawn")
        told = seen.page.get_by_role("status").filter(has_text="Point at what is drawn")
        told.wait_for()
        seen.page.get_by_role("application").focus()
        seen.page.keyboard.press("ArrowDown")
        seen.shows(f"{instance['id']} here, $0.20 an hour")
        seen.page.keyboard.press("ArrowRight")
        seen.shows(f"75 % of {instance['id']}")
        seen.page.keyboard.press("+")
        seen.until(lambda: "span=1800" in seen.page.url, "it is twice as near")
        seen.page.keyboard.press("Shift+ArrowLeft")
        seen.until(lambda: "end=" in seen.page.url, "it is earlier")
        seen.page.keyboard.press("0")
        seen.until(lambda: "end=" not in seen.page.url, "it ends now")
        seen.page.get_by_role("button", name="15 min").click()
        seen.until(lambda: "span=900" in seen.page.url, "it is a quarter of an hour")
        seen.page.get_by_role("application").focus()
        seen.page.keyboard.press("Enter")
        seen.page.get_by_role("heading", level=1, name="long").wait_for()


def test_the_timeline_is_a_table_too(server: DispatcherProcess, browser: Browser) -> None:
    instance, *_ = local(server, "GET", "/v1/instances")["items"]
    with visit(browser, server.url) as seen:
        seen.login(admin(server))
        seen.open("timeline")
        seen.page.get_by_text("As a table").click()
        table = seen.page.get_by_role("region", name="Timeline as a table")
        table.get_by_role("link", name=instance["id"]).wait_for()
        assert "is there" in table.inner_text()
        table.get_by_role("link", name=instance["id"]).click()
        seen.shows("All that ran here")


def test_holds_and_limits_are_told_with_what_to_turn(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        seen.login(admin(server))
        seen.open("holds")
        seen.shows("Ask the cloud for a larger quota")
        assert "quota of 1 instance" in panel(seen, "Creates on hold")
        limits = panel(seen, "Limits")
        assert "scheduler.max_instances" in limits
        assert "1 of 50 used" in limits
        assert "$0.20 of $9.00 an hour used" in limits
        assert "No budget keeps work from beginning." in panel(seen, "Budgets that stop work")


def test_decisions_are_told_by_kind_and_lead_to_what_they_are_about(
    server: DispatcherProcess, browser: Browser
) -> None:
    (told,) = local(server, "GET", "/v1/decisions?kind=shut_down")["items"]
    with visit(browser, server.url) as seen:
        seen.login(admin(server))
        seen.open("decisions")
        table = seen.page.get_by_role("region", name="Decisions", exact=True)
        table.get_by_role("cell", name="creates held").first.wait_for()
        table.get_by_role("cell", name="bought").first.wait_for()
        seen.page.get_by_label("Kind").select_option("shut_down")
        seen.until(lambda: "creates held" not in table.inner_text(), "only one kind is shown")
        assert told["message"] in table.inner_text()
        table.get_by_role("link", name=told["instance"]).click()
        seen.page.get_by_role("heading", level=1, name="gone").wait_for()


def test_the_queue_is_shown_in_the_order_in_which_it_is_next(
    server: DispatcherProcess, browser: Browser
) -> None:
    sooner = submitted(server, name="sooner", command=["true"], cpus=4, priority=800)
    with visit(browser, server.url) as seen:
        seen.login(token(server))
        seen.open("containers")
        seen.page.get_by_label("Order").select_option("queue")
        seen.until(lambda: waiting(seen)[:3] == ["sooner", "next", "last"], "it is in order")
        assert "long" not in waiting(seen)
        local(server, "POST", f"/v1/containers/{sooner}/cancel", {})
        seen.until(lambda: waiting(seen)[:2] == ["next", "last"], "who is cancelled waits no more")


def waiting(seen: Visit) -> list[str]:
    """Return the names in the queue, from the top."""
    links = seen.page.get_by_role("region", name="Containers", exact=True).get_by_role("link")
    return links.all_inner_texts()


def test_what_is_of_the_pool_is_for_admins(server: DispatcherProcess, browser: Browser) -> None:
    with visit(browser, server.url) as seen:
        seen.login(token(server))
        names = seen.page.get_by_role("navigation", name="Views").inner_text().split()
        assert not {"Timeline", "Holds", "Decisions", "Instances"} & set(names)
        for view in ("timeline", "holds", "decisions"):
            seen.open(view)
            seen.shows("This takes the role admin, and yours is user.")


def test_each_view_of_the_pool_is_for_everybody(
    server: DispatcherProcess, browser: Browser
) -> None:
    for dark, width in ((False, 1280), (True, 390)):
        with visit(browser, server.url, dark=dark, width=width) as seen:
            seen.login(admin(server))
            for view in ("", "timeline", "holds", "decisions", "containers?order=queue"):
                seen.open(view)
                seen.page.get_by_role("heading", level=1).wait_for()
                seen.until(lambda: "Loading" not in seen.text(), "all is there")
                assert seen.barriers() == [], view
                wide = seen.page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, view


def test_a_lost_connection_is_told_and_found_again(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        seen.page.route("**/v1/events", lambda route: route.abort())
        seen.login(token(server))
        seen.shows("The server is not reached since")
        seen.faults.clear()
        seen.page.unroute("**/v1/events")
        seen.until(lambda: "is not reached" not in seen.text(), "it is found again")
