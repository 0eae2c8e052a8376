"""Which types do for GPUs of a kind, resources of one's own, and requests of no cpus."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import Constraints
from longshore.dispatcher.domain.feasibility import eligible_types, impossible, rejections
from longshore.dispatcher.domain.messages import PricesChanged
from longshore.drivers.interface import Resources
from tests.rigs.engine import Rig
from tests.samples import GIB, make_container, make_type

A100 = replace(
    make_type(8, name="a100s", gpu_model="a100", gpu_memory_bytes=40 * GIB),
    resources=Resources(cpu_millis=8000, memory_bytes=8 * GIB, gpus=4),
)
UNKNOWN_MODEL = replace(A100, name="some-gpus", gpu_model="", gpu_memory_bytes=0)
NO_GPUS = make_type(8, name="no-gpus")
ANY = Constraints()
TWO = Resources(cpu_millis=1000, gpus=2)


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (Constraints(), []),
        (Constraints(gpu_model="a100"), []),
        (Constraints(gpu_model="A100"), []),
        (Constraints(gpu_model="a100", gpu_memory_bytes=40 * GIB), []),
        (Constraints(gpu_model="h100"), ["gpu model h100 missing"]),
        (Constraints(gpu_memory_bytes=40 * GIB + 1), ["too small in gpu memory"]),
        (
            Constraints(gpu_model="a10", gpu_memory_bytes=80 * GIB),
            ["gpu model a10 missing", "too small in gpu memory"],
        ),
    ],
)
def test_gpus_are_told_apart_by_model_and_memory(
    constraints: Constraints, expected: list[str]
) -> None:
    assert rejections(A100, TWO, constraints) == expected


def test_a_type_whose_gpus_have_no_name_does_where_none_is_asked_for() -> None:
    assert rejections(UNKNOWN_MODEL, TWO, Constraints()) == []
    wanted = Constraints(gpu_model="a100", gpu_memory_bytes=1)
    assert rejections(UNKNOWN_MODEL, TWO, wanted) == [
        "gpu model a100 missing",
        "too small in gpu memory",
    ]
    assert rejections(NO_GPUS, TWO, wanted)[0] == "has no gpus"


def test_the_nearest_type_is_told_with_its_gpus_and_resources() -> None:
    type_ = replace(A100, resources=A100.resources.having([("licence", 2)]))
    said = impossible([NO_GPUS, type_], TWO, Constraints(gpu_model="h100"))
    assert "nearest is a100s (8 cpus, 8 GiB of memory, 0 GiB of disk, " in said
    assert "4 gpus of model a100 with 40 GiB each, 2 licence for containers)" in said
    assert "gpu model h100 missing" in said
    three = Resources(cpu_millis=1000, custom=(("licence", 3),))
    said = impossible([NO_GPUS, type_], three, Constraints())
    assert "too small in licence" in said
    two = Resources(cpu_millis=1000, custom=(("licence", 2),))
    assert impossible([NO_GPUS, type_], two, Constraints()) == ""
    found = eligible_types([NO_GPUS, type_], two, Constraints(), max_price_factor=9)
    assert [each.name for each in found] == ["a100s"]


def test_a_resource_that_the_system_keeps_is_not_given_away() -> None:
    type_ = make_type(1, reserve=Resources(custom=(("licence", 1),)))
    type_ = replace(type_, resources=type_.resources.having([("licence", 2)]))
    wanted = Resources(cpu_millis=1, custom=(("licence", 2),))
    assert rejections(type_, wanted, Constraints()) == ["too small in licence"]


def test_an_empty_required_label_does_not_match_a_missing_one() -> None:
    wanted = Constraints(labels=(("ssd", ""),))
    assert rejections(make_type(1), Resources(), wanted) == ["label ssd= missing"]
    assert rejections(make_type(1, labels=(("ssd", "yes"),)), Resources(), wanted) == [
        "label ssd= missing"
    ]
    assert rejections(make_type(1, labels=(("ssd", ""),)), Resources(), wanted) == []


def test_a_type_below_one_cpu_takes_no_request_of_no_cpus() -> None:
    half = replace(make_type(1, name="half"), resources=Resources(cpu_millis=500, memory_bytes=GIB))
    nothing = Resources(memory_bytes=1)
    assert rejections(half, nothing, Constraints()) == ["too small in cpus"]
    assert rejections(make_type(1), nothing, Constraints()) == []
    assert rejections(half, Resources(cpu_millis=500), Constraints()) == []


def test_the_nearest_type_is_the_one_that_lacks_the_least() -> None:
    narrow = replace(
        make_type(64, name="many-cpus"),
        resources=Resources(cpu_millis=64_000, memory_bytes=8 * GIB),
    )
    wide = replace(
        make_type(8, name="much-memory"),
        resources=Resources(cpu_millis=8_000, memory_bytes=90 * GIB),
    )
    wanted = Resources(cpu_millis=1000, memory_bytes=100 * GIB)
    assert "nearest is much-memory" in impossible([narrow, wide], wanted, Constraints())


def test_of_types_that_are_only_too_dear_the_cheapest_is_the_nearest() -> None:
    ceiling = Constraints(max_price_usd_per_hour=Decimal("0.01"))
    said = impossible([make_type(8), make_type(2)], Resources(cpu_millis=1000), ceiling)
    assert "nearest is t2" in said


def test_a_resource_that_no_type_has_is_told_as_such() -> None:
    said = impossible([NO_GPUS, make_type(2)], TWO, Constraints())
    assert "no type at all has gpus" in said
    assert "no type at all" not in impossible([NO_GPUS, A100], TWO.having([("gpus", 9)]), ANY)


def test_who_waits_for_a_ceiling_goes_by_the_price_of_now() -> None:
    rig = Rig(make_type(1, name="dear", price="0.4"))
    ceiling = Constraints(max_price_usd_per_hour=Decimal("0.3"))
    rig.submit(make_container(1, constraints=ceiling))
    assert rig.created_types() == []
    rig.send(PricesChanged(usd_per_hour={"dear": Decimal("0.3")}))
    rig.settle()
    assert rig.started_on()["c-1"]
