"""What a success costs: counted by whose work it is and its name, over the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from longshore.dispatcher.api.schemas.cost import CostAnswer
from longshore.dispatcher.cli.commands import cost
from longshore.dispatcher.cost.report import Seen, counts_successes, successes_of
from longshore.dispatcher.domain.queries import Successes
from tests.answers import told
from tests.api_server import Client, connected

HOUR_S = 3600.0


def success(user: str, job: str, number: int, *, project: str = "a", span: int = 0) -> Successes:
    return Successes(span=span, project=project, user=user, job_name=job, number=number)


FOUND = [
    success("ann", "fit", 3),
    success("ann", "fit", 4, span=1),
    success("bob", "fit", 2),
    success("bob", "", 1, project="b"),
]
ALL = Seen(everything=True)


@pytest.mark.parametrize(
    ("by", "only", "counted"),
    [
        (("job",), {}, True),
        (("user", "job", "project"), {"user": "ann", "job": "fit"}, True),
        (("project", "user"), {}, False),
        ((), {}, False),
        (("job", "type"), {}, False),
        (("job",), {"type": "small"}, False),
    ],
)
def test_only_rows_that_are_of_work_count(
    by: tuple[str, ...], only: dict[str, str], counted: bool
) -> None:
    assert counts_successes(by, only) is counted


def test_successes_are_added_up_by_the_rows_of_the_report() -> None:
    by_job = successes_of(FOUND, ("job",), seen=ALL, only={})
    assert by_job == {(0, ("fit",)): 5, (1, ("fit",)): 4, (0, ("(none)",)): 1}
    by_both = successes_of(FOUND, ("job", "user"), seen=ALL, only={"user": "ann"})
    assert by_both == {(0, ("fit", "ann")): 3, (1, ("fit", "ann")): 4}


@pytest.mark.parametrize(
    ("seen", "number"),
    [
        (Seen(user="ann", user_projects=frozenset({"a"})), 3),
        (Seen(user="ann", user_projects=frozenset({"b"})), None),
        (Seen(projects=frozenset({"a"})), 5),
        (Seen(), None),
    ],
)
def test_successes_of_others_are_not_told(seen: Seen, number: int | None) -> None:
    found = successes_of(FOUND, ("job",), seen=seen, only={})
    assert found.get((0, ("fit",))) == number


# ---- over the server -----------------------------------------------------------------------------


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as made:
        await made.rig.add_instance("i-1")
        yield made


async def ended(client: Client, name: str, exit_code: int) -> None:
    """Let a container run for an hour on half of an instance, and end."""
    body = {"command": ["x"], "name": name, "cpus": 32, "retries": {"max": 0}}
    _, made = await client.post("/v1/containers", body)
    await client.rig.start(made["id"], "i-1")
    await client.rig.pass_time(HOUR_S)
    await client.rig.finish(made["id"], exit_code=exit_code)


async def asked(client: Client, query: str) -> Any:
    status, answer = await client.call("GET", f"/v1/cost?{query}")
    assert status == 200, answer
    return answer["items"]


async def test_a_success_costs_all_that_was_spent_on_it(client: Client) -> None:
    await ended(client, "fit", 1)
    await ended(client, "fit", 0)
    await ended(client, "bad", 1)
    rows = {each["by"]["job"]: each for each in await asked(client, "by=job")}
    assert (rows["fit"]["succeeded"], rows["bad"]["succeeded"]) == (1, 0)
    assert rows["fit"]["usd_per_success"] == rows["fit"]["amounts"]["total"]
    assert rows["fit"]["usd_per_success"] == pytest.approx(0.1, abs=1e-3)
    assert rows["bad"]["usd_per_success"] is None
    assert rows["(none)"]["succeeded"] == 0


async def test_a_success_belongs_to_the_step_in_which_it_ended(client: Client) -> None:
    await ended(client, "fit", 0)
    await client.rig.pass_time(2 * HOUR_S)
    await ended(client, "fit", 0)
    rows = await asked(client, "by=user,job&step=hour&job=fit")
    assert sum(each["succeeded"] for each in rows) == 2
    assert all(each["succeeded"] <= 1 for each in rows)


async def test_other_rows_tell_nothing_of_success(client: Client) -> None:
    await ended(client, "fit", 0)
    for query in ("by=user", "by=job,type", "by=job&type=small"):
        for each in await asked(client, query):
            assert "succeeded" not in each
            assert "usd_per_success" not in each


def test_the_table_tells_what_a_success_cost(capsys: pytest.CaptureFixture[str]) -> None:
    amounts = dict.fromkeys(
        ("direct", "caused", "shared", "total", "lost_work", "uncertain", "instance_hours"),
        Decimal(3),
    )
    rows = [
        {"from": "f", "to": "t", "by": {"job": name}, "amounts": amounts, **more}
        for name, more in (
            ("fit", {"succeeded": 2, "usd_per_success": Decimal("1.5")}),
            ("bad", {"succeeded": 0, "usd_per_success": None}),
        )
    ]
    answer = told(CostAnswer, items=rows, total=amounts, currency="USD", time_zone="UTC")
    cost._print(answer, by=("job",), stepped=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[-2:] == ["SUCCEEDED", "EACH"]
    assert lines[1].split()[-2:] == ["2", "1.50"]
    assert lines[2].split()[-2:] == ["0", "-"]
