"""What the simulated cloud tells of how its instances are billed, by the text of its rule."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.drivers.billing import Billed, Bills, EndedBy, TellsBilling
from longshore.drivers.errors import CloudError
from longshore.drivers.registry import DriverContext
from longshore.drivers.simulated import model
from longshore.drivers.simulated.driver import DRIVER, SimulatedInstanceSet
from longshore.drivers.simulated.parameters import SimulatedFaults
from tests.driver_bench import TYPE
from tests.rigs.simulated import SPOT, cloud, create, story

RULES = [
    (starts, ends)
    for starts in ("requested", "running")
    for ends in ("shutting-down", "terminated")
]
#: Asked for at 100, runs from 105, its end is asked for at 150, it is gone at 160.
DESTROYED = [(100.0, 150.0), (100.0, 160.0), (105.0, 150.0), (105.0, 160.0)]
#: Its end is asked for at 103, before it runs, and it is gone at 113.
TOO_EARLY = [(100.0, 103.0), (100.0, 113.0), (103.0, 103.0), (113.0, 113.0)]


def billing(starts: str, ends: str) -> dict[str, Any]:
    return {
        "pending_time_s": 5,
        "destroy_delay_s": 10,
        "billing": {"starts": starts, "ends": ends},
    }


@pytest.mark.parametrize(("rule", "expected"), list(zip(RULES, DESTROYED, strict=True)))
def test_times_are_told_by_the_rule_and_once_they_have_come(
    rule: tuple[str, str], expected: tuple[float, float]
) -> None:
    made = cloud(**billing(*rule))
    machine = create(made, "a", now=100)
    begun, ended = expected
    assert made.billed(machine, begun - 0.5) == Billed() or begun == 100
    assert made.billed(machine, 110) == Billed(billed_from=begun)
    made.destroy(machine.id, 150)
    over = Billed(billed_from=begun, billed_until=ended, ended_by=EndedBy.REQUEST)
    assert made.billed(machine, 150) == (over if ended == 150 else Billed(billed_from=begun))
    story(made, until=160)
    assert machine.id not in made.machines
    assert made.bills([machine.id, "unknown"], 500) == {machine.id: over}


@pytest.mark.parametrize(("rule", "expected"), list(zip(RULES, TOO_EARLY, strict=True)))
def test_what_never_ran_is_billed_for_no_time_where_billing_starts_with_running(
    rule: tuple[str, str], expected: tuple[float, float]
) -> None:
    made = cloud(**billing(*rule))
    machine = create(made, "a", now=100)
    made.destroy(machine.id, 103)
    story(made)
    begun, ended = expected
    assert made.bills([machine.id], 500)[machine.id] == Billed(
        billed_from=begun, billed_until=ended, ended_by=EndedBy.REQUEST
    )


def test_who_ended_an_instance_is_told() -> None:
    certain = {"longest_life_s": 50}
    reclaimed = cloud(faults={**certain, "reclaims": 1})
    vanished = cloud(faults={**certain, "vanishing": 1})
    asked_first = cloud(faults={**certain, "reclaims": 1}, destroy_delay_s=100)
    itself = cloud()
    told = []
    for made in (reclaimed, vanished, asked_first, itself):
        machine = create(made, "a", type_=SPOT)
        if made is asked_first:
            made.destroy(machine.id, 0)
        if made is itself:
            made.end(machine, 30, EndedBy.ITSELF)
        story(made)
        told.append(made.bills([machine.id], 500)[machine.id].ended_by)
    assert told == [EndedBy.RECLAIMED, EndedBy.FAILURE, EndedBy.REQUEST, EndedBy.ITSELF]


def test_each_instance_is_in_one_of_the_zones_and_stays_there() -> None:
    made = cloud(zones=["z1", "z2"])
    machines = [create(made, str(number)) for number in range(20)]
    zones = [made.billed(machine, 1).zone for machine in machines]
    assert set(zones) == {"z1", "z2"}
    assert [made.billed(machine, 50).zone for machine in machines] == zones
    assert cloud().billed(create(cloud(), "a"), 1).zone == ""


def test_bills_of_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "REMEMBERED_BILLS", 2)
    made = cloud()
    ids = [create(made, token).id for token in "abc"]
    for id_ in ids:
        made.destroy(id_, 1)
        story(made)
    assert list(made.bills(ids, 20)) == ids[1:]


def test_what_is_too_new_or_a_call_that_fails_tells_nothing() -> None:
    made = cloud(faults={"listing_lag_s": 40})
    machine = create(made, "a")
    assert made.bills([machine.id], 0) == {}
    assert list(made.bills([machine.id], 40)) == [machine.id]
    made.faults = SimulatedFaults(listing_errors=1)
    with pytest.raises(CloudError, match="bills"):
        made.bills([machine.id], 40)


@contextmanager
def driver(directory: Path, **values: Any) -> Iterator[SimulatedInstanceSet]:
    parameters = msgspec.convert({"boot_time_s": 3000, **values}, DRIVER.parameters)
    context = DriverContext(cluster="c", state_dir=directory, clock=time.monotonic)
    made = DRIVER.make(parameters, context)
    assert isinstance(made, SimulatedInstanceSet)
    try:
        yield made
    finally:
        made.close()


def test_the_driver_tells_times_since_the_epoch_and_its_rule(tmp_path: Path) -> None:
    rule = {"starts": "requested", "unit_s": 60, "minimum_amount_usd": 0.01}
    with driver(tmp_path, zones=["z1"], billing=rule) as made:
        assert isinstance(made, Bills)
        assert str(made.billing_rule().minimum_amount_usd) == "0.01"
        before = time.time()
        instance = made.create(
            instance_type=TYPE, image="", tags={}, init_command="", public_key="k", token="t"
        )
        assert isinstance(instance, TellsBilling)
        assert instance.billed.zone == "z1"
        assert instance.billed.billed_from == pytest.approx(before, abs=5)
        instance.destroy()
        assert made.instances({}) == []
        told = made.bills([instance.id])[instance.id]
        assert told.billed_from == instance.billed.billed_from
        assert told.billed_until == pytest.approx(time.time(), abs=5)
        assert told.ended_by is EndedBy.REQUEST


def test_a_cloud_that_tells_nothing_is_no_bills(tmp_path: Path) -> None:
    with driver(tmp_path, tells_billing=False) as made:
        assert not isinstance(made, Bills)
        instance = made.create(
            instance_type=TYPE, image="", tags={}, init_command="", public_key="k", token="t"
        )
        assert not isinstance(instance, TellsBilling)
