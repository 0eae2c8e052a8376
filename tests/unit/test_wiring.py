"""The wiring: what a start that fails gives back, and what an instance's first script holds."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import structlog
import yaml

from longshore.dispatcher.config.loading import load_config
from longshore.dispatcher.domain.containers import ContainerState, Dependency
from longshore.dispatcher.domain.messages import SaveContainer
from longshore.dispatcher.server.wiring import Server
from longshore.dispatcher.service.launching import PeriodicJobs
from longshore.dispatcher.store.store import Store
from longshore.drivers.billing import AS_USED, Billed, BillingRule
from longshore.drivers.errors import CloudError, ConfigError
from longshore.drivers.interface import Instance, PowersOff
from longshore.drivers.registry import DriverContext, DriverInfo
from tests.store_values import container, insert, insert_job, job, task, url_in

INSTANCE_TYPE = {"provider_type": "t", "cpus": 1, "memory": "1GiB", "price_per_hour": 0.1}


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`power_off` is what the driver says."""

    power_off: str = ""


class Cloud:
    """A driver that counts how often it was closed."""

    closed = 0

    def __init__(self, power_off: str) -> None:
        self._power_off = power_off

    def power_off_command(self) -> str:
        return self._power_off

    def create(self, **_: object) -> Instance:
        raise CloudError("no test creates anything")

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        assert tags
        return []

    def close(self) -> None:
        Cloud.closed += 1


def _make(parameters: Parameters, _: DriverContext) -> Cloud:
    return Cloud(parameters.power_off)


DRIVER = DriverInfo(name="counted", summary="for tests", parameters=Parameters, make=_make)


@pytest.fixture(autouse=True)
def _nothing_closed_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cloud, "closed", 0)


def server(directory: Path, *, power_off: str = "", **settings: object) -> Server:
    path = directory / "longshore.yml"
    driver = {"name": "tests.unit.test_wiring:DRIVER", "parameters": {"power_off": power_off}}
    text = {"driver": driver, "instance_types": {"small": INSTANCE_TYPE}, **settings}
    path.write_text(yaml.safe_dump({"data_dir": str(directory / "data"), **text}))
    return Server(load_config(path))


def test_a_start_that_fails_closes_the_driver(tmp_path: Path) -> None:
    assert isinstance(Cloud(""), PowersOff)
    with pytest.raises(ConfigError, match="power-off command has characters beyond ASCII"):
        asyncio.run(server(tmp_path, power_off="échec").start())
    assert Cloud.closed == 1


def test_a_driver_is_closed_once_by_whoever_owns_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match="cannot listen"):
            asyncio.run(server(tmp_path, listen=listen).start())
    assert Cloud.closed == 1


def test_the_first_script_keeps_the_lease_before_anything_else_runs(tmp_path: Path) -> None:
    made = server(tmp_path, pool={"init_command": "echo the operators own"})
    script = made._init_command("shutdown now", "s3cret")
    parts = ["s3cret", "shutdown now", "the operators own"]
    assert [script.index(each) for each in parts] == sorted(script.index(each) for each in parts)
    assert "shutdown" not in made._init_command("", "s3cret")


class Telling(Cloud):
    """A driver that tells how its cloud bills."""

    def billing_rule(self) -> BillingRule:
        return BillingRule(minimum_s=60)

    def bills(self, instance_ids: Sequence[str]) -> Mapping[str, Billed]:
        return dict.fromkeys(instance_ids, Billed())


def test_the_engine_knows_how_the_cloud_bills_and_asks_only_who_can_tell(tmp_path: Path) -> None:
    async def run() -> list[tuple[BillingRule, bool]]:
        (tmp_path / "data").mkdir()
        made = server(tmp_path, store=url_in(tmp_path))
        async with contextlib.AsyncExitStack() as stack:
            vault = await made._open_store(stack)
            engines = [await made._engine(vault, of(""), {}) for of in (Cloud, Telling)]
        return [(engine.costs.rule, engine.pool.bills.asks) for engine in engines]

    assert asyncio.run(run()) == [(AS_USED, False), (BillingRule(minimum_s=60), True)]


def test_a_defect_that_ends_the_launching_of_periodic_jobs_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(_: PeriodicJobs) -> float:
        raise ArithmeticError("a defect")

    async def run() -> None:
        made = server(tmp_path)
        await made.start()
        try:
            async with asyncio.timeout(20.0):
                await made.wait_failed()
        finally:
            await made.stop()

    monkeypatch.setattr(PeriodicJobs, "look", look)
    with pytest.raises(ArithmeticError, match="a defect"):
        asyncio.run(run())


def test_periodic_jobs_are_launched_no_more_once_the_server_has_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        made = server(tmp_path)
        await made.start()
        await made.stop()
        assert "periodic jobs" not in {task.get_name() for task in asyncio.all_tasks()}

    asyncio.run(run())


def test_a_start_says_what_it_has_taken_in_and_how_long_that_took(tmp_path: Path) -> None:
    async def run() -> None:
        made = server(tmp_path, store=url_in(tmp_path))
        await made.start()
        await made.stop()

    store = Store.open(url_in(tmp_path))
    ended = container(1)
    insert(store, ended)
    done = replace(ended, state=ContainerState.SUCCEEDED, finished_at=ended.created_at + 1)
    store.write([SaveContainer(container=done)]).result(30)
    after = replace(container(2).spec, after=(Dependency(of=ended.id),))
    insert(store, container(2, spec=after))
    insert_job(store, job(1, task(size=3)), first=3)
    store.close()
    with structlog.testing.capture_logs() as lines:
        asyncio.run(run())
    [said] = [line for line in lines if line["event"] == "restored"]
    assert (said["containers"], said["jobs"], said["waited_for"]) == (4, 1, 1)
    assert 0 <= said["took_s"] < 60
    events = [line["event"] for line in lines]
    assert events.index("restored") < events.index("serving")
