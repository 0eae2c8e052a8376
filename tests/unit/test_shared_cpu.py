"""Containers of no cpus share one of their instance's, and leave the others alone."""

from __future__ import annotations

import random

import pytest

from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.drivers.errors import BugError
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.core import PoolCore, check
from longshore.pool.model import InstanceSeen, PoolAttempt, PoolSettings, Worker
from tests.rigs.engine import Rig
from tests.samples import GIB, make_container, make_type


def core_with_worker(type_: InstanceType) -> tuple[PoolCore, Worker]:
    core = PoolCore(
        settings=PoolSettings(),
        types={type_.name: type_},
        cluster="test",
        new_token=lambda: "token",
        new_secret=lambda: "secret",
        dice=lambda: 0.5,
        quota_groups={},
    )
    worker = core.add_worker(InstanceSeen(id="i-1", address="", tags=()), type_, now=0.0)
    return core, worker


def attempt(number: int, *, cpu_millis: int = 0, stray: bool = False) -> PoolAttempt:
    return PoolAttempt(
        id=f"c-{number}-1",
        remote_id=f"c-{number}-1",
        worker_id="i-1",
        resources=Resources(cpu_millis=cpu_millis, memory_bytes=10),
        stray=stray,
    )


def hold(core: PoolCore, worker: Worker, one: PoolAttempt) -> None:
    core.add_attempt(one)
    core.hold_resources(worker, one)


def test_the_first_takes_a_cpu_and_the_last_gives_it_back() -> None:
    core, worker = core_with_worker(make_type(4))
    cpus = [worker.load.free.cpu_millis]
    for number in (1, 2, 3):
        hold(core, worker, attempt(number))
        cpus.append(worker.load.free.cpu_millis)
    assert cpus == [4000, 3000, 3000, 3000]
    assert worker.load.on_shared_cpu == 3
    # The first to come is not the one that holds the cpu.
    for number, left in ((1, 3000), (3, 3000), (2, 4000)):
        core.free_resources(worker, f"c-{number}-1")
        assert worker.load.free.cpu_millis == left
    assert worker.load.free == worker.type.allocatable
    assert worker.load.on_shared_cpu == 0


def test_holding_twice_and_giving_back_twice_are_once() -> None:
    core, worker = core_with_worker(make_type(4))
    first = attempt(1)
    hold(core, worker, first)
    core.hold_resources(worker, first)
    assert (worker.load.on_shared_cpu, worker.load.free.cpu_millis) == (1, 3000)
    core.free_resources(worker, first.id)
    core.free_resources(worker, first.id)
    assert (worker.load.on_shared_cpu, worker.load.free) == (0, worker.type.allocatable)


def test_a_stray_takes_no_cpu() -> None:
    core, worker = core_with_worker(make_type(1))
    hold(core, worker, attempt(1, cpu_millis=1000))
    hold(core, worker, attempt(2, stray=True))
    assert (worker.load.on_shared_cpu, worker.load.free.cpu_millis) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_free_adds_up_in_any_order(seed: int) -> None:
    dice = random.Random(seed)
    core, worker = core_with_worker(make_type(8))
    for number in range(200):
        one = attempt(number % 12, cpu_millis=dice.choice((0, 0, 500)))
        if one.id in worker.load.attempts:
            core.free_resources(worker, one.id)
            core.forget_attempt(one.id)
        else:
            hold(core, worker, one)
        sharing = [r for r in worker.load.attempts.values() if not r.cpu_millis]
        named = sum(r.cpu_millis for r in worker.load.attempts.values())
        assert worker.load.free.cpu_millis == 8000 - named - (1000 if sharing else 0)
        assert worker.load.on_shared_cpu == len(sharing)


def test_a_shared_cpu_that_is_not_counted_is_found() -> None:
    core, worker = core_with_worker(make_type(4))
    worker.load.attempts["c-1-1"] = Resources()
    worker.load.sharing.add("c-1-1")
    with pytest.raises(BugError, match="do not add up"):
        check(core)


def test_containers_of_no_cpus_do_not_block_a_whole_instance() -> None:
    """The pitfall: one of 0 cpus must leave the rest of its instance to others."""
    rig = Rig(make_type(4), settings=SchedulerSettings(max_instances=1))
    rig.submit(*(make_container(number, cpus=0) for number in (1, 2, 3)))
    rig.advance(30)
    rig.submit(*(make_container(number) for number in (4, 5, 6, 7)))
    rig.advance(30)
    assert sorted(rig.started_on()) == [f"c-{number}" for number in range(1, 7)]
    (worker,) = rig.engine.pool.workers.values()
    assert worker.load.free.cpu_millis == 0, "one cpu is shared, three are taken"
    rig.crash()
    rig.advance(30)
    (worker,) = rig.engine.pool.workers.values()
    assert (worker.load.on_shared_cpu, worker.load.free.cpu_millis) == (3, 0)
    for number in (1, 2):
        rig.exit(f"c-{number}-1")
    rig.advance(5)
    assert "c-7" not in rig.started_on(), "the third still needs the cpu"
    rig.exit("c-3-1")
    rig.advance(5)
    assert "c-7" in rig.started_on()


def test_a_type_that_is_known_late_counts_the_shared_cpu_once() -> None:
    stand_in = make_type(4, name=" (not configured)")
    core, worker = core_with_worker(stand_in)
    for number in (1, 2):
        hold(core, worker, attempt(number))
    core.learn_type(worker, make_type(2))
    assert worker.load.free == Resources(cpu_millis=1000, memory_bytes=2 * GIB * 11 // 10 - 20)
