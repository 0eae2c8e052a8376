"""What a cloud says of how its instances stand: it is told, and what is of no use is ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import Attempt
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.dispatcher.explain.instance_views import gone_view, instance_report
from longshore.drivers.interface import Power
from longshore.pool.messages import Listed, ListInstances, Probe, SessionLost
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from tests.health import told
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

WHY = "Client.UserInitiatedShutdown: User initiated shutdown"
STOPPED = f"the cloud says that it is stopped: {WHY}"
KMS = "Client.InternalError: Client error on launch"


def running() -> Rig:
    """Return a rig with c-1 running on i-001, and nothing else."""
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.advance(5)
    assert (rig.states(), rig.worker_states()) == ({"c-1": "running"}, {"i-001": "running"})
    return rig


def stand(rig: Rig, power: Power, reason: str = WHY, *, silent: bool = True) -> None:
    """Let the cloud say how i-001 stands; one that is `silent` is not reached any more."""
    rig.cloud["i-001"] = replace(rig.cloud["i-001"], power=power, reason=reason)
    if silent:
        rig.unreachable.add("i-001")
        rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))


def shown(rig: Rig) -> list[str]:
    """Return what admins are told of each instance."""
    report = instance_report(rig.view, rig.now, heard_at=lambda _id: 0.0, cursor="", limit=10)
    return [each.cloud_says for each in report.instances]


def attempts(rig: Rig) -> list[Attempt]:
    """Return the attempts of c-1."""
    return list(rig.engine.table.containers["c-1"].attempts)


def worker(rig: Rig) -> Worker:
    return rig.engine.pool.workers["i-001"]


def test_what_two_listings_say_has_stopped_is_ended_and_its_work_goes_on_elsewhere() -> None:
    """It was shown as running, "Connection refused", for ten minutes."""
    rig = running()
    stand(rig, Power.STOPPED)
    rig.advance(rig.pool_settings.sync_interval_s + 1)
    assert rig.worker_states() == {"i-001": "running"}, "some clouds say so for a moment"
    rig.advance(rig.pool_settings.sync_interval_s + 1)
    record = rig.instances["i-001"]
    assert gone_view(record).last_error == STOPPED
    rig.advance(5)
    [first, second] = attempts(rig)
    assert first.reason is not None
    assert first.reason.message == f"its instance i-001 is gone ({STOPPED})"
    assert (second.instance_id, rig.states()) == ("i-002", {"c-1": "running"})
    assert told(rig) == []


def test_a_listing_that_tells_an_instance_twice_has_said_it_once() -> None:
    """One listing ended what its cloud calls stopped for a moment, if that came twice in it."""
    rig = running()
    stand(rig, Power.STOPPED)
    rig.silent.add(ListInstances)
    rig.advance(rig.pool_settings.sync_interval_s + 1)
    [listing] = last_commands(rig, ListInstances)[-1:]
    seen = rig.cloud["i-001"]
    rig.send(Listed(op_id=listing.op_id, began_at=rig.now, instances=(seen, seen)))
    assert rig.worker_states() == {"i-001": "running"}
    rig.silent.discard(ListInstances)
    rig.advance(rig.pool_settings.sync_interval_s + 1)
    assert "i-001" not in rig.engine.pool.workers


def test_who_has_a_session_is_there_whatever_a_listing_says() -> None:
    rig = running()
    stand(rig, Power.STOPPED, silent=False)
    rig.advance(300)
    assert (rig.worker_states(), shown(rig)) == ({"i-001": "running"}, [STOPPED])
    rig.cloud["i-001"] = replace(rig.cloud["i-001"], power=Power.ON, reason="")
    rig.advance(61)
    assert shown(rig) == [""]


def test_what_is_held_is_kept_and_told_until_it_is_let_go() -> None:
    rig = running()
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    stand(rig, Power.STOPPED)
    rig.advance(3600)
    assert (worker(rig).state, shown(rig)) == (WorkerState.RUNNING, [STOPPED])
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.RUN))
    rig.advance(5)
    assert "i-001" not in rig.engine.pool.workers


@pytest.mark.parametrize(
    "power", [Power.SUSPENDED, Power.STOPPING, Power.ENDING, Power.FAILED], ids=lambda p: p.value
)
def test_all_else_of_one_that_was_ready_is_told_and_decides_nothing(power: Power) -> None:
    rig = running()
    stand(rig, power)
    rig.advance(rig.pool_settings.probe_timeout_s - 60)
    assert worker(rig).state is WorkerState.RUNNING
    assert shown(rig) == [f"the cloud says that it is {power.value}: {WHY}"]
    rig.advance(120)
    assert "i-001" not in rig.engine.pool.workers, "it had its time, as without a word"


@pytest.mark.parametrize("power", [Power.STOPPED, Power.FAILED], ids=lambda p: p.value)
def test_what_never_was_ready_is_ended_and_is_of_no_use_with_the_reason(power: Power) -> None:
    """It booted for ten minutes."""
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    for number in range(1, 5):
        rig.advance(2)
        id_ = f"i-{number:03}"
        rig.cloud[id_] = replace(rig.cloud[id_], power=power, reason=KMS)
        # That it is stopped, two listings have to say.
        rig.advance((1 + (power is Power.STOPPED)) * rig.pool_settings.sync_interval_s + 5)
        assert id_ not in rig.engine.pool.workers
        rig.advance(10)
    [message] = told(rig)
    assert message.endswith(f"of no use: the cloud says that it is {power.value}: {KMS}")


def test_why_a_new_instance_has_ended_is_told_where_it_is_asked_for() -> None:
    """An unusable KMS key: `pending`, and gone two seconds later; nobody was told why."""
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.ended_because = KMS
    rig.submit(make_container(1))
    rig.advance(3)
    assert rig.worker_states() == {"i-001": "booting"}
    for number in range(1, 5):
        rig.cloud.pop(f"i-{number:03}", None)
        rig.advance(60)
    gone = f"the cloud no longer lists it: {KMS}"
    assert gone_view(rig.instances["i-001"]).last_error == gone
    [message] = told(rig)
    assert message.endswith(f"of no use: it was gone before it was ready: {KMS}")


def test_why_an_instance_vanished_is_told_to_those_who_ran_there() -> None:
    rig = running()
    rig.ended_because = "Server.SpotInstanceTermination: Spot instance termination"
    del rig.cloud["i-001"]
    rig.advance(100)
    reason = attempts(rig)[0].reason
    assert reason is not None
    assert reason.message.endswith(f"(the cloud no longer lists it: {rig.ended_because})")
