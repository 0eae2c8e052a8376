"""Containers, attempts and instances to put into a store."""

from __future__ import annotations

import shutil
import tempfile
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from longshore.dispatcher.domain.containers import (
    Attempt,
    Constraints,
    Container,
    ContainerSpec,
    InstanceRecord,
)
from longshore.dispatcher.domain.jobs import Job, JobTask, Tally
from longshore.dispatcher.domain.messages import InsertContainers, InsertJob
from longshore.dispatcher.store.store import Store
from longshore.drivers.interface import Resources

SPEC = ContainerSpec(
    name="demo",
    image="busybox",
    command=("sh", "-c", "true"),
    env=(("A", "b"),),
    resources=Resources(cpu_millis=1000, memory_bytes=2**30),
    constraints=Constraints(),
)


def url_in(directory: Path) -> str:
    return f"sqlite:///{directory}/longshore.db"


@cache
def empty_store() -> Path:
    """Return the file of a store with nothing in it, to copy: to make it takes half a second."""
    directory = Path(tempfile.mkdtemp(prefix="empty-store-"))
    Store.open(url_in(directory)).close()
    return directory / "longshore.db"


def new_store(directory: Path) -> Store:
    """Open a store with nothing in it, a copy of one."""
    shutil.copy(empty_store(), directory)
    return Store.open(url_in(directory))


def container(sequence: int, **changes: Any) -> Container:
    values: dict[str, Any] = {
        "id": f"c-{sequence:08d}",
        "sequence": sequence,
        "spec": SPEC,
        "user": "ann",
        "project": "apollo",
        "priority": 500,
        "created_at": 1000.5 + sequence,
    }
    return Container(**{**values, **changes})


def task(name: str = "", size: int = 1, **changes: Any) -> JobTask:
    """Return a task; one that is larger than 1 is an array."""
    values: dict[str, Any] = {"name": name, "spec": SPEC, "size": size, "is_array": size > 1}
    return JobTask(**{**values, **changes})


def job(sequence: int, *tasks: JobTask, **changes: Any) -> Job:
    values: dict[str, Any] = {
        "id": f"j-{sequence}",
        "sequence": sequence,
        "name": "night",
        "user": "ann",
        "project": "apollo",
        "priority": 500,
        "created_at": 1000.5 + sequence,
        "tasks": tasks,
        "tallies": tuple(Tally(queued=each.size) for each in tasks),
    }
    return Job(**{**values, **changes})


def containers_of(of: Job, first: int) -> tuple[Container, ...]:
    """Return a job's containers, task by task, with sequence numbers from `first`."""
    places = [(each, n) for each in of.tasks for n in range(each.size)]
    return tuple(
        container(
            sequence,
            spec=each.spec,
            user=of.user,
            project=of.project,
            priority=of.priority,
            job_id=of.id,
            task=each.name,
            array_index=index if each.is_array else None,
        )
        for sequence, (each, index) in enumerate(places, first)
    )


def insert_job(store: Store, new: Job, first: int, **changes: Any) -> tuple[Container, ...]:
    """Insert a job with its containers and return these; raises what it is refused with."""
    containers = containers_of(new, first)
    change = InsertJob(job=new, containers=containers, user=new.user, **changes)
    store.write([change]).result(30)
    return containers


def attempt(of: Container, number: int = 1, **changes: Any) -> Attempt:
    values: dict[str, Any] = {
        "id": f"a-{of.id}-{number}",
        "container_id": of.id,
        "number": number,
        "instance_id": "i-1",
        "instance_type": "small",
        "price_usd_per_hour": Decimal("0.10"),
        "created_at": 2000.25,
    }
    return Attempt(**{**values, **changes})


def instance(name: str = "i-1", **changes: Any) -> InstanceRecord:
    values: dict[str, Any] = {
        "id": name,
        "token": "t-1",
        "type_name": "small",
        "price_usd_per_hour": Decimal("0.1000"),
        "created_at": 1500.0,
    }
    return InstanceRecord(**{**values, **changes})


def insert(store: Store, *containers: Container, user: str = "ann", **changes: Any) -> None:
    """Insert containers and wait for it; raises what the store refuses them with."""
    store.write([InsertContainers(containers=containers, user=user, **changes)]).result(30)
