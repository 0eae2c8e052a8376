"""Libcloud's own driver of OpenStack, over HTTP: what a create sends, what answers mean."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import CLUSTER_TAG, Condition, Power, TellsCondition
from longshore.drivers.libcloud.parameters import LibcloudParameters
from tests.canned_cloud import HANG_UP, CannedCloud, canned_cloud
from tests.libcloud_bench import INIT_COMMAND, KEY, NAME, TAGS, create, opened
from tests.libcloud_cloud import parts_of

SERVERS = "/v2.1/servers"
DETAIL = f"GET {SERVERS}/detail"


@pytest.fixture
def cloud() -> Iterator[CannedCloud]:
    with canned_cloud() as made:
        yield made


def openstack(cloud: CannedCloud, **more: Any) -> LibcloudParameters:
    """Return parameters for a project whose Keystone knows the user."""
    endpoint = {
        "interface": "public",
        "region": "r-1",
        "region_id": "r-1",
        "url": f"{cloud.url}/v2.1",
    }
    catalog = [{"type": "compute", "name": "nova", "endpoints": [endpoint]}]
    token = {"expires_at": "2199-01-01T00:00:00.000000Z", "catalog": catalog}
    user = {"name": "user", "id": "u"}
    cloud.answer(
        "POST /v3/auth/tokens",
        {"token": token | {"user": user, "roles": []}},
        status=201,
        X_Subject_Token="a-token",
    )
    return LibcloudParameters(
        provider="openstack",
        key="user",
        secret="password",
        location="r-1",
        options={"ex_force_auth_url": cloud.url, "ex_tenant_name": "lab"},
        **{"address": "private", "networks": ("net-1",), "security_groups": ("ssh",)} | more,
    )


def server(server_id: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a server as Nova shows it."""
    return {
        "id": server_id,
        "name": name,
        "status": "ACTIVE",
        "addresses": {"private": [{"addr": "10.0.0.5", "version": 4}]},
        "created": "2026-01-02T03:04:05Z",
        "updated": "2026-01-02T03:04:05Z",
        "hostId": "",
        "tenant_id": "t",
        "links": [{"rel": "self", "href": "http://nowhere"}],
        "metadata": {},
        **more,
    }


def test_a_create_at_openstack_carries_tags_key_and_script(
    cloud: CannedCloud, tmp_path: Path
) -> None:
    cloud.answer(DETAIL, {"servers": []})
    cloud.answer(f"POST {SERVERS}", {"server": {"id": "s-1"}}, status=202)
    cloud.answer(
        f"GET {SERVERS}/s-1", {"server": server("s-1", NAME, status="BUILD", metadata=TAGS)}
    )
    with opened(openstack(cloud, create_options={"ex_metadata": {"team": "x"}}), tmp_path) as made:
        instance = create(made)
    assert (instance.id, instance.address, dict(instance.tags)) == ("s-1", "", TAGS)
    (body,) = cloud.bodies(f"POST {SERVERS}")
    asked = body["server"]
    assert asked["metadata"] == {"team": "x", **TAGS}
    assert (asked["name"], asked["flavorRef"], asked["imageRef"]) == (NAME, "size-1", "image-1")
    assert asked["networks"] == [{"uuid": "net-1"}]
    assert asked["security_groups"] == [{"name": "ssh"}]
    script = base64.b64decode(asked["user_data"]).decode()
    assert parts_of(script) == (INIT_COMMAND, KEY)


def test_a_second_create_finds_the_server_of_the_first(cloud: CannedCloud, tmp_path: Path) -> None:
    cloud.answer(DETAIL, {"servers": [server("s-1", NAME, metadata=TAGS)]})
    with opened(openstack(cloud), tmp_path) as made:
        assert create(made).id == "s-1"


def test_a_listing_of_openstack_reads_all_pages(cloud: CannedCloud, tmp_path: Path) -> None:
    following = [{"rel": "next", "href": f"{cloud.url}{SERVERS}/detail?marker=s-1"}]
    cloud.answer(
        DETAIL, {"servers": [server("s-1", "a", metadata=TAGS)], "servers_links": following}
    )
    foreign = server("s-3", "c", metadata={CLUSTER_TAG: "other"})
    gone = server("s-4", "d", metadata=TAGS, status="DELETED")
    cloud.answer(DETAIL, {"servers": [server("s-2", "b", metadata=TAGS), foreign, gone]})
    with opened(openstack(cloud), tmp_path) as made:
        found = made.instances({CLUSTER_TAG: "lab"})
    assert [each.id for each in found] == ["s-1", "s-2"]
    assert {each.address for each in found} == {"10.0.0.5:22"}
    assert "marker=s-1" in cloud.asked[-1].query


def test_how_a_server_stands_is_told_and_why_it_could_not_be_made(
    cloud: CannedCloud, tmp_path: Path
) -> None:
    fault = {"code": 500, "created": "2026-01-01T00:00:00Z", "message": "No valid host was found."}
    states = {
        "ACTIVE": Condition(power=Power.ON),
        "BUILD": Condition(power=Power.ON),
        "ERROR": Condition(power=Power.FAILED, reason="No valid host was found."),
        "SHUTOFF": Condition(power=Power.STOPPED),
        "SUSPENDED": Condition(power=Power.SUSPENDED),
    }
    told = [
        server(f"s-{each}", each, status=each, **({"fault": fault} if each == "ERROR" else {}))
        for each in states
    ]
    cloud.answer(DETAIL, {"servers": told})
    with opened(openstack(cloud), tmp_path) as made:
        found = made.instances({})
    seen = {each.id: each.condition for each in found if isinstance(each, TellsCondition)}
    assert seen == {f"s-{each}": condition for each, condition in states.items()}


def test_an_odd_address_of_one_server_does_not_end_the_listing(
    cloud: CannedCloud, tmp_path: Path
) -> None:
    odd = {"private": [{"addr": "", "version": 4}, {"addr": "10.0.0.0/33", "version": 4}]}
    ours = server("s-1", NAME, metadata=TAGS)
    cloud.answer(DETAIL, {"servers": [ours, server("s-2", "theirs", addresses=odd)]})
    with opened(openstack(cloud), tmp_path) as made:
        found = made.instances({})
    assert [(each.id, each.address) for each in found] == [("s-1", "10.0.0.5:22"), ("s-2", "")]


def test_tags_of_openstack_are_merged_not_replaced(cloud: CannedCloud, tmp_path: Path) -> None:
    cloud.answer(DETAIL, {"servers": [server("s-1", NAME, metadata=TAGS)]})
    change = f"POST {SERVERS}/s-1/metadata"
    cloud.answer(change, {"metadata": {}})
    cloud.answer(change, {"itemNotFound": {"message": "gone", "code": 404}}, status=404)
    with opened(openstack(cloud), tmp_path) as made:
        (instance,) = made.instances(TAGS)
        instance.set_tags({"longshore-idle-behavior": "hold"})
        assert cloud.bodies(change) == [{"metadata": {"longshore-idle-behavior": "hold"}}]
        with pytest.raises(InstanceNotFound):
            instance.set_tags({"longshore-idle-behavior": "run"})


def test_destroying_at_openstack_twice_is_no_error(cloud: CannedCloud, tmp_path: Path) -> None:
    cloud.answer(DETAIL, {"servers": [server("s-1", NAME, metadata=TAGS)]})
    cloud.answer(f"DELETE {SERVERS}/s-1", status=204)
    gone = {"itemNotFound": {"message": "Instance s-1 could not be found.", "code": 404}}
    cloud.answer(f"DELETE {SERVERS}/s-1", gone, status=404)
    cloud.answer(f"DELETE {SERVERS}/s-1", {"conflict": {"message": "busy"}}, status=409)
    with opened(openstack(cloud), tmp_path) as made:
        (instance,) = made.instances(TAGS)
        instance.destroy()
        instance.destroy()
        with pytest.raises(CloudError, match="busy"):
            instance.destroy()


REFUSALS = [
    (403, "forbidden", "Quota exceeded for cores: Requested 4", QuotaError, ErrorScope.ALL),
    (403, "forbidden", "Policy doesn't allow it", CloudAuthError, None),
    (400, "badRequest", "No valid host was found.", CapacityError, ErrorScope.TYPE),
    (400, "badRequest", "Invalid imageRef provided.", CloudError, None),
    (404, "itemNotFound", "Flavor size-1 could not be found.", CloudError, None),
    (413, "overLimit", "OverLimit Retry...", RateLimitError, None),
    (429, "overLimit", "429 Rate limit", RateLimitError, None),
    (500, "computeFault", "The server has erred", AmbiguousResult, None),
    (503, "serviceUnavailable", "try again", AmbiguousResult, None),
    (504, "gatewayTimeout", "no answer", AmbiguousResult, None),
]


@pytest.mark.parametrize(("status", "name", "message", "error", "scope"), REFUSALS)
def test_what_an_answer_of_openstack_to_a_create_means(  # noqa: PLR0917 - a row of the table
    cloud: CannedCloud,
    tmp_path: Path,
    status: int,
    name: str,
    message: str,
    error: type[CloudError],
    scope: ErrorScope | None,
) -> None:
    cloud.answer(DETAIL, {"servers": []})
    body = {name: {"message": message, "code": status}}
    cloud.answer(f"POST {SERVERS}", body, status=status, Retry_After="11")
    with opened(openstack(cloud), tmp_path) as made, pytest.raises(CloudError) as caught:
        create(made)
    assert type(caught.value) is error
    assert message.split(maxsplit=1)[0] in str(caught.value)
    assert getattr(caught.value, "scope", None) is scope
    if isinstance(caught.value, RateLimitError):
        assert caught.value.retry_after_s == 11.0


def test_user_data_that_a_cloud_repeats_is_in_no_message(
    cloud: CannedCloud, tmp_path: Path
) -> None:
    cloud.answer(DETAIL, {"servers": []})
    text = "Invalid input for field/attribute user_data. Value: the-secret. too long"
    cloud.answer(f"POST {SERVERS}", {"badRequest": {"message": text}}, status=400)
    with opened(openstack(cloud), tmp_path) as made, pytest.raises(CloudError) as caught:
        create(made)
    assert "field/attribute user_data" in str(caught.value)
    assert "the-secret" not in str(caught.value)


def test_a_create_whose_answer_is_lost_is_ambiguous(cloud: CannedCloud, tmp_path: Path) -> None:
    cloud.answer(DETAIL, {"servers": []})
    cloud.answer(f"POST {SERVERS}", status=HANG_UP)
    with opened(openstack(cloud), tmp_path) as made, pytest.raises(AmbiguousResult):
        create(made)


@pytest.mark.parametrize("status", [404, 429, 500, HANG_UP])
def test_trouble_after_openstack_took_a_create_is_ambiguous(
    cloud: CannedCloud, tmp_path: Path, status: int
) -> None:
    cloud.answer(DETAIL, {"servers": []})
    cloud.answer(f"POST {SERVERS}", {"server": {"id": "s-1"}}, status=202)
    cloud.answer(f"GET {SERVERS}/s-1", {"x": {"message": "no"}}, status=status)
    with opened(openstack(cloud), tmp_path) as made, pytest.raises(AmbiguousResult):
        create(made)


def test_trouble_before_anything_was_asked_for_is_a_failure(
    cloud: CannedCloud, tmp_path: Path
) -> None:
    cloud.answer(DETAIL, status=HANG_UP)
    with opened(openstack(cloud), tmp_path) as made, pytest.raises(CloudError) as caught:
        create(made)
    assert type(caught.value) is CloudError


def test_a_cloud_that_takes_no_connection_has_created_nothing(tmp_path: Path) -> None:
    with canned_cloud() as cloud:
        parameters = openstack(cloud)
    with opened(parameters, tmp_path) as made, pytest.raises(CloudError) as caught:
        create(made)
    assert type(caught.value) is CloudError


def test_a_listing_that_asks_at_a_wrong_place_is_no_missing_instance(
    cloud: CannedCloud, tmp_path: Path
) -> None:
    cloud.answer(DETAIL, {"itemNotFound": {"message": "no such project"}}, status=404)
    with opened(openstack(cloud), tmp_path) as made:
        for call in (lambda: made.instances({}), lambda: create(made)):
            with pytest.raises(CloudError, match=r"driver\.parameters") as caught:
                call()
            assert type(caught.value) is CloudError
