"""What the driver `libcloud` decides without a cloud: names, tags, user data, its parameters."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.drivers.errors import CloudError, ConfigError
from longshore.drivers.interface import CLUSTER_TAG, TOKEN_TAG
from longshore.drivers.libcloud.clients import Clients
from longshore.drivers.libcloud.naming import node_name, plain_tags, tags_in, tags_in_name
from longshore.drivers.libcloud.parameters import LibcloudParameters, fault_of_type, problems_of
from longshore.drivers.libcloud.providers import OtherProvider, provider_of
from longshore.drivers.libcloud.user_data import LARGEST_BYTES, user_data
from longshore.drivers.registry import driver
from tests.libcloud_bench import TYPE
from tests.libcloud_cloud import parts_of

TOKEN = "0123456789abcdef" * 2


def test_a_name_tells_cluster_and_token_and_fits_every_cloud() -> None:
    name = node_name("c" * 40, TOKEN)
    assert len(name) <= 63
    assert tags_in_name(name, ["c" * 40, "other"]) == {CLUSTER_TAG: "c" * 40, TOKEN_TAG: TOKEN}
    assert tags_in_name(name, ["other"]) == {}
    assert tags_in_name("somebody-elses", ["c" * 40]) == {}


@pytest.mark.parametrize("token", ["token-1", "UPPER", "x" * 41, "ü", "", "h-0"])
def test_a_token_that_no_name_can_hold_is_there_as_its_digest(token: str) -> None:
    name = node_name("lab", token)
    assert len(name) <= 63
    assert name == node_name("lab", token) != node_name("lab", token + "x")
    assert tags_in_name(name, ["lab"]) == {CLUSTER_TAG: "lab"}


@given(st.dictionaries(st.from_regex(r"longshore-[a-z-]{1,10}", fullmatch=True), st.text()))
def test_plain_tags_keep_every_value_and_use_few_letters(tags: dict[str, str]) -> None:
    plain = plain_tags(tags)
    assert tags_in(plain) == tags
    assert all(set(each) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_:") for each in plain)


def test_a_plain_tag_with_two_values_is_none() -> None:
    assert tags_in(["a:1", "b:2", "a:3", "team"]) == {"b": "2"}


def test_user_data_are_shell_that_hold_the_script_and_the_key() -> None:
    init = "echo 'it''s' \"$HOME\"\n" * 3
    script = user_data(init_command=init, public_key="ssh-ed25519 A'A", user="worker")
    assert script.startswith("#!/bin/sh\n")
    assert parts_of(script) == (init, "ssh-ed25519 A'A")
    assert script.index("init.sh\n") < script.index("authorized_keys")
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_user_data_that_no_cloud_takes_are_an_error_with_a_remedy() -> None:
    with pytest.raises(CloudError, match=f"{LARGEST_BYTES}: shorten pool.init_command"):
        user_data(init_command="#" * LARGEST_BYTES, public_key="k", user="root")


@pytest.mark.parametrize("user", ["", "a b", "$(id)", "-x", "../x"])
def test_a_user_whom_no_system_can_have_is_an_error(user: str) -> None:
    with pytest.raises(CloudError, match=r"ssh\.user"):
        user_data(init_command="", public_key="k", user=user)


OPENSTACK: dict[str, Any] = {
    "provider": "openstack",
    "key": "u",
    "secret": "p",
    "options": {"ex_force_auth_url": "https://keystone", "ex_tenant_name": "lab"},
}
GCE: dict[str, Any] = {
    "provider": "gce",
    "key": "u",
    "secret": "p",
    "location": "z",
    "options": {"project": "lab"},
}
DIGITAL_OCEAN: dict[str, Any] = {"provider": "digitalocean", "key": "t", "location": "fra1"}


@pytest.mark.parametrize("values", [OPENSTACK, GCE, DIGITAL_OCEAN])
def test_good_parameters_have_no_problems(values: dict[str, Any]) -> None:
    parameters = LibcloudParameters(**values)
    check = driver("libcloud").check
    assert check is not None
    assert list(check(parameters)) == []


@pytest.mark.parametrize(
    ("values", "paths"),
    [
        ({"provider": ""}, ["provider"]),
        (
            {"provider": "openstack"},
            ["key", "secret", "options.ex_force_auth_url", "options.ex_tenant_name"],
        ),
        (
            OPENSTACK | {"options": {**OPENSTACK["options"], "api_version": "1.1"}},
            ["options.api_version"],
        ),
        ({"provider": "gce"}, ["key", "secret", "location", "options.project"]),
        (GCE | {"networks": ("a", "b")}, ["networks"]),
        (GCE | {"security_groups": ("a",)}, ["security_groups"]),
        ({"provider": "digitalocean"}, ["key", "location"]),
        (
            DIGITAL_OCEAN | {"networks": ("a",), "options": {"timeout": 1}},
            ["options.timeout", "networks"],
        ),
        (
            DIGITAL_OCEAN | {"create_options": {"name": "x", "ex_user_data": "y"}},
            ["create_options.ex_user_data", "create_options.name"],
        ),
        (
            OPENSTACK | {"options": {**OPENSTACK["options"], "ex_force_auth_token": "x"}},
            ["options.ex_force_auth_token"],
        ),
        (
            OPENSTACK | {"secret_options": {"ex_tenant_name": "x"}},
            ["secret_options.ex_tenant_name"],
        ),
    ],
)
def test_all_that_is_wrong_is_told_at_once(values: dict[str, Any], paths: list[str]) -> None:
    found = problems_of(LibcloudParameters(**values))
    assert [path for path, _ in found] == paths
    assert all(what.strip() for _, what in found)


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("ec2", "driver.name: ec2"),
        ("cloudstack", "no tags through Libcloud"),
        ("vultr", "neither init script nor key"),
        ("no-such-cloud", "Libcloud cannot load"),
    ],
)
def test_a_provider_that_does_not_do_is_refused_with_a_word(provider: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        provider_of(provider)
    ((path, what),) = caught.value.problems
    assert path == "driver.parameters.provider"
    assert words in what
    check = driver("libcloud").check
    assert check is not None
    assert [each for each, _ in check(LibcloudParameters(provider=provider))] == ["provider"]


def test_clouds_of_the_shape_of_ec2_can_be_used() -> None:
    assert isinstance(provider_of("eucalyptus"), OtherProvider)


def test_libcloud_may_not_repeat_requests_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("LIBCLOUD_RETRY_FAILED_HTTP_REQUESTS", "1")
    with pytest.raises(ConfigError, match="unset LIBCLOUD_RETRY"):
        Clients(LibcloudParameters(provider="eucalyptus"), OtherProvider(), tmp_path)


def test_preemptible_types_and_types_without_a_size_are_refused() -> None:
    parameters = LibcloudParameters(**OPENSTACK)
    assert fault_of_type(parameters, TYPE) is None
    preemptible = replace(TYPE, preemptible=True)
    assert "create_options" in (fault_of_type(parameters, preemptible) or "")
    assert "provider_type" in (fault_of_type(parameters, replace(TYPE, provider_type="")) or "")
