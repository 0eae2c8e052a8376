"""How the server itself does: its store, its disks, its end; and the command that tells it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.config.disk_room import room_at
from longshore.dispatcher.domain.messages import SaveInstance
from longshore.dispatcher.domain.views import ProblemKind
from longshore.dispatcher.service.health import (
    LEAST_FREE_BYTES,
    LEAST_FREE_INODES,
    shortage_of_bytes,
    shortage_of_inodes,
)
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import CloudAuthError
from longshore.pool.messages import ListingFailed, ListInstances
from tests.api_server import serving
from tests.cli_server import CliServer, await_true, cli_server
from tests.rigs.api import SYNC_S, ApiRig
from tests.rigs.engine import Rig, last_commands
from tests.rigs.services import runtime_over, services_over, services_with, store_in
from tests.samples import DISK, make_type
from tests.small_disk import small_disk
from tests.store_values import container, insert, instance

Capture = pytest.CaptureFixture[str]
SIZES = (
    r"store [0-9.]+ KiB, and ([0-9.]+ KiB|0 bytes) in its WAL",
    r"its disk [0-9.]+ [GT]iB, [0-9,]+ inodes free",
    r"disk of logs [0-9.]+ [GT]iB, [0-9,]+ inodes free",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


# ---- the store ------------------------------------------------------------------------------


def test_sizes_and_commits_of_the_store_are_those_of_its_files(
    store: Store, tmp_path: Path
) -> None:
    before = store.vitals()
    for number in range(5):
        insert(store, container(number))
    seen = store.vitals()
    assert seen.commit_s.count >= 5
    assert seen.commit_s.sum > 0
    assert (seen.pending, seen.problem) == (0, "")
    assert seen.database_bytes == (tmp_path / "longshore.db").stat().st_size > 0
    assert seen.wal_bytes == (tmp_path / "longshore.db-wal").stat().st_size > before.wal_bytes
    disk = os.statvfs(tmp_path)
    assert abs(seen.room.free_bytes - disk.f_bavail * disk.f_frsize) < 2**30


async def test_a_store_that_cannot_be_written_is_told_and_alone_keeps_from_serving(
    store: Store, tmp_path: Path
) -> None:
    rig = Rig(make_type(1), listed=False)
    services = services_with(runtime_over(rig, store), rig, store, tmp_path)
    health = services.health.health()
    assert health.ready, "that the cloud has not answered keeps nobody from submitting"
    assert [each.kind for each in health.problems] == [ProblemKind.LISTINGS]
    with sqlite3.connect(tmp_path / "longshore.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        pending = store.write([], wait=True)
        await_true(lambda: bool(store.problem))
        first = services.health.health()
        rig.advance(30)
        again = services.health.health()
        assert (first.ready, again.ready) == (False, False)
        assert first.problems[0].kind is ProblemKind.STORE
        assert first.problems[0].since == again.problems[0].since == rig.now - 30
        found = {
            sample.name: sample.value
            for family in text_string_to_metric_families(services.measuring.exposition().decode())
            for sample in family.samples
        }
        assert found["longshore_store_writable"] == 0
        assert found["process_resident_memory_bytes"] > 2**20
        other.execute("ROLLBACK")
    pending.result(60)
    await_true(lambda: not store.problem)
    assert services.health.health().ready


async def test_since_is_when_it_began_and_not_when_somebody_asked(
    store: Store, tmp_path: Path
) -> None:
    rig = Rig(make_type(1))
    services = services_with(runtime_over(rig, store), rig, store, tmp_path)
    with sqlite3.connect(tmp_path / "longshore.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        pending = store.write([], wait=True)
        await_true(lambda: bool(store.problem))
        watching = asyncio.create_task(services.health.watch())
        await asyncio.sleep(0)
        rig.advance(600)
        assert [each.since for each in services.health.health().problems] == [rig.now - 600]
        watching.cancel()
        other.execute("ROLLBACK")
    pending.result(60)


async def test_a_server_that_ends_is_not_ready(store: Store, tmp_path: Path) -> None:
    rig = Rig(make_type(1))
    runtime = runtime_over(rig, store)
    running = asyncio.create_task(runtime.run())
    services = services_with(runtime, rig, store, tmp_path)
    assert services.health.health().problems == ()
    runtime.stop()
    health = services.health.health()
    assert (health.ready, [each.message for each in health.problems]) == (
        False,
        ["the server is shutting down"],
    )
    await running


# ---- the disk -------------------------------------------------------------------------------


async def test_a_disk_that_is_nearly_full_is_told(tmp_path: Path) -> None:
    rig = Rig(make_type(1))
    with small_disk(tmp_path / "data", size="2m") as disk, store_in(disk) as store:
        services = services_with(runtime_over(rig, store), rig, store, tmp_path)
        [problem] = services.health.health().problems
        assert problem.kind is ProblemKind.DISK
        assert problem.message == f"the disk of {disk} is nearly full: 1 MiB are free"
        rig.advance(5)
        assert services.health.health().problems[0].since == rig.now - 5
        assert services.health.health().ready


def test_it_is_well_again_only_with_some_more_room() -> None:
    room = DISK.store.room
    for free, factor, full in ((-1, 1.0, True), (0, 1.0, False), (0, 1.25, True)):
        few = replace(
            room, free_bytes=LEAST_FREE_BYTES + free, free_inodes=LEAST_FREE_INODES + free
        )
        assert bool(shortage_of_bytes(few, factor)) is full
        assert bool(shortage_of_inodes(few, factor)) is full
    assert shortage_of_inodes(replace(room, free_inodes=None), 1.0) == ""
    assert "9 files more" in shortage_of_inodes(replace(room, free_inodes=9), 1.0)


def test_the_room_of_what_is_not_there_is_that_where_it_will_be(tmp_path: Path) -> None:
    there = room_at(tmp_path)
    missing = room_at(tmp_path / "a" / "b")
    assert missing.directory == str(tmp_path / "a" / "b")
    assert abs(missing.free_bytes - there.free_bytes) < 2**30


# ---- the command ----------------------------------------------------------------------------


def test_all_is_well(server: CliServer, capsys: Capture) -> None:
    assert main(["health"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    first, *sizes = [" ".join(line.split()) for line in said.out.splitlines()]
    assert first == "all is well"
    for line, expected in zip(sizes, SIZES, strict=True):
        assert re.fullmatch(expected, line), line
    assert main(["health", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ready"], told["store"]["pending_writes"]) == (True, 0)
    assert server.paths == ["/v1/health", "/v1/health"]


def test_what_is_wrong_is_told_and_is_1(server: CliServer, capsys: Capture) -> None:
    refused = CloudAuthError("no \x1b[31mroom")

    async def spoil(rig: ApiRig) -> None:
        rig.silent.add(ListInstances)
        await rig.pass_time(SYNC_S)
        (listing,) = last_commands(rig, ListInstances)[-1:]
        rig.give(ListingFailed(op_id=listing.op_id, error=refused))
        await rig.settled()

    server.do(spoil)
    with closing(sqlite3.connect(server.rig.directory / "longshore.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        for number in range(7):
            server.rig.store.write([SaveInstance(instance=instance(f"i-{number}"))])
        assert main(["health"]) == 1
        other.rollback()
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("requests are served, but something is wrong KIND FOR PROBLEM creden")
    assert "no \\x1b[31mroom" in said
    assert "7 changes wait to be written" in said


def test_that_requests_cannot_be_served_is_told_first(server: CliServer, capsys: Capture) -> None:
    server.do(lambda rig: rig.runtime.stop())
    assert main(["health"]) == 1
    assert capsys.readouterr().out.startswith("requests cannot be served\n")


async def test_real_services_answer_the_command(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    rig = Rig(make_type(1))
    async with services_over(rig, store, tmp_path) as services, serving(services) as (url, _):
        monkeypatch.setenv("LONGSHORE_URL", url)
        assert await asyncio.to_thread(main, ["health"]) == 0
    assert "all is well" in capsys.readouterr().out
