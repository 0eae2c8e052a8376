"""A real browser for tests: Debian's Chromium, which is driven by Playwright.

What a page logs, throws or is refused by its own Content-Security-Policy is an error of the test.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import not_tested
from tests.dispatcher_process import wait_for
from tools.web_bundle import WEB, fetch_packages

STEP_MS = 20_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium, without a window."""
    program = shutil.which("chromium")
    if program is None:
        not_tested("chromium is missing; install it with: tools/setup.sh packages")
    with sync_playwright() as playwright:
        # As root it has no sandbox of its own, and shows only what this test serves.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Visit:
    """One user's browser at one server."""

    page: Page
    url: str
    #: What went wrong in it, as far as it told.
    faults: list[str] = field(default_factory=list)

    def open(self, view: str) -> None:
        """Show a view, by its fragment: "containers?state=running"."""
        self.page.goto(f"{self.url}/#/{view}")

    def login(self, token: str) -> None:
        """Log in at the page that asks for it."""
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("navigation", name="Views").wait_for()

    def text(self) -> str:
        """Return all that is shown."""
        return self.page.inner_text("body")

    def shows(self, what: str) -> None:
        """Wait until a text is shown."""
        wait_for(lambda: what in self.text(), f"the page shows {what!r}", timeout_s=STEP_MS / 1000)

    def barriers(self, *, only: str = "") -> list[str]:
        """Return what keeps people out who see, hear or move otherwise, as axe-core finds it.

        `only` is one of its rules, where the others say the same as before; "" is all of them.
        """
        fetch_packages()
        self.page.evaluate((WEB / "node_modules" / "axe-core" / "axe.min.js").read_text())
        rules = [only] if only else None
        found = self.page.evaluate(
            "only => axe.run(document, only ? { runOnly: only } : {})", rules
        )
        return [
            f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
            for each in found["violations"]
        ]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so."""
        wait_for(condition, what, timeout_s=STEP_MS / 1000)


@contextmanager
def visit(browser: Browser, url: str, *, width: int = 1280, dark: bool = False) -> Iterator[Visit]:
    """Open the first page of a server in a browser of its own; at the end nothing was wrong."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
    )
    context.set_default_timeout(STEP_MS)
    try:
        page = context.new_page()
        seen = Visit(page=page, url=url)
        page.on("pageerror", lambda error: seen.faults.append(str(error)))
        page.on("console", lambda message: _note(seen, message.type, message.text))
        page.goto(f"{url}/")
        yield seen
        assert seen.faults == []
    finally:
        context.close()


def _note(seen: Visit, kind: str, text: str) -> None:
    # Chromium itself logs each answer of 400 and above: what is refused is the page's to tell.
    if kind == "error" and "the server responded with a status of" not in text:
        seen.faults.append(text)
