"""Before an instance is destroyed its residents get TERM, and some time, which is bounded."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.dispatcher.engine import requests
from longshore.pool import attempts, shutdown
from longshore.pool.leaks import LeakKind, find_leaks
from longshore.pool.messages import (
    AttemptStarted,
    CloseSession,
    DestroyInstance,
    LogComplete,
    Probe,
    SetTags,
    StartAttempt,
    StartRefused,
    StartUnknown,
)
from longshore.pool.model import IdleBehavior, PoolAttempt, PoolSettings, Worker
from longshore.pool.pool_events import (
    AttemptEnd,
    EndKind,
    ResidentToldToEnd,
    WorkerChanged,
)
from longshore.pool.timers import TimerKind
from tests.rigs.pool import ONE_CPU, PoolRig

TERM_TIMEOUT_S = 120.0
"""As configured where nothing else is."""


def residents(
    *graces_s: float | None, settings: PoolSettings | None = None
) -> tuple[PoolRig, Worker]:
    """Return a rig whose i-1 has become idle, with residents s-1, s-2 … of these graces."""
    rig = PoolRig(settings=settings)
    worker = rig.boot("i-1")
    for number, grace_s in enumerate(graces_s, start=1):
        rig.place(worker, f"s-{number}", resident=True, grace_s=grace_s)
    return rig, worker


def with_residents_told_to_end(*graces_s: float | None) -> tuple[PoolRig, Worker]:
    """Return a rig whose i-1 is shut down since it is drained, and its residents are told."""
    rig, worker = residents(*graces_s)
    rig.behave(worker, IdleBehavior.DRAIN)
    assert (worker.state.value, worker.link.session_up) == ("shutdown", True)
    return rig, worker


def destroyed(rig: PoolRig) -> int:
    """Return how many destroy calls there were; the session is closed before the first."""
    wanted = [each for each in rig.sent if isinstance(each, CloseSession | DestroyInstance)]
    if wanted:
        assert isinstance(wanted[0], CloseSession)
    return len(rig.asked(DestroyInstance))


def kill(rig: PoolRig, reason: str) -> None:
    """Let an admin kill i-1."""
    event = InstanceKillRequested(worker_id="i-1", reason=reason)
    requests.carry_out(rig.core, event, rig.now)
    rig.settle()


def ends(rig: PoolRig) -> list[tuple[str, bool]]:
    """Return which attempts ended, and whether the pool had told them to end."""
    told = {each.attempt_id for each in rig.asked(ResidentToldToEnd)}
    return [(id_, id_ in told) for id_ in of_kind(rig, EndKind.EXITED)]


def of_kind(rig: PoolRig, kind: EndKind) -> list[str]:
    """Return which attempts are over in such a way."""
    return [each.attempt_id for each in rig.asked(AttemptEnd) if each.kind is kind]


# ---- they are told, and waited for --------------------------------------------------------------


def test_residents_get_term_and_the_instance_is_destroyed_when_the_last_has_ended() -> None:
    rig, worker = with_residents_told_to_end(None, None)
    assert rig.signals() == [("s-1", "TERM"), ("s-2", "TERM")]
    assert [a.told_to_end for a in rig.core.attempts_on("i-1")] == [True, True]
    rig.advance(3)
    rig.end(worker, "s-2")
    assert (destroyed(rig), worker.link.session_up) == (0, True)
    rig.end(worker, "s-1")
    assert (destroyed(rig), worker.link.session_up) == (1, False)
    assert ends(rig) == [("s-2", True), ("s-1", True)]


def test_who_is_shut_down_is_told_of_at_once_and_why() -> None:
    rig, _ = with_residents_told_to_end(None)
    told = rig.asked(WorkerChanged)[-1]
    assert (told.state, told.reason) == ("shutdown", "draining, and nothing runs there")


def test_term_is_repeated_while_residents_are_waited_for() -> None:
    rig, _ = with_residents_told_to_end(None)
    rig.advance(11)
    assert rig.signals() == [("s-1", "TERM")] * 3


def test_a_resident_that_is_ending_already_is_not_hastened_and_waited_for_too() -> None:
    rig, worker = residents(None, 30.0)
    attempts.kill(rig.core, "s-2", rig.now)
    rig.settle()
    rig.behave(worker, IdleBehavior.DRAIN)
    assert rig.signals() == [("s-2", "TERM"), ("s-1", "TERM")]
    rig.end(worker, "s-1")
    assert destroyed(rig) == 0
    rig.end(worker, "s-2")
    assert (destroyed(rig), ends(rig)) == (1, [("s-1", True), ("s-2", True)])


def test_the_last_words_of_a_resident_are_waited_for() -> None:
    rig, worker = with_residents_told_to_end(None)
    rig.exit(worker, "s-1")
    assert (ends(rig), destroyed(rig)) == ([("s-1", True)], 0)
    rig.send(LogComplete(worker_id="i-1", attempt_id="s-1"))
    assert destroyed(rig) == 1


def test_an_exit_that_comes_after_the_wait_still_tells_that_the_pool_had_dismissed_it() -> None:
    rig, worker = with_residents_told_to_end(None)
    rig.advance(TERM_TIMEOUT_S)
    rig.end(worker, "s-1")
    assert ends(rig) == [("s-1", True)]
    assert (destroyed(rig), len(rig.asked(CloseSession))) == (1, 1)


# ---- for so long and no longer ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graces_s", "patience_s"),
    [
        ((None,), 120.0),
        ((30.0,), 30.0),
        ((10.0, 30.0), 30.0),
        ((10.0, None), 120.0),
        ((900.0,), 120.0),
        ((0.0,), 0.0),
    ],
)
def test_residents_have_the_longest_grace_of_them_but_no_more_than_all_get(
    graces_s: tuple[float | None, ...], patience_s: float
) -> None:
    rig, worker = residents(*graces_s)
    shutdown.set_behavior(rig.core, worker, IdleBehavior.DRAIN, rig.now)
    assert rig.core.timers.due(TimerKind.DISMISSAL, "i-1") == rig.now + patience_s
    if patience_s:
        rig.advance(patience_s - 0.5)
        assert destroyed(rig) == 0
    rig.advance(0.5)
    rig.settle()
    assert (destroyed(rig), worker.link.session_up) == (1, False)


def test_who_has_less_time_than_the_others_gets_kill_when_it_is_over() -> None:
    rig, worker = with_residents_told_to_end(8.0, None)
    rig.advance(8)
    assert [each for each in rig.signals() if each[0] == "s-1"] == [
        ("s-1", "TERM"),
        ("s-1", "TERM"),
        ("s-1", "KILL"),
    ]
    rig.end(worker, "s-1")
    assert destroyed(rig) == 0


def test_a_resident_that_survives_kill_is_waited_for_no_longer() -> None:
    rig, worker = with_residents_told_to_end(0.0, None)
    rig.end(worker, "s-2")
    rig.advance(14)
    assert (rig.signals()[-1], destroyed(rig)) == (("s-1", "KILL"), 0)
    rig.advance(1)
    assert destroyed(rig) == 1


def test_the_logs_of_others_have_had_their_time_already() -> None:
    rig, worker = residents(None)
    rig.place(worker, "b-1")
    rig.behave(worker, IdleBehavior.DRAIN)
    rig.exit(worker, "b-1")
    rig.advance(600)
    assert (worker.state.value, worker.load.unreleased) == ("shutdown", {"b-1"})
    rig.end(worker, "s-1")
    assert destroyed(rig) == 1


def test_a_log_that_never_comes_is_waited_for_no_longer() -> None:
    rig, worker = with_residents_told_to_end(20.0)
    rig.exit(worker, "s-1")
    rig.advance(19)
    assert destroyed(rig) == 0
    rig.advance(1)
    assert destroyed(rig) == 1


def test_the_destroy_that_follows_is_repeated_and_signals_are_not() -> None:
    rig, _ = with_residents_told_to_end(20.0)
    rig.advance(20)
    told = rig.signals()
    rig.advance(20)
    assert (destroyed(rig), rig.signals()) == (3, told)


def test_who_never_ended_is_lost_with_its_instance() -> None:
    rig, _ = with_residents_told_to_end(20.0)
    rig.advance(20)
    del rig.cloud["i-1"]
    rig.advance(5)
    assert of_kind(rig, EndKind.INSTANCE_GONE) == ["s-1"]
    assert rig.core.workers == {}
    assert rig.core.timers.due(TimerKind.DISMISSAL, "i-1") is None


# ---- without a wait -----------------------------------------------------------------------------


def test_without_residents_nothing_is_waited_for() -> None:
    rig, worker = residents()
    rig.behave(worker, IdleBehavior.DRAIN)
    assert (destroyed(rig), rig.signals()) == (1, [])


def test_without_a_session_nothing_is_waited_for() -> None:
    rig, worker = residents(None)
    rig.silent.add(Probe)
    rig.lose_session(worker)
    rig.advance(60)
    assert (worker.state.value, destroyed(rig), rig.signals()) == ("shutdown", 1, [])


def test_a_session_that_is_lost_meanwhile_ends_the_wait() -> None:
    rig, worker = with_residents_told_to_end(None)
    rig.advance(7)
    rig.lose_session(worker)
    assert (destroyed(rig), worker.link.session_up) == (1, False)
    assert rig.core.timers.due(TimerKind.DISMISSAL, "i-1") is None


def test_a_kill_of_an_admin_waits_for_nobody() -> None:
    rig, worker = residents(None)
    rig.place(worker, "b-1")
    kill(rig, "it costs")
    assert (worker.state.value, destroyed(rig), rig.signals()) == ("shutdown", 1, [])
    rig.exit(worker, "s-1")
    assert ends(rig) == [("s-1", False)]


def test_a_kill_of_an_admin_ends_the_wait() -> None:
    rig, worker = with_residents_told_to_end(None)
    kill(rig, "it costs")
    assert (destroyed(rig), worker.shutdown.reason) == (1, "an admin ended it: it costs")
    assert rig.asked(WorkerChanged)[-1].reason == "an admin ended it: it costs"


def test_a_kill_of_what_is_being_destroyed_changes_nothing() -> None:
    rig, worker = with_residents_told_to_end(None)
    rig.end(worker, "s-1")
    reason = worker.shutdown.reason
    kill(rig, "again")
    assert (destroyed(rig), worker.shutdown.reason) == (1, reason)


def test_an_instance_that_is_silent_for_too_long_is_destroyed_at_once() -> None:
    rig, worker = residents(None)
    rig.place(worker, "b-1")
    rig.silent.add(Probe)
    rig.lose_session(worker)
    rig.advance(599)
    assert worker.state.value == "running"
    rig.advance(1)
    assert (worker.state.value, destroyed(rig), rig.signals()) == ("shutdown", 1, [])


def test_an_instance_that_never_passes_its_boot_probe_is_destroyed_at_once() -> None:
    rig = PoolRig(
        expected=(
            PoolAttempt(
                id="s-1",
                remote_id="s-1",
                worker_id="i-1",
                resources=ONE_CPU,
                resident=True,
            ),
        )
    )
    rig.silent.add(Probe)
    worker = rig.boot("i-1", running=("s-1",))
    rig.send(rig.probe_answer(rig.asked(Probe)[0], boot_error="no disk"))
    rig.advance(599)
    assert (worker.state.value, worker.link.session_up) == ("unknown", True)
    rig.advance(1)
    assert (worker.state.value, destroyed(rig), rig.signals()) == ("shutdown", 1, [])


def test_nothing_else_that_runs_there_is_waited_for() -> None:
    rig, worker = residents(None)
    rig.place(worker, "b-1", grace_s=0.0)
    attempts.kill(rig.core, "b-1", rig.now)
    rig.behave(worker, IdleBehavior.DRAIN)
    rig.advance(15)
    assert worker.state.value == "shutdown", "b-1 survives KILL, and is given up"
    rig.end(worker, "s-1")
    assert destroyed(rig) == 1


# ---- what comes meanwhile -----------------------------------------------------------------------


def starting() -> tuple[PoolRig, Worker, StartAttempt]:
    """Return a rig as `with_residents_told_to_end` does; the start of s-2 is not answered yet."""
    rig, worker = residents(None)
    rig.silent.add(StartAttempt)
    rig.place(worker, "s-2", resident=True)
    rig.behave(worker, IdleBehavior.DRAIN)
    rig.end(worker, "s-1")
    return rig, worker, rig.asked(StartAttempt)[-1]


def test_a_start_that_is_under_way_is_waited_for_too() -> None:
    rig, worker, start = starting()
    assert destroyed(rig) == 0
    rig.send(AttemptStarted(op_id=start.op_id, worker_id="i-1", attempt_id="s-2"))
    assert rig.signals()[-1] == ("s-2", "TERM")
    rig.end(worker, "s-2")
    assert (destroyed(rig), ends(rig)[-1]) == (1, ("s-2", True))


def test_a_start_that_is_refused_meanwhile_ends_the_wait() -> None:
    rig, _, start = starting()
    rig.send(
        StartRefused(
            op_id=start.op_id, worker_id="i-1", attempt_id="s-2", code="full", message="full"
        )
    )
    assert of_kind(rig, EndKind.MISSING) == ["s-2"]
    assert destroyed(rig) == 1


def test_a_start_of_which_nothing_is_heard_is_waited_for_until_the_end_of_its_time() -> None:
    rig, _, start = starting()
    probes = len(rig.asked(Probe))
    rig.send(
        StartUnknown(op_id=start.op_id, worker_id="i-1", attempt_id="s-2", message="no answer")
    )
    rig.advance(TERM_TIMEOUT_S - 1)
    assert (destroyed(rig), len(rig.asked(Probe))) == (0, probes)
    rig.advance(1)
    assert destroyed(rig) == 1


def test_a_probe_that_was_under_way_closes_no_session_that_is_in_use() -> None:
    rig, worker = residents(None)
    rig.silent.add(Probe)
    rig.core.timers.set(TimerKind.PROBE, "i-1", rig.now)
    rig.settle()
    rig.behave(worker, IdleBehavior.DRAIN)
    rig.send(rig.probe_answer(rig.asked(Probe)[-1]))
    assert (destroyed(rig), rig.asked(CloseSession)) == (0, [])
    rig.lose_session(worker)
    rig.send(rig.probe_answer(rig.asked(Probe)[-1]))
    assert len(rig.asked(CloseSession)) == 2


def test_what_is_shut_down_cannot_be_held_back() -> None:
    rig, worker = with_residents_told_to_end(20.0)
    tagged = len(rig.asked(SetTags))
    hold = BehaviorRequested(worker_id="i-1", behavior=IdleBehavior.HOLD)
    requests.carry_out(rig.core, hold, rig.now)
    rig.advance(20)
    assert (worker.behavior, destroyed(rig)) == (IdleBehavior.DRAIN, 1)
    assert len(rig.asked(SetTags)) == tagged


def test_while_residents_are_waited_for_nothing_is_expected_of_listings() -> None:
    rig, worker = with_residents_told_to_end(None)
    rig.core.timers.set(TimerKind.LIST, "", rig.now)
    rig.settle()
    assert rig.core.timers.due(TimerKind.LIST, "") == rig.now + 60
    rig.end(worker, "s-1")
    assert rig.core.timers.due(TimerKind.LIST, "") == rig.now + 2


# ---- leaks --------------------------------------------------------------------------------------


def test_a_wait_for_residents_is_no_leak_and_what_follows_counts_from_the_destroy() -> None:
    rig, worker = residents(None, settings=PoolSettings(term_timeout_s=1000.0))
    rig.behave(worker, IdleBehavior.DRAIN)
    rig.advance(999)
    assert (destroyed(rig), find_leaks(rig.core, rig.now)) == (0, [])
    rig.advance(1)
    destroyed_at = rig.now
    rig.advance(290)
    assert find_leaks(rig.core, rig.now) == []
    rig.advance(20)
    (leak,) = find_leaks(rig.core, rig.now)
    assert (leak.kind, leak.since) == (LeakKind.NOT_ENDING, destroyed_at)
