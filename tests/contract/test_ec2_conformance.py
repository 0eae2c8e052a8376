"""The conformance kit on the driver `ec2`: moto's server behind it, real sshd on its instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from longshore.dispatcher.conformance.kit import (
    CHECKS,
    Check,
    Outcome,
    Patience,
    Trial,
    check_named,
    run,
)
from longshore.dispatcher.conformance.trial import make_trial
from longshore.drivers.ec2.driver import DRIVER
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.interface import InstanceType, Resources
from tests.ec2_bed.bed import Ec2Bed
from tests.ec2_bed.kit import KitBed
from tests.ec2_bed.price_list import PriceListServer
from tests.sshd_host import require_sshd

LARGE = InstanceType(
    name="large",
    provider_type="m5.large",
    resources=Resources(cpu_millis=2000, memory_bytes=8 * 2**30),
    price_usd_per_hour=Decimal("0.096"),
)
WITH_DISK = InstanceType(
    name="with-disk",
    provider_type="m5d.large",
    resources=Resources(cpu_millis=2000, memory_bytes=8 * 2**30, disk_bytes=75 * 10**9),
    price_usd_per_hour=Decimal("0.113"),
)
SPOT = replace(LARGE, name="large-spot", preemptible=True, price_usd_per_hour=Decimal("0.03"))
PATIENCE = Patience(
    listing_lag_s=30.0,
    boot_timeout_s=90.0,
    gone_timeout_s=90.0,
    command_timeout_s=60.0,
    poll_interval_s=0.05,
    watch_s=2.0,
)
# No error of EC2's says that it is short of everything, and it tells no host keys.
NOT_SHOWN = {
    "host-key-verdict": "the driver does not claim host-keys",
    "no-preemptible": "the driver claims preemptible",
    "only-one": "the driver claims many-instances",
    "own-command": "no command was given",
    "short-of-all": "this test bed cannot do that: the cloud is short of everything",
}

# The way an instance is bought changes the create call, and nothing but that.
OF_THE_MARKET = (
    *("create", "listed", "boot", "command", "same-token", "other-set", "destroy"),
    *("one-token-at-once", "many-at-once", "power-off", "lost-answer", "short-of-type"),
)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Bed]:
    require_sshd()
    with Ec2Bed(tmp_path_factory.mktemp("ec2")) as made:
        yield made


@pytest.fixture
def price_list() -> Iterator[PriceListServer]:
    with PriceListServer({"m5.large": "0.096", "m5d.large": "0.113"}) as server:
        yield server


def trial_on(bed: Ec2Bed, directory: Path, price_list: str, type_: InstanceType) -> Trial:
    return make_trial(
        DRIVER,
        msgspec.convert(bed.parameters(price_list_url=price_list), Ec2Parameters),
        instance_type=type_,
        preemptible_type=SPOT,
        other_types=(LARGE, SPOT, WITH_DISK),
        state_dir=directory / "state",
        image=bed.image,
        bed=KitBed(bed),
        patience=PATIENCE,
        ssh_port=bed.machines.port,
    )


def run_on(bed: Ec2Bed, trial: Trial, checks: Sequence[Check]) -> dict[str, str]:
    """Make the checks, of which none may fail; return why each was not shown that was not."""
    report = run(trial, only=checks)
    failed = {each.name: each.why for each in report.results if each.outcome is Outcome.FAILED}
    assert failed == {}, bed.machines.trouble()
    assert report.left == ()
    assert bed.twins() == {}
    assert bed.machines.trouble() == []
    return {each.name: each.why for each in report.results if each.outcome is Outcome.NOT_SHOWN}


@pytest.mark.real
def test_the_driver_conforms(bed: Ec2Bed, tmp_path: Path, price_list: PriceListServer) -> None:
    bed.clear()
    not_shown = run_on(bed, trial_on(bed, tmp_path, price_list.url, LARGE), CHECKS)
    assert not_shown == NOT_SHOWN
    foreign = [each for each in bed.truth() if not each.tags]
    assert [each.billed for each in foreign] == [True], "nobody else's instance was touched"
    assert bed.billed() == [each.id for each in foreign]


@pytest.mark.real
def test_spot_instances_conform(bed: Ec2Bed, tmp_path: Path, price_list: PriceListServer) -> None:
    bed.clear()
    checks = [check_named(name) for name in OF_THE_MARKET]
    assert run_on(bed, trial_on(bed, tmp_path, price_list.url, SPOT), checks) == {}
    assert [each.spot for each in bed.truth()] == [True] * len(bed.truth())
    assert bed.billed() == []
