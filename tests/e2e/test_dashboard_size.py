"""Must stay small: what the dashboard asks for, keeps and draws of a server with much in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from playwright.sync_api import Browser, Response

from tests.browser import Visit, chromium, visit
from tests.crowded_server import BATCHES, IN_BATCH, Crowd, batch, crowded_server
from tests.dispatcher_process import DispatcherProcess
from tests.sizes import sized

CROWD = Crowd(containers=sized(8_000, 100_000), instances=sized(150, 1_000))
ROW_PX = 36
MOST_ROWS = 120
"""Of any table, in the page: those in view, and some around them."""
FIRST_PAGE_BYTES = 400_000
WINDOW = 800
_WATCH = """() => {
  window.drawn = [];
  let since = 0;
  new MutationObserver(() => { since += 1; }).observe(document.querySelector("main tbody"), {
    childList: true, subtree: true, characterData: true, attributes: true,
  });
  const frame = () => { window.drawn.push(since); since = 0; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


@dataclass(slots=True)
class Traffic:
    """What a page has asked for."""

    targets: list[str] = field(default_factory=list)
    body_bytes: int = 0

    def of(self, part: str) -> int:
        """Return how many requests had this in them."""
        return sum(part in target for target in self.targets)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with crowded_server(tmp_path_factory.mktemp("crowd"), CROWD) as process:
        yield process


@contextmanager
def counted(seen: Visit) -> Iterator[Traffic]:
    """Count what the page asks for; streams have no length."""
    traffic = Traffic()

    def note(response: Response) -> None:
        traffic.targets.append(response.url)
        traffic.body_bytes += int(response.headers.get("content-length", 0))

    seen.page.on("response", note)
    yield traffic
    seen.page.remove_listener("response", note)


def opened(seen: Visit, view: str, row: str) -> Traffic:
    """Open a view in a page of its own and wait for a row; return what that took."""
    seen.page.goto("about:blank")
    with counted(seen) as traffic:
        seen.open(view)
        seen.shows(row)
    return traffic


def rows(seen: Visit) -> int:
    """Return how many rows are in the page."""
    return int(seen.page.evaluate("document.querySelectorAll('tr').length"))


def scroll(seen: Visit, row: int) -> None:
    """Have a row of the table at its top."""
    seen.page.evaluate(f"document.querySelector('.table .scroll').scrollTo(0, {row * ROW_PX})")


def known(seen: Visit) -> int:
    """Return how many rows the table knows of."""
    told = seen.page.locator(".table .foot").inner_text()
    return int(told.split()[0].replace(",", "")) if "row" in told else 0


def has_more_than(seen: Visit, there: int) -> bool:
    """Return whether the table knows of more rows than it did."""
    return known(seen) > there


def is_cancelled(server: DispatcherProcess, container: str) -> bool:
    """Return whether a container is."""
    return bool(server.call("GET", f"/v1/containers/{container}")["state"] == "cancelled")


@pytest.mark.parametrize(
    ("view", "row", "listing"),
    [
        ("containers", "demo", "/v1/containers?"),
        ("jobs", "night", "/v1/jobs?"),
        ("instances", "i-000000", "/v1/instances?"),
    ],
)
def test_a_list_asks_for_what_is_looked_at(
    server: DispatcherProcess, browser: Browser, view: str, row: str, listing: str
) -> None:
    with visit(browser, server.url) as seen:
        traffic = opened(seen, view, row)
        # One page, and at most one more as its end is near; who one is, events, and three files.
        assert 1 <= traffic.of(listing) <= 2
        assert len(traffic.targets) <= 7
        assert traffic.body_bytes < FIRST_PAGE_BYTES
        assert 20 < rows(seen) <= MOST_ROWS


def test_one_container_of_many_takes_few_requests(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        traffic = opened(seen, "containers/c-00000007", "Place")
        assert traffic.of("/v1/containers/c-00000007") <= 2
        assert len(traffic.targets) <= 7
        assert traffic.body_bytes < FIRST_PAGE_BYTES


def test_who_scrolls_far_is_shown_each_row_and_the_page_stays_small(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        opened(seen, "containers", "demo")
        far = WINDOW + 500
        while (there := known(seen)) < far:
            scroll(seen, there)
            seen.until(partial(has_more_than, seen, there), "another page comes")
            assert rows(seen) <= MOST_ROWS
        last = seen.page.locator("main tbody tr[aria-rowindex]").last
        assert int(last.get_attribute("aria-rowindex") or 0) > far - 200
        # What is far from there was forgotten, and comes back when somebody looks at it again.
        with counted(seen) as traffic:
            scroll(seen, 0)
            first = seen.page.locator("main tbody tr[aria-rowindex='2']")
            first.wait_for()
        newest = server.call("GET", "/v1/containers?limit=1")["items"][0]
        href = first.get_by_role("link").get_attribute("href")
        assert href == f"#/containers/{newest['id']}"
        assert known(seen) >= far
        assert 1 <= traffic.of("/v1/containers?") <= 3
        middle = far // 2
        scroll(seen, middle)
        seen.page.locator(f"main tbody tr[aria-rowindex='{middle + 2}']").wait_for()


def test_changes_draw_once_a_frame_and_are_not_piled_up(
    server: DispatcherProcess, browser: Browser
) -> None:
    with visit(browser, server.url) as seen:
        opened(seen, "containers", "demo")
        seen.shows("Live")
        seen.page.evaluate(_WATCH)
        began = time.monotonic()
        with counted(seen) as traffic:
            for number in reversed(range(BATCHES)):
                server.call("POST", f"/v1/jobs/{batch(number)}/cancel", {})
                newest = f"c-{int(batch(number)[2:]) + IN_BATCH - 1:08d}"
                seen.until(partial(is_cancelled, server, newest), "a batch is cancelled")
            seen.until(
                lambda: "cancelled" in seen.text() and "queued" not in seen.text(), "all of it"
            )
        drawn = seen.page.evaluate("window.drawn")
        # Changes, the clock that ticks, and a page that comes: each draws once at most.
        assert max(drawn) <= 3
        assert 1 <= sum(drawn) <= len(drawn)
        assert rows(seen) <= MOST_ROWS
        # Nobody lists anew for each of them: once a second at most, whoever looks at the newest.
        assert traffic.of("/v1/containers?") <= time.monotonic() - began + 2
