"""Files of the ledger in a folder: when they are written anew, and what a crash leaves of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from longshore.dispatcher.config.loading import load_config
from longshore.dispatcher.cost.focus import ExportFormat
from longshore.dispatcher.cost.rollups import booked_hour, lines_between
from longshore.dispatcher.domain.messages import Change, SaveBookedHour
from longshore.dispatcher.server.wiring import Server
from longshore.dispatcher.service.cost_exports import CostExports
from longshore.dispatcher.service.export_folder import MANIFEST, ExportFolder, ExportTerms
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import ConfigError
from tests.cost_samples import CONTEXT
from tests.ledger_facts import BILL, NOW, OCTOBER, small_ledger
from tests.store_values import empty_store, url_in
from tests.synced_files import record_syncs
from tests.unit.test_wiring import INSTANCE_TYPE

OCTOBER_FILE = "lab-2026-10-focus-1.4.csv"
NEWS = small_ledger([replace(BILL, instance_id="i-0a2")])


class Bench:
    """A store with a ledger, and a folder of its files."""

    def __init__(self, store: Store, directory: Path) -> None:
        self.store, self.directory = store, directory
        self.now = NOW
        self.terms = ExportTerms(
            directory=directory,
            cron="@daily",
            format=ExportFormat.FOCUS_1_4,
            time_zone="UTC",
            cluster="lab",
            currency="USD",
        )

    def folder(self, **changes: Any) -> ExportFolder:
        exports = CostExports(store=self.store, now=lambda: self.now, context=CONTEXT)
        terms = replace(self.terms, **changes)
        return ExportFolder(terms, exports=exports, ledger=self.store.ledger, wall=lambda: self.now)

    def write(self, **changes: Any) -> None:
        for _ in self.folder(**changes).writing():
            pass

    def keep(self, changes: list[Change]) -> None:
        self.store.write(changes).result(30)

    def book(self, until: int) -> None:
        """Book the hours of October's beginning, and the last one before `until`."""
        for hour in (*range(OCTOBER.start, OCTOBER.start + 3), until - 1):
            facts = self.store.ledger.facts(hour, hour + 1)
            now_ms = round(self.now * 1000)
            lines = lines_between(facts, from_hour=hour, until_hour=hour + 1, now_ms=now_ms)
            booked = booked_hour(lines, hour, labels=(), marks=0)
            self.keep([SaveBookedHour(booked=booked)])

    def manifest(self) -> dict[str, Any]:
        found = json.loads((self.directory / MANIFEST).read_text())
        assert isinstance(found, dict)
        return found

    def hashes(self) -> dict[str, str]:
        return {
            each.name: hashlib.sha256(each.read_bytes()).hexdigest()
            for each in self.directory.glob("*.csv")
        }


@contextmanager
def bench_in(directory: Path) -> Iterator[Bench]:
    shutil.copy(empty_store(), directory)
    store = Store.open(url_in(directory))
    try:
        bench = Bench(store, directory / "files")
        bench.keep(small_ledger())
        yield bench
    finally:
        store.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with bench_in(tmp_path) as bench:
        yield bench


def test_files_are_not_for_everybody_and_follow_no_link_that_was_put_there(bench: Bench) -> None:
    before = os.umask(0o022)
    try:
        bench.write()
        modes = {each.stat().st_mode & 0o777 for each in bench.directory.iterdir()}
        assert (modes, bench.directory.stat().st_mode & 0o777) == ({0o640}, 0o750)
        victim = bench.directory.parent / "victim"
        victim.write_text("as it was")
        for name in (OCTOBER_FILE, MANIFEST):
            (bench.directory / f".{name}.part").symlink_to(victim)
        bench.keep(NEWS)
        bench.write()
    finally:
        os.umask(before)
    assert victim.read_text() == "as it was"
    assert len(bench.manifest()["files"]) == 2
    assert not list(bench.directory.glob(".*"))


def test_each_month_has_a_file_and_the_manifest_tells_of_it(bench: Bench) -> None:
    bench.write()
    names = [OCTOBER_FILE, "lab-2026-11-focus-1.4.csv", MANIFEST]
    assert sorted(each.name for each in bench.directory.iterdir()) == names
    told = bench.manifest()
    october, november = told["files"]
    assert told | {"files": None} == {
        "version": 1,
        "cluster": "lab",
        "format": "focus-1.4",
        "files": None,
        "written_at": "2026-11-03T00:00:00Z",
    }
    content = (bench.directory / OCTOBER_FILE).read_bytes()
    assert october == {
        "file": OCTOBER_FILE,
        "period": "2026-10",
        "from": "2026-10-01T00:00:00Z",
        "until": "2026-11-01T00:00:00Z",
        "rows": 4,
        "total": "0.300000000000",
        "currency": "USD",
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "booked_sha256": "",
        "written_at": "2026-11-03T00:00:00Z",
    }
    assert (november["period"], november["rows"], november["total"]) == (
        *("2026-11", 0),
        "0.000000000000",
    )


def test_only_what_changed_is_written_again(bench: Bench) -> None:
    bench.write()
    before, written = bench.manifest(), (bench.directory / OCTOBER_FILE).stat().st_ino
    bench.now += 3600
    bench.write()
    assert bench.manifest() == before
    assert (bench.directory / OCTOBER_FILE).stat().st_ino == written
    bench.keep(NEWS)
    bench.write()
    october, november = bench.manifest()["files"]
    assert (october["total"], october["written_at"]) == ("0.600000000000", "2026-11-03T01:00:00Z")
    assert november == before["files"][1]
    assert bench.hashes()[OCTOBER_FILE] == october["sha256"]


def test_a_month_that_is_booked_is_made_again_when_what_is_booked_of_it_changes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.book(OCTOBER.stop)
    bench.write()
    assert bench.manifest()["files"][0]["booked_sha256"]
    made: list[range] = []
    really = CostExports.lines

    def lines(exports: CostExports, hours: range, seen: Any) -> Any:
        made.append(hours)
        return really(exports, hours, seen)

    monkeypatch.setattr(CostExports, "lines", lines)
    bench.write()
    assert OCTOBER not in made
    bench.keep(NEWS)
    bench.book(OCTOBER.stop)
    bench.write()
    assert OCTOBER in made
    assert bench.manifest()["files"][0]["total"] == "0.600000000000"
    # A file that somebody took away is made again, too.
    (bench.directory / OCTOBER_FILE).unlink()
    bench.write()
    assert OCTOBER_FILE in bench.hashes()


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "again"])
def test_a_crash_at_any_instant_leaves_whole_files_and_the_next_start_mends_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    bench.now = (OCTOBER.start + 9) * 3600.0
    bench.write()
    before = bench.directory.rename(bench.directory.with_name("before"))
    old = (before / OCTOBER_FILE).read_bytes()
    bench.keep(NEWS)
    twin = bench.directory.parent / "twin"
    bench.write(directory=twin)
    new = (twin / OCTOBER_FILE).read_bytes()
    crashes = 0
    for at in range(100):
        shutil.rmtree(bench.directory, ignore_errors=True)
        if is_first:
            bench.directory.mkdir()
            (bench.directory / OCTOBER_FILE).write_bytes(old)
        else:
            shutil.copytree(before, bench.directory)
        with monkeypatch.context() as patched:
            crashed = crash_at(patched, at)
            try:
                bench.write()
            except Crash:
                crashes += 1
        found = (bench.directory / OCTOBER_FILE).read_bytes()
        assert found in (old, new)
        manifest = bench.directory / MANIFEST
        for each in json.loads(manifest.read_text())["files"] if manifest.exists() else ():
            assert bench.hashes()[each["file"]] == each["sha256"], "it tells of what is there"
        bench.write()
        assert bench.hashes()[OCTOBER_FILE] == bench.manifest()["files"][0]["sha256"]
        assert (bench.directory / OCTOBER_FILE).read_bytes() == new
        assert not list(bench.directory.glob(".*.part"))
        if not crashed:
            break
    assert crashes >= (8 if is_first else 13)


class Crash(BaseException):
    """The process is gone."""


def crash_at(monkeypatch: pytest.MonkeyPatch, at: int) -> list[str]:
    """Have the process end at one of the calls that change a disk; return what it ended in."""
    calls, ended = iter(range(1000)), list[str]()

    def dying(name: str, really: Any) -> Any:
        def call(*given: Any, **fields: Any) -> Any:
            if next(calls) == at:
                ended.append(name)
                raise Crash
            return really(*given, **fields)

        return call

    monkeypatch.setattr(os, "fsync", dying("fsync", os.fsync))
    for name in ("open", "rename", "unlink"):
        monkeypatch.setattr(Path, name, dying(name, getattr(Path, name)))
    return ended


def test_a_file_is_synced_before_it_has_its_name_and_the_folder_after(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = record_syncs(monkeypatch)
    bench.write()
    names = [path.name for path in synced]
    assert names[:4] == [f".{OCTOBER_FILE}.part", "files", f".{MANIFEST}.part", "files"]


async def test_what_cannot_be_written_is_told_until_it_can(bench: Bench, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("no folder")
    folder = bench.folder(directory=blocked / "files")
    assert folder.problem() == ""
    await folder.write_once()
    assert folder.problem() == (
        f"the files of cost cannot be written to {blocked / 'files'}: Not a directory; make the"
        " folder writable and room on its disk, or name another one in cost.export.dir: it is"
        " tried again every 5 minutes"
    )
    blocked.unlink()
    await folder.write_once()
    assert folder.problem() == ""
    assert (blocked / "files" / MANIFEST).exists()


def test_a_damaged_manifest_is_written_anew(bench: Bench) -> None:
    bench.write()
    whole = bench.manifest()
    (bench.directory / MANIFEST).write_text("{")
    bench.write()
    assert bench.manifest() == whole
    bench.write(format=ExportFormat.CSV, time_zone="America/Lima")
    first = bench.manifest()["files"][0]
    assert (first["period"], first["from"]) == ("2026-09", "2026-09-01T05:00:00Z")
    assert first["total"] == "0.300000000000"


def server(directory: Path, files: Path) -> Server:
    path = directory / "longshore.yml"
    text = {
        "driver": {"name": "tests.unit.test_wiring:DRIVER"},
        "instance_types": {"small": INSTANCE_TYPE},
        "data_dir": str(directory / "data"),
        "store": url_in(directory),
        "listen": "127.0.0.1:0",
        "cluster": "lab",
        "cost": {"export": {"dir": str(files)}},
    }
    path.write_text(yaml.safe_dump(text))
    return Server(load_config(path))


async def problems_of(made: Server) -> list[tuple[str, str]]:
    async with aiohttp.ClientSession() as session, session.get(f"{made.url}/v1/health") as answer:
        found = (await answer.json())["problems"]
    told = [(each["kind"], each["message"]) for each in found]
    return [each for each in told if each[0] == "cost_export"]


async def exists(path: Path) -> bool:
    return await asyncio.to_thread(path.exists)


async def came(look: Callable[[], Awaitable[object]]) -> bool:
    """Return whether what is looked for comes within some seconds."""
    for _ in range(2000):
        if await look():
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_server_writes_its_files_at_its_start_and_says_when_it_cannot(
    tmp_path: Path,
) -> None:
    with bench_in(tmp_path):
        pass
    made = server(tmp_path, tmp_path / "files")
    await made.start()
    try:
        assert await came(lambda: exists(tmp_path / "files" / MANIFEST))
        assert await problems_of(made) == []
    finally:
        await made.stop()
    content = (tmp_path / "files" / OCTOBER_FILE).read_text()
    assert "tests.unit.test_wiring:DRIVER" in content.splitlines()[1]
    blocked = tmp_path / "blocked"
    blocked.write_text("no folder")
    made = server(tmp_path, blocked)
    await made.start()
    try:
        assert await came(lambda: problems_of(made))
        [(_, message)] = await problems_of(made)
        assert "name another one in cost.export.dir" in message
    finally:
        await made.stop()


@pytest.mark.parametrize(
    ("export", "key", "why"),
    [
        ({"tz": "Mars"}, "cost.export.tz", "there is no time zone 'Mars'"),
        ({"cron": "never"}, "cost.export.cron", "minute, hour"),
        ({"format": "xls"}, "cost.export.format", "focus-1.4"),
    ],
)
def test_what_is_wrong_with_the_configuration_is_told(
    tmp_path: Path, export: dict[str, str], key: str, why: str
) -> None:
    path = tmp_path / "longshore.yml"
    path.write_text(yaml.safe_dump({"cost": {"export": export}}))
    with pytest.raises(ConfigError) as wrong:
        load_config(path)
    assert why in dict(wrong.value.problems)[key]
