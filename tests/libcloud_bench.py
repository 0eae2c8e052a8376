"""What the tests of the driver `libcloud` share: a request, and a driver that is closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

from longshore.drivers.interface import (
    CLUSTER_TAG,
    TOKEN_TAG,
    Instance,
    InstanceSet,
    InstanceType,
    Resources,
)
from longshore.drivers.libcloud.naming import node_name
from longshore.drivers.libcloud.parameters import LibcloudParameters
from longshore.drivers.registry import DriverContext, driver

TYPE = InstanceType(
    name="Small.1",
    provider_type="size-1",
    resources=Resources(cpu_millis=1000, memory_bytes=2**30),
    price_usd_per_hour=Decimal("0.1"),
)
TOKEN = "0123456789abcdef" * 2
TAGS = {CLUSTER_TAG: "lab", TOKEN_TAG: TOKEN, "longshore-type": "Small.1"}
NAME = node_name("lab", TOKEN)
KEY = "ssh-ed25519 AAAAC3"
INIT_COMMAND = "printf the-secret"


@contextmanager
def opened(parameters: LibcloudParameters, directory: Path) -> Iterator[InstanceSet]:
    """Yield an instance set, and close it."""
    context = DriverContext(cluster="lab", state_dir=directory, clock=lambda: 0.0)
    made = driver("libcloud").make(parameters, context)
    try:
        yield made
    finally:
        made.close()


def create(instances: InstanceSet) -> Instance:
    """Create the one instance of these tests."""
    return instances.create(
        instance_type=TYPE,
        image="image-1",
        tags=TAGS,
        init_command=INIT_COMMAND,
        public_key=KEY,
        token=TOKEN,
    )
