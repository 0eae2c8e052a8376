"""Which instance types an account can have, as `longshore driver types` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from longshore.drivers.ec2 import families
from longshore.drivers.ec2.client import ec2_client
from longshore.drivers.ec2.families import Family
from longshore.drivers.ec2.faults import FAILURES, judged
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.ec2.prices import Zones, batches, on_demand_prices, pages, spot_prices, zones
from longshore.drivers.interface import InstanceType, Resources
from longshore.drivers.registry import OfferQuery

SPOT_SUFFIX: Final = "-spot"
ARCHITECTURE_LABEL: Final = "arch"

_MIB: Final = 2**20
_SYSTEM_BYTES: Final = 256 * _MIB
"""What firmware, kernel, systemd, sshd and a runner take of a small instance."""

_PAGES_SHARE: Final = 50
"""One part in so many goes with the size: the kernel's book of pages (64 bytes for each 4 KiB, one
part in 64) and what grows along, such as its tables of hashes."""

_GB: Final = 10**9
_ARCHITECTURES: Final = ("arm64", "x86_64")
"""What images are made for, the first that a type supports; Apple's run on dedicated hosts only."""


def offers(parameters: Ec2Parameters, query: OfferQuery) -> Sequence[InstanceType]:
    """Return the types that the account can have where it makes instances, sorted by name.

    That is in the zones of the parameters; in another region, and without any, in all zones. Types
    whose price is not known are left out. Raises `ConfigError`, and any `CloudError`.
    """
    client = ec2_client(parameters, region=query.region)
    try:
        return _offers(client, parameters, query)
    except FAILURES as failure:
        raise judged(failure, call="the offered types", changes=False).error from failure
    finally:
        client.close()


def _offers(client: Any, parameters: Ec2Parameters, query: OfferQuery) -> list[InstanceType]:
    region = client.meta.region_name
    elsewhere = query.region not in ("", parameters.region)
    within = zones(
        client,
        () if elsewhere else parameters.subnets,
        () if elsewhere else parameters.zones,
    )
    told = offered_types(client, families=query.families, within=within)
    if not told:
        return []
    names = [each["InstanceType"] for each in told]
    spot = spot_prices(client, names, within) if query.preemptible else None
    on_demand = on_demand_prices(parameters.price_list_url, region=region)
    return instance_types(told, on_demand=on_demand, spot=spot)


def offered_types(
    client: Any, *, families: Sequence[str], within: Zones
) -> list[Mapping[str, Any]]:
    """Return what EC2 tells of each type that is offered in one of the zones, in no order.

    `families` are names such as "m5", none for all; `client` is boto3's for EC2. Raises what
    botocore raises.
    """
    offered = {
        each["InstanceType"]
        for each in pages(
            client.describe_instance_type_offerings,
            "InstanceTypeOfferings",
            LocationType="availability-zone",
        )
        if each["Location"] in within.names
    }
    wanted = sorted(name for name in offered if not families or family(name) in families)
    return [
        each
        for some in batches(wanted)
        for each in pages(client.describe_instance_types, "InstanceTypes", InstanceTypes=some)
    ]


def reserve_of(memory_bytes: int) -> Resources:
    """Return what the system keeps of the memory that EC2 sells, in whole MiB.

    It is a modest estimate, and half of a very small instance at most: containers that ask for all
    that is left should start, and images with more on them want a larger one. Cpus are shared.
    """
    kept = min(memory_bytes // 2, _SYSTEM_BYTES + memory_bytes // _PAGES_SHARE)
    return Resources(memory_bytes=-(-kept // _MIB) * _MIB)


def family(provider_type: str) -> str:
    """Return the family of a type: "m5" of "m5.large"."""
    return provider_type.partition(".")[0]


def instance_types(
    told: Iterable[Mapping[str, Any]],
    *,
    on_demand: Mapping[str, Decimal],
    spot: Mapping[str, Decimal] | None,
) -> list[InstanceType]:
    """Return the types that EC2 told of, sorted by our name: `m5.large`, and `m5.large-spot`.

    `on_demand` and `spot` are prices in USD an hour by EC2's name; `spot` is None when that market
    is not asked for. What has no price on a market, or cannot be had there, is left out.
    """
    found = [
        made
        for each in told
        for usage, prices in (("on-demand", on_demand), ("spot", spot or {}))
        if (made := _instance_type(each, usage, prices)) is not None
        and not families.fault_of_type(made)
    ]
    return sorted(found, key=lambda each: each.name)


def _instance_type(
    told: Mapping[str, Any], usage: str, prices: Mapping[str, Decimal]
) -> InstanceType | None:
    name = told["InstanceType"]
    known = Family.of(name)
    supported = told.get("ProcessorInfo", {}).get("SupportedArchitectures", ())
    architecture = next((each for each in _ARCHITECTURES if each in supported), "")
    if name not in prices or not architecture or usage not in told["SupportedUsageClasses"]:
        return None
    # Older disks than these are no scratch for the driver, which would buy a volume of their size.
    has_disks = known is not None and known.has_instance_store
    store = (told.get("InstanceStorageInfo") or {}) if has_disks else {}
    gpus = list(_gpus(told))
    preemptible = usage == "spot"
    memory_bytes = told["MemoryInfo"]["SizeInMiB"] * _MIB
    return InstanceType(
        name=name + (SPOT_SUFFIX if preemptible else ""),
        provider_type=name,
        resources=Resources(
            cpu_millis=told["VCpuInfo"]["DefaultVCpus"] * 1000,
            memory_bytes=memory_bytes,
            disk_bytes=store.get("TotalSizeInGB", 0) * _GB,
            gpus=sum(count for count, _, _ in gpus),
        ),
        price_usd_per_hour=prices[name],
        reserve=reserve_of(memory_bytes),
        preemptible=preemptible,
        labels=((ARCHITECTURE_LABEL, architecture),),
        gpu_model=gpus[0][1] if gpus else "",
        gpu_memory_bytes=min((memory for _, _, memory in gpus), default=0),
    )


def _gpus(told: Mapping[str, Any]) -> Iterator[tuple[int, str, int]]:
    """Yield each kind of GPU as count, model, and memory of each in bytes."""
    for each in (told.get("GpuInfo") or {}).get("Gpus", ()):
        # A share of one GPU is one for whoever runs there.
        count = each.get("LogicalGpuCount") or each.get("Count", 0)
        if count:
            model = "-".join(each.get("Name", "").lower().split())
            yield count, model, each.get("MemoryInfo", {}).get("SizeInMiB", 0) * _MIB
