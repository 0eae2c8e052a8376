"""Rows of the scheduler's semantics on the engine; docs/semantics.md names those elsewhere."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import ContainerState, Placement, SchedulerSettings
from longshore.dispatcher.domain.messages import PublishContainer
from longshore.drivers.errors import CapacityError
from longshore.pool.messages import CreateInstance, DestroyInstance, Probe
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

QUIET = PoolSettings(sync_interval_s=100_000, idle_timeout_s=100_000, quota_hold_s=100_000)


def rig_of(
    *cpus: int,
    most: int = 100,
    factor: float = 1.5,
    placement: Placement = Placement.PACKED,
    idle: tuple[str, ...] = (),
    **more: object,
) -> Rig:
    """Return a rig with types of so many cpus, in which idle instances of some types are."""
    settings = SchedulerSettings(
        max_instances=most,
        max_price_factor=factor,
        placement=placement,
        **more,  # type: ignore[arg-type]  # the few other settings
    )
    rig = Rig(*(make_type(each) for each in cpus), settings=settings, pool=QUIET)
    for name in idle:
        rig.boot(name)
    rig.crash()
    rig.advance(3)
    assert list(rig.worker_states().values()) == ["idle"] * len(idle)
    return rig


def times(rig: Rig, state: ContainerState) -> dict[str, int]:
    """Return how often each container was published in a state."""
    counts: dict[str, int] = {}
    for each in rig.published:
        if isinstance(each, PublishContainer) and each.container.state is state:
            counts[each.container.id] = counts.get(each.container.id, 0) + 1
    return counts


def why(rig: Rig, container_id: str) -> str:
    reason = rig.engine.why_waiting(container_id)
    return "" if reason is None else reason.code


# ---- the table -----------------------------------------------------------------------------------


def test_exclusive_one_idle_t1_two_idle_t2_the_top_one_starts_on_t1_and_three_t1_are_made() -> None:
    rig = rig_of(1, 2, factor=1, placement=Placement.EXCLUSIVE, idle=("t1", "t2", "t2"))
    rig.silent.add(CreateInstance)
    rig.submit(*(make_container(n, priority=n) for n in (1, 2, 3, 4)))
    assert rig.started_on() == {"c-4": "i-001"}
    assert rig.created_types() == ["t1", "t1", "t1"]


def test_packed_without_a_t1_and_nothing_up_two_t2_are_created() -> None:
    rig = rig_of(2, 3)
    rig.submit(*(make_container(n) for n in (1, 2, 3, 4)))
    assert rig.created_types() == ["t2", "t2"]


def test_packed_with_one_idle_t3_three_start_on_it_and_one_t2_is_created() -> None:
    rig = rig_of(2, 3, idle=("t3",))
    rig.silent.add(CreateInstance)
    rig.submit(*(make_container(n) for n in (1, 2, 3, 4)))
    assert rig.started_on() == {f"c-{n}": "i-001" for n in (1, 2, 3)}
    assert rig.created_types() == ["t2"]


def test_packed_with_a_t3_on_hold_it_is_unused_and_two_t2_are_created() -> None:
    rig = rig_of(2, 3)
    rig.boot("t3", longshore_idle_behavior="hold")
    rig.crash()
    rig.advance(3)
    rig.submit(*(make_container(n) for n in (1, 2, 3, 4)))
    assert rig.created_types() == ["t2", "t2"]
    assert "i-001" not in rig.started_on().values()
    assert rig.worker_states()["i-001"] == "idle"


def test_one_idle_t4_and_no_more_to_be_had_4_starts_3_and_2_are_skipped_a_t1_for_1() -> None:
    rig = rig_of(1, 4, factor=1, idle=("t4",))
    rig.create_error = lambda c: CapacityError("none") if c.launch.type_name == "t4" else None
    rig.silent.add(Probe)
    rig.submit(*(make_container(n, cpus=1 if n == 1 else 4, priority=n) for n in (1, 2, 3, 4)))
    assert rig.started_on() == {"c-4": "i-001"}
    assert rig.created_types() == ["t4", "t4", "t1"], "until the cloud says so, nobody knows"
    before = (times(rig, ContainerState.LOCKED), times(rig, ContainerState.QUEUED))
    rig.advance(50)
    assert (times(rig, ContainerState.LOCKED), times(rig, ContainerState.QUEUED)) == before
    assert rig.states() == {"c-1": "locked", "c-2": "queued", "c-3": "queued", "c-4": "running"}
    assert (why(rig, "c-3"), why(rig, "c-2")) == ("at_capacity", "at_capacity")


def test_8_of_3_cpus_two_idle_t3_quota_2_30_passes_2_starts_0_shutdowns_none_unlocked_twice() -> (
    None
):
    rig = rig_of(3, most=2, idle=("t3", "t3"))
    rig.submit(*(make_container(n, cpus=3) for n in range(1, 9)))
    passes = rig.engine.scheduling.passes
    while rig.engine.scheduling.passes < passes + 30:
        rig.advance(1)
    assert sorted(rig.started_on()) == ["c-1", "c-2"]
    assert last_commands(rig, DestroyInstance) == []
    queued = times(rig, ContainerState.QUEUED)
    assert all(number <= 2 for number in queued.values()), "once when submitted, once unlocked"


# ---- the numbered rows ---------------------------------------------------------------------------


def test_within_a_class_a_claim_passes_to_the_highest_so_that_a_lower_one_never_starts_first() -> (
    None
):
    rig = rig_of(1, most=1)
    rig.silent.add(Probe)
    rig.submit(make_container(1, priority=5))
    assert rig.states() == {"c-1": "locked"}
    rig.submit(make_container(2, priority=9))
    assert rig.states()["c-2"] == "locked", "c-1 is next in line"
    rig.silent.discard(Probe)
    rig.probe_now(last_commands(rig, Probe)[-1])
    rig.settle()
    assert rig.started_on() == {"c-2": "i-001"}


def test_priority_0_is_never_started_and_stops_a_running_one() -> None:
    rig = rig_of(1, idle=("t1",))
    rig.submit(make_container(1, priority=0))
    rig.advance(60)
    assert (rig.started_on(), rig.created_types()) == ({}, [])
    rig.set_priority("c-1", 1)
    assert rig.states() == {"c-1": "running"}
    rig.set_priority("c-1", 0)
    rig.exit("c-1-1", 143)
    assert (rig.states(), why(rig, "c-1")) == ({"c-1": "queued"}, "held")


def test_a_higher_one_never_stops_one_that_is_on_a_worker_already() -> None:
    rig = rig_of(1, most=1)
    rig.submit(make_container(1, priority=1))
    rig.submit(make_container(2, priority=900))
    rig.advance(60)
    assert rig.states() == {"c-1": "running", "c-2": "queued"}


def test_queued_with_a_creatable_type_is_locked_and_later_ones_pack_onto_what_is_pending() -> None:
    rig = rig_of(4)
    rig.silent.add(CreateInstance)
    for number in (1, 2, 3, 4):
        rig.submit(make_container(number))
    assert set(rig.states().values()) == {"locked"}
    assert rig.created_types() == ["t4"]


def test_locked_with_a_place_starts_when_its_worker_is_up_and_waits_until_then() -> None:
    rig = rig_of(1)
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.advance(10)
    assert (rig.states(), rig.started_on()) == ({"c-1": "locked"}, {})
    rig.silent.discard(Probe)
    rig.probe_now(last_commands(rig, Probe)[-1])
    rig.settle()
    assert rig.states() == {"c-1": "running"}


def test_over_quota_all_but_the_first_are_unlocked_and_what_nobody_is_mapped_to_goes() -> None:
    rig = rig_of(1, 4, most=2, idle=("t1",))
    rig.submit(make_container(1, cpus=4, priority=9))
    assert rig.states() == {"c-1": "running"}
    rig.submit(*(make_container(n, cpus=4, priority=9 - n) for n in (2, 3, 4)))
    assert [c.instance_id for c in last_commands(rig, DestroyInstance)] == ["i-001"]
    assert [n for n, state in rig.states().items() if state == "queued"] in (
        ["c-2", "c-3", "c-4"],
        ["c-3", "c-4"],
    )


def test_supervisors_fill_their_share_of_max_containers_and_the_work_they_submit_goes_on() -> None:
    rig = rig_of(1, max_containers=4, supervisor_fraction=0.5)
    rig.submit(*(make_container(n, supervisor=True, priority=9) for n in range(1, 7)))
    assert sorted(rig.started_on()) == ["c-1", "c-2"]
    assert why(rig, "c-3") == "supervisors"
    rig.submit(*(make_container(n, priority=1) for n in (7, 8, 9)))
    assert sorted(rig.started_on()) == ["c-1", "c-2", "c-7", "c-8"]
    reason = rig.engine.why_waiting("c-9")
    assert reason is not None
    assert "max_containers" in reason.message


def test_supervisors_are_uncapped_while_there_is_no_limit() -> None:
    rig = rig_of(1, supervisor_fraction=0.0)
    rig.submit(*(make_container(n, supervisor=True) for n in range(1, 7)))
    rig.advance(60)
    assert len(rig.started_on()) == 6


def test_every_container_that_does_not_run_has_a_status_sentence_and_a_position() -> None:
    rig = rig_of(1, 2, most=2)
    rig.silent.add(Probe)
    rig.submit(*(make_container(n, priority=10 - n) for n in range(1, 6)))
    rig.submit(make_container(6, priority=0), make_container(7, cpus=1, priority=1))
    queue = rig.engine.table.queue
    for container_id in rig.states():
        reason = rig.engine.why_waiting(container_id)
        assert reason is not None
        assert reason.message
    assert [queue.ahead_of(f"c-{n}") for n in (1, 2, 3, 4, 5, 7)] == [0, 1, 2, 3, 4, 5]


def test_as_work_drains_the_dearest_and_least_used_instances_are_emptied_first() -> None:
    rig = rig_of(2, 8, factor=10, idle=("t2", "t8", "t2"))
    rig.submit(*(make_container(n) for n in (1, 2)))
    on = set(rig.started_on().values())
    assert on < {"i-001", "i-003"}, "one of the cheap ones, and filled before the next"
    assert len(on) == 1
    rig.submit(make_container(3))
    rig.exit("c-1-1")
    rig.submit(make_container(4))
    used = {rig.started_on()[c] for c in ("c-3", "c-4")}
    assert "i-002" not in used, "the dearest stays empty and reaches its idle timeout"
