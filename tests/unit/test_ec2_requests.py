"""What is sent to EC2 for one instance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from longshore.drivers.ec2.driver import DRIVER
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.ec2.requests import (
    LaunchTarget,
    client_token,
    image_of,
    leftover_filters,
    listing_filters,
    placements,
    run_arguments,
    scratch_gib,
    targets,
)
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import InstanceType, Resources
from tests.ec2_answers import TYPE

SPOT = replace(TYPE, preemptible=True)
GIB = 2**30


def made(**fields: Any) -> Ec2Parameters:
    return msgspec.convert(fields, Ec2Parameters)


def arguments(
    parameters: Ec2Parameters | None = None,
    type_: InstanceType = TYPE,
    placement: LaunchTarget = LaunchTarget(subnet="subnet-1"),  # noqa: B008 - it is frozen
    **more: Any,
) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "image": "ami-1",
        "tags": {"longshore-cluster": "c"},
        "user_data": b"data",
        "key_name": "longshore-key",
        "token": "token-1",
    }
    return run_arguments(parameters or Ec2Parameters(), type_, placement, **(wanted | more))


def test_the_whole_request_for_an_ordinary_instance() -> None:
    tags = [
        {"Key": "longshore-cluster", "Value": "c"},
        {"Key": "longshore-token", "Value": "token-1"},
    ]
    assert arguments() == {
        "ImageId": "ami-1",
        "InstanceType": "m7i.large",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": client_token("token-1", TYPE, LaunchTarget(subnet="subnet-1")),
        "UserData": b"data",
        "KeyName": "longshore-key",
        "SubnetId": "subnet-1",
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
        },
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": tags},
            {"ResourceType": "volume", "Tags": tags},
            {"ResourceType": "network-interface", "Tags": tags},
        ],
    }


def test_a_client_token_is_of_one_attempt_in_one_place() -> None:
    here, there = LaunchTarget(subnet="subnet-1"), LaunchTarget(subnet="subnet-2")
    tokens = [
        client_token("a", TYPE, here),
        client_token("b", TYPE, here),
        client_token("a", SPOT, here),
        client_token("a", replace(TYPE, provider_type="m7i.xlarge"), here),
        client_token("a", TYPE, there),
        client_token("a", TYPE, LaunchTarget(zone="subnet-1")),
    ]
    assert len(set(tokens)) == len(tokens)
    assert client_token("a", replace(TYPE, name="other"), here) == tokens[0]
    assert all(len(each) <= 64 and each.isascii() for each in tokens)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [LaunchTarget()]),
        ({"subnets": ["subnet-2", "subnet-1"]}, ["subnet-2", "subnet-1"]),
        ({"zones": ["eu-test-1a"]}, [LaunchTarget(zone="eu-test-1a")]),
    ],
)
def test_placements_come_in_the_configured_order(
    fields: dict[str, Any], expected: list[Any]
) -> None:
    wanted = [LaunchTarget(subnet=each) if isinstance(each, str) else each for each in expected]
    assert list(placements(made(**fields))) == wanted


@pytest.mark.parametrize(
    ("fields", "placement", "expected"),
    [
        ({}, LaunchTarget(), {}),
        (
            {"zones": ["eu-test-1a"]},
            LaunchTarget(zone="eu-test-1a"),
            {"Placement": {"AvailabilityZone": "eu-test-1a"}},
        ),
        (
            {"security_groups": ["sg-1", "sg-2"]},
            LaunchTarget(subnet="subnet-1"),
            {"SubnetId": "subnet-1", "SecurityGroupIds": ["sg-1", "sg-2"]},
        ),
        (
            {"security_groups": ["sg-1"], "address": "public"},
            LaunchTarget(subnet="subnet-1"),
            {
                "NetworkInterfaces": [
                    {
                        "DeviceIndex": 0,
                        "SubnetId": "subnet-1",
                        "AssociatePublicIpAddress": True,
                        "DeleteOnTermination": True,
                        "Groups": ["sg-1"],
                    }
                ]
            },
        ),
        (
            {"security_groups": ["sg-1"], "address": "public"},
            LaunchTarget(),
            {"SecurityGroupIds": ["sg-1"]},
        ),
    ],
)
def test_the_network(
    fields: dict[str, Any], placement: LaunchTarget, expected: dict[str, Any]
) -> None:
    sent = arguments(made(**fields), placement=placement)
    names = ("NetworkInterfaces", "SecurityGroupIds", "SubnetId", "Placement")
    assert {name: sent[name] for name in names if name in sent} == expected


@pytest.mark.parametrize(
    ("price", "expected"), [("", {}), ("0.2500", {"MaxPrice": "0.2500"})], ids=["market", "limit"]
)
def test_a_preemptible_type_is_a_spot_instance_that_never_comes_back(
    price: str, expected: dict[str, str]
) -> None:
    sent = arguments(made(spot_max_price=price), SPOT)
    options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    assert sent["InstanceMarketOptions"] == {
        "MarketType": "spot",
        "SpotOptions": options | expected,
    }
    assert [each["ResourceType"] for each in sent["TagSpecifications"]] == [
        "instance",
        "volume",
        "network-interface",
        "spot-instances-request",
    ]
    assert "InstanceMarketOptions" not in arguments(made(spot_max_price=price))


def test_extra_tags_are_put_on_and_ours_win() -> None:
    (sent, *_) = arguments(made(extra_tags={"team": "x", "longshore-cluster": "y"}))[
        "TagSpecifications"
    ]
    assert {each["Key"]: each["Value"] for each in sent["Tags"]} == {
        "team": "x",
        "longshore-cluster": "c",
        "longshore-token": "token-1",
    }


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("workers", {"Name": "workers"}),
        (
            "arn:aws:iam::1:instance-profile/w",
            {"Arn": "arn:aws:iam::1:instance-profile/w"},
        ),
    ],
)
def test_the_profile_is_named_as_it_is_written(profile: str, expected: dict[str, str]) -> None:
    assert arguments(made(iam_instance_profile=profile))["IamInstanceProfile"] == expected


def test_without_a_key_pair_none_is_named() -> None:
    assert "KeyName" not in arguments(key_name="")


IMAGES = {"x86_64": "ami-a", "arm64": "ami-b", "g5": "ami-c", "g5.xlarge": "ami-d"}


@pytest.mark.parametrize(
    ("name", "images", "expected"),
    [
        ("g5.xlarge", IMAGES, "ami-d"),
        ("g5.2xlarge", IMAGES, "ami-c"),
        ("m7g.large", IMAGES, "ami-b"),
        ("m7i.large", IMAGES, "ami-a"),
        ("m7g.large", {"x86_64": "ami-a"}, "ami-pool"),
        ("odd", {}, "ami-pool"),
    ],
)
def test_the_most_exact_image_is_booted(name: str, images: dict[str, str], expected: str) -> None:
    type_ = replace(TYPE, provider_type=name)
    assert image_of(made(images=images), type_, "ami-pool") == expected


def test_a_type_without_an_image_says_what_to_set() -> None:
    with pytest.raises(CloudError, match=r"driver\.parameters\.images\.arm64 or pool\.image"):
        image_of(made(), replace(TYPE, provider_type="m7g.large"), "")


@pytest.mark.parametrize(
    ("name", "disk_bytes", "fields", "expected"),
    [
        ("m5.large", 0, {}, 0),
        ("m5.large", 1, {}, 1),
        ("m5.large", 10 * GIB, {}, 10),
        ("m5.large", 10 * GIB + 1, {}, 11),
        ("m5d.large", 10 * GIB, {}, 0),
        ("m5d.large", 10 * GIB, {"scratch": {"instance_store": False}}, 10),
    ],
)
def test_a_volume_is_as_large_as_the_disk_of_its_type(
    name: str, disk_bytes: int, fields: dict[str, Any], expected: int
) -> None:
    type_ = replace(TYPE, provider_type=name, resources=Resources(disk_bytes=disk_bytes))
    assert scratch_gib(made(**fields), type_) == expected
    assert ("BlockDeviceMappings" in arguments(made(**fields), type_)) == bool(expected)


@pytest.mark.parametrize(
    ("scratch", "disk_gib", "fault"),
    [
        ({}, 1, None),
        ({"iops": 3000}, 1, None),
        ({"iops": 3001}, 6, "gives 3000 iops at most"),
        ({"iops": 4000}, 8, None),
        ({"volume_type": "io1", "iops": 200}, 4, None),
        ({"volume_type": "io1", "iops": 201}, 4, "gives 200 iops at most"),
        ({"volume_type": "io2", "iops": 100}, 3, "has 4 at least"),
        ({"volume_type": "st1"}, 124, "has 125 at least"),
        ({"volume_type": "st1"}, 125, None),
        ({"volume_type": "sc1"}, 0, None),
    ],
)
def test_a_volume_that_ec2_would_not_make_is_told_before(
    scratch: dict[str, Any], disk_gib: int, fault: str | None
) -> None:
    type_ = replace(TYPE, resources=Resources(disk_bytes=disk_gib * GIB))
    told = DRIVER.fault_of_type(made(scratch=scratch), type_) if DRIVER.fault_of_type else ""
    assert told == fault if fault is None else fault in (told or "")


def test_volumes_are_as_they_are_wanted_and_go_with_the_instance() -> None:
    parameters = made(
        scratch={
            "iops": 4000,
            "throughput_mib_s": 500,
            "device": "/dev/sdg",
            "encrypted": True,
            "kms_key_id": "key",
        },
        root_volume={"size_gib": 20, "device": "/dev/xvda", "volume_type": "gp2"},
    )
    type_ = replace(TYPE, resources=Resources(disk_bytes=100 * GIB))
    assert arguments(parameters, type_)["BlockDeviceMappings"] == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {"VolumeSize": 20, "VolumeType": "gp2", "DeleteOnTermination": True},
        },
        {
            "DeviceName": "/dev/sdg",
            "Ebs": {
                "VolumeSize": 100,
                "VolumeType": "gp3",
                "DeleteOnTermination": True,
                "Encrypted": True,
                "Iops": 4000,
                "Throughput": 500,
                "KmsKeyId": "key",
            },
        },
    ]


def test_a_listing_asks_for_all_that_is_not_gone_and_takes_values_literally() -> None:
    assert listing_filters({"b": "x*?\\", "a": "1"}) == [
        {
            "Name": "instance-state-name",
            "Values": ["pending", "running", "shutting-down", "stopping", "stopped"],
        },
        {"Name": "tag:a", "Values": ["1"]},
        {"Name": "tag:b", "Values": ["x\\*\\?\\\\"]},
    ]


def test_what_is_left_is_what_no_instance_has() -> None:
    assert leftover_filters({"a": "x*"}) == [
        {"Name": "status", "Values": ["available"]},
        {"Name": "tag:a", "Values": ["x\\*"]},
    ]


def test_volumes_of_the_image_end_with_the_instance_beside_those_that_are_ours() -> None:
    parameters = made(root_volume={"size_gib": 30, "device": "/dev/xvda"})
    type_ = replace(TYPE, resources=Resources(cpu_millis=2000, disk_bytes=20 * GIB))
    devices = arguments(parameters, type_, image_devices=["/dev/sdf", "/dev/sdx", "/dev/xvda"])[
        "BlockDeviceMappings"
    ]
    assert [each["DeviceName"] for each in devices] == ["/dev/xvda", "/dev/sdf", "/dev/sdx"]
    assert [each["Ebs"]["DeleteOnTermination"] for each in devices] == [True] * 3
    assert devices[2]["Ebs"] == {"DeleteOnTermination": True}, "else it is as the image has it"


def test_an_instance_is_asked_for_in_its_reservation_first() -> None:
    parameters = made(subnets=("subnet-1", "subnet-2"))
    reserved = replace(TYPE, reservation="cr-1")
    first, *others = targets(parameters, reserved)
    assert (first.name, tuple(others)) == ("subnet-1 within cr-1", placements(parameters))
    asked = arguments(parameters, placement=first)
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    assert asked["CapacityReservationSpecification"] == target
    plain = arguments(parameters, placement=others[0])
    assert "CapacityReservationSpecification" not in plain
    assert asked["ClientToken"] != plain["ClientToken"]
    assert targets(parameters, TYPE) == placements(parameters)
    assert targets(parameters, replace(SPOT, reservation="cr-1")) == placements(parameters)


@pytest.mark.parametrize(("reservation", "fault"), [("", ""), ("cr-0a", ""), ("r-1", "like cr-")])
def test_what_is_no_reservation_of_ec2_is_told(reservation: str, fault: str) -> None:
    assert DRIVER.fault_of_type is not None
    told = DRIVER.fault_of_type(made(), replace(TYPE, reservation=reservation)) or ""
    assert fault in told if fault else not told
