"""What becomes of simulated instances: every fault by its share, and all of it by the seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from longshore.drivers.errors import (
    CloudError,
)
from longshore.drivers.interface import InstanceType
from longshore.drivers.simulated.model import CloudModel, Happening
from longshore.drivers.simulated.parameters import SimulatedFaults, SimulatedParameters
from tests.driver_bench import TYPE
from tests.rigs.simulated import OTHER, SPOT, cloud, create, listed, story


def test_slow_and_dead_boots() -> None:
    assert (
        create(cloud(faults={"slow_boots": 1, "slow_boot_factor": 4}), "a").fate.boots_after_s == 40
    )
    made = cloud(faults={"dead_boots": 1})
    create(made, "a")
    assert story(made) == []


@pytest.mark.parametrize("type_", [TYPE, SPOT])
def test_only_what_is_preemptible_is_reclaimed_with_notice(type_: InstanceType) -> None:
    made = cloud(
        boot_time_s=0, faults={"reclaims": 1, "longest_life_s": 100, "reclaim_notice_s": 5}
    )
    create(made, "a", type_=type_)
    (_, booted, _), *rest = story(made)
    assert booted is Happening.BOOTED
    if not type_.preemptible:
        assert rest == []
        return
    (noticed, notice, _), (ended, end, _), (_, last, _) = rest
    assert (notice, end, last) == (Happening.RECLAIM_NOTICE, Happening.ENDED, Happening.FORGOTTEN)
    assert noticed == max(0, ended - 5)
    assert 0 < ended < 100


def test_a_reclaim_may_come_without_notice_and_others_vanish_without() -> None:
    for fault, type_ in (("reclaims", SPOT), ("vanishing", TYPE)):
        made = cloud(boot_time_s=0, faults={fault: 1})
        machine = create(made, "a", type_=type_)
        happened = [what for _, what, _ in story(made)]
        assert happened == [Happening.BOOTED, Happening.ENDED, Happening.FORGOTTEN]
        assert not machine.ending


def test_some_have_no_runner_and_some_break() -> None:
    assert not create(cloud(faults={"without_runner": 1}), "a").fate.has_runner
    made = cloud(boot_time_s=0, faults={"breaking": 1, "longest_life_s": 50})
    machine = create(made, "a")
    assert machine.fate.breaks
    *_, (broke, what, _) = story(made)
    assert what is Happening.BROKE
    assert 0 < broke == machine.fate.breaks_after_s < 50
    create(made, "b", now=100)
    made.destroy("i-sim-test-00002", 100)
    assert Happening.BROKE not in [what for _, what, _ in story(made)], "it was gone by then"


def test_without_faults_there_are_none() -> None:
    made = cloud()
    machines = [create(made, f"token-{number}", type_=SPOT) for number in range(100)]
    assert {what for _, what, _ in story(made)} == {Happening.BOOTED}
    assert all(machine.fate.has_runner for machine in machines)
    assert len(listed(made, 0)) == 100


def test_shares_of_fates_are_shares_of_instances() -> None:
    shares = ("slow_boots", "dead_boots", "vanishing", "without_runner", "breaking")
    made = cloud(faults=dict.fromkeys(shares, 0.25))
    fates = [create(made, f"token-{number}").fate for number in range(400)]
    counts = {
        "dead": sum(each.boots_after_s is None for each in fates),
        "slow": sum((each.boots_after_s or 0) > 10 for each in fates) * 4 / 3,
        "vanishing": sum(each.ends_after_s is not None for each in fates),
        "without_runner": sum(not each.has_runner for each in fates),
        "breaking": sum(each.breaks for each in fates),
    }
    assert all(60 <= count <= 140 for count in counts.values()), counts


def test_destiny_may_overrule_the_dice() -> None:
    parameters = SimulatedParameters()
    made = CloudModel(
        parameters,
        name="x",
        dice=random.Random(1),
        dice_of=random.Random,
        destiny=lambda number, type_, now, fate: replace(
            fate, ends_after_s=number + now if type_ is TYPE else None
        ),
    )
    assert create(made, "a", now=5).fate.ends_after_s == 6
    assert create(made, "b", type_=OTHER).fate.ends_after_s is None


# ---- dice -----------------------------------------------------------------------------------

EVERYTHING = {
    **dict.fromkeys((each.name for each in msgspec.structs.fields(SimulatedFaults)), 0.2),
    "slow_boot_factor": 2,
    "longest_life_s": 30,
    "impossible_types": ["none-that-is-asked-for"],
}


def life(seed: int) -> list[object]:
    """Return all that is seen of a cloud with every fault there is."""
    made = cloud(seed=seed, faults=EVERYTHING)
    told: list[object] = []
    for number in range(60):
        now, type_ = float(number), SPOT if number % 2 else TYPE
        calls: list[Callable[[], object]] = [
            lambda: create(made, f"token-{number}", type_=type_, now=now).fate,  # noqa: B023 - called at once
            lambda: listed(made, now),  # noqa: B023 - called at once
            lambda: made.destroy(f"i-sim-test-{number // 2:05d}", now),  # noqa: B023 - called at once
        ]
        told += [_heard(call) for call in calls]
        told += [(what, machine.id) for what, machine in made.run_due(now)]
    return [*told, *story(made)]


def _heard(call: Callable[[], object]) -> object:
    try:
        return call()
    except CloudError as error:
        return repr(error)


def test_a_seed_fixes_everything() -> None:
    assert life(1) == life(1)
    assert life(1) != life(2)


def test_the_fate_of_an_instance_does_not_hang_on_other_calls() -> None:
    quiet, busy = cloud(faults={"vanishing": 0.5}), cloud(faults={"vanishing": 0.5})
    fates = [create(quiet, f"token-{number}").fate for number in range(20)]
    busy.faults = msgspec.structs.replace(busy.faults, duplicates=0.5)
    for number, fate in enumerate(fates):
        busy.listing({}, 0)
        assert create(busy, f"token-{number}").fate == fate


def test_creates_of_an_impossible_type_fail_always_and_of_others_do_not() -> None:
    made = cloud(faults={"impossible_types": [TYPE.provider_type]})
    for number in range(3):
        assert "cannot be created" in repr(_heard(lambda: create(made, f"token-{number}")))  # noqa: B023 - called at once
    other = replace(TYPE, name="other", provider_type="other")
    assert create(made, "other", type_=other).type is other
