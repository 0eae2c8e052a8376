"""Launching what is due: when, how often, and what comes of crashes, odd clocks and an end."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from longshore.dispatcher.domain.jobs import Overlap
from longshore.dispatcher.state import agenda
from tests.rigs.periodic import DAY, HOURLY, PeriodicWorld, at, hourly, make_template, turns

# ---- when ----------------------------------------------------------------------------------------


async def test_a_run_is_made_at_each_time_and_noted_then() -> None:
    world = hourly()
    assert await world.look(f"{DAY} 09:59:59") == 1.0
    assert world.calls == []
    assert await world.look(f"{DAY} 10:00") == 30.0
    assert world.calls == ["make j-1 2026-01-01T10:00:00Z", "note j-1 2026-01-01T10:00:00Z"]
    await world.look(f"{DAY} 10:59:59")
    await world.look(f"{DAY} 11:00:00.2")
    assert world.launched() == ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]
    assert world.store["j-1"].launched_for == at(f"{DAY} 11:00")
    assert world.results() == {"launched": 2}


async def test_a_new_one_is_launched_when_it_is_due_and_a_cancelled_one_is_not() -> None:
    world = hourly()
    world.wall = at(f"{DAY} 10:59:30")
    await world.look()
    world.submit(make_template(2, "* * * * *", created=f"{DAY} 10:59:30"))
    world.change("j-1", lambda registry: registry.cancel("j-1"))
    await world.look(f"{DAY} 11:00")
    assert world.calls[2:] == ["make j-2 2026-01-01T11:00:00Z", "note j-2 2026-01-01T11:00:00Z"]


async def test_what_a_step_of_the_wall_clock_passed_was_not_missed_by_one_that_is_new() -> None:
    # Jobs are given the time of the steady clock, here three hours behind.
    world = hourly()
    world.wall, world.ahead_s = at(f"{DAY} 12:30"), 3 * 3600.0
    world.submit(make_template(2, HOURLY, created=f"{DAY} 09:30"))
    await world.look(f"{DAY} 12:59:59")
    assert "make j-2" not in "".join(world.calls)
    await world.look(f"{DAY} 13:00")
    assert "make j-2 2026-01-01T13:00:00Z" in world.calls


async def test_one_whose_cancellation_is_known_is_not_launched_even_before_it_has_ended() -> None:
    world = hourly()
    world.registry.cancel("j-1")
    await world.look(f"{DAY} 10:00")
    assert world.calls == []


async def test_while_one_is_held_nothing_is_launched_and_nothing_is_made_up_for_later() -> None:
    world = hourly(held=True)
    await world.look(f"{DAY} 10:00")
    world.change("j-1", lambda registry: registry.set_held("j-1", held=False))
    await world.look(f"{DAY} 10:10")
    assert world.calls == []
    await world.look(f"{DAY} 11:00")
    assert world.launched() == ["2026-01-01T11:00:00Z"]
    assert world.results() == {"held": 1, "launched": 1}


async def test_where_overlap_is_forbidden_a_time_is_skipped_while_a_run_has_not_ended() -> None:
    world = hourly(overlap=Overlap.FORBID)
    await world.look(f"{DAY} 10:00")
    with capture_logs() as lines:
        await world.look(f"{DAY} 11:00")
    assert [(each["job"], each["at"]) for each in lines] == [("j-1", "2026-01-01T11:00:00Z")]
    world.end_runs()
    await world.look(f"{DAY} 11:30")
    assert world.launched() == ["2026-01-01T10:00:00Z"]
    await world.look(f"{DAY} 12:00")
    assert world.launched() == ["2026-01-01T10:00:00Z", "2026-01-01T12:00:00Z"]
    assert world.results() == {"launched": 2, "overlap": 1}


async def test_a_run_that_the_engine_has_not_heard_of_yet_forbids_the_next_too() -> None:
    world = hourly(overlap=Overlap.FORBID)
    await world.look(f"{DAY} 10:00")
    world.end_runs()
    world.registry.set_launched_for("j-1", at(f"{DAY} 09:00"))
    await world.look(f"{DAY} 11:00")
    assert world.launched() == ["2026-01-01T10:00:00Z"]


async def test_runs_that_never_end_do_not_become_ever_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda, "RUNS_MOST", 2)
    world = hourly()
    for hour in range(11, 16):
        await world.look(f"{DAY} {hour}:00")
    assert world.results() == {"launched": 2, "overlap": 3}
    world.end_runs()
    await world.look(f"{DAY} 16:00")
    assert world.results() == {"launched": 3, "overlap": 3}


async def test_where_overlap_is_allowed_runs_are_made_whatever_runs() -> None:
    world = hourly()
    await world.look(f"{DAY} 10:00")
    await world.look(f"{DAY} 11:00")
    assert world.launched() == ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]


# ---- while nobody looked -------------------------------------------------------------------------


@pytest.mark.parametrize("launched_for", ["", f"{DAY} 10:00"])
async def test_of_what_was_missed_while_the_server_was_down_the_latest_is_launched_once(
    launched_for: str,
) -> None:
    template = make_template(1, HOURLY, created=f"{DAY} 09:30", launched_for=launched_for)
    world = PeriodicWorld(template, time=f"{DAY} 15:30")
    await world.look()
    await world.look(f"{DAY} 15:59")
    assert world.launched() == ["2026-01-01T15:00:00Z"]
    world.crash(until=f"{DAY} 15:59")
    await world.look()
    assert world.launched() == ["2026-01-01T15:00:00Z"]


async def test_what_was_launched_before_the_server_went_down_is_not_asked_for_again() -> None:
    template = make_template(1, HOURLY, created=DAY, launched_for=f"{DAY} 15:00")
    world = PeriodicWorld(template, time=f"{DAY} 15:30")
    await world.look()
    assert world.calls == []


@pytest.mark.parametrize("overlap", list(Overlap))
async def test_after_a_crash_between_a_run_and_the_note_of_it_there_is_no_second_run(
    overlap: Overlap,
) -> None:
    world = hourly(overlap=overlap)
    world.refuse = [None, RuntimeError("killed")]
    await world.look(f"{DAY} 10:00")
    assert world.store["j-1"].launched_for is None
    # So much later nobody knows the key of the request any more.
    world.keys = {("forgotten", at(f"{DAY} 10:00")): "j-1000"}
    world.crash()
    await world.look()
    assert world.calls[2:] == ["note j-1 2026-01-01T10:00:00Z"]
    assert world.store["j-1"].launched_for == at(f"{DAY} 10:00")


async def test_a_clock_that_is_set_forward_launches_once_within_half_a_minute() -> None:
    world = hourly()
    assert await world.look(f"{DAY} 09:31") == 30.0
    await world.look(f"{DAY} 14:30")
    assert world.launched() == ["2026-01-01T14:00:00Z"]


async def test_a_clock_that_is_set_back_launches_nothing_twice() -> None:
    world = hourly()
    await world.look(f"{DAY} 10:00")
    await world.look(f"{DAY} 09:00")
    await world.look(f"{DAY} 10:00")
    await world.look(f"{DAY} 10:30")
    world.crash(until=f"{DAY} 09:00")
    await world.look(f"{DAY} 10:30")
    assert len(world.calls) == 2
    await world.look(f"{DAY} 11:00")
    assert world.launched() == ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]


# ---- many at once, and the end -------------------------------------------------------------------


async def test_of_many_that_are_due_at_once_only_some_are_under_way_together() -> None:
    templates = [make_template(n, HOURLY, created=f"{DAY} 09:30") for n in range(1, 101)]
    world = PeriodicWorld(*templates, time=f"{DAY} 09:30")
    world.gate = asyncio.Event()
    await world.look(f"{DAY} 10:00")
    assert len(world.calls) == 16
    world.gate.set()
    await turns(2000)
    assert world.results() == {"launched": 100}


async def test_one_that_is_cancelled_while_its_launch_waits_for_its_turn_is_not_launched() -> None:
    templates = [make_template(n, HOURLY, created=f"{DAY} 09:30") for n in range(1, 18)]
    world = PeriodicWorld(*templates, time=f"{DAY} 09:30")
    world.gate = asyncio.Event()
    await world.look(f"{DAY} 10:00")
    waiting = next(
        j.id for j in templates if f"make {j.id} 2026-01-01T10:00:00Z" not in world.calls
    )
    world.change(waiting, lambda registry: registry.cancel(waiting))
    world.gate.set()
    await turns(300)
    assert len(world.launched()) == 16


async def test_a_service_that_runs_wakes_for_what_is_new_and_ends_promptly() -> None:
    world = hourly()
    running = asyncio.create_task(world.service.run())
    await turns()
    world.wall = at(f"{DAY} 10:00")
    world.submit(make_template(2, HOURLY, created=f"{DAY} 09:59"))
    await turns()
    assert world.results() == {"launched": 2}
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(1.0):
            await running


async def test_a_service_that_runs_wakes_when_one_is_due() -> None:
    world = hourly()
    world.wall = at(f"{DAY} 09:59:59.95")
    running = asyncio.create_task(world.service.run())
    await turns()
    world.wall = at(f"{DAY} 10:00")
    async with asyncio.timeout(10.0):
        await world.noted.wait()
    running.cancel()
    await asyncio.wait([running])


async def test_a_service_that_runs_looks_again_once_a_launch_has_ended() -> None:
    world = hourly()
    world.gate = asyncio.Event()
    world.wall = at(f"{DAY} 10:00")
    running = asyncio.create_task(world.service.run())
    await turns()
    world.wall = at(f"{DAY} 11:00")
    world.gate.set()
    await turns()
    assert world.launched() == ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]
    running.cancel()
    await asyncio.wait([running])


async def test_at_the_end_what_was_begun_is_finished_and_nothing_else_is_begun() -> None:
    templates = [make_template(n, HOURLY, created=f"{DAY} 09:30") for n in range(1, 101)]
    world = PeriodicWorld(*templates, time=f"{DAY} 10:00")
    world.gate = asyncio.Event()
    running = asyncio.create_task(world.service.run())
    await turns(300)
    assert len(world.calls) == 16
    running.cancel()
    await turns()
    world.gate.set()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert world.results() == {"launched": 16}
    assert len(world.calls) == 32


async def test_at_the_end_a_launch_that_hangs_is_given_up_after_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("longshore.dispatcher.service.launching._GRACE_S", 0.01)
    world = hourly()
    world.gate = asyncio.Event()
    world.wall = at(f"{DAY} 10:00")
    running = asyncio.create_task(world.service.run())
    await turns()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(1.0):
            await running
    assert world.results() == {}
    # The next start finds it.
    world.gate = None
    world.crash()
    await world.look()
    assert world.launched() == ["2026-01-01T10:00:00Z"]


async def test_a_run_that_has_ended_is_no_run_of_its_job_any_more() -> None:
    world = hourly()
    await world.look(f"{DAY} 10:00")
    assert world.registry.runs_of("j-1") == ["j-1000"]
    world.end_runs()
    assert world.registry.runs_of("j-1") == []
    world.submit(replace(make_template(3, HOURLY, created=f"{DAY} 10:00"), parent="j-1"))
    assert world.registry.runs_of("j-1") == ["j-3"]
