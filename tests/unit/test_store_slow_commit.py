"""A disk that takes long over one commit: whoever waits is told what is so, and none runs twice."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from sqlalchemy import Connection, Engine, event

from longshore.dispatcher.api.render.problems import IN_DOUBT, answer_for
from longshore.dispatcher.client.errors import IN_DOUBT_TYPE
from longshore.dispatcher.domain.messages import InsertContainers
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter
from longshore.dispatcher.service.contracts import InDoubt, NewContainer, NewJob, Unavailable
from longshore.dispatcher.service.services import Services
from longshore.dispatcher.store.errors import LeftInDoubt, Withdrawn
from longshore.dispatcher.store.store import Store
from tests.api_server import serving
from tests.cli_server import await_true
from tests.job_samples import make_task
from tests.rigs.engine import Rig
from tests.rigs.services import services_over, store_in, waiting_rig
from tests.samples import ME, make_container
from tests.store_values import container, insert


class Disk:
    """What the writes of a store go to: `fate` is what happens to each but those of upkeep."""

    def __init__(self) -> None:
        self.store: Store | None = None
        self.fate: Callable[[], None] = lambda: None

    def __call__(self, connection: Connection) -> None:
        store = self.store
        if (
            store is not None
            and connection.engine is store._writer._engine
            and store._writer._group
        ):
            self.fate()


class Stall:
    """A commit that has begun and does not end before it is let go on."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self._go_on = threading.Event()

    def __call__(self) -> None:
        self.began.set()
        assert self._go_on.wait(60)

    def end(self) -> None:
        self._go_on.set()


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    event.listen(Engine, "commit", made)
    yield made
    event.remove(Engine, "commit", made)


@contextmanager
def stalled(disk: Disk) -> Iterator[Stall]:
    """Let each commit wait as one does for a disk: all is applied, and nothing is on it yet."""
    disk.fate = stall = Stall()
    try:
        yield stall
    finally:
        stall.end()
        disk.fate = lambda: None


@pytest.fixture
def store(disk: Disk, tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        disk.store = made
        yield made


@pytest.fixture
def rig() -> Rig:
    return waiting_rig()


@pytest.fixture
async def services(rig: Rig, store: Store, tmp_path: Path) -> AsyncIterator[Services]:
    async with services_over(rig, store, tmp_path) as made:
        way_in = made.containers._admission
        way_in._write_patience_s = way_in._commit_patience_s = 0.3
        yield made


async def submit(services: Services, key: str = "") -> str:
    items = [NewContainer(spec=make_container(1).spec, priority=500, project="p")]
    made = await services.containers.submit(items, caller=ME, idempotency_key=key, fingerprint="f")
    return made[0].id


def ids(store: Store) -> list[str]:
    page = store.containers(ContainerFilter(), cursor="", limit=100)
    return [each.id for each in page.items]


def insert_of(sequence: int) -> InsertContainers:
    return InsertContainers(containers=(container(sequence),), user="u")


def io_error() -> sqlite3.OperationalError:
    """Return what SQLite says when a disk does not take what is synced to it."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    return error


def test_what_is_being_committed_cannot_be_taken_back(store: Store, disk: Disk) -> None:
    first, second = container(1), container(2)
    with stalled(disk) as stall:
        under_way = store.write([insert_of(first.sequence)])
        assert stall.began.wait(60)
        behind = store.write([insert_of(second.sequence)])
        assert not store.withdraw(under_way)
        assert store.withdraw(behind)
        stall.end()
        assert under_way.exception(60) is None
        assert isinstance(behind.exception(60), Withdrawn)
    assert not store.withdraw(under_way), "nor what is done"
    assert ids(store) == [first.id]


async def test_an_answer_goes_on_waiting_for_a_commit_that_is_under_way(
    services: Services, store: Store, disk: Disk, rig: Rig
) -> None:
    services.containers._admission._commit_patience_s = 60.0
    with stalled(disk) as stall:
        answer = asyncio.create_task(submit(services))
        await asyncio.to_thread(stall.began.wait, 60)
        done, _ = await asyncio.wait([answer], timeout=1.0)
        assert not done, "nobody says that nothing was accepted"
        stall.end()
        container_id = await answer
    assert ids(store) == [container_id]
    assert container_id in rig.engine.table.containers


async def test_who_is_not_told_what_came_of_it_is_told_that(
    services: Services, store: Store, disk: Disk
) -> None:
    with stalled(disk) as stall:
        with pytest.raises(InDoubt, match="may be done or not; send it again with the same Idemp"):
            await submit(services, key="k")
        with pytest.raises(Unavailable, match="nothing was accepted") as refused:
            await submit(services, key="another")
        assert not isinstance(refused.value, InDoubt), "that one was behind it, and is taken back"
        stall.end()
        once = await submit(services, key="k")
    assert ids(store) == [once], "sent again with its key it is there once"


async def test_jobs_and_changes_say_it_too(services: Services, store: Store, disk: Disk) -> None:
    known = await submit(services)
    job = NewJob(name="n", priority=500, project="p", labels=(), tasks=(make_task(),))
    with stalled(disk) as stall:
        with pytest.raises(InDoubt, match="look for it before you send it again"):
            await services.jobs.submit(job, caller=ME, idempotency_key="", fingerprint="f")
        stall.end()
        await asyncio.to_thread(
            await_true, lambda: store.jobs(JobFilter(), cursor="", limit=9).items != ()
        )
    with stalled(disk) as stall:
        with pytest.raises(InDoubt, match="ask again, or look; asking twice does no harm"):
            await services.containers.cancel(known, caller=ME)
        stall.end()
        assert (await services.containers.cancel(known, caller=ME)).cancel_requested


async def test_it_is_a_503_of_a_type_of_its_own(services: Services, disk: Disk) -> None:
    async with serving(services) as (base, _), aiohttp.ClientSession() as http:
        with stalled(disk):
            body = {"command": ["true"]}
            async with http.post(f"{base}/v1/containers", json=body) as answer:
                problem = await answer.json()
                assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert (problem["title"], problem["type"]) == (IN_DOUBT, IN_DOUBT_TYPE)
    plain = answer_for(Unavailable("the queue is full"), where="")
    assert json.loads(plain.text or "")["type"] == "urn:longshore:problem:service-unavailable"


def test_a_store_that_is_closed_meanwhile_leaves_it_open(store: Store, disk: Disk) -> None:
    insert(store, container(1))

    def fail() -> None:
        raise io_error()

    disk.fate = fail
    call = store.write([insert_of(2)])
    await_true(lambda: store.problem != "")
    assert not store.withdraw(call), "a sync that failed may have written it all the same"
    assert not store.close(timeout_s=0.1)
    assert isinstance(call.exception(60), LeftInDoubt)


def test_a_connection_that_a_failed_commit_left_in_a_transaction_is_given_up(store: Store) -> None:
    """Nothing can begin on it any more, so that a writer that keeps it never writes again."""
    broken: list[object] = []

    def fail(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        if not broken:
            broken.append(driver)
        if driver is broken[0]:
            raise io_error()

    engine, kept = store._writer._engine, container(1)
    for change in ("commit", "rollback"):
        event.listen(engine, change, fail)
    try:
        store.write([insert_of(kept.sequence)], wait=True).result(10)
    finally:
        for change in ("commit", "rollback"):
            event.remove(engine, change, fail)
    assert broken, "neither a commit nor the way back succeeds on the first"
    assert ids(store) == [kept.id]
