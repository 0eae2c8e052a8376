"""Rows of the placement's semantics on the engine; docs/semantics.md names those elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import (
    Constraints,
    Container,
    Profile,
    SchedulerSettings,
)
from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    CancelRequested,
    Event,
    InstanceKillRequested,
    PriorityRequested,
    Submitted,
)
from longshore.drivers.errors import CapacityError
from longshore.drivers.interface import InstanceType
from longshore.pool.messages import BrokenReported, Probe, SessionLost
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

QUIET = PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000)


class Unhurried(Rig):
    """A rig that takes several events in before the pass that they ask for."""

    def together(self, *events: Event) -> None:
        """Give all events to the engine, and only then let it plan."""
        for event in events:
            if isinstance(event, Submitted):
                self.containers |= {each.id: each for each in event.containers}
            self.give(event)
        self.settle()


def rig_of(
    *types: InstanceType,
    idle: tuple[str, ...] = (),
    profile: Profile = Profile.OPTIMIZE_UTILIZATION,
    most: int = 100,
) -> Unhurried:
    """Return a rig in which idle instances of some types are."""
    settings = SchedulerSettings(profile=profile, max_instances=most)
    rig = Unhurried(*types, settings=settings, pool=QUIET)
    for name in idle:
        rig.boot(name)
    rig.crash()
    rig.advance(3)
    return rig


def of_custom(number: int, **amounts: int) -> Container:
    """Return a container of one cpu that asks for resources of our own."""
    container = make_container(number)
    resources = replace(container.spec.resources, custom=tuple(sorted(amounts.items())))
    return replace(container, spec=replace(container.spec, resources=resources))


def why(rig: Rig, container_id: str) -> str:
    reason = rig.engine.why_waiting(container_id)
    return "" if reason is None else reason.code


# ---- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "on"),
    [(Profile.OPTIMIZE_UTILIZATION, [3]), (Profile.DISTRIBUTE_LOAD, [1, 1, 1])],
)
def test_a_b_c_with_3_slots_each_3_one_slot_containers(profile: Profile, on: list[int]) -> None:
    rig = rig_of(make_type(3), idle=("t3", "t3", "t3"), profile=profile)
    rig.submit(*(make_container(n) for n in (1, 2, 3)))
    used = list(rig.started_on().values())
    assert sorted(used.count(each) for each in set(used)) == on


def test_4_cpus_free_3_2_1_oldest_first_3_and_1_are_placed_and_2_waits() -> None:
    rig = rig_of(make_type(4), idle=("t4",))
    rig.create_error = lambda _command: CapacityError("none left")
    rig.submit(*(make_container(n, cpus=cpus) for n, cpus in ((1, 3), (2, 2), (3, 1))))
    assert sorted(rig.started_on()) == ["c-1", "c-3"]
    assert why(rig, "c-2") == "at_capacity"


def test_label_gpu_a100_wanted_and_nobody_has_it_waits_and_holds_nobody_up() -> None:
    rig = rig_of(make_type(4), idle=("t4", "t4"))
    wanted = Constraints(labels=(("gpu", "a100"),))
    rig.submit(make_container(1, priority=900, constraints=wanted), make_container(2, priority=1))
    reason = rig.engine.why_waiting("c-1")
    assert reason is not None
    assert (reason.code, "gpu=a100" in reason.message) == ("no_type", True)
    assert rig.states() == {"c-1": "queued", "c-2": "running"}


def test_capacity_shrinks_from_8_to_2_with_4_used_nothing_fits_and_nothing_wraps_around() -> None:
    rig = rig_of(make_type(8, name="t"), idle=("t",), most=1)
    rig.submit(*(make_container(n) for n in (1, 2, 3, 4)))
    rig.types = {"t": make_type(2, name="t")}
    rig.crash()
    rig.advance(3)
    assert rig.engine.pool.workers["i-001"].load.free.cpu_millis == -2000
    rig.submit(make_container(5, cpus=0), make_container(6))
    rig.advance(60)
    assert (rig.states()["c-5"], rig.states()["c-6"]) == ("queued", "queued")
    for number in (1, 2, 3):
        rig.exit(f"c-{number}-1")
    assert sorted(rig.started_on()) == ["c-5"], "one cpu came free, and the first takes it"


# ---- candidates ----------------------------------------------------------------------------------


def test_a_worker_is_a_candidate_only_with_enough_left_of_every_named_resource() -> None:
    bare, more = make_type(8, name="a", price="0.10"), make_type(8, name="b", price="0.11")
    licensed = replace(more, resources=replace(more.resources, custom=(("licence", 2),)))
    rig = rig_of(bare, licensed, idle=("a", "b"), most=2)
    rig.submit(of_custom(1, licence=2), of_custom(2, licence=1), of_custom(3))
    assert rig.started_on()["c-1"] == "i-002"
    assert "c-2" not in rig.started_on(), "both licences are taken"
    rig.exit("c-1-1")
    assert rig.started_on()["c-2"] == "i-002"


@pytest.mark.parametrize("behavior", [IdleBehavior.HOLD, IdleBehavior.DRAIN])
def test_a_paused_worker_is_no_candidate(behavior: IdleBehavior) -> None:
    rig = rig_of(make_type(4), idle=("t4",), most=1)
    rig.submit(make_container(1))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=behavior))
    rig.submit(make_container(2))
    rig.advance(60)
    assert sorted(rig.started_on()) == ["c-1"]
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.RUN))
    assert sorted(rig.started_on()) == ["c-1", "c-2"]


def test_an_offline_worker_gets_no_new_work_and_its_attempts_are_not_lost_before_it_is_gone() -> (
    None
):
    pool = PoolSettings(sync_interval_s=10, offline_timeout_s=60, probe_timeout_s=100_000)
    rig = Unhurried(make_type(4), pool=pool, settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(300)
    rig.submit(make_container(2))
    assert rig.states() == {"c-1": "running", "c-2": "queued"}
    rig.silent.discard(Probe)
    rig.probe_now(last_commands(rig, Probe)[-1])
    rig.settle()
    assert rig.states() == {"c-1": "running", "c-2": "running"}, "contact again: all goes on"
    rig.cloud.clear()
    rig.advance(30)
    assert {rig.attempts[f"c-{n}-1"].reason is not None for n in (1, 2)} == {True}


# ---- the re-check at commit ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (CancelRequested(container_id="c-1"), "cancelled"),
        (PriorityRequested(container_id="c-1", priority=0), "queued"),
    ],
    ids=["cancelled", "priority 0"],
)
def test_what_happened_to_a_container_before_the_pass_counts(event: Event, state: str) -> None:
    rig = rig_of(make_type(4), idle=("t4",))
    rig.together(Submitted(containers=(make_container(1), make_container(2))), event)
    assert sorted(rig.started_on()) == ["c-2"]
    assert rig.states()["c-1"] == state


def test_a_container_that_finished_is_not_placed_again_by_a_later_word() -> None:
    rig = rig_of(make_type(4), idle=("t4",))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.together(PriorityRequested(container_id="c-1", priority=900))
    assert [a.id for a in rig.attempts.values()] == ["c-1-1"]
    assert rig.states() == {"c-1": "succeeded"}


@pytest.mark.parametrize(
    "event",
    [
        InstanceKillRequested(worker_id="i-001", reason="?"),
        BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD),
        BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN),
        BrokenReported(worker_id="i-001", message="disk"),
        SessionLost(worker_id="i-001", last_contact=0.0, reason="reset"),
    ],
    ids=["gone", "held", "draining", "broken", "no session"],
)
def test_what_happened_to_a_worker_before_the_pass_counts_and_the_next_one_is_taken(
    event: Event,
) -> None:
    rig = rig_of(make_type(1), make_type(2, price="0.15"), idle=("t1", "t2"))
    rig.silent.add(Probe)
    rig.together(Submitted(containers=(make_container(1),)), event)
    assert rig.started_on() == {"c-1": "i-002"}


def test_pitfall_a_start_is_of_what_the_container_is_now_and_not_of_a_stale_copy() -> None:
    rig = rig_of(make_type(1), idle=("t1",), most=1)
    rig.together(
        Submitted(containers=(make_container(1, priority=5), make_container(2, priority=1))),
        PriorityRequested(container_id="c-2", priority=9),
    )
    assert sorted(rig.started_on()) == ["c-2"]
    assert rig.engine.table.containers["c-2"].priority == 9, "and nothing writes the old one back"


# ---- passes --------------------------------------------------------------------------------------


def test_twenty_submissions_during_a_pass_exactly_one_more_pass() -> None:
    rig = rig_of(make_type(1), most=1)
    rig.submit(make_container(100))
    assert rig.states() == {"c-100": "running"}
    passes = rig.engine.scheduling.passes
    rig.together(*(Submitted(containers=(make_container(n),)) for n in range(20)))
    assert rig.engine.scheduling.passes == passes + 1
