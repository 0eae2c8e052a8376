"""The wall clock is set back between two processes: what the store tells lies in the future."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.cost.money import in_dollars
from longshore.dispatcher.explain.instance_views import leak_report
from longshore.drivers.interface import CLUSTER_TAG, TYPE_TAG
from longshore.pool.leaks import LeakKind
from longshore.pool.messages import CreateInstance, StartAttempt
from longshore.pool.model import InstanceSeen
from tests.exposition import value
from tests.rigs.cloud import CLUSTER
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container

SET_BACK_S = 7200.0


def rig_of_today() -> Rig:
    """Return a rig with room before its time for a clock that was set back."""
    rig = Rig()
    rig.advance(10_000)
    return rig


def submit(rig: Rig) -> None:
    rig.submit(replace(make_container(1), created_at=rig.now))


def set_back(rig: Rig) -> None:
    """Start a new process whose clock is two hours behind the last one's."""
    rig.now -= SET_BACK_S
    rig.crash()


# ---- launches ------------------------------------------------------------------------------------


def unanswered() -> Rig:
    """Return a rig that asked for an instance and died before the answer: none came of it."""
    rig = rig_of_today()
    rig.silent.add(CreateInstance)
    submit(rig)
    assert len(rig.launches) == 1
    return rig


def test_a_launch_that_came_to_nothing_is_hoped_for_no_longer_than_ever() -> None:
    rig = unanswered()
    set_back(rig)
    assert len(rig.engine.pool.expected_launches()) == 1
    assert last_commands(rig, CreateInstance) == []
    rig.advance(15)
    assert len(last_commands(rig, CreateInstance)) == 1, "another one is asked for"


def test_the_journal_of_a_launch_that_came_to_nothing_ends_in_time() -> None:
    rig = unanswered()
    [token] = rig.launches
    set_back(rig)
    rig.advance(590)
    assert token in rig.launches
    rig.advance(70)
    assert token not in rig.launches


def test_the_first_listing_after_a_clock_was_set_forward_forgets_no_launch() -> None:
    rig = unanswered()
    [token] = rig.launches
    rig.now += SET_BACK_S
    rig.crash()
    assert token in rig.launches, "its instance may be too new to be listed"
    assert len(rig.engine.pool.expected_launches()) == 1


def test_an_early_sight_stands_for_a_launch_of_before() -> None:
    rig = unanswered()
    tags = ((CLUSTER_TAG, CLUSTER), (TYPE_TAG, "t1"))
    set_back(rig)
    assert len(rig.engine.pool.expected_launches()) == 1
    rig.cloud["i-early"] = InstanceSeen(id="i-early", address="", tags=tags)
    rig.advance(3)
    assert rig.engine.pool.workers["i-early"].token == ""
    assert rig.engine.pool.expected_launches() == []


def test_a_launch_without_an_answer_leaks_since_the_start_and_not_since_the_future() -> None:
    rig = unanswered()
    set_back(rig)
    began_at = rig.now
    rig.advance(120)
    leaks = leak_report(rig.view, rig.now).leaks
    [leak] = [each for each in leaks if each.kind is LeakKind.LAUNCH_UNANSWERED]
    assert leak.since == began_at
    assert leak.cost_usd == 0, "likely there is nothing"
    assert leak.uncertain_usd == in_dollars(120_000 * 123_000_000)


# ---- containers and instances --------------------------------------------------------------------


def test_who_waits_has_waited_since_the_start_at_least() -> None:
    rig = unanswered()
    set_back(rig)
    rig.advance(20)
    assert value(rig, "longshore_longest_wait_seconds") == 20


def test_a_container_and_its_attempt_end_no_earlier_than_they_began() -> None:
    rig = rig_of_today()
    submit(rig)
    rig.advance(5)
    set_back(rig)
    rig.advance(5)
    rig.exit("c-1-1")
    [attempt] = rig.attempts.values()
    container = rig.containers["c-1"]
    assert container.state.value == "succeeded"
    assert attempt.started_at is not None
    assert attempt.finished_at == attempt.started_at, "how long it ran, nobody can tell"
    assert container.started_at == attempt.started_at
    assert container.finished_at == attempt.finished_at
    assert container.cost_usd == 0


def test_a_container_of_before_starts_no_earlier_than_it_came() -> None:
    rig = unanswered()
    created_at = rig.now
    set_back(rig)
    rig.silent.clear()
    rig.advance(20)
    assert rig.states()["c-1"] == "running"
    assert rig.containers["c-1"].started_at == created_at
    rig.advance(30)
    rig.exit("c-1-1")
    assert rig.containers["c-1"].finished_at == created_at
    assert rig.containers["c-1"].cost_usd > 0, "by the clock of the process that saw all of it"


def test_an_exit_may_be_the_first_that_is_known_of_a_start() -> None:
    rig = unanswered()
    created_at = rig.now
    set_back(rig)
    rig.silent = {StartAttempt}
    rig.advance(20)
    rig.exit("c-1-1")
    container = rig.containers["c-1"]
    assert container.state.value == "succeeded"
    assert container.started_at == container.finished_at == created_at


def test_what_is_cancelled_while_it_waits_ends_no_earlier_than_it_came() -> None:
    rig = unanswered()
    created_at = rig.now
    set_back(rig)
    rig.cancel("c-1")
    assert rig.containers["c-1"].finished_at == created_at


def test_an_instance_is_gone_no_earlier_than_it_came() -> None:
    rig = rig_of_today()
    submit(rig)
    set_back(rig)
    del rig.cloud["i-001"]
    rig.advance(61)
    gone = rig.instances["i-001"]
    assert gone.gone_at == gone.created_at
