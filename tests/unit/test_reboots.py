"""An instance that boots anew is probed for its boot before anything starts there."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.pool.messages import (
    AttemptExited,
    DestroyInstance,
    Probe,
    SessionLost,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import (
    REBOOTED,
    AttemptExit,
    AttemptReport,
    ExitKind,
    IdleBehavior,
    PoolSettings,
)
from longshore.pool.statistics import BootOutcome
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

ONE = SchedulerSettings(max_instances=1)
QUICK = PoolSettings(probe_interval_s=10, boot_timeout_s=100)
DONE = AttemptExit(kind=ExitKind.EXITED, code=0)


def idle_rig(*, cpus: int = 2) -> Rig:
    """Return a rig with an idle instance on which container 1 has run."""
    rig = Rig(make_type(cpus), pool=QUICK, settings=ONE)
    rig.submit(make_container(1))
    attempt_id = last_commands(rig, StartAttempt)[-1].order.attempt_id
    rig.on_instance["i-001"].clear()
    rig.send(AttemptExited(worker_id="i-001", attempt_id=attempt_id, exit=DONE))
    assert rig.worker_states() == {"i-001": "idle"}
    return rig


def reboot(rig: Rig, boot_id: str, *, boot_error: str = "") -> None:
    """Let the instance boot anew: nothing runs there, and its session is lost."""
    rig.boot_id, rig.boot_error = boot_id, boot_error
    rig.on_instance["i-001"].clear()
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))


def started(rig: Rig) -> list[str]:
    return [each.order.container_id for each in last_commands(rig, StartAttempt)]


def test_nothing_starts_in_a_new_boot_before_its_probe_has_passed() -> None:
    rig = idle_rig()
    reboot(rig, "b2", boot_error="no driver")
    assert rig.worker_states() == {"i-001": "unknown"}
    rig.submit(make_container(2))
    rig.advance(45)
    assert started(rig) == ["c-1"]
    assert all(probe.boot for probe in last_commands(rig, Probe)[-3:])
    assert rig.engine.pool.workers["i-001"].health.last_error == "boot: no driver"
    rig.boot_error = ""
    rig.advance(15)
    assert started(rig) == ["c-1", "c-2"]
    assert rig.worker_states() == {"i-001": "running"}


def test_a_session_that_was_lost_in_the_same_boot_asks_for_no_boot_probe() -> None:
    rig = idle_rig()
    reboot(rig, "b")
    assert rig.worker_states() == {"i-001": "idle"}
    assert not last_commands(rig, Probe)[-1].boot


def test_what_ran_before_is_found_missing_and_runs_again_once_the_probe_has_passed() -> None:
    rig = Rig(make_type(2), pool=QUICK, settings=ONE)
    rig.submit(make_container(1))
    reboot(rig, "b2", boot_error="no driver")
    assert rig.engine.table.containers["c-1"].state.value in ("queued", "locked")
    rig.advance(30)
    assert started(rig) == ["c-1"]
    rig.boot_error = ""
    rig.advance(15)
    assert started(rig) == ["c-1", "c-1"]


def test_one_whose_new_boot_never_passes_is_given_up_after_the_whole_boot_timeout() -> None:
    rig = idle_rig()
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    rig.advance(1000)
    rig.submit(make_container(2))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.RUN))
    assert started(rig) == ["c-1", "c-2"]
    # A boot that is long over does not count for the new one.
    reboot(rig, "b2", boot_error="no driver")
    rig.advance(99)
    assert rig.worker_states() == {"i-001": "unknown"}
    rig.advance(2)
    assert last_commands(rig, DestroyInstance)[-1].instance_id == "i-001"
    boots = rig.engine.pool.statistics.boots
    assert (boots[BootOutcome.SUCCESS], boots[BootOutcome.FAILURE]) == (1, 0)


def test_a_start_that_was_meant_for_the_boot_before_is_no_strike() -> None:
    rig = idle_rig()
    rig.silent.add(StartAttempt)
    rig.submit(make_container(2))
    start = last_commands(rig, StartAttempt)[-1]
    assert start.boot_id == "b"
    reboot(rig, "b2")
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id="i-001",
            attempt_id=start.order.attempt_id,
            code=REBOOTED,
            message="the instance has booted anew",
        )
    )
    assert rig.engine.pool.workers["i-001"].health.refusals == 0
    again = last_commands(rig, StartAttempt)[-1]
    assert (again.order.container_id, again.boot_id) == ("c-2", "b2")


def test_who_drains_keeps_what_a_stale_list_may_still_show() -> None:
    rig = Rig(make_type(2), pool=QUICK, settings=ONE)
    rig.submit(make_container(1))
    start = last_commands(rig, StartAttempt)[-1]
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    rig.boot_id = "b2"
    rig.on_instance["i-001"][start.order.attempt_id] = AttemptReport(
        attempt_id=start.order.attempt_id, container_id="c-1"
    )
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    assert not last_commands(rig, DestroyInstance)
    assert rig.engine.table.containers["c-1"].state.value == "running"
