"""Time limits, grace periods, and containers that may not start before a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome, Retries
from longshore.dispatcher.domain.messages import Woken
from longshore.dispatcher.state.attempt_end import when_it_ran
from longshore.pool.messages import AttemptExited, AttemptImageSeen, SignalAttempt
from longshore.pool.model import AttemptExit, AttemptImage, AttemptReport, ExitKind, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import lost_on, make_container

QUIET = PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000)


def signals(rig: Rig) -> list[str]:
    return [command.signal for command in last_commands(rig, SignalAttempt)]


def waits_for(rig: Rig, container_id: str) -> tuple[str, str, float | None]:
    reason = rig.engine.why_waiting(container_id)
    assert reason is not None
    return reason.code, reason.message, reason.until


# ---- time limits ---------------------------------------------------------------------------------


def test_what_runs_for_longer_than_it_may_is_ended_and_has_failed() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(59.5)
    assert signals(rig) == []
    rig.advance(0.5)
    assert signals(rig) == ["TERM"]
    rig.exit("c-1-1", 0)
    container = rig.containers["c-1"]
    assert container.state.value == "failed", "though it says 0: it was told to end"
    assert container.reason is not None
    assert container.reason.code == "time_limit"
    assert container.reason.message == "it ran for longer than its time limit of 60 s"


def see_image(rig: Rig, **known: object) -> None:
    """Have the instance of c-1 tell what it knows of the image of its first attempt."""
    worker_id = rig.attempts["c-1-1"].instance_id
    image = AttemptImage(**known)  # type: ignore[arg-type] # what each test gives
    rig.send(AttemptImageSeen(worker_id=worker_id, attempt_id="c-1-1", image=image))


def test_the_limit_counts_from_when_the_image_is_there() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0, image="a/b"))
    see_image(rig, pulling=True)
    rig.advance(600)
    assert signals(rig) == []
    assert rig.attempts["c-1-1"].is_pulling
    see_image(rig, digest="sha256:1", warning="look out")
    attempt = rig.attempts["c-1-1"]
    assert (attempt.image_digest, attempt.warning, attempt.is_pulling) == (
        "sha256:1",
        "look out",
        False,
    )
    assert attempt.pulled_at is not None
    assert attempt.pulling_since is not None
    assert attempt.pulled_at - attempt.pulling_since == 600
    rig.advance(59.5)
    assert signals(rig) == []
    rig.advance(0.5)
    assert signals(rig) == ["TERM"]


def test_what_is_pulled_over_a_restart_of_the_dispatcher_has_its_whole_time() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0, image="a/b"))
    see_image(rig, pulling=True)
    rig.advance(30)
    rig.crash()
    rig.advance(100)
    assert signals(rig) == []
    see_image(rig, digest="sha256:1")
    rig.advance(59.5)
    assert signals(rig) == []
    rig.advance(0.5)
    assert signals(rig) == ["TERM"]


def test_what_ran_after_a_pull_ended_when_it_did() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, image="a/b"))
    see_image(rig, pulling=True)
    rig.advance(600)
    see_image(rig, digest="sha256:1")
    rig.advance(50)
    worker_id = rig.attempts["c-1-1"].instance_id
    how = AttemptExit(kind=ExitKind.EXITED, code=0, started_at=7.0, finished_at=47.0)
    rig.send(AttemptExited(worker_id=worker_id, attempt_id="c-1-1", exit=how))
    attempt = rig.attempts["c-1-1"]
    assert (attempt.finished_at or 0.0) - (attempt.pulled_at or 0.0) == 40.0


def test_what_ends_in_time_is_left_alone_and_its_limit_forgotten() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(59)
    rig.exit("c-1-1", 0)
    rig.advance(10)
    assert rig.states() == {"c-1": "succeeded"}
    assert signals(rig) == []
    assert rig.engine.table.time_limits.next_due() is None


def test_the_limit_counts_from_the_start_also_over_a_restart_of_the_dispatcher() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(40)
    rig.crash()
    rig.advance(19.5)
    assert signals(rig) == []
    rig.advance(0.5)
    assert signals(rig) == ["TERM"]
    rig.crash()
    assert signals(rig) == ["TERM"], "that it is to end is known after a crash"
    rig.exit("c-1-1", 143)
    reason = rig.containers["c-1"].reason
    assert reason is not None
    assert reason.code == "time_limit"


def test_a_clock_that_is_set_back_gives_no_more_than_the_limit() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.now -= 500_000
    rig.crash()
    rig.advance(60)
    assert signals(rig) == ["TERM"]


@pytest.mark.parametrize(("on", "attempts"), [(("time_limit",), 2), (("exit_code",), 1)])
def test_a_time_limit_is_tried_again_where_retries_name_it(
    on: tuple[str, ...], attempts: int
) -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0, retries=Retries(most=1, on=on)))
    rig.advance(60)
    rig.exit("c-1-1", 143)
    assert len(rig.containers["c-1"].attempts) == attempts
    assert len(rig.attempts) == attempts
    if attempts == 2:
        rig.advance(59)
        assert signals(rig) == ["TERM"], "each attempt has its own time"
        rig.advance(1)
        assert signals(rig) == ["TERM", "TERM"]


def test_an_attempt_over_its_limit_whose_instance_dies_was_not_lost() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=10))
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(61)
    rig.cloud.clear()
    rig.advance(30)
    assert rig.attempts["c-1-1"].outcome is AttemptOutcome.FAILED
    assert rig.states() == {"c-1": "failed"}


def test_a_cancellation_before_the_limit_is_a_cancellation() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(59)
    rig.cancel("c-1")
    rig.advance(20)
    rig.exit("c-1-1", 143)
    assert rig.states() == {"c-1": "cancelled"}


def test_a_user_may_cancel_what_is_over_its_limit() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(61)
    rig.cancel("c-1")
    rig.exit("c-1-1", 143)
    assert rig.states() == {"c-1": "cancelled"}


def test_out_of_memory_while_being_ended_is_still_the_time_limit() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=1.0))
    rig.advance(1)
    rig.exit("c-1-1", 137, kind=ExitKind.OUT_OF_MEMORY)
    reason = rig.containers["c-1"].reason
    assert reason is not None
    assert reason.code == "time_limit"


# ---- grace ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grace_s", "told"),
    [
        (None, ["TERM", "TERM", "TERM", "KILL"]),
        (7.0, ["TERM", "TERM", "KILL", "KILL"]),
        (2.0, ["TERM", "KILL", "KILL", "KILL"]),
        (0.0, ["KILL", "KILL", "KILL", "KILL"]),
    ],
)
def test_its_grace_period_lies_between_term_and_kill(
    grace_s: float | None, told: list[str]
) -> None:
    settings = PoolSettings(
        sync_interval_s=100_000, term_timeout_s=15.0, signal_interval_s=5.0, idle_timeout_s=1e5
    )
    rig = Rig(pool=settings)
    rig.submit(make_container(1, grace_period_s=grace_s))
    rig.cancel("c-1")
    rig.advance(16.5)
    assert signals(rig) == told


def test_kill_comes_when_its_time_has_come_by_one_reckoning_and_not_by_another() -> None:
    """Seed 18: the sum of both was now, their difference less, and the engine went round in it."""
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, grace_period_s=25.4))
    rig.now = 1012.1
    rig.cancel("c-1")
    assert (1012.1 + 25.4) - 1012.1 < 25.4, "rounded, the time is not over"
    rig.advance(24)
    assert "KILL" not in signals(rig)
    rig.now = 1012.1 + 25.4
    rig.send(Woken())
    assert signals(rig)[-1] == "KILL"


def test_the_grace_period_is_known_after_a_restart() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, grace_period_s=2.0))
    rig.crash()
    rig.cancel("c-1")
    rig.advance(2)
    assert signals(rig) == ["TERM", "KILL"]


# ---- not before ----------------------------------------------------------------------------------


def test_it_does_not_start_before_its_time() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, not_before=1100.0), make_container(2, not_before=500.0))
    assert rig.states() == {"c-1": "queued", "c-2": "running"}
    code, message, until = waits_for(rig, "c-1")
    assert (code, until) == ("not_before", 1100.0)
    assert message.startswith("it is not to start before ")
    rig.advance(50)
    rig.crash()
    rig.advance(49.5)
    assert rig.states()["c-1"] == "queued"
    rig.advance(0.5)
    assert rig.states()["c-1"] == "running"


def test_it_buys_nothing_before_its_time() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, not_before=5000.0))
    rig.advance(1000)
    assert rig.created_types() == []


def test_after_its_time_has_come_a_retry_waits_for_its_delay_only() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, not_before=1100.0, retries=Retries(most=1)))
    rig.advance(100)
    rig.exit("c-1-1", 1)
    rig.advance(1)
    assert len(rig.attempts) == 2


# ---- what is heard of late -----------------------------------------------------------------------


def late_exit(rig: Rig, *, ran_s: float, code: int = 0) -> None:
    """Let c-1's first attempt have ended in time on its instance, without that anybody heard it."""
    worker_id = rig.attempts["c-1-1"].instance_id
    how = AttemptExit(kind=ExitKind.EXITED, code=code, started_at=500.0, finished_at=500.0 + ran_s)
    report = AttemptReport(attempt_id="c-1-1", container_id="c-1", exit=how)
    rig.on_instance[worker_id]["c-1-1"] = report


def test_what_ended_while_nobody_looked_has_its_own_result() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    late_exit(rig, ran_s=50.0)
    rig.now += 300
    rig.crash()
    rig.advance(30)
    assert rig.states() == {"c-1": "succeeded"}


def test_an_exit_that_comes_a_moment_after_the_limit_is_judged_by_when_it_was() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(60.1)
    assert signals(rig) == ["TERM"]
    worker_id = rig.attempts["c-1-1"].instance_id
    how = AttemptExit(kind=ExitKind.EXITED, code=0, started_at=500.0, finished_at=559.0)
    rig.send(AttemptExited(worker_id=worker_id, attempt_id="c-1-1", exit=how))
    assert rig.states() == {"c-1": "succeeded"}


def test_what_was_lost_without_having_been_told_to_end_was_lost() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=10))
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(20)
    rig.cloud.clear()
    rig.now += 300
    rig.crash()
    rig.advance(40)
    assert rig.attempts["c-1-1"].outcome is AttemptOutcome.LOST
    assert signals(rig) == []


def test_priority_0_does_not_give_more_time() -> None:
    rig = Rig(pool=QUIET)
    rig.submit(make_container(1, time_limit_s=60.0))
    rig.advance(60)
    rig.set_priority("c-1", 0)
    rig.crash()
    rig.exit("c-1-1", 143)
    assert rig.states() == {"c-1": "failed"}


def test_how_long_it_ran_counts_though_its_image_was_heard_of_much_later() -> None:
    """What ended while nobody was here is not billed until somebody is."""
    (attempt,) = lost_on(make_container(1), "i-1", at=1000.0).attempts
    attempt = replace(attempt, started_at=1000.0, pulled_at=30_000.0)
    how = AttemptExit(kind=ExitKind.EXITED, code=0, started_at=5.0, finished_at=125.0)
    assert when_it_ran(attempt, how, 30_000.0) == (1000.0, 1120.0)
    assert when_it_ran(replace(attempt, pulled_at=1200.0), how, 30_000.0) == (1000.0, 1320.0)
