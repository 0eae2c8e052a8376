"""The driver `libcloud` and the conformance kit, over Libcloud's dummy with real SSH servers."""

from __future__ import annotations

import getpass
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from longshore.dispatcher.conformance.kit import Outcome, Patience, run
from longshore.dispatcher.conformance.model import Cause
from longshore.dispatcher.conformance.trial import make_trial
from longshore.drivers.errors import AmbiguousResult, CloudError, RateLimitError
from longshore.drivers.interface import CLUSTER_TAG, TOKEN_TAG, InstanceSet
from longshore.drivers.libcloud.parameters import LibcloudParameters
from longshore.drivers.registry import DriverContext, driver
from tests.driver_bench import TAGS, TYPE
from tests.libcloud_cloud import PROVIDER, SshdCloud
from tests.sshd_host import require_sshd

pytestmark = pytest.mark.real

PATIENCE = Patience(
    listing_lag_s=1.0,
    boot_timeout_s=90.0,
    gone_timeout_s=60.0,
    command_timeout_s=60.0,
    poll_interval_s=0.1,
)
NOT_CLAIMED = {
    *("quota-groups", "prices", "zone-prices", "offers", "host-key-verdict", "interruption-watch"),
    *("preemptible", "power-off", "only-one", "find", "leftovers", "billing-rule", "billing"),
}
NOT_ASKED = {"own-command"}
NOT_TOLD_APART = {"quota-of-group", "short-of-all"}
"""Libcloud tells neither how far a quota reaches nor a shortage: all, and one size, are assumed."""


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[SshdCloud]:
    require_sshd()
    made = SshdCloud(tmp_path / "cloud")
    yield made
    made.close()


def parameters(cloud: SshdCloud, **more: object) -> LibcloudParameters:
    values = {"provider": PROVIDER, "key": cloud.key, "image": "debian", "ssh_port": cloud.port}
    return LibcloudParameters(**(values | more))  # type: ignore[arg-type]  # made of any


def opened(cloud: SshdCloud, directory: Path, **more: object) -> InstanceSet:
    context = DriverContext(
        cluster="contract", state_dir=directory, clock=lambda: 0.0, ssh_user=getpass.getuser()
    )
    return driver("libcloud").make(parameters(cloud, **more), context)


def create(instances: InstanceSet, token: str, *, init: str = "") -> str:
    return instances.create(
        instance_type=TYPE,
        image="",
        tags={**TAGS, TOKEN_TAG: token},
        init_command=init,
        public_key="ssh-ed25519 AAAA",
        token=token,
    ).id


def test_the_kit_passes(cloud: SshdCloud, tmp_path: Path) -> None:
    trial = make_trial(
        driver("libcloud"),
        parameters(cloud),
        instance_type=TYPE,
        state_dir=tmp_path / "state",
        bed=cloud,
        patience=PATIENCE,
        ssh_user=getpass.getuser(),
    )
    report = run(trial)
    results = report.results
    failed = [f"{each.name}: {each.why}" for each in results if each.outcome is Outcome.FAILED]
    assert not failed, "\n".join(failed)
    assert report.left == ()
    not_shown = {each.name for each in results if each.outcome is Outcome.NOT_SHOWN}
    assert not_shown == NOT_CLAIMED | NOT_ASKED | NOT_TOLD_APART


def test_a_lost_answer_leaves_a_node_that_its_name_tells(
    cloud: SshdCloud, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    instances = opened(cloud, tmp_path)
    token = "0123456789abcdef" * 2
    with cloud.causing(Cause.LOST_ANSWER), pytest.raises(AmbiguousResult, match="next listing"):
        create(instances, token)
    (listed,) = instances.instances({CLUSTER_TAG: TAGS[CLUSTER_TAG]})
    assert dict(listed.tags) == {CLUSTER_TAG: TAGS[CLUSTER_TAG], TOKEN_TAG: token}
    with caplog.at_level(logging.WARNING):
        assert create(instances, token) == listed.id
    (listed,) = instances.instances({CLUSTER_TAG: TAGS[CLUSTER_TAG]})
    assert dict(listed.tags) == {**TAGS, TOKEN_TAG: token}
    assert not caplog.records
    instances.close()


def test_creates_with_one_token_at_once_do_not_miss_each_other(
    cloud: SshdCloud, tmp_path: Path
) -> None:
    instances = opened(cloud, tmp_path)
    # Who lists waits a second for another: two creates would both see that there is nothing.
    cloud.meeting = threading.Barrier(2, timeout=1.0)
    with ThreadPoolExecutor(2) as threads:
        ids = set(threads.map(lambda _: create(instances, "a1"), range(2)))
    assert len(ids) == len(cloud.creates) == 1
    instances.close()


def test_a_second_create_changes_no_tag_that_was_set_since(
    cloud: SshdCloud, tmp_path: Path
) -> None:
    instances = opened(cloud, tmp_path)
    create(instances, "a1")
    (instance,) = instances.instances({})
    instance.set_tags({"longshore-type": "another"})
    create(instances, "a1")
    (instance,) = instances.instances({})
    assert instance.tags["longshore-type"] == "another"
    instances.close()


def test_options_of_a_create_are_handed_on(cloud: SshdCloud, tmp_path: Path) -> None:
    instances = opened(cloud, tmp_path, create_options={"ex_colour": "green"})
    create(instances, "a1")
    (asked,) = cloud.creates
    assert (asked["size"], asked["image"], asked["ex_colour"]) == ("t1", "debian", "green")
    instances.close()


def test_an_option_that_libcloud_does_not_take_is_an_error_and_creates_nothing(
    cloud: SshdCloud, tmp_path: Path
) -> None:
    instances = opened(cloud, tmp_path, create_options={"ex_color": "green"})
    with pytest.raises(CloudError, match=r"ex_color.*create_options") as caught:
        create(instances, "a1")
    assert not isinstance(caught.value, AmbiguousResult)
    assert cloud.creates == []
    instances.close()


def test_a_rate_limit_says_when_to_come_back(cloud: SshdCloud, tmp_path: Path) -> None:
    instances = opened(cloud, tmp_path)
    with cloud.causing(Cause.THROTTLED), pytest.raises(RateLimitError) as caught:
        instances.instances({})
    assert caught.value.retry_after_s == 7.0
    instances.close()


def test_without_an_image_nothing_is_created(cloud: SshdCloud, tmp_path: Path) -> None:
    instances = opened(cloud, tmp_path, image="")
    with pytest.raises(CloudError, match=r"pool\.image"):
        create(instances, "a1")
    instances.close()
