"""While the store cannot be written: what is refused over HTTP, and what an operator is told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.messages import InsertContainers, InstanceKillRequested
from longshore.dispatcher.store.store import Store
from longshore.pool.messages import DestroyInstance, ListInstances
from tests.api_server import serving
from tests.cli_server import await_true
from tests.rigs.engine import Rig
from tests.rigs.services import services_over, store_in
from tests.samples import make_container
from tests.store_values import container

Capture = pytest.CaptureFixture[str]
LOCKED = "the store cannot be written, trying again: database is locked"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


@pytest.fixture
def rig() -> Rig:
    """An engine whose one instance, i-001, runs something."""
    made = Rig()
    made.submit(make_container(1))
    assert made.worker_states() == {"i-001": "running"}
    return made


@pytest.fixture
async def url(
    rig: Rig, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    async with services_over(rig, store, tmp_path) as services, serving(services) as (base, _):
        monkeypatch.setenv("LONGSHORE_URL", base)
        yield base


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep a store's file locked, as a backup or a shell of somebody's might."""
    other = sqlite3.connect(directory / "longshore.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@asynccontextmanager
async def away(store: Store, directory: Path) -> AsyncIterator[None]:
    """Let a write of somebody else's fail until the end, and be written then."""
    with locked(directory):
        stuck = store.write([InsertContainers(containers=(container(99),), user="ann")])
        await asyncio.to_thread(await_true, lambda: store.problem != "")
        yield
    await asyncio.wrap_future(stuck)
    await asyncio.to_thread(await_true, lambda: store.problem == "")


async def answer(url: str, method: str, path: str, **given: Any) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, **given) as response,
    ):
        return response.status, await response.json(content_type=None)


async def run(*words: str) -> int:
    """Run the command line beside the server, which has the loop."""
    return await asyncio.to_thread(main, list(words))


# ---- steering -------------------------------------------------------------------------------


STEERING = (
    ("PUT", "idle-behavior", {"idle_behavior": "drain"}),
    ("PUT", "idle-behavior", {"idle_behavior": "run"}),
    ("PUT", "idle-behavior", {"idle_behavior": "hold"}),
    ("POST", "kill", {"reason": "too old"}),
)


async def test_instances_are_not_steered_while_the_store_is_away(
    url: str, rig: Rig, store: Store, tmp_path: Path, capsys: Capture
) -> None:
    worker = rig.engine.pool.workers["i-001"]
    revision = worker.link.revision
    async with away(store, tmp_path):
        for method, path, body in STEERING:
            status, said = await answer(url, method, f"/v1/instances/i-001/{path}", json=body)
            assert (status, said.get("detail")) == (503, LOCKED), body
        capsys.readouterr()
        assert await run("instance", "hold", "i-001") == 1
        assert capsys.readouterr() == ("", f"longshore: {LOCKED}. Try again later\n")
        assert (worker.behavior.value, worker.state.value) == ("run", "running")
        assert worker.link.revision == revision
    for method, path, body in STEERING:
        status, _ = await answer(url, method, f"/v1/instances/i-001/{path}", json=body)
        assert status < 300, "it is taken as soon as the store is there again"


# ---- what an operator is told -----------------------------------------------------------------


async def test_leaks_name_the_stores_problem_first(
    url: str, rig: Rig, store: Store, tmp_path: Path, capsys: Capture
) -> None:
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason="too old"))
    rig.silent.add(ListInstances)
    rig.now += 600
    assert await run("leaks") == 1
    assert "repair the listings" in capsys.readouterr().out
    assert await writable(url) == 1
    async with away(store, tmp_path):
        capsys.readouterr()
        assert await run("leaks") == 1
        said = capsys.readouterr()
        assert "repair the store first: until it can be written" in said.out
        assert "listings: credentials" not in said.out
        first, second = said.err.splitlines()
        assert first.startswith(f"longshore: repair this first: {LOCKED}; ")
        assert second.startswith("longshore: more may be billed and not wanted")
        assert "log" not in second
        _, told = await answer(url, "GET", "/v1/leaks")
        assert next(iter(told.items())) == ("store_problem", LOCKED)
        assert told["items"][0]["remedy"].startswith("repair the store first")
        assert await writable(url) == 0
    assert await writable(url) == 1


async def writable(url: str) -> float:
    """Return what the metrics say of the store."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as response:
        text = await response.text()
    families = {each.name: each for each in text_string_to_metric_families(text)}
    (sample,) = families["longshore_store_writable"].samples
    return sample.value
