"""What `explain` says of a container of a job that has one on each instance."""

from __future__ import annotations

from dispatcher.explaining.explanation import Waiting, explain
from drivers.errors import CapacityError, ErrorScope
from tests.per_instance_jobs_rig import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type


def waiting(rig: DaemonRig, container_id: str) -> Waiting:
    found = explain(rig.engine, rig.containers[container_id], rig.now).waiting
    assert found is not None
    return found


def test_of_what_is_for_one_instance_no_other_type_or_instance_is_told_and_no_create() -> None:
    rig = DaemonRig(make_type(1), make_type(2), pool=LONG)
    rig.create_error = lambda _command: CapacityError("none left", scope=ErrorScope.ALL)
    (small,), _ = rig.join("t1"), rig.join("t2")
    for number in (1, 2):
        rig.submit(make_container(number, cpus=2))
    batch = waiting(rig, "c-2")
    assert ([each.name for each in batch.types], batch.instances.total) == (["t1", "t2"], 2)
    assert batch.holds
    assert batch.limits
    rig.submit_daemon(daemon(cpus=1500))
    (own,) = [each for each in rig.of_job("j-1") if each.pinned_to == small]
    found = waiting(rig, own.id)
    assert found.reason is not None
    assert found.reason.code == "too_small"
    assert [(each.name, each.rejections) for each in found.types] == [
        ("t1", ("too small in cpus",))
    ]
    assert [(fate.cause, fate.ids) for fate in found.instances.fates] == [("type", (small,))]
    assert (found.holds, found.limits) == ([], [])


def test_a_type_that_takes_what_is_for_its_instance_is_told_without_what_hinders_creates() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.create_error = lambda _command: CapacityError("none left", scope=ErrorScope.ALL)
    rig.join()
    rig.submit(make_container(1), make_container(2))
    rig.submit_daemon(daemon(priority=400))
    (own,) = rig.of_job("j-1")
    found = waiting(rig, own.id)
    assert [(each.name, each.rejections, each.hindrance) for each in found.types] == [
        ("t1", (), "")
    ]
    assert [(fate.cause, fate.count) for fate in found.instances.fates] == [("exhausted", 1)]
