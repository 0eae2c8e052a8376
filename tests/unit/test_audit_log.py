"""The audit log: whatever was acknowledged is in it, also after a crash of the machine."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.api_server import Client, connected
from tests.rigs.api import ApiRig
from tests.unit.test_access_table import CONTAINER, DAEMON, ROWS, TEMPLATE

NOBODY_COMES_S = 3600.0


def noted(rig: ApiRig) -> list[str]:
    """Return the actions that are on the disk, the last first."""
    with closing(sqlite3.connect(rig.directory / "longshore.db")) as other:
        rows = other.execute("SELECT action FROM audit ORDER BY sequence DESC").fetchall()
    return [action for (action,) in rows]


async def things(client: Client) -> dict[str, str]:
    """Return the ids of one of everything, by what `ROWS` calls it."""
    asked: dict[str, tuple[str, Any]] = {
        "container": ("/v1/containers", CONTAINER),
        "job": ("/v1/jobs", {"tasks": [CONTAINER]}),
        "daemon": ("/v1/jobs", DAEMON),
        "template": ("/v1/jobs", TEMPLATE),
        "token": ("/v1/tokens", {"user": "ann", "projects": ["a"]}),
    }
    made = {}
    for name, (path, body) in asked.items():
        status, answer = await client.post(path, body)
        assert status == 201, answer
        made[name] = answer["id"]
    await client.rig.add_instance("i-1")
    return {**made, "instance": "i-1"}


async def test_whatever_was_acknowledged_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.dispatcher.store.store.BEHIND_S", NOBODY_COMES_S)
    done, missing = set(), []
    async with connected() as client:
        made = await things(client)
        changing = [each for each in ROWS if each.method != "GET" and "plan" not in each.path]
        # Twice: what is so already changes nothing in the store.
        for row in [*changing, *changing]:
            path = row.path.replace("{id}", made.get(row.thing, ""))
            path = path.replace("{project}", "a").replace("{name}", "db")
            headers = {"Content-Type": "application/json"} if row.body is not None else {}
            async with client.session.request(
                row.method, client.url + path, json=row.body, headers=headers
            ) as answer:
                await answer.read()
            if answer.status < 400:
                done.add(row.path)
                if noted(client.rig)[:1] != [f"{row.method} {path}"]:
                    missing.append(f"{row.method} {path}")
    assert missing == []
    assert len(done) > 10


async def test_what_cannot_be_noted_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.dispatcher.store.store.BEHIND_S", NOBODY_COMES_S)
    monkeypatch.setattr("longshore.dispatcher.service.audit.WRITTEN_WITHIN_S", 0.05)
    async with connected() as client:
        daemon = (await things(client))["daemon"]
        with closing(sqlite3.connect(client.rig.directory / "longshore.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            body = json.dumps(DAEMON).encode()
            headers = {"Content-Type": "application/json"}
            status, answer = await client.call(
                "PUT", f"/v1/jobs/{daemon}", data=body, headers=headers
            )
        assert (status, answer["detail"]) == (
            503,
            "the store takes too long: this is done, but it is not in the audit log yet; ask again",
        )
