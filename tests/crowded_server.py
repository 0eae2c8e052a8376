"""A server with more than fits a page: many containers that wait, and many instances.

The containers are put into its store before it starts, which takes seconds; the instances are
those of `tests/blank_cloud.py`, so that nothing ever leaves the queue by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.store import codec, job_codec, sqlite, tables
from longshore.dispatcher.store.store import Store
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.store_values import container, insert_job, job, new_store, task

IN_BATCH = 1_000
BATCHES = 5
JOBS = 2_000
_AT_ONCE = 20_000
_FIRST_BATCH = 900_000
_USERS = ("ann", "bob", "eve")
CONFIG: dict[str, Any] = {
    "driver": {"name": "tests.blank_cloud:DRIVER", "parameters": {}},
    "instance_types": {
        "small": {"provider_type": "s", "cpus": 1, "memory": "2GiB", "price_per_hour": 0.2}
    },
    "engine": {"name": "process"},
    "pool": {
        "max_concurrent_creates": 1000,
        "max_cloud_ops_per_second": 1000,
        "boot_timeout_s": 36_000,
        "orphan_timeout_s": 108_000,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """How many there are, the containers of the batches among them."""

    containers: int = 100_000
    instances: int = 1_000


def batch(number: int) -> str:
    """Return the id of a job of `IN_BATCH` containers that wait, of `BATCHES` numbered from 0."""
    return f"j-{_FIRST_BATCH + number * IN_BATCH}"


@contextmanager
def crowded_server(directory: Path, crowd: Crowd) -> Iterator[DispatcherProcess]:
    """Run one; nothing of it is kept."""
    data = directory / "data"
    data.mkdir(parents=True)
    _fill(new_store(data), data / "longshore.db", crowd)
    scheduler = {"max_instances": crowd.instances}
    server = DispatcherProcess(directory, {**CONFIG, "scheduler": scheduler}, is_measured=True)
    try:
        server.start()
        wait_for(lambda: _all_are_there(server, crowd), "all instances are there")
        yield server
    finally:
        server.kill()


def _all_are_there(server: DispatcherProcess, crowd: Crowd) -> bool:
    listed = server.call("GET", f"/v1/instances?limit={crowd.instances}")
    return len(listed["items"]) == crowd.instances


def _fill(store: Store, path: Path, crowd: Crowd) -> None:
    for first in range(_FIRST_BATCH, _FIRST_BATCH + BATCHES * IN_BATCH, IN_BATCH):
        insert_job(store, job(first, task("align", IN_BATCH), name="batch"), first)
    store.close()
    model = codec.container_values(container(0))
    ended = job_codec.job_values(job(0, task(), state=JobState.SUCCEEDED))
    engine = sqlite.writing_engine(path)
    numbers = range(1, crowd.containers - BATCHES * IN_BATCH + 1)
    with engine.begin() as connection:
        for first in range(0, len(numbers), _AT_ONCE):
            rows = [_row(model, n) for n in numbers[first : first + _AT_ONCE]]
            connection.execute(insert(tables.containers), rows)
        rows = [{**ended, "id": f"j-{n}", "sequence": n} for n in range(1, JOBS)]
        connection.execute(insert(tables.jobs), rows)
    engine.dispose()


def _row(model: codec.Values, number: int) -> codec.Values:
    return {
        **model,
        "id": f"c-{number:08d}",
        "sequence": number,
        "created_at": 1_700_000_000.0 + number,
        "user": _USERS[number % len(_USERS)],
    }
