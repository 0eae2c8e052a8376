"""What stays of instances that are gone: volumes and network interfaces with our tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from longshore.drivers.ec2.faults import FAILURES, judged
from longshore.drivers.ec2.requests import UNATTACHED, leftover_filters
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import Leftover

_PAGE = 500


def leftovers(client: Any, tags: Mapping[str, str]) -> list[Leftover]:
    """Return the volumes and network interfaces that carry all of `tags` and that no instance has.

    `client` is boto3's for EC2. Sorted by kind and id; raises any `CloudError`.
    """
    volumes = {
        each["VolumeId"]: Leftover(kind="volume", id=each["VolumeId"], detail=_size_of(each))
        for each in _listed(client, "describe_volumes", "Volumes", tags)
        if each.get("State") == UNATTACHED and _carries(each.get("Tags", []), tags)
    }
    interfaces = {
        each["NetworkInterfaceId"]: Leftover(
            kind="network interface",
            id=each["NetworkInterfaceId"],
            detail=str(each.get("SubnetId", "")),
        )
        for each in _listed(client, "describe_network_interfaces", "NetworkInterfaces", tags)
        if each.get("Status") == UNATTACHED and _carries(each.get("TagSet", []), tags)
    }
    return [
        *(interfaces[each] for each in sorted(interfaces)),
        *(volumes[each] for each in sorted(volumes)),
    ]


def _listed(
    client: Any, operation: str, what: str, tags: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    call = f"Describe{what}"
    try:
        for page in client.get_paginator(operation).paginate(
            Filters=leftover_filters(tags), PaginationConfig={"PageSize": _PAGE}
        ):
            if what not in page:
                raise CloudError(
                    f"{call}: the answer does not come from EC2; check that region is right"
                )
            yield from page[what]
    except FAILURES as failure:
        raise judged(failure, call=call, changes=False).error from failure


def _carries(told: list[dict[str, str]], tags: Mapping[str, str]) -> bool:
    """Return whether all of `tags` are there: a filter may know older ones than the answer."""
    return tags.items() <= {each["Key"]: each["Value"] for each in told}.items()


def _size_of(volume: Mapping[str, Any]) -> str:
    made = volume.get("CreateTime")
    when = f", made {made:%Y-%m-%d}" if made is not None else ""
    return f"{volume.get('Size', '?')} GiB {volume.get('VolumeType', '')}".rstrip() + when
