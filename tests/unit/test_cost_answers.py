"""`GET /v1/cost` and `longshore cost` over real HTTP: rows, totals, pages, refusals."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from longshore.dispatcher.cli import times
from longshore.dispatcher.cli.commands.main import main
from tests.api_server import Client, connected
from tests.cli_server import cli_server
from tests.rigs.api import ApiRig

SPEC = {"command": ["true"], "cpus": 1, "memory": "1GiB"}
WHEN = "from=2020-01-01&to=2040-01-01"
Capture = pytest.CaptureFixture[str]


async def worked(client: Client) -> None:
    """Let two projects have work on one instance for an hour, of which one fails."""
    rig = client.rig
    ids = []
    for project, name in (("a", "align"), ("a", "align"), ("b", "sort")):
        body = {**SPEC, "name": name, "project": project, "labels": {"team": project}}
        _, made = await client.post("/v1/containers", body)
        ids.append(made["id"])
    await rig.add_instance("i-1")
    for container_id in ids:
        await rig.start(container_id, "i-1")
    await rig.pass_time(1800)
    await rig.finish(ids[0])
    await rig.finish(ids[2], exit_code=3)
    await rig.pass_time(1800)
    await rig.finish(ids[1])


async def asked(client: Client, query: str) -> dict[str, Any]:
    async with client.session.get(f"{client.url}/v1/cost?{query}") as answer:
        assert answer.status == 200, await answer.text()
        return dict(json.loads(await answer.text(), parse_float=Decimal, parse_int=Decimal))


async def test_rows_add_up_to_the_total_whatever_they_are_by() -> None:
    async with connected() as client:
        await worked(client)
        totals = set()
        for by in ("project", "user,type", "state,cause,outcome", "job,market,zone", ""):
            for idle in ("separate", "share"):
                answer = await asked(client, f"{WHEN}&by={by}&idle={idle}")
                for name in ("direct", "caused", "shared", "total", "lost_work", "uncertain"):
                    parts = [row["amounts"][name] for row in answer["items"]]
                    assert sum(parts) == answer["total"][name]
                totals.add(answer["total"]["total"])
        assert len(totals) == 1
        assert totals.pop() > 0


async def test_who_worked_pays_and_what_failed_is_lost() -> None:
    async with connected() as client:
        await worked(client)
        answer = await asked(client, f"{WHEN}&by=project")
        rows = {row["by"]["project"]: row["amounts"] for row in answer["items"]}
        assert rows["a"]["direct"] == 3 * rows["b"]["direct"]
        assert rows["b"]["lost_work"] == rows["b"]["direct"] > 0 == rows["a"]["lost_work"]
        assert answer["currency"] == "USD"
        assert "taxes, discounts, savings plans and credits" in answer["not_included"]
        one = await asked(client, f"{WHEN}&by=job&project=b")
        assert [row["by"] for row in one["items"]] == [{"job": "sort"}]


async def test_pages_have_all_rows_once_and_the_total_of_all() -> None:
    async with connected() as client:
        await worked(client)
        whole = await asked(client, f"{WHEN}&by=state,job")
        found, cursor = [], ""
        while True:
            page = await asked(client, f"{WHEN}&by=state,job&limit=2&cursor={cursor}")
            assert page["total"] == whole["total"]
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert found == whole["items"]
        assert len(found) == 3


@pytest.mark.parametrize("when", ["", "from=2020-01-01&to=2040-01-01"])
async def test_all_pages_are_up_to_the_time_of_the_first(when: str) -> None:
    async with connected() as client:
        await worked(client)
        first = page = await asked(client, f"{when}&by=state,job&limit=1")
        found = list(page["items"])
        while page["next_cursor"] is not None:
            await client.rig.pass_time(600)  # in which an instance is empty, and costs
            cursor = page["next_cursor"]
            page = await asked(client, f"{when}&by=state,job&limit=1&cursor={cursor}")
            assert (page["as_of"], page["total"]) == (first["as_of"], first["total"])
            found += page["items"]
        assert len(found) == 3
        assert sum(row["amounts"]["total"] for row in found) == first["total"]["total"]
        now = await asked(client, f"{when}&by=state,job")
        assert now["total"]["total"] > first["total"]["total"]


@pytest.mark.parametrize(
    ("query", "path", "said"),
    [
        ("by=projekt", "by", 'did you mean \\"project\\"?'),
        ("by=label:team", "by", "an admin names it in cost.labels"),
        ("by=user,job,type,zone,state", "by", "names 5, and 4 are the most"),
        ("by=user,job,user", "by", 'names \\"user\\" 2 times: name it once'),
        ("by=projekt,projekt", "by", "2 times: name it once"),
        ("by=projekt,projekt", "by", 'did you mean \\"project\\"?'),
        ("tz=Mars", "tz", "is no time zone"),
        ("from=2026-10-02&to=2026-10-01", "to", "must be after from"),
        ("step=hour&from=2001&to=2020-01-01", "from", "is no day, month or time"),
        ("step=minute", "step", "must be one of"),
        ("cursor=AAAA", "cursor", "must be the next_cursor"),
        ("cursor=Wy0xLDAsW11d", "cursor", "must be the next_cursor"),  # [-1,0,[]]
    ],
)
async def test_what_is_wrong_with_a_question_is_told(query: str, path: str, said: str) -> None:
    async with connected() as client:
        async with client.session.get(f"{client.url}/v1/cost?{query}") as answer:
            text = await answer.text()
        assert answer.status == 400, text
        assert said in text
        assert f'"{path}"' in text


def test_the_command_shows_what_is_wrong_with_a_question(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with cli_server(rig=ApiRig()) as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        assert main(["cost", "--by", "user,user"]) != 0
    assert "2 times: name it once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Europe/Berlin", "2026-10-25T00:00:00+02:00"),
        ("UTC", "2026-10-24T22:00:00Z"),
        ("no such zone here", "2026-10-24T22:00:00Z"),
    ],
)
def test_a_step_is_headed_in_the_zone_that_was_asked_for(zone: str, said: str) -> None:
    assert times.moment_in("2026-10-24T22:00:00Z", zone) == said


def test_the_command_shows_a_table_with_a_total(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with cli_server(rig=ApiRig()) as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        assert main(["cost", "--from", "2020-01", "--to", "2040-01", "--by", "project,job"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].split() == [
        *("PROJECT", "JOB", "DIRECT", "CAUSED", "SHARED", "TOTAL", "LOST", "WORK", "UNCERTAIN"),
        "HOURS",
    ]
    assert "total" in said
    assert "no hour of it is booked yet" in said
    assert "not included: data transfer and NAT" in said
