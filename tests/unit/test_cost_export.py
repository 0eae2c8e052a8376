"""A month of the ledger as a file: over real HTTP from a real store, to the command line."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path

import aiohttp
import pytest
from focus_data_toolkit.model.validator import lint_focus_1_4_structure

from longshore.dispatcher.api.routes import cost_files
from longshore.dispatcher.api.routes.streams import StreamGate
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.cli import client as cli_client
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cost.correction_lines import FileRow
from longshore.dispatcher.cost.focus import ExportFormat
from longshore.dispatcher.cost.report import Seen
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.service.contracts import Forbidden, Unavailable
from longshore.dispatcher.service.cost_exports import CostExport, CostExports, Unwanted
from longshore.dispatcher.store.errors import StoreBusy
from tests.api_server import Client, connected
from tests.cli_server import CliServer, cli_server
from tests.ledger_facts import NOW, OCTOBER, small_ledger
from tests.rigs.api import ApiRig

Capture = pytest.CaptureFixture[str]
CSV = CostExport(hours=OCTOBER, format=ExportFormat.CSV)
ROLES = {"ana": Role.USER, "bob": Role.USER, "lea": Role.LEAD, "root": Role.ADMIN}


def keep(rig: ApiRig) -> None:
    rig.store.write(small_ledger()).result(30)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server(rig=ApiRig(now=NOW)) as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        server.do(keep)
        yield server


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.usefixtures("server")
def test_a_month_is_written_as_focus_that_a_validator_takes(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "october.csv"
    assert main(["cost", "export", "--focus", "1.4", "--month", "2026-10", "-o", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert [each.name for each in tmp_path.iterdir()] == ["october.csv"]
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert lint_focus_1_4_structure("Cost and Usage", rows).messages() == []
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("0.3")
    assert {row["x_Job"] for row in rows} == {"align", "'=cmd()", ""}
    assert main(["cost", "export", "--focus", "1.2", "--month", "2026-10"]) == 0
    assert rows_of(capsys.readouterr().out)[0]["ProviderName"] == "unknown"


@pytest.mark.usefixtures("server")
def test_a_month_is_written_as_csv_with_labels(capsys: Capture) -> None:
    asked = ["--month", "2026-10", "--tz", "Europe/Berlin", "--label", "team"]
    assert main(["cost", "export", *asked]) == 0
    rows = rows_of(capsys.readouterr().out)
    # October begins two hours earlier in Berlin, and ends one hour earlier than in UTC.
    assert {row["hour"] for row in rows} == {f"2026-10-01T0{hour}:00:00Z" for hour in range(3)}
    assert {row["label:team"] for row in rows} == {"cells", ""}
    assert main(["cost", "export", "--csv", "--month", "2026-09", "--tz", "America/Lima"]) == 0
    assert len(rows_of(capsys.readouterr().out)) == len(rows), "in Lima it is still September"
    assert main(["cost", "export", "--month", "2026-11"]) == 0
    assert rows_of(capsys.readouterr().out) == []


@pytest.mark.usefixtures("server")
def test_the_report_stays_what_the_command_is_by_itself(capsys: Capture) -> None:
    assert main(["cost", "--from", "2026-10", "--to", "2026-11", "--by", "user", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["items"]
    assert {each["by"]["user"]: each["amounts"]["total"] for each in found} == {
        "ana": 0.1,
        "bob": 0.05,
        "(none)": 0.15,
    }
    assert main(["cost"]) == 0
    assert "total" in capsys.readouterr().out
    assert main(["cost", "--by", "user", "export"]) == 2
    assert "--by before 'export'" in capsys.readouterr().err
    assert main(["cost", "export", "--csv", "--focus", "1.4"]) == 2
    assert "give one of them" in capsys.readouterr().err


@pytest.mark.usefixtures("server")
def test_what_a_table_does_not_show_is_told_and_json_has_all(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["cost", "--from", "2026-10", "--to", "2026-11", "--by", "user"]
    assert main([*asked, "--limit", "1"]) == 0
    shown, more = capsys.readouterr()
    assert ("ana" in shown, "bob" in shown, "0.30" in shown) == (False, False, True)
    assert "rows that are not shown: 2 (--limit); the total is that of all" in more
    assert main([*asked, "--limit", "3"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*asked, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(cli_client, "PAGE_ITEMS", 1)
    assert main([*asked, "--limit", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == whole
    assert [each["by"]["user"] for each in whole["items"]] == ["(none)", "ana", "bob"]


@pytest.mark.usefixtures("server")
def test_a_file_that_cannot_be_written_is_told_and_the_old_one_stays(
    tmp_path: Path, capsys: Capture
) -> None:
    assert main(["cost", "export", "-o", str(tmp_path / "none" / "x.csv")]) == 1
    assert "Name another file with -o" in capsys.readouterr().err
    path = tmp_path / "x.csv"
    path.write_text("old")
    assert main(["cost", "export", "--month", "2026-13", "-o", str(path)]) == 2
    assert 'is no month: write it as "2026-10"' in capsys.readouterr().err
    assert path.read_text() == "old"


def breaking(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Have the store refuse to be read behind so many lines."""
    really = CostExports.lines

    def lines(
        exports: CostExports, hours: range, seen: Seen, wanted: Callable[[], bool]
    ) -> Iterator[FileRow]:
        yield from islice(really(exports, hours, seen, wanted), after)
        raise StoreBusy("too much is read already")

    monkeypatch.setattr(CostExports, "lines", lines)


@pytest.mark.usefixtures("server")
def test_a_file_that_is_cut_off_is_told_and_the_old_one_stays(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_files, "_ROWS_AT_ONCE", 1)
    breaking(monkeypatch, after=2)
    path = tmp_path / "x.csv"
    path.write_text("old")
    assert main(["cost", "export", "--month", "2026-10", "-o", str(path)]) in {1, 3}
    assert capsys.readouterr().err != ""
    assert [each.name for each in tmp_path.iterdir()] == ["x.csv"]
    assert path.read_text() == "old"


async def test_a_store_that_cannot_be_read_is_told_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaking(monkeypatch, after=0)
    async with connected(ApiRig(now=NOW)) as client:
        status, answer = await client.call("GET", "/v1/cost/export?month=2026-10")
        assert (status, answer["detail"]) == (503, "too much is read already")


async def test_exports_are_few_at_a_time() -> None:
    limits = replace(ApiLimits(), concurrent_exports=0)
    async with connected(ApiRig(now=NOW), limits=limits) as client:
        status, answer = await client.call("GET", "/v1/cost/export?month=2026-10")
        assert status == 503
        assert "0 exports of cost at most" in answer["detail"]


async def test_a_caller_has_one_export_at_a_time() -> None:
    gate = StreamGate(limit=4, what="exports of cost", each=1)

    async def refused(who: str) -> str:
        try:
            with gate.admit(who):
                return ""
        except Unavailable as error:
            return str(error)

    with gate.admit("ana"):
        said = await asyncio.create_task(refused("ana"))
        assert said == "You have 1 of the exports of cost already: wait for its end."
        assert await asyncio.create_task(refused("bob")) == ""
    assert await refused("ana") == ""
    with gate.admit(""):
        assert await asyncio.create_task(refused("")) == "", "who is held to no share"


async def test_a_file_that_nobody_waits_for_is_given_up_before_its_next_day() -> None:
    rig = ApiRig(now=NOW)
    nobody = caller("bob", "genome")
    async with rig.served() as services:
        keep(rig)
        asked: list[int] = []

        def wanted() -> bool:
            asked.append(1)
            return len(asked) < 2

        rows = services.exports.file_for(nobody, CSV, wanted=wanted)
        assert next(rows).startswith("hour,")
        with pytest.raises(Unwanted):
            next(rows)
        assert len(asked) == 2


async def test_no_more_is_made_of_a_file_whose_reader_has_gone() -> None:
    async with connected(ApiRig(now=NOW)) as client:
        keep(client.rig)
        whole, _ = await first_piece(client, is_wanted=True)
        assert whole == 200
        status, said = await first_piece(client, is_wanted=False)
    assert status == 503
    assert "its reader has gone, or the server stops" in said


async def first_piece(client: Client, *, is_wanted: bool) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost_files, "gone", lambda _: not is_wanted)
        async with client.session.get(f"{client.url}/v1/cost/export?month=2026-10") as answer:
            return answer.status, await answer.text()


def caller(name: str, *projects: str) -> Principal:
    return Principal(user=name, role=ROLES[name], projects=projects, door=Door.TOKEN)


@pytest.mark.parametrize(
    ("who", "users"),
    [
        (caller("ana", "genome"), {"ana"}),
        (caller("bob", "genome", "vision"), {"bob"}),
        (caller("bob", "genome"), set()),
        (caller("lea", "genome"), {"ana"}),
        (caller("lea", "genome", "vision"), {"ana", "bob"}),
        (caller("root"), {"ana", "bob", ""}),
    ],
)
async def test_a_caller_is_given_what_it_sees(who: Principal, users: set[str]) -> None:
    rig = ApiRig(now=NOW)
    async with rig.served() as services:
        keep(rig)
        rows = rows_of("".join(services.exports.file_for(who, CSV)))
        assert {row["user"] for row in rows} == users
        if who.role is not Role.ADMIN:
            focus = CostExport(hours=OCTOBER, format=ExportFormat.FOCUS_1_4)
            with pytest.raises(Forbidden, match="ask for format=csv"):
                services.exports.file_for(who, focus)


async def test_what_is_wrong_with_a_question_is_told_at_once() -> None:
    async with connected(ApiRig(now=NOW)) as client:
        many = ",".join(f"k{number}" for number in range(21))
        asked = f"month=October&format=focus-1.4&tz=Mars&label={many}"
        status, answer = await client.call("GET", f"/v1/cost/export?{asked}")
        assert status == 400
        assert [each["path"] for each in answer["errors"]] == [
            *("tz", "month", "tz", "label", "label")
        ]


async def test_a_file_is_sent_whole_and_says_what_it_is() -> None:
    rig = ApiRig(now=NOW)
    async with connected(rig) as client:
        keep(rig)
        whole = "".join(rig.services.exports.file_for(caller("root"), CSV)).encode()
        assert await exported(client) == ("text/csv", "utf-8", whole)


async def exported(client: Client) -> tuple[str, str | None, bytes]:
    url = f"{client.url}/v1/cost/export?month=2026-10"
    async with client.session.get(url) as response:
        assert isinstance(response, aiohttp.ClientResponse)
        return response.content_type, response.charset, await response.read()
