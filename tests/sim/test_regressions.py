"""What the simulation found, each as the shortest story that leads there."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Constraints,
    Placement,
    Retries,
    SchedulerSettings,
)
from longshore.dispatcher.domain.jobs import JobState, JobType, UpdateStrategy
from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    InstanceKillRequested,
    JobHoldRequested,
)
from longshore.drivers.errors import CapacityError, ErrorScope, QuotaError
from longshore.drivers.interface import IDLE_BEHAVIOR_TAG, Resources
from longshore.pool.messages import (
    AttemptExited,
    CreateInstance,
    DestroyInstance,
    Listed,
    ListInstances,
    LogComplete,
    Probe,
    SessionLost,
    SetTags,
    SignalAttempt,
    StartAttempt,
)
from longshore.pool.model import AttemptExit, ExitKind, IdleBehavior, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.rigs.per_instance_jobs import FOO, LONG, DaemonRig, daemon
from tests.samples import make_container, make_type
from tests.sim.shortages import Shortages


def test_no_attempt_ends_before_it_began_when_the_clock_is_set_back() -> None:
    """Seed 0, on the first day: a newer process's clock was two hours behind."""
    rig = Rig()
    rig.submit(make_container(1))
    rig.now -= 7200
    rig.crash()
    rig.exit("c-1-1")
    attempt = rig.attempts["c-1-1"]
    assert attempt.started_at is not None
    assert attempt.finished_at is not None
    assert attempt.finished_at >= attempt.started_at


def test_a_hold_whose_tags_are_late_survives_a_crash() -> None:
    """Seed 88: the tags came after a newer process had read the old ones, and were written over."""
    rig = Rig()
    rig.submit(make_container(1))
    rig.silent.add(SetTags)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    rig.crash()
    assert rig.engine.pool.workers["i-001"].behavior is IdleBehavior.HOLD
    rig.silent.discard(SetTags)
    rig.advance(60)
    assert dict(rig.cloud["i-001"].tags)[IDLE_BEHAVIOR_TAG] == "hold"
    rig.advance(60)
    assert rig.instances["i-001"].behavior == "", "the tags say it now"
    rig.exit("c-1-1")
    rig.advance(3600)
    assert "i-001" in rig.cloud
    assert len(last_commands(rig, StartAttempt)) == 0, "since the crash"


def test_an_instance_too_new_for_the_listings_survives_a_crash_with_what_runs_there() -> None:
    """Seed 427: the first listing of the next process lacked it, and its container ran twice."""
    rig = Rig()
    rig.submit(make_container(1))
    rig.hidden.add("i-001")
    rig.crash()
    rig.advance(20)
    rig.hidden.clear()
    rig.advance(20)
    assert rig.attempts["c-1-1"].outcome is None
    assert rig.engine.pool.workers["i-001"].link.host_key, "its key is still known"
    rig.exit("c-1-1")
    assert rig.states() == {"c-1": "succeeded"}
    assert len(rig.attempts) == 1


def test_what_may_have_run_is_not_tried_again_where_a_loss_is_final() -> None:
    """Seed 1: a start had no answer, its instance went, and "never started" was a guess."""
    rig = Rig()
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1, retry_lost=False))
    assert len(last_commands(rig, StartAttempt)) == 1
    rig.advance(3)
    rig.cloud.clear()
    rig.advance(120)
    assert rig.states() == {"c-1": "failed"}


def test_a_new_instance_that_does_not_end_is_not_gone_because_no_listing_shows_it_yet() -> None:
    """Seed 1622: it was killed, the destroy failed, the listings lagged; its container ran on."""
    rig = Rig()
    rig.submit(make_container(1))
    rig.silent.add(DestroyInstance)
    rig.engine.pool.workers["i-001"].cloud.listed = False
    new = rig.cloud.pop("i-001")
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    rig.advance(20)
    assert rig.states() == {"c-1": "running"}, "it may be too new for the cloud's listings"
    rig.cloud["i-001"] = new
    rig.advance(20)
    assert "i-001" in rig.engine.pool.workers
    del rig.cloud["i-001"]
    rig.advance(20)
    assert rig.attempts["c-1-1"].outcome is AttemptOutcome.LOST


def test_an_instance_whose_last_attempt_survives_kill_is_kept_for_the_logs_of_the_others() -> None:
    """Seed 123: it was ended at the exit of the other one, whose log went with it."""
    rig = Rig(make_type(2))
    rig.submit(make_container(1), make_container(2))
    rig.cancel("c-1")
    rig.advance(120 + 15)
    how = AttemptExit(kind=ExitKind.EXITED, code=0)
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-2-1", exit=how))
    assert rig.worker_states() == {"i-001": "running"}
    rig.send(LogComplete(worker_id="i-001", attempt_id="c-2-1"))
    assert rig.attempts["c-2-1"].log_complete
    assert "i-001" not in rig.cloud


def test_an_instance_that_speaks_to_us_is_there_whatever_one_listing_says() -> None:
    """Seed 636: a listing lacked it for once; its container was tried again while it ran."""
    rig = Rig()
    rig.submit(make_container(1))
    rig.advance(5)
    worker = rig.engine.pool.workers["i-001"]
    assert worker.cloud.listed
    rig.silent.add(ListInstances)
    rig.advance(60)
    op_id = rig.engine.pool.listing_op
    rig.send(Listed(op_id=op_id, began_at=rig.now, instances=()))
    assert "i-001" in rig.engine.pool.workers
    assert rig.states() == {"c-1": "running"}
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now - 20, reason="no heartbeat"))
    rig.advance(60)
    rig.send(Listed(op_id=rig.engine.pool.listing_op, began_at=rig.now, instances=()))
    assert rig.attempts["c-1-1"].outcome is None, "nor does the next, while nobody says it is gone"


def test_an_instance_that_tells_an_exit_is_not_silent() -> None:
    """Seed 133: it was shut down while its new session told an exit, before the probe had ended."""
    rig = Rig()
    rig.submit(make_container(1))
    rig.submit(make_container(2))
    rig.silent.add(Probe)
    lost_at = rig.now
    rig.send(SessionLost(worker_id="i-001", last_contact=lost_at, reason="reset"))
    rig.advance(rig.pool_settings.probe_timeout_s - 5)
    rig.exit("c-1-1")
    rig.advance(30)
    assert "i-001" in rig.cloud, "it spoke half a minute ago"
    rig.advance(rig.pool_settings.probe_timeout_s)
    assert "i-001" not in rig.cloud, "it is silent since"


def test_no_instance_is_judged_by_what_was_never_seen_to_start_there() -> None:
    """Seed 10778: a start was on its way for half a minute, and KILLs were counted meanwhile."""
    rig = Rig()
    rig.boot("t1")
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    assert last_commands(rig, StartAttempt)
    rig.cancel("c-1")
    settings = rig.pool_settings
    rig.advance(settings.term_timeout_s + 10 * settings.signal_interval_s)
    signals = [command.signal for command in last_commands(rig, SignalAttempt)]
    assert len(signals) > settings.term_timeout_s / settings.signal_interval_s
    assert set(signals) == {"TERM"}
    assert not next(iter(rig.engine.pool.workers.values())).health.verdict


def test_a_hold_that_is_asked_for_again_is_remembered_though_nothing_seems_to_change() -> None:
    """Seed 10711: somebody else's tags, which no listing had shown, were taken for the wish."""
    rig = Rig()
    rig.submit(make_container(1))
    (worker_id,) = rig.engine.pool.workers
    rig.silent.add(SetTags)
    pool = rig.engine.pool
    worker = pool.workers[worker_id]
    worker.behavior = IdleBehavior.HOLD
    assert not worker.untagged, "a listing has shown it"
    rig.send(BehaviorRequested(worker_id=worker_id, behavior=IdleBehavior.HOLD))
    assert pool.asked_behaviors == {worker_id: IdleBehavior.HOLD}
    assert rig.instances[worker_id].behavior == "hold"


def test_a_quota_of_the_whole_account_is_nobodys_way_past_another_quota_group() -> None:
    """Seed 16494: it was held as one of a group; a lower one of another took what came free."""
    rig = Rig(
        make_type(1),
        make_type(4, name="gpu", price="0.9"),
        settings=SchedulerSettings(placement=Placement.EXCLUSIVE),
        pool=PoolSettings(quota_hold_s=3600, sync_interval_s=1),
        quota_groups={"t1": "small", "gpu": "big"},
    )
    quota = QuotaError("1 at most", scope=ErrorScope.ALL)
    rig.create_error = lambda _command: quota if rig.cloud else None
    small, big = Constraints(instance_types=("t1",)), Constraints(instance_types=("gpu",))
    rig.submit(make_container(1, constraints=big))
    rig.advance(5)
    rig.submit(make_container(2, constraints=small, priority=900))
    rig.submit(make_container(3, constraints=big, priority=100))
    rig.exit("c-1-1")
    rig.advance(30)
    assert rig.started_on().keys() == {"c-1", "c-2"}, "c-3 is the least important"


def test_a_job_that_is_to_run_once_where_no_instance_is_ends() -> None:
    """Seed 8: it came before the first listing, and nobody looked at it again."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.silent.add(ListInstances)
    rig.crash()
    rig.submit_daemon(daemon(type_=JobType.SYSBATCH, late_joiners=False))
    rig.silent.discard(ListInstances)
    rig.crash()
    rig.advance(60)
    assert rig.jobs["j-1"].state is JobState.SUCCEEDED


def test_a_job_that_is_to_run_once_ends_when_the_last_that_may_take_it_joined_too_late() -> None:
    """Seed 8: an instance that was not ready yet kept it open, and was not for it after all."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.silent.add(Probe)
    rig.boot("t1")
    rig.advance(60)
    rig.submit_daemon(daemon(type_=JobType.SYSBATCH, late_joiners=False, constraints=FOO))
    assert rig.jobs["j-1"].state is JobState.SUCCEEDED, "it matches none"
    job = daemon(2, type_=JobType.SYSBATCH, late_joiners=False)
    rig.submit_daemon(job)
    assert not rig.jobs["j-2"].state.final, "one may take it yet"
    (worker_id,) = rig.engine.pool.workers
    rig.send(InstanceKillRequested(worker_id=worker_id, reason="by chance"))
    rig.advance(60)
    assert rig.jobs["j-2"].state is JobState.SUCCEEDED


def test_a_held_job_begins_no_round_of_updates() -> None:
    """Seed 33: what was not carried out, since the job was held, counted as begun."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=2)
    rig.submit_daemon(daemon(update=UpdateStrategy(max_parallel=1, stagger_s=1000)))
    rig.starts()
    rig.send(JobHoldRequested(job_id="j-1", held=True))
    rig.revise("j-1", env=(("A", "1"),))
    assert rig.starts() == []
    rig.send(JobHoldRequested(job_id="j-1", held=False))
    assert len(rig.starts()) == 1


def test_a_container_that_is_made_while_its_job_is_held_says_so() -> None:
    """Seed 7: it waited without a reason."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.submit_daemon(replace(daemon(), held=True))
    rig.join()
    (container,) = rig.of_job("j-1")
    reason = rig.engine.why_waiting(container.id)
    assert reason is not None
    assert reason.code == "job_held"


def test_who_would_make_way_for_a_held_job_is_updated_all_the_same() -> None:
    """Seed 98, with 10 such jobs: whom the held one would evict got no revision."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(1, cpus=800, priority=100))
    ((attempt_id, _),) = rig.starts()
    rig.submit_daemon(replace(daemon(2, cpus=800, priority=900), held=True))
    rig.revise("j-1", retries=Retries(delay_s=99))
    assert rig.attempts[attempt_id].revision == 2
    assert rig.attempts[attempt_id].intended_outcome is None


def test_a_held_job_keeps_no_room_from_those_that_matter_less() -> None:
    """Found beside seed 98: room was kept for what did not start."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(replace(daemon(2, cpus=800, priority=900), held=True))
    rig.submit_daemon(daemon(1, cpus=800, priority=100))
    (low,) = rig.starts()
    assert rig.attempts[low[0]].container_id == rig.of_job("j-1")[0].id
    rig.send(JobHoldRequested(job_id="j-2", held=False))
    (high,) = rig.starts()
    assert rig.attempts[high[0]].container_id == rig.of_job("j-2")[0].id
    assert rig.attempts[low[0]].outcome is AttemptOutcome.PREEMPTED


def test_nobody_makes_way_for_a_daemon_that_is_held_back_on_its_instance() -> None:
    """Found beside seed 98: what was evicted for it found its room kept for nothing."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(replace(daemon(2, cpus=800, priority=900), held=True))
    (container,) = rig.of_job("j-2")
    rig.set_priority(container.id, 0)
    rig.submit_daemon(daemon(1, cpus=800, priority=100))
    ((low, _),) = rig.starts()
    rig.send(JobHoldRequested(job_id="j-2", held=False))
    assert rig.attempts[low].intended_outcome is None
    rig.revise("j-1", retries=Retries(delay_s=99))
    assert rig.attempts[low].revision == 2
    rig.set_priority(container.id, 900)
    ((high, _),) = rig.starts()
    assert rig.attempts[high].container_id == container.id


def test_what_was_stopped_and_went_with_its_instance_was_stopped() -> None:
    """Seed 83: it was recorded as lost."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon())
    ((attempt_id, where),) = rig.starts()
    rig.deaf = True
    rig.revise("j-1", constraints=FOO)
    assert rig.attempts[attempt_id].intended_outcome is AttemptOutcome.CANCELLED
    del rig.cloud[where]
    rig.advance(120)
    assert rig.attempts[attempt_id].outcome is AttemptOutcome.CANCELLED


def test_who_has_room_on_one_new_type_only_waits_while_the_cloud_is_short_of_that() -> None:
    """Seed 108: the pass failed that looked for what keeps the other type, on which is no room."""
    rig = DaemonRig(
        make_type(1),
        make_type(2),
        pool=LONG,
        settings=SchedulerSettings(max_price_factor=10, preempt_system=False),
    )
    rig.create_error = lambda _command: CapacityError("none left", scope=ErrorScope.TYPE)
    rig.submit_daemon(daemon(cpus=500))
    rig.submit(make_container(1, cpus=1))
    rig.advance(5)
    reason = rig.engine.why_waiting("c-1")
    assert reason is not None
    assert reason.code == "at_capacity"


def test_a_daemon_is_not_kept_waiting_by_a_clock_that_was_set_back() -> None:
    """Seed 146: it waited for the moment at which its last attempt had ended."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(retries=Retries(delay_s=15)))
    ((first, _),) = rig.starts()
    rig.exit(first)
    ((second, _),) = rig.starts()
    rig.exit(second)
    rig.now -= 500
    rig.crash()
    rig.advance(60)
    assert len(rig.starts()) == 1


def test_rounds_of_a_held_job_are_over_in_time_though_the_clock_was_set_back() -> None:
    """Seed 3963: that of before a restart lay in the future until the job was released."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=2)
    rig.submit_daemon(daemon(update=UpdateStrategy(max_parallel=1, stagger_s=100)))
    rig.starts()
    rig.revise("j-1", env=(("A", "1"),))
    assert len(rig.starts()) == 1
    rig.jobs["j-1"] = replace(rig.jobs["j-1"], held=True)
    rig.now -= 500
    rig.crash()
    rig.advance(200)
    assert rig.starts() == []
    rig.send(JobHoldRequested(job_id="j-1", held=False))
    assert len(rig.starts()) == 1


def test_who_is_updated_keeps_its_room_from_others_while_somebody_is_slow_to_end() -> None:
    """Seed 36, with 12 such jobs: another had it, since all was to fit once others had ended."""
    rig = DaemonRig(make_type(1), pool=LONG)
    (where,) = rig.join()
    rig.submit_daemon(daemon(1, cpus=300))
    rig.submit_daemon(daemon(2, cpus=400))
    (old, _), _ = rig.starts()
    rig.deaf = True
    rig.set_priority(rig.of_job("j-2")[0].id, 0)
    rig.revise("j-1", resources=Resources(cpu_millis=500, memory_bytes=1))
    assert rig.attempts[old].intended_outcome is not None
    rig.submit_daemon(daemon(3, cpus=300, priority=100))
    assert rig.starts() == []
    rig.terminated(where, old)
    rig.settle()
    ((new, _),) = rig.starts()
    assert rig.attempts[new].container_id == rig.of_job("j-1")[0].id


def test_no_more_room_is_kept_than_is_free_once_somebody_uses_the_cpu_that_is_shared() -> None:
    """Seed 11779: who waited for its restart had a cpu of its own kept, beside the one in use."""
    rig = DaemonRig(make_type(2), pool=LONG)
    (where,) = rig.join("t2")
    rig.submit_daemon(daemon(1, cpus=0, priority=900, retries=Retries(delay_s=99)))
    for attempt_id in ("c-1000001-1", "c-1000001-2"):
        rig.exit(attempt_id)
    rig.silent.add(StartAttempt)
    rig.submit_daemon(daemon(2, cpus=0, priority=100))
    assert rig.engine.workloads.reservations()[where].cpu_millis == 0


def test_what_an_earlier_process_created_counts_for_how_many_a_quota_allows() -> None:
    """Seed 376: a listing showed it, and another as many as by then were taken for too many."""
    t1 = make_type(1)
    rig = Rig(t1, pool=PoolSettings(idle_timeout_s=3600, quota_hold_s=600))
    rig.submit(make_container(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(2))
    _, earlier = last_commands(rig, CreateInstance)
    rig.crash()
    account = Shortages(rig.engine, 0.0)
    refused = QuotaError("no more", scope=ErrorScope.ALL)
    rig.silent.clear()
    rig.create_error = lambda _command: refused
    rig.submit(make_container(3))
    account.failed(t1, refused, rig.now, rig.now)
    (first,) = rig.worker_states()
    rig.boot("t1", longshore_token=earlier.launch.token)
    rig.advance(61)
    account.look(rig.now)
    assert len(rig.worker_states()) == 2
    rig.silent.add(CreateInstance)
    del rig.cloud[first]
    rig.advance(61)
    account.look(rig.now)
    *_, later = last_commands(rig, CreateInstance)
    account.created(later.op_id, t1, rig.now)
    assert [scope for _, scope in account.quotas.held(rig.now)] == [()], "within its hold"
