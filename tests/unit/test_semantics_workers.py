"""The rules of the pool below the table of states, as far as they are about workers."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from longshore.dispatcher.domain.messages import InstanceKillRequested
from longshore.drivers.errors import AmbiguousResult
from longshore.drivers.interface import IDLE_BEHAVIOR_TAG, TOKEN_TAG
from longshore.pool.messages import Created, CreateInstance, ListInstances, Probe, SetTags
from longshore.pool.model import IdleBehavior
from longshore.pool.probing import takes_work
from tests.rigs.engine import last_commands
from tests.rigs.semantics import QUICK, rig_of, running, signals
from tests.samples import make_container, make_type

# ---- an unknown worker's run probe runs even if the boot probe fails -----------------------------


def test_what_runs_on_an_unknown_worker_is_found_though_its_boot_probe_fails() -> None:
    rig = running(cpus=2)
    rig.boot_errors["i-001"] = "not yet"
    rig.crash()
    assert rig.last(Probe).look_anyway
    rig.advance(30)
    worker = rig.worker("i-001")
    assert (worker.state.value, worker.health.last_error) == ("unknown", "boot: not yet")
    assert worker.link.session_up
    assert worker.link.host_key == "ssh-ed25519 AAAA"
    rig.submit(make_container(2))
    assert rig.states()["c-2"] == "locked", "it takes no work before it has booted"
    rig.cancel("c-1")
    assert signals(rig) == ["TERM"], "the session is used"
    rig.exit("c-1-1")
    assert rig.states()["c-1"] == "cancelled"
    del rig.boot_errors["i-001"]
    rig.advance(11)
    assert rig.states()["c-2"] == "running"
    assert rig.worker("i-001").health.last_error == ""


def test_what_is_missing_on_an_unknown_worker_is_concluded_and_its_strays_are_ended() -> None:
    rig = running()
    rig.boot_errors["i-001"] = "not yet"
    rig.on_instance["i-001"].clear()
    rig.run_on("i-001", "c-9-1")
    rig.crash()
    assert rig.outcome("c-1-1") == "lost"
    assert signals(rig) == ["TERM"]


def test_an_unknown_worker_is_probed_again_after_the_interval_though_its_session_is_up() -> None:
    rig = rig_of()
    rig.adopt()
    rig.advance(1)
    probes = rig.count(Probe)
    assert probes == 1
    rig.advance(8)
    assert rig.count(Probe) == probes
    rig.advance(4)
    assert rig.count(Probe) == probes + 1


def test_a_booting_worker_is_not_looked_at_before_it_has_booted() -> None:
    rig = rig_of()
    rig.boot_errors["i-001"] = "not yet"
    rig.submit(make_container(1))
    worker = rig.worker("i-001")
    assert not rig.last(Probe).look_anyway
    assert (worker.state.value, worker.link.session_up) == ("booting", False)


def test_an_instance_that_ran_something_is_no_boot_failure_for_a_boot_probe_that_fails() -> None:
    rig = rig_of(pool=msgspec.structs.replace(QUICK, term_timeout_s=100_000), instances=9)
    for number in range(3):
        rig.adopt("t1", f"c-{number}-1")
    rig.advance(110)
    assert set(rig.worker_states().values()) == {"shutdown"}
    assert rig.engine.pool.boot_failures == 0


# ---- hold overrides every automatic shutdown -----------------------------------------------------


def test_hold_overrides_the_timeouts_of_booting_probing_and_idling() -> None:
    rig = rig_of(instances=9)
    new = rig.adopt("t1", longshore_idle_behavior="hold")
    idle = rig.boot("t1", longshore_idle_behavior="hold")
    silent = rig.boot("t1", longshore_idle_behavior="hold")
    rig.advance(5)
    rig.silent.add(Probe)
    rig.lose_session(silent)
    rig.advance(1000)
    assert rig.worker_states() == {new: "unknown", idle: "idle", silent: "idle"}
    for worker_id in (new, idle, silent):
        rig.behave(worker_id, IdleBehavior.RUN)
    assert set(rig.worker_states().values()) == {"shutdown"}


def test_who_waits_for_an_instance_that_is_held_has_it_when_it_is_let_run_again() -> None:
    rig = rig_of(instances=1)
    held = rig.boot("t1", longshore_idle_behavior="hold")
    rig.advance(5)
    rig.submit(make_container(1))
    rig.advance(1000)
    assert (rig.states(), rig.worker_states()) == ({"c-1": "queued"}, {held: "idle"})
    rig.behave(held, IdleBehavior.RUN)
    assert (rig.states(), rig.worker_states()) == ({"c-1": "running"}, {held: "running"})


def test_hold_overrides_the_quota_and_a_type_that_is_not_configured() -> None:
    rig = rig_of(1, 2)
    held = rig.boot("t1", longshore_idle_behavior="hold")
    strange = rig.boot("t-old", longshore_idle_behavior="hold")
    rig.advance(5)
    rig.submit(make_container(1, cpus=2))
    rig.advance(5)
    assert rig.worker_states() == {held: "idle", strange: "idle"}


# ---- start, listing, adoption --------------------------------------------------------------------


def test_until_the_first_listing_nothing_is_created_started_or_lost() -> None:
    rig = running()
    rig.crash(listed=False)
    rig.submit(make_container(2))
    rig.advance(1000)
    assert rig.kinds() == ["ListInstances"]
    assert rig.outcome("c-1-1") == ""
    rig.silent.discard(ListInstances)
    rig.list_now(rig.last(ListInstances).op_id)
    rig.settle()
    assert rig.kinds()[1] == "Probe"


def test_listings_come_at_once_then_every_sync_interval_and_sooner_while_a_destroy_is_pending() -> (
    None
):
    rig = rig_of(pool=msgspec.structs.replace(QUICK, sync_interval_s=60))
    made = rig.boot("t1", longshore_idle_behavior="hold")
    assert rig.count(ListInstances) == 1
    rig.advance(59)
    assert rig.count(ListInstances) == 1
    rig.advance(61)
    assert rig.count(ListInstances) == 3
    rig.behave(made, IdleBehavior.DRAIN)
    rig.advance(10)
    assert rig.count(ListInstances) >= 6


def test_the_idle_behavior_comes_back_from_the_tags() -> None:
    rig = running()
    rig.behave("i-001", IdleBehavior.HOLD)
    rig.crash()
    assert rig.worker("i-001").behavior is IdleBehavior.HOLD


def test_an_instance_of_a_type_that_is_not_configured_drains_and_its_tag_says_nothing_of_it() -> (
    None
):
    rig = rig_of(instances=9)
    empty, busy = rig.boot("t-old"), rig.boot("t-old")
    held = rig.boot("t-old", longshore_idle_behavior="hold")
    rig.run_on(busy, "c-9-1")
    rig.advance(3)
    assert rig.worker_states() == {empty: "shutdown", busy: "running", held: "idle"}
    assert not takes_work(rig.engine.pool, rig.worker(busy), rig.now)
    assert rig.count(SetTags) == 0
    assert dict(rig.cloud[busy].tags)[IDLE_BEHAVIOR_TAG] == "run"
    rig.types["t-old"] = make_type(1, name="t-old")
    rig.crash()
    rig.advance(3)
    assert rig.worker(busy).behavior is IdleBehavior.RUN
    rig.submit(make_container(1))
    assert rig.started_on()["c-1"] in (empty, busy)


def test_tags_that_differ_are_saved_again() -> None:
    rig = rig_of()
    rig.boot("t1", longshore_idle_behavior="nonsense")
    rig.advance(3)
    assert dict(rig.last(SetTags).tags)[IDLE_BEHAVIOR_TAG] == "run"
    assert rig.count(SetTags) == 1


# ---- a listing may race a create -----------------------------------------------------------------


def test_an_instance_without_its_token_yet_stands_for_a_pending_create() -> None:
    rig = rig_of(instances=4)
    early = rig.boot("t1", longshore_idle_behavior="hold")
    rig.advance(2)
    rig.silent |= {CreateInstance, Probe}
    rig.submit(make_container(1), make_container(2))
    creates = last_commands(rig, CreateInstance)
    pool = rig.engine.pool
    assert (len(creates), len(pool.expected_launches())) == (2, 2)
    made = rig.boot("t1")
    rig.advance(2)
    assert [p.launch.token for p in pool.expected_launches()] == [creates[1].launch.token]
    assert rig.engine.scheduling.view(rig.now).limits.instances == 3
    more = [rig.boot("t1"), rig.boot("t1")]
    rig.silent.discard(Probe)
    rig.advance(3)
    assert [rig.state(each) for each in more] == ["running", "running"]
    assert pool.expected_launches() == [], "at most as many as are pending"
    seen = rig.cloud[made]
    rig.send(Created(op_id=creates[0].op_id, token=creates[0].launch.token, instance=seen))
    assert rig.worker(made).token == creates[0].launch.token
    assert [rig.worker(each).token for each in (early, *more)] == ["", "", ""]
    assert rig.engine.scheduling.view(rig.now).limits.instances == 4


def test_an_instance_stands_for_no_create_that_began_after_it_was_seen() -> None:
    rig = rig_of(instances=5)
    rig.silent |= {CreateInstance, Probe}
    rig.submit(make_container(1))
    rig.boot("t1")
    rig.boot("t1", longshore_idle_behavior="hold")
    rig.advance(2)
    pool = rig.engine.pool
    assert (len(pool.workers), pool.expected_launches()) == (2, [])
    rig.submit(make_container(2))
    (_, second) = last_commands(rig, CreateInstance)
    assert [p.launch.token for p in pool.expected_launches()] == [second.launch.token]
    rig.boot("t1")
    rig.advance(2)
    assert pool.expected_launches() == [], "this one may be it"


def test_an_instance_with_its_token_stands_for_its_own_create_only() -> None:
    rig = rig_of(instances=4)
    rig.silent |= {CreateInstance, Probe}
    rig.submit(make_container(1), make_container(2))
    first, second = (c.launch.token for c in last_commands(rig, CreateInstance))
    rig.boot("t1", longshore_token=first)
    rig.advance(2)
    assert [p.launch.token for p in rig.engine.pool.expected_launches()] == [second]


def test_an_instance_that_is_being_ended_stands_for_no_create() -> None:
    rig = rig_of(instances=4)
    rig.silent |= {CreateInstance, Probe}
    rig.submit(make_container(1))
    made = rig.boot("t1")
    rig.advance(2)
    assert rig.engine.pool.expected_launches() == []
    rig.send(InstanceKillRequested(worker_id=made, reason=""))
    assert len(rig.engine.pool.expected_launches()) == 1
    assert rig.count(CreateInstance) == 1


def test_an_instance_that_was_there_before_the_oldest_create_stands_for_none() -> None:
    rig = rig_of(instances=4)
    rig.silent.add(Probe)
    rig.boot("t1", longshore_idle_behavior="hold")
    rig.advance(2)
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    assert len(rig.engine.pool.expected_launches()) == 1


def test_a_token_that_a_later_listing_shows_is_taken() -> None:
    rig = rig_of()
    rig.create_error = lambda _command: AmbiguousResult("no answer")
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    token = rig.last(CreateInstance).launch.token
    made = rig.boot("t1")
    rig.advance(2)
    assert (rig.worker(made).token, rig.worker(made).link.secret) == ("", "")
    seen = rig.cloud[made]
    rig.cloud[made] = replace(seen, tags=(*seen.tags, (TOKEN_TAG, token)))
    rig.advance(2)
    assert (rig.worker(made).token, rig.worker(made).link.secret) == (token, "secret")


# ---- probes, sessions, quota ---------------------------------------------------------------------


def test_one_probe_at_a_time_and_one_whose_worker_changed_is_no_word_on_what_is_missing() -> None:
    rig = running(cpus=2)
    rig.silent.add(Probe)
    rig.lose_session("i-001")
    rig.advance(50)
    probe = rig.last(Probe)
    assert [c.op_id for c in last_commands(rig, Probe)].count(probe.op_id) == 1
    old = dict(rig.on_instance["i-001"])
    rig.on_instance["i-001"] = {}
    rig.worker("i-001").invalidate_probe()
    rig.engine.pool.attempts["c-1-1"].settled_op = rig.engine.pool.next_op()
    rig.probe_now(probe)
    assert rig.outcome("c-1-1") == ""
    rig.on_instance["i-001"] = old


@pytest.mark.parametrize("flap_s", [0.5, 3.0, 30.0])
def test_a_session_that_flaps_keeps_no_idle_worker_alive(flap_s: float) -> None:
    rig = running()
    rig.exit("c-1-1")
    idle_since = rig.now
    while rig.state("i-001") == "idle":
        rig.advance(flap_s)
        if rig.state("i-001") == "idle":
            rig.lose_session("i-001")
    assert rig.now - idle_since <= 60 + flap_s


def test_an_idle_worker_without_a_session_makes_room_at_quota() -> None:
    rig = rig_of(1, 2)
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.silent.add(Probe)
    rig.lose_session("i-001")
    rig.submit(make_container(2, cpus=2))
    assert rig.state("i-001") == "shutdown"


def test_an_idle_worker_that_was_offline_for_long_makes_room_at_quota() -> None:
    pool = msgspec.structs.replace(QUICK, idle_timeout_s=1000, probe_timeout_s=900)
    rig = rig_of(1, 2, pool=pool)
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.silent.add(Probe)
    rig.lose_session("i-001")
    rig.advance(200)
    assert rig.state("i-001") == "idle"
    rig.submit(make_container(2, cpus=2))
    assert rig.state("i-001") == "shutdown"
