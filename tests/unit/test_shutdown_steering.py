"""An instance that is being shut down takes no other idle behavior."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.dispatcher.service.contracts import Conflict
from longshore.dispatcher.store.store import Store
from longshore.pool.messages import DestroyInstance, SetLease, SetTags
from longshore.pool.model import IdleBehavior
from tests.cli_server import cli_server
from tests.rigs.engine import Rig, last_commands
from tests.rigs.services import runtime_over, services_with
from tests.samples import make_container
from tests.store_values import url_in


@pytest.fixture
def rig() -> Rig:
    """An engine whose one instance was killed, and which the cloud still lists."""
    made = Rig()
    made.submit(make_container(1))
    made.silent.add(DestroyInstance)
    made.send(InstanceKillRequested(worker_id="i-001", reason="too old"))
    assert made.worker_states() == {"i-001": "shutdown"}
    return made


@pytest.mark.parametrize("behavior", [IdleBehavior.HOLD, IdleBehavior.DRAIN])
def test_it_is_neither_journalled_nor_tagged(rig: Rig, behavior: IdleBehavior) -> None:
    worker = rig.engine.pool.workers["i-001"]
    revision, record = worker.link.revision, rig.instances["i-001"]
    rig.sent.clear()
    rig.send(BehaviorRequested(worker_id="i-001", behavior=behavior))
    assert (worker.behavior, worker.link.revision) == (IdleBehavior.RUN, revision)
    assert rig.instances["i-001"] == record
    assert rig.engine.pool.asked_behaviors == {}
    assert [*last_commands(rig, SetTags), *last_commands(rig, SetLease)] == []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.open(url_in(tmp_path))
    yield made
    made.close()


async def test_the_service_refuses_it_and_says_what_to_do(
    rig: Rig, store: Store, tmp_path: Path
) -> None:
    runtime = runtime_over(rig, store)
    services = services_with(runtime, rig, store, tmp_path)
    with pytest.raises(Conflict) as refused:
        await services.instances.set_idle_behavior("i-001", IdleBehavior.HOLD)
    assert str(refused.value) == (
        "instance i-001 is being shut down (an admin ended it: too old), and that cannot be "
        "undone; hold another one"
    )
    assert len(runtime._inbox) == 0
    running = asyncio.create_task(runtime.run())
    killed = await services.instances.kill("i-001", "again")
    assert killed.state == "shutdown", "who wants it gone gets what they want"
    runtime.stop()
    await running


def test_the_command_line_says_so_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with cli_server() as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        server.rig.silent.add(DestroyInstance)
        server.do(lambda rig: rig.add_instance("i-1"))
        server.do(lambda rig: rig.services.instances.kill("i-1", "too old"))
        assert main(["instance", "hold", "i-1"]) == 1
    said = capsys.readouterr()
    assert (said.out, "i-1 is being shut down" in said.err) == ("", True)
