"""What the pool counts: every boot once, every call and probe by how it ended, and how long."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.pool.messages import (
    CreateInstance,
    DestroyFailed,
    DestroyInstance,
    ListingFailed,
    ListInstances,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    SetTags,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import IdleBehavior, ProbeReport
from longshore.pool.statistics import (
    MOST_UNANSWERED,
    BootOutcome,
    Operation,
    OperationOutcome,
    ProbeOutcome,
    Statistics,
)
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type


def boots(rig: Rig) -> dict[str, int]:
    counted = rig.engine.pool.statistics.boots
    return {outcome.value: number for outcome, number in counted.items() if number}


def gone(rig: Rig) -> dict[str, int]:
    counted = rig.engine.pool.statistics.disappeared
    return {state.value: number for state, number in counted.items() if number}


def booting(rig: Rig) -> Rig:
    """Return the rig with one instance, i-001, whose probes are not answered."""
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.advance(3)
    assert rig.worker_states() == {"i-001": "booting"}
    return rig


def fail_probe(rig: Rig, stage: str) -> None:
    """Answer the latest probe: it got no further than `stage`."""
    probe = last_commands(rig, Probe)[-1]
    rig.send(
        ProbeFailed(
            op_id=probe.op_id,
            worker_id=probe.worker_id,
            revision=probe.revision,
            stage=stage,
            message="no",
        )
    )


# ---- boots ----------------------------------------------------------------------------------


def test_a_boot_that_succeeds_is_counted_once() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.submit(make_container(2))
    rig.exit("c-2-1")
    rig.advance(300)
    assert boots(rig) == {"success": 1}
    assert gone(rig) == {"shutdown": 1}


def test_a_boot_that_takes_too_long_is_a_failure_and_its_end_no_disappearance() -> None:
    rig = booting(Rig(make_type(1)))
    rig.advance(605)
    assert "i-001" not in rig.worker_states()
    assert boots(rig) == {"failure": 1}
    assert gone(rig) == {"shutdown": 1}


@pytest.mark.parametrize(
    "event",
    [
        InstanceKillRequested(worker_id="i-001", reason=""),
        BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN),
    ],
)
def test_a_boot_that_is_ended_is_aborted(
    event: InstanceKillRequested | BehaviorRequested,
) -> None:
    rig = booting(Rig(make_type(1)))
    rig.send(event)
    rig.advance(5)
    assert boots(rig) == {"aborted": 1}


def test_an_instance_that_vanishes_while_it_boots_disappeared() -> None:
    rig = booting(Rig(make_type(1)))
    rig.silent.add(CreateInstance)
    rig.cloud.clear()
    rig.advance(61)
    assert rig.worker_states() == {}
    assert boots(rig) == {"disappeared": 1}
    assert gone(rig) == {"booting": 1}
    assert rig.engine.pool.statistics.time_to_disappear_s.count == 0


def test_an_instance_that_vanishes_later_disappeared_but_its_boot_succeeded() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.advance(3)
    rig.silent.add(CreateInstance)
    rig.cloud.clear()
    rig.advance(61)
    assert boots(rig) == {"success": 1}
    assert gone(rig) == {"running": 1}
    assert rig.engine.pool.statistics.time_to_disappear_s.count == 0


def test_an_adopted_instance_is_counted_and_not_timed() -> None:
    rig = Rig(make_type(1))
    rig.boot("t1")
    rig.advance(61)
    counted = rig.engine.pool.statistics
    assert boots(rig) == {"success": 1}
    assert (counted.time_to_ssh_s.count, counted.time_to_ready_s.count) == (0, 0)


def test_an_instance_that_an_earlier_process_launched_is_not_timed() -> None:
    rig = booting(Rig(make_type(1)))
    rig.silent.clear()
    rig.crash()
    rig.advance(1)
    counted = rig.engine.pool.statistics
    assert boots(rig) == {"success": 1}
    assert (counted.time_to_ssh_s.count, counted.time_to_ready_s.count) == (0, 0)


# ---- times ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["connect", "host_key", "unforeseen"])
def test_ssh_is_not_up_before_the_key_is_proven(stage: str) -> None:
    rig = booting(Rig(make_type(1)))
    fail_probe(rig, stage)
    assert rig.engine.pool.statistics.time_to_ssh_s.count == 0


@pytest.mark.parametrize("stage", ["boot", "deploy", "list", "attach"])
def test_time_to_ssh_counts_to_the_first_probe_past_the_key_and_once(stage: str) -> None:
    rig = booting(Rig(make_type(1)))
    fail_probe(rig, "connect")
    rig.advance(5)
    fail_probe(rig, stage)
    rig.advance(5)
    fail_probe(rig, stage)
    counted = rig.engine.pool.statistics
    assert (counted.time_to_ssh_s.count, counted.time_to_ssh_s.sum) == (1, 8.0)
    assert counted.time_to_ready_s.count == 0
    rig.advance(5)
    rig.probe_now(last_commands(rig, Probe)[-1])
    assert (counted.time_to_ssh_s.count, counted.time_to_ready_s.count) == (1, 1)
    assert counted.time_to_ready_s.sum == 18.0


def test_time_to_disappear_counts_from_the_shutdown() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.silent.add(DestroyInstance)
    rig.advance(60)
    assert rig.worker_states() == {"i-001": "shutdown"}
    rig.advance(40)
    assert rig.engine.pool.statistics.time_to_disappear_s.count == 0
    rig.cloud.clear()
    rig.advance(2)
    taken = rig.engine.pool.statistics.time_to_disappear_s
    assert taken.count == 1
    assert 40 <= taken.sum <= 42


# ---- the driver -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RateLimitError("x"), OperationOutcome.RATE_LIMIT),
        (QuotaError("x"), OperationOutcome.QUOTA),
        (CapacityError("x"), OperationOutcome.CAPACITY),
        (CloudAuthError("x"), OperationOutcome.AUTH),
        (AmbiguousResult("x"), OperationOutcome.AMBIGUOUS),
        (InstanceNotFound("x"), OperationOutcome.NOT_FOUND),
        (CloudError("x"), OperationOutcome.OTHER),
    ],
)
def test_a_call_is_counted_by_the_kind_of_its_error(
    error: CloudError, outcome: OperationOutcome
) -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: error
    rig.submit(make_container(1))
    counted = rig.engine.pool.statistics
    assert counted.operations[Operation.CREATE, outcome] == 1
    assert sum(counted.operations.values()) == 2, "the listing, and this"


def test_calls_are_counted_and_timed_by_operation() -> None:
    rig = Rig(make_type(1))
    rig.silent |= {CreateInstance, DestroyInstance, SetTags, ListInstances}
    rig.submit(make_container(1))
    rig.advance(3)
    rig.create_now(last_commands(rig, CreateInstance)[-1])
    rig.settle()
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    tags = last_commands(rig, SetTags)[-1]
    rig.advance(1)
    rig.send(TagsFailed(op_id=tags.op_id, instance_id="i-001", error=CloudError("x")))
    rig.send(TagsSet(op_id=tags.op_id, instance_id="i-001"))
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    destroy = last_commands(rig, DestroyInstance)[-1]
    rig.advance(2)
    rig.send(
        DestroyFailed(op_id=destroy.op_id, instance_id="i-001", error=InstanceNotFound("gone"))
    )
    listing = last_commands(rig, ListInstances)[-1]
    rig.send(ListingFailed(op_id=listing.op_id, error=RateLimitError("slow down")))
    counted = rig.engine.pool.statistics
    assert {
        (operation.value, outcome.value): number
        for (operation, outcome), number in counted.operations.items()
        if number
    } == {
        ("list", "ok"): 1,
        ("list", "rate_limit"): 1,
        ("create", "ok"): 1,
        ("destroy", "not_found"): 1,
        ("tags", "other"): 1,
        ("tags", "ok"): 1,
    }
    timed = {o.value: (each.count, each.sum) for o, each in counted.operation_s.items()}
    assert timed["create"] == (1, 3.0)
    assert timed["tags"] == (1, 1.0), "an operation is timed once, whatever is said of it later"
    assert timed["destroy"] == (1, 2.0)


def test_what_is_never_answered_does_not_pile_up() -> None:
    counted = Statistics()
    counted.begun([ListInstances(op_id=n) for n in range(MOST_UNANSWERED + 1)], 1.0)
    for op_id in range(MOST_UNANSWERED + 1):
        counted.heard(ListingFailed(op_id=op_id, error=CloudError("x")), {}, 2.0)
    assert counted.operation_s[Operation.LIST].count == MOST_UNANSWERED
    assert counted.operations[Operation.LIST, OperationOutcome.OTHER] == MOST_UNANSWERED + 1


# ---- probes -------------------------------------------------------------------------------------


def probes(rig: Rig) -> dict[str, tuple[int, float]]:
    counted = rig.engine.pool.statistics.probe_s
    return {o.value: (each.count, each.sum) for o, each in counted.items() if each.count}


@pytest.mark.parametrize(
    ("stage", "outcome"),
    [
        *((o.value, o.value) for o in ProbeOutcome if o.value not in ("success", "discarded")),
        ("unforeseen", "other"),
        ("success", "other"),
        ("discarded", "other"),
    ],
)
def test_a_failed_probe_is_timed_by_its_stage(stage: str, outcome: str) -> None:
    rig = booting(Rig(make_type(1)))
    fail_probe(rig, stage)
    assert probes(rig) == {outcome: (1, 3.0)}


def test_a_probe_that_succeeds_is_timed() -> None:
    rig = booting(Rig(make_type(1)))
    rig.probe_now(last_commands(rig, Probe)[-1])
    assert probes(rig) == {"success": (1, 3.0)}


def test_a_probe_that_looked_although_the_boot_probe_failed_is_no_success() -> None:
    rig = booting(Rig(make_type(1)))
    probe = last_commands(rig, Probe)[-1]
    rig.send(
        ProbeSucceeded(
            op_id=probe.op_id,
            worker_id=probe.worker_id,
            revision=probe.revision,
            began_at=rig.now,
            host_key="ssh-ed25519 AAAA",
            report=ProbeReport(attempts=(), boot_id="b"),
            boot_error="it exited with 1",
        )
    )
    assert probes(rig) == {"boot": (1, 3.0)}
    assert rig.engine.pool.statistics.time_to_ssh_s.count == 1


def test_the_outcome_of_a_probe_that_nobody_awaits_is_discarded() -> None:
    rig = booting(Rig(make_type(1)))
    rig.silent |= {DestroyInstance, CreateInstance}
    rig.send(InstanceKillRequested(worker_id="i-001", reason=""))
    fail_probe(rig, "list")
    assert probes(rig) == {"discarded": (1, 3.0)}
    assert rig.engine.pool.statistics.time_to_ssh_s.count == 0
    assert BootOutcome.ABORTED.value in boots(rig)
