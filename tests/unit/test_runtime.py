"""The loop around the engine: commit before act, one pass a wake-up, back-pressure, clean end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from errno import ENOSPC

import pytest

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.messages import (
    Change,
    InsertContainers,
    Publication,
    SaveLaunch,
    Submitted,
)
from longshore.dispatcher.domain.queries import Recovered
from longshore.dispatcher.engine import runtime
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.runtime import InboxFull, Runtime
from longshore.pool.messages import CreateInstance, Listed, ListInstances, PoolCommand
from longshore.pool.model import PoolSettings
from tests.samples import make_container, make_type


class World:
    """Everything around a runtime, under the test's control."""

    def __init__(self, *, inbox_limit: int = 100) -> None:
        type_ = make_type(1)
        self.engine = Engine(
            cluster="test",
            types={type_.name: type_},
            pool_settings=PoolSettings(),
            settings=SchedulerSettings(),
            recovered=Recovered(),
            new_token=lambda: "token",
            new_secret=lambda: "secret",
            new_container=lambda: ("c-1", 1),
            dice=lambda: 0.5,
            quota_groups={},
        )
        self.time = 100.0
        self.writes: list[tuple[Sequence[Change], Future[None]]] = []
        self.performed: list[PoolCommand] = []
        self.published: list[Publication] = []
        self.runtime = Runtime(
            engine=self.engine,
            now=lambda: self.time,
            write=self.write,
            perform=self.performed.append,
            publish=self.published.append,
            inbox_limit=inbox_limit,
        )

    def write(self, changes: Sequence[Change]) -> Future[None]:
        future: Future[None] = Future()
        self.writes.append((changes, future))
        return future


async def turns(count: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def begin(world: World) -> asyncio.Task[None]:
    task = asyncio.create_task(world.runtime.run())
    await turns()
    assert [type(c) for c in world.performed] == [ListInstances]
    world.runtime.post(Listed(op_id=1, began_at=100.0, instances=()))
    await turns()
    return task


async def test_nothing_is_done_before_it_is_committed() -> None:
    world = World()
    task = await begin(world)
    world.runtime.post(Submitted(containers=(make_container(1),)))
    await turns()
    assert [type(c) for c in world.performed] == [ListInstances]
    changes, future = world.writes[-1]
    assert any(isinstance(change, SaveLaunch) for change in changes)
    future.set_result(None)
    await turns()
    assert [type(c) for c in world.performed] == [ListInstances, CreateInstance]
    world.runtime.stop()
    await asyncio.wait_for(task, 60)


async def test_twenty_submissions_in_one_wake_up_make_one_pass() -> None:
    world = World()
    task = await begin(world)
    passes = world.engine.scheduling.passes
    for number in range(20):
        world.runtime.post_committed(Submitted(containers=(make_container(number),)))
    await turns()
    assert world.engine.scheduling.passes == passes + 1
    for _, future in world.writes:
        future.set_result(None)
    world.runtime.stop()
    await asyncio.wait_for(task, 60)


async def test_stopping_begins_nothing_new_and_does_not_wait_for_a_store_that_hangs() -> None:
    world = World()
    task = await begin(world)
    world.runtime.post(Submitted(containers=(make_container(1),)))
    await turns()
    world.runtime.stop()
    await asyncio.wait_for(task, 60)
    world.writes[-1][1].set_result(None)
    await turns()
    assert CreateInstance not in {type(c) for c in world.performed}


async def test_a_store_that_refuses_stops_the_dispatcher_instead_of_acting() -> None:
    world = World()
    task = await begin(world)
    world.runtime.post(Submitted(containers=(make_container(1),)))
    await turns()
    world.writes[-1][1].set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await asyncio.wait_for(task, 60)
    assert CreateInstance not in {type(c) for c in world.performed}


async def test_a_command_that_cannot_be_begun_stops_the_dispatcher() -> None:
    world = World()
    task = await begin(world)
    world.runtime.post(Submitted(containers=(make_container(1),)))
    await turns()

    def refuse(command: PoolCommand) -> None:
        raise RuntimeError(f"can't start new thread for {type(command).__name__}")

    world.runtime._perform = refuse
    world.writes[-1][1].set_result(None)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await asyncio.wait_for(task, 60)


async def test_it_is_stopping_before_a_line_of_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FullLog:
        def error(self, event: str, **_: object) -> None:
            raise OSError(ENOSPC, event)

    def begin_nothing(command: str) -> None:
        raise ValueError(command)

    world = World()
    task = await begin(world)
    monkeypatch.setattr(runtime, "log", FullLog())
    with pytest.raises(OSError, match="a command could not be begun"):
        world.runtime._guarded(begin_nothing, "a command")
    with pytest.raises(ValueError, match="a command"):
        await asyncio.wait_for(task, 60)


async def test_a_full_inbox_refuses_requests_but_takes_the_pools_events() -> None:
    world = World(inbox_limit=2)
    for number in (1, 2):
        world.runtime.check_room()
        world.runtime.post_committed(Submitted(containers=(make_container(number),)))
    with pytest.raises(InboxFull):
        world.runtime.check_room()
    world.runtime.post(Listed(op_id=1, began_at=100.0, instances=()))
    await turns()
    task = asyncio.create_task(world.runtime.run())
    await turns()
    assert len(world.engine.table.containers) == 2
    assert world.engine.pool.listed_once
    for _, future in world.writes:
        future.set_result(None)
    world.runtime.stop()
    await asyncio.wait_for(task, 60)


async def test_an_error_of_our_own_code_ends_the_loop_and_is_raised() -> None:
    world = World()
    container = make_container(1)
    task = await begin(world)
    change = InsertContainers(containers=(container,), user="u")
    world.runtime.post(change)  # type: ignore[arg-type]  # a bug on purpose: this is no event
    with pytest.raises(AssertionError):
        await asyncio.wait_for(task, 60)
