"""Libcloud's own driver of GCE, over HTTP: what a create sends, what answers mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.libcloud.parameters import LibcloudParameters
from tests.canned_cloud import CannedCloud, canned_cloud
from tests.libcloud_bench import INIT_COMMAND, KEY, NAME, TAGS, create, opened
from tests.libcloud_cloud import parts_of
from tests.local_clouds import send_to

BASE = "/compute/v1/projects/lab-1"
ZONE = f"{BASE}/zones/europe-west3-a"
HOST = "https://www.googleapis.com"


@pytest.fixture
def cloud() -> Iterator[CannedCloud]:
    with canned_cloud() as made:
        yield made


@pytest.fixture
def gce(cloud: CannedCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LibcloudParameters:
    """Return parameters for a zone that is there; a token that an earlier process got is too."""
    send_to(cloud.url, monkeypatch)
    expires = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = {"access_token": "t", "expire_time": expires}
    tmp_path.joinpath("gce-token").write_text(json.dumps(token))
    zone = {"id": "1", "name": "europe-west3-a", "status": "UP", "selfLink": HOST + ZONE}
    region = {"id": "2", "name": "europe-west3", "status": "UP", "zones": [HOST + ZONE]}
    cloud.answer(f"GET {BASE}/zones", {"items": [zone]})
    cloud.answer(f"GET {BASE}/regions", {"items": [region]})
    cloud.answer(f"GET {BASE}/aggregated/disks", {"items": {}})
    return LibcloudParameters(
        provider="gce",
        key="robot@lab-1.iam.example",
        secret="a key",
        location="europe-west3-a",
        options={"project": "lab-1", "auth_type": "IA", "secure": False},
        create_options={"ex_preemptible": True},
    )


def ready_to_create(cloud: CannedCloud) -> None:
    """Have the cloud answer all that Libcloud asks before a create."""
    cloud.answer(f"GET {ZONE}/instances", {})
    common = {"id": "1", "name": "n", "zone": HOST + ZONE, "selfLink": f"{HOST}/n"}
    cloud.answer(f"GET {ZONE}/machineTypes/size-1", common | {"guestCpus": 1, "memoryMb": 1024})
    cloud.answer(f"GET {ZONE}/diskTypes/pd-standard", common)
    cloud.answer(f"GET {BASE}/global/networks/default", common)


def gce_instance(**more: Any) -> dict[str, Any]:
    """Return an instance as GCE shows it."""
    items = [{"key": key, "value": value} for key, value in sorted(TAGS.items())]
    return {
        "id": "77",
        "name": NAME,
        "status": "RUNNING",
        "zone": HOST + ZONE,
        "image": f"{HOST}/images/image-1",
        "machineType": f"{HOST}/machineTypes/size-1",
        "tags": {"fingerprint": "f"},
        "metadata": {
            "fingerprint": "print",
            "items": [*items, {"key": "startup-script", "value": "#!/bin/sh"}],
        },
        "networkInterfaces": [
            {"networkIP": "10.1.0.2", "accessConfigs": [{"natIP": "203.0.113.9"}]}
        ],
        **more,
    }


OPERATION = {
    "id": "9",
    "name": "op",
    "status": "RUNNING",
    "selfLink": f"{HOST}{ZONE}/operations/op",
}


def test_a_create_at_gce_carries_tags_key_and_script(
    cloud: CannedCloud, tmp_path: Path, gce: LibcloudParameters
) -> None:
    ready_to_create(cloud)
    cloud.answer(f"POST {ZONE}/instances", OPERATION)
    cloud.answer(f"GET {ZONE}/operations/op", OPERATION)
    cloud.answer(f"GET {ZONE}/operations/op", OPERATION | {"status": "DONE"})
    cloud.answer(f"GET {ZONE}/instances/{NAME}", gce_instance())
    with opened(gce, tmp_path) as made:
        instance = create(made)
    assert (instance.id, instance.address) == ("77", "203.0.113.9:22")
    assert dict(instance.tags) == TAGS
    (asked,) = cloud.bodies(f"POST {ZONE}/instances")
    items = {each["key"]: each["value"] for each in asked["metadata"]["items"]}
    assert parts_of(items.pop("startup-script")) == (INIT_COMMAND, KEY)
    assert items == TAGS
    assert asked["name"] == NAME
    assert asked["disks"][0]["initializeParams"]["sourceImage"] == "global/images/image-1"
    assert asked["scheduling"]["preemptible"] is True


def test_a_name_that_is_taken_at_gce_is_that_of_an_earlier_try(
    cloud: CannedCloud, tmp_path: Path, gce: LibcloudParameters
) -> None:
    ready_to_create(cloud)
    cloud.answer(f"GET {ZONE}/instances", {"items": [gce_instance()]})
    error = {"code": 409, "errors": [{"reason": "alreadyExists", "message": "exists"}]}
    cloud.answer(f"POST {ZONE}/instances", {"error": error}, status=409)
    with opened(gce, tmp_path) as made:
        assert create(made).id == "77"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("QUOTA_EXCEEDED", QuotaError),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", CapacityError),
        ("CONDITION_NOT_MET", CloudError),
    ],
)
def test_what_a_job_of_gce_that_failed_means(
    cloud: CannedCloud, tmp_path: Path, gce: LibcloudParameters, code: str, error: type[CloudError]
) -> None:
    ready_to_create(cloud)
    cloud.answer(f"POST {ZONE}/instances", OPERATION)
    failed = {"errors": [{"code": code, "message": "no"}]}
    cloud.answer(f"GET {ZONE}/operations/op", OPERATION | {"status": "DONE", "error": failed})
    with opened(gce, tmp_path) as made, pytest.raises(CloudError) as caught:
        create(made)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (403, "quotaExceeded", QuotaError),
        (403, "rateLimitExceeded", RateLimitError),
        (403, "forbidden", CloudAuthError),
        (503, "backendError", AmbiguousResult),
    ],
)
def test_what_an_answer_of_gce_to_a_create_means(  # noqa: PLR0917 - a row of the table
    cloud: CannedCloud,
    tmp_path: Path,
    gce: LibcloudParameters,
    status: int,
    reason: str,
    error: type[CloudError],
) -> None:
    ready_to_create(cloud)
    told = {"code": status, "errors": [{"reason": reason, "message": "no"}]}
    cloud.answer(f"POST {ZONE}/instances", {"error": told}, status=status)
    with opened(gce, tmp_path) as made, pytest.raises(CloudError) as caught:
        create(made)
    assert type(caught.value) is error


def test_metadata_of_gce_without_a_value_is_empty(
    cloud: CannedCloud, tmp_path: Path, gce: LibcloudParameters
) -> None:
    foreign = gce_instance(id="78", name="theirs", metadata={"items": [{"key": "odd"}]})
    cloud.answer(f"GET {ZONE}/instances", {"items": [gce_instance(), foreign]})
    with opened(gce, tmp_path) as made:
        found = {each.id: dict(each.tags) for each in made.instances({})}
    assert found == {"77": TAGS, "78": {"odd": ""}}


def test_tags_of_gce_are_set_beside_the_other_metadata(
    cloud: CannedCloud, tmp_path: Path, gce: LibcloudParameters
) -> None:
    cloud.answer(f"GET {ZONE}/instances", {"items": [gce_instance()]})
    newer = gce_instance()
    newer["metadata"]["fingerprint"] = "newer"
    cloud.answer(f"GET {ZONE}/instances/{NAME}", newer)
    cloud.answer(f"POST {ZONE}/instances/{NAME}/setMetadata", OPERATION)
    cloud.answer(f"GET {ZONE}/operations/op", OPERATION | {"status": "DONE"})
    with opened(gce, tmp_path) as made:
        (instance,) = made.instances(TAGS)
        instance.set_tags({"longshore-idle-behavior": "hold"})
    (asked,) = cloud.bodies(f"POST {ZONE}/instances/{NAME}/setMetadata")
    assert asked["fingerprint"] == "newer"
    items = {each["key"]: each["value"] for each in asked["items"]}
    assert items == {**TAGS, "longshore-idle-behavior": "hold", "startup-script": "#!/bin/sh"}


def test_destroying_at_gce_does_not_wait_for_the_job(
    cloud: CannedCloud, tmp_path: Path, gce: LibcloudParameters
) -> None:
    cloud.answer(f"GET {ZONE}/instances", {"items": [gce_instance()]})
    cloud.answer(f"DELETE {ZONE}/instances/{NAME}", OPERATION)
    gone = {"error": {"code": 404, "errors": [{"reason": "notFound", "message": "gone"}]}}
    cloud.answer(f"DELETE {ZONE}/instances/{NAME}", gone, status=404)
    with opened(gce, tmp_path) as made:
        (instance,) = made.instances(TAGS)
        instance.destroy()
        instance.destroy()
