"""`longshore leaks` and `GET /v1/leaks` over real HTTP: what they show, and the exit codes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.api.render.instances import leak_list
from longshore.dispatcher.api.render.values import encode
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.views import LeakReport
from longshore.drivers.interface import Leftover
from longshore.pool.leaks import Leak, LeakKind, LeftBehind, LeftoverReport
from tests.api_server import connected
from tests.cli_server import cli_server
from tests.rigs.api import EPOCH
from tests.stranger_server import Stranger, answering, stranger_server

Capture = pytest.CaptureFixture[str]

INSTANCE = Leak(
    instance_id="i-7",
    launch_token="",
    type_name="small",
    price_usd_per_hour=Decimal("0.34"),
    kind=LeakKind.DESTROY_FAILING,
    since=EPOCH,
    cost_usd=Decimal("0.00170000"),
    why="it is being shut down, and the last 2 destroy calls failed: no \x1b[31mpermission",
    remedy="mend what the error says",
)
LAUNCH = Leak(
    instance_id="",
    launch_token="t-1",
    type_name="old",
    price_usd_per_hour=Decimal(0),
    kind=LeakKind.LAUNCH_UNANSWERED,
    since=EPOCH,
    cost_usd=Decimal(0),
    why="nobody knows",
    remedy="look for t-1",
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Stranger]]:
    """Serve what the tests tell, as the API renders it."""
    with stranger_server() as (url, server):
        monkeypatch.setenv("LONGSHORE_URL", url)
        tell(server)
        yield server


def tell(
    server: type[Stranger],
    *leaks: Leak,
    complete: bool = True,
    listed_at: float = EPOCH,
    leftovers_problem: str = "",
) -> None:
    report = LeakReport(
        leaks=leaks,
        listed_at=listed_at,
        complete=complete,
        leftovers_problem=leftovers_problem,
    )
    server.behaviours[:] = [answering(200, encode(leak_list(report)))]


def test_no_leak_is_0(server: type[Stranger], capsys: Capture) -> None:
    assert main(["leaks"]) == 0
    assert capsys.readouterr() == ("nothing is billed that is not wanted\n", "")
    assert main(["leaks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "store_problem": None,
        "leftovers_problem": None,
        "items": [],
        "next_cursor": None,
        "listed_at": "2023-11-14T22:13:20.000Z",
        "complete": True,
    }
    assert [path.partition("?")[0] for _, path, _, _ in server.seen] == ["/v1/leaks"] * 2


def test_leaks_are_1_with_a_table_and_a_total(server: type[Stranger], capsys: Capture) -> None:
    minute_ago = replace(INSTANCE, since=time.time() - 125)
    tell(server, minute_ago, replace(minute_ago, instance_id="i-8"), LAUNCH)
    assert main(["leaks"]) == 1
    captured = capsys.readouterr()
    header, first, second, third, _, total = captured.out.splitlines()
    assert header.split() == ["INSTANCE", "TYPE", "FOR", "PRICE", "COST", "WHY", "REMEDY"]
    assert first.split()[:5] == ["i-7", "small", "2m05s", "$0.34/h", "$0.001700"]
    assert "failed: no \\x1b[31mpermission" in first
    assert first.endswith("mend what the error says")
    assert second.startswith("i-8")
    assert third.split()[:2] == ["-", "old"]
    assert third.split()[3:5] == ["-", "-"]
    assert total == "3 in all, $0.68/h, $0.003400 so far, 1 of unknown price"
    assert captured.err == ""


def test_a_launch_without_an_answer_has_cost_up_to_what_is_uncertain(
    server: type[Stranger], capsys: Capture
) -> None:
    perhaps = replace(
        LAUNCH, price_usd_per_hour=Decimal("0.34"), uncertain_usd=Decimal("0.001400000000")
    )
    tell(server, INSTANCE, perhaps)
    assert main(["leaks"]) == 1
    _, _, launch, _, total = capsys.readouterr().out.splitlines()
    assert "$0.34/h  up to $0.001400  nobody knows" in launch
    assert total == "2 in all, $0.68/h, $0.001700 so far, $0.001400 uncertain"


def test_json_has_all_of_it(server: type[Stranger], capsys: Capture) -> None:
    tell(server, INSTANCE, LAUNCH)
    assert main(["leaks", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)["items"]
    assert first == {
        "instance": "i-7",
        "launch": None,
        "instance_type": "small",
        "price_usd_per_hour": 0.34,
        "kind": "destroy_failing",
        "since": "2023-11-14T22:13:20.000Z",
        "cost_usd": 0.0017,
        "why": INSTANCE.why,
        "remedy": "mend what the error says",
        "resource": None,
        "uncertain_usd": 0,
    }
    assert (second["instance"], second["launch"], second["price_usd_per_hour"]) == (
        None,
        "t-1",
        None,
    )


@pytest.mark.parametrize(
    ("listed_at", "when"), [(0.0, "(none came yet)"), (EPOCH, "(the last one is ")]
)
def test_a_list_that_is_not_complete_is_1_and_says_why(
    server: type[Stranger], capsys: Capture, listed_at: float, when: str
) -> None:
    tell(server, complete=False, listed_at=listed_at)
    assert main(["leaks"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(
        "longshore: something may be billed and not wanted: the server has no current listing"
    )
    assert when in captured.err
    # So the log has it: test_effects_logs.
    assert "its log for 'a driver call failed' of ListInstances" in captured.err
    assert main(["leaks", "--json"]) == 1
    captured = capsys.readouterr()
    assert not json.loads(captured.out)["complete"]
    assert len(captured.err.splitlines()) == 1
    tell(server, INSTANCE, complete=False)
    assert main(["leaks"]) == 1
    captured = capsys.readouterr()
    assert "i-7" in captured.out
    assert captured.err.startswith("longshore: more may be billed")


def test_what_is_billed_in_fact_is_told(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    leftover = Leftover(id="vol-7", kind="volume")
    with cli_server() as real:
        monkeypatch.setenv("LONGSHORE_URL", real.url)
        assert main(["leaks"]) == 0
        left = LeftBehind(leftover=leftover, since=real.rig.now, looks=9)
        real.do(lambda rig: setattr(rig, "leftovers", LeftoverReport(items=(left,))))
        assert main(["leaks"]) == 1
    assert "vol-7" in capsys.readouterr().out


def test_no_server_is_3(capsys: Capture) -> None:
    assert main(["leaks", "--url", "http://127.0.0.1:1"]) == 3
    assert capsys.readouterr().out == ""


async def test_the_route_takes_no_parameters_and_is_documented() -> None:
    async with connected() as client:
        assert (await client.call("GET", "/v1/leaks"))[0] == 200
        assert (await client.call("GET", "/v1/leaks?state=x"))[0] == 400
        assert (await client.call("POST", "/v1/leaks", json={}))[0] == 405
        _, document = await client.call("GET", "/openapi.json")
    assert document["paths"]["/v1/leaks"]["get"]["summary"] == "List what is billed and not wanted"
    assert set(document["components"]["schemas"]["LeakList"]["required"]) == {
        "items",
        "listed_at",
        "complete",
    }


def test_what_an_instance_left_is_told_by_its_own_id(
    server: type[Stranger], capsys: Capture
) -> None:
    left = replace(
        LAUNCH, launch_token="", resource_id="vol-7", type_name="", kind=LeakKind.LEFT_BEHIND
    )
    tell(server, left)
    assert main(["leaks"]) == 1
    assert "vol-7" in capsys.readouterr().out
    assert main(["leaks", "--json"]) == 1
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["resource"], item["instance"], item["launch"]) == ("vol-7", None, None)


def test_that_nobody_may_look_for_what_is_left_is_said_and_is_no_leak(
    server: type[Stranger], capsys: Capture
) -> None:
    tell(server, leftovers_problem="the credentials may not look")
    assert main(["leaks"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "nothing is billed that is not wanted\n"
    assert "what stays of instances that are gone is not seen: the cred" in captured.err
