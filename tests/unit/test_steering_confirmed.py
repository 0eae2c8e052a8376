"""Who steers an instance is answered when a restart would know of it, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    Change,
    Commit,
    Confirm,
    InstanceKillRequested,
    SaveInstance,
    Woken,
)
from longshore.dispatcher.engine.outbox import STALLED_AFTER_S
from longshore.dispatcher.engine.runtime import Runtime, WriteChanges
from longshore.dispatcher.service import admission
from longshore.dispatcher.service.contracts import Conflict, NotFound, Unavailable
from longshore.dispatcher.store.store import Store
from longshore.drivers.interface import Existence
from longshore.pool.messages import FindInstance, InstanceFound, Listed, SessionLost
from longshore.pool.model import IdleBehavior
from tests.rigs.engine import Rig, last_commands
from tests.rigs.services import services_over, services_with, store_in
from tests.samples import make_container

HOLD = BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD, asked=7)
KILL = InstanceKillRequested(worker_id="i-001", reason="too old", asked=7)


@pytest.fixture
def rig() -> Rig:
    """An engine with one instance, on which a container runs."""
    made = Rig()
    made.submit(make_container(1))
    assert made.worker_states() == {"i-001": "running"}
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with store_in(tmp_path) as made:
        yield made


@pytest.mark.parametrize("event", [HOLD, KILL])
def test_it_is_confirmed_after_the_commit_that_it_led_to(
    rig: Rig, event: BehaviorRequested | InstanceKillRequested
) -> None:
    (commit,) = rig.engine.handle(event, rig.now)
    assert isinstance(commit, Commit)
    assert any(isinstance(change, SaveInstance) for change in commit.changes)
    assert commit.then[-1] == Confirm(asked=7)
    again = rig.engine.handle(replace(HOLD, worker_id="i-999", asked=8), rig.now)
    assert again == [Confirm(asked=8)], "each is confirmed once"


def test_what_changes_nothing_is_confirmed_too(rig: Rig) -> None:
    gone = BehaviorRequested(worker_id="i-999", behavior=IdleBehavior.HOLD, asked=8)
    assert rig.engine.handle(gone, rig.now) == [Confirm(asked=8)]


def test_nobody_is_told_who_did_not_ask(rig: Rig) -> None:
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    assert rig.confirmed == []


async def test_what_is_answered_is_on_the_disk(rig: Rig, store: Store, tmp_path: Path) -> None:
    async with services_over(rig, store, tmp_path) as services:
        held = await services.instances.set_idle_behavior("i-001", IdleBehavior.HOLD)
        assert held.idle_behavior == "hold"
        assert [each.behavior for each in store.recover().instances] == ["hold"]
        await services.instances.kill("i-001", "too old")
        assert [each.killed for each in store.recover().instances] == ["too old"]


def runtime_of(rig: Rig, write: WriteChanges) -> Runtime:
    """Return what runs the engine of a rig over a store of the test's own."""
    return Runtime(
        engine=rig.engine,
        now=lambda: rig.now,
        write=write,
        perform=rig.sent.append,
        publish=rig.published.append,
        inbox_limit=100_000,
    )


def written(_changes: Sequence[Change]) -> Future[None]:
    """Write changes at once, to nowhere."""
    done: Future[None] = Future()
    done.set_result(None)
    return done


class HangingStore:
    """Writes of an engine that are done when the test says so."""

    def __init__(self, rig: Rig) -> None:
        self.writes: list[Future[None]] = []
        self.runtime = runtime_of(rig, self._write)

    def _write(self, _changes: Sequence[Change]) -> Future[None]:
        self.writes.append(Future())
        return self.writes[-1]


async def test_who_asks_waits_for_the_store_and_is_told_when_that_takes_too_long(
    rig: Rig, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = HangingStore(rig)
    runtime = hanging.runtime
    services = services_with(runtime, rig, store, tmp_path)
    running = asyncio.create_task(runtime.run())
    asking = asyncio.create_task(services.instances.set_idle_behavior("i-001", IdleBehavior.HOLD))
    done, _ = await asyncio.wait([asking], timeout=0.1)
    assert hanging.writes
    assert not done, "it is not on the disk yet"
    for each in hanging.writes:
        each.set_result(None)
    assert (await asking).idle_behavior == "hold"
    monkeypatch.setattr(admission, "_WRITE_PATIENCE_S", 0.05)
    with pytest.raises(Unavailable, match="takes too long: this was accepted"):
        await services.instances.set_idle_behavior("i-001", IdleBehavior.DRAIN)
    monkeypatch.setattr(admission, "_WRITE_PATIENCE_S", 60.0)
    again = asyncio.create_task(services.instances.set_idle_behavior("i-001", IdleBehavior.DRAIN))
    done, _ = await asyncio.wait([again], timeout=0.1)
    (first,) = (each for each in hanging.writes if not each.done())
    assert not done, "it changes nothing, but what was asked for first is not on the disk yet"
    first.set_result(None)
    assert (await again).idle_behavior == "drain"
    runtime.stop()
    await running


async def test_nothing_is_taken_in_that_would_wait_behind_a_store_that_hangs(
    rig: Rig, store: Store, tmp_path: Path
) -> None:
    hanging = HangingStore(rig)
    runtime = hanging.runtime
    services = services_with(runtime, rig, store, tmp_path)
    running = asyncio.create_task(runtime.run())
    asking = asyncio.create_task(services.instances.set_idle_behavior("i-001", IdleBehavior.HOLD))
    await asyncio.wait([asking], timeout=0.1)
    rig.now += STALLED_AFTER_S
    runtime.post(Woken())
    await asyncio.wait([asking], timeout=0.1)
    with pytest.raises(Unavailable, match="takes too long; this was not accepted"):
        await services.instances.kill("i-001", "too old")
    assert rig.engine.pool.workers["i-001"].shutdown.killed is None
    for each in hanging.writes:
        each.set_result(None)
    assert (await asking).idle_behavior == "hold"
    runtime.stop()
    await running


async def test_nobody_waits_for_an_engine_that_has_ended(
    rig: Rig, store: Store, tmp_path: Path
) -> None:
    hanging = HangingStore(rig)
    services = services_with(hanging.runtime, rig, store, tmp_path)
    running = asyncio.create_task(hanging.runtime.run())
    asking = asyncio.create_task(services.instances.kill("i-001", "too old"))
    await asyncio.wait([asking], timeout=0.1)
    hanging.writes[-1].set_exception(OSError("the disk is gone"))
    with pytest.raises(Unavailable, match="the server is stopping: this may be done or not"):
        await asyncio.wait_for(asking, 1.0)
    with pytest.raises(OSError, match="the disk is gone"):
        await running
    with pytest.raises(Unavailable, match="the server is stopping; ask again once it is back"):
        await services.instances.kill("i-001", "too old")


async def test_no_more_wait_for_an_answer_than_a_thousand(
    rig: Rig, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_WRITE_PATIENCE_S", 60.0)
    runtime = HangingStore(rig).runtime
    services = services_with(runtime, rig, store, tmp_path)
    running = asyncio.create_task(runtime.run())
    turns = cycle((IdleBehavior.HOLD, IdleBehavior.RUN))
    asking = [
        asyncio.create_task(services.instances.set_idle_behavior("i-001", next(turns)))
        for _ in range(1_000)
    ]
    done, _ = await asyncio.wait(asking, timeout=0.1)
    assert not done
    with pytest.raises(Unavailable, match="1000 requests wait; try again in a moment"):
        await services.instances.kill("i-001", "too old")
    runtime.stop()
    await running
    for answer in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(answer, Unavailable)
        assert "the server is stopping" in str(answer)


@pytest.mark.parametrize("before", [IdleBehavior.RUN, IdleBehavior.HOLD])
async def test_what_another_admin_ended_first_is_not_held(
    rig: Rig, store: Store, tmp_path: Path, before: IdleBehavior
) -> None:
    async with services_over(rig, store, tmp_path) as services:
        await services.instances.set_idle_behavior("i-001", before)
        killed, held = await asyncio.gather(
            services.instances.kill("i-001", "too old"),
            services.instances.set_idle_behavior("i-001", IdleBehavior.HOLD),
            return_exceptions=True,
        )
        assert not isinstance(killed, BaseException)
        assert isinstance(held, Conflict)
        assert "is being shut down (an admin ended it: too old)" in str(held)


async def test_what_is_gone_before_it_is_steered_is_not_said_to_be(
    rig: Rig, store: Store, tmp_path: Path
) -> None:
    runtime = runtime_of(rig, written)
    services = services_with(runtime, rig, store, tmp_path)
    rig.silent.add(FindInstance)
    rig.unreachable.add("i-001")
    rig.advance(600)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now - 1, reason="reset"))
    rig.send(Listed(op_id=rig.engine.pool.listing_op, began_at=rig.now, instances=()))
    (find,) = last_commands(rig, FindInstance)
    running = asyncio.create_task(runtime.run())
    await asyncio.wait([running], timeout=0.05)
    runtime.post(InstanceFound(op_id=find.op_id, instance_id="i-001", existence=Existence.GONE))
    steering = asyncio.gather(
        services.instances.set_idle_behavior("i-001", IdleBehavior.HOLD),
        services.instances.kill("i-001", "too old"),
        return_exceptions=True,
    )
    for answer in await steering:
        assert isinstance(answer, NotFound), answer
    runtime.stop()
    await running


async def test_the_answer_tells_what_came_of_it(rig: Rig, store: Store, tmp_path: Path) -> None:
    rig.exit("c-1-1")
    async with services_over(rig, store, tmp_path) as services:
        drained = await services.instances.set_idle_behavior("i-001", IdleBehavior.DRAIN)
    assert (drained.idle_behavior, drained.state) == ("drain", "shutdown")
