"""What differs from provider to provider: the arguments of a create, and where tags are."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from libcloud.common.google import ResourceExistsError
from libcloud.compute.base import Node, NodeDriver, NodeImage, NodeLocation, NodeSize
from libcloud.compute.drivers.openstack import OpenStackNetwork, OpenStackSecurityGroup
from libcloud.compute.providers import get_driver

from longshore.drivers.billing import NOTHING_BILLED, Billed
from longshore.drivers.errors import ConfigError
from longshore.drivers.libcloud.billing import LONGEST_PENDING_S, read_time, since_made
from longshore.drivers.libcloud.naming import plain_tags, tags_in
from longshore.drivers.libcloud.parameters import DIGITAL_OCEAN, GCE, OPENSTACK, LibcloudParameters

_OPENSTACK_VERSION = "2.2"
_KEYSTONE_VERSION = "3.x_password"

Driver = Any
"""A driver of Libcloud's: what each adds to the common ones has no types there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """A node that is to be created; `size` and `image` are the cloud's names or ids."""

    name: str
    size: str
    image: str
    user_data: str
    tags: Mapping[str, str]


class Provider(Protocol):
    """How one cloud's nodes are made, marked and ended; `driver` is Libcloud's for it.

    The methods raise whatever Libcloud raises.
    """

    tags_at_create: bool
    """Whether a create call carries the tags; else they are set after it."""

    def driver_options(self, parameters: LibcloudParameters, state_dir: Path) -> dict[str, Any]:
        """Return what Libcloud's driver is made with beside what the operator gives.

        `state_dir` is for what it keeps on disk; it is there.
        """
        ...

    def create_arguments(
        self, driver: Driver, parameters: LibcloudParameters, request: NodeRequest
    ) -> dict[str, Any]:
        """Return the arguments of `create_node`."""
        ...

    def tags(self, node: Node) -> dict[str, str]:
        """Return the tags of a node that was listed."""
        ...

    def set_tags(self, driver: Driver, node: Node, tags: Mapping[str, str]) -> None:
        """Set tags of a node, leaving the others as they are."""
        ...

    def billed(self, node: Node) -> Billed:
        """Return what a node that was listed tells of its billing, where that is certain."""
        ...

    def destroy(self, driver: Driver, node: Node) -> bool:
        """Ask for a node's end, without waiting for it; return whether the cloud accepts."""
        ...


class OpenStack:
    """Nova: tags are a server's metadata, which a create call carries."""

    tags_at_create = True

    def driver_options(
        self,
        parameters: LibcloudParameters,
        state_dir: Path,  # noqa: ARG002 - nothing is kept
    ) -> dict[str, Any]:
        options: dict[str, Any] = {
            "api_version": _OPENSTACK_VERSION,
            "ex_force_auth_version": _KEYSTONE_VERSION,
            "timeout": parameters.timeout_s,
        }
        if parameters.location:
            options["ex_force_service_region"] = parameters.location
        return options

    def create_arguments(
        self, driver: Driver, parameters: LibcloudParameters, request: NodeRequest
    ) -> dict[str, Any]:
        given = dict(parameters.create_options)
        groups = [
            OpenStackSecurityGroup(None, None, name, "", driver)  # type: ignore[no-untyped-call]  # Libcloud's
            for name in parameters.security_groups
        ]
        networks = [
            OpenStackNetwork(each, each, None, driver)  # type: ignore[no-untyped-call]  # Libcloud's
            for each in parameters.networks
        ]
        return given | {
            "name": request.name,
            "size": _size(driver, request.size),
            "image": NodeImage(request.image, request.image, driver),
            "ex_userdata": request.user_data,
            "ex_metadata": {**given.get("ex_metadata", {}), **request.tags},
            **({"networks": networks} if networks else {}),
            **({"ex_security_groups": groups} if groups else {}),
        }

    def tags(self, node: Node) -> dict[str, str]:
        return dict(node.extra.get("metadata") or {})

    def set_tags(self, driver: Driver, node: Node, tags: Mapping[str, str]) -> None:
        # POST changes what it names. Libcloud's own method is a PUT, which takes the rest away.
        path = f"/servers/{node.id}/metadata"
        driver.connection.request(path, method="POST", data={"metadata": dict(tags)})

    def billed(self, node: Node) -> Billed:
        zone = str(node.extra.get("availability_zone") or "")
        return since_made(node.created_at, slack_s=LONGEST_PENDING_S, zone=zone)

    def destroy(self, driver: Driver, node: Node) -> bool:
        return bool(driver.destroy_node(node))


class GoogleComputeEngine:
    """GCE: tags are an instance's metadata, beside the script; names are unique in a zone."""

    tags_at_create = True

    def driver_options(self, parameters: LibcloudParameters, state_dir: Path) -> dict[str, Any]:
        # Else it lies in the home directory, where every account of a project takes the same.
        return {
            "datacenter": parameters.location,
            "credential_file": str(state_dir / "gce-token"),
            "timeout": parameters.timeout_s,
        }

    def create_arguments(
        self, driver: Driver, parameters: LibcloudParameters, request: NodeRequest
    ) -> dict[str, Any]:
        given = dict(parameters.create_options)
        # Google's images run this one; of the two, `user-data` is known to a few of them only.
        script = {"startup-script": request.user_data}
        return given | {
            "name": request.name,
            "size": request.size,
            "image": _gce_image(driver, request.image),
            "location": parameters.location,
            "ex_metadata": {**given.get("ex_metadata", {}), **script, **request.tags},
            **({"ex_network": parameters.networks[0]} if parameters.networks else {}),
        }

    def tags(self, node: Node) -> dict[str, str]:
        items = (node.extra.get("metadata") or {}).get("items", [])
        tags = {each["key"]: each.get("value", "") for each in items}
        tags.pop("startup-script", None)
        return tags

    def set_tags(self, driver: Driver, node: Node, tags: Mapping[str, str]) -> None:
        # All items are replaced, so they are read again; a fingerprint keeps changes apart.
        current = driver.ex_get_node(node.name, node.extra["zone"])
        items = {each["key"]: each["value"] for each in current.extra["metadata"].get("items", [])}
        changed = [{"key": key, "value": value} for key, value in sorted({**items, **tags}.items())]
        driver.ex_set_node_metadata(current, changed)

    def billed(self, node: Node) -> Billed:
        made = read_time(node.extra.get("creationTimestamp"))
        zone = str(getattr(node.extra.get("zone"), "name", ""))
        return since_made(made, slack_s=LONGEST_PENDING_S, zone=zone)

    def destroy(self, driver: Driver, node: Node) -> bool:
        return bool(driver.destroy_node(node, ex_sync=False))


class DigitalOcean:
    """DigitalOcean: tags are plain words, each a thing of its own that droplets are put under."""

    tags_at_create = True

    def driver_options(
        self,
        parameters: LibcloudParameters,  # noqa: ARG002 - the location is told with each create
        state_dir: Path,  # noqa: ARG002 - nothing is kept
    ) -> dict[str, Any]:
        return {}

    def create_arguments(
        self, driver: Driver, parameters: LibcloudParameters, request: NodeRequest
    ) -> dict[str, Any]:
        given = dict(parameters.create_options)
        attributes = dict(given.get("ex_create_attr", {}))
        attributes["tags"] = [*attributes.get("tags", []), *plain_tags(request.tags)]
        return given | {
            "name": request.name,
            "size": _size(driver, request.size),
            "image": NodeImage(request.image, request.image, driver),
            "location": NodeLocation(parameters.location, parameters.location, "", driver),
            "ex_user_data": request.user_data,
            "ex_create_attr": attributes,
        }

    def tags(self, node: Node) -> dict[str, str]:
        return tags_in(node.extra.get("tags") or [])

    def set_tags(self, driver: Driver, node: Node, tags: Mapping[str, str]) -> None:
        body = {"resources": [{"resource_id": str(node.id), "resource_type": "droplet"}]}
        current = driver.connection.request(f"/v2/droplets/{node.id}").object["droplet"]["tags"]
        wanted = plain_tags(tags)
        # The new ones first: one that is cut short leaves two values, which nobody trusts.
        for tag in sorted(set(wanted) - set(current)):
            driver.connection.request("/v2/tags", method="POST", data=json.dumps({"name": tag}))
            path = f"/v2/tags/{tag}/resources"
            driver.connection.request(path, method="POST", data=json.dumps(body))
        for tag in sorted(set(current) - set(wanted)):
            if tag.partition(":")[0] in tags:
                path = f"/v2/tags/{tag}/resources"
                driver.connection.request(path, method="DELETE", data=json.dumps(body))

    def billed(self, node: Node) -> Billed:
        # From its creation, whether it runs or not.
        return since_made(node.created_at, slack_s=0.0, zone="")

    def destroy(self, driver: Driver, node: Node) -> bool:
        return bool(driver.destroy_node(node))


class OtherProvider:
    """Any cloud whose driver takes `ex_userdata` and has `ex_create_tags(resource, tags)`."""

    tags_at_create = False

    def driver_options(
        self,
        parameters: LibcloudParameters,
        state_dir: Path,  # noqa: ARG002 - nothing is kept
    ) -> dict[str, Any]:
        return {"region": parameters.location} if parameters.location else {}

    def create_arguments(
        self, driver: Driver, parameters: LibcloudParameters, request: NodeRequest
    ) -> dict[str, Any]:
        return dict(parameters.create_options) | {
            "name": request.name,
            "size": _size(driver, request.size),
            "image": NodeImage(request.image, request.image, driver),
            "ex_userdata": request.user_data,
        }

    def tags(self, node: Node) -> dict[str, str]:
        return dict(node.extra.get("tags") or {})

    def set_tags(self, driver: Driver, node: Node, tags: Mapping[str, str]) -> None:
        driver.ex_create_tags(node, dict(tags))

    def billed(self, node: Node) -> Billed:  # noqa: ARG002 - what others mean by a time nobody knows
        return NOTHING_BILLED

    def destroy(self, driver: Driver, node: Node) -> bool:
        return bool(driver.destroy_node(node))


_KNOWN: Mapping[str, Provider] = {
    OPENSTACK: OpenStack(),
    GCE: GoogleComputeEngine(),
    DIGITAL_OCEAN: DigitalOcean(),
}


def provider_of(name: str) -> Provider:
    """Return how a cloud is spoken to, by Libcloud's name of it.

    Raises `ConfigError` when Libcloud does not know it, or has no way to give its nodes what
    Longshore must give them.
    """
    if name == "ec2":
        raise _problem("is EC2, which has a driver of its own here: say `driver.name: ec2`")
    driver_class = driver_class_of(name)
    known = _KNOWN.get(name)
    if known is not None:
        return known
    for what, method, wanted in (
        ("neither init script nor key", "create_node", {"name", "size", "image", "ex_userdata"}),
        ("no tags", "ex_create_tags", {"resource", "tags"}),
    ):
        taken = getattr(driver_class, method, None)
        if taken is None or not wanted <= inspect.signature(taken).parameters.keys():
            raise _problem(
                f"is {name}, whose nodes get {what} through Libcloud: use one of"
                f" {', '.join(sorted(_KNOWN))}, or write a driver (docs/drivers.md)"
            )
    return OtherProvider()


def driver_class_of(name: str) -> type[NodeDriver]:
    """Return Libcloud's driver for a cloud; raises `ConfigError` when there is none to be had."""
    try:
        found: type[NodeDriver] = get_driver(name)
    except Exception as error:
        # Libcloud raises a bare Exception for clouds that are no more, beside AttributeError.
        raise _problem(f"is {name!r}, which Libcloud cannot load: {error}") from error
    return found


def is_name_taken(error: Exception) -> bool:
    """Return whether a create was refused since there is a node of this name: an earlier try's."""
    return isinstance(error, ResourceExistsError)


def _problem(what: str) -> ConfigError:
    return ConfigError([("driver.parameters.provider", what)])


def _gce_image(driver: Driver, image: str) -> NodeImage:
    """Return an image by its path, or the project's own of that name.

    Libcloud would look a name up in a dozen projects, and knows no image of these years.
    """
    path = image if "/" in image else f"global/images/{image}"
    return NodeImage(image, image, driver, extra={"selfLink": path})


def _size(driver: Driver, size: str) -> NodeSize:
    """Return a size by its id or name alone, without asking the cloud what it amounts to."""
    return NodeSize(size, size, 0, 0, 0, 0.0, driver)
