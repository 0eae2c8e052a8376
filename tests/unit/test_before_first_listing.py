"""Before a server has its first listing of the cloud: nobody takes silence for "there is none"."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.drivers.errors import CloudError
from longshore.pool.messages import Listed, ListingFailed, ListInstances
from tests.api_server import serving
from tests.health import told
from tests.rigs.engine import Rig, last_commands
from tests.rigs.services import services_over, store_in
from tests.samples import make_type

Capture = pytest.CaptureFixture[str]
UNLISTED = "the cloud's first complete listing is not in yet"
NOBODY_KNOWS = "; until it is, nobody knows whether there is an instance i-9"


@pytest.fixture
def rig() -> Rig:
    """An engine whose cloud has not answered yet."""
    return Rig(make_type(1), listed=False)


@pytest.fixture
async def url(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    with store_in(tmp_path) as store:
        async with services_over(rig, store, tmp_path) as services, serving(services) as (base, _):
            monkeypatch.setenv("LONGSHORE_URL", base)
            yield base


def list_all(rig: Rig) -> None:
    listing = last_commands(rig, ListInstances)[-1]
    rig.send(Listed(op_id=listing.op_id, instances=(), began_at=rig.now))


def fail_listing(rig: Rig, why: str) -> None:
    listing = last_commands(rig, ListInstances)[-1]
    rig.send(ListingFailed(op_id=listing.op_id, error=CloudError(why)))


async def run(*words: str) -> int:
    """Run the command line beside the server, which has the loop."""
    return await asyncio.to_thread(main, list(words))


@pytest.mark.usefixtures("url")
async def test_an_empty_list_of_instances_says_that_it_proves_nothing(
    rig: Rig, capsys: Capture
) -> None:
    doubt = "longshore: there may be instances: the server has no current listing of the cloud"
    why = "'longshore health' tells why\n"
    assert await run("instances") == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert said.err == f"{doubt} (none came yet). {why}"
    assert await run("instances", "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "items": [],
        "listed_at": None,
        "complete": False,
        "next_cursor": None,
    }
    assert said.err == f"{doubt} (none came yet). {why}"
    list_all(rig)
    assert await run("instances", "--json") == 0
    said = capsys.readouterr()
    assert (json.loads(said.out)["complete"], said.err) == (True, "")
    rig.advance(61)
    fail_listing(rig, "no route")
    assert await run("instances") == 0
    assert capsys.readouterr().err.startswith(f"{doubt} (the last one is ")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "/idle-behavior", {"idle_behavior": "hold"}),
        ("POST", "/kill", {}),
    ],
)
async def test_an_instance_is_not_said_to_be_missing_before_anybody_has_looked(
    url: str, rig: Rig, method: str, path: str, body: dict[str, str] | None
) -> None:
    async with aiohttp.ClientSession() as session:

        async def answer() -> tuple[int, Any]:
            where = f"{url}/v1/instances/i-9{path}"
            async with session.request(method, where, json=body) as response:
                return response.status, (await response.json(content_type=None))["detail"]

        assert await answer() == (503, f"{UNLISTED}{NOBODY_KNOWS}")
        fail_listing(rig, "no route")
        assert await answer() == (503, f"{UNLISTED}: no route{NOBODY_KNOWS}")
        rig.advance(2)
        list_all(rig)
        assert await answer() == (404, "there is no instance i-9")


async def test_the_command_line_says_so_and_health_warns(url: str, capsys: Capture) -> None:
    assert await run("instance", "hold", "i-9") == 1
    assert capsys.readouterr() == ("", f"longshore: {UNLISTED}{NOBODY_KNOWS}. Try again later\n")
    async with aiohttp.ClientSession() as session, session.get(f"{url}/health/ready") as response:
        assert response.status == 200, "submissions are taken"
        answer = await response.json()
    assert (answer["ready"], answer["degraded"]) == (True, True)
    [problem] = answer["problems"]
    assert (problem["kind"], problem["message"]) == ("listings", UNLISTED)
    assert await run("health") == 1
    shown = capsys.readouterr().out
    assert shown.startswith("requests are served, but something is wrong\n")
    assert UNLISTED in " ".join(shown.split())


def test_listings_that_are_overdue_without_an_error_are_a_problem_of_health() -> None:
    rig = Rig(make_type(1))
    settings = rig.pool_settings
    rig.silent.add(ListInstances)
    listed_at = rig.engine.pool.listed_at
    rig.advance(settings.sync_interval_s + 2 * settings.cloud_call_timeout_s)
    assert told(rig) == []
    rig.advance(1)
    assert told(rig) == [
        f"the last complete listing of the cloud is {rig.now - listed_at:.0f} s old"
    ]
