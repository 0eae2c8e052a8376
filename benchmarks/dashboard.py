"""How fast the dashboard is in a real browser, on a server with 100,000 containers that wait.

Of each figure the median of several runs, each in a browser context of its own, without a cache:
first paint, the first rows, what a click on a container and a word in a filter take until they are
drawn, and the longest frame while one scrolls and 1,000 containers change each second. Exits with
1 where a goal is missed. The server and the browser share this machine's processors.

    python benchmarks/dashboard.py [--containers 100000] [--instances 1000] [--runs 5] [--json]
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from playwright.sync_api import Browser

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from longshore.dispatcher.api.dashboard import BUNDLE
from tests.browser import Visit, chromium, visit
from tests.crowded_server import BATCHES, Crowd, batch, crowded_server
from tests.dispatcher_process import DispatcherProcess

MOST_FIRST_PAINT_MS = 1000
MOST_FIRST_ROWS_MS = 1000
MOST_INTERACTION_MS = 100
MOST_PAGE_GZIP_BYTES = 100_000
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
_NOW = "performance.now()"
# An event's own time is from its input until what it changed is drawn, to 8 ms.
_EVENTS = """() => {
  window.events = [];
  new PerformanceObserver(list => window.events.push(...list.getEntries().map(one => one.duration)))
    .observe({ type: "event", durationThreshold: 16 });
}"""
_FRAMES = """() => {
  const box = document.querySelector(".table .scroll");
  let before = performance.now();
  const frame = now => {
    window.longest = Math.max(window.longest ?? 0, now - before);
    before = now;
    box.scrollTop += 24;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run took, in milliseconds."""

    first_paint_ms: float
    first_rows_ms: float
    interaction_ms: float
    worst_frame_ms: float


def measured(server: DispatcherProcess, browser: Browser, number: int) -> Run:
    """Look at the queue once; batch `number` changes meanwhile."""
    with visit(browser, server.url) as seen:
        seen.page.goto("about:blank")
        seen.open("containers")
        seen.page.locator("main tbody a").first.wait_for()
        rows_ms = float(seen.page.evaluate(_NOW))
        paint_ms = float(seen.page.evaluate(_PAINT))
        interaction_ms = _interacted(seen)
        worst_ms = _while_it_changes(server, seen, number)
    return Run(
        first_paint_ms=paint_ms,
        first_rows_ms=rows_ms,
        interaction_ms=interaction_ms,
        worst_frame_ms=worst_ms,
    )


def _interacted(seen: Visit) -> float:
    """Return the longest that an input took until it was drawn."""
    seen.page.evaluate(_EVENTS)
    user = seen.page.get_by_label("User")
    user.click()
    user.press_sequentially("ann")
    user.press("Enter")
    seen.until(lambda: "user=ann" in seen.page.url, "it is filtered")
    seen.page.locator("main tbody a").first.click()
    seen.shows("What it is")
    seen.page.keyboard.press("Tab")
    seen.page.wait_for_timeout(100)
    return float(max(seen.page.evaluate("window.events"), default=0))


def _while_it_changes(server: DispatcherProcess, seen: Visit, number: int) -> float:
    """Return the longest frame of a second in which one scrolls and a batch is cancelled."""
    seen.open("containers")
    seen.page.locator("main tbody a").first.wait_for()
    seen.shows("Live")
    seen.page.evaluate(_FRAMES)
    server.call("POST", f"/v1/jobs/{batch(number)}/cancel", {})
    seen.page.wait_for_timeout(1000)
    return float(seen.page.evaluate("window.longest"))


def weight() -> tuple[int, int]:
    """Return how many bytes a browser loads to show the page, as they are and by gzip."""
    files = [each for each in sorted(BUNDLE.iterdir()) if each.suffix in {".html", ".js", ".css"}]
    contents = [each.read_bytes() for each in files]
    return sum(map(len, contents)), sum(len(gzip.compress(each)) for each in contents)


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--containers", type=int, default=Crowd().containers)
    parser.add_argument("--instances", type=int, default=Crowd().instances)
    parser.add_argument("--runs", type=int, choices=range(1, BATCHES + 1), default=BATCHES)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    crowd = Crowd(containers=given.containers, instances=given.instances)
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as browser,
        crowded_server(Path(folder) / "server", crowd) as server,
    ):
        runs = [asdict(measured(server, browser, number)) for number in range(given.runs)]
    medians = {name: round(statistics.median(run[name] for run in runs), 1) for name in runs[0]}
    whole_bytes, gzip_bytes = weight()
    figures = {**medians, "page_bytes": whole_bytes, "page_gzip_bytes": gzip_bytes}
    goals = {
        "first_paint_ms": MOST_FIRST_PAINT_MS,
        "first_rows_ms": MOST_FIRST_ROWS_MS,
        "interaction_ms": MOST_INTERACTION_MS,
        "page_gzip_bytes": MOST_PAGE_GZIP_BYTES,
    }
    if given.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            goal = f"  (goal: below {goals[name]:,})" if name in goals else ""
            print(f"{name:<18} {figure:>12,}{goal}")
    return int(any(figures[name] >= goal for name, goal in goals.items()))


if __name__ == "__main__":
    sys.exit(main())
