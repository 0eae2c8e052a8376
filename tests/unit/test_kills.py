"""What an admin killed ends, whatever happens to the server before it is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome
from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.drivers.errors import CloudAuthError
from longshore.pool.messages import (
    CloseSession,
    Created,
    CreateInstance,
    DestroyFailed,
    DestroyInstance,
    ListInstances,
    Probe,
    SetTags,
    StartAttempt,
)
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

ROOMY = make_type(2)


def running(*, behavior: IdleBehavior = IdleBehavior.RUN) -> Rig:
    """Return a rig on whose i-001 container 1 runs, and whose cloud does not destroy it."""
    rig = Rig(ROOMY)
    rig.submit(make_container(1))
    if behavior is not IdleBehavior.RUN:
        rig.send(BehaviorRequested(worker_id="i-001", behavior=behavior))
        rig.advance(61)
    assert rig.worker_states() == {"i-001": "running"}
    rig.silent.add(DestroyInstance)
    return rig


def kill(rig: Rig, reason: str = "bad disk") -> None:
    rig.send(InstanceKillRequested(worker_id="i-001", reason=reason))


def end_reason(rig: Rig) -> str:
    return rig.engine.pool.workers["i-001"].shutdown.reason


def destroyed(rig: Rig) -> int:
    return len([c for c in last_commands(rig, DestroyInstance) if c.instance_id == "i-001"])


def test_a_kill_is_stored_before_the_first_destroy_goes_out() -> None:
    rig = running()
    rig.store_lags = True
    kill(rig)
    assert (rig.worker_states(), destroyed(rig)) == ({"i-001": "shutdown"}, 0)
    before = rig.instances["i-001"]
    rig.commit()
    assert rig.instances["i-001"] == replace(before, killed="bad disk")
    assert destroyed(rig) == 1


@pytest.mark.parametrize("behavior", IdleBehavior)
def test_a_kill_outlives_the_server_whatever_the_tags_say(behavior: IdleBehavior) -> None:
    rig = running(behavior=behavior)
    kill(rig)
    call = last_commands(rig, DestroyInstance)[-1]
    refused = CloudAuthError("ExpiredToken")
    rig.send(DestroyFailed(op_id=call.op_id, instance_id="i-001", error=refused))
    rig.crash()
    assert rig.worker_states()["i-001"] == "shutdown"
    assert end_reason(rig) == "an admin ended it: bad disk"
    assert destroyed(rig) == 1
    sent = [c for c in rig.sent if isinstance(c, Probe | StartAttempt) and c.worker_id == "i-001"]
    assert sent == [], "nothing of it is wanted any more"
    assert last_commands(rig, SetTags) == []


def test_what_runs_on_a_killed_instance_is_lost_with_it_and_nothing_new_comes_there() -> None:
    rig = running()
    kill(rig)
    rig.crash()
    rig.submit(make_container(2))
    assert rig.started_on() == {"c-2": "i-002"}, "i-001 has room, and is not to have it"
    assert rig.states()["c-1"] == "running", "only the cloud may say that it is gone"
    rig.silent.clear()
    rig.advance(30)
    assert rig.attempts["c-1-1"].outcome is AttemptOutcome.LOST
    assert rig.started_on()["c-1"] == "i-002"
    gone = rig.instances["i-001"]
    assert (gone.gone_at is not None, gone.gone_reason) == (True, "an admin ended it: bad disk")


def test_a_kill_without_a_reason_outlives_the_server_too() -> None:
    rig = running()
    kill(rig, reason="")
    assert rig.instances["i-001"].killed == ""
    rig.crash()
    assert (rig.worker_states(), end_reason(rig)) == ({"i-001": "shutdown"}, "an admin ended it")


def test_the_first_reason_stays() -> None:
    rig = running()
    kill(rig)
    kill(rig, reason="again")
    assert rig.instances["i-001"].killed == "bad disk"
    assert rig.engine.pool.asked_kills == {"i-001": "bad disk"}
    assert end_reason(rig) == "an admin ended it: bad disk"


def test_a_kill_of_what_is_being_shut_down_outlives_the_server() -> None:
    """Its destroy may fail too, and a new process knows nothing of why it was to go."""
    rig = Rig(pool=PoolSettings(idle_timeout_s=60))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.silent.add(DestroyInstance)
    rig.advance(61)
    assert (rig.worker_states(), destroyed(rig)) == ({"i-001": "shutdown"}, 1)
    kill(rig)
    assert destroyed(rig) == 1, "its repetition has its own time"
    rig.crash()
    assert (rig.worker_states(), destroyed(rig)) == ({"i-001": "shutdown"}, 1)


def test_an_instance_that_nobody_killed_goes_on() -> None:
    rig = running()
    rig.crash()
    assert rig.worker_states() == {"i-001": "running"}
    assert rig.instances["i-001"].killed is None


def test_a_killed_instance_that_one_listing_lacks_is_killed_when_the_next_shows_it() -> None:
    rig = running()
    seen, there = rig.cloud["i-001"], rig.on_instance["i-001"]
    kill(rig)
    del rig.cloud["i-001"]
    rig.advance(40)
    assert "i-001" not in rig.worker_states()
    rig.cloud["i-001"], rig.on_instance["i-001"] = seen, there
    rig.advance(61)
    assert rig.worker_states()["i-001"] == "shutdown"
    assert rig.instances["i-001"].gone_at is None


def test_a_killed_instance_is_not_revived_by_the_answer_of_its_create() -> None:
    rig = Rig()
    rig.silent |= {CreateInstance, DestroyInstance}
    rig.submit(make_container(1))
    (create,) = last_commands(rig, CreateInstance)
    made = rig.boot("t1", longshore_token=create.launch.token)
    seen = rig.cloud[made]
    rig.advance(61)
    kill(rig)
    del rig.cloud[made]
    rig.advance(30)
    assert rig.worker_states() == {}
    rig.sent.clear()
    rig.silent.add(ListInstances)
    rig.send(Created(op_id=create.op_id, token=create.launch.token, instance=seen))
    assert rig.worker_states() == {made: "shutdown"}
    assert [type(c) for c in rig.sent] == [CloseSession, DestroyInstance]


def test_a_kill_is_forgotten_an_hour_after_its_instance_is_gone() -> None:
    rig = running()
    rig.silent.clear()
    kill(rig)
    rig.advance(40)
    assert rig.instances["i-001"].gone_at is not None
    pool = rig.engine.pool
    assert pool.asked_kills == {"i-001": "bad disk"}, "a listing may have lacked it"
    rig.advance(3600)
    assert pool.asked_kills == {}


def test_a_kill_of_what_ended_while_no_process_ran_is_not_kept() -> None:
    rig = running()
    kill(rig)
    del rig.cloud["i-001"]
    rig.crash()
    assert rig.engine.pool.asked_kills == {"i-001": "bad disk"}
    rig.advance(31)
    assert rig.instances["i-001"].gone_at is not None
    rig.advance(3600)
    assert rig.engine.pool.asked_kills == {}
    rig.crash()
    assert rig.engine.pool.asked_kills == {}
