"""Must be for everybody: the dashboard without a mouse, whose focus is never lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import Visit, chromium, visit
from tests.dispatcher_process import DispatcherProcess

CONFIG = {
    "driver": {"name": "tests.blank_cloud:DRIVER", "parameters": {}},
    "instance_types": {
        "small": {"provider_type": "s", "cpus": 1, "memory": "2GiB", "price_per_hour": 0.2}
    },
    "engine": {"name": "process"},
}
MOST_TABS = 80


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path_factory.mktemp("server"), CONFIG) as process:
        yield process


def focused(seen: Visit) -> str:
    """Return what has the focus: its element's name and its text; "BODY" is nothing."""
    return str(
        seen.page.evaluate(
            "(one => one === document.body ? 'BODY' : `${one.tagName} ${one.innerText.trim()}`)"
            "(document.activeElement)"
        )
    )


def tab_to(seen: Visit, what: str) -> None:
    """Press Tab until something has the focus, which nothing on the way loses."""
    for _ in range(MOST_TABS):
        seen.page.keyboard.press("Tab")
        if focused(seen) == what:
            return
    raise AssertionError(f"{what} is not reached: the focus is on {focused(seen)}")


def has_focus(seen: Visit, what: str) -> None:
    """Wait until the focus is on what begins so."""
    seen.until(lambda: focused(seen).startswith(what), f"{what} has the focus")


def test_a_container_is_found_and_cancelled_without_a_mouse(
    server: DispatcherProcess, browser: Browser
) -> None:
    made = server.submit("true", name="mistake")
    with visit(browser, server.url) as seen:
        has_focus(seen, "H1 Overview")
        seen.page.keyboard.press("Shift+Tab")
        while focused(seen) != "A Queue":
            seen.page.keyboard.press("Shift+Tab")
        seen.page.keyboard.press("Enter")
        has_focus(seen, "H1 Queue")
        seen.shows("mistake")
        tab_to(seen, "A mistake")
        seen.page.keyboard.press("Enter")
        has_focus(seen, "H1 mistake")
        tab_to(seen, "BUTTON Cancel")
        seen.page.keyboard.press("Enter")
        has_focus(seen, "BUTTON Cancel")
        assert seen.page.get_by_role("dialog", name="Cancel").is_visible()
        seen.page.keyboard.press("Escape")
        has_focus(seen, "BUTTON Cancel")
        assert not seen.page.get_by_role("dialog", name="Cancel").is_visible()
        seen.page.keyboard.press("Enter")
        seen.page.keyboard.press("Enter")
        seen.page.get_by_role("heading", name="cancelled").wait_for()
        # Its button is gone, as there is nothing left to cancel: the focus is not.
        has_focus(seen, "H1 mistake")
    assert server.call("GET", f"/v1/containers/{made}")["state"] == "cancelled"


def test_each_view_that_is_opened_says_what_it_is(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        for view, heading in (
            ("containers", "Queue"),
            ("jobs", "Jobs"),
            ("instances", "Instances"),
            ("audit", "Audit"),
            ("no-such-view", "There is no such view"),
        ):
            seen.open(view)
            has_focus(seen, f"H1 {heading}")


def test_who_filters_stays_in_the_filter(server: DispatcherProcess, browser: Browser) -> None:
    server.submit("true", name="kept")
    server.submit("true", name="other")
    with visit(browser, server.url) as seen:
        seen.open("containers")
        seen.shows("other")
        seen.page.get_by_label("Name").focus()
        seen.page.keyboard.type("kept")
        seen.page.keyboard.press("Enter")
        seen.until(lambda: "other" not in seen.text(), "it is filtered")
        assert focused(seen).startswith("INPUT")


def test_a_row_that_goes_leaves_the_focus_in_its_table(
    server: DispatcherProcess, browser: Browser
) -> None:
    for number in range(120):
        server.submit("true", name=f"row-{number}")
    with visit(browser, server.url) as seen:
        seen.open("containers")
        seen.shows("row-119")
        seen.page.get_by_role("link", name="row-119").focus()
        table = seen.page.get_by_role("region", name="Containers")
        table.evaluate("box => box.scrollTo(0, box.scrollHeight)")
        seen.page.get_by_role("link", name="row-119").wait_for(state="detached")
        has_focus(seen, "DIV")
        assert table.evaluate("box => box === document.activeElement")
