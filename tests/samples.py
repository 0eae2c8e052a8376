"""Instance types and containers for tests, as the design's scenarios have them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import (
    ENGINE_FAILURE,
    Attempt,
    AttemptOutcome,
    Constraints,
    Container,
    ContainerSpec,
    Reason,
)
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.domain.vitals import DiskRoom, StoreVitals, Vitals
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.histogram import Histogram

GIB = 2**30
ME = Principal(user="u", role=Role.ADMIN, door=Door.OPEN)
"""Who asks services for things."""
DISK = Vitals(
    store=StoreVitals(
        problem="",
        pending=0,
        database_bytes=3 * 2**20,
        wal_bytes=4096,
        commit_s=Histogram((1.0,)),
        room=DiskRoom(directory="/data", free_bytes=5 * 2**30, free_inodes=1_234_567),
    ),
    logs=DiskRoom(directory="/logs", free_bytes=100, free_inodes=None),
)
"""A server whose store and disk are well."""


def make_type(cpus: int, *, name: str = "", price: str = "", **more: object) -> InstanceType:
    """Return type tN: N cpus, N x 1.1 GiB, $0.123 x N."""
    return InstanceType(
        name=name or f"t{cpus}",
        provider_type=f"p{cpus}",
        resources=Resources(cpu_millis=1000 * cpus, memory_bytes=cpus * GIB * 11 // 10),
        price_usd_per_hour=Decimal(price) if price else Decimal("0.123") * cpus,
        **more,  # type: ignore[arg-type]  # the few optional fields of InstanceType
    )


def make_container(
    number: int, *, cpus: float = 1, priority: int = 500, **more: object
) -> Container:
    """Return container number N asking 1 GiB per cpu."""
    resources = Resources(cpu_millis=int(1000 * cpus), memory_bytes=int(GIB * cpus))
    constraints, image = more.pop("constraints", Constraints()), more.pop("image", "")
    assert isinstance(constraints, Constraints)
    assert isinstance(image, str)
    spec = ContainerSpec(
        name=f"n{number}",
        image=image,
        command=("true",),
        env=(),
        resources=resources,
        constraints=constraints,
        **more,  # type: ignore[arg-type]  # the few optional fields of ContainerSpec
    )
    return Container(
        id=f"c-{number}",
        sequence=number,
        spec=spec,
        user="u",
        project="p",
        priority=priority,
        created_at=0.0,
    )


def lost_on(
    container: Container, *instance_ids: str, code: str = ENGINE_FAILURE, at: float = 1000.0
) -> Container:
    """Return a container that was lost on some instances, one after the other, a second apart."""
    attempts = tuple(
        Attempt(
            id=f"{container.id}-{number}",
            container_id=container.id,
            number=number,
            instance_id=instance_id,
            instance_type="t1",
            price_usd_per_hour=Decimal(1),
            created_at=at + number,
            finished_at=at + number,
            outcome=AttemptOutcome.LOST,
            reason=Reason(code=code, message="no such host"),
        )
        for number, instance_id in enumerate(instance_ids, start=1)
    )
    return replace(container, attempts=attempts)


def made_container(number: int) -> tuple[str, int]:
    """Return the id and the sequence of a container that an engine makes: after all submitted."""
    sequence = 10**6 + number
    return f"c-{sequence}", sequence
