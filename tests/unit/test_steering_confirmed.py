"""Who steers an instance is answered when a restart would know of it, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from dispatcher.api.backend import Unavailable
from dispatcher.desk import intake
from dispatcher.messages import (
    BehaviorRequested,
    Change,
    Commit,
    Confirm,
    InstanceKillRequested,
    SaveInstance,
)
from dispatcher.runtime import Runtime
from dispatcher.store.store import Store
from pool.model import IdleBehavior
from tests.backend_rig import backend_over, backend_with, store_in
from tests.engine_rig import Rig
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
    async with backend_over(rig, store, tmp_path) as backend:
        held = await backend.set_idle_behavior("i-001", IdleBehavior.HOLD)
        assert held.idle_behavior == "hold"
        assert [each.behavior for each in store.recover().instances] == ["hold"]
        await backend.kill_instance("i-001", "too old")
        assert [each.killed for each in store.recover().instances] == ["too old"]


async def test_who_asks_waits_for_the_store_and_is_told_when_that_takes_too_long(
    rig: Rig, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[Future[None]] = []

    def write(_changes: Sequence[Change]) -> Future[None]:
        writes.append(Future())
        return writes[-1]

    runtime = Runtime(
        engine=rig.engine,
        now=lambda: rig.now,
        write=write,
        perform=rig.sent.append,
        publish=rig.published.append,
        inbox_limit=100,
    )
    backend = backend_with(runtime, rig, store, tmp_path)
    running = asyncio.create_task(runtime.run())
    asking = asyncio.create_task(backend.set_idle_behavior("i-001", IdleBehavior.HOLD))
    done, _ = await asyncio.wait([asking], timeout=0.1)
    assert writes
    assert not done, "it is not on the disk yet"
    for each in writes:
        each.set_result(None)
    assert (await asking).idle_behavior == "hold"
    monkeypatch.setattr(intake, "_WRITE_PATIENCE_S", 0.05)
    with pytest.raises(Unavailable, match="the store takes too long: it is done once"):
        await backend.kill_instance("i-001", "too old")
    runtime.stop()
    with pytest.raises(Unavailable, match="try again in a moment"):
        await backend.kill_instance("i-001", "too old")
    await running
