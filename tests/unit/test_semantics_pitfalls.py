"""Defects that were seen in other schedulers, and must not come back here, one test each."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import Constraints, SchedulerSettings
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import Resources
from longshore.pool.messages import DestroyFailed, DestroyInstance, SignalAttempt, StartAttempt
from longshore.pool.model import PoolSettings
from tests.exposition import samples
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

STEADY = PoolSettings(idle_timeout_s=100_000, shutdown_timeout_s=10, term_timeout_s=20)


def rig_of(cpus: int, most: int = 1, pool: PoolSettings = STEADY) -> Rig:
    return Rig(make_type(cpus), settings=SchedulerSettings(max_instances=most), pool=pool)


def test_at_quota_packing_goes_on_since_the_limit_counts_containers_and_not_instances() -> None:
    rig = rig_of(4)
    rig.submit(*(make_container(n) for n in range(1, 9)))
    assert rig.engine.scheduling.at_quota
    assert rig.engine.scheduling.concurrency_limit() == 4
    rig.exit("c-1-1")
    rig.exit("c-2-1")
    assert [rig.states()[f"c-{n}"] for n in (5, 6, 7)] == ["running", "running", "queued"]


def test_a_started_but_unanswered_start_counts_as_perhaps_started() -> None:
    rig = rig_of(1, most=5)
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.advance(2)
    rig.crash()
    rig.advance(1)
    assert len(rig.attempts) <= 2
    running = [a for a in rig.attempts.values() if a.outcome is None]
    assert len(running) == 1, "never two at once"


def test_a_container_of_0_cpus_blocks_no_whole_instance() -> None:
    rig = rig_of(4)
    rig.submit(make_container(1, cpus=0), *(make_container(n) for n in (2, 3, 4)))
    assert set(rig.started_on().values()) == {"i-001"}
    assert len(rig.started_on()) == 4


def test_giving_up_a_kill_drains_the_worker_and_never_ends_in_silence() -> None:
    rig = rig_of(1)
    rig.submit(make_container(1), make_container(2))
    rig.cancel("c-1")
    rig.advance(120)
    assert {c.signal for c in last_commands(rig, SignalAttempt)} == {"TERM", "KILL"}
    assert "i-001" in [c.instance_id for c in last_commands(rig, DestroyInstance)]
    rig.advance(60)
    assert rig.states() == {"c-1": "cancelled", "c-2": "running"}


def test_a_destroy_that_fails_is_repeated_every_shutdown_timeout_and_not_once_a_minute() -> None:
    rig = rig_of(1, pool=PoolSettings(idle_timeout_s=10, shutdown_timeout_s=10))
    rig.silent.add(DestroyInstance)
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.advance(10)
    for number in (1, 2, 3):
        sent = last_commands(rig, DestroyInstance)
        assert len(sent) == number
        error = CloudError("not now")
        rig.send(DestroyFailed(op_id=sent[-1].op_id, instance_id=sent[-1].instance_id, error=error))
        rig.advance(10)


def test_gauges_sink_again_and_no_series_of_a_removed_worker_is_left_behind() -> None:
    rig = rig_of(1, most=3, pool=PoolSettings(idle_timeout_s=10))
    before = samples(rig)
    gauges = {key for key in before if key[0] in ("longshore_instances", "longshore_containers")}
    rig.submit(*(make_container(n) for n in (1, 2, 3)))
    assert sum(samples(rig)[key] for key in gauges) > 0
    for number in (1, 2, 3):
        rig.exit(f"c-{number}-1")
    rig.advance(600)
    after = samples(rig)
    assert all(after[key] == 0 for key in gauges)
    assert not [key for key in after if "i-0" in str(key)]


@pytest.mark.parametrize("custom", [(), (("licence", 1),)])
def test_a_negative_remainder_fits_nothing_not_even_nothing(
    custom: tuple[tuple[str, int], ...],
) -> None:
    free = Resources(cpu_millis=1000, memory_bytes=1).minus(
        Resources(memory_bytes=2, custom=custom)
    )
    assert not Resources(cpu_millis=1000).fits_in(free)
    assert not Resources(cpu_millis=1, memory_bytes=1, custom=custom).fits_in(free)


def test_an_empty_wanted_label_matches_no_missing_one() -> None:
    settings = SchedulerSettings(max_instances=3, max_price_factor=10)
    types = (make_type(1), make_type(2, labels=(("zone", ""),)))
    rig = Rig(*types, settings=settings, pool=STEADY)
    rig.submit(make_container(1, constraints=Constraints(labels=(("zone", ""),))))
    assert rig.created_types() == ["t2"]
