"""When passes come, and that one which fails by a bug of ours neither ends nor changes anything."""

from __future__ import annotations

import pytest
import structlog

from longshore.dispatcher.api.render.events import RENDERING
from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.messages import Event, PublishFailedPass
from longshore.dispatcher.scheduler.batch import scheduling_pass
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.snapshot import Plan, Snapshot
from longshore.dispatcher.service.events import Broker, ContainerNotifier, publish_event
from longshore.drivers.errors import BugError
from longshore.pool.messages import ListInstances, Probe, StartAttempt
from longshore.pool.model import PoolSettings
from tests.exposition import value
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

QUIET = PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000)


class Poison:
    """A planner that fails, after it has filled the fleet, while `works` says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.works = True
        monkeypatch.setattr(scheduling_pass, "plan", self)

    def __call__(self, view: Snapshot) -> Plan:
        decided = plan(view)
        if self.works:
            raise RuntimeError("poisoned")
        return decided


class Survivor(Rig):
    """A rig that goes on after a failed pass; everything else is checked all the same."""

    def give(self, event: Event) -> None:
        commands = self.engine.handle(event, self.now)
        self.engine.scheduling.fleet_sync.check()
        self._carry_out(commands)


def failed(rig: Rig) -> int:
    """Return how many failed passes were told of."""
    return sum(isinstance(each, PublishFailedPass) for each in rig.published)


def stuck(pool: PoolSettings = QUIET) -> Rig:
    """Return a rig in which c-1 runs and c-2 waits for its place."""
    rig = Survivor(make_type(1), settings=SchedulerSettings(max_instances=1), pool=pool)
    rig.submit(make_container(1), make_container(2))
    assert rig.states() == {"c-1": "running", "c-2": "queued"}
    return hushed(rig)


def hushed(rig: Rig) -> Rig:
    """Let no listing and no probe be answered any more, so that nothing asks for a pass."""
    rig.advance(2)
    rig.silent |= {ListInstances, Probe}
    rig.advance(4)
    return rig


# ---- when they come ------------------------------------------------------------------------------


def test_a_pass_comes_at_least_every_5_s_while_something_waits() -> None:
    rig = stuck()
    rig.submit(make_container(3))
    passes = rig.engine.scheduling.passes
    rig.advance(4.99)
    assert rig.engine.scheduling.passes == passes
    rig.advance(0.01)
    assert rig.engine.scheduling.passes == passes + 1
    rig.advance(60)
    assert rig.engine.scheduling.passes == passes + 13


def test_a_pass_that_was_asked_for_puts_off_the_next_one() -> None:
    rig = stuck()
    rig.advance(4)
    rig.submit(make_container(3))
    passes = rig.engine.scheduling.passes
    rig.advance(4.99)
    assert rig.engine.scheduling.passes == passes
    rig.advance(0.01)
    assert rig.engine.scheduling.passes == passes + 1


def test_no_pass_comes_by_itself_while_nothing_waits() -> None:
    rig = Rig(make_type(1), pool=QUIET)
    rig.submit(make_container(1))
    assert rig.states() == {"c-1": "running"}
    rig.submit(make_container(2, priority=0))
    passes = hushed(rig).engine.scheduling.passes
    rig.advance(100)
    assert rig.engine.scheduling.passes == passes


def test_before_the_first_listing_none_comes_however_long_something_waits() -> None:
    rig = Rig(make_type(1), listed=False)
    rig.submit(make_container(1))
    rig.advance(60)
    assert rig.engine.scheduling.passes == 0
    rig.list_now(last_commands(rig, ListInstances)[-1].op_id)
    rig.settle()
    assert rig.states() == {"c-1": "running"}


def test_passes_that_find_nothing_new_write_and_tell_nothing() -> None:
    rig = stuck()
    published, passes = len(rig.published), rig.engine.scheduling.passes
    rig.sent.clear()
    rig.advance(100)
    assert rig.engine.scheduling.passes >= passes + 20
    assert len(rig.published) == published
    assert set(rig.kinds()) <= {"ListInstances", "Probe"}


# ---- one that fails ------------------------------------------------------------------------------


def test_a_poisoned_plan_is_survived_and_the_next_pass_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Survivor(make_type(1), pool=QUIET)
    poison = Poison(monkeypatch)
    rig.submit(make_container(1))
    assert rig.states() == {"c-1": "queued"}
    assert rig.created_types() == []
    assert failed(rig) == rig.engine.scheduling.failures == 1
    assert value(rig, "longshore_planning_failures_total") == 1
    reason = rig.engine.why_waiting("c-1")
    assert reason is not None
    assert reason.code == "pass_failed"
    poison.works = False
    rig.advance(5)
    assert rig.states() == {"c-1": "running"}
    assert failed(rig) == 1
    rig.engine.check()


def test_a_plan_that_breaks_a_rule_is_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(view: Snapshot) -> Plan:
        decided = plan(view)
        decided.lines[0].starts *= 2
        return decided

    rig = Survivor(make_type(2), pool=QUIET)
    rig.submit(make_container(1))
    monkeypatch.setattr(scheduling_pass, "plan", wrong)
    rig.submit(make_container(2))
    assert rig.states() == {"c-1": "running", "c-2": "queued"}
    assert rig.engine.scheduling.failures == 1
    monkeypatch.setattr(scheduling_pass, "plan", plan)
    rig.advance(5)
    assert rig.states() == {"c-1": "running", "c-2": "running"}


def test_what_a_failed_pass_put_into_the_fleet_is_thrown_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Survivor(make_type(4), settings=SchedulerSettings(max_instances=1), pool=QUIET)
    rig.submit(make_container(1))
    poison = Poison(monkeypatch)
    rig.submit(*(make_container(number) for number in (2, 3, 4)))
    assert rig.started_on() == {"c-1": "i-001"}
    poison.works = False
    rig.advance(5)
    assert rig.started_on() == {f"c-{number}": "i-001" for number in (1, 2, 3, 4)}, "all its room"


def test_who_is_locked_stays_so_over_a_failed_pass_and_nothing_is_created_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Survivor(make_type(2), pool=QUIET)
    rig.silent.add(Probe)
    rig.submit(*(make_container(number) for number in (1, 2, 3)))
    assert rig.created_types() == ["t2", "t2"]
    poison = Poison(monkeypatch)
    rig.submit(make_container(4))
    assert rig.states() == {"c-1": "locked", "c-2": "locked", "c-3": "locked", "c-4": "queued"}
    poison.works = False
    published = len(rig.published)
    rig.advance(5)
    assert set(rig.states().values()) == {"locked"}
    assert rig.created_types() == ["t2", "t2"]
    assert len(rig.published) == published + 1, "c-4 is locked, nobody else changes"


def test_after_a_failed_pass_the_next_waits_a_second_however_much_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = stuck()
    Poison(monkeypatch)
    for number in range(3, 103):
        rig.submit(make_container(number))
    assert failed(rig) == 1
    rig.advance(0.99)
    assert failed(rig) == 1
    rig.advance(0.01)
    assert failed(rig) == 2


def test_after_a_failed_pass_the_next_comes_in_a_second_though_nothing_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = stuck()
    poison = Poison(monkeypatch)
    due = rig.engine.next_wakeup(rig.now)
    assert due is not None
    rig.advance(due - rig.now)
    assert failed(rig) == 1
    passes = rig.engine.scheduling.passes
    poison.works = False
    rig.advance(0.9)
    assert rig.engine.scheduling.passes == passes
    rig.advance(0.1)
    assert rig.engine.scheduling.passes == passes + 1
    rig.advance(4.9)
    assert rig.engine.scheduling.passes == passes + 1, "and then every 5 s again"


def test_while_passes_fail_everything_else_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = stuck()
    poison = Poison(monkeypatch)
    rig.exit("c-1-1", 0)
    rig.advance(30)
    assert rig.states() == {"c-1": "succeeded", "c-2": "queued"}
    rig.cancel("c-2")
    assert rig.states()["c-2"] == "cancelled"
    assert len(last_commands(rig, StartAttempt)) == 1
    poison.works = False
    rig.submit(make_container(3))
    rig.advance(1)
    assert rig.states()["c-3"] == "running"


def test_tests_do_not_overlook_a_failed_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(make_type(1), pool=QUIET)
    Poison(monkeypatch)
    with pytest.raises(BugError, match="the last pass failed"):
        rig.submit(make_container(1))


def test_a_failed_pass_is_an_error_in_the_log_with_its_trace() -> None:
    rig = Rig()
    error = RuntimeError("poisoned")
    with structlog.testing.capture_logs() as lines:
        publish_event(
            PublishFailedPass(error=error),
            view=rig.view,
            broker=Broker(),
            watchers=ContainerNotifier(),
            heard_at=lambda _worker_id: 0.0,
            rendering=RENDERING,
        )
    assert lines == [
        {
            "event": "a planning pass failed and changed nothing",
            "log_level": "error",
            "exc_info": error,
        }
    ]
