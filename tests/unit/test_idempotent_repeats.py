"""A request that is sent again is answered from a few questions, however long its list is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from longshore.dispatcher.config.model import LimitsConfig
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.service.contracts import NewContainer, Unavailable
from longshore.drivers.errors import InvalidRequest
from tests.rigs.services import services_over, store_in, waiting_rig
from tests.samples import ME, make_container


async def test_who_was_taken_in_is_answered_though_the_queue_is_full(tmp_path: Path) -> None:
    rig = waiting_rig()
    new = NewContainer(spec=make_container(1).spec, priority=500, project="apollo")
    limits = LimitsConfig(queued_containers=3)
    with store_in(tmp_path) as store:
        async with services_over(rig, store, tmp_path, limits=limits) as services:

            async def submit(key: str, fingerprint: str = "f", number: int = 2) -> list[str]:
                given = {"idempotency_key": key, "fingerprint": fingerprint}
                return [
                    each.id
                    for each in await services.containers.submit([new] * number, **given, caller=ME)
                ]

            made = await submit("k")
            assert await submit("k") == made
            for key, fingerprint in (("", "f"), ("other", "f"), ("k", "another")):
                with pytest.raises(Unavailable, match="the queue is full"):
                    await submit(key, fingerprint)
            with pytest.raises(InvalidRequest, match="never fits"):
                await submit("k", "another", 4)


@pytest.mark.parametrize("number", [1, 2, 1200])
async def test_a_repeated_list_is_read_in_a_few_questions(tmp_path: Path, number: int) -> None:
    rig = waiting_rig()
    spec = make_container(1).spec
    items = [NewContainer(spec=spec, priority=500, project="apollo")] * number
    asked: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: Any) -> None:
        asked.append(statement)

    with store_in(tmp_path) as store:
        async with services_over(rig, store, tmp_path) as services:

            async def submit() -> list[Container]:
                given = {"idempotency_key": "k", "fingerprint": "f"}
                return list(await services.containers.submit(items, **given, caller=ME))

            made = await submit()
            event.listen(Engine, "before_cursor_execute", note)
            try:
                again = await submit()
            finally:
                event.remove(Engine, "before_cursor_execute", note)
    assert [each.id for each in again] == [each.id for each in made]
    assert [each.spec for each in again] == [each.spec for each in made]
    questions = [each for each in asked if each.startswith("SELECT") and "containers" in each]
    # One for a part of the list, and one for its attempts.
    assert len(questions) <= 2 * (1 + number // 500)
