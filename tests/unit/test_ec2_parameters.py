"""The parameters of the driver `ec2`: all that is wrong with them is told at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from longshore.drivers.ec2.driver import DRIVER
from longshore.drivers.ec2.parameters import Ec2Parameters, Ec2RootVolume, Ec2Scratch, check
from longshore.drivers.errors import ConfigError
from longshore.drivers.interface import (
    InstanceSet,
    PowersOff,
    Prices,
    QuotaGroups,
    WarnsOfInterruption,
)
from longshore.drivers.registry import DriverContext, driver


@pytest.fixture
def driver_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DriverContext:
    """Return a context on a machine where boto3 finds nothing of its own."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return DriverContext(cluster="c", state_dir=tmp_path, clock=time.monotonic)


def made(**fields: Any) -> Ec2Parameters:
    return msgspec.convert(fields, Ec2Parameters)


def test_nothing_is_wrong_with_the_defaults_and_with_all_that_can_be_said() -> None:
    assert check(Ec2Parameters()) == []
    everything = made(
        region="eu-central-1",
        endpoint_url="https://ec2.example:8443/path",
        access_key_id="AKIA",
        secret_access_key="shh",
        session_token="token",
        subnets=["subnet-0a1b2c3d", "subnet-0a1b2c3e"],
        security_groups=["sg-01"],
        iam_instance_profile="arn:aws:iam::123456789012:instance-profile/team/workers",
        address="public",
        images={
            "x86_64": "ami-0123",
            "arm64": "resolve:ssm:/a/b",
            "g5": "ami-1",
            "g5.xlarge": "ami-2",
        },
        price_list_url="https://prices.example/team@home/list.csv",
        scratch={"volume_type": "io2", "iops": 3000, "encrypted": True, "kms_key_id": "k"},
        root_volume={"size_gib": 20, "device": "/dev/xvda", "encrypted": True},
        spot_max_price="0.25",
        extra_tags={"team": "physics"},
    )
    assert check(everything) == []


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"region": "Europe"}, ["region"]),
        ({"endpoint_url": "ec2.example"}, ["endpoint_url"]),
        ({"price_list_url": "file:///list"}, ["price_list_url"]),
        ({"endpoint_url": "http://user:word@ec2.example/path"}, ["endpoint_url"]),
        ({"price_list_url": "https://word@prices.example"}, ["price_list_url"]),
        ({"profile": "p", "access_key_id": "a", "secret_access_key": "b"}, ["profile"]),
        ({"access_key_id": "a"}, ["secret_access_key"]),
        ({"secret_access_key": "a"}, ["access_key_id"]),
        ({"session_token": "a"}, ["session_token"]),
        ({"spot_max_price": "cheap"}, ["spot_max_price"]),
        ({"spot_max_price": "0"}, ["spot_max_price"]),
        ({"spot_max_price": "NaN"}, ["spot_max_price"]),
        ({"subnets": ["subnet-1", "vpc-1"]}, ["subnets[1]"]),
        ({"subnets": ["subnet-1", "subnet-1"]}, ["subnets[1]"]),
        ({"zones": ["eu-central-1"]}, ["zones[0]"]),
        ({"zones": ["eu-central-1a"], "subnets": ["subnet-1"]}, ["zones"]),
        ({"security_groups": ["default"]}, ["security_groups[0]"]),
        ({"iam_instance_profile": "a b"}, ["iam_instance_profile"]),
        ({"images": {"sparc": "ami-1"}}, ["images.sparc"]),
        ({"images": {"arm64": "debian"}}, ["images.arm64"]),
        ({"scratch": {"device": "sdf"}}, ["scratch.device"]),
        ({"scratch": {"volume_type": "st1", "iops": 100}}, ["scratch.iops"]),
        ({"scratch": {"volume_type": "io1"}}, ["scratch.iops"]),
        ({"scratch": {"volume_type": "io1", "iops": 99}}, ["scratch.iops"]),
        ({"scratch": {"iops": 2999}}, ["scratch.iops"]),
        ({"scratch": {"throughput_mib_s": 124}}, ["scratch.throughput_mib_s"]),
        ({"scratch": {"throughput_mib_s": 751}}, ["scratch.throughput_mib_s"]),
        ({"scratch": {"iops": 4000, "throughput_mib_s": 1001}}, ["scratch.throughput_mib_s"]),
        (
            {"scratch": {"volume_type": "gp2", "throughput_mib_s": 300}},
            ["scratch.throughput_mib_s"],
        ),
        ({"scratch": {"kms_key_id": "k"}}, ["scratch.encrypted"]),
        ({"scratch": {"directories": ["/a/../b"]}}, ["scratch.directories[0]"]),
        ({"scratch": {"directories": ["/a b"]}}, ["scratch.directories[0]"]),
        ({"scratch": {"directories": ["/"]}}, ["scratch.directories[0]"]),
        ({"root_volume": {"size_gib": 8}}, ["root_volume.device"]),
        ({"root_volume": {"size_gib": 8, "device": "/dev/sdf"}}, ["root_volume.device"]),
        ({"root_volume": {"encrypted": True}}, ["root_volume.size_gib"]),
        ({"extra_tags": {"longshore-token": "x"}}, ["extra_tags.longshore-token"]),
        ({"extra_tags": {"aws:x": "x"}}, ["extra_tags.aws:x"]),
        ({"extra_tags": {"x": "v" * 257}}, ["extra_tags.x"]),
        ({"extra_tags": {str(number): "" for number in range(41)}}, ["extra_tags"]),
        ({"region": "X", "subnets": ["y"], "address": "public"}, ["region", "subnets[0]"]),
    ],
)
def test_what_is_wrong_is_told_with_its_path(fields: dict[str, Any], paths: list[str]) -> None:
    problems = check(made(**fields))
    assert [path for path, _ in problems] == paths
    assert all(what for _, what in problems)


@pytest.mark.parametrize(
    "fields",
    [
        {"address": "both"},
        {"ssh_port": 0},
        {"subnet": []},
        {"scratch": {"volume_type": "fast"}},
        {"root_volume": {"size_gib": 8, "device": "/dev/xvda", "volume_type": "io2"}},
        {"root_volume": {"size_gib": 200, "device": "/dev/xvda", "volume_type": "st1"}},
        {"read_timeout_s": 0},
    ],
)
def test_what_is_of_another_type_is_refused_before(fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        made(**fields)


def test_the_driver_is_built_in_and_can_what_it_says(driver_context: DriverContext) -> None:
    assert driver("ec2") is DRIVER
    instance_set: InstanceSet = DRIVER.make(made(region="eu-test-1"), driver_context)
    try:
        for protocol in (Prices, PowersOff, QuotaGroups, WarnsOfInterruption):
            assert isinstance(instance_set, protocol)
    finally:
        instance_set.close()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "driver.parameters.region"),
        ({"region": "eu-test-1", "profile": "nobody"}, "driver.parameters.profile"),
        ({"region": "eu-test-1", "subnets": ["x"]}, "driver.parameters.subnets[0]"),
    ],
)
def test_making_it_tells_what_boto3_finds_wrong(
    fields: dict[str, Any], path: str, driver_context: DriverContext
) -> None:
    with pytest.raises(ConfigError) as caught:
        DRIVER.make(made(**fields), driver_context)
    assert [where for where, _ in caught.value.problems] == [path]


def test_the_example_explains_every_parameter_with_its_default() -> None:
    text = Path(__file__).parents[2].joinpath("config.example.yml").read_text(encoding="utf-8")
    block = text.partition("#   name: ec2\n#   parameters:\n")[2].partition("\n\n")[0]
    shown = yaml.safe_load("\n".join(line.removeprefix("#") for line in block.splitlines()))
    assert shown == msgspec.json.decode(msgspec.json.encode(Ec2Parameters()))


def test_the_page_explains_every_parameter() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "ec2.md").read_text(encoding="utf-8")
    structs = (Ec2Parameters, Ec2Scratch, Ec2RootVolume)
    names = [each.name for struct in structs for each in msgspec.structs.fields(struct)]
    assert [name for name in names if f"`{name}`" not in page and f".{name}`" not in page] == []
