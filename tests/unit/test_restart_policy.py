"""Restarts of what failed by its own fault, by `retries`: when, how often, and after a crash."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import (
    ENGINE_FAILURE,
    SUPERVISOR_LOST,
    AttemptOutcome,
    Container,
    Retries,
    SchedulerSettings,
)
from longshore.dispatcher.state.restarts import (
    given_up_reason,
    longest_delay_s,
    may_try_again,
    restart_due,
)
from longshore.pool.messages import StartAttempt, StartRefused
from longshore.pool.model import ExitKind, Fault, PoolSettings
from tests.exposition import value
from tests.rigs.engine import Rig, last_commands
from tests.samples import lost_on, make_container, make_type

OOM_OR_EXIT = ("exit_code", "out_of_memory")


def retrying(most: int = 2, **more: object) -> Container:
    retries = Retries(most=most, **more)  # type: ignore[arg-type]  # the few other fields
    return make_container(1, retries=retries)


def rig_with(container: Container) -> Rig:
    """Return a rig in which the first attempt of a container has just started."""
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=100_000))
    rig.submit(container)
    assert started(rig) == ["c-1-1"]
    return rig


def started(rig: Rig) -> list[str]:
    return [command.order.attempt_id for command in last_commands(rig, StartAttempt)]


def waiting_for_its_second_restart(container: Container | None = None) -> Rig:
    """Return a rig whose container failed at 0 s, was restarted, and failed again at 5 s."""
    rig = rig_with(container or retrying())
    rig.exit("c-1-1", 1)
    assert started(rig)[1:] == ["c-1-2"]
    rig.advance(5)
    rig.exit("c-1-2", 1)
    assert rig.states() == {"c-1": "queued"}
    return rig


def why(rig: Rig) -> str:
    reason = rig.engine.why_waiting("c-1")
    return "" if reason is None else f"{reason.code}: {reason.message}"


# ---- the row of the table ------------------------------------------------------------------------


def test_fails_at_0_s_again_at_5_s_restart_at_once_waits_restarts_once_15_s_after_the_first() -> (
    None
):
    rig = waiting_for_its_second_restart()
    assert len(started(rig)) == 2
    rig.advance(9.99)
    assert len(started(rig)) == 2
    rig.advance(0.01)
    assert started(rig) == ["c-1-1", "c-1-2", "c-1-3"], "15 s after the first restart"
    rig.advance(100)
    assert len(started(rig)) == 3
    rig.exit("c-1-3", 0)
    assert rig.states() == {"c-1": "succeeded"}


def test_pitfall_a_container_that_fails_within_the_delay_is_still_restarted_when_it_ends() -> None:
    rig = waiting_for_its_second_restart(retrying(most=5))
    rig.advance(10)
    for number in (3, 4, 5):
        rig.exit(f"c-1-{number}", 1)
        rig.advance(14.99)
        assert len(started(rig)) == number
        rig.advance(0.01)
        assert len(started(rig)) == number + 1, "it fails at once, and none is dropped"


def test_what_fails_at_once_and_has_no_delay_is_started_once_a_second() -> None:
    rig = rig_with(retrying(most=100, delay_s=0.0))
    rig.exit("c-1-1", 1)
    assert len(started(rig)) == 2, "the first restart comes at once"
    for number in range(2, 12):
        rig.exit(f"c-1-{number}", 1)
        rig.advance(0.99)
        assert len(started(rig)) == number
        rig.advance(0.01)
        assert len(started(rig)) == number + 1


def test_the_first_restart_waits_for_its_own_delay_and_says_so() -> None:
    rig = rig_with(retrying(first_delay_s=60.0))
    rig.exit("c-1-1", 1)
    assert why(rig).endswith("attempt 1 of 3 exited with 1; the first restart waits for 60 s")
    rig.advance(59.99)
    assert len(started(rig)) == 1
    rig.advance(0.01)
    assert len(started(rig)) == 2
    rig.exit("c-1-2", 1)
    rig.advance(14.99)
    assert len(started(rig)) == 2
    rig.advance(0.01)
    assert len(started(rig)) == 3, "15 s after the first restart"


def test_what_fails_after_the_delay_is_restarted_at_once() -> None:
    rig = rig_with(retrying())
    rig.exit("c-1-1", 1)
    rig.advance(15)
    rig.exit("c-1-2", 1)
    assert len(started(rig)) == 3


def test_without_retries_it_fails_and_its_resources_are_freed_at_once() -> None:
    rig = rig_with(make_container(1))
    rig.exit("c-1-1", 3)
    assert rig.states() == {"c-1": "failed"}
    worker = rig.engine.pool.workers["i-001"]
    assert worker.load.free == worker.type.allocatable
    container = rig.containers["c-1"]
    assert container.reason is not None
    assert container.reason.message == "it exited with 3"


def test_resources_are_free_while_it_waits() -> None:
    rig = waiting_for_its_second_restart()
    rig.submit(make_container(2))
    assert rig.states() == {"c-1": "queued", "c-2": "running"}
    assert rig.started_on()["c-2"] == "i-001"


# ---- how often and why ---------------------------------------------------------------------------


def test_after_the_last_restart_it_fails_and_the_reason_names_the_count() -> None:
    rig = waiting_for_its_second_restart()
    rig.advance(10)
    rig.exit("c-1-3", 7)
    container = rig.containers["c-1"]
    assert container.state.value == "failed"
    assert container.exit_code == 7
    assert container.reason is not None
    assert container.reason.code == "exit_code"
    assert container.reason.message == "it exited with 7; that was attempt 3 of 3"
    rig.advance(100)
    assert len(started(rig)) == 3


@pytest.mark.parametrize(
    ("retries", "kind", "code", "again"),
    [
        (Retries(most=1), ExitKind.EXITED, 1, True),
        (Retries(most=1), ExitKind.OUT_OF_MEMORY, 137, True),
        (Retries(most=1), ExitKind.ENGINE_FAILURE, 125, True),
        (Retries(most=1, on=("out_of_memory",)), ExitKind.OUT_OF_MEMORY, 137, True),
        (Retries(most=1, on=("out_of_memory",)), ExitKind.EXITED, 1, False),
        (Retries(most=1, on=()), ExitKind.EXITED, 1, False),
        (Retries(most=1, exit_codes=(4, 5)), ExitKind.EXITED, 5, True),
        (Retries(most=1, exit_codes=(4, 5)), ExitKind.EXITED, 6, False),
        (Retries(most=1, exit_codes=(75,)), ExitKind.OUT_OF_MEMORY, 137, True),
        (Retries(most=1, on=OOM_OR_EXIT, exit_codes=(75,)), ExitKind.OUT_OF_MEMORY, 137, True),
        (Retries(most=1, on=OOM_OR_EXIT, exit_codes=(75,)), ExitKind.EXITED, 75, True),
        (Retries(most=1, on=OOM_OR_EXIT, exit_codes=(75,)), ExitKind.EXITED, 1, False),
        (Retries(most=1, on=("exit_code",), exit_codes=(75,)), ExitKind.OUT_OF_MEMORY, 137, False),
        (Retries(most=0), ExitKind.EXITED, 1, False),
    ],
)
def test_which_failures_are_tried_again(
    retries: Retries, kind: ExitKind, code: int, again: bool
) -> None:
    rig = rig_with(make_container(1, retries=retries))
    rig.exit("c-1-1", code, kind)
    assert rig.states() == {"c-1": "running" if again else "failed"}


def test_a_failure_that_is_not_tried_again_says_so() -> None:
    rig = rig_with(retrying(exit_codes=(4,)))
    rig.exit("c-1-1", 5)
    reason = rig.containers["c-1"].reason
    assert reason is not None
    assert reason.message == (
        "it exited with 5; that was attempt 1 of 3, and such a failure is not tried again"
    )


def test_a_start_that_is_refused_for_the_request_counts_as_a_failure() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(retrying(most=1, on=("start_refused",)))
    for attempt_id in ("c-1-1", "c-1-2"):
        start = last_commands(rig, StartAttempt)[-1]
        assert start.order.attempt_id == attempt_id
        rig.send(
            StartRefused(
                op_id=start.op_id,
                worker_id="i-001",
                attempt_id=attempt_id,
                code="invalid",
                message="no such engine",
            )
        )
    reason = rig.containers["c-1"].reason
    assert reason is not None
    assert reason.message == "no such engine; that was attempt 2 of 2"


def test_lost_attempts_do_not_count_as_retries_and_are_tried_again_after_a_second() -> None:
    rig = rig_with(retrying(most=1))
    rig.exit("c-1-1", 0, ExitKind.LOST)
    rig.advance(1)
    rig.exit("c-1-2", 1)
    rig.exit("c-1-3", 0, ExitKind.LOST)
    assert len(started(rig)) == 3, "it must not use up its tries within a moment"
    rig.advance(1)
    assert started(rig)[-1] == "c-1-4"
    rig.exit("c-1-4", 1)
    reason = rig.containers["c-1"].reason
    assert reason is not None
    assert reason.message == "it exited with 1; that was attempt 2 of 2"
    assert len(started(rig)) == 4


def test_preempted_attempts_do_not_count_as_retries() -> None:
    rig = rig_with(retrying(most=1))
    rig.set_priority("c-1", 0)
    rig.exit("c-1-1", 143)
    rig.set_priority("c-1", 500)
    rig.exit("c-1-2", 1)
    assert started(rig) == ["c-1-1", "c-1-2", "c-1-3"]


def test_a_lost_attempt_between_two_failures_does_not_shorten_the_delay() -> None:
    rig = rig_with(retrying(most=3))
    rig.exit("c-1-1", 1)
    rig.advance(5)
    rig.exit("c-1-2", 0, ExitKind.LOST)
    rig.advance(5)
    rig.exit("c-1-3", 1)
    rig.advance(4.99)
    assert len(started(rig)) == 3
    rig.advance(0.01)
    assert len(started(rig)) == 4, "15 s after c-1-2, which was the first restart"


# ---- while it waits ------------------------------------------------------------------------------


def test_its_reason_names_the_time_and_the_count() -> None:
    rig = waiting_for_its_second_restart()
    assert rig.now == 1005.0
    assert why(rig) == (
        "restart_delay: it is started again at 1970-01-01T00:16:55Z: attempt 2 of 3 exited with 1; "
        "restarts are at least 15 s apart"
    )
    rig.advance(10)
    assert why(rig) == ""


def test_its_reason_tells_a_failure_without_an_exit_code_in_words() -> None:
    rig = rig_with(retrying())
    rig.exit("c-1-1", 1)
    rig.exit("c-1-2", 137, ExitKind.OUT_OF_MEMORY)
    assert "attempt 2 of 3 failed: it took more than the" in why(rig)


def test_it_is_no_container_that_waits_for_a_place_until_then() -> None:
    rig = waiting_for_its_second_restart()
    assert rig.engine.table.queue.classes() == []
    rig.advance(9)
    assert value(rig, "longshore_longest_wait_seconds") == 0
    assert value(rig, "longshore_containers", state="queued") == 1


def test_it_is_cancelled_while_it_waits() -> None:
    rig = waiting_for_its_second_restart()
    rig.cancel("c-1")
    assert rig.states() == {"c-1": "cancelled"}
    rig.advance(100)
    assert len(started(rig)) == 2
    assert rig.engine.table.gates.ids() == []


@pytest.mark.parametrize("up_after_s", [3, 50])
def test_priority_0_while_it_waits_holds_it_back_and_loses_no_time(up_after_s: float) -> None:
    rig = waiting_for_its_second_restart()
    rig.set_priority("c-1", 0)
    assert why(rig).startswith("held: ")
    rig.advance(up_after_s)
    assert len(started(rig)) == 2
    rig.set_priority("c-1", 900)
    rig.advance(max(0.0, 10 - up_after_s))
    assert len(started(rig)) == 3


def test_a_changed_priority_does_not_shorten_the_delay() -> None:
    rig = waiting_for_its_second_restart()
    rig.set_priority("c-1", 1000)
    rig.advance(9)
    assert len(started(rig)) == 2
    rig.advance(1)
    assert len(started(rig)) == 3


# ---- crashes and clocks --------------------------------------------------------------------------


def test_a_crash_while_it_waits_neither_shortens_nor_forgets_the_delay() -> None:
    rig = waiting_for_its_second_restart()
    rig.advance(4)
    rig.crash()
    assert why(rig).startswith("restart_delay: it is started again at 1970-01-01T00:16:55Z")
    rig.advance(5.99)
    assert started(rig) == []
    rig.advance(0.01)
    assert started(rig) == ["c-1-3"]


def test_a_restart_that_fell_due_while_no_dispatcher_ran_is_made_at_once() -> None:
    rig = waiting_for_its_second_restart()
    rig.now += 60
    rig.crash()
    assert started(rig) == ["c-1-3"]


def test_after_a_crash_restarts_are_still_counted() -> None:
    rig = waiting_for_its_second_restart()
    rig.crash()
    rig.advance(10)
    rig.exit("c-1-3", 1)
    assert rig.states() == {"c-1": "failed"}


def test_a_clock_that_was_set_back_between_processes_makes_it_wait_no_longer_than_the_delay() -> (
    None
):
    rig = waiting_for_its_second_restart()
    rig.now -= 900
    rig.crash()
    rig.advance(14.99)
    assert started(rig) == []
    rig.advance(0.01)
    assert started(rig) == ["c-1-3"]


def test_a_failure_after_the_clock_was_set_back_makes_it_wait_no_longer_than_the_delay() -> None:
    rig = rig_with(retrying())
    rig.exit("c-1-1", 1)
    rig.now -= 900
    rig.crash()
    rig.exit("c-1-2", 1)
    rig.advance(15)
    assert started(rig) == ["c-1-3"]


def test_a_clock_that_was_set_back_holds_what_has_no_delay_back_for_a_second() -> None:
    rig = rig_with(retrying(most=3, delay_s=0.0))
    rig.exit("c-1-1", 1)
    rig.now -= 900
    rig.crash()
    rig.exit("c-1-2", 1)
    rig.advance(1)
    assert started(rig) == ["c-1-3"]


def test_several_restarts_come_in_the_order_of_their_times() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=100_000))
    for number, delay_s in ((1, 30.0), (2, 20.0)):
        retries = Retries(most=2, delay_s=delay_s)
        rig.submit(make_container(number, retries=retries))
        rig.exit(f"c-{number}-1", 1)
        rig.exit(f"c-{number}-2", 1)
    assert rig.engine.next_wakeup(rig.now) is not None
    rig.advance(20)
    assert started(rig)[4:] == ["c-2-3"]
    rig.advance(10)
    assert started(rig)[4:] == ["c-2-3", "c-1-3"]


def test_what_did_not_fail_has_no_restart() -> None:
    rig = waiting_for_its_second_restart()
    container = rig.engine.table.containers["c-1"]
    assert restart_due(container) == 1015.0
    lost = replace(container.attempts[-1], outcome=AttemptOutcome.LOST)
    assert restart_due(replace(container, attempts=(*container.attempts[:-1], lost))) is None
    assert restart_due(replace(container, attempts=())) is None


# ---- what an instance loses that is there --------------------------------------------------------

C1 = make_container(1)


@pytest.mark.parametrize("code", [ENGINE_FAILURE, SUPERVISOR_LOST])
def test_what_one_instance_loses_uses_up_one_try_and_has_a_limit_of_its_own(code: str) -> None:
    few = SchedulerSettings(max_lost_attempts=3)
    assert may_try_again(lost_on(C1, *["i-1"] * 19, code=code), few)
    assert not may_try_again(lost_on(C1, *["i-1"] * 20, code=code), few)
    assert may_try_again(lost_on(C1, "i-1", "i-1", "i-1", "i-2", "i-1", code=code), few)
    assert not may_try_again(lost_on(C1, "i-1", "i-1", "i-2", "i-3", code=code), few)
    assert may_try_again(lost_on(C1, *["i-1"] * 99), SchedulerSettings(max_lost_attempts=100))


def test_what_is_gone_with_its_instance_counts_each_time() -> None:
    few = SchedulerSettings(max_lost_attempts=3)
    assert may_try_again(lost_on(C1, "i-1", "i-1", code="lost"), few)
    assert not may_try_again(lost_on(C1, "i-1", "i-1", "i-1", code="lost"), few)


def test_what_is_lost_on_the_same_instance_again_waits_ever_longer() -> None:
    def delays_s(*instances: str) -> list[float]:
        tried = (
            lost_on(C1, *instances[:n], code=SUPERVISOR_LOST) for n in range(1, len(instances) + 1)
        )
        return [longest_delay_s(container) for container in tried]

    assert delays_s(*["i-1"] * 8) == [1, 2, 4, 8, 16, 32, 60, 60]
    assert delays_s("i-1", "i-2", "i-3", "i-4", "i-3") == [1, 2, 2, 2, 16]


@pytest.mark.parametrize(
    ("tried", "why"),
    [
        (
            lost_on(C1, "i-1", "i-1", "i-2", "i-3"),
            "attempts of it were lost or could not run 4 times (max_lost_attempts is 3)",
        ),
        (
            lost_on(C1, *["i-1"] * 20, code=SUPERVISOR_LOST),
            "attempts of it were lost or could not run 20 times on i-1",
        ),
        (
            lost_on(C1, *["i-1"] * 20, code="overloaded"),
            "overloaded instances refused it 20 times",
        ),
        (
            lost_on(make_container(1, retry_lost=False), "i-1", code="lost"),
            "its retries say that what is lost is not tried again (lost: false)",
        ),
    ],
)
def test_what_is_given_up_for_being_lost_says_so(tried: Container, why: str) -> None:
    few = SchedulerSettings(max_lost_attempts=3)
    assert not may_try_again(tried, few)
    told = given_up_reason(tried, tried.attempts[-1].reason, few)
    assert told is not None
    assert told.message == f"no such host; it is given up, since {why}"


def test_the_reason_of_a_container_that_was_lost_too_often_says_that_it_is_given_up() -> None:
    """Found by a stranger: it was that of its last attempt, as if that had been the only one."""
    rig = Rig(
        make_type(1),
        pool=PoolSettings(idle_timeout_s=100_000),
        settings=SchedulerSettings(max_lost_attempts=1),
    )
    rig.submit(make_container(1))
    rig.exit("c-1-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    failed = rig.containers["c-1"]
    assert failed.reason is not None
    assert (failed.state.value, failed.reason.code) == ("failed", ENGINE_FAILURE)
    assert failed.reason.message == (
        "the container engine could not run it; it is given up, since attempts of it were lost or"
        " could not run 1 times (max_lost_attempts is 1)"
    )
    last = failed.attempts[-1].reason
    assert last is not None
    assert last.message == "the container engine could not run it"
