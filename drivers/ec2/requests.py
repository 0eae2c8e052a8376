"""What is sent to EC2: the arguments of its calls, made of values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longshore.drivers.ec2.families import Family
from longshore.drivers.ec2.parameters import LEAST_IOPS, Ec2Parameters
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import TOKEN_TAG, InstanceType

LISTED_STATES = ("pending", "running", "shutting-down", "stopping", "stopped")
"""All but `terminated`: what still ends may still run something, and what is stopped costs."""

UNATTACHED = "available"
"""The status of a volume, and of a network interface, that no instance has."""

_GIB = 2**30
_LEAST_GIB = {"io1": 4, "io2": 4, "st1": 125, "sc1": 125}
_MOST_IOPS_PER_GIB = {"gp3": 500, "io1": 50, "io2": 1000}
_WILD = str.maketrans({"\\": "\\\\", "*": "\\*", "?": "\\?"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTarget:
    """Where an instance is made: a subnet, a zone of the default VPC, or ("" both) anywhere.

    `reservation` is the capacity reservation that it has to be in, "" for none in particular.
    """

    subnet: str = ""
    zone: str = ""
    reservation: str = ""

    @property
    def name(self) -> str:
        """Return what people call it."""
        place = self.subnet or self.zone or "any zone"
        return f"{place} within {self.reservation}" if self.reservation else place


def targets(parameters: Ec2Parameters, instance_type: InstanceType) -> tuple[LaunchTarget, ...]:
    """Return where an instance of a type is tried, in order: first in its capacity reservation.

    That is taken to be in the first of the places; when it is full, it is done without.
    """
    places = placements(parameters)
    if not instance_type.reservation or instance_type.preemptible:
        return places
    return (replace(places[0], reservation=instance_type.reservation), *places)


def placements(parameters: Ec2Parameters) -> tuple[LaunchTarget, ...]:
    """Return where instances may be made, in the order in which it is tried; never empty."""
    subnets = tuple(LaunchTarget(subnet=each) for each in parameters.subnets)
    zones = tuple(LaunchTarget(zone=each) for each in parameters.zones)
    return subnets or zones or (LaunchTarget(),)


def client_token(token: str, instance_type: InstanceType, placement: LaunchTarget) -> str:
    """Return the token of one request: EC2 takes none again with other parameters."""
    market = "spot" if instance_type.preemptible else "on-demand"
    place = (placement.subnet, placement.zone)
    parts: tuple[str, ...] = (token, instance_type.provider_type, market, *place)
    parts += (placement.reservation,) if placement.reservation else ()
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def image_of(parameters: Ec2Parameters, instance_type: InstanceType, image: str) -> str:
    """Return the image that a type boots, else `image`; raises `CloudError` when there is none."""
    chosen = own_image_of(parameters, instance_type) or image
    if not chosen:
        name = _image_names(instance_type)[-1]
        raise CloudError(
            f"no image for {instance_type.provider_type}: set driver.parameters.images.{name}"
            " or pool.image"
        )
    return chosen


def own_image_of(parameters: Ec2Parameters, instance_type: InstanceType) -> str:
    """Return the image that the parameters name for a type, the most exact one, "" for none."""
    names = _image_names(instance_type)
    return next((parameters.images[name] for name in names if name in parameters.images), "")


def _image_names(instance_type: InstanceType) -> list[str]:
    """Return under which names the image of a type may stand, the most exact one first."""
    family = Family.of(instance_type.provider_type)
    own = [instance_type.provider_type]
    return own if family is None else [*own, family.name, family.architecture]


def scratch_gib(parameters: Ec2Parameters, instance_type: InstanceType) -> int:
    """Return the size of the EBS volume that a type gets for its disk, 0 when it needs none."""
    disk_bytes = instance_type.resources.disk_bytes
    return 0 if uses_instance_store(parameters, instance_type) else -(-disk_bytes // _GIB)


def fault_of_scratch(parameters: Ec2Parameters, instance_type: InstanceType) -> str | None:
    """Return why EC2 would make no volume for a type's disk, None when it would, or need not."""
    size_gib, scratch = scratch_gib(parameters, instance_type), parameters.scratch
    least = _LEAST_GIB.get(scratch.volume_type, 1)
    if 0 < size_gib < least:
        return (
            f"has a disk of {size_gib} GiB, and a volume of {scratch.volume_type} has {least} at"
            " least: enlarge it, or take another driver.parameters.scratch.volume_type"
        )
    most = size_gib * _MOST_IOPS_PER_GIB.get(scratch.volume_type, 0)
    if size_gib and scratch.iops > max(most, LEAST_IOPS.get(scratch.volume_type, 0)):
        return (
            f"has a disk of {size_gib} GiB, for which {scratch.volume_type} gives {most} iops at"
            " most: lower driver.parameters.scratch.iops, or enlarge it"
        )
    return None


def uses_instance_store(parameters: Ec2Parameters, instance_type: InstanceType) -> bool:
    """Return whether the disk of a type is one of the host's."""
    family = Family.of(instance_type.provider_type)
    has_store = family is not None and family.has_instance_store
    return bool(
        instance_type.resources.disk_bytes and has_store and parameters.scratch.instance_store
    )


def run_arguments(
    parameters: Ec2Parameters,
    instance_type: InstanceType,
    placement: LaunchTarget,
    *,
    image: str,
    tags: Mapping[str, str],
    user_data: bytes,
    key_name: str,
    token: str,
    image_devices: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the arguments of RunInstances for one instance; `key_name` is "" for no key pair.

    `image_devices` are those that the image maps to volumes of its own.
    """
    arguments: dict[str, Any] = {
        "ImageId": image_of(parameters, instance_type, image),
        "InstanceType": instance_type.provider_type,
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": client_token(token, instance_type, placement),
        "UserData": user_data,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
        },
        "TagSpecifications": _tag_specifications(parameters, instance_type, tags, token),
        **_network(parameters, placement),
    }
    if key_name:
        arguments["KeyName"] = key_name
    if profile := parameters.iam_instance_profile:
        kind = "Arn" if profile.startswith("arn:") else "Name"
        arguments["IamInstanceProfile"] = {kind: profile}
    if devices := _devices(parameters, instance_type, image_devices):
        arguments["BlockDeviceMappings"] = devices
    if placement.reservation:
        target = {"CapacityReservationId": placement.reservation}
        arguments["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    if instance_type.preemptible:
        arguments["InstanceMarketOptions"] = _spot(parameters)
    return arguments


def listing_filters(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the filters for the instances that carry all of `tags` and are not gone."""
    states = {"Name": "instance-state-name", "Values": list(LISTED_STATES)}
    return [states, *_by_tag(tags)]


def leftover_filters(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the filters for volumes, or interfaces, with all of `tags` that no instance has."""
    return [{"Name": "status", "Values": [UNATTACHED]}, *_by_tag(tags)]


def _by_tag(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"Name": f"tag:{key}", "Values": [value.translate(_WILD)]}
        for key, value in sorted(tags.items())
    ]


def as_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as EC2 takes them, sorted by key."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def _tag_specifications(
    parameters: Ec2Parameters, instance_type: InstanceType, tags: Mapping[str, str], token: str
) -> list[dict[str, Any]]:
    # Our token in any case: by it the instance is found when an answer was lost.
    all_tags = as_tags({**parameters.extra_tags, TOKEN_TAG: token, **tags})
    kinds = ["instance", "volume", "network-interface"]
    if instance_type.preemptible:
        kinds.append("spot-instances-request")
    return [{"ResourceType": kind, "Tags": all_tags} for kind in kinds]


def _network(parameters: Ec2Parameters, placement: LaunchTarget) -> dict[str, Any]:
    """Return where the instance is and what protects it.

    Without subnets it is in the default VPC, whose subnets give public addresses of themselves.
    """
    groups = list(parameters.security_groups)
    if placement.subnet and parameters.address == "public":
        interface: dict[str, Any] = {
            "DeviceIndex": 0,
            "SubnetId": placement.subnet,
            "AssociatePublicIpAddress": True,
            "DeleteOnTermination": True,
        }
        if groups:
            interface["Groups"] = groups
        return {"NetworkInterfaces": [interface]}
    network: dict[str, Any] = {}
    if groups:
        network["SecurityGroupIds"] = groups
    if placement.subnet:
        network["SubnetId"] = placement.subnet
    if placement.zone:
        network["Placement"] = {"AvailabilityZone": placement.zone}
    return network


def _devices(
    parameters: Ec2Parameters, instance_type: InstanceType, image_devices: Sequence[str]
) -> list[dict[str, Any]]:
    scratch, root = parameters.scratch, parameters.root_volume
    devices: list[dict[str, Any]] = []
    if root.size_gib:
        volume = _volume(root.size_gib, root.volume_type, encrypted=root.encrypted)
        devices.append({"DeviceName": root.device, "Ebs": volume})
    if size_gib := scratch_gib(parameters, instance_type):
        volume = _volume(size_gib, scratch.volume_type, encrypted=scratch.encrypted)
        if scratch.iops:
            volume["Iops"] = scratch.iops
        if scratch.throughput_mib_s:
            volume["Throughput"] = scratch.throughput_mib_s
        if scratch.kms_key_id:
            volume["KmsKeyId"] = scratch.kms_key_id
        devices.append({"DeviceName": scratch.device, "Ebs": volume})
    ours = {each["DeviceName"] for each in devices}
    # Else what the image says of it counts, and it may stay, and be billed, without the instance.
    ends = {"DeleteOnTermination": True}
    devices += [{"DeviceName": each, "Ebs": ends} for each in image_devices if each not in ours]
    return devices


def _volume(size_gib: int, volume_type: str, *, encrypted: bool) -> dict[str, Any]:
    volume = {"VolumeSize": size_gib, "VolumeType": volume_type, "DeleteOnTermination": True}
    # False would be refused where the account encrypts everything.
    return {**volume, "Encrypted": True} if encrypted else volume


def _spot(parameters: Ec2Parameters) -> dict[str, Any]:
    options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    if parameters.spot_max_price:
        options["MaxPrice"] = parameters.spot_max_price
    return {"MarketType": "spot", "SpotOptions": options}
