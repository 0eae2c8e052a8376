"""What the configuration tells of a cloud that is reached through Libcloud, and its check; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from longshore.drivers.interface import SECRET, InstanceType

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Seconds = Annotated[float, msgspec.Meta(ge=1, le=3600)]

OPENSTACK, GCE, DIGITAL_OCEAN = "openstack", "gce", "digitalocean"

_OURS = frozenset({"name", "size", "image", "location", "networks", "ex_network"})
"""What this driver gives to `create_node` itself, whatever the provider."""
_USER_DATA = frozenset({"ex_userdata", "ex_user_data"})
_SECRET_NAME = re.compile("passw|secret|token$|api_?key$|private_?key", re.IGNORECASE)
_UNPAGED_VERSIONS = ("1.0", "1.1")


class LibcloudParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cloud and an account of it, as Libcloud names them; durations in seconds.

    `provider` is Libcloud's name of the cloud. `key` and `secret` are the first two arguments of
    its driver, `options` and `secret_options` further ones by name. `location`, `networks` and
    `security_groups` say where instances are made, by the cloud's ids or names ("", none: the
    cloud's default); `image` what they boot where `pool.image` is "". `create_options` are further
    arguments of every create. `address` is that of the two at which instances are reached, at
    `ssh_port`. A request of Libcloud's may take `timeout_s`.
    """

    provider: str
    key: Annotated[str, SECRET] = ""
    secret: Annotated[str, SECRET] = ""
    options: dict[str, Any] = {}
    secret_options: Annotated[dict[str, Any], SECRET] = {}
    location: str = ""
    networks: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    image: str = ""
    create_options: dict[str, Any] = {}
    address: Literal["public", "private"] = "public"
    ssh_port: Port = 22
    timeout_s: Seconds = 60.0


def problems_of(parameters: LibcloudParameters) -> list[tuple[str, str]]:
    """Return what is wrong with the parameters, as (path below them, what and remedy)."""
    problems: list[tuple[str, str]] = []
    for path, missing in _missing(parameters).items():
        problems.append((path, missing))
    problems += [
        (f"create_options.{name}", "is given by the driver itself; take it out")
        for name in sorted((_OURS | _USER_DATA) & parameters.create_options.keys())
    ]
    problems += [
        (f"secret_options.{name}", "is in `options` too; leave it here only")
        for name in sorted(parameters.options.keys() & parameters.secret_options.keys())
    ]
    problems += [
        (f"options.{name}", "looks like a secret, and this is shown: move it to secret_options")
        for name in sorted(parameters.options)
        if _SECRET_NAME.search(name)
    ]
    return problems + _ill_suited(parameters)


def fault_of_type(parameters: LibcloudParameters, instance_type: InstanceType) -> str | None:
    """Return why no instance of a type can be created, None when it can."""
    if instance_type.preemptible:
        return (
            f"is preemptible, which Libcloud has no word for: where {parameters.provider} has an"
            " option for it, put that into driver.parameters.create_options, for all types, and"
            " leave `preemptible` out"
        )
    if not instance_type.provider_type:
        return f"has no provider_type: name the size as {parameters.provider} does"
    return None


def _missing(parameters: LibcloudParameters) -> Mapping[str, str]:
    """Return what the clouds that we know cannot do without, by path."""
    match parameters.provider:
        case "":
            return {"provider": "is empty: name a cloud as Libcloud does, such as openstack"}
        case "openstack":
            wanted = {} if _given(parameters, "ex_force_auth_token") else _KEYS
            found = _empty(parameters, wanted)
            if not _given(parameters, "ex_force_auth_url"):
                text = "is missing: it is the address of Keystone, such as https://HOST:5000"
                found["options.ex_force_auth_url"] = text
            if not _given(parameters, "ex_tenant_name", "ex_token_scope"):
                found["options.ex_tenant_name"] = "is missing: it is the name of the project"
            return found
        case "gce":
            found = _empty(parameters, _KEYS | _LOCATION)
            if not _given(parameters, "project"):
                found["options.project"] = "is missing: it is the id of the project"
            return found
        case "digitalocean":
            return _empty(parameters, {"key": _KEYS["key"]} | _LOCATION)
        case _:
            return {}


_KEYS = {
    "key": "is empty: it is the user, account or token that Libcloud's driver takes first",
    "secret": "is empty: it is the password or key that Libcloud's driver takes second",
}
_LOCATION = {"location": "is empty: name the zone or region in which instances are made"}


def _empty(parameters: LibcloudParameters, wanted: Mapping[str, str]) -> dict[str, str]:
    return {path: text for path, text in wanted.items() if not getattr(parameters, path)}


def _given(parameters: LibcloudParameters, *names: str) -> bool:
    given = _given_to(parameters)
    return any(given.get(name) for name in names)


def _given_to(parameters: LibcloudParameters) -> dict[str, Any]:
    return parameters.options | parameters.secret_options


def _ill_suited(parameters: LibcloudParameters) -> list[tuple[str, str]]:
    """Return what the clouds that we know would not take, or take and do wrong."""
    problems: list[tuple[str, str]] = []
    provider = parameters.provider
    version = str(parameters.options.get("api_version", ""))
    if provider == OPENSTACK and version in _UNPAGED_VERSIONS:
        what = f"{version} lists no more than a page of servers; leave it out, for 2.2"
        problems.append(("options.api_version", what))
    if provider == GCE and len(parameters.networks) > 1:
        problems.append(("networks", "has more than one, and instances of gce get one here"))
    if provider == DIGITAL_OCEAN:
        what = "is not taken by Libcloud's driver for digitalocean; leave it out"
        unknown = [f"options.{name}" for name in sorted(_given_to(parameters))]
        problems += [(path, what) for path in [*unknown, *["networks"] * bool(parameters.networks)]]
    if provider in (GCE, DIGITAL_OCEAN) and parameters.security_groups:
        remedy = (
            "give the instances the tags of your firewall rules, in create_options.ex_tags"
            if provider == GCE
            else "give the instances the tags of your firewalls, in create_options.ex_create_attr"
        )
        problems.append(("security_groups", f"is not known to {provider}: {remedy}"))
    return problems
