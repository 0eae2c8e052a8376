"""Must show: the dashboard in a real browser, under its own Content-Security-Policy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser import chromium, visit
from tests.conftest import not_tested
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.local_http import local_call

CONFIG: dict[str, Any] = {
    "auth": {"mode": "required"},
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
    },
    "engine": {"name": "process", "run_as": "nobody"},
    "pool": {"idle_timeout_s": 1},
}
VIEWS = (
    "",
    "containers",
    "containers/{container}",
    "jobs",
    "jobs/{job}",
    "instances",
    "instances/{instance}",
    "audit",
    "no-such-view",
)
HOSTILE = "<img src=x onerror=document.title='taken'>"


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


def token(server: DispatcherProcess, **fields: Any) -> str:
    """Return the text of a new token."""
    socket = Path(server.directory) / "data" / "longshore.sock"
    wanted = {"user": "ann", "projects": ["p"], **fields}
    status, answer = local_call(socket, "POST", "/v1/tokens", wanted)
    assert status == 201, answer
    return str(answer["token"])


def submitted(server: DispatcherProcess, text: str, **fields: Any) -> str:
    """Submit a container as whose token it is; return its id."""
    wanted = {"command": ["true"], **fields}
    shown = {"Authorization": f"Bearer {text}"}
    return str(server.call("POST", "/v1/containers", wanted, **shown)["id"])


def started(server: DispatcherProcess, text: str) -> str:
    """Submit a job with an array and what follows it; return its id."""
    small = {"cpus": 0.1, "memory": "8MiB"}
    tasks = [
        {"name": "align", "command": ["true"], "array": {"size": 6}, **small},
        {"name": "report", "command": ["true"], "after": ["align"], **small},
    ]
    shown = {"Authorization": f"Bearer {text}"}
    wanted = {"name": "genomes", "tasks": tasks}
    return str(server.call("POST", "/v1/jobs", wanted, **shown)["id"])


def busy_instance(server: DispatcherProcess, text: str) -> str:
    """Let something run, and return the id of the instance where it does."""
    talker = submitted(server, text, name="talker", command=["sleep", "60"], cpus=0.5)
    shown = {"Authorization": f"Bearer {text}"}

    def look() -> str | None:
        found = server.call("GET", f"/v1/containers/{talker}", **shown)
        return found["instance"] if found["state"] == "running" else None

    return str(wait_for(look, "the talker runs"))


def test_an_admin_sees_and_steers_instances(server: DispatcherProcess, browser: Browser) -> None:
    ada = token(server, user="ada", role="admin", projects=[])
    instance = busy_instance(server, ada)
    with visit(browser, server.url) as seen:
        seen.login(ada)
        seen.open("instances")
        seen.page.get_by_role("link", name=instance).click()
        seen.shows("All that ran here")
        seen.page.get_by_role("button", name="Hold").click()
        dialog = seen.page.get_by_role("dialog", name="Hold")
        dialog.get_by_label("Reason").fill("looking at its disk")
        dialog.get_by_role("button", name="Hold").click()
        seen.shows("ada: looking at its disk")
        shown = {"Authorization": f"Bearer {ada}"}
        held = server.call("GET", f"/v1/instances/{instance}", **shown)
        assert held["idle_behavior"] == "hold"
        assert [each["share"] for each in held["places"]] != []
        seen.open("audit")
        seen.shows(f"/v1/instances/{instance}/idle-behavior")
        seen.open(f"instances/{instance}")
        seen.page.get_by_role("button", name="Kill").click()
        dialog = seen.page.get_by_role("dialog", name="Kill")
        dialog.get_by_role("button", name="Kill").click()
        seen.page.get_by_role("heading", name="shutdown").wait_for()


def test_a_user_is_shown_no_view_of_admins(server: DispatcherProcess, browser: Browser) -> None:
    with visit(browser, server.url) as seen:
        seen.login(token(server))
        assert seen.page.get_by_role("link", name="Instances").count() == 0
        seen.open("instances")
        seen.shows("This takes the role admin, and yours is user.")


def test_a_job_is_drawn_as_it_goes_on(server: DispatcherProcess, browser: Browser) -> None:
    ann = token(server)
    job = started(server, ann)
    with visit(browser, server.url) as seen:
        seen.login(ann)
        seen.open("jobs")
        seen.page.get_by_role("link", name="genomes").first.click()
        seen.shows("Its containers")
        seen.open(f"jobs/{job}")
        graph = seen.page.get_by_role("img", name="align; report after align")
        graph.wait_for()
        seen.shows("6 succeeded")
        seen.page.get_by_role("img", name="6 succeeded", exact=True).wait_for()
        seen.page.get_by_role("heading", name="succeeded").wait_for()


def test_who_logs_in_sees_their_own_work_as_it_happens(
    server: DispatcherProcess, browser: Browser
) -> None:
    zoe = token(server, user="zoe", projects=["z"])
    eve = token(server, user="eve", projects=["q"])
    submitted(server, eve, name="of-eve", project="q")
    with visit(browser, server.url) as seen:
        seen.shows("Token")
        seen.login(zoe)
        seen.open("containers")
        seen.shows("No container is like this")
        submitted(server, zoe, name="of-zoe", project="z")
        seen.shows("of-zoe")
        seen.shows("succeeded")
        assert "of-eve" not in seen.text()
        seen.page.reload()
        seen.shows("of-zoe")
        seen.page.get_by_role("button", name="Log out").click()
        seen.shows("Token")
        assert seen.page.context.cookies() == []


def test_a_container_is_explained_followed_and_cancelled(
    server: DispatcherProcess, browser: Browser
) -> None:
    ann = token(server)
    talker = submitted(server, ann, name="talker", command=["sh", "-c", "echo hello; sleep 60"])
    with visit(browser, server.url) as seen:
        seen.login(ann)
        seen.open(f"containers/{talker}")
        seen.shows("hello")
        seen.shows(f"{talker} runs on ")
        seen.page.get_by_role("button", name="Cancel").click()
        dialog = seen.page.get_by_role("dialog", name="Cancel")
        dialog.get_by_role("button", name="Back").click()
        shown = {"Authorization": f"Bearer {ann}"}
        assert server.call("GET", f"/v1/containers/{talker}", **shown)["state"] == "running"
        seen.page.get_by_role("button", name="Cancel").click()
        dialog.get_by_role("button", name="Cancel").click()
        seen.page.get_by_role("heading", name="cancelled").wait_for()
        seen.shows("This is all of it.")


def test_each_view_is_for_everybody(server: DispatcherProcess, browser: Browser) -> None:
    ada = token(server, user="ada", role="admin", projects=[])
    things = {
        "{container}": submitted(server, ada, name="done"),
        "{job}": started(server, ada),
        "{instance}": busy_instance(server, ada),
    }
    for dark in (False, True):
        with visit(browser, server.url, dark=dark) as seen:
            seen.shows("Token")
            assert seen.barriers() == []
            seen.login(ada)
            for view in VIEWS:
                for name, thing in things.items():
                    view = view.replace(name, thing)  # noqa: PLW2901 - one after the other
                seen.open(view)
                seen.page.get_by_role("heading", level=1).wait_for()
                assert seen.barriers() == [], view


def test_a_token_that_is_none_is_told(server: DispatcherProcess, browser: Browser) -> None:
    with visit(browser, server.url) as seen:
        seen.page.get_by_label("Token").fill("garbage")
        seen.page.get_by_role("button", name="Log in").click()
        seen.page.get_by_role("alert").wait_for()
        assert "token" in seen.page.get_by_role("alert").inner_text().lower()


def test_what_others_write_is_shown_and_never_run(
    server: DispatcherProcess, browser: Browser
) -> None:
    ann = token(server)
    submitted(server, ann, name=HOSTILE, labels={"x": HOSTILE})
    with visit(browser, server.url) as seen:
        seen.login(ann)
        seen.open("containers")
        seen.shows(HOSTILE)
        assert seen.page.title() == "Queue · Longshore"
        assert seen.page.locator("main img").count() == 0
