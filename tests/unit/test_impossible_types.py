"""A type whose creates fail without a cause: others come first, and it is tried now and then."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Placement, SchedulerSettings
from longshore.drivers.errors import CloudError
from longshore.pool.messages import CreateInstance
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

EXCLUSIVE = SchedulerSettings(placement=Placement.EXCLUSIVE)


def test_a_type_that_can_never_be_created_does_not_keep_the_next_from_being_tried() -> None:
    rig = Rig(
        make_type(1),
        make_type(1, name="good", price="0.13"),
        pool=PoolSettings(sync_interval_s=100_000),
    )
    rig.create_error = lambda c: CloudError("?") if c.launch.type_name == "t1" else None
    rig.submit(make_container(1))
    rig.advance(10)
    assert rig.states() == {"c-1": "running"}
    assert [c.launch.type_name for c in last_commands(rig, CreateInstance)] == ["t1", "t1", "good"]


def test_a_type_that_fails_is_tried_again_ever_more_seldom_and_used_once_it_can_be() -> None:
    rig = Rig(
        make_type(1),
        make_type(1, name="good", price="0.13"),
        settings=EXCLUSIVE,
        pool=PoolSettings(sync_interval_s=100_000),
    )
    rig.create_error = lambda c: CloudError("?") if c.launch.type_name == "t1" else None
    for number in range(90):
        rig.submit(make_container(number))
        assert set(rig.states().values()) == {"running"} or number == 0, "nobody waits for it"
        rig.advance(10)
    tried = [c.launch.type_name for c in last_commands(rig, CreateInstance)]
    assert 15 <= tried.count("t1") <= 22, "each minute, after it was tried more often"
    rig.create_error = lambda _command: None
    rig.advance(120)
    rig.submit(make_container(100), make_container(101))
    rig.advance(1)
    last = [c.launch.type_name for c in last_commands(rig, CreateInstance)][-2:]
    assert sorted(last) == ["good", "t1"], "one is tried; nobody waits for it"
    rig.submit(make_container(102), make_container(103))
    rig.advance(1)
    last = [c.launch.type_name for c in last_commands(rig, CreateInstance)][-2:]
    assert last == ["t1", "t1"], "it can be created again"
