"""Events for subscribers: numbered, resumable within a window, never missed in silence."""

from __future__ import annotations

import asyncio
import json
import tracemalloc

from longshore.dispatcher.domain.views import ServerEvent
from longshore.dispatcher.service.events import KEPT_EVENTS, Broker, ContainerNotifier


async def collect(broker: Broker, after: int | None, into: list[ServerEvent]) -> None:
    async for event in broker.follow(after):
        into.append(event)  # noqa: PERF401 - events must be seen as they come


async def test_followers_get_every_event_after_the_number_they_name() -> None:
    broker = Broker()
    for name in ("a", "b", "c"):
        broker.publish("container", name, {})
    seen: list[ServerEvent] = []
    task = asyncio.create_task(collect(broker, 1, seen))
    await asyncio.sleep(0)
    broker.publish("instance", "d", {"x": 1})
    broker.close()
    await task
    assert [(event.number, event.id) for event in seen] == [(2, "b"), (3, "c")]
    assert broker.last_number == 4


async def test_none_means_from_now_on() -> None:
    broker = Broker()
    broker.publish("container", "old", {})
    follower = broker.follow(None)
    waiting = asyncio.ensure_future(anext(follower))
    await asyncio.sleep(0)
    broker.publish("container", "new", {})
    assert (await waiting).id == "new"
    broker.close()


async def test_a_follower_that_falls_out_of_the_window_is_ended() -> None:
    broker = Broker(kept=3)
    for number in range(10):
        broker.publish("container", str(number), {})
    seen: list[ServerEvent] = []
    await collect(broker, 2, seen)
    assert seen == []
    follower = broker.follow(7)
    assert [(await anext(follower)).number for _ in range(3)] == [8, 9, 10]
    broker.close()


async def test_closing_ends_all_followers() -> None:
    broker = Broker()
    tasks = [asyncio.create_task(collect(broker, None, [])) for _ in range(3)]
    await asyncio.sleep(0)
    broker.close()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)


async def test_watchers_wake_for_their_container_only() -> None:
    watchers = ContainerNotifier()
    mine = asyncio.create_task(watchers.wait("c-1", 5))
    other = asyncio.create_task(watchers.wait("c-2", 5))
    await asyncio.sleep(0)
    watchers.notify("c-1")
    await asyncio.wait_for(mine, 60)
    assert not other.done()
    watchers.notify_all()
    await asyncio.wait_for(other, 60)


async def test_watching_ends_after_its_time() -> None:
    watchers = ContainerNotifier()
    await asyncio.wait_for(watchers.wait("c-1", 0.01), 60)
    watchers.notify("c-1")


async def test_what_is_kept_of_ten_thousand_events_is_small() -> None:
    broker, fields = Broker(), {f"field_{number}": "a word" for number in range(30)}
    tracemalloc.start()
    try:
        for number in range(KEPT_EVENTS):
            data: dict[str, object] = {name: f"{word} of {number}" for name, word in fields.items()}
            broker.publish("container", f"c-{number}", data)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    first = await anext(broker.follow(0))
    assert first.data["field_7"] == "a word of 0"
    assert kept_bytes < 1.3 * KEPT_EVENTS * len(json.dumps(first.data))
    broker.close()
