"""What configurations say of GPUs, defaults of types and limits of the scheduler."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from longshore.dispatcher.config.loading import instance_types, load_config, plain, price_terms
from longshore.dispatcher.cost.prices import AS_TOLD
from longshore.drivers.errors import ConfigError
from longshore.drivers.interface import InstanceType

SMALL = {"cpus": 2, "memory": "4GiB", "price_per_hour": 0.1}
MODELLED = {"gpus": {"count": 4, "memory": "40GiB", "model": "a100"}}


def write(directory: Path, content: dict[str, Any]) -> Path:
    path = directory / "longshore.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def type_of(directory: Path, **changes: object) -> InstanceType:
    content = {"instance_types": {"small": {**SMALL, **changes}}}
    (type_,) = instance_types(load_config(write(directory, content)))
    return type_


def problems(directory: Path, content: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_config(write(directory, content))
    return dict(caught.value.problems)


def test_gpus_are_a_number_or_what_each_of_them_is(tmp_path: Path) -> None:
    plain_gpus = type_of(tmp_path, gpus=3)
    assert (plain_gpus.resources.gpus, plain_gpus.gpu_model, plain_gpus.gpu_memory_bytes) == (
        3,
        "",
        0,
    )
    modelled = type_of(tmp_path, **MODELLED)
    assert (modelled.resources.gpus, modelled.gpu_model) == (4, "a100")
    assert modelled.gpu_memory_bytes == 40 * 2**30
    assert type_of(tmp_path, gpus=4, reserve={"gpus": 1}).allocatable.gpus == 3


def test_defaults_of_a_type_are_those_that_are_given(tmp_path: Path) -> None:
    assert type_of(tmp_path).defaults == ()
    defaults = {"cpus": 0.5, "memory": "1GiB", "disk": None, "gpus": 0, "resources": {"fpga": 1}}
    type_ = type_of(tmp_path, defaults=defaults, resources={"fpga": 2})
    assert type_.defaults == (("cpus", 500), ("fpga", 1), ("gpus", 0), ("memory", 2**30))


@pytest.mark.parametrize(
    ("changes", "path", "what"),
    [
        ({"gpus": {"model": "a100"}}, "gpus.count", "is missing"),
        ({"gpus": {"count": 0, "model": "a100"}}, "gpus.count", "count them"),
        ({"gpus": {"count": 0, "memory": 5}}, "gpus.count", "count them"),
        ({"gpus": {"count": 1, "model": "a 100"}}, "gpus.model", "is not a name"),
        ({"gpus": {"count": 1, "cores": 5}}, "gpus.cores", "is not known"),
        ({"gpus": "two"}, "gpus", "must be a whole number or an object, not text"),
        ({"gpus": 1, "reserve": {"gpus": 2}}, "reserve.gpus", "reserve less"),
        ({"resources": {"fpga": 0.5}}, "resources.fpga", "must be a whole number"),
        ({"defaults": {"cpus": 3}}, "defaults.cpus", "is more than such an instance has"),
        (
            {"defaults": {"memory": "4GiB"}, "reserve": {"memory": "1GiB"}},
            "defaults.memory",
            "give them less",
        ),
        ({"defaults": {"gpus": 1}}, "defaults.gpus", "give them less"),
        ({"defaults": {"resources": {"fpga": 1}}}, "defaults.resources.fpga", "give them less"),
        ({"defaults": {"resources": {"cpus": 1}}}, "defaults.resources.cpus", "of its own"),
        ({"prepaid": 1, "preemptible": True}, "prepaid", "make it a type of its own"),
        ({"reservation": "cr-1", "preemptible": True}, "reservation", "leave it out"),
        ({"reservation": "cr-1"}, "reservation", "the driver loopback knows no reservations"),
        ({"prepaid": -1}, "prepaid", "must be"),
        ({"defaults": {"gpu": 1}}, "defaults.gpu", 'did you mean "gpus"?'),
    ],
)
def test_a_type_that_makes_no_sense_is_refused(
    tmp_path: Path, changes: dict[str, object], path: str, what: str
) -> None:
    found = problems(tmp_path, {"instance_types": {"small": {**SMALL, **changes}}})
    assert what in found[f"instance_types.small.{path}"]


def test_what_is_prepaid_and_reserved_is_taken_and_all_that_is_wrong_with_it_told_at_once(
    tmp_path: Path,
) -> None:
    assert type_of(tmp_path, prepaid=3).prepaid == 3
    assert (type_of(tmp_path).prepaid, type_of(tmp_path).reservation) == (0, "")
    wrong = {**SMALL, "preemptible": True, "prepaid": 1, "reservation": "r"}
    found = problems(tmp_path, {"instance_types": {"small": wrong}})
    assert {"instance_types.small.prepaid", "instance_types.small.reservation"} <= found.keys()
    ec2 = {"name": "ec2", "parameters": {"region": "eu-central-1"}}
    content = {"driver": ec2, "pool": {"image": "ami-1"}}
    large = {**SMALL, "provider_type": "m5.large", "memory": "8GiB", "reservation": "r"}
    found = problems(tmp_path, {**content, "instance_types": {"small": large}})
    assert "like cr-" in found["instance_types.small"]


def test_limits_of_the_scheduler_are_exact(tmp_path: Path) -> None:
    content = {
        "scheduler": {
            "max_containers": 500,
            "supervisor_fraction": 0.25,
            "max_hourly_spend": 12.3,
            "max_hourly_spend_per_project": {"vision": 0.1, "*": 5},
            "max_hourly_spend_per_user": {"ann": 0},
        }
    }
    config = load_config(write(tmp_path, content))
    settings = config.scheduler
    assert (settings.max_containers, settings.supervisor_fraction) == (500, 0.25)
    assert settings.max_hourly_spend_usd == Decimal("12.3")
    assert settings.max_hourly_spend_usd_per_project == {"vision": Decimal("0.1"), "*": Decimal(5)}
    assert settings.max_hourly_spend_usd_per_user == {"ann": Decimal(0)}
    assert load_config(write(tmp_path, plain(config))) == config
    without = load_config(write(tmp_path, {})).scheduler
    assert (without.max_containers, without.max_hourly_spend_usd) == (None, None)
    assert without.max_hourly_spend_usd_per_project == {}


def test_all_that_is_wrong_with_the_scheduler_is_said_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        {
            "scheduler": {
                "max_containers": 0,
                "supervisor_fraction": 1.1,
                "max_hourly_spend": -1,
                "max_hourly_spend_per_project": {"vision": "much", "": 1},
                "max_hourly_spend_per_user": [],
                "max_hourly_spent": 1,
            }
        },
    )
    assert sorted(found) == [
        "scheduler.max_containers",
        "scheduler.max_hourly_spend",
        "scheduler.max_hourly_spend_per_project.vision",
        'scheduler.max_hourly_spend_per_project[""]',
        "scheduler.max_hourly_spend_per_user",
        "scheduler.max_hourly_spent",
        "scheduler.supervisor_fraction",
    ]
    assert "at least 1" in found["scheduler.max_containers"]
    assert "US dollars an hour" in found["scheduler.max_hourly_spend"]
    assert "did you mean" in found["scheduler.max_hourly_spent"]


def test_gpus_and_defaults_that_are_shown_load_again(tmp_path: Path) -> None:
    small = {**SMALL, **MODELLED, "defaults": {"cpus": 0.125, "gpus": 1}}
    config = load_config(write(tmp_path, {"instance_types": {"small": small}}))
    assert plain(config)["instance_types"]["small"]["gpus"]["memory"] == 40 * 2**30
    assert load_config(write(tmp_path, plain(config))) == config


def test_live_prices_are_refused_where_the_driver_tells_none(tmp_path: Path) -> None:
    found = problems(tmp_path, {"cost": {"prices": "live"}})
    assert found == {
        "cost.prices": (
            "cannot be live: the driver loopback tells no prices; say configured, and what each"
            " type costs as its price_per_hour"
        )
    }


def test_what_is_billed_beside_an_instance_is_part_of_its_price(tmp_path: Path) -> None:
    components = {"root_disk": 0.002, "scratch": 0.0125, "public_ipv4": 0.005}
    types = {
        "small": {**SMALL, "price_per_hour": 0.1, "price_components": components},
        "spot": {**SMALL, "price_per_hour": 0.1, "preemptible": True},
        "unknown": {**SMALL, "price_per_hour": 0, "price_components": components},
    }
    factor = [
        {"type": "small", "market": "on-demand", "factor": 0.9},
        {"market": "spot", "factor": 0.5},
    ]
    content = {"driver": {"name": "simulated"}, "instance_types": types, "cost": {"factor": factor}}
    config = load_config(write(tmp_path, content))
    prices = {each.name: each.price_usd_per_hour for each in instance_types(config)}
    assert prices == {"small": Decimal("0.1095"), "spot": Decimal("0.05"), "unknown": Decimal(0)}
    live = price_terms(config)
    assert live["small"].whole(Decimal("0.2")) == Decimal("0.1995")
    assert live["spot"].whole(Decimal("0.2")) == Decimal("0.1")
    assert price_terms(load_config(write(tmp_path, {}))) == {"local": AS_TOLD}


def test_all_that_is_wrong_with_factors_is_said_at_once(tmp_path: Path) -> None:
    factor = [
        {"type": "smal", "factor": 0.9},
        {"market": "spot", "factor": 0.5},
        {"type": "small", "market": "spot", "factor": 0.4},
        {"type": "small", "factor": 0.4},
    ]
    found = problems(tmp_path, {"instance_types": {"small": SMALL}, "cost": {"factor": factor}})
    assert list(found) == ["cost.factor[0].type", "cost.factor[2]"]
    assert 'did you mean "small"?' in found["cost.factor[0].type"]
    low = {"cost": {"factor": [{"factor": 0}, {"market": "reserved", "factor": 11}]}}
    assert list(problems(tmp_path, low)) == [
        "cost.factor[0].factor",
        "cost.factor[1].factor",
        "cost.factor[1].market",
    ]
