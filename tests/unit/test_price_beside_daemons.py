"""What batch work may cost counts from the cheapest type that daemons leave room for it on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import Constraints, SchedulerSettings, WaitReason
from longshore.dispatcher.domain.feasibility import fitting_types, what_is_left, within_price
from longshore.dispatcher.domain.jobs import JobTask, JobType, JobTypeSpec, Tally
from longshore.dispatcher.explain.explanation import Waiting, explain
from longshore.drivers.errors import CapacityError, CloudError, ErrorScope
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.messages import CreateInstance, Probe
from tests.rigs.dry_run import plan_job
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import GIB, make_container, make_type

SMALL = make_type(1, name="small", price="0.05")
LARGE = make_type(4, name="large", price="0.19")
DEAR = make_type(8, name="dear", price="0.38")
ONE = Resources(cpu_millis=1000, memory_bytes=GIB)


def rig_of(*types: InstanceType, max_instances: int = 9) -> DaemonRig:
    settings = SchedulerSettings(max_instances=max_instances)
    return DaemonRig(*(types or (SMALL, LARGE, DEAR)), pool=LONG, settings=settings)


def without_daemons(cpu_millis: int) -> dict[str, InstanceType]:
    taken = Resources(cpu_millis=cpu_millis)
    return {each.name: replace(each, reserve=taken) for each in (SMALL, LARGE, DEAR)}


def why(rig: DaemonRig, number: int = 1) -> WaitReason:
    reason = rig.engine.why_waiting(f"c-{number}")
    assert reason is not None
    return reason


def waiting(rig: DaemonRig, number: int = 1) -> Waiting:
    found = explain(rig.view, rig.containers[f"c-{number}"], rig.now).waiting
    assert found is not None
    return found


# ---- the rule -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "allowed"),
    [
        (0, ["small"]),
        (350, ["small", "large"]),
        (3500, ["small", "large", "dear"]),
        (7500, ["small"]),
    ],
)
def test_the_price_counts_from_the_cheapest_with_room_or_where_none_has_from_the_cheapest(
    taken: int, allowed: list[str]
) -> None:
    fitting = fitting_types((SMALL, LARGE, DEAR), ONE, Constraints())
    left = without_daemons(taken)
    found = within_price(fitting, ONE, max_price_factor=1.5, as_new=lambda t: left[t.name])
    assert [each.name for each in found] == allowed


def test_what_is_left_is_told_in_each_dimension_that_is_short() -> None:
    asked = Resources(cpu_millis=2000, memory_bytes=GIB, gpus=1, custom=(("licence", 2),))
    type_ = replace(SMALL, resources=Resources(cpu_millis=650, memory_bytes=GIB // 2))
    assert what_is_left(type_, asked) == "0.65 cpus, 0.5 GiB of memory, 0 gpus, 0 licence"
    assert what_is_left(LARGE, ONE) == ""


# ---- a pass -------------------------------------------------------------------------------------


def test_the_next_larger_type_is_bought_where_daemons_leave_too_little_of_the_cheapest() -> None:
    rig = rig_of()
    rig.submit_daemon(daemon(cpus=350))
    rig.submit(make_container(1))
    rig.advance(1)
    assert rig.created_types() == ["large"]
    rig.advance(60)
    assert rig.states()["c-1"] == "running"


def test_an_idle_instance_of_the_next_larger_type_is_used() -> None:
    rig = rig_of()
    rig.submit_daemon(daemon(cpus=350))
    rig.join("small")
    (large,) = rig.join("large")
    rig.submit(make_container(1))
    rig.advance(1)
    assert rig.started_on()["c-1"] == large
    assert rig.created_types() == []


def none_left_of_small(command: CreateInstance) -> CloudError | None:
    if command.instance_type.name != "small":
        return None
    return CapacityError("none left", scope=ErrorScope.TYPE)


def test_who_waits_already_gets_the_larger_type_as_soon_as_daemons_come() -> None:
    rig = rig_of()
    rig.create_error = none_left_of_small
    rig.submit(make_container(1))
    rig.advance(1)
    assert why(rig).message.startswith("the cloud is short of small;")
    assert [each.name for each in waiting(rig).types if each.eligible] == ["small"]
    rig.submit_daemon(daemon(cpus=350))
    rig.advance(60)
    assert rig.created_types() == ["small", "large"]
    assert rig.states()["c-1"] == "running"


def test_a_claim_on_what_is_too_dear_without_daemons_is_given_up() -> None:
    rig = rig_of()
    rig.silent.add(Probe)
    rig.submit_daemon(daemon(cpus=350))
    rig.submit(make_container(1))
    assert rig.created_types() == ["large"]
    assert why(rig).code == "instance_coming"
    rig.cancel_job("j-1")
    rig.settle()
    assert rig.created_types() == ["large", "small"]
    slot = rig.engine.scheduling.claimed_slot("c-1")
    assert slot is not None
    assert slot.type.name == "small"


# ---- what is told -------------------------------------------------------------------------------


def test_explain_marks_a_type_of_which_daemons_leave_too_little() -> None:
    rig = rig_of(max_instances=1)
    rig.submit_daemon(daemon(cpus=350))
    rig.join("small")
    rig.submit(make_container(2, cpus=0.5))
    rig.submit(make_container(1))
    rig.advance(1)
    assert why(rig).code == "at_quota"
    small, large, dear = waiting(rig).types
    assert (small.eligible, small.reasons_against) == (False, ("daemons leave 0.65 cpus",))
    assert (large.eligible, large.reasons_against) == (True, ())
    assert "1.5 times the $0.19/h of large" in dear.reasons_against[0]
    fates = {fate.cause: fate.count for fate in waiting(rig).instances.fates}
    assert fates == {"exhausted": 1}, "an instance of it may have room: this one has not"


def test_the_cloud_is_short_only_of_what_would_have_room() -> None:
    rig = rig_of()
    rig.create_error = lambda _command: CapacityError("none left", scope=ErrorScope.TYPE)
    rig.submit_daemon(daemon(cpus=350))
    rig.submit(make_container(1))
    rig.advance(1)
    assert why(rig).message.startswith("the cloud is short of large;")


def test_where_no_type_has_room_the_reason_tells_what_each_has_left() -> None:
    rig = rig_of(SMALL, make_type(2, name="next", price="0.06"), DEAR)
    rig.submit_daemon(daemon(cpus=350))
    only = Constraints(instance_types=("small",))
    rig.submit(make_container(1, constraints=only))
    rig.advance(1)
    assert why(rig).code == "no_room_on_new"
    assert "(small has 0.65 cpus left); it waits for room" in why(rig).message
    assert rig.created_types() == []
    small, *_ = waiting(rig).types
    assert small.reasons_against == ("daemons leave 0.65 cpus",)


def test_a_plan_of_a_job_counts_the_price_in_the_same_way() -> None:
    rig = rig_of()
    rig.submit_daemon(daemon(cpus=350))
    job = replace(
        daemon(2),
        type=JobType.BATCH,
        terms=JobTypeSpec(),
        tasks=(JobTask(name="", spec=make_container(1).spec, size=1),),
        tallies=(Tally(),),
    )
    found = plan_job(rig.fork, job, rig.now)
    assert [(each.type_name, each.number) for each in found.creates] == [("large", 1)]
