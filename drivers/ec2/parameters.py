"""What the configuration tells the driver, and what makes no sense in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal

import msgspec

from longshore.drivers.ec2.families import ARCHITECTURES, Family
from longshore.drivers.interface import SECRET, InstanceType

Seconds = Annotated[float, msgspec.Meta(ge=1, le=600)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Gibibytes = Annotated[int, msgspec.Meta(ge=0, le=65536)]
VolumeType = Literal["gp3", "gp2", "io1", "io2", "st1", "sc1"]
BootVolumeType = Literal["gp3", "gp2"]

LEAST_IOPS = {"gp3": 3000, "io1": 100, "io2": 100}
"""What a volume of each type has at least, where iops can be chosen."""

_OUR_TAGS = "longshore-"
_MOST_EXTRA_TAGS = 40
_GP3_THROUGHPUT_MIB_S = 125
_GP3_IOPS_PER_MIB_S = 4


class Ec2Scratch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the `disk` of a type comes from; it holds the runner's directory.

    A type whose family has NVMe disks of its own gives those, if `instance_store`; any other gets
    an EBS volume of its `disk`, rounded up to GiB, of `volume_type`, attached as `device`. `iops`
    and `throughput_mib_s` of 0 are EC2's own. `encrypted` with "" for `kms_key_id` takes the
    account's key. `directories` are absolute paths that lie there too, such as /var/lib/containers;
    what the image has in them is copied.
    """

    instance_store: bool = True
    volume_type: VolumeType = "gp3"
    iops: Annotated[int, msgspec.Meta(ge=0, le=256_000)] = 0
    throughput_mib_s: Annotated[int, msgspec.Meta(ge=0, le=2000)] = 0
    device: str = "/dev/sdf"
    encrypted: bool = False
    kms_key_id: str = ""
    directories: tuple[str, ...] = ()


class Ec2RootVolume(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The volume that an instance boots from: as the image has it, unless `size_gib` is above 0.

    `device` must then be the image's own name for it, such as /dev/xvda or /dev/sda1.
    """

    size_gib: Gibibytes = 0
    device: str = ""
    volume_type: BootVolumeType = "gp3"
    encrypted: bool = False


class Ec2Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where instances are made, how they are reached, and with which credentials.

    `region` and the credentials are boto3's own where they are "" (environment, shared files, role
    of this machine); `endpoint_url` is that of another cloud which speaks the API. `subnets`, or
    `zones` of the default VPC, are tried in turn when one has no capacity; without, EC2 chooses.
    `images` are AMIs by type (g5.xlarge), family (g5) or architecture (x86_64, arm64), in this
    order of precedence; what is not in it boots the pool's image. `iam_instance_profile` is a name
    or an ARN. `spot_max_price` are USD an hour, "" the on-demand price. `extra_tags` are put on
    instances and volumes. `key_import` gives instances our public key as a key pair too.
    `metadata_for_all` lets every user of an instance reach its metadata service, not just root and
    the login user. `price_list_url` is "" for Amazon's own. Timeouts are those of one request.
    """

    region: str = ""
    endpoint_url: str = ""
    profile: str = ""
    access_key_id: Annotated[str, SECRET] = ""
    secret_access_key: Annotated[str, SECRET] = ""
    session_token: Annotated[str, SECRET] = ""
    subnets: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    iam_instance_profile: str = ""
    address: Literal["private", "public"] = "private"
    ssh_port: Port = 22
    images: dict[str, str] = {}
    scratch: Ec2Scratch = Ec2Scratch()
    root_volume: Ec2RootVolume = Ec2RootVolume()
    spot_max_price: str = ""
    extra_tags: dict[str, str] = {}
    key_import: bool = True
    metadata_for_all: bool = False
    price_list_url: str = ""
    connect_timeout_s: Seconds = 10.0
    read_timeout_s: Seconds = 60.0


def check(parameters: Ec2Parameters) -> Sequence[tuple[str, str]]:
    """Return what is wrong with the parameters, as (path, what and remedy); asks no cloud."""
    return [
        *_of_access(parameters),
        *_of_network(parameters),
        *_of_images(parameters),
        *_of_scratch(parameters.scratch),
        *_of_root_volume(parameters),
        *_of_tags(parameters),
    ]


def fault_of_reservation(instance_type: InstanceType) -> str | None:
    """Return what is wrong with the reservation of a type, None when nothing is."""
    name = instance_type.reservation
    if not name or re.fullmatch(r"cr-[0-9a-f]+", name):
        return None
    return (
        f"its reservation {name!r} is not a capacity reservation's id: write one like cr-0a1b2c3d"
    )


def _of_access(given: Ec2Parameters) -> Iterator[tuple[str, str]]:
    if given.region and not re.fullmatch(r"[a-z]{2,}(-[a-z0-9]+)+", given.region):
        yield "region", "is not the name of a region: write one like eu-central-1"
    urls = (("endpoint_url", given.endpoint_url), ("price_list_url", given.price_list_url))
    for name, url in urls:
        if url and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", url):
            yield name, "is not an address: write one like https://HOST:PORT, or leave it empty"
        elif "@" in url.partition("://")[2].partition("/")[0]:
            yield name, "holds a user or a password, and it is shown and logged: take them out"
    if given.profile and given.access_key_id:
        yield "profile", "names credentials, and access_key_id does too: remove one of them"
    if bool(given.access_key_id) != bool(given.secret_access_key):
        missing = "secret_access_key" if given.access_key_id else "access_key_id"
        yield missing, "is missing: a key is both, its id and its secret"
    if given.session_token and not given.access_key_id:
        yield "session_token", "belongs to an access key: add access_key_id and secret_access_key"
    if given.spot_max_price and not _is_price(given.spot_max_price):
        yield "spot_max_price", 'is no price: write US dollars an hour in quotes, like "0.25"'


def _is_price(text: str) -> bool:
    try:
        price = Decimal(text)
    except InvalidOperation:
        return False
    return price.is_finite() and price > 0 and text.strip() == text


def _of_network(given: Ec2Parameters) -> Iterator[tuple[str, str]]:
    shapes = (
        ("subnets", given.subnets, r"subnet-[0-9a-f]+", "a subnet's id, like subnet-0a1b2c3d"),
        ("zones", given.zones, r"[a-z]{2,}(-[a-z0-9]+)+[a-z]", "a zone, like eu-central-1a"),
        ("security_groups", given.security_groups, r"sg-[0-9a-f]+", "a group's id, like sg-0a1b2c"),
    )
    for name, values, shape, what in shapes:
        for number, value in enumerate(values):
            if not re.fullmatch(shape, value):
                yield f"{name}[{number}]", f"is not {what}"
            elif value in values[:number]:
                yield f"{name}[{number}]", "is there twice: remove one"
    if given.subnets and given.zones:
        yield "zones", "are those of the subnets, if there are subnets: remove the zones"
    if given.iam_instance_profile and not re.fullmatch(
        r"[\w+=,.@-]+|arn:[\w-]+:iam::\d+:instance-profile/[\w+=,.@/-]+", given.iam_instance_profile
    ):
        yield "iam_instance_profile", "is neither a profile's name nor its ARN"


def _of_images(given: Ec2Parameters) -> Iterator[tuple[str, str]]:
    for key, image in sorted(given.images.items()):
        if key not in ARCHITECTURES and Family.of(key) is None:
            yield f"images.{key}", "is no type, family or architecture (x86_64 or arm64) of EC2"
        if not re.fullmatch(r"ami-[0-9a-f]+|resolve:ssm:\S+", image):
            yield f"images.{key}", "is not an image: write ami-… or resolve:ssm:PARAMETER"


def _of_scratch(scratch: Ec2Scratch) -> Iterator[tuple[str, str]]:
    if not _is_device(scratch.device):
        yield "scratch.device", "is not the name of a device: write one like /dev/sdf"
    yield from _of_speed(scratch)
    if scratch.kms_key_id and not scratch.encrypted:
        yield "scratch.encrypted", "is false, but a key is named: make it true"
    for number, path in enumerate(scratch.directories):
        if not re.fullmatch(r"(/[\w.-]*[\w-][\w.-]*)+", path):
            what = "is no absolute path of letters, digits, dots, dashes and underscores"
            yield f"scratch.directories[{number}]", what


def _of_speed(scratch: Ec2Scratch) -> Iterator[tuple[str, str]]:
    kind, iops, throughput = scratch.volume_type, scratch.iops, scratch.throughput_mib_s
    least = LEAST_IOPS.get(kind)
    if iops and least is None:
        yield "scratch.iops", f"cannot be chosen for {kind}: take gp3, io1 or io2"
    elif not iops and kind in ("io1", "io2"):
        yield "scratch.iops", f"must be named for {kind}"
    elif least is not None and 0 < iops < least:
        yield "scratch.iops", f"is less than the {least} that {kind} has at least"
    if not throughput:
        return
    most = (iops or LEAST_IOPS["gp3"]) // _GP3_IOPS_PER_MIB_S
    if kind != "gp3":
        yield "scratch.throughput_mib_s", "can be chosen for gp3 only"
    elif throughput < _GP3_THROUGHPUT_MIB_S:
        what = f"is less than the {_GP3_THROUGHPUT_MIB_S} that gp3 has at least: leave it at 0"
        yield "scratch.throughput_mib_s", what
    elif throughput > most:
        what = f"is more than the {most} that these iops allow: set scratch.iops to 4 times as much"
        yield "scratch.throughput_mib_s", what


def _of_root_volume(given: Ec2Parameters) -> Iterator[tuple[str, str]]:
    scratch, root = given.scratch, given.root_volume
    if root.size_gib and not _is_device(root.device):
        what = "must be the image's name for its root device (/dev/xvda, /dev/sda1) to be resized"
        yield "root_volume.device", what
    if root.size_gib and root.device == scratch.device:
        yield "root_volume.device", "is scratch.device as well: the two need names of their own"
    if not root.size_gib and (root.device or root.encrypted):
        yield "root_volume.size_gib", "is 0, so the volume stays as the image has it: name a size"


def _is_device(name: str) -> bool:
    return re.fullmatch(r"/dev/[a-z0-9]+", name) is not None


def _of_tags(given: Ec2Parameters) -> Iterator[tuple[str, str]]:
    if len(given.extra_tags) > _MOST_EXTRA_TAGS:
        yield "extra_tags", f"are more than {_MOST_EXTRA_TAGS}: EC2 takes 50, and some are ours"
    for key, value in sorted(given.extra_tags.items()):
        if key.startswith((_OUR_TAGS, "aws:")) or not 1 <= len(key) <= 128:
            what = f"is no name that is free: 1 to 128 characters, not from {_OUR_TAGS} or aws: on"
            yield f"extra_tags.{key}", what
        if len(value) > 256:
            yield f"extra_tags.{key}", "is longer than 256 characters"
