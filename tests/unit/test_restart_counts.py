"""What a new process makes of instances that an earlier one had and no listing shows yet."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Constraints, SchedulerSettings
from longshore.dispatcher.domain.messages import InstanceKillRequested
from longshore.dispatcher.explain.instance_views import leak_report
from longshore.pool.leaks import LeakKind
from longshore.pool.messages import (
    CreateInstance,
    DestroyInstance,
    Probe,
    SignalAttempt,
    StartAttempt,
)
from longshore.pool.model import InstanceSeen
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type


def crashed_while_one_boots(max_instances: int, *, idle: bool = True) -> Rig:
    """Return a rig after a crash, with an idle t1, and a t4 that boots and no listing shows.

    Something runs on the t1 if it is not `idle`.
    """
    types = make_type(1), make_type(4), make_type(8)
    rig = Rig(*types, settings=SchedulerSettings(max_instances=max_instances))
    rig.submit(make_container(1))
    if idle:
        rig.exit("c-1-1")
    rig.silent.add(Probe)
    rig.submit(make_container(2, cpus=4))
    assert rig.created_types() == ["t1", "t4"]
    rig.hidden.add("i-002")
    rig.unreachable.add("i-002")
    rig.silent.clear()
    rig.crash()
    assert rig.engine.pool.workers["i-002"].cloud.remembered
    assert rig.engine.pool.expected_launches() == []
    return rig


def show(rig: Rig) -> None:
    """Let listings show what is in the cloud, and all of it be reached."""
    rig.hidden.clear()
    rig.unreachable.clear()


def instances(rig: Rig) -> int:
    return rig.engine.scheduling.view(rig.now).limits.instances


def test_an_instance_that_listings_lack_and_its_launch_count_once() -> None:
    rig = crashed_while_one_boots(max_instances=3)
    assert instances(rig) == 2
    assert rig.created_types() == [], "what was bought for c-2 is too new for listings"
    rig.submit(make_container(3, cpus=4))
    assert rig.created_types() == ["t4"], "there is room for a third"
    assert rig.worker_states()["i-001"] == "idle", "nobody needs its place"
    assert instances(rig) == 3
    show(rig)
    rig.advance(3)
    assert instances(rig) == 3
    assert sorted(rig.started_on().values()) == ["i-002", "i-003"]


def test_it_still_counts_when_its_launch_is_hoped_for_no_more() -> None:
    rig = crashed_while_one_boots(max_instances=2, idle=False)
    rig.advance(100)
    assert instances(rig) == 2, "its instance is in the store, and the listings may be behind"
    assert last_commands(rig, CreateInstance) == []
    show(rig)
    del rig.cloud["i-002"]
    rig.advance(11)
    assert "i-002" not in rig.engine.pool.workers, "the cloud says that it has ended"
    assert rig.created_types() == ["t4"]


def test_one_that_is_listed_without_its_token_stands_for_its_launch() -> None:
    rig = crashed_while_one_boots(max_instances=3)
    (token,) = rig.engine.pool.launches
    seen = rig.cloud["i-002"]
    tags = tuple(tag for tag in seen.tags if tag[0] != "longshore-token")
    rig.silent.add(Probe)
    rig.cloud["i-002"] = InstanceSeen(id="i-002", address=seen.address, tags=tags)
    show(rig)
    rig.advance(3)
    worker = rig.engine.pool.workers["i-002"]
    assert (worker.token, instances(rig)) == (token, 2), "the store knows what made it"


def test_one_that_no_listing_ever_showed_serves_its_claim_as_soon_as_it_is_reached() -> None:
    rig = crashed_while_one_boots(max_instances=2)
    rig.unreachable.clear()
    rig.advance(3)
    assert rig.hidden == {"i-002"}
    assert rig.started_on() == {"c-2": "i-002"}
    assert rig.created_types() == []


def test_one_that_was_shown_to_the_process_before_gets_no_work_until_it_is_shown() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.hidden.add("i-001")
    rig.crash()
    assert rig.engine.pool.workers["i-001"].link.session_up
    rig.submit(make_container(2))
    assert rig.started_on() == {"c-2": "i-002"}, "the first may be held, for all that is known"


def test_one_that_no_listing_shows_is_kept_though_nobody_needs_it() -> None:
    rig = crashed_while_one_boots(max_instances=2)
    rig.cancel("c-2")
    rig.unreachable.clear()
    rig.advance(100)
    assert rig.worker_states() == {"i-002": "idle"}, "an earlier process may have let it be held"
    show(rig)
    rig.advance(11)
    assert rig.worker_states() == {}


def test_one_that_no_listing_ever_showed_stands_for_nobody_who_makes_way() -> None:
    rig = crashed_while_one_boots(max_instances=2)
    rig.cancel("c-2")
    rig.unreachable.clear()
    rig.advance(20)
    assert rig.worker_states() == {"i-001": "idle", "i-002": "idle"}
    rig.submit(make_container(3, cpus=1, constraints=Constraints(instance_types=("t8",))))
    rig.advance(1)
    assert [each.instance_id for each in last_commands(rig, DestroyInstance)] == ["i-001"]


# ---- what runs there -----------------------------------------------------------------------------


def crashed_while_one_runs() -> Rig:
    """Return a rig after a crash: c-1 runs on i-001, which is neither listed nor reached."""
    rig = Rig(make_type(1), settings=SchedulerSettings(max_containers=1))
    rig.submit(make_container(1))
    rig.hidden.add("i-001")
    rig.unreachable.add("i-001")
    rig.crash()
    assert rig.engine.pool.workers["i-001"].cloud.remembered
    return rig


def test_what_runs_where_no_listing_shows_runs_until_the_listings_had_their_time() -> None:
    rig = crashed_while_one_runs()
    rig.submit(make_container(2))
    rig.advance(100)
    assert rig.states() == {"c-1": "running", "c-2": "queued"}, "it counts as running"
    show(rig)
    rig.advance(15)
    assert rig.engine.pool.workers["i-001"].load.attempts.keys() == {"c-1-1"}
    assert last_commands(rig, StartAttempt) == []
    rig.exit("c-1-1")
    assert rig.states() == {"c-1": "succeeded", "c-2": "running"}


def test_a_cancel_reaches_it_when_a_listing_shows_it() -> None:
    rig = crashed_while_one_runs()
    rig.cancel("c-1")
    rig.advance(10)
    assert rig.states() == {"c-1": "running"}, "it may run"
    assert last_commands(rig, SignalAttempt) == [], "there is nobody to tell"
    show(rig)
    rig.advance(20.5)
    assert [(s.attempt_id, s.signal) for s in last_commands(rig, SignalAttempt)][:1] == [
        ("c-1-1", "TERM")
    ]


def test_a_cancel_holds_when_it_never_shows() -> None:
    rig = crashed_while_one_runs()
    rig.cancel("c-1")
    rig.advance(250)
    assert rig.states() == {"c-1": "cancelled"}
    assert rig.created_types() == []


def test_a_priority_of_0_holds_it_back_when_it_never_shows() -> None:
    rig = crashed_while_one_runs()
    rig.set_priority("c-1", 0)
    rig.advance(250)
    assert rig.states() == {"c-1": "queued"}
    rig.advance(100)
    assert rig.created_types() == []
    rig.set_priority("c-1", 5)
    assert rig.states() == {"c-1": "running"}


# ---- what answers, and no listing shows ----------------------------------------------------------


def test_what_answers_and_no_listing_shows_is_a_leak_and_can_be_killed() -> None:
    rig = crashed_while_one_runs()
    rig.unreachable.clear()
    rig.advance(61)
    assert rig.engine.pool.workers["i-001"].link.session_up
    (leak,) = leak_report(rig.view, rig.now).leaks
    assert (leak.instance_id, leak.kind) == ("i-001", LeakKind.MISSING)
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason="wrong region"))
    assert rig.worker_states() == {"i-001": "shutdown"}
    assert [each.instance_id for each in last_commands(rig, DestroyInstance)] == ["i-001"]


def test_what_neither_answers_nor_is_listed_is_killed_when_a_listing_shows_it() -> None:
    rig = crashed_while_one_runs()
    rig.silent.add(DestroyInstance)
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    assert last_commands(rig, DestroyInstance) == [], "the cloud would not know it"
    rig.hidden.clear()
    rig.advance(61)
    assert rig.worker_states() == {"i-001": "shutdown"}
