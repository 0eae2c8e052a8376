"""What could not be launched: tried again, dropped, missed, told once, and in nobody else's way."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from longshore.dispatcher.domain.jobs import Schedule
from longshore.dispatcher.domain.schedules import latest_missed
from longshore.dispatcher.service.contracts import Conflict, Unavailable
from longshore.dispatcher.state.agenda import Agenda
from longshore.drivers.errors import InvalidRequest
from tests.rigs.periodic import DAY, HOURLY, PeriodicWorld, at, hourly, make_template


async def test_what_cannot_be_taken_now_is_tried_again_ever_more_slowly_and_told_once() -> None:
    world = hourly()
    world.refuse = [Unavailable("12 events wait"), Unavailable("9 events wait")]
    with capture_logs() as lines:
        assert await world.look(f"{DAY} 10:00") == 1.0
        assert await world.look(f"{DAY} 10:00:00.9") == pytest.approx(0.1)
        assert await world.look(f"{DAY} 10:00:01") == 2.0
        assert await world.look(f"{DAY} 10:00:03") == 30.0
    assert world.launched() == ["2026-01-01T10:00:00Z"]
    assert len(world.calls) == 4
    told = [each for each in lines if each["log_level"] == "warning"]
    assert [each["why"] for each in told] == ["12 events wait"]
    assert world.results() == {"launched": 1}


async def test_after_a_launch_the_next_failure_is_told_again_and_soon_tried_again() -> None:
    world = hourly()
    world.refuse = [Unavailable("12 events wait"), Unavailable("12 events wait")]
    with capture_logs() as lines:
        for time in ("10:00:00", "10:00:01", "10:00:03"):
            await world.look(f"{DAY} {time}")
        world.refuse = [Unavailable("13 events wait")]
        assert await world.look(f"{DAY} 11:00") == 1.0
    told = [each for each in lines if each["log_level"] == "warning"]
    assert [each["why"] for each in told] == ["12 events wait", "13 events wait"]
    await world.look(f"{DAY} 11:00:01")
    assert world.results() == {"launched": 2}


async def test_what_could_not_be_noted_is_noted_later_and_makes_no_second_run() -> None:
    world = hourly()
    world.refuse = [None, Unavailable("the store takes too long")]
    await world.look(f"{DAY} 10:00")
    await world.look(f"{DAY} 10:00:01")
    assert world.launched() == ["2026-01-01T10:00:00Z"]
    assert world.store["j-1"].launched_for == at(f"{DAY} 10:00")


async def test_it_is_tried_no_longer_than_until_the_next_time() -> None:
    template = make_template(1, "* * * * *", created=f"{DAY} 09:59:30")
    world = PeriodicWorld(template, time=f"{DAY} 09:59:30")
    world.refuse = [Unavailable("the queue is full")] * 7
    for seconds in (0, 1, 3, 7, 15, 31):
        await world.look(f"{DAY} 10:00:{seconds:02}")
    # The next try would be at 10:01:03.
    await world.look(f"{DAY} 10:01:00")
    assert world.calls[-1] == "make j-1 2026-01-01T10:01:00Z"
    await world.look(f"{DAY} 10:01:01")
    assert world.launched() == ["2026-01-01T10:01:00Z"]
    assert world.results() == {"missed": 1, "launched": 1}


async def test_who_tries_again_does_not_wait_for_a_clock_that_was_set_back_to_catch_up() -> None:
    world = hourly()
    world.refuse = [Unavailable("the queue is full")]
    await world.look(f"{DAY} 10:20")
    assert world.launched() == []
    await world.look(f"{DAY} 10:05")
    assert world.launched() == ["2026-01-01T10:00:00Z"]


async def test_who_tries_again_waits_for_its_time_if_a_clock_is_set_back_to_before_it() -> None:
    world = hourly()
    world.refuse = [Unavailable("the queue is full")]
    await world.look(f"{DAY} 10:20")
    assert await world.look(f"{DAY} 09:59:50") == 10.0
    assert world.launched() == []
    await world.look(f"{DAY} 10:00")
    assert world.launched() == ["2026-01-01T10:00:00Z"]


@pytest.mark.parametrize(
    "error", [Conflict("the job has ended"), InvalidRequest([("tasks[0]", "fits nowhere")])]
)
async def test_what_is_refused_for_good_is_dropped_and_tried_at_the_next_time(
    error: Exception,
) -> None:
    world = hourly()
    world.refuse = [error]
    with capture_logs() as lines:
        await world.look(f"{DAY} 10:00")
    assert [(each["log_level"], each["why"]) for each in lines] == [("warning", str(error))]
    await world.look(f"{DAY} 10:59")
    assert world.launched() == []
    await world.look(f"{DAY} 11:00")
    assert world.launched() == ["2026-01-01T11:00:00Z"]
    assert world.results() == {"refused": 1, "launched": 1}


async def test_a_defect_that_one_brings_out_is_logged_and_ends_no_other() -> None:
    templates = [make_template(n, HOURLY, created=f"{DAY} 09:30") for n in (1, 2)]
    world = PeriodicWorld(*templates, time=f"{DAY} 09:30")
    world.refuse = [KeyError("a defect")]
    with capture_logs() as lines:
        await world.look(f"{DAY} 10:00")
    assert [each["job"] for each in lines if each.get("exc_info")] == ["j-1"]
    assert "note j-2 2026-01-01T10:00:00Z" in world.calls


async def test_a_schedule_that_cannot_be_read_any_more_keeps_no_other_waiting() -> None:
    lost = make_template(1, HOURLY, created=f"{DAY} 09:30", time_zone="Mars/Olympus")
    other = make_template(2, HOURLY, created=f"{DAY} 09:30")
    world = PeriodicWorld(lost, other, time=f"{DAY} 09:30")
    with capture_logs() as lines:
        await world.look()
    assert [each["job"] for each in lines] == ["j-1"]
    await world.look(f"{DAY} 10:00")
    assert world.calls == ["make j-2 2026-01-01T10:00:00Z", "note j-2 2026-01-01T10:00:00Z"]


async def test_a_defect_in_looking_at_one_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missed(schedule: Schedule, since: float, now: float) -> float | None:
        if schedule.time_zone == "Asia/Tokyo":
            raise ArithmeticError("a defect")
        return latest_missed(schedule, since, now)

    odd = make_template(1, HOURLY, created=f"{DAY} 09:30", time_zone="Asia/Tokyo")
    world = PeriodicWorld(
        odd, make_template(2, HOURLY, created=f"{DAY} 09:30"), time=f"{DAY} 09:30"
    )
    monkeypatch.setattr("longshore.dispatcher.state.agenda.latest_missed", missed)
    with capture_logs() as lines:
        await world.look(f"{DAY} 10:00")
    assert [each["job"] for each in lines if each.get("exc_info")] == ["j-1"]
    assert world.results() == {"launched": 1}


def test_what_became_of_a_launch_of_one_that_was_forgotten_meanwhile_changes_nothing() -> None:
    world = hourly()
    agenda = Agenda(world.registry)
    agenda.see("j-1")
    agenda.forget("j-1")
    time = at(f"{DAY} 10:00")
    agenda.made("j-1", time)
    agenda.settle("j-1", time)
    agenda.put_off("j-1", time, time)
    assert not agenda.is_news("j-1", "it failed")
    assert agenda.decide("j-1", time) == []
    assert agenda.next_look() is None
