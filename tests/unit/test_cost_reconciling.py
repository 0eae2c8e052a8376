"""A cloud's bill against a real ledger, from the file to what reports say afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.cli import bill_sums as sums_module
from longshore.dispatcher.cli.bill_sums import bill_sums
from longshore.dispatcher.cli.commands import cost_files
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cost.bills import BillLine, ChargeKind
from longshore.dispatcher.cost.reconcile import Correction, Part, piece_of, shared_out
from longshore.dispatcher.domain.ledger import PrepaidRow, Total
from longshore.dispatcher.domain.messages import AddPrices
from tests.api_server import connected
from tests.bill_samples import CUR_ROW, written
from tests.cli_server import CliServer, cli_server
from tests.ledger_facts import BILL, NOW, OCTOBER, small_ledger
from tests.rigs.api import ApiRig

Capture = pytest.CaptureFixture[str]
INSTANCES = ("i-0a1", "i-0a2", "i-0a3")
TAG = '{"user_longshore_cluster":"default"}'


def keep(rig: ApiRig) -> None:
    bills = [replace(BILL, instance_id=id_) for id_ in INSTANCES]
    rig.store.write(small_ledger(bills)).result(30)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server(rig=ApiRig(now=NOW)) as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        server.do(keep)
        yield server


def hour_of(instance_id: str, hour: int, cost: str, *, hours: str = "1") -> dict[str, str]:
    return CUR_ROW | {
        "line_item_usage_start_date": f"2026-10-01T0{hour}:00:00Z",
        "line_item_usage_end_date": f"2026-10-01T0{hour + 1}:00:00Z",
        "line_item_resource_id": instance_id,
        "line_item_usage_amount": hours,
        "line_item_unblended_cost": cost,
        "pricing_public_on_demand_cost": str(Decimal("0.1") * Decimal(hours)),
        "resource_tags": TAG,
    }


def october(path: Path) -> Path:
    """Write a bill: a discount of 20 % on the first, an hour less of the second, one unknown."""
    rows = [hour_of("i-0a1", hour, "0.08") for hour in range(3)]
    rows += [hour_of("i-0a2", hour, "0.1") for hour in range(2)]
    rows += [hour_of("i-0a3", hour, "0.1") for hour in range(3)]
    rows += [hour_of("i-leak", 0, "0.7"), hour_of("i-elsewhere", 0, "9") | {"resource_tags": ""}]
    return written(path, rows)


def told(path: Path, capsys: Capture, *options: str) -> dict[str, Any]:
    assert main(["cost", "reconcile", str(path), "--json", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_what_is_prepaid_is_compared_with_no_row_of_a_bill(
    server: CliServer, tmp_path: Path, capsys: Capture
) -> None:
    bill = october(tmp_path / "bill.csv")
    before = told(bill, capsys)
    row = PrepaidRow(
        type_name="large", provider_type="m5.large", valid_from_ms=BILL.created_ms, number=7
    )
    server.do(lambda rig: rig.store.write([AddPrices(rows=(), prepaid=(row,))]).result(30))
    assert "unused" in report(capsys, "state")
    assert told(bill, capsys) == before


def report(capsys: Capture, by: str = "user") -> dict[str, float]:
    asked = ["--from", "2026-10", "--to", "2026-11", "--by", by, "--json"]
    assert main(["cost", *asked]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    return {each["by"][by]: each["amounts"]["total"] for each in items}


@pytest.mark.usefixtures("server")
def test_a_bill_is_compared_and_nothing_is_booked(tmp_path: Path, capsys: Capture) -> None:
    path, before = october(tmp_path / "october.csv"), report(capsys)
    found = told(path, capsys, "--final")
    assert found["parts"] == {
        "total": 0.54,
        "time": 0,
        "price": 0,
        "discount": -0.06,
        "not_modelled": 0,
        "only_in_bill": 0.7,
        "only_in_ledger": -0.1,
    }
    assert (found["billed"], found["booked"], found["elsewhere"]) == (1.44, 0.9, 9)
    different = [(each["instance_id"], each["parts"]["total"]) for each in found["instances"]]
    assert different == [("i-leak", 0.7), ("i-0a2", -0.1), ("i-0a1", -0.06), ("i-0a3", 0)]
    assert found["corrections"] == 0
    assert report(capsys) == before
    assert main(["cost", "reconcile", str(path), "--limit", "1"]) == 0
    shown, more = capsys.readouterr()
    assert "i-leak" in shown
    assert "i-0a2" not in shown
    assert "--apply books what is missing" in shown
    assert "instances that are not shown: 3 (--limit)" in more
    assert len(told(path, capsys, "--final", "--limit", "1")["instances"]) == 4


@pytest.mark.usefixtures("server")
def test_what_is_applied_is_in_reports_and_the_same_bill_again_books_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    path = october(tmp_path / "october.csv")
    assert report(capsys) == {"ana": 0.3, "bob": 0.15, "(none)": 0.45}
    first = told(path, capsys, "--final", "--apply")
    assert first["corrections"] > 0
    # The discount is ana's, bob's and nobody's by what they paid of it; the hour that the bill
    # lacks and the instance that nobody knows are nobody's.
    assert report(capsys) == {"ana": 0.28, "bob": 0.14, "(none)": 1.02}
    assert report(capsys, "cause")["correction"] == 0.7
    again = told(path, capsys, "--final", "--apply")
    assert (again["corrections"], again["parts"]["total"]) == (0, 0)
    assert sum(report(capsys).values()) == pytest.approx(1.44)
    # A later bill of the same month books what it has changed, and no more: a cent less of ana.
    text = path.read_text()
    path.write_text(text.replace("0.08", "0.07", 1))
    assert told(path, capsys, "--final", "--apply")["parts"]["total"] == -0.01
    assert report(capsys) == {"ana": 0.27, "bob": 0.14, "(none)": 1.02}


@pytest.mark.usefixtures("server")
def test_until_a_bill_is_final_what_ran_after_its_end_stays(
    tmp_path: Path, capsys: Capture
) -> None:
    rows = [hour_of(id_, 0, "0.1") for id_ in INSTANCES]
    found = told(written(tmp_path / "so_far.csv", rows), capsys, "--apply")
    assert (found["parts"]["only_in_ledger"], found["corrections"]) == (-0.6, 0)


@pytest.mark.usefixtures("server")
def test_a_bill_in_pieces_says_what_it_does_in_one(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, server: CliServer
) -> None:
    path = october(tmp_path / "october.csv")
    whole = told(path, capsys, "--final")
    server.paths.clear()
    monkeypatch.setattr(sums_module, "BILL_ROWS_MOST", 6)
    assert told(path, capsys, "--final") == whole
    assert server.paths.count("/v1/cost/reconcile") >= 2


@pytest.mark.usefixtures("server")
def test_all_pages_of_a_difference_are_had(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = october(tmp_path / "october.csv")
    whole = told(path, capsys, "--final")
    monkeypatch.setattr(cost_files, "PAGE_INSTANCES", 1)
    assert told(path, capsys, "--final") == whole


def halves(directory: Path, names: tuple[str, str] = ("p-1.csv", "p-2.csv")) -> list[Path]:
    """Write the bill of `october` in two files: instances by instances."""
    directory.mkdir(parents=True)
    lines = october(directory / "whole").read_text().splitlines(keepends=True)
    (directory / "whole").unlink()
    (directory / names[0]).write_text("".join(lines[:5]))
    (directory / names[1]).write_text("".join([lines[0], *lines[5:]]))
    return [directory / name for name in names]


@pytest.mark.usefixtures("server")
def test_a_bill_in_files_is_one_bill_by_name_folder_or_manifest(
    tmp_path: Path, capsys: Capture
) -> None:
    whole = told(october(tmp_path / "october.csv"), capsys, "--final")
    first, second = halves(tmp_path / "bill" / "data" / "BILLING_PERIOD=2026-10")
    assert told(first, capsys, "--final", str(second)) == whole
    assert told(tmp_path / "bill", capsys, "--final") == whole
    # An earlier version of the export lies there, too: the manifest says what counts.
    (first.parent / "old.csv").write_text(first.read_text() + "\n")
    listed = [
        f"s3://bucket/bills/data/BILLING_PERIOD=2026-10/{each}" for each in ("p-1.csv", "p-2.csv")
    ]
    manifest = tmp_path / "bill" / "metadata" / "october-Manifest.json"
    manifest.parent.mkdir()
    manifest.write_text(json.dumps({"dataFiles": listed, "executionId": "7"}))
    assert told(tmp_path / "bill", capsys, "--final") == whole
    assert told(manifest, capsys, "--final") == whole


def refused(capsys: Capture, *given: object) -> str:
    assert main(["cost", "reconcile", *map(str, given)]) == 2
    return capsys.readouterr().err


@pytest.mark.usefixtures("server")
def test_what_is_wrong_with_the_files_of_a_bill_is_told(tmp_path: Path, capsys: Capture) -> None:
    first, second = halves(tmp_path / "bill")
    twin = tmp_path / "twin.csv"
    twin.write_bytes(first.read_bytes())
    assert f"{twin}: has the same content as {first}" in refused(capsys, first, second, twin)
    manifest = tmp_path / "bill" / "a-Manifest.json"
    manifest.write_text(json.dumps({"dataFiles": ["s3://b/p-1.csv", "s3://b/p-3.csv"]}))
    assert "lists s3://b/p-3.csv, which is not there" in refused(capsys, tmp_path / "bill")
    (tmp_path / "bill" / "b-Manifest.json").write_text("{}")
    assert "has more than one manifest" in refused(capsys, tmp_path / "bill")
    assert "is no manifest of an export" in refused(capsys, tmp_path / "bill" / "b-Manifest.json")
    (tmp_path / "none").mkdir()
    assert "has no file that ends in .csv" in refused(capsys, tmp_path / "none")
    bad = written(tmp_path / "bad.csv", [CUR_ROW | {"line_item_usage_amount": "much"}])
    assert f"{bad}: row 2" in refused(capsys, first, bad)


@pytest.mark.usefixtures("server")
def test_a_part_of_a_bill_is_not_taken_for_the_whole(
    tmp_path: Path, capsys: Capture, server: CliServer
) -> None:
    before = report(capsys)
    part = written(tmp_path / "part.csv", [hour_of(id_, 1, "0.1") for id_ in INSTANCES[:2]])
    server.paths.clear()
    assert "the ledger has instance hours (6) before" in refused(capsys, part, "--final", "--apply")
    assert "say --partial" in refused(capsys, part, "--apply")
    assert report(capsys) == before
    found = told(part, capsys, "--final", "--partial", "--apply")
    # In the hour that the part has, the third instance was not billed.
    assert (found["corrections"], found["not_covered_hours"]) == (2, 0)
    assert report(capsys) == {"ana": 0.3, "bob": 0.1, "(none)": 0.4}


async def test_a_piece_of_a_part_is_refused_by_the_server_too() -> None:
    rig = ApiRig(now=NOW)
    async with connected(rig) as client:
        keep(rig)
        piece = {
            "month": "2026-10",
            "piece": 0,
            "pieces": 1,
            "rows": [],
            "billed_from_hour": OCTOBER.start + 1,
            "billed_until_hour": OCTOBER.start + 2,
            "file": "x",
            "sha256": "0" * 64,
            "apply": True,
        }
        status, answer = await client.post("/v1/cost/reconcile", piece)
        assert (status, answer["errors"][0]["path"]) == (400, "partial")
        assert "(3) before the bill's first hour" in answer["errors"][0]["message"]
        status, answer = await client.post("/v1/cost/reconcile", piece | {"partial": True})
        assert status == 200


@pytest.mark.usefixtures("server")
def test_a_file_that_is_no_bill_is_refused_with_all_that_is_wrong(
    tmp_path: Path, capsys: Capture, server: CliServer
) -> None:
    rows = [CUR_ROW | {"line_item_usage_amount": "much"}, CUR_ROW | {"resource_tags": "["}]
    path = written(tmp_path / "bill.csv", rows)
    assert main(["cost", "reconcile", str(path), "--apply"]) == 2
    shown = capsys.readouterr().err
    assert "cannot be used as a bill" in shown
    assert "row 2" in shown
    assert "/v1/cost/reconcile" not in server.paths


async def test_what_is_wrong_with_a_piece_is_told_at_once() -> None:
    row = {
        "resource_id": "i-1",
        "first_hour": 5,
        "end_hour": 5,
        "kind": "instance",
        "usage_s": None,
        "list_cost": None,
        "effective_cost": "1",
    }
    piece = {
        "month": "2026-13",
        "piece": 1 - piece_of("i-1", 2) + 2,
        "pieces": 2,
        "rows": [row],
        "billed_from_hour": None,
        "billed_until_hour": None,
        "file": "x",
        "sha256": "0" * 64,
    }
    async with connected(ApiRig(now=NOW)) as client:
        status, answer = await client.post("/v1/cost/reconcile", piece)
    assert status == 400
    assert [each["path"] for each in answer["errors"]] == [
        *("month", "piece", "rows[0].end_hour", "rows[0].resource_id")
    ]


def billed(resource_id: str, first_hour: int = OCTOBER.start, **changes: Any) -> BillLine:
    line = BillLine(
        resource_id=resource_id,
        first_hour=first_hour,
        end_hour=first_hour + 1,
        kind=ChargeKind.INSTANCE,
        usage_s=Decimal(10),
        list_cost=None,
        billed_cost=Decimal(1),
        effective_cost=Decimal("0.1"),
        currency="USD",
    )
    return replace(line, **changes)


def pieces_of(lines: Sequence[BillLine]) -> list[dict[str, Any]]:
    return list(bill_sums(lines).pieces())


def test_rows_of_an_hour_are_sent_as_their_sum() -> None:
    [piece] = pieces_of([billed("i-1"), billed("i-1", usage_s=Decimal("0.5"))])
    [row] = piece["rows"]
    assert (row["usage_s"], row["list_cost"], row["effective_cost"]) == ("10.5", "0.2", "0.2")
    [piece] = pieces_of([billed("i-1"), billed("i-1", usage_s=None)])
    assert piece["rows"][0]["usage_s"] is None
    assert bill_sums([billed("i-1", first_hour=9)]).month() == "1970-01"


def test_an_instance_is_in_one_piece_however_it_is_written() -> None:
    for pieces in (1, 2, 7, 64):
        assert piece_of("arn:aws:ec2:x:1:instance/I-0A1", pieces) == piece_of("i-0a1", pieces)
    assert {piece_of(f"i-{number}", 8) for number in range(100)} == set(range(8))


def test_a_correction_is_shared_out_to_the_last_grain() -> None:
    correction = Correction(
        instance_id="i-1",
        first_hour=0,
        end_hour=1,
        part=Part.PRICE,
        quantity_ms=-1,
        grains=-100,
    )
    [(nobody, total)] = shared_out(correction, {})
    assert (nobody.cause, total) == ("correction", Total(quantity_ms=-1, grains=-100))
    groups = {replace(nobody, user=name): Total(grains=1) for name in ("a", "b", "c")}
    parts = [total.grains for _, total in shared_out(correction, groups)]
    assert sorted(parts) == [-34, -33, -33]
    unpriced = {each: Total(quantity_ms=ms) for each, ms in zip(groups, (1, 3, 0), strict=True)}
    assert [total.grains for _, total in shared_out(correction, unpriced)] == [-25, -75]
