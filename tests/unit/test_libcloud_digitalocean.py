"""Libcloud's own driver of DigitalOcean, over HTTP: what a create sends, what answers mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import CLUSTER_TAG, TOKEN_TAG
from longshore.drivers.libcloud.clients import Clients
from longshore.drivers.libcloud.naming import plain_tags
from longshore.drivers.libcloud.parameters import LibcloudParameters
from longshore.drivers.libcloud.providers import provider_of
from tests.canned_cloud import CannedCloud, canned_cloud
from tests.libcloud_bench import INIT_COMMAND, KEY, NAME, TAGS, TOKEN, create, opened
from tests.libcloud_cloud import parts_of
from tests.local_clouds import send_to

DROPLETS = "/v2/droplets"
MARKS = plain_tags(TAGS)


@pytest.fixture
def cloud() -> Iterator[CannedCloud]:
    with canned_cloud() as made:
        yield made


@pytest.fixture
def digital_ocean(cloud: CannedCloud, monkeypatch: pytest.MonkeyPatch) -> LibcloudParameters:
    send_to(cloud.url, monkeypatch)
    return LibcloudParameters(
        provider="digitalocean",
        key="token",
        location="fra1",
        create_options={"ex_create_attr": {"tags": ["team"], "ipv6": True}},
    )


def droplet(number: int, name: str, tags: list[str]) -> dict[str, Any]:
    """Return a droplet as DigitalOcean shows it."""
    return {
        "id": number,
        "name": name,
        "status": "active",
        "created_at": "2026-01-02T03:04:05Z",
        "networks": {"v4": [{"ip_address": "203.0.113.7", "type": "public"}]},
        "tags": tags,
    }


def test_a_create_at_digitalocean_carries_tags_key_and_script(
    cloud: CannedCloud, tmp_path: Path, digital_ocean: LibcloudParameters
) -> None:
    cloud.answer(f"GET {DROPLETS}", {"droplets": [], "links": {}})
    cloud.answer(f"POST {DROPLETS}", {"droplet": droplet(7, NAME, [])}, status=202)
    with opened(digital_ocean, tmp_path) as made:
        instance = create(made)
    assert (instance.id, instance.address) == ("7", "203.0.113.7:22")
    assert dict(instance.tags) == TAGS, "they are put on right after the create"
    (asked,) = cloud.bodies(f"POST {DROPLETS}")
    assert asked["tags"] == ["team", *MARKS]
    assert asked["ipv6"] is True
    assert (asked["region"], asked["size"], asked["image"]) == ("fra1", "size-1", "image-1")
    assert parts_of(asked["user_data"]) == (INIT_COMMAND, KEY)


def test_a_droplet_is_known_by_its_name_before_it_has_tags(
    cloud: CannedCloud, tmp_path: Path, digital_ocean: LibcloudParameters
) -> None:
    found = [droplet(7, NAME, []), droplet(8, "else", []), droplet(9, "x", MARKS)]
    cloud.answer(f"GET {DROPLETS}", {"droplets": found, "links": {}})
    with opened(digital_ocean, tmp_path) as made:
        listed = {each.id: dict(each.tags) for each in made.instances({CLUSTER_TAG: "lab"})}
    assert listed == {"7": {CLUSTER_TAG: "lab", TOKEN_TAG: TOKEN}, "9": TAGS}


def test_a_changed_tag_of_a_droplet_takes_the_place_of_the_old(
    cloud: CannedCloud, tmp_path: Path, digital_ocean: LibcloudParameters
) -> None:
    old = [*MARKS, "longshore-idle-behavior:run", "team"]
    cloud.answer(f"GET {DROPLETS}", {"droplets": [droplet(7, NAME, old)], "links": {}})
    cloud.answer(f"GET {DROPLETS}/7", {"droplet": droplet(7, NAME, old)})
    cloud.answer("POST /v2/tags", {"tag": {}}, status=201)
    cloud.answer("POST /v2/tags/longshore-idle-behavior:hold/resources", status=204)
    cloud.answer("DELETE /v2/tags/longshore-idle-behavior:run/resources", status=204)
    with opened(digital_ocean, tmp_path) as made:
        (instance,) = made.instances(TAGS)
        instance.set_tags({"longshore-idle-behavior": "hold", CLUSTER_TAG: "lab"})
    resources = {"resources": [{"resource_id": "7", "resource_type": "droplet"}]}
    assert [(each.what.split("/v2/tags")[0], each.body) for each in cloud.asked[-3:]] == [
        ("POST ", {"name": "longshore-idle-behavior:hold"}),
        ("POST ", resources),
        ("DELETE ", resources),
    ]


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (401, "Unable to authenticate you", CloudAuthError),
        (422, "creating this/these droplet(s) will exceed your droplet limit", QuotaError),
        (422, "Size is not available in this region.", CapacityError),
        (422, "Name is invalid", CloudError),
        (429, "API Rate limit exceeded.", RateLimitError),
        (500, "Server Error", AmbiguousResult),
    ],
)
def test_what_an_answer_of_digitalocean_to_a_create_means(  # noqa: PLR0917 - a row of the table
    cloud: CannedCloud,
    tmp_path: Path,
    digital_ocean: LibcloudParameters,
    status: int,
    message: str,
    error: type[CloudError],
) -> None:
    cloud.answer(f"GET {DROPLETS}", {"droplets": [], "links": {}})
    cloud.answer(f"POST {DROPLETS}", {"id": "x", "message": message}, status=status)
    with opened(digital_ocean, tmp_path) as made, pytest.raises(CloudError) as caught:
        create(made)
    assert type(caught.value) is error


def test_requests_have_a_time_limit_and_connections_are_closed(
    cloud: CannedCloud, tmp_path: Path, digital_ocean: LibcloudParameters
) -> None:
    cloud.answer(f"GET {DROPLETS}", {"droplets": [], "links": {}})
    parameters = msgspec.structs.replace(digital_ocean, timeout_s=7.0)
    clients = Clients(parameters, provider_of("digitalocean"), tmp_path)
    with clients.borrowed() as driver:
        driver.list_nodes()
        connection: Any = driver.connection
        session = connection.connection.session
        assert session.timeout == 7.0
    pools = session.get_adapter(cloud.url).poolmanager.pools
    assert len(pools) == 1
    with clients.borrowed() as again:
        assert again is driver, "nobody else had it"
    clients.close()
    assert len(pools) == 0
