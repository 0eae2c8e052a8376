"""A server as a team has it on a good day: for pictures of the dashboard.

Three people work on it, some of their work runs, waits, has ended or failed, an instance is held,
and its ledger has the last months.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, func, insert, select

from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    BilledState,
    Column,
    CostGroup,
    CostOutcome,
    PriceSource,
    Total,
)
from longshore.dispatcher.store import ledger_tables
from longshore.dispatcher.store.ledger_groups import group_values, total_values
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.local_http import local_call
from tests.store_values import new_store

CONFIG: dict[str, Any] = {
    "auth": {"mode": "required"},
    "driver": {"name": "simulated", "parameters": {"boot_time_s": 0.5}},
    "instance_types": {
        "c5.xlarge": {"provider_type": "c", "cpus": 4, "memory": "8GiB", "price_per_hour": 0.17},
        "r5.large": {"provider_type": "r", "cpus": 2, "memory": "16GiB", "price_per_hour": 0.126},
    },
    "engine": {"name": "process", "run_as": "nobody"},
    "scheduler": {"max_instances": 4},
    "pool": {"idle_timeout_s": 600},
    "budgets": {
        "genomics": {"project": "genomics", "limit": 9000},
        "vision": {"project": "vision", "limit": 4000},
    },
}
TEAM = {"ann": "genomics", "bob": "vision", "eve": "climate"}
_DAYS = 100
_GRAINS_PER_MS = 150_000_000
_WORK = "echo reading sample $LONGSHORE_ARRAY_INDEX; sleep 0.1; echo done"
_LONG = "for epoch in $(seq 1 9); do echo epoch $epoch: loss 0.$((95 - 8 * epoch)); done; sleep 900"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A server that runs, the token of its admin, and what there is to look at."""

    server: DispatcherProcess
    admin: str
    container: str
    job: str
    instance: str


@contextmanager
def pictured_server(directory: Path) -> Iterator[Scene]:
    """Run one until the end of the block; needs root, as what runs there runs as nobody."""
    data = directory / "data"
    data.mkdir(parents=True)
    new_store(data).close()
    _book(data / "longshore.db", until_hour=int(time.time()) // 3600)
    with DispatcherProcess(directory, CONFIG, is_measured=True) as server:
        yield _scene(server)
        shown = _shown(_token(server, "ada"))
        for instance in server.call("GET", "/v1/instances", **shown)["items"]:
            server.call("POST", f"/v1/instances/{instance['id']}/kill", {}, **shown)


def _scene(server: DispatcherProcess) -> Scene:
    admin = _token(server, "ada")
    tokens = {user: _token(server, user) for user in TEAM}
    sample = {"cpus": 1, "memory": "512MiB"}
    tasks = [
        {"name": "align", "command": ["sh", "-c", _WORK], "array": {"size": 60}, **sample},
        {"name": "merge", "command": ["sh", "-c", _LONG], "after": ["align"], **sample},
        {"name": "report", "command": ["true"], "after": ["merge"], **sample},
    ]
    job = _post(server, tokens["ann"], "jobs", name="genomes-week-48", tasks=tasks)
    training = _post(
        server,
        tokens["bob"],
        "containers",
        name="train-resnet",
        command=["sh", "-c", _LONG],
        labels={"paper": "icml"},
        cpus=3,
        memory="6GiB",
    )
    broken = "[ $((LONGSHORE_ARRAY_INDEX % 4)) != 3 ] || exit 3"
    sweep = [{"name": "sweep", "command": ["sh", "-c", broken], "array": {"size": 16}, **sample}]
    _post(server, tokens["bob"], "jobs", name="learning-rates", tasks=sweep)
    rain = {"cpus": 2, "memory": "12GiB", "command": ["sh", "-c", _LONG]}
    for year in range(2018, 2025):
        _post(server, tokens["eve"], "containers", name=f"rain-{year}", **rain)

    def begun() -> str | None:
        found = server.call("GET", f"/v1/containers/{training}", **_shown(admin))
        return found["instance"] if found["state"] == "running" else None

    instance = str(wait_for(begun, "the training runs"))

    def is_far() -> bool:
        tally = server.call("GET", f"/v1/jobs/{job}", **_shown(admin))["counts"]
        return bool(tally["succeeded"] == 60 and tally["running"] == 1)

    wait_for(is_far, "the samples are aligned")
    body = {"idle_behavior": "hold", "reason": "looking at its disk"}
    path = f"/v1/instances/{instance}/idle-behavior"
    server.call("PUT", path, body, **_shown(admin))
    return Scene(server=server, admin=admin, container=training, job=job, instance=instance)


def _socket(server: DispatcherProcess) -> Path:
    return Path(server.directory) / "data" / "longshore.sock"


def _token(server: DispatcherProcess, user: str) -> str:
    project = TEAM.get(user)
    wanted = {
        "user": user,
        "role": "user" if project else "admin",
        "projects": [project] if project else [],
    }
    status, answer = local_call(_socket(server), "POST", "/v1/tokens", wanted)
    assert status == 201, answer
    return str(answer["token"])


def _shown(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _post(server: DispatcherProcess, token: str, what: str, **body: Any) -> str:
    return str(server.call("POST", f"/v1/{what}", body, **_shown(token))["id"])


def _book(path: Path, *, until_hour: int) -> None:
    """Put some months into the ledger of a store, as its booking would have left them."""
    dice = random.Random(7)
    groups = [_group(user, number) for user in TEAM for number in range(4)] + [_group("", 0)]
    first = (until_hour // 24 - _DAYS) * 24
    totals = [
        {"hour": hour, "group_id": number, **total_values(_total(dice, hour, number))}
        for hour in range(first, until_hour)
        for number in range(1, len(groups) + 1)
    ]
    engine = create_engine(f"sqlite:///{path}")
    hours, days = ledger_tables.hours, ledger_tables.days
    with engine.begin() as connection:
        rows = [{"id": n, **group_values(each)} for n, each in enumerate(groups, 1)]
        connection.execute(insert(ledger_tables.groups), rows)
        connection.execute(insert(hours), totals)
        sums = [func.sum(hours.c[column.name]) for column in list(hours.columns)[2:]]
        whole = select(hours.c.hour // 24, hours.c.group_id, *sums)
        columns = [column.name for column in days.columns]
        grouped = whole.group_by(hours.c.hour // 24, hours.c.group_id)
        connection.execute(insert(days).from_select(columns, grouped))
        connection.execute(insert(ledger_tables.booked), [{"id": 1, "until_hour": until_hour}])
    engine.dispose()


def _group(user: str, number: int) -> CostGroup:
    return CostGroup(
        project=TEAM.get(user, ""),
        user=user,
        job_name=f"{user}-{('night', 'train', 'sweep', 'report')[number]}" if user else "",
        labels=(),
        type_name=("c5.xlarge", "r5.large")[number % 2],
        preemptible=False,
        zone="",
        state=BilledState.WORK if user else BilledState.EMPTY,
        column=Column.DIRECT if user else Column.SHARED,
        cause="work" if user else "empty",
        outcome=CostOutcome.LOST_FAILED if number == 2 else CostOutcome.USEFUL,
        price_source=PriceSource.CONFIG,
    )


def _total(dice: random.Random, hour: int, number: int) -> Total:
    """Return what a group came to in an hour: less of it at weekends and by night."""
    is_quiet = hour // 24 % 7 >= 5 or not 7 <= hour % 24 < 20
    quantity_ms = int(MS_PER_HOUR * dice.random() * (0.3 if is_quiet else 1.5) / (1 + number % 3))
    return Total(quantity_ms=quantity_ms, grains=quantity_ms * _GRAINS_PER_MS)
