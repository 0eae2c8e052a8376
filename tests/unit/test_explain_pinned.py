"""What `explain` says of a container of a job that has one on each instance."""

from __future__ import annotations

from longshore.dispatcher.explain.explanation import Waiting, explain
from longshore.drivers.errors import CapacityError, ErrorScope
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type


def waiting(rig: DaemonRig, container_id: str) -> Waiting:
    found = explain(rig.view, rig.containers[container_id], rig.now).waiting
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
    assert [(each.name, each.rejections, each.blocked_by) for each in found.types] == [
        ("t1", (), "")
    ]
    assert [(fate.cause, fate.count) for fate in found.instances.fates] == [("exhausted", 1)]


def rig_with_kept_room() -> DaemonRig:
    """Return a rig of an instance on which a daemon of 0.6 cpus waits for 0.6 that come free."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.deaf = True
    rig.join()
    rig.submit(make_container(1, cpus=0.5, priority=300))
    rig.submit_daemon(daemon(1, cpus=600, priority=400))
    return rig


def test_room_that_is_kept_for_a_daemon_is_no_room_for_another() -> None:
    rig = rig_with_kept_room()
    assert (first := waiting(rig, rig.of_job("j-1")[0].id).reason) is not None
    assert first.code == "evicting"
    rig.submit_daemon(daemon(2, cpus=450, priority=200))
    (own,) = rig.of_job("j-2")
    found = waiting(rig, own.id)
    assert found.reason is not None
    assert found.reason.message == "i-001 is short of cpus, and nothing there makes way"
    assert [(fate.cause, fate.detail) for fate in found.instances.fates] == [("kept", "0.1 cpus")]
    assert found.estimate.basis.startswith("more room must come free than is kept for daemons")


def test_room_that_is_kept_is_no_room_for_batch_work_either_but_for_who_it_is_kept() -> None:
    rig = rig_with_kept_room()
    rig.create_error = lambda _command: CapacityError("none left", scope=ErrorScope.ALL)
    rig.submit(make_container(2, cpus=0.45))
    assert [fate.cause for fate in waiting(rig, "c-2").instances.fates] == ["kept"]
    (own,) = rig.of_job("j-1")
    assert [fate.cause for fate in waiting(rig, own.id).instances.fates] == ["exhausted"]


def test_of_what_never_fits_on_its_instance_it_is_said_that_it_never_starts() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(cpus=1500))
    (own,) = rig.of_job("j-1")
    assert waiting(rig, own.id).estimate.basis.startswith("never: the instance")


def test_room_that_is_kept_for_a_daemon_itself_is_room_for_it() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(cpus=600))
    for _ in range(2):
        (own,) = rig.of_job("j-1")
        rig.exit(own.attempts[-1].id, code=1)
    (own,) = rig.of_job("j-1")
    assert rig.engine.per_instance.reservations
    found = waiting(rig, own.id)
    assert found.reason is not None
    assert found.reason.code not in {"no_room", "too_small"}
    assert [fate.cause for fate in found.instances.fates] == ["fits"]
