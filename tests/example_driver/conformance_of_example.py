"""What a driver's own tests need: a trial, and one test that becomes one for each check."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal

import pytest
from longshore_example import DRIVER, ExampleParameters

from longshore.dispatcher.conformance.kit import Trial
from longshore.dispatcher.conformance.trial import make_trial
from longshore.drivers.interface import InstanceType, Resources

TYPE = InstanceType(
    name="small",
    provider_type="std.small",
    resources=Resources(cpu_millis=1000, memory_bytes=2**30),
    price_usd_per_hour=Decimal("0.05"),
)


@pytest.fixture(scope="module")
def conformance_trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return make_trial(
        DRIVER,
        ExampleParameters(url=os.environ["TOY_URL"], token=os.environ["TOY_TOKEN"]),
        instance_type=TYPE,
        state_dir=tmp_path_factory.mktemp("state"),
    )


def test_the_driver_conforms(conformance_check: Callable[[], None]) -> None:
    conformance_check()
