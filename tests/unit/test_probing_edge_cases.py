"""What guards workers: probes, sessions, idle and held instances, shutdowns."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    InstanceKillRequested,
    PublishInstance,
)
from longshore.drivers.errors import CloudError
from longshore.pool.messages import (
    AttemptExited,
    BrokenReported,
    CloseSession,
    Created,
    CreateInstance,
    DestroyFailed,
    DestroyInstance,
    ListInstances,
    Probe,
    ProbeFailed,
    ReleaseAttempt,
    SessionLost,
    StartAttempt,
)
from longshore.pool.model import (
    AttemptExit,
    AttemptReport,
    ExitKind,
    IdleBehavior,
    PoolSettings,
    Worker,
)
from tests.rigs.engine import CommandKind, Rig, last_commands
from tests.samples import make_container, make_type

SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)
ONE = SchedulerSettings(max_instances=1)


def last(rig: Rig, kind: type[CommandKind]) -> CommandKind:
    """Return the latest command of one kind."""
    return last_commands(rig, kind)[-1]


def count(rig: Rig, kind: type[CommandKind]) -> int:
    return len(last_commands(rig, kind))


def worker_of(rig: Rig, worker_id: str = "i-001") -> Worker:
    return rig.engine.pool.workers[worker_id]


def lose_session(rig: Rig, *, silent_for_s: float = 0.0) -> None:
    last_contact = rig.now - silent_for_s
    rig.send(SessionLost(worker_id="i-001", last_contact=last_contact, reason="reset"))


def behave(rig: Rig, behavior: IdleBehavior, worker_id: str = "i-001") -> None:
    rig.send(BehaviorRequested(worker_id=worker_id, behavior=behavior))


def fail_probe(rig: Rig, *, op_id: int | None = None) -> None:
    probe = last(rig, Probe)
    rig.send(
        ProbeFailed(
            op_id=probe.op_id if op_id is None else op_id,
            worker_id=probe.worker_id,
            revision=probe.revision,
            stage="connect",
            message="refused",
        )
    )


def running(
    *, cpus: int = 1, pool: PoolSettings | None = None, settings: SchedulerSettings | None = None
) -> Rig:
    """Return a rig whose container 1 runs on i-001."""
    rig = Rig(make_type(cpus), pool=pool, settings=settings)
    rig.submit(make_container(1))
    assert rig.worker_states() == {"i-001": "running"}
    return rig


def published_states(rig: Rig) -> list[str]:
    news = [p for p in rig.published if isinstance(p, PublishInstance)]
    return [p.state for p in news if p.worker_id == "i-001"]


# ---- probes --------------------------------------------------------------------------------------


def test_only_what_boots_gets_the_boot_probe_and_a_void_secret_is_not_sent_again() -> None:
    rig = running()
    first = last(rig, Probe)
    rig.advance(20)
    lose_session(rig)
    again = last(rig, Probe)
    assert (first.boot, again.boot) == (True, False)
    assert (first.secret, again.secret) == ("secret", "")
    assert (first.host_key, again.host_key) == ("", "ssh-ed25519 AAAA")


def test_one_probe_at_a_time_and_a_result_of_another_is_dropped() -> None:
    rig = Rig()
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.advance(200)
    probe = last(rig, Probe)
    assert count(rig, Probe) == 1
    fail_probe(rig, op_id=999)
    assert worker_of(rig).link.probe_op == probe.op_id
    assert worker_of(rig).link.probe_failures == 0
    fail_probe(rig)
    assert worker_of(rig).health.last_error == "connect: refused"
    rig.probe_now(probe)
    assert rig.worker_states() == {"i-001": "booting"}, "that probe has failed already"


def test_a_listing_does_not_hasten_a_probe_that_waits_and_needs_none_of_a_session() -> None:
    pool = PoolSettings(sync_interval_s=1, probe_interval_s=10)
    rig = running(pool=pool)
    rig.advance(20)
    probes = count(rig, Probe)
    rig.advance(50)
    assert count(rig, Probe) == probes, "its session stands for probes"
    rig.silent.add(Probe)
    lose_session(rig)
    for _ in range(8):
        fail_probe(rig)
        probes = count(rig, Probe)
        rig.advance(10)
        assert count(rig, Probe) == probes + 1
    fail_probe(rig)
    rig.advance(9.5)
    assert count(rig, Probe) == probes + 1


def test_a_success_makes_the_next_failure_the_first_and_clears_the_error() -> None:
    rig = Rig()
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    for _ in range(4):
        fail_probe(rig)
        rig.advance(10)
    rig.silent.discard(Probe)
    rig.probe_now(last(rig, Probe))
    rig.settle()
    worker = worker_of(rig)
    assert (worker.health.last_error, worker.link.last_contact) == ("", rig.now)
    rig.advance(20)
    rig.silent.add(Probe)
    lose_session(rig)
    fail_probe(rig)
    probes = count(rig, Probe)
    rig.advance(0.5)
    assert count(rig, Probe) == probes + 1


def test_a_probe_that_succeeds_after_the_shutdown_began_leaves_no_session() -> None:
    rig = Rig(settings=ONE)
    rig.silent |= {Probe, DestroyInstance}
    rig.submit(make_container(1))
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    closed = count(rig, CloseSession)
    rig.probe_now(last(rig, Probe))
    rig.settle()
    assert count(rig, CloseSession) == closed + 1
    assert count(rig, StartAttempt) == 0
    assert rig.worker_states() == {"i-001": "shutdown"}


def test_a_drained_worker_whose_last_process_a_probe_finds_ended_goes_at_once() -> None:
    rig = Rig()
    made = rig.boot("t1", longshore_idle_behavior="drain")
    rig.silent.add(DestroyInstance)
    rig.on_instance[made]["c-9-1"] = AttemptReport(attempt_id="c-9-1", container_id="c-9")
    rig.advance(60)
    assert rig.worker_states() == {made: "running"}, "a draining one is looked at first"
    rig.on_instance[made]["c-9-1"] = AttemptReport(
        attempt_id="c-9-1", container_id="c-9", exit=SUCCESS
    )
    rig.send(SessionLost(worker_id=made, last_contact=rig.now, reason="reset"))
    assert rig.worker_states() == {made: "shutdown"}
    assert count(rig, ReleaseAttempt) == 1
    assert count(rig, DestroyInstance) == 1


# ---- sessions ------------------------------------------------------------------------------------


def test_nothing_is_started_without_a_session_and_an_offline_worker_takes_no_work() -> None:
    pool = PoolSettings(offline_timeout_s=180, sync_interval_s=100_000)
    rig = running(cpus=2, pool=pool)
    rig.silent.add(Probe)
    lose_session(rig)
    rig.submit(make_container(2))
    assert count(rig, StartAttempt) == 1
    assert rig.states()["c-2"] == "locked"
    rig.advance(179)
    assert count(rig, CreateInstance) == 1
    rig.advance(1)
    assert count(rig, CreateInstance) == 2, "at its deadline, not at the next event"


def test_one_more_probe_deletes_the_secret_from_an_instance_that_had_one() -> None:
    rig = running(pool=PoolSettings(probe_interval_s=10))
    rig.advance(9)
    assert count(rig, Probe) == 1
    rig.advance(1)
    assert count(rig, Probe) == 2
    rig.advance(500)
    assert count(rig, Probe) == 2


def test_a_listed_worker_that_a_later_listing_lacks_is_gone_at_once_with_its_session() -> None:
    rig = running(pool=PoolSettings(sync_interval_s=1))
    rig.advance(2)
    del rig.cloud["i-001"]
    rig.advance(2)
    assert "i-001" not in rig.worker_states()
    assert [c.worker_id for c in last_commands(rig, CloseSession)] == ["i-001"]
    assert rig.engine.pool.attempts_on("i-001") == []


def test_an_old_probe_that_shows_a_stranger_asks_for_another() -> None:
    rig = running(cpus=2)
    rig.advance(20)
    rig.silent.add(Probe)
    lose_session(rig)
    rig.on_instance["i-001"]["c-9-1"] = AttemptReport(attempt_id="c-9-1", container_id="c-9")
    probe = last(rig, Probe)
    rig.send(BrokenReported(worker_id="i-001", message="disk is full"))
    rig.silent.discard(Probe)
    rig.probe_now(probe)
    rig.settle()
    assert last(rig, Probe) is not probe
    assert [a.stray for a in rig.engine.pool.attempts_on("i-001")] == [False, True]


def test_silence_counts_from_the_last_word_but_not_from_one_of_the_future() -> None:
    pool = PoolSettings(sync_interval_s=100_000, probe_timeout_s=300)
    rig = running(pool=pool)
    rig.silent |= {Probe, DestroyInstance}
    lose_session(rig, silent_for_s=-1000)
    rig.advance(299)
    assert rig.worker_states() == {"i-001": "running"}
    rig.advance(1)
    assert rig.worker_states() == {"i-001": "shutdown"}


def test_a_session_that_lives_is_never_silent() -> None:
    rig = running(pool=PoolSettings(probe_timeout_s=300, sync_interval_s=1))
    rig.advance(100)
    lose_session(rig)
    rig.advance(1000)
    assert rig.worker_states() == {"i-001": "running"}


def test_what_a_worker_says_of_itself_is_told_to_those_who_watch() -> None:
    rig = running(cpus=2)
    rig.advance(20)
    assert published_states(rig) == ["unknown", "booting", "booting", "idle", "running"]
    rig.published.clear()
    rig.send(BrokenReported(worker_id="i-001", message="disk is full"))
    rig.send(BrokenReported(worker_id="i-001", message="disk is full"))
    assert published_states(rig) == ["running"]
    behave(rig, IdleBehavior.HOLD)
    behave(rig, IdleBehavior.HOLD)
    assert published_states(rig) == ["running", "running", "running"], "a wish is told each time"
    lose_session(rig)
    assert published_states(rig)[3] == "running"
    del rig.cloud["i-001"]
    rig.advance(61)
    assert "gone" in published_states(rig)[3:]
    assert rig.instances["i-001"].gone_reason == "the cloud no longer lists it"


def test_a_worker_that_turns_broken_gets_no_more_work_and_goes_when_it_is_empty() -> None:
    rig = running(cpus=2)
    rig.send(BrokenReported(worker_id="i-001", message="disk is full"))
    rig.submit(make_container(2))
    assert rig.started_on()["c-2"] == "i-002"
    rig.exit("c-2-1")
    rig.silent.add(DestroyInstance)
    rig.send(BrokenReported(worker_id="i-002", message="disk is full"))
    assert rig.worker_states() == {"i-001": "running", "i-002": "shutdown"}


# ---- idle, held, shut down -----------------------------------------------------------------------


def test_the_idle_timeout_needs_no_listing_and_begins_with_the_last_exit() -> None:
    rig = running(pool=PoolSettings(sync_interval_s=100_000, idle_timeout_s=60))
    rig.advance(500)
    rig.exit("c-1-1")
    rig.silent.add(DestroyInstance)
    rig.advance(59)
    assert rig.worker_states() == {"i-001": "idle"}
    rig.advance(1)
    assert rig.worker_states() == {"i-001": "shutdown"}


@pytest.mark.parametrize("adopted", [False, True])
def test_the_boot_timeout_needs_no_listing_and_counts_from_the_first_sight(
    *, adopted: bool
) -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=100_000, boot_timeout_s=300), listed=not adopted)
    rig.silent |= {Probe, DestroyInstance}
    if adopted:
        rig.boot("t1")
        rig.list_now(last(rig, ListInstances).op_id)
        rig.settle()
    else:
        rig.submit(make_container(1))
    rig.advance(299)
    assert count(rig, DestroyInstance) == 0
    rig.advance(1)
    assert count(rig, DestroyInstance) == 1


def test_the_boot_timeout_is_not_begun_anew_when_the_create_call_returns() -> None:
    rig = Rig(pool=PoolSettings(sync_interval_s=60, boot_timeout_s=300))
    rig.silent |= {CreateInstance, Probe, DestroyInstance}
    rig.submit(make_container(1))
    create = last(rig, CreateInstance)
    made = rig.boot("t1", longshore_token=create.launch.token)
    rig.advance(260)
    seen = rig.cloud[made]
    rig.send(Created(op_id=create.op_id, token=create.launch.token, instance=seen))
    assert rig.worker_states() == {made: "booting"}
    rig.advance(101)
    assert rig.worker_states()[made] == "shutdown"


def test_an_idle_behavior_that_nobody_knows_is_none() -> None:
    rig = Rig(pool=PoolSettings(idle_timeout_s=300))
    made = rig.boot("t1", longshore_idle_behavior="nonsense")
    rig.advance(100)
    assert rig.worker_states() == {made: "idle"}


def test_an_instance_that_is_let_go_takes_work_at_once() -> None:
    rig = running(settings=ONE)
    rig.exit("c-1-1")
    behave(rig, IdleBehavior.HOLD)
    rig.submit(make_container(2))
    assert rig.states()["c-2"] == "queued"
    behave(rig, IdleBehavior.RUN)
    assert rig.states()["c-2"] == "running"


def test_a_shutdown_drops_the_session_and_takes_no_work_while_it_lasts() -> None:
    rig = running(cpus=2)
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason="noisy"))
    assert worker_of(rig).shutdown.reason == "an admin ended it: noisy"
    assert last(rig, CloseSession).worker_id == "i-001"
    rig.send(InstanceKillRequested(worker_id="i-001", reason="still noisy"))
    assert count(rig, DestroyInstance) == 1, "its repetition has its own time"
    rig.submit(make_container(2))
    assert rig.started_on()["c-2"] == "i-002"
    error = CloudError("no")
    command = last(rig, DestroyInstance)
    rig.send(DestroyFailed(op_id=command.op_id, instance_id="i-001", error=error))
    assert worker_of(rig).health.last_error == "destroy: no"


def test_an_exit_during_a_shutdown_counts_and_moves_nothing() -> None:
    rig = running()
    rig.silent.add(DestroyInstance)
    behave(rig, IdleBehavior.DRAIN)
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=SUCCESS))
    rig.exit("c-1-1")
    lose_session(rig)
    rig.advance(5)
    assert rig.states() == {"c-1": "succeeded"}
    assert rig.worker_states() == {"i-001": "shutdown"}


def test_a_held_worker_over_its_time_goes_when_it_is_let_go() -> None:
    rig = Rig(pool=PoolSettings(boot_timeout_s=300), settings=ONE)
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    behave(rig, IdleBehavior.HOLD)
    rig.advance(1000)
    assert rig.worker_states() == {"i-001": "booting"}
    assert list(rig.launches), "its key is not proven yet, so its secret is needed"
    behave(rig, IdleBehavior.RUN)
    assert rig.cloud == {}
