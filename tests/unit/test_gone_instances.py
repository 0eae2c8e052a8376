"""Instances that are gone: the store has when and why, and the API and the command line tell it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.messages import SaveInstance
from longshore.dispatcher.domain.views import InstanceView
from longshore.dispatcher.service.contracts import NotFound, Unavailable
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from longshore.pool.model import IdleBehavior
from tests.api_server import serving
from tests.cli_server import cli_server
from tests.rigs.api import SYNC_S
from tests.rigs.engine import Rig
from tests.rigs.services import runtime_over, services_over, services_with, store_in
from tests.samples import make_container, make_type
from tests.store_values import instance

WHY = "idle for 60 s"
Capture = pytest.CaptureFixture[str]


def lost(store: Store, *names: str, at: float = 5000.0) -> None:
    changes = [SaveInstance(instance=instance(n, gone_at=at, gone_reason=WHY)) for n in names]
    store.write(changes).result(30)


def walked(store: Store, limit: int) -> list[list[str]]:
    pages, cursor = [], ""
    while True:
        page = store.gone_instances(cursor=cursor, limit=limit)
        pages.append([each.id for each in page.items])
        if page.next_cursor is None:
            return pages
        cursor = page.next_cursor


def test_the_store_lists_the_last_gone_first_and_those_of_one_moment_too(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        lost(store, "i-1", "i-2", "i-3", at=5000.25)
        lost(store, "i-0", at=6000)
        store.write([SaveInstance(instance=instance("i-there"))]).result(30)
        assert walked(store, 2) == [["i-0", "i-3"], ["i-2", "i-1"]]
        assert walked(store, 3) == [["i-0", "i-3", "i-2"], ["i-1"]]
        assert walked(store, 1000) == [["i-0", "i-3", "i-2", "i-1"]]


@pytest.mark.parametrize("cursor", ["x", "YmVmb3JlIDE=", "Z29uZSB4IGktMQ==", "Z29uZQ=="])
def test_a_cursor_of_another_listing_is_refused(tmp_path: Path, cursor: str) -> None:
    with store_in(tmp_path) as store, pytest.raises(InvalidRequest):
        store.gone_instances(cursor=cursor, limit=1)


async def test_an_instance_that_is_gone_can_be_asked_for_while_others_are_there(
    tmp_path: Path,
) -> None:
    rig = Rig(make_type(1))
    with store_in(tmp_path) as store:
        lost(store, "i-gone")
        store.write([SaveInstance(instance=instance("i-kept"))]).result(30)
        async with services_over(rig, store, tmp_path) as services:
            seen = await services.instances.instance("i-gone")
            assert (seen.state, seen.gone_at, seen.last_error) == ("gone", 5000.0, WHY)
            assert (seen.instance_type, seen.price_usd_per_hour) == ("small", Decimal("0.1"))
            with pytest.raises(NotFound):
                await services.instances.instance("i-never")
            # It may be that only its commit is to come: that is not the same as nothing.
            with pytest.raises(Unavailable, match="not known to be gone yet"):
                await services.instances.instance("i-kept")


async def test_who_asks_while_its_end_is_being_written_is_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.store.store.BEHIND_S", 3600.0)
    rig = Rig(make_type(1))
    with store_in(tmp_path) as store:
        store.write([SaveInstance(instance=instance("i-1"))]).result(30)
        async with services_over(rig, store, tmp_path) as services:
            gone = replace(instance("i-1"), gone_at=5000.0)
            store.write_behind([SaveInstance(instance=gone)])
            assert (await services.instances.instance("i-1")).gone_at == 5000.0


async def test_those_that_are_there_come_by_id_and_a_page_goes_on_behind_one_that_went(
    tmp_path: Path,
) -> None:
    rig = Rig(make_type(1))
    workers = rig.engine.pool.workers
    rig.submit(*(make_container(number) for number in range(1, 4)))
    with store_in(tmp_path) as store:
        services = services_with(runtime_over(rig, store), rig, store, tmp_path)
        every = sorted(workers)
        assert len(every) == 3
        first = services.instances.instances(cursor="", limit=2)
        assert [each.id for each in first.instances] == every[:2]
        del workers[every[1]]
        second = services.instances.instances(cursor=first.next_cursor or "", limit=2)
        assert ([each.id for each in second.instances], second.next_cursor) == (every[2:], None)
        with pytest.raises(InvalidRequest):
            services.instances.instances(cursor="Z29uZSB4IGktMQ==", limit=2)


async def test_the_command_line_tells_when_and_why_it_went(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(make_type(1))
    with store_in(tmp_path) as store:
        lost(store, "i-1", "i-2", "i-3")
        async with services_over(rig, store, tmp_path) as services, serving(services) as (url, _):
            monkeypatch.setenv("LONGSHORE_URL", url)

            async def run(*words: str) -> tuple[str, str]:
                assert await asyncio.to_thread(main, list(words)) == 0
                said = capsys.readouterr()
                return said.out, said.err

            out, err = await run("instances", "--gone", "--limit", "2")
            header, *rows = out.splitlines()
            assert header.split() == ["ID", "TYPE", "PRICE", "CREATED", "GONE", "WHY"]
            assert [row.split()[0] for row in rows] == ["i-3", "i-2"]
            assert all(row.endswith(WHY) for row in rows)
            assert err == "longshore: there are more; these are the last 2 that went (--limit)\n"
            out, err = await run("instances", "--gone", "--json")
            items: list[dict[str, Any]] = json.loads(out)["items"]
            assert ([each["id"] for each in items], err) == (["i-3", "i-2", "i-1"], "")
            assert (await run("instances"))[0].splitlines()[1:] == []
            out, _ = await run("instance", "show", "i-2")
            told = dict(line.split(maxsplit=1) for line in out.splitlines())
            assert (told["id"], told["state"]) == ("i-2", "gone")
            assert any(line.startswith("why it went") and WHY in line for line in out.splitlines())
            assert json.loads((await run("instance", "show", "i-2", "--json"))[0]) == items[1]


def test_all_that_there_are_are_listed_however_many_pages_that_takes(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cli_server() as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        for number in range(1001):
            server.rig.boot("small", instance_id=f"i-{number:04d}")
        server.do(lambda rig: rig.pass_time(SYNC_S))
        assert main(["instances"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1 + 1001
        assert main(["instances", "--json", "--limit", "600"]) == 0
        said = capsys.readouterr()
        document = json.loads(said.out)
        assert [each["id"] for each in document["items"]] == [f"i-{n:04d}" for n in range(600)]
        assert document["complete"]
        assert said.err == "longshore: there are more; these are the first 600 by id (--limit)\n"


async def test_who_comes_while_the_store_is_asked_is_not_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(make_type(1))
    with store_in(tmp_path) as store:
        async with services_over(rig, store, tmp_path) as services:
            instances, ask = services.instances, services.instances.instance

            async def comes_meanwhile(instance_id: str) -> InstanceView:
                rig.submit(make_container(1))
                return await ask(instance_id)

            monkeypatch.setattr(instances, "instance", comes_meanwhile)
            there = await instances._expect_there("i-001")
    assert there.id == "i-001"


async def test_who_steers_one_that_is_gone_is_told_why_it_went(tmp_path: Path) -> None:
    rig = Rig(make_type(1))
    with store_in(tmp_path) as store:
        lost(store, "i-gone")
        async with services_over(rig, store, tmp_path) as services:
            for asked in (
                services.instances.set_idle_behavior("i-gone", IdleBehavior.HOLD),
                services.instances.kill("i-gone", "x"),
                services.instances.decide_strays("i-gone", (), adopt=True),
            ):
                with pytest.raises(NotFound, match=f"instance i-gone is gone: {WHY}"):
                    await asked
            with pytest.raises(NotFound, match="there is no instance i-never"):
                await services.instances.kill("i-never", "x")
