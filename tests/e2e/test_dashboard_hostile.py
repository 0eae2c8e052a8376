"""Must show what others wrote, and never run it: in each field, in each view of the dashboard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Dialog

from tests.browser import Visit, chromium, visit
from tests.conftest import not_tested
from tests.dispatcher_process import ApiError, DispatcherProcess, wait_for

CONFIG: dict[str, Any] = {
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
    },
    "engine": {"name": "process", "run_as": "nobody"},
    "pool": {"idle_timeout_s": 600},
}
TURN = "\u202e"
HOSTILE = (
    "<img src=x onerror=document.title='taken'>",
    "</td></script><script>document.title='taken'</script>",
    "\"' onmouseover=document.title='taken' autofocus onfocus=document.title='taken' x='",
    "javascript:document.title='taken'//",
    "${document.title='taken'}{{constructor.constructor('document.title=1')()}}",
    f"safe{TURN}gpj.exe",
    "W" * 10_000,
    "\ufdfd" * 200,
)
SMALL = {"cpus": 0.1, "memory": "8MiB"}
NARROW_PX = 360


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with DispatcherProcess(tmp_path_factory.mktemp("server"), CONFIG) as process:
        yield process


@pytest.fixture(scope="module")
def views(server: DispatcherProcess) -> tuple[str, ...]:
    """Write hostile texts wherever one can; return the views that show them."""
    talkers = [_talker(server, text) for text in HOSTILE]
    for each in talkers:
        server.wait_final(each)
    jobs = [_job(server, text) for text in HOSTILE]
    [instance] = server.instances()
    for text in reversed(HOSTILE):
        body = {"idle_behavior": "hold", "reason": line(text)}
        server.call("PUT", f"/v1/instances/{instance}/idle-behavior", body)
    for number, text in enumerate(HOSTILE):
        server.call("PUT", f"/v1/projects/p/secrets/S{number}", {"value": text})
    return (
        "",
        "containers",
        *(f"containers/{each}" for each in talkers),
        "jobs",
        *(f"jobs/{each}" for each in jobs),
        "instances",
        f"instances/{instance}",
        "audit",
        *(f"{text.replace('/', '%2f')}?user={text}" for text in HOSTILE[:5]),
    )


def line(text: str) -> str:
    """Return what of a text may be a name: the server refuses what turns the reading order."""
    return text.replace(TURN, "")[:100]


def _talker(server: DispatcherProcess, text: str) -> str:
    """Return a container that has a text in all that its submitter chooses, and writes it."""
    owner = server.call("POST", "/v1/tokens", {"user": line(text), "projects": ["p"]})
    wanted = {
        "command": ["sh", "-c", 'echo "$TEXT"; echo "$TEXT" >&2; exit 3', text],
        "name": line(text),
        "env": {"TEXT": text},
        "labels": {"x": line(text)},
        **SMALL,
    }
    shown = {"Authorization": f"Bearer {owner['token']}"}
    made = server.call("POST", "/v1/containers", wanted, **shown)
    assert made["user"] == line(text)
    return str(made["id"])


def _job(server: DispatcherProcess, text: str) -> str:
    """Return a job that has a text in its name and its labels."""
    tasks = [
        {"name": "first", "command": [text], "array": {"size": 3}, **SMALL},
        {"name": "second", "command": [text], "after": ["first"], **SMALL},
    ]
    body = {"name": line(text), "labels": {"x": line(text)}, "project": "p", "tasks": tasks}
    return str(server.call("POST", "/v1/jobs", body)["id"])


def is_untouched(seen: Visit) -> bool:
    """Return whether nothing that others wrote has become part of the page."""
    found = seen.page.evaluate(
        "document.querySelectorAll('main img, main script, main iframe, [onerror],"
        ' [onmouseover], [onfocus], a[href^="javascript:" i]\').length'
    )
    return seen.page.title() != "taken" and found == 0


def too_wide(seen: Visit) -> list[str]:
    """Return what makes the whole page wider than its window."""
    return list(
        seen.page.evaluate(
            """() => {
              const width = document.documentElement.clientWidth;
              if (document.documentElement.scrollWidth <= width) return [];
              return [...document.querySelectorAll("body *")]
                .filter(one => one.getBoundingClientRect().right > width)
                .map(one => `${one.tagName}.${one.className}`);
            }"""
        )
    )


@pytest.mark.parametrize("width", [NARROW_PX, 1280])
def test_what_others_write_is_shown_and_never_run(
    server: DispatcherProcess, browser: Browser, views: tuple[str, ...], width: int
) -> None:
    with visit(browser, server.url, width=width) as seen:
        asked: list[str] = []

        def refuse(dialog: Dialog) -> None:
            asked.append(dialog.message)
            dialog.dismiss()

        seen.page.on("dialog", refuse)
        for view in views:
            seen.open(view)
            seen.page.get_by_role("heading", level=1).wait_for()
            seen.until(lambda: "Loading" not in seen.text(), "it is all there")
            assert is_untouched(seen), view
            assert too_wide(seen) == [], view
            assert TURN not in seen.text(), view
        assert asked == []


def test_what_turns_the_reading_order_is_shown_as_its_code(
    server: DispatcherProcess, browser: Browser, views: tuple[str, ...]
) -> None:
    [turned] = [number for number, text in enumerate(HOSTILE) if TURN in text]
    with visit(browser, server.url) as seen:
        seen.open(views[2 + turned])
        seen.page.get_by_text("safe\\u202egpj.exe").first.wait_for()
        log = seen.page.get_by_role("log")
        wait_for(lambda: "safe\\u202egpj.exe" in log.inner_text(), "the log shows it")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "containers", {"command": ["true"], "project": HOSTILE[0]}),
        ("POST", "containers", {"command": ["true"], "labels": {HOSTILE[0]: "x"}}),
        ("POST", "jobs", {"tasks": [{"name": HOSTILE[0], "command": ["true"]}]}),
        ("PUT", f"projects/p/secrets/{quote(HOSTILE[0], safe='')}", {"value": "x"}),
    ],
)
def test_what_is_a_name_takes_no_hostile_text(
    server: DispatcherProcess, method: str, path: str, body: dict[str, Any]
) -> None:
    with pytest.raises(ApiError) as refused:
        server.call(method, f"/v1/{path}", body)
    assert refused.value.status == 400


def test_what_a_cloud_says_is_shown_and_never_run(tmp_path: Path, browser: Browser) -> None:
    said = f"{HOSTILE[0]} {HOSTILE[5]}"
    driver = {"name": "tests.blank_cloud:DRIVER", "parameters": {"refusal": said}}
    with DispatcherProcess(tmp_path, {**CONFIG, "driver": driver}) as server:
        made = server.submit("true", **SMALL)
        with visit(browser, server.url) as seen:
            for view in ("containers", f"containers/{made}", ""):
                seen.open(view)
                seen.page.get_by_role("heading", level=1).wait_for()
                if view:
                    seen.shows("onerror")
                assert is_untouched(seen), view
                assert TURN not in seen.text(), view
